/** A runner that is there before its sandbox: who may tell it whose it is, once, and what it keeps of it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, type Scope } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { request } from "node:https"
import path from "node:path"
import { createInterface } from "node:readline"
import { connect as connectTls } from "node:tls"
import * as Adopting from "../src/client/Adopting.ts"
import { type Adoption, BODY_BYTES, PATH } from "../src/wire/Adoption.ts"
import * as Identity from "../src/wire/Identity.ts"
import type * as Fixture from "../testing/Fixture.ts"
import { dial, folders, program, shell, textOf } from "../testing/Fixture.ts"

const MACHINE = "7f3c9a52-0000-4000-8000-0123456789ab"

interface Waits extends Omit<Fixture.Place, "settings"> {
  /** The worker's side of the pool's keys. */
  readonly pool: Identity.Identity
  readonly adoption: Adoption
  /** Starts the program again, as Kubernetes does a container: on the port that it had. */
  readonly again: Effect.Effect<string, never, Scope.Scope>
  readonly stop: Effect.Effect<number | null>
}

/** The program, waiting. */
const waiting: Effect.Effect<Waits, never, Scope.Scope> = Effect.gen(function*() {
  const { settings: { beatMillis: _, listen: _listen, silenceMillis: _silence, ...settings }, ...made } = yield* folders
  const pool = Identity.mint()
  const file = path.join(made.folder, "pool.json")
  let port = 0
  let stop = Effect.succeed<number | null>(null)
  const launch = Effect.gen(function*() {
    const told = { waits: true, listen: { host: "127.0.0.1", port }, state: settings.state, identity: pool.runner }
    writeFileSync(file, JSON.stringify(told), { mode: 0o600 })
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => spawn(process.execPath, [program, file, MACHINE], { stdio: ["ignore", "pipe", "inherit"], env: {} })),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    const exited = once(child, "exit")
    stop = Effect.promise(async () => {
      child.kill("SIGTERM")
      const [code]: Array<number | null> = await exited
      return code ?? null
    })
    const [line = ""] = yield* Effect.promise((): Promise<Array<string>> => once(createInterface({ input: child.stdout }), "line"))
    port = JSON.parse(line).port
    return line
  })
  assert.deepStrictEqual(JSON.parse(yield* launch), { host: "127.0.0.1", port, waits: true })
  return {
    ...made,
    host: "127.0.0.1",
    port,
    pool: pool.worker,
    adoption: { machine: MACHINE, fence: 4, settings },
    again: launch,
    stop: Effect.suspend(() => stop)
  }
})

const adopt = ({ adoption, host, pool, port }: Waits, change: Partial<Adoption> = {}) =>
  Adopting.adopt({ address: { host, port }, pool, adoption: { ...adoption, ...change } })

const refusalOf = (effect: ReturnType<typeof adopt>) => Effect.map(Effect.flip(effect), ({ detail }) => detail)

/** The output of a shell in it. */
const say = (place: Waits, script: string, fence = 4) =>
  Effect.scoped(Effect.gen(function*() {
    const connection = yield* dial(place, { fence })
    const process = yield* connection.spawn(shell(script))
    return yield* textOf(process.stdout)
  }))

/** A request of somebody's own making; what is answered, or how it ended. */
const ask = ({ host, pool, port }: Waits, options: { readonly method?: string; readonly path?: string }, body: string | Buffer) =>
  Effect.promise(() =>
    new Promise<string>((resolve) => {
      const { method = "POST", path = PATH } = options
      const sent = request(
        { host, port, method, path, ...Identity.secureContext(pool), checkServerIdentity: () => undefined, agent: false },
        (response) => {
          resolve(String(response.statusCode))
          response.resume()
        }
      )
      sent.on("error", () => resolve("closed"))
      sent.end(body)
    })
  )

describe("a runner that waits for its sandbox", () => {
  it.live("is that of the sandbox it is told of, where it listened before", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      assert.strictEqual(yield* adopt(place), "adopted")
      // No worker said hello yet, and a late worker is known all the same.
      assert.include(String(yield* Effect.exit(say(place, "echo never", 3))), "fence")
      assert.strictEqual(yield* say(place, "echo here"), "here\n")
    }).pipe(Effect.scoped))

  it.live("is adopted once: a client with the pool's key finds its owner, and may tell it nothing any more", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      const other = { ...place.adoption.settings, identity: Identity.mint().runner }
      const met = yield* Effect.all([Effect.result(adopt(place)), Effect.result(adopt(place, { settings: other }))], {
        concurrency: "unbounded"
      })
      assert.lengthOf(met.filter((one) => one._tag === "Success" && one.success === "adopted"), 1)
      const [ours, theirs] = [yield* adopt(place), yield* adopt(place, { settings: other })]
      assert.sameMembers([ours, theirs], ["ours", "another"])
      assert.strictEqual(yield* ask(place, {}, JSON.stringify(place.adoption)), "closed")
    }).pipe(Effect.scoped))

  it.live("goes on as that sandbox's when it is started again, and waits no more", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      yield* adopt(place)
      yield* say(place, "echo kept > file")
      const kept = path.join(place.adoption.settings.state, "adopted.json")
      assert.strictEqual(statSync(kept).mode & 0o777, 0o600)
      assert.strictEqual(yield* place.stop, 0)
      assert.notInclude(yield* place.again, "waits")
      assert.strictEqual(yield* adopt(place), "ours")
      assert.strictEqual(yield* say(place, "cat file"), "kept\n")
    }).pipe(Effect.scoped))

  it.live("waits still where it was started again before, and ends when it is asked to", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      assert.strictEqual(yield* place.stop, 0)
      assert.include(yield* place.again, "waits")
      assert.strictEqual(yield* adopt(place), "adopted")
    }).pipe(Effect.scoped))

  it.live("admits only a client with the key of its pool's worker", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      const stranger = Identity.mint().worker
      // The runner's own half admits no client: an attacker who breaks out in one machine has it.
      const told = JSON.parse(readFileSync(path.join(place.folder, "pool.json"), "utf8"))
      const half: Identity.Identity = { ...told.identity, peer: place.pool.peer }
      for (const pool of [{ ...stranger, peer: place.pool.peer }, half]) {
        assert.isTrue(Exit.isFailure(yield* Effect.exit(adopt({ ...place, pool }))))
      }
      assert.isFalse(existsSync(path.join(place.adoption.settings.state, "adopted.json")))
      assert.strictEqual(yield* adopt(place), "adopted")
    }).pipe(Effect.scoped))

  it.live("is told nothing by a worker who meets another's certificate", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      const pool = { ...place.pool, peer: Identity.mint().runner.certificate }
      assert.strictEqual(yield* adopt({ ...place, pool }), "another")
      assert.strictEqual(yield* adopt(place), "adopted")
    }).pipe(Effect.scoped))

  it.live("refuses foreign requests, and goes on waiting", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      const { adoption } = place
      const { settings } = adoption
      const text = (change: object) => JSON.stringify({ ...adoption, ...change })
      const other = Identity.mint().runner
      const refused: ReadonlyArray<readonly [body: string, status: string]> = [
        ["", "422"],
        ["no JSON", "422"],
        ["null", "422"],
        [text({ machine: "another" }), "422"],
        [text({ fence: -1 }), "422"],
        [text({ settings: null }), "422"],
        [text({ settings: { ...settings, tree: "relative" } }), "422"],
        [text({ settings: { ...settings, state: "/somewhere" } }), "422"],
        [text({ settings: { ...settings, identity: { ...settings.identity, privateKey: "none" } } }), "422"],
        [text({ settings: { ...settings, identity: { ...settings.identity, privateKey: other.privateKey } } }), "422"],
        [text({ settings: { ...settings, identity: { ...settings.identity, peer: "none" } } }), "422"]
      ]
      for (const [body, status] of refused) assert.strictEqual(yield* ask(place, {}, body), status, body.slice(0, 60))
      assert.strictEqual(yield* ask(place, { path: "/other" }, text({})), "404")
      assert.strictEqual(yield* ask(place, { method: "PUT" }, text({})), "404")
      assert.include(["413", "closed"], yield* ask(place, {}, Buffer.alloc(BODY_BYTES + 1, 0x20)))
      assert.include(["413", "closed"], yield* ask(place, {}, Buffer.alloc(64 * BODY_BYTES, 0x20)))
      assert.include(yield* refusalOf(adopt(place, { machine: "another" })), "another machine is meant")
      assert.strictEqual(yield* adopt(place), "adopted")
    }).pipe(Effect.scoped))

  it.live("says nothing of an invalid key", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      const { settings } = place.adoption
      const privateKey = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n"
      const said = yield* refusalOf(adopt(place, { settings: { ...settings, identity: { ...settings.identity, privateKey } } }))
      assert.strictEqual(said, "its runner refuses: its identity is none")
    }).pipe(Effect.scoped))

  it.live("closes a connection that says too little for too long", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      const line = connectTls({
        host: place.host,
        port: place.port,
        ...Identity.secureContext(place.pool),
        checkServerIdentity: () => undefined
      })
      line.on("error", () => {})
      const closed = once(line, "close")
      yield* Effect.promise(() => once(line, "secureConnect"))
      line.write(`POST ${PATH} HTTP/1.1\r\nhost: runner\r\ncontent-length: 100\r\n\r\n{`)
      line.resume()
      yield* Effect.promise(() => closed)
      assert.strictEqual(yield* adopt(place), "adopted")
    }).pipe(Effect.scoped))

  it.live("does not begin where what it kept is damaged: another sandbox's it must not become", () =>
    Effect.gen(function*() {
      const place = yield* waiting
      yield* place.stop
      mkdirSync(place.adoption.settings.state, { recursive: true })
      writeFileSync(path.join(place.adoption.settings.state, "adopted.json"), "{")
      const child = spawn(process.execPath, [program, path.join(place.folder, "pool.json"), MACHINE], { stdio: ["ignore", "pipe", "pipe"] })
      let said = ""
      child.stderr.on("data", (bytes) => said += String(bytes))
      const [code] = yield* Effect.promise(() => once(child, "close"))
      assert.deepStrictEqual([code, said], [1, "runner: it is no JSON\n"])
    }).pipe(Effect.scoped))
})
