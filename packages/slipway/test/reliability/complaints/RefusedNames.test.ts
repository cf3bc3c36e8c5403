/**
 * A service in a network of its own, whose only resolver is this test: so each question that it asks is seen. `ip netns exec` shows its
 * programs the `resolv.conf` of that network.
 */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { createSocket, type Socket } from "node:dgram"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { environment, folder, repository, run, serviceOf, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"
import * as World from "./World.ts"

const hasNetworks = World.hasBoxes && World.rootWith("ip", ["-V"], "which names become questions to a resolver")

const ip = (...args: ReadonlyArray<string>) => void execFileSync("ip", args, { stdio: "pipe" })

/** A network that this host shares at 10.232.0.1, and programs in it are at 10.232.0.2. */
const network = Effect.acquireRelease(
  Effect.sync(() => {
    const name = `slipway-names-${process.pid}`
    const [here, there] = [`swn${process.pid}a`.slice(0, 15), `swn${process.pid}b`.slice(0, 15)]
    ip("netns", "add", name)
    ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
    ip("addr", "add", "10.232.0.1/30", "dev", here)
    ip("link", "set", here, "up")
    ip("-n", name, "addr", "add", "10.232.0.2/30", "dev", there)
    ip("-n", name, "link", "set", there, "up")
    ip("-n", name, "link", "set", "lo", "up")
    ip("-n", name, "route", "add", "default", "via", "10.232.0.1")
    mkdirSync(`/etc/netns/${name}`, { recursive: true })
    writeFileSync(`/etc/netns/${name}/resolv.conf`, "nameserver 10.232.0.1\noptions timeout:1 attempts:1\nsearch inner.test\n")
    return name
  }),
  (name) =>
    Effect.sync(() => {
      rmSync(`/etc/netns/${name}`, { recursive: true, force: true })
      ip("netns", "delete", name)
    })
)

/** The name that a DNS message asks for (RFC 1035, 4.1.2). */
const nameIn = (message: Buffer) => {
  const labels: Array<string> = []
  for (let at = 12; (message[at] ?? 0) > 0; at += 1 + (message[at] ?? 0)) {
    labels.push(message.toString("latin1", at + 1, at + 1 + (message[at] ?? 0)))
  }
  return labels.join(".")
}

/** Knows no name, and keeps each that it was asked for. */
const resolver = Effect.gen(function*() {
  const asked: Array<string> = []
  yield* Effect.acquireRelease(
    Effect.callback<Socket>((resume) => {
      const socket = createSocket("udp4", (message, { address, port }) => {
        asked.push(nameIn(message))
        const answer = Buffer.from(message)
        answer.writeUInt16BE(0x8183, 2)
        socket.send(answer, port, address)
      })
      socket.bind(53, "10.232.0.1", () => resume(Effect.succeed(socket)))
    }),
    (socket) => Effect.sync(() => socket.close())
  )
  return asked
})

/** Asks the box's way out for each, and the system's resolver, and says how it went. */
const PROGRAM = (names: ReadonlyArray<string>) => `
import { request } from "node:http"
import { lookup } from "node:dns/promises"
const proxy = new URL(process.env.HTTPS_PROXY ?? process.env.https_proxy)
for (const name of ${JSON.stringify(names)}) {
  await lookup(name.split(":")[0]).then(() => console.log(name, "resolved"), () => {})
  await new Promise((done) => request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path: name })
    .on("connect", ({ statusCode }, socket) => { console.log(name, statusCode); socket.destroy(); done() })
    .on("response", (reply) => { console.log(name, reply.statusCode); reply.destroy(); done() })
    .on("error", ({ message }) => { console.log(name, message); done() }).end())
}
`

const REFUSED = ["secret-of-the-repository.attacker.example:443", "allowed.example:80", "sub.allowed.example:443",
  "allowed.example.attacker.example:443"]
const ALLOWED = "allowed.example:443"
/** The network has no other user. */
const PORT = "4000"

it.live.skipIf(!hasNetworks)(
  "a refused name that becomes a DNS query: none does, and an allowed one does",
  () =>
    Effect.gen(function*() {
      const name = yield* network
      const asked = yield* resolver
      const data = yield* folder
      const shop = repository(data)
      writeFileSync(path.join(shop, "ask.mjs"), PROGRAM([...REFUSED, ALLOWED]))
      execFileSync("git", ["-C", shop, "add", "--all"])
      execFileSync("git", ["-C", shop, "-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", "commit", "--quiet", "--message", "Ask"])
      const { key } = yield* serviceOf({
        dataDir: data,
        through: ["ip", "netns", "exec", name],
        env: environment(data, {
          SLIPWAY_ISOLATION: "bubblewrap",
          SLIPWAY_HOST: "10.232.0.2",
          SLIPWAY_PORT: PORT,
          SLIPWAY_PUBLIC_URL: "https://slipway.test",
          SLIPWAY_EGRESS_ALLOW: ALLOWED
        })
      })
      yield* run(data, ["repos", "add", "acme/shop", shop])
      const url = `http://10.232.0.2:${PORT}`
      yield* until(Effect.promise(() => fetch(`${url}/readyz`).then(({ status }) => status, () => 0)), (status) => status === 200)
      const api = Api.make({ url, key })

      const id = yield* api.create({ prompt: "[[shell node ask.mjs > answers.txt 2>&1]]" })
      yield* api.event(id, "turn.completed")
      const answers = (yield* api.file(id, "answers.txt")).trim().split("\n")
      assert.deepStrictEqual(answers, [...REFUSED.map((refused) => `${refused} 403`), `${ALLOWED} 502`])
      assert.deepStrictEqual([...new Set(asked)], ["allowed.example"])
    }).pipe(Effect.scoped)
)
