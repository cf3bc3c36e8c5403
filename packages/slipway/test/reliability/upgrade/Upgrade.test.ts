/** The release before and this one: a data folder that it left, and its processes beside ours on one database. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { Effect, Layer } from "effect"
import { spawnSync } from "node:child_process"
import { mkdirSync } from "node:fs"
import path from "node:path"
import { inject } from "vitest"
import { command, folder, repository, runIn, type Server, serve, until, worker as startWorker } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

const previous = path.join(inject("previous"), "packages/slipway/bin/slipway.js")

type Settings = Readonly<Record<string, string>>

/** A command that must succeed. */
const ran = Effect.fnUntraced(function*(program: string, data: string, args: ReadonlyArray<string>, settings: Settings) {
  const ended = yield* runIn(data, args, settings, { program })
  assert.strictEqual(ended.code, 0, ended.stderr)
  return ended.stdout
})

/** A process that only works for sandboxes. Killed with the scope. */
const worker = (program: string, data: string, { DATABASE_URL = "", ...settings }: Settings) =>
  startWorker(data, DATABASE_URL, settings, { program })

interface Page {
  readonly data: ReadonlyArray<{ readonly sequence: number }>
}

const feed = ({ key, url }: Server) =>
  Effect.promise(async (): Promise<Page["data"]> => {
    const reply = await fetch(`${url}/api/public/v1/events`, { headers: { authorization: `Bearer ${key}` } })
    assert.strictEqual(reply.status, 200)
    return (await reply.json()).data
  })

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

const completed = (log: ReadonlyArray<Api.Told>) => log.filter(({ type }) => type === "turn.completed").map(({ data }) => data["state"])

const gapless = (log: ReadonlyArray<Api.Told>) => assert.deepStrictEqual(log.map(({ id }) => Number(id)), numbers(1, log.length))

describe("the data folder of the release before", () => {
  it.live("is all there, and its sandboxes go on", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const settings = { SLIPWAY_ISOLATION: "none" }
      const offer = ["partners", "claims", "create", "--grant", "default", "--variant", "b", "--credits", "500", "--lead"]

      const before = yield* serve(data, settings, previous)
      yield* ran(previous, data, ["repos", "add", "acme/shop", repository(data)], settings)
      for (const lead of ["one", "two", "three"]) yield* ran(previous, data, [...offer, lead], settings)
      const old = Api.make(before)
      const [published, ended] = [
        yield* old.create({ prompt: "[[say Größe]] [[write path=a.txt content=one]]", title: "Published" }),
        yield* old.create({ prompt: "[[write path=b.txt content=two]]", title: "Ended" })
      ]
      yield* old.event(published, "turn.completed")
      yield* old.event(ended, "turn.completed")
      yield* old.publish(published)
      const { pullRequest } = yield* until(old.pull(published), (pull) => pull.actionState === "idle" && pull.pullRequest !== null)
      yield* old.terminate(ended)
      yield* until(old.status(ended), (status) => status === "terminated")
      const asking = yield* old.create({ prompt: "[[write path=c.txt content=three]]", toolApprovalMode: "prompt", title: "Asking" })
      yield* old.event(asking, "approval.requested")
      const [told, logs] = [yield* feed(before), yield* Effect.forEach([published, ended, asking], old.log)]
      yield* before.stop("SIGTERM")

      const after = yield* serve(data, settings)
      const server = { ...after, key: before.key }
      const api = Api.make(server)
      for (const [index, id] of [published, ended, asking].entries()) {
        const log = yield* api.log(id)
        assert.deepStrictEqual(log.slice(0, logs[index]?.length), logs[index])
        gapless(log)
      }
      assert.deepStrictEqual((yield* api.pull(published)).pullRequest?.number, pullRequest?.number)
      assert.strictEqual(yield* api.status(ended), "terminated")
      assert.strictEqual(yield* api.file(published, "a.txt"), "one\n")

      yield* api.send(published, "[[recall]] [[write path=d.txt content=four]]")
      yield* api.event(published, "turn.completed", 2)
      assert.deepStrictEqual(completed(yield* api.log(published)), ["succeeded", "succeeded"])
      assert.strictEqual(yield* api.file(published, "a.txt"), "one\n")
      assert.strictEqual(yield* api.file(published, "d.txt"), "four\n")
      yield* api.publish(published)
      const again = yield* until(api.pull(published), ({ actionState }) => actionState === "idle")
      assert.strictEqual(again.pullRequest?.number, pullRequest?.number)

      // Its turn ended with the process that ran it; the next one is asked for again.
      yield* api.event(asking, "turn.completed")
      yield* api.send(asking, "[[write path=c.txt content=three]]")
      yield* api.event(asking, "approval.requested", 2)
      const asked = (yield* api.log(asking)).filter(({ type }) => type === "approval.requested").at(-1)
      yield* api.approve(asking, String(asked?.data["approval_id"]))
      yield* api.event(asking, "turn.completed", 2)
      assert.strictEqual(yield* api.file(asking, "c.txt"), "three\n")
      for (const id of [published, asking]) {
        yield* api.terminate(id)
        yield* until(api.status(id), (status) => status === "terminated")
        gapless(yield* api.log(id))
      }

      yield* ran(command, data, [...offer, "four"], settings)
      const feeds = yield* feed(server)
      assert.deepStrictEqual(feeds.slice(0, told.length), told)
      assert.strictEqual(told.length, 3)
      assert.deepStrictEqual(feeds.map(({ sequence }) => sequence), numbers(1, 4))
      yield* after.stop("SIGTERM")

      // The release before does not find its tables, and makes no others: ours has all its data afterwards.
      assert.notStrictEqual((yield* runIn(data, ["grants", "list"], settings, { program: previous })).code, 0)
      assert.include(yield* ran(command, data, ["grants", "list"], settings), "default")
    }).pipe(Effect.scoped))
})

const lacking = process.getuid?.() !== 0 ? "root" : spawnSync("bwrap", ["--version"]).status === 0 ? undefined : "bubblewrap"
if (lacking !== undefined) process.stdout.write(`published sandboxes in boxes are not upgraded here: that needs ${lacking}\n`)

describe.skipIf(lacking !== undefined)("a published sandbox in a box", () => {
  const versions = [["the release before", inject("previous")], ["the version since", inject("since")]] as const
  for (const [name, checkout] of versions) {
    it.live(`is checkpointed and published again after an upgrade from ${name}`, () =>
      Effect.gen(function*() {
        const program = path.join(checkout, "packages/slipway/bin/slipway.js")
        const data = yield* folder
        const settings = { SLIPWAY_ISOLATION: "bubblewrap" }
        const before = yield* serve(data, settings, program)
        const origin = repository(data)
        yield* ran(program, data, ["repos", "add", "acme/shop", origin], settings)
        const old = Api.make(before)
        const id = yield* old.create({ prompt: "[[write path=a.txt content=one]]" })
        yield* old.event(id, "turn.completed")
        yield* old.publish(id)
        yield* until(old.pull(id), ({ actionState, pullRequest }) => actionState === "idle" && pullRequest !== null)
        yield* old.send(id, "[[write path=b.txt content=two]]")
        yield* old.event(id, "turn.completed", 2)
        yield* before.stop("SIGTERM")

        const after = yield* serve(data, settings)
        const api = Api.make({ ...after, key: before.key })
        const saved = (log: ReadonlyArray<Api.Told>) => log.filter(({ type }) => type === "sandbox.checkpoint")
        const taken = saved(yield* api.log(id)).length
        yield* api.send(id, "[[write path=c.txt content=three]] [[shell git add --all && git commit -qm mine]]")
        yield* api.event(id, "turn.completed", 3)
        const log = yield* until(api.log(id), (log) => saved(log).length > taken)
        assert.isUndefined(saved(log).at(-1)?.data["error"])
        yield* api.publish(id)
        const branch = (file: string) => spawnSync("git", ["-C", origin, "show", `slipway/${id}:${file}`], { encoding: "utf8" }).stdout
        yield* until(
          Effect.all([Effect.sync(() => branch("c.txt")), api.pull(id)]),
          ([content, { actionState }]) => content !== "" || actionState === "failed"
        )
        assert.deepStrictEqual([branch("a.txt"), branch("b.txt"), branch("c.txt")], ["one\n", "two\n", "three\n"])
        yield* api.terminate(id)
        yield* until(api.status(id), (status) => status === "terminated")
        yield* after.stop("SIGTERM")
      }).pipe(Effect.scoped))
  }
})

describe("processes of the release before, on a database that this one brought up to date in public", () => {
  /** A sandbox from its creation to its pull request and its end, with any server and any worker. */
  const life = Effect.fnUntraced(function*(server: Server, text: string) {
    const api = Api.make(server)
    const id = yield* api.create({ prompt: `[[say Hello]] [[write path=${text}.txt content=${text}]]`, toolApprovalMode: "prompt" })
    yield* api.event(id, "approval.requested")
    const asked = (yield* api.log(id)).find(({ type }) => type === "approval.requested")
    yield* api.approve(id, String(asked?.data["approval_id"]))
    yield* api.event(id, "turn.completed")
    assert.strictEqual(yield* api.file(id, `${text}.txt`), `${text}\n`)
    yield* api.send(id, "[[recall]]")
    yield* api.event(id, "turn.completed", 2)
    assert.deepStrictEqual(completed(yield* api.log(id)), ["succeeded", "succeeded"])
    yield* api.publish(id)
    yield* until(api.pull(id), ({ actionState, pullRequest }) => actionState === "idle" && pullRequest !== null)
    yield* api.terminate(id)
    yield* until(api.status(id), (status) => status === "terminated")
    gapless(yield* api.log(id))
  })

  it.live("answer and work beside ours", () =>
    Effect.gen(function*() {
      const folderOf = (name: string) =>
        Effect.map(folder, (made) => {
          const at = path.join(made, name)
          mkdirSync(at)
          return at
        })
      const places = { http: yield* folderOf("http"), worker: yield* folderOf("worker"), next: yield* folderOf("next") }
      const url = yield* TestPostgres.database(Layer.empty)
      const settings = { SLIPWAY_ISOLATION: "none", DATABASE_URL: url, SLIPWAY_DATABASE_SCHEMA: "public" }
      const oldHttp = yield* serve(places.http, { ...settings, SLIPWAY_ROLE: "http" }, previous)
      const oldWorker = yield* worker(previous, places.worker, settings)
      yield* ran(previous, places.worker, ["repos", "add", "acme/shop", repository(places.worker)], settings)
      yield* life(oldHttp, "before")

      // A restart, workers first: theirs ends, ours brings the database up to date.
      yield* oldWorker.stop
      const newWorker = yield* worker(command, places.next, settings)
      yield* life(oldHttp, "oldHttpNewWorker")

      // http first.
      yield* newWorker.stop
      const newHttp = { ...(yield* serve(places.http, { ...settings, SLIPWAY_ROLE: "http" })), key: oldHttp.key }
      yield* worker(previous, places.worker, settings)
      yield* life(newHttp, "newHttpOldWorker")
      yield* life(oldHttp, "oldHttpOldWorker")
    }).pipe(Effect.scoped))
})
