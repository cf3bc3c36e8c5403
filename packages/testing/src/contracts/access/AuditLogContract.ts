/**
 * The rules that every `AuditLog` must keep, and the entries that stores append to it. An adapter proves itself by running this suite
 * against its layer.
 */
import {
  Acting,
  ActingFrom,
  Action,
  Actor,
  type AuditEntry,
  AuditLog,
  type NumberedEntry,
  type SecurityEvent
} from "@slipway/domain/access/ports/AuditLog"
import { Ids } from "@slipway/domain/ids/Ids"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define } from "../../suite/Suite.ts"

const ALL = 1_000_000
const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")

const operator = { _tag: "Operator" } as const

/** The entries appended while the effect runs as an operator. Entries that keys append by themselves are left out. */
export const appended = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const log = yield* AuditLog
    const before = (yield* log.list({ since: null, limit: ALL })).length
    yield* Effect.provideService(effect, Acting, operator)
    const entries = (yield* log.list({ since: null, limit: ALL })).slice(before)
    return entries.map(({ action, actor, at, subjects }): SecurityEvent => {
      assert.deepStrictEqual<unknown>(actor, action === "key.first_used" ? { _tag: "Key", keyId: subjects["keyId"] } : operator)
      return { action, at, subjects }
    })
  })

export const suite = (name: string, layer: Layer.Layer<AuditLog | Ids, unknown>) =>
  define(`AuditLog (${name})`, layer, (it) => {
    it.effect("gives every entry as it was told, by whom and from where, in the order of telling", () =>
      Effect.gen(function*() {
        const log = yield* AuditLog
        const subject = yield* (yield* Ids).uuid7
        const actors = [
          Actor.make({ _tag: "System" }),
          operator,
          Actor.make({ _tag: "User", userId: "user_01ARZ3NDEKTSV4RRFFQ69G5FAV" }),
          Actor.make({ _tag: "Key", keyId: subject })
        ]
        const expected = Action.literals.map((action, i): AuditEntry => ({
          action,
          // Clocks of processes differ: it is the order of telling that counts.
          at: DateTime.subtract(at, { minutes: i }),
          subjects: { subject, "a 'key'": "\"é\\" },
          actor: actors[i % actors.length] ?? operator,
          origin: i % 2 === 0 ? null : { requestId: `req_${i}`, address: "::1" }
        }))
        for (const { actor, origin, ...event } of expected) {
          yield* log.append([event]).pipe(Effect.provideService(Acting, actor), Effect.provideService(ActingFrom, origin))
        }
        const listed = (yield* log.list({ since: null, limit: ALL })).filter(({ subjects }) => subjects["subject"] === subject)
        assert.deepStrictEqual(listed, expected)
      }))

    it.effect("gives pages by number, from a time and after an entry, without a gap", () =>
      Effect.gen(function*() {
        const log = yield* AuditLog
        const subject = yield* (yield* Ids).uuid7
        const events = Array.from({ length: 7 }, (_, i): SecurityEvent => ({
          action: "key.minted",
          at: DateTime.add(at, { minutes: i }),
          subjects: { subject, name: String(i) }
        }))
        yield* log.append(events)
        const ofSubject = (page: ReadonlyArray<NumberedEntry>) => page.filter(({ entry }) => entry.subjects["subject"] === subject)
        const mine = ofSubject(yield* log.page({ since: null, after: 0, limit: ALL }))
        assert.deepStrictEqual(mine.map(({ entry: { action, at, subjects } }) => ({ action, at, subjects })), events)
        const numbers = mine.map(({ number }) => number)
        assert.deepStrictEqual(numbers, numbers.toSorted((a, b) => a - b))
        for (let i = 0; i < mine.length - 1; i++) {
          const page = yield* log.page({ since: null, after: numbers[i] ?? 0, limit: 1 })
          assert.deepStrictEqual(page, mine.slice(i + 1, i + 2))
        }
        const late = yield* log.page({ since: DateTime.add(at, { minutes: 5 }), after: (numbers[0] ?? 1) - 1, limit: ALL })
        assert.deepStrictEqual(ofSubject(late), mine.slice(5))
      }))

    it.effect("without anybody acting it is the service itself", () =>
      Effect.gen(function*() {
        const log = yield* AuditLog
        yield* log.append([])
        yield* log.append([{ action: "user.approved", at, subjects: {} }])
        const [last] = yield* log.list({ since: null, limit: 1 })
        assert.deepStrictEqual(last, { action: "user.approved", at, subjects: {}, actor: { _tag: "System" }, origin: null })
      }))

    it.effect("gives each follower every new entry once, in the order of telling", () =>
      Effect.gen(function*() {
        const log = yield* AuditLog
        const subject = yield* (yield* Ids).uuid7
        const append = (...names: ReadonlyArray<string>) =>
          log.append(names.map((name) => ({ action: "key.minted" as const, at, subjects: { subject, name } })))
        const namesOf = (entries: ReadonlyArray<AuditEntry>) =>
          entries.flatMap(({ subjects }) => subjects["subject"] === subject ? [subjects["name"]] : [])
        yield* append("before")
        const first = yield* log.follow
        yield* append("one", "two")
        const second = yield* log.follow
        yield* append("three")
        assert.deepStrictEqual(namesOf(yield* first), ["one", "two", "three"])
        assert.deepStrictEqual(namesOf(yield* first), [])
        yield* append("four")
        assert.deepStrictEqual(namesOf(yield* first), ["four"])
        assert.deepStrictEqual(namesOf(yield* second), ["three", "four"])
        const [entry] = yield* log.list({ since: null, limit: 1 })
        yield* append("five")
        const [followed] = yield* first
        assert.deepStrictEqual(followed, entry === undefined ? undefined : { ...entry, subjects: { subject, name: "five" } })
      }))

    it.effect("gives the newest, and none that is older than asked for", () =>
      Effect.gen(function*() {
        const log = yield* AuditLog
        const far = DateTime.add(at, { days: 365 })
        const minutes = (n: number) => DateTime.add(far, { minutes: n })
        yield* log.append([0, 1, 2, 3].map((n) => ({ action: "key.minted" as const, at: minutes(n), subjects: { n: String(n) } })))
        const listed = (since: DateTime.Utc | null, limit: number) =>
          Effect.map(log.list({ since, limit }), (entries) => entries.map(({ subjects }) => subjects["n"]))
        assert.deepStrictEqual(yield* listed(far, 10), ["0", "1", "2", "3"])
        assert.deepStrictEqual(yield* listed(minutes(2), 10), ["2", "3"])
        assert.deepStrictEqual(yield* listed(null, 2), ["2", "3"])
        assert.deepStrictEqual(yield* listed(minutes(1), 1), ["3"])
        assert.deepStrictEqual(yield* listed(minutes(4), 10), [])
      }))
  })
