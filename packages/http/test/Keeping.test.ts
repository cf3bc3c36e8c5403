/** Deleting and archiving sandboxes over the internal API (docs/decisions/29). */
import { assert, layer } from "@effect/vitest"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { DateTime, Effect, Result, Stream } from "effect"
import { checkpointed } from "../testing/Checkpointed.ts"
import {
  ask,
  create,
  creation,
  drive,
  failed,
  fieldsOf,
  json,
  layer as http,
  mintKey,
  openStream,
  postJson,
  refused,
  running,
  SANDBOXES
} from "../testing/Harness.ts"

const INTERNAL = "/api/internal/v1/sandboxes"
const DELETING = ["sandboxes", "sandboxes:delete"] as const
const remove = (id: string, key: string) => ask(`${INTERNAL}/${id}`, { key, method: "DELETE" })

layer(http(), { excludeTestServices: true })("deleting a sandbox", (it) => {
  it.effect("needs its scope and the end of the sandbox, answers 204, and then nothing of it is there", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "deleting", scopes: DELETING })
      const plain = yield* mintKey({ grant: "deleting", scopes: ["sandboxes"] })
      const live = yield* create(key)
      refused(yield* remove(live, key), 409, "sandbox_not_finished")
      assert.strictEqual((yield* ask(`${SANDBOXES}/${live}`, { key })).status, 200)
      const id = yield* failed(key)
      const foreign = yield* mintKey({ grant: "not-deleting", scopes: DELETING })
      refused(yield* remove(id, foreign.key), 404, "not_found")
      assert.strictEqual((yield* remove(id, plain.key)).status, 403)
      const gone = yield* remove(id, key)
      assert.deepStrictEqual([gone.status, gone.text], [204, ""])
      for (
        const path of ["", "/setup", "/messages", "/events", "/events?after=0", "/events/stream", "/checkpoints", "/files/tree",
          "/pull-request"]
      ) {
        refused(yield* ask(`${SANDBOXES}/${id}${path}`, { key }), 404, "not_found")
      }
      for (const [path, body] of [["/terminate", undefined], ["/interrupt", undefined], ["/messages", { prompt: "Go on" }]] as const) {
        const reply = body === undefined
          ? yield* ask(`${SANDBOXES}/${id}${path}`, { key, method: "POST" })
          : yield* postJson(`${SANDBOXES}/${id}${path}`, key, body)
        refused(reply, 404, "not_found")
      }
      assert.deepStrictEqual(json(yield* ask(SANDBOXES, { key })).data.map((one: { id: string }) => one.id), [live])
      refused(yield* remove(id, key), 404, "not_found")
      refused(yield* remove("c_x", key), 400, "invalid_request")
    }))

  it.effect("its idempotency key answers that it was deleted", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "keyed", scopes: DELETING })
      const headers = { "idempotency-key": "order-1" }
      const made = json(yield* postJson(SANDBOXES, key, creation, headers))
      yield* drive(made.id, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
      assert.strictEqual((yield* remove(made.id, key)).status, 204)
      refused(yield* postJson(SANDBOXES, key, creation, headers), 409, "sandbox_deleted")
      assert.strictEqual((yield* postJson(SANDBOXES, key, creation, { "idempotency-key": "order-2" })).status, 201)
    }))

  it.effect("of many at once one is made", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "at-once", scopes: DELETING })
      const id = yield* failed(key)
      const replies = yield* Effect.all(Array.from({ length: 8 }, () => remove(id, key)), { concurrency: "unbounded" })
      assert.deepStrictEqual(replies.map(({ status }) => status).sort(), [204, ...Array.from({ length: 7 }, () => 404)])
    }))

  it.effect("ends open streams, and answers the next page of a list and the next download with 404", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "streaming", scopes: DELETING })
      const other = yield* create(key)
      const id = yield* failed(key)
      const follower = yield* openStream(`${SANDBOXES}/${id}/events/stream?since=0`, { key })
      const stays = yield* openStream(`${SANDBOXES}/${other}/events/stream`, { key })
      const before = json(yield* ask(`${SANDBOXES}/${id}/events?limit=3`, { key }))
      assert.lengthOf(before.data, 3)
      assert.strictEqual((yield* remove(id, key)).status, 204)
      const seen = (yield* Effect.timeout(follower.rest, "2 seconds")).map(fieldsOf).flatMap(({ id }) => id === undefined ? [] : [id])
      assert.isFalse(follower.broken())
      // The reader got the log from its beginning, without a gap.
      assert.deepStrictEqual(seen, seen.map((_, n) => String(n + 1)))
      refused(yield* ask(`${SANDBOXES}/${id}/events?limit=3&after=${before.nextCursor}`, { key }), 404, "not_found")
      for (
        const path of ["/events/stream", `/events/stream?since=${seen.length}`, "/files/download?path=a.md", "/files/content?path=a.md"]
      ) {
        refused(yield* ask(`${SANDBOXES}/${id}${path}`, { key }), 404, "not_found")
      }
      yield* drive(other, [{ _tag: "StartBoot" }])
      const isToldOfBoot = Effect.map(stays.next, (block) => block?.includes("\"creating\"") === true)
      assert.isTrue(yield* Effect.repeat(isToldOfBoot, { until: (isTold) => isTold, times: 5 }))
    }))

  it.effect("ends the replay of a long log in its middle: its reader got the beginning of the log, and no error", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "replaying", scopes: DELETING })
      const id = yield* failed(key)
      const title = "x".repeat(200)
      const renamed = Array.from({ length: 500 }, (): SandboxEvent => ({ type: "sandbox.renamed", data: { title } }))
      const store = yield* SandboxStore
      for (let n = 0; n < 40; n++) yield* store.change(id, "policy", () => Result.succeed(renamed), yield* DateTime.now)
      const readers = yield* Effect.all(Array.from({ length: 4 }, () => openStream(`${SANDBOXES}/${id}/events/stream?since=0`, { key })))
      for (const reader of readers) reader.pause()
      assert.strictEqual((yield* remove(id, key)).status, 204)
      for (const reader of readers) {
        reader.resume()
        const seen = (yield* Effect.timeout(reader.rest, "10 seconds")).map(fieldsOf).flatMap(({ id }) => id === undefined ? [] : [id])
        assert.deepStrictEqual(seen, seen.map((_, n) => String(n + 1)))
        assert.strictEqual(reader.status, 200)
      }
    }))

  it.effect("a fork goes on, and cannot be made any more", () =>
    Effect.gen(function*() {
      const { key, record: { grantId } } = yield* mintKey({ grant: "forked", scopes: DELETING })
      const { id } = yield* checkpointed(key)
      const fork = json(yield* postJson(`${SANDBOXES}/${id}/fork`, key, { prompt: "Go on" }))
      yield* drive(id, [{ _tag: "Fail", reason: "agent_lost", error: "Gone.", retryable: false }])
      assert.strictEqual((yield* remove(id, key)).status, 204)
      assert.strictEqual((yield* ask(`${SANDBOXES}/${fork.id}`, { key })).status, 200)
      const { origin } = yield* SandboxStore.use((store) => store.find({ grantId, id: fork.id }))
      assert.strictEqual(origin?.sandboxId, id)
      refused(yield* postJson(`${SANDBOXES}/${id}/fork`, key, { prompt: "Go on" }), 404, "not_found")
    }))
})

/** Trees whose files begin, and never come to their end. */
const endless = {
  has: () => Effect.succeed(true),
  open: (_key: unknown, _path: string, size: number) =>
    Effect.succeed({ size, bytes: Stream.concat(Stream.succeed(new Uint8Array(64 * 1024).fill(97)), Stream.never) })
}

layer(http({ trees: endless }), { excludeTestServices: true })("downloads of a sandbox that is deleted", (it) => {
  it.effect("break off short of their length, for readers that wait as for those that read nothing; others go on", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "downloading", scopes: DELETING })
      const [gone, kept] = [yield* running(key), yield* running(key)]
      const begin = ({ id }: { readonly id: string }) => openStream(`${SANDBOXES}/${id}/files/download?path=a`, { key })
      const [waits, lazy, stays] = [yield* begin(gone), yield* begin(gone), yield* begin(kept)]
      assert.deepStrictEqual([waits.status, lazy.status, stays.status], [200, 200, 200])
      lazy.pause()
      yield* drive(gone.id, [{ _tag: "Fail", reason: "agent_lost", error: "Gone.", retryable: false }])
      assert.strictEqual((yield* remove(gone.id, key)).status, 204)
      yield* waits.rest
      lazy.resume()
      yield* lazy.rest
      assert.deepStrictEqual([waits.broken(), lazy.broken(), stays.broken()], [true, true, false])
      refused(yield* ask(`${SANDBOXES}/${gone.id}/files/download?path=a`, { key }), 404, "not_found")
    }))
})

layer(http(), { excludeTestServices: true })("archiving a sandbox", (it) => {
  it.effect("is told of the archived ones alone, changes nothing else, and may be repeated and undone", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "archiving" })
      const other = yield* mintKey({ grant: "not-archiving" })
      const [one, two] = [yield* create(key), yield* create(key)]
      const theirs = yield* create(other.key)
      const archive = (id: string, name = "archive") => ask(`${INTERNAL}/${id}/${name}`, { key, method: "POST" })
      const archived = Effect.map(ask(`${INTERNAL}/archived?ids=${[one, two, theirs].join(",")}`, { key }), (reply) => json(reply).data)
      const before = (yield* ask(`${SANDBOXES}/${one}`, { key })).text
      assert.deepStrictEqual(yield* archived, [])
      for (let i = 0; i < 2; i++) assert.strictEqual((yield* archive(one)).status, 204)
      refused(yield* archive(theirs), 404, "not_found")
      assert.deepStrictEqual(yield* archived, [one])
      assert.strictEqual((yield* ask(`${SANDBOXES}/${one}`, { key })).text, before)
      assert.lengthOf(json(yield* ask(SANDBOXES, { key })).data, 2)
      for (let i = 0; i < 2; i++) assert.strictEqual((yield* archive(one, "unarchive")).status, 204)
      assert.deepStrictEqual(yield* archived, [])
      for (const ids of ["", "x", `${one},`, Array.from({ length: 101 }, () => one).join(",")]) {
        assert.strictEqual((yield* ask(`${INTERNAL}/archived?ids=${ids}`, { key })).status, 400, ids)
      }
    }))
})
