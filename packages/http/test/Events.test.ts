import { assert, layer } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { type LogEntry, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { DateTime, Duration, Effect, Fiber } from "effect"
import { LiveResponses } from "../src/server/connection/LiveResponses.ts"
import {
  ask,
  create,
  drive,
  type EventReader,
  fieldsOf,
  joined,
  json,
  layer as http,
  mintKey,
  openStream,
  postJson,
  refused,
  running,
  SANDBOXES
} from "../testing/Harness.ts"

const streamOf = (id: SandboxId) => `${SANDBOXES}/${id}/events/stream`

/** Blocks up to and including the first that holds. */
const until = Effect.fnUntraced(function*(reader: EventReader, holds: (fields: ReturnType<typeof fieldsOf>) => boolean) {
  const read: Array<ReturnType<typeof fieldsOf>> = []
  for (;;) {
    const fields = fieldsOf(yield* reader.next)
    read.push(fields)
    if (holds(fields)) return read
  }
})

/** The id of a block, if it has one. */
const seqOf = (block: string): ReadonlyArray<number> => (/^id: (\d+)\n/u.exec(block)?.slice(1) ?? []).map(Number)

const say = (id: SandboxId, turn: string, texts: ReadonlyArray<string>) =>
  drive(
    id,
    texts.map((text, i) => ({
      _tag: "RecordWork" as const,
      turnId: turn,
      events: [{
        type: "message.updated" as const,
        turn_id: turn,
        data: { part_id: "m:text", message_id: "m", kind: "text" as const, text: `${text} ${i}` }
      }]
    }))
  )

const finish = (id: SandboxId) => drive(id, [{ _tag: "Fail", reason: "agent_lost", error: "It is gone.", retryable: false }])

const logOf = Effect.fnUntraced(function*(id: SandboxId) {
  const store = yield* SandboxStore
  const log: Array<LogEntry> = []
  for (;;) {
    const page = yield* store.log(id, log.at(-1)?.seq ?? 0, 10_000)
    if (page.length === 0) return log
    log.push(...page)
  }
})

layer(http(), { excludeTestServices: true })("pages of what is large", (it) => {
  it.effect("have about 1 MiB at most whatever the limit says, and their cursors miss nothing", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key)
      for (let i = 0; i < 9; i++) {
        yield* drive(id, [{
          _tag: "RecordWork",
          turnId: turn,
          events: [
            { type: "message.updated", data: { part_id: `m${i}:text`, message_id: `m${i}`, kind: "text", text: "x".repeat(300_000) } },
            { type: "message.completed", data: { message_id: `m${i}`, finish: "end_turn" } }
          ]
        }])
      }
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const read = Effect.fnUntraced(function*(what: "events" | "messages") {
        const ids: Array<string> = []
        const cursors: Array<string | null> = []
        for (let after: string | null = "0"; after !== null;) {
          const reply: Effect.Success<ReturnType<typeof ask>> = yield* ask(`${SANDBOXES}/${id}/${what}?limit=100&after=${after}`, { key })
          assert.isTrue(reply.text.length < 1.1 * 2 ** 20, String(reply.text.length))
          const { data, nextCursor } = json(reply)
          if (what === "events" && data.length === 0) break
          ids.push(...data.map((item: { readonly id: string }) => item.id))
          cursors.push(nextCursor)
          after = nextCursor
        }
        return { ids, cursors }
      })
      const events = yield* read("events")
      assert.deepStrictEqual(events.ids, (yield* logOf(id)).map(({ seq }) => String(seq)))
      assert.isTrue(events.cursors.length >= 3)
      const messages = yield* read("messages")
      assert.deepStrictEqual(messages.ids.slice(1), Array.from({ length: 9 }, (_, i) => `m${i}`))
      assert.strictEqual(messages.cursors.at(-1), null)
      assert.isTrue(messages.cursors.length >= 3)
    }))
})

layer(http(), { excludeTestServices: true })("a log that is no longer kept in full", (it) => {
  /** A sandbox whose events up to `floor` were purged, and that was terminated afterwards. */
  const purged = Effect.fnUntraced(function*(key: string) {
    const { id } = yield* running(key)
    yield* finish(id)
    const floor = (yield* logOf(id)).length
    const maintenance = yield* Maintenance
    yield* maintenance.purgeEvents(yield* DateTime.now, 10_000)
    yield* postJson(`${SANDBOXES}/${id}/terminate`, key, {})
    const kept = (yield* logOf(id)).map(({ seq }) => seq)
    assert.strictEqual(kept[0], floor + 1)
    return { id, floor, kept }
  })

  it.effect("answers a cursor whose next events are gone with 410, in the list and in the stream", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { floor, id } = yield* purged(key)
      for (const after of [1, floor - 1]) {
        refused(yield* ask(`${SANDBOXES}/${id}/events?after=${after}`, { key }), 410, "cursor_expired")
        refused(yield* ask(`${streamOf(id)}?since=${after}`, { key }), 410, "cursor_expired")
        refused(yield* ask(streamOf(id), { key, headers: { "last-event-id": String(after) } }), 410, "cursor_expired")
      }
    }))

  it.effect("is read from its oldest event with 0, and goes on for a reader of purged events", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { floor, id, kept } = yield* purged(key)
      for (const after of [0, floor]) {
        const { data, nextCursor } = json(yield* ask(`${SANDBOXES}/${id}/events?after=${after}`, { key }))
        assert.deepStrictEqual([data.map((event: { readonly id: string }) => event.id), nextCursor], [kept.map(String),
          String(kept.at(-1))])
        const reader = yield* openStream(`${streamOf(id)}?since=${after}`, { key })
        const read = yield* until(reader, ({ data }) => data?.type === "sandbox.status" && data.id === undefined)
        assert.deepStrictEqual(read.flatMap((fields) => fields.id ?? []), kept.map(String))
      }
    }))

  it.effect("of which nothing is left has nothing to read, and its sandbox is still shown", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      yield* finish(id)
      const head = (yield* logOf(id)).length
      yield* (yield* Maintenance).purgeEvents(yield* DateTime.now, 10_000)
      for (const after of [0, head]) {
        assert.deepStrictEqual(json(yield* ask(`${SANDBOXES}/${id}/events?after=${after}`, { key })), {
          data: [],
          nextCursor: String(after)
        })
        assert.strictEqual((yield* ask(`${streamOf(id)}?since=${after}`, { key })).status, 204)
      }
      const fresh = (yield* (yield* openStream(streamOf(id), { key })).rest).map(fieldsOf)
      assert.deepStrictEqual(fresh.map(({ data, retry }) => data?.type ?? retry), ["2000", "snapshot", "sandbox.status", "30000"])
    }))
})

layer(http(), { excludeTestServices: true })("the tokens that models took", (it) => {
  it.effect("are told alike by the log, a stream that reads it again and a fresh one, and never by the sandbox's usage", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const usage = { llmRequestCount: 1, costMicroUsd: 41_250, creditsChargedMicros: 0 }
      const tokens = { input: 12_345, cachedInput: 9000, output: 678 }
      yield* drive(id, [
        { _tag: "ReportUsage", usage },
        { _tag: "ReportUsage", usage: { ...usage, llmRequestCount: 2 }, tokens },
        { _tag: "ReportUsage", usage: { ...usage, llmRequestCount: 3 } }
      ])
      const log: ReadonlyArray<{ readonly type: string; readonly data: object }> =
        json(yield* ask(`${SANDBOXES}/${id}/events`, { key })).data
      const told = log.filter(({ type }) => type === "usage.updated")
      assert.deepStrictEqual(told.map(({ data }) => data), [
        { usage },
        { usage: { ...usage, llmRequestCount: 2 }, tokens },
        { usage: { ...usage, llmRequestCount: 3 } }
      ])
      const again = yield* openStream(`${streamOf(id)}?since=0`, { key })
      const read = yield* until(again, ({ data }) => data?.type === "sandbox.status" && data.id === undefined)
      assert.deepStrictEqual(read.filter(({ id }) => id !== undefined).map(({ data }) => data), [...log])
      const fresh = yield* until(yield* openStream(streamOf(id), { key }), ({ data }) => data?.type === "snapshot")
      assert.deepStrictEqual(fresh.at(-1)?.data.data.tokens, tokens)
      const sandbox = json(yield* ask(`${SANDBOXES}/${id}`, { key }))
      assert.deepStrictEqual(sandbox.usage, { ...usage, llmRequestCount: 3 })
      assert.notProperty(sandbox, "tokens")
    }))
})

layer(http(), { excludeTestServices: true })("a fresh stream", (it) => {
  it.effect("of a sandbox that finishes meanwhile ends after its last event", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const reader = yield* openStream(streamOf(id), { key })
      yield* until(reader, ({ data }) => data?.type === "sandbox.status")
      yield* finish(id)
      const blocks = (yield* reader.rest).map(fieldsOf)
      assert.deepStrictEqual(blocks.map(({ data }) => data?.type), ["sandbox.error", "turn.completed", "sandbox.status"])
      assert.strictEqual(blocks.at(-1)?.id, String((yield* logOf(id)).length))
      assert.ok(!reader.broken())
    }))
})

layer(http(), { excludeTestServices: true })("a resumed stream", (it) => {
  it.effect("misses nothing and repeats nothing, however often it is cut while events are written", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key)
      const TEXTS = 400
      const writer = yield* Effect.gen(function*() {
        for (let i = 0; i < TEXTS; i++) {
          yield* say(id, turn, [`text ${i}`])
          yield* Effect.yieldNow
        }
        yield* finish(id)
      }).pipe(Effect.forkChild)
      const seen: Array<number> = []
      let cuts = 0
      for (let over = false; !over;) {
        // Each connection is left after some events, in the middle of whatever is under way.
        yield* Effect.scoped(Effect.gen(function*() {
          const reader = yield* openStream(`${streamOf(id)}?since=${seen.at(-1) ?? 0}`, { key })
          if (reader.status === 204) {
            over = true
            return
          }
          const patience = 1 + (cuts++ * 7) % 23
          for (let n = 0; n < patience;) {
            const block = yield* reader.next
            if (block === null) return
            const { id: seq } = fieldsOf(block)
            if (seq !== undefined) {
              seen.push(Number(seq))
              n++
            }
          }
        }))
      }
      yield* Fiber.join(writer)
      assert.deepStrictEqual(seen, (yield* logOf(id)).map(({ seq }) => seq))
      assert.ok(cuts > 10)
    }))
})

layer(http(), { excludeTestServices: true })("many readers of one sandbox", (it) => {
  it.effect("all see every event, and share reads of the log", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key)
      const readers = yield* Effect.all(Array.from({ length: 50 }, () => openStream(streamOf(id), { key })), { concurrency: 10 })
      yield* Effect.forEach(readers, (reader) => until(reader, ({ data }) => data?.type === "sandbox.status"))
      const head = (yield* logOf(id)).length
      yield* say(id, turn, Array.from({ length: 20 }, () => "text"))
      for (const reader of readers) {
        const read = yield* until(reader, (fields) => fields.id === String(head + 20))
        assert.deepStrictEqual(read.map((fields) => Number(fields.id)), Array.from({ length: 20 }, (_, i) => head + 1 + i))
      }
    }))
})

layer(http({ settings: { heartbeat: Duration.millis(50) } }), { excludeTestServices: true })("a silent stream", (it) => {
  it.effect("sends a comment now and then", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const reader = yield* openStream(streamOf(id), { key })
      yield* until(reader, ({ data }) => data?.type === "sandbox.status")
      for (let i = 0; i < 2; i++) assert.strictEqual(yield* reader.next, ": hb")
    }))
})

layer(http({ settings: { streamsPerKey: 2, downloadsPerKey: 1 } }), { excludeTestServices: true })("open streams", (it) => {
  it.effect("are limited per key, and a closed one frees its place", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const other = yield* mintKey()
      const id = yield* create(key)
      yield* openStream(streamOf(id), { key })
      yield* Effect.scoped(Effect.gen(function*() {
        yield* openStream(streamOf(id), { key })
        const reply = yield* ask(streamOf(id), { key })
        refused(reply, 429, "rate_limited")
        assert.match(String(reply.headers["retry-after"]), /^[1-9]\d*$/u)
        assert.strictEqual((yield* openStream(streamOf(id), { key: other.key })).status, 200)
      }))
      const again = openStream(streamOf(id), { key })
      assert.strictEqual((yield* Effect.repeat(again, { until: ({ status }) => status === 200 })).status, 200)
    }))
})

layer(http({ settings: { streams: 1 } }), { excludeTestServices: true })("a process with as many streams as it can bear", (it) => {
  it.effect("refuses another one, and answers everything else", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      yield* openStream(streamOf(id), { key })
      const reply = yield* ask(streamOf(id), { key: (yield* mintKey()).key })
      refused(reply, 503, "unavailable")
      assert.match(String(reply.headers["retry-after"]), /^[1-9]\d*$/u)
      assert.strictEqual((yield* ask(`${SANDBOXES}/${id}`, { key })).status, 200)
    }))
})

layer(http(), { excludeTestServices: true })("an open stream", (it) => {
  const opened = Effect.fnUntraced(function*(grant: string, more: { readonly life?: Duration.Duration; readonly userId?: string } = {}) {
    const minted = yield* mintKey({ grant, ...more })
    const { id, turn } = yield* running(minted.key)
    const reader = yield* openStream(streamOf(id), { key: minted.key })
    yield* until(reader, ({ data }) => data?.type === "sandbox.status")
    return { ...minted, id, turn, reader }
  })
  const endsWithin = (reader: EventReader) => Effect.timeout(reader.rest, "1 second")

  it.effect("ends within a second of its key's revocation, and others go on", () =>
    Effect.gen(function*() {
      const revoked = yield* opened("revoked")
      const good = yield* opened("good")
      yield* (yield* Access).revokeKey(revoked.record.id)
      assert.deepStrictEqual(yield* endsWithin(revoked.reader), [])
      yield* say(good.id, good.turn, ["still here"])
      assert.strictEqual(fieldsOf(yield* good.reader.next).data.type, "message.updated")
    }))

  it.effect("ends within a second of its grant's revocation", () =>
    Effect.gen(function*() {
      const { reader } = yield* opened("gone")
      yield* (yield* Access).revokeGrant("gone")
      assert.deepStrictEqual(yield* endsWithin(reader), [])
    }))

  it.effect("ends within a second of the end of its user's membership, and others go on", () =>
    Effect.gen(function*() {
      const left = yield* opened("left", { userId: yield* joined("ada") })
      const good = yield* opened("left")
      yield* (yield* Members).remove(null, "ada")
      assert.deepStrictEqual(yield* endsWithin(left.reader), [])
      yield* say(good.id, good.turn, ["still here"])
      assert.strictEqual(fieldsOf(yield* good.reader.next).data.type, "message.updated")
    }))

  it.effect("ends within a second of its key's expiry, without a hint", () =>
    Effect.gen(function*() {
      const { reader, record } = yield* opened("expires", { life: Duration.seconds(3) })
      assert.isNotNull(record.expiresAt)
      yield* Effect.sleep(DateTime.distance(yield* DateTime.now, record.expiresAt))
      assert.deepStrictEqual(yield* endsWithin(reader), [])
    }))

  it.effect("ends within a second of its organization's suspension", () =>
    Effect.gen(function*() {
      const { reader } = yield* opened("suspended")
      yield* (yield* Members).suspend("default")
      assert.deepStrictEqual(yield* endsWithin(reader), [])
    }))
})

layer(http(), { excludeTestServices: true })("a shutdown", (it) => {
  it.effect("tells each stream where to resume, ends it, and refuses new ones", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const head = String((yield* logOf(id)).length)
      const reader = yield* openStream(streamOf(id), { key })
      yield* until(reader, ({ data }) => data?.type === "sandbox.status")
      yield* (yield* LiveResponses).shutDown
      const [resync, ...rest] = (yield* reader.rest).map(fieldsOf)
      assert.deepStrictEqual([resync?.data.type, resync?.data.data, rest], ["stream.resync", { reason: "shutdown", resume_cursor: head },
        []])
      const refusal = yield* ask(streamOf(id), { key })
      refused(refusal, 503, "unavailable")
      assert.strictEqual(refusal.headers["retry-after"], "1")
      refused(yield* ask("/readyz"), 503, "unavailable")
      // Requests under way are still answered, and the connection is not kept.
      assert.strictEqual((yield* ask(`${SANDBOXES}/${id}`, { key })).headers.connection, "close")
      assert.strictEqual((yield* ask("/healthz")).status, 200)
    }))
})

layer(http({ settings: { streamsPerUser: 3, streamsPerGrant: 4 } }), { excludeTestServices: true })("streams of many keys", (it) => {
  it.effect("are counted by user and by grant too: more keys do not give more of them", () =>
    Effect.gen(function*() {
      const open = Effect.fnUntraced(function*(about: { readonly grant: string; readonly userId: string }) {
        const { key } = yield* mintKey(about)
        const id = yield* create(key)
        return { status: (yield* openStream(streamOf(id), { key })).status, again: ask(streamOf(id), { key }) }
      })
      const [ada, bob, eve] = [yield* joined("ada"), yield* joined("bob"), yield* joined("eve")]
      for (const grant of ["one", "two", "one"]) assert.strictEqual((yield* open({ grant, userId: ada })).status, 200)
      const fourth = yield* open({ grant: "three", userId: ada })
      assert.strictEqual(fourth.status, 429)
      refused(yield* fourth.again, 429, "rate_limited")
      assert.strictEqual(json(yield* fourth.again).error.message, "This user has 3 open streams already.")
      // Two of the grant's four are Ada's.
      for (const status of [200, 200, 429]) assert.strictEqual((yield* open({ grant: "one", userId: bob })).status, status)
      assert.strictEqual(
        json(yield* (yield* open({ grant: "one", userId: eve })).again).error.message,
        "This grant has 4 open streams already."
      )
      assert.strictEqual((yield* open({ grant: "two", userId: eve })).status, 200)
    }).pipe(Effect.scoped))
})

layer(http({ settings: { patience: Duration.seconds(1), streamsPerKey: 50 } }), { excludeTestServices: true })(
  "a reader that stops reading",
  (it) => {
    it.effect("costs little memory, is dropped, delays no other reader, and misses nothing when it comes back", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        const { id, turn } = yield* running(key)
        const MIB = 2 ** 20
        // 20 MiB of log.
        yield* say(id, turn, Array.from({ length: 320 }, () => "x".repeat(64 * 1024)))
        yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
        const log = yield* logOf(id)

        // Without the test's own copies of the log.
        const before = process.memoryUsage().rss
        const stalled = yield* Effect.all(
          Array.from(
            { length: 50 },
            () => Effect.tap(openStream(`${streamOf(id)}?since=0`, { key }), (reader) => Effect.sync(() => reader.pause()))
          ),
          { concurrency: 10 }
        )
        const healthy = yield* openStream(`${streamOf(id)}?since=${log.length - 1}`, { key: (yield* mintKey()).key })
        yield* until(healthy, (fields) => fields.id === String(log.length))
        const grown = process.memoryUsage().rss - before
        // Their logs are 1,000 MiB. The rest is for garbage that a busy machine collects later.
        assert.ok(grown < 200 * MIB, `grew by ${Math.round(grown / MIB)} MiB`)

        // Their places are free again once they were dropped, each when it is: all of them, since who is not yet would read on.
        const places = Effect.forEach(stalled, () => openStream(streamOf(id), { key }), { concurrency: 10 })
        yield* Effect.repeat(Effect.scoped(places), { until: (streams) => streams.every(({ status }) => status === 200) })
        const read = yield* Effect.forEach(stalled, (reader) => {
          reader.resume()
          return reader.rest
        })
        assert.ok(stalled.every((reader) => reader.broken()))
        const seen = (read[0] ?? []).flatMap(seqOf)
        assert.ok(seen.length < log.length)
        yield* finish(id)
        const whole = (yield* logOf(id)).map(({ seq }) => seq)
        // A busy machine may be too slow for this patience again.
        for (let more = true; more && seen.length < whole.length;) {
          const resumed = yield* (yield* openStream(`${streamOf(id)}?since=${seen.at(-1) ?? 0}`, { key })).rest
          const next = resumed.flatMap(seqOf)
          seen.push(...next)
          more = next.length > 0
        }
        assert.deepStrictEqual(seen, whole)
      }))
  }
)

layer(http(), { excludeTestServices: true })("a reader whose socket is full for a while", (it) => {
  it.effect("gets every event once and in order when it reads on, and others get theirs meanwhile", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key)
      const slow = yield* openStream(streamOf(id), { key })
      const quick = yield* openStream(streamOf(id), { key })
      for (const reader of [slow, quick]) yield* until(reader, ({ data }) => data?.type === "sandbox.status")
      const before = (yield* logOf(id)).length
      slow.pause()
      // More than its socket and ours hold, in commits that each are told at once.
      for (let i = 0; i < 240; i++) {
        yield* say(id, turn, ["x".repeat(64 * 1024)])
        if (i % 40 === 39) {
          const head = (yield* logOf(id)).length
          yield* until(quick, (fields) => fields.id === String(head))
        }
      }
      slow.resume()
      yield* finish(id)
      const log = (yield* logOf(id)).map(({ seq }) => seq)
      assert.deepStrictEqual((yield* slow.rest).flatMap(seqOf), log.slice(before))
    }))
})
