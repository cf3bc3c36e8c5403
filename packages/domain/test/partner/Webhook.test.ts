import { assert, describe, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import {
  afterAttempt,
  atHead,
  ATTEMPT_TIME,
  bodyOf,
  DisabledReason,
  enabled,
  EVENT_TYPES,
  isDelivered,
  JITTER,
  MAX_ENDPOINTS,
  mintSecret,
  type Outcome,
  rotated,
  type Secret,
  signing,
  SIGNS_ALONG,
  standingAfter,
  Trouble,
  WAITS,
  WantedTypes
} from "@slipway/domain/partner/rules/Webhook"
import { PartnerFact, type PartnerEvent } from "@slipway/domain/partner/schema/PartnerEvent"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const later = (duration: Duration.Input) => DateTime.addDuration(at, Duration.fromInputUnsafe(duration))
const answered = (status: number, retryAfter: number | null = null): Outcome => ({ _tag: "Answered", status, retryAfter, body: null })
const retry = (wait: Duration.Input) => ({ _tag: "Retry", at: later(wait) })

const AnyOutcome = Schema.Union([
  Schema.TaggedStruct("Answered", {
    status: Schema.Int.check(Schema.isBetween({ minimum: 200, maximum: 599 })),
    retryAfter: Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10_000 }))),
    body: Schema.Null
  }),
  Schema.TaggedStruct("Failed", { trouble: Trouble })
])
const AnyAttempt = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: WAITS.length + 1 }))
const AnyJitter = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 99 }))

describe("what follows an attempt", () => {
  it("that fails is another one after 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h, and then none", () => {
    const waits: ReadonlyArray<Duration.Input> = [
      "5 seconds",
      "5 minutes",
      "30 minutes",
      "2 hours",
      "5 hours",
      "10 hours",
      "14 hours",
      "20 hours",
      "24 hours"
    ]
    for (const [i, wait] of waits.entries()) assert.deepStrictEqual<unknown>(afterAttempt(i + 1, answered(500), at, 0), retry(wait))
    assert.deepStrictEqual(afterAttempt(10, answered(500), at, 0), { _tag: "Disable", reason: "retries_exhausted" })
  })

  it("that fails is the same whatever it failed of, redirects too", () => {
    const failures: ReadonlyArray<Outcome> = [
      ...[199, 300, 301, 302, 307, 308, 304, 400, 404, 409, 429, 500, 503].map((status) => answered(status)),
      ...Trouble.literals.map((trouble): Outcome => ({ _tag: "Failed", trouble }))
    ]
    for (const outcome of failures) assert.deepStrictEqual<unknown>(afterAttempt(1, outcome, at, 0), retry("5 seconds"))
  })

  it("that succeeds is nothing more", () => {
    for (const status of [200, 201, 202, 204, 299]) {
      for (const attempt of [1, 10]) assert.deepStrictEqual(afterAttempt(attempt, answered(status, 60), at, 0.5), { _tag: "Delivered" })
    }
  })

  it("comes later by up to a fifth of the wait, and by no part of a millisecond too early", () => {
    assert.deepStrictEqual<unknown>(afterAttempt(1, answered(500), at, 0.5), retry("5500 millis"))
    assert.deepStrictEqual<unknown>(afterAttempt(1, answered(500), at, 1), retry("6 seconds"))
    assert.deepStrictEqual<unknown>(afterAttempt(1, answered(503, 60), at, 0.5), retry("66 seconds"))
    assert.deepStrictEqual<unknown>(afterAttempt(1, answered(500), at, 0.00001), retry("5001 millis"))
  })

  it("that is answered with 410 is the end at once", () =>
    assert.deepStrictEqual(afterAttempt(1, answered(410, 60), at, 0), { _tag: "Disable", reason: "gone" }))

  it("comes no earlier than Retry-After asks for, up to an hour, and no earlier than it would without", () => {
    assert.deepStrictEqual<unknown>(afterAttempt(1, answered(429, 60), at, 0), retry("1 minute"))
    assert.deepStrictEqual<unknown>(afterAttempt(1, answered(503, 3600), at, 0), retry("1 hour"))
    assert.deepStrictEqual<unknown>(afterAttempt(1, answered(503, 3601), at, 0), retry("5 seconds"))
    assert.deepStrictEqual<unknown>(afterAttempt(4, answered(503, 60), at, 0), retry("2 hours"))
    assert.deepStrictEqual(afterAttempt(10, answered(503, 60), at, 0), { _tag: "Disable", reason: "retries_exhausted" })
  })

  it.prop(
    "is never earlier than the wait and never later than its jitter allows",
    [AnyAttempt, AnyOutcome, AnyJitter],
    ([attempt, outcome, percent]) => {
      const next = afterAttempt(attempt, outcome, at, percent / 100)
      assert.strictEqual(next._tag === "Delivered", isDelivered(outcome))
      if (next._tag !== "Retry") return
      const [wait, scheduled] = [next.at.epochMilliseconds - at.epochMilliseconds, Duration.toMillis(WAITS[attempt - 1] ?? Duration.zero)]
      assert.isAtLeast(wait, scheduled)
      assert.isAtMost(wait, Math.ceil(Math.max(scheduled, 3_600_000) * (1 + JITTER)))
    }
  )

  it.prop(
    "moves an endpoint past an event that was delivered and past no other",
    [AnyAttempt, AnyOutcome, AnyJitter],
    ([attempt, outcome, percent]) => {
      const next = afterAttempt(attempt, outcome, at, percent / 100)
      const standing = standingAfter({ attempt, sequence: 7, dueAt: at }, next, at, { dueAt: at, disabled: null })
      const later = DateTime.add(at, { seconds: 1 })
      const meanwhile = standingAfter({ attempt, sequence: 7, dueAt: at }, next, at, { dueAt: later, disabled: null })
      assert.deepStrictEqual(meanwhile, isDelivered(outcome) ? standing : atHead(6, later))
      assert.strictEqual(standing.cursor, isDelivered(outcome) ? 7 : 6)
      assert.strictEqual(standing.failures, isDelivered(outcome) ? 0 : attempt)
      assert.strictEqual(standing.disabled !== null, next._tag === "Disable")
      const disabled = { at: later, reason: "gone" } as const
      assert.deepStrictEqual(standingAfter({ attempt, sequence: 7, dueAt: at }, next, at, { dueAt: at, disabled }), {
        ...standing,
        disabled
      })
      assert.isTrue(DateTime.isGreaterThanOrEqualTo(standing.dueAt, at))
      assert.deepStrictEqual(enabled(standing, at), { ...atHead(standing.cursor, at) })
    }
  )

  it("lets one who fails all the time use up every attempt within three and a half days", () => {
    let [now, attempt] = [at, 1]
    for (;; attempt++) {
      const next = afterAttempt(attempt, answered(500), now, 0.99)
      if (next._tag !== "Retry") break
      now = next.at
    }
    assert.strictEqual(attempt, 10)
    assert.isTrue(DateTime.isLessThan(now, later("4 days")))
  })
})

describe("secrets", () => {
  const [first, second] = [Redacted.make("first"), Redacted.make("second")]
  const values = (secrets: ReadonlyArray<Secret>) => secrets.map(({ value }) => Redacted.value(value))

  it.effect("are whsec_ and base64 of 32 random bytes", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const minted = yield* Effect.forEach(Array.from({ length: 200 }), () => Effect.map(mintSecret(ids), Redacted.value))
      for (const secret of minted) {
        assert.match(secret, /^whsec_[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/u)
        const bytes = atob(secret.slice("whsec_".length))
        assert.strictEqual(bytes.length, 32)
        assert.strictEqual(btoa(bytes), secret.slice("whsec_".length))
      }
      assert.strictEqual(new Set(minted).size, minted.length)
      // Every character of the alphabet turns up.
      assert.strictEqual(new Set(minted.map((secret) => secret.slice(6, -2)).join("")).size, 64)
    }).pipe(Effect.provide(IdsMemory.layer)))

  it("that were replaced sign along for 24 hours, after the new one", () => {
    const secrets = rotated([{ value: first, until: null }], second, at)
    assert.deepStrictEqual(secrets.map(({ until }) => until), [null, later("24 hours")])
    assert.deepStrictEqual(values(signing(secrets, later("1439 minutes"))), ["second", "first"])
    assert.deepStrictEqual(values(signing(secrets, later(SIGNS_ALONG))), ["second"])
  })

  it("keep their time when another one follows, and the oldest of many give way", () => {
    let secrets: ReadonlyArray<Secret> = [{ value: first, until: null }]
    for (let n = 1; n <= 2; n++) secrets = rotated(secrets, Redacted.make(`${n}`), later(`${n} hours`))
    assert.deepStrictEqual(secrets.map(({ until }) => until), [null, later("26 hours"), later("25 hours")])
    for (let n = 3; n <= 9; n++) secrets = rotated(secrets, Redacted.make(`${n}`), later(`${n} hours`))
    assert.deepStrictEqual(values(secrets), ["9", "8", "7", "6", "5"])
    assert.deepStrictEqual(values(rotated(secrets, first, later("5 days"))), ["first", "9"])
  })
})

describe("an endpoint", () => {
  it("is one of 20 at most, has 15 seconds to answer, and is disabled for one of two reasons", () => {
    assert.strictEqual(MAX_ENDPOINTS, 20)
    assert.deepStrictEqual(ATTEMPT_TIME, Duration.seconds(15))
    assert.deepStrictEqual(DisabledReason.literals, ["gone", "retries_exhausted", "not_accepting"])
  })

  it("gives no answer for one of seven reasons", () =>
    assert.deepStrictEqual(Trouble.literals, [
      "timeout",
      "name_not_resolved",
      "address_not_allowed",
      "tls",
      "connection",
      "event_unreadable",
      "secret_unreadable"
    ]))

  it("may want any type that a feed tells, each once, and at least one", () => {
    assert.deepStrictEqual([...EVENT_TYPES].sort(), PartnerFact.members.map(({ fields }) => fields.type.literal).sort())
    const isWanted = Schema.is(WantedTypes)
    for (const types of [["conversion.paid"], EVENT_TYPES]) assert.isTrue(isWanted(types))
    for (const types of [[], ["conversion.paid", "conversion.paid"], ["nothing.happened"]]) assert.isFalse(isWanted(types))
  })

  it("gets the event as the feed writes it", () => {
    const event: PartnerEvent = {
      id: "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1e00",
      sequence: 7,
      createdAt: at,
      type: "task.started",
      data: {
        claimId: "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1e01",
        leadId: "é",
        variant: "b",
        occurredAt: at,
        taskId: "c_aaaaaaaaaaaa",
        projectId: null
      }
    }
    assert.deepStrictEqual(JSON.parse(bodyOf(event)), {
      ...event,
      createdAt: "2026-11-21T02:41:00.123Z",
      data: { ...event.data, occurredAt: "2026-11-21T02:41:00.123Z" }
    })
  })
})
