/** The services of compose.yaml, run as processes: only names of machines, the database, files and certificates differ. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { tables } from "@slipway/machine/kernel/SystemCalls"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { request } from "node:https"
import { tmpdir } from "node:os"
import path from "node:path"
import { parse } from "yaml"
import * as Settings from "../../src/settings/Settings.ts"
import { environment, folder, freePort, repository, run, serve, serviceOf, until } from "../commands/SlipwayProcess.ts"
import { changed, file, has, text, workspace } from "./Deploy.ts"
import { asking, caddy, certify, launched } from "./Proxy.ts"

const LONG = 300_000
const SITE = "slipway.example.com"
const PUBLIC_URL = `https://${SITE}`
const SANDBOXES = "/api/public/v1/sandboxes"

const withoutCaddy = !has("caddy", ["version"])
const withoutCompose = !has("docker-compose", ["version"])

interface Service {
  readonly environment: Readonly<Record<string, string | null>>
  readonly stop_grace_period?: string
}

const compose = (): Readonly<Record<string, Service>> =>
  parse(readFileSync(path.join(workspace, "compose.yaml"), "utf8"), { merge: true }).services

/** The environment of a service in compose.yaml, with each of `others` in the place of a name or a variable. */
const settingsOf = (service: string, others: ReadonlyArray<readonly [from: string, to: string]>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(compose()[service]?.environment ?? {}).flatMap(([name, value]) =>
      value === null ? [] : [[name, others.reduce((before, [from, to]) => before.replaceAll(from, to), value)]]
    )
  )

/** Follows a sandbox through the proxy until the scope closes: goes on after the last event it had whenever the stream breaks. */
const follow = Effect.fnUntraced(function*(port: number, address: string, key: string) {
  const ids: Array<number> = []
  let [said, breaks] = ["", 0]
  const stream = Effect.callback<void>((resume) => {
    const over = () => {
      breaks++
      resume(Effect.void)
    }
    const asked = request({
      host: "127.0.0.1",
      port,
      servername: SITE,
      rejectUnauthorized: false,
      agent: false,
      path: address,
      headers: { host: SITE, authorization: `Bearer ${key}`, "last-event-id": `${ids.at(-1) ?? 0}` }
    }, (response) => {
      let rest = ""
      response.on("data", (bytes: Buffer) => {
        const frames = (rest + bytes.toString()).split("\n\n")
        rest = frames.pop() ?? ""
        for (const frame of frames) {
          const id = /^id: ?(\d+)$/mu.exec(frame)?.[1]
          if (id !== undefined) ids.push(Number(id))
          said += `${frame}\n`
        }
      })
      response.on("error", over).on("end", over)
    })
    asked.on("error", over)
    asked.end()
    return Effect.sync(() => asked.destroy())
  })
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(stream, Effect.sleep("50 millis"))))
  return {
    /** Ids of the durable events, in the order of arrival. */
    ids,
    breaks: () => breaks,
    /** Waits until so many turns have ended. */
    turns: (n: number) => until(Effect.sync(() => said.match(/"type":"turn\.completed"/gu)?.length ?? 0), (ended) => ended >= n)
  }
})

describe("compose.yaml", () => {
  it("has only valid settings, and gives a process the time that it takes to end", () => {
    const services = compose()
    const names = Object.values(services).flatMap((service) => Object.keys(service.environment ?? {}))
    assert.include(names, "SLIPWAY_WORKER_ADDRESS")
    assert.deepStrictEqual(Settings.unknown(Object.fromEntries(names.map((name) => [name, "x"]))), [])
    for (const [name, service] of Object.entries(services)) {
      if (!/^(?:http|worker)-/u.test(name)) continue
      assert.isAtLeast(parseInt(service.stop_grace_period ?? "0", 10), name.startsWith("worker") ? 8 + 90 : 10, name)
    }
  })

  it.skipIf(withoutCompose)("is read by Docker Compose, with the settings of deploy/compose/env (needs docker-compose)", () => {
    const config = (given: string) =>
      spawnSync("docker-compose", ["--env-file", given, "--file", path.join(workspace, "compose.yaml"), "config", "--quiet"], {
        encoding: "utf8"
      })
    assert.include(config(file("compose/env")).stderr, "is set in .env")
    const at = mkdtempSync(path.join(tmpdir(), "slipway-compose-"))
    writeFileSync(path.join(at, "env"), text("compose/env").replaceAll(/PASSWORD=$/gmu, "PASSWORD=secret"))
    const { status, stderr } = config(path.join(at, "env"))
    rmSync(at, { recursive: true })
    assert.strictEqual(status, 0, stderr)
  })

  it("lets workers make no system call that their boxes may not make, but those that boxes are made with", () => {
    const profile: { readonly syscalls: ReadonlyArray<{ readonly names: ReadonlyArray<string> }> } = JSON.parse(text("image/seccomp.json"))
    const refused = new Set(profile.syscalls.flatMap(({ names }) => names))
    const allowed = Object.keys({ ...tables["x64"]?.refused, ...tables["arm64"]?.refused }).filter((name) => !refused.has(name))
    assert.sameMembers(allowed, ["unshare", "setns", "mount", "umount2", "pivot_root", "chroot"])
  })

  it.live.skipIf(withoutCaddy)(
    "goes on when a process that answers is killed and a worker is stopped: streams, turns and files (needs caddy)",
    () =>
      Effect.gen(function*() {
        const [at, ...folders] = [yield* folder, yield* folder, yield* folder, yield* folder, yield* folder] as const
        const database = yield* TestPostgres.database(Migrations.layer)
        const keyFile = path.join(at, "secrets.key")
        writeFileSync(keyFile, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 })
        certify(at, PUBLIC_URL)
        const ports = { plain: yield* freePort, secure: yield* freePort }
        const answering = [yield* freePort, yield* freePort] as const
        const others: ReadonlyArray<readonly [string, string]> = [
          [String(compose()["http-1"]?.environment["DATABASE_URL"]), database],
          ["${SITE:-localhost}", SITE],
          ["/run/secrets/secrets_key", keyFile],
          // Caddy's.
          ["172.31.230.2", "127.0.0.1"],
          ["http-1:4000", `127.0.0.1:${answering[0]}`],
          ["http-2:4000", `127.0.0.1:${answering[1]}`],
          ["worker-1:4001", `127.0.0.1:${yield* freePort}`],
          ["worker-2:4001", `127.0.0.1:${yield* freePort}`],
          ["worker-1:4002", `127.0.0.1:${yield* freePort}`],
          ["worker-2:4002", `127.0.0.1:${yield* freePort}`]
        ]
        const http = yield* Effect.forEach([1, 2] as const, (n) =>
          serve(folders[n - 1] ?? at, { ...settingsOf(`http-${n}`, others), SLIPWAY_PORT: `${answering[n - 1]}` }))
        const workers = yield* Effect.forEach([1, 2] as const, (n) =>
          Effect.gen(function*() {
            const dataDir = folders[n + 1] ?? at
            const { stop } = yield* serviceOf({ dataDir, env: environment(dataDir, settingsOf(`worker-${n}`, others)) })
            return {
              dataDir,
              leave: Effect.promise(async () =>
                (await stop("SIGTERM")).code
              )
            }
          }))
        yield* run(at, ["repos", "add", "acme/shop", repository(at)], { DATABASE_URL: database })
        const site = changed(text("caddy/Caddyfile"), [["{$SITE:slipway.example.com} {", `{$SITE} {\n\ttls ${at}/cert.pem ${at}/key.pem`]])
        yield* launched(at, caddy(at, ports, site), settingsOf("caddy", others))

        const key = http[0]?.key ?? ""
        const headers = { authorization: `Bearer ${key}` }
        const ask = asking(PUBLIC_URL, ports.secure)
        yield* until(ask("/readyz"), ({ status }) => status === 200)
        const post = Effect.fnUntraced(function*(address: string, body: object) {
          // Caddy 2.6 cannot give a body to the next process when the first is gone (its issue 7546), until it has seen that it is.
          const reply = yield* until(ask(address, { headers, body: JSON.stringify(body) }), ({ status }) => status !== 502)
          assert.isTrue(String(reply.status).startsWith("2"), `${reply.status} ${reply.body}`)
          return JSON.parse(reply.body)
        })
        const { id } = yield* post(SANDBOXES, { repos: [{ fullName: "acme/shop" }], prompt: "[[write path=a.txt content=hello]]" })
        const sandbox = `${SANDBOXES}/${id}`
        // The second goes where the first is not: to the process that has the fewest.
        const readers = [
          yield* follow(ports.secure, `${sandbox}/events/stream`, key),
          yield* follow(ports.secure, `${sandbox}/events/stream`, key)
        ]
        for (const reader of readers) yield* reader.turns(1)

        yield* http[0]?.stop("SIGKILL") ?? Effect.void
        yield* until(Effect.sync(() => readers.map((reader) => reader.breaks())), (breaks) => breaks.some((n) => n > 0))
        yield* post(`${sandbox}/messages`, { prompt: "[[write path=b.txt content=there]]" })
        for (const reader of readers) yield* reader.turns(2)
        assert.lengthOf(readers.filter((reader) => reader.breaks() === 0), 1)

        const holds = ({ dataDir }: { readonly dataDir: string }) => existsSync(path.join(dataDir, "trees/sandboxes", id))
        const [holder] = workers.filter(holds)
        const [left] = workers.filter((one) => !holds(one))
        assert.strictEqual(yield* holder?.leave ?? Effect.succeed(null), 0)
        yield* post(`${sandbox}/messages`, { prompt: "[[write path=c.txt content=all]]" })
        for (const reader of readers) yield* reader.turns(3)
        assert.isTrue(left !== undefined && holds(left))
        for (const [name, content] of [["a.txt", "hello\n"], ["b.txt", "there\n"], ["c.txt", "all\n"]]) {
          const download = yield* until(ask(`${sandbox}/files/download?path=${name}`, { headers }), ({ status }) => status !== 409)
          assert.deepStrictEqual([download.status, download.body], [200, content])
        }
        // None was missed and none came twice.
        for (const { ids } of readers) assert.deepStrictEqual(ids, ids.map((_, i) => i + 1))
        assert.strictEqual(yield* left?.leave ?? Effect.succeed(null), 0)
        assert.strictEqual((yield* http[1]?.stop("SIGTERM") ?? Effect.die("there is none")).code, 0)
      }).pipe(Effect.scoped),
    LONG
  )
})
