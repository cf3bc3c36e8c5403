/** A service on a machine without IPv4, not even on loopback: from its start to a pull request. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { command, environment, folder, repository, run, runIn, serviceOf, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

const absent = process.getuid?.() === 0 && spawnSync("ip", ["netns"]).status === 0 ? "" : " (needs ip: apt-get install iproute2, as root)"
const withoutBoxes = absent === "" && spawnSync("bwrap", ["--version"]).status !== 0
  ? " (needs bubblewrap: apt-get install bubblewrap)"
  : absent

const ip = (...args: ReadonlyArray<string>) => void execFileSync("ip", args, { stdio: "pipe" })

const HOST = "fd5a:6c69:7077::2"
const PORT = "4000"
const URL_OF_SERVICE = `http://[${HOST}]:${PORT}`

/** A network without IPv4, which this machine reaches at {@link HOST}. */
const network = Effect.acquireRelease(
  Effect.sync(() => {
    const name = `slipway-six-${process.pid}`
    const [here, there] = [`sws${process.pid}a`.slice(0, 15), `sws${process.pid}b`.slice(0, 15)]
    ip("netns", "add", name)
    ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
    ip("addr", "add", "fd5a:6c69:7077::1/64", "dev", here, "nodad")
    ip("link", "set", here, "up")
    ip("-n", name, "addr", "add", `${HOST}/64`, "dev", there, "nodad")
    ip("-n", name, "link", "set", there, "up")
    ip("-n", name, "link", "set", "lo", "up")
    ip("-n", name, "-4", "addr", "flush", "dev", "lo")
    return name
  }),
  (name) => Effect.sync(() => ip("netns", "delete", name))
)

/** A service in that network, with a repository. */
const started = Effect.fnUntraced(function*(settings: Readonly<Record<string, string>>) {
  const name = yield* network
  assert.notInclude(execFileSync("ip", ["-n", name, "addr"]).toString(), "inet ")
  const data = yield* folder
  const shop = repository(data)
  const service = yield* serviceOf({
    dataDir: data,
    through: ["ip", "netns", "exec", name],
    env: environment(data, { SLIPWAY_HOST: HOST, SLIPWAY_PORT: PORT, ...settings })
  })
  yield* run(data, ["repos", "add", "acme/shop", shop])
  yield* until(
    Effect.promise(() => fetch(`${URL_OF_SERVICE}/readyz`).then(({ status }) => status, () => 0)),
    (status) => status === 200
  )
  return { data, shop, service, api: Api.make({ url: URL_OF_SERVICE, key: service.key }) }
})

const work = Effect.fnUntraced(function*(settings: Readonly<Record<string, string>>) {
  const { api, data, service, shop } = yield* started(settings)
  assert.strictEqual(service.url, URL_OF_SERVICE)
  const id = yield* api.create({ prompt: "[[shell echo hello > HELLO.md]]" })
  yield* api.event(id, "turn.completed")
  assert.strictEqual((yield* api.file(id, "HELLO.md")).trim(), "hello")
  yield* api.publish(id)
  yield* until(api.pull(id), ({ pullRequest }) => pullRequest !== null)
  assert.strictEqual(execFileSync("git", ["-C", shop, "show", `slipway/${id}:HELLO.md`]).toString().trim(), "hello")
  const ps = yield* runIn(data, ["ps", "--url", URL_OF_SERVICE], { SLIPWAY_API_KEY: service.key })
  assert.include(ps.stdout, "acme/shop", ps.stderr)
  return { data, service }
})

describe("a machine without IPv4", () => {
  it.live.skipIf(absent !== "")(`runs a sandbox and publishes it, without boxes${absent}`, () =>
    Effect.gen(function*() {
      const { service } = yield* work({ SLIPWAY_ISOLATION: "none" })
      assert.notMatch(service.output(), /EADDRNOTAVAIL|ENETUNREACH/u)
    }).pipe(Effect.scoped))

  it.live.skipIf(withoutBoxes !== "")(`runs a sandbox in a box and publishes it${withoutBoxes}`, () =>
    Effect.gen(function*() {
      const { service } = yield* work({ SLIPWAY_ISOLATION: "bubblewrap" })
      assert.match(service.output(), /^isolation +bubblewrap/mu)
      assert.notMatch(service.output(), /EADDRNOTAVAIL|ENETUNREACH/u)
    }).pipe(Effect.scoped))

  it.live.skipIf(absent !== "")(`says which setting names an address that this machine has${absent}`, () =>
    Effect.gen(function*() {
      const name = yield* network
      const data = yield* folder
      const program = ["netns", "exec", name, process.execPath, command, "serve"]
      const ended = spawnSync("ip", program, { env: environment(data, {}), encoding: "utf8" })
      assert.strictEqual(ended.status, 1)
      assert.strictEqual(
        ended.stderr,
        "slipway: 127.0.0.1 is no address of this machine, which has no IPv4. Set SLIPWAY_HOST=::1, or :: for all addresses.\n"
      )
    }).pipe(Effect.scoped))
})
