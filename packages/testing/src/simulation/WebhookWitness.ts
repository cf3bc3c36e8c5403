/**
 * Follows every webhook (docs/decisions/11.4), from what receivers are sent and from what is asked of the store: who may be sent what,
 * in which order, when again, and when never more. It shares nothing with `afterAttempt` and its like.
 */
import type { SignedRequest } from "@slipway/domain/partner/ports/WebhookSender"
import { type TakenAttempt, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import type { Endpoint, Next, Outcome } from "@slipway/domain/partner/rules/Webhook"
import type { PartnerEvent } from "@slipway/domain/partner/schema/PartnerEvent"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { RightsWitness } from "./RightsWitness.ts"
import { atOnce, type Timeline } from "./Timeline.ts"
import type { Trace } from "./Trace.ts"

/** From one attempt to the next, in seconds. There is one attempt more than there are waits. */
export const WAITS: ReadonlyArray<number> = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
const HOUR = 3600
/** A worker that died keeps an endpoint waiting for so long; milliseconds. */
const TAKEN = 60_000
/** How far a process may be behind the store's time. */
const BEHIND = 5_000

/** How long a replaced secret signs on; milliseconds. */
const SIGNS_ALONG = 24 * 3_600_000

interface Known {
  readonly id: string
  readonly grantId: string
  readonly url: string
  readonly types: Endpoint["types"]
  /** It is told what comes after this one of the feed. */
  readonly from: number
  /** The newest event that it took and answered. */
  delivered: number
  /** Recorded failed attempts at the next event. */
  failures: number
  /** Not before; epoch milliseconds. */
  dueAt: number
  isDisabled: boolean
  isRemoved: boolean
  /** How many change it just now, and whether somebody did since it was taken last: what was done first cannot be seen from here. */
  changing: number
  isUnsure: boolean
  /** When its secrets were replaced at the latest, by their value; epoch milliseconds, `null`: still current. */
  readonly secrets: Map<string, number | null>
  /** The last taken attempt that is not recorded yet. */
  taken: { readonly fence: number; readonly at: number } | null
  /** The record in progress; `isDone`: its result was seen. */
  recording: { readonly fence: number; readonly next: Next; isDone: boolean } | null
}

export class WebhookWitness {
  readonly #known = new Map<string, Known>()
  /** Endpoints with one attempt requested by hand. */
  readonly #byHand = new Set<string>()
  readonly #rights: RightsWitness
  readonly #timeline: Timeline
  readonly #trace: Trace
  readonly #feed: (grantId: string) => ReadonlyArray<PartnerEvent>

  constructor(options: {
    readonly rights: RightsWitness
    readonly timeline: Timeline
    readonly trace: Trace
    /** All of it, as it is. */
    readonly feed: (grantId: string) => ReadonlyArray<PartnerEvent>
  }) {
    this.#rights = options.rights
    this.#timeline = options.timeline
    this.#trace = options.trace
    this.#feed = options.feed
  }

  get endpoints(): ReadonlyArray<Pick<Known, "id" | "grantId" | "isRemoved" | "url">> {
    return Array.from(this.#known.values())
  }

  /** Whether an event waits that failed, or its endpoint was disabled. */
  isBehind(id: string): boolean {
    const known = this.#known.get(id)
    return known !== undefined && (known.isUnsure || known.isDisabled || known.failures > 0)
  }

  #wanted({ delivered, grantId, types }: Known, after = delivered): ReadonlyArray<PartnerEvent> {
    return this.#feed(grantId).filter(({ sequence, type }) => sequence > after && (types === null || types.includes(type)))
  }

  /** The undelivered events and their endpoints; `null`: none. */
  unsettled(): string | null {
    for (const known of this.#known.values()) {
      if (known.isDisabled || known.isRemoved || this.#rights.isRevoked(known.grantId) !== false) continue
      const [next] = this.#wanted(known)
      if (next !== undefined) return `${known.url} is to be told of event ${next.sequence}`
    }
    return null
  }

  /** The store, watched. */
  watch(store: WebhookStore["Service"]): WebhookStore["Service"] {
    const change = <A, E>(id: string, self: Effect.Effect<A, E>, done: (known: Known) => void): Effect.Effect<A, E> =>
      Effect.suspend(() => {
        const known = this.#known.get(id)
        if (known === undefined) return self
        known.changing += 1
        known.isUnsure = true
        return self.pipe(
          Effect.tap(() => Effect.sync(() => done(known))),
          Effect.onExit(() => Effect.sync(() => void (known.changing -= 1)))
        )
      }).pipe(atOnce)
    return WebhookStore.of({
      ...store,
      register: (endpoint, secret) =>
        Effect.suspend(() => {
          const from = this.#feed(endpoint.grantId).length
          return Effect.tap(store.register(endpoint, secret), (made) =>
            Effect.sync(() => {
              if (this.#known.has(made.id)) return
              this.#trace.count("webhook endpoints")
              this.#rule(
                "a new endpoint starts at the head of the feed",
                made.cursor >= from && made.cursor <= this.#feed(made.grantId).length,
                `${made.url}: ${made.cursor} of ${from}`
              )
              const { cursor, grantId, id, types, url } = made
              this.#known.set(id, {
                id,
                grantId,
                url,
                types,
                from: cursor,
                delivered: cursor,
                failures: 0,
                dueAt: 0,
                isDisabled: false,
                isRemoved: false,
                changing: 0,
                isUnsure: false,
                secrets: new Map([[Redacted.value(secret), null]]),
                taken: null,
                recording: null
              })
            }))
        }).pipe(atOnce),
      rotate: (key, secret, at) =>
        Effect.tap(store.rotate(key, secret, at), () => Effect.sync(() => this.#rotated(key.id, Redacted.value(secret)))),
      remove: (key, at) => change(key.id, store.remove(key, at), (known) => void (known.isRemoved = true)),
      enable: (key, at) =>
        change(key.id, store.enable(key, at), (known) => {
          known.failures = 0
          known.dueAt = 0
          known.isDisabled = false
        }),
      redeliver: (key, eventId, at) =>
        Effect.suspend(() => {
          this.#byHand.add(`${key.id} ${eventId}`)
          return store.redeliver(key, eventId, at)
        }),
      take: (now, limit) =>
        Effect.suspend(() => {
          const silenced = new Set(
            Array.from(this.#known.values()).filter((known) => known.isRemoved || this.#rights.isRevoked(known.grantId) === true).map((
              { id }
            ) => id)
          )
          return Effect.tap(store.take(now, limit), (taken) => Effect.sync(() => taken.forEach((one) => this.#takes(one, silenced))))
        }).pipe(atOnce),
      record: (taken, attempt, next, at) =>
        Effect.suspend(() => {
          const known = this.#known.get(taken.endpointId)
          if (known !== undefined) this.#follows(taken, attempt.outcome, next, at.epochMilliseconds)
          const recording = { fence: taken.fence, next, isDone: false }
          const isCurrent = known?.taken?.fence === taken.fence
          if (known !== undefined && isCurrent && !taken.manual) known.recording = recording
          return Effect.tap(store.record(taken, attempt, next, at), (isRecorded) =>
            Effect.sync(() => {
              if (known === undefined || taken.manual) return
              this.#rule("of an attempt that was taken anew nothing is recorded", !isRecorded || isCurrent, `${known.url} ${taken.fence}`)
              if (isRecorded && !recording.isDone) this.#recorded(known, next)
              if (known.recording === recording) known.recording = null
            }))
        }).pipe(atOnce)
    })
  }

  #takes({ attempt, endpointId, event, fence, manual, url }: TakenAttempt, silenced: ReadonlySet<string>): void {
    const known = this.#known.get(endpointId)
    if (known === undefined) return
    const { now } = this.#timeline
    const what = `${url} ${event.sequence}`
    this.#rule("nothing is sent for a grant that is revoked, or to an endpoint that is deleted", !silenced.has(endpointId), what)
    if (manual) {
      this.#rule("what is sent beside the line was asked for", this.#byHand.has(`${endpointId} ${event.id}`), what)
      return
    }
    // The next worker sees a record before its writer is told of it, or sees that the writer died before.
    if (known.recording !== null && known.recording.fence === known.taken?.fence) {
      const isAsBefore = event.sequence === this.#wanted(known)[0]?.sequence && attempt === known.failures + 1
      if (!isAsBefore) {
        known.recording.isDone = true
        this.#recorded(known, known.recording.next)
      }
    }
    const { taken } = known
    this.#rule("an endpoint has one attempt at a time", taken === null || now - taken.at >= TAKEN - BEHIND, what)
    known.taken = { fence, at: now }
    const [next] = this.#wanted(known)
    this.#rule(
      "an event that was not delivered holds up those behind it",
      event.sequence === next?.sequence,
      `${what}, next is ${next?.sequence}`
    )
    if (known.isUnsure) {
      known.isUnsure = known.changing > 0
      known.failures = attempt - 1
      known.isDisabled = false
      // It was due, whatever was recorded meanwhile; after a death of this worker the next one takes it again.
      known.dueAt = 0
      return
    }
    this.#rule("a disabled endpoint is left alone", !known.isDisabled, what)
    this.#rule("attempts are counted", attempt === known.failures + 1, `${what}: attempt ${attempt} after ${known.failures}`)
    this.#rule("no endpoint is called before the wait is over", now >= known.dueAt - BEHIND, `${what}: ${known.dueAt - now} ms too early`)
  }

  /** The event that follows an attempt. `at`: when the attempt ended, by its worker's clock. */
  #follows({ attempt, url }: TakenAttempt, outcome: Outcome, next: Next, at: number): void {
    const isDelivered = outcome._tag === "Answered" && outcome.status >= 200 && outcome.status < 300
    const isGone = outcome._tag === "Answered" && outcome.status === 410
    const wait = WAITS[attempt - 1]
    const expected = isDelivered ? "Delivered" : isGone || wait === undefined ? "Disable" : "Retry"
    const what = `${url}, attempt ${attempt}: ${JSON.stringify(next)}`
    this.#rule("what follows an attempt is as the table of attempts says", next._tag === expected, `${what}, not ${expected}`)
    if (next._tag === "Disable") {
      this.#rule("an endpoint is told why it is disabled", next.reason === (isGone ? "gone" : "retries_exhausted"), what)
    }
    if (next._tag !== "Retry" || wait === undefined) return
    const asked = outcome._tag === "Answered" ? outcome.retryAfter ?? 0 : 0
    const least = Math.max(wait, asked > HOUR ? 0 : asked)
    const waits = (next.at.epochMilliseconds - at) / 1000
    this.#rule(
      "an endpoint waits as the table of attempts says",
      waits >= least && waits <= least * 1.2 + 1,
      `${what}: ${waits} s, not ${least}`
    )
  }

  #recorded(known: Known, next: Next): void {
    known.taken = null
    const [event] = this.#wanted(known)
    switch (next._tag) {
      case "Delivered":
        this.#trace.count("webhooks delivered")
        known.delivered = event?.sequence ?? known.delivered
        known.failures = 0
        known.dueAt = 0
        return
      case "Retry":
        this.#trace.count("webhooks to be tried again")
        known.failures += 1
        known.dueAt = next.at.epochMilliseconds
        return
      case "Disable":
        this.#trace.count(`webhook endpoints disabled (${next.reason})`)
        known.failures += 1
        known.isDisabled = true
    }
  }

  /** A receiver is sent this. */
  sent({ body, id, secrets, url }: SignedRequest): void {
    const known = Array.from(this.#known.values()).find((known) => known.url === url)
    if (known === undefined) return
    this.#trace.count("webhook requests")
    const sent: { readonly sequence?: number; readonly type?: string } = JSON.parse(body)
    const event = this.#feed(known.grantId).find((event) => event.id === id)
    this.#rule(
      "a receiver is told what its feed says",
      event !== undefined && sent.sequence === event.sequence && sent.type === event.type,
      `${url} ${id}: ${body}`
    )
    this.#rule("a request is signed", secrets.length > 0, `${url} ${id}`)
    for (const secret of secrets) {
      const replacedAt = known.secrets.get(Redacted.value(secret)) ?? this.#timeline.now
      const since = this.#timeline.now - replacedAt
      if (since > 0) this.#trace.count("webhook requests signed along by a replaced secret")
      this.#rule("a replaced secret signs for a day, and no longer", since <= SIGNS_ALONG + BEHIND, `${url} ${id}: ${since} ms`)
    }
  }

  /** The endpoint has another secret. */
  #rotated(id: string, secret: string): void {
    const secrets = this.#known.get(id)?.secrets
    if (secrets === undefined) return
    for (const [known, replacedAt] of secrets) if (replacedAt === null) secrets.set(known, this.#timeline.now)
    if (!secrets.has(secret)) secrets.set(secret, null)
  }

  /** An endpoint that fails for three days was asked ten times, and is disabled. */
  gaveUp(id: string): void {
    const known = this.#known.get(id)
    this.#rule(
      "an event is tried ten times, and then its endpoint is disabled",
      known?.isDisabled === true && known.failures === WAITS.length + 1,
      `${known?.url}: ${known?.failures} attempts`
    )
  }

  #rule(rule: string, holds: boolean, detail: string): void {
    if (!holds) this.#trace.breaks(rule, detail)
  }
}
