/**
 * Follows every webhook (docs/decisions/11.4), from what receivers are sent and from what is asked of the store: who may be sent what,
 * in which order, when again, and when never more. It shares nothing with `afterAttempt` and its like.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SignedRequest } from "@slipway/domain/partner/ports/WebhookSender"
import { type Attempt, type TakenAttempt, type TakenNotification, WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import type { NextOfLine } from "@slipway/domain/partner/rules/Notification"
import type { Endpoint, Next, Outcome } from "@slipway/domain/partner/rules/Webhook"
import type { PartnerEvent } from "@slipway/domain/partner/schema/PartnerEvent"
import type { LogEntry } from "@slipway/domain/sandbox/ports/SandboxStore"
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
  /** It is told what comes after these of the sandboxes there were when it was registered. */
  readonly heads: ReadonlyMap<SandboxId, number>
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

/** The notifications of a sandbox for an endpoint. */
interface KnownLine {
  /** `seq` of the last delivered or skipped notification; `null`: none. */
  finished: number | null
  /** The last taken attempt that is not recorded yet. */
  taken: { readonly fence: number; readonly at: number; readonly seq: number; readonly attempt: number } | null
  /** The record in progress. */
  recording: { readonly fence: number; readonly next: NextOfLine } | null
  /** Whether the last recorded attempt failed, so that the next one has its time. */
  isWaiting: boolean
}

/** The types of notifications that the event counts as. */
const typesOf = ({ type, wire }: LogEntry): ReadonlyArray<string> => {
  if (type !== "sandbox.status") return [type]
  const { data }: { readonly data: { readonly status: string } } = JSON.parse(wire)
  const ended = ["succeeded", "failed", "terminated"].includes(data.status) ? ["sandbox.ended"] : []
  return [`sandbox.${data.status}`, ...ended]
}

export class WebhookWitness {
  readonly #lines = new Map<string, KnownLine>()
  readonly #log: (sandboxId: SandboxId) => ReadonlyArray<LogEntry>
  /** The events of notifications by their ids. */
  readonly #ids = new Map<string, string>()
  readonly #sandboxes: (grantId: string) => ReadonlyArray<SandboxId>
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
    /** The log of a sandbox, as far as it is kept. */
    readonly log: (sandboxId: SandboxId) => ReadonlyArray<LogEntry>
    readonly sandboxes: (grantId: string) => ReadonlyArray<SandboxId>
  }) {
    this.#rights = options.rights
    this.#timeline = options.timeline
    this.#trace = options.trace
    this.#feed = options.feed
    this.#log = options.log
    this.#sandboxes = options.sandboxes
  }

  get endpoints(): ReadonlyArray<Pick<Known, "id" | "grantId" | "isRemoved" | "url">> {
    return Array.from(this.#known.values())
  }

  /** Whether an event or a notification waits that failed, or its endpoint was disabled. */
  isBehind(id: string): boolean {
    const known = this.#known.get(id)
    return known !== undefined &&
      (known.isUnsure || known.isDisabled || known.failures > 0 || this.#linesOf(id).some((line) => line.isWaiting))
  }

  #linesOf(endpointId: string): ReadonlyArray<KnownLine> {
    return Array.from(this.#lines).flatMap(([key, line]) => key.startsWith(`${endpointId} `) ? [line] : [])
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

  /** A notification that no endpoint may miss and that none of its attempts has ended yet, as a sentence; `null`: none. */
  missing(): string | null {
    for (const known of this.#known.values()) {
      if (known.isDisabled || known.isRemoved || this.#rights.isRevoked(known.grantId) !== false) continue
      for (const sandboxId of this.#sandboxes(known.grantId)) {
        const due = this.#dueOf(known, sandboxId)
        if (due !== undefined) return `${known.url} is to be told of event ${due.seq} of ${sandboxId}`
      }
    }
    return null
  }

  /** The first event of the sandbox's log that the endpoint wants and that is neither delivered nor skipped; before `seq`, if given. */
  #dueOf({ heads, id, types }: Known, sandboxId: SandboxId, seq = Number.POSITIVE_INFINITY): LogEntry | undefined {
    const after = this.#lines.get(`${id} ${sandboxId}`)?.finished ?? heads.get(sandboxId) ?? 0
    return this.#log(sandboxId).find((entry) =>
      entry.seq > after && entry.seq < seq && typesOf(entry).some((type) => types?.some((wanted) => wanted === type) === true)
    )
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
              const heads = new Map(this.#sandboxes(grantId).map((sandboxId) => [sandboxId, this.#log(sandboxId).at(-1)?.seq ?? 0]))
              this.#known.set(id, {
                id,
                grantId,
                url,
                types,
                from: cursor,
                heads,
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
          for (const line of this.#linesOf(key.id)) line.isWaiting = false
        }),
      redeliver: (key, eventId, at) =>
        Effect.suspend(() => {
          this.#byHand.add(`${key.id} ${eventId}`)
          return store.redeliver(key, eventId, at)
        }),
      takeNotifications: (now, limit) =>
        Effect.suspend(() => {
          const silenced = this.#silenced()
          return Effect.tap(store.takeNotifications(now, limit), (taken) =>
            Effect.sync(() => taken.forEach((one) => this.#takesNotification(one, silenced))))
        }).pipe(atOnce),
      recordNotification: (taken, attempt, next, at) =>
        Effect.suspend(() => {
          this.#followsAttempt(taken, attempt.outcome, next)
          return this.#followsNotification(store, taken, store.recordNotification(taken, attempt, next, at), next)
        }).pipe(atOnce),
      take: (now, limit) =>
        Effect.suspend(() => {
          const silenced = this.#silenced()
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

  /** Endpoints that nothing may be sent to. */
  #silenced(): ReadonlySet<string> {
    const silenced = Array.from(this.#known.values()).filter(({ grantId, isRemoved }) =>
      isRemoved || this.#rights.isRevoked(grantId) === true
    )
    return new Set(silenced.map(({ id }) => id))
  }

  #lineOf({ endpointId, notification: { sandboxId } }: TakenNotification): KnownLine {
    const key = `${endpointId} ${sandboxId}`
    const line = this.#lines.get(key) ?? { finished: null, taken: null, recording: null, isWaiting: false }
    this.#lines.set(key, line)
    return line
  }

  #takesNotification(taken: TakenNotification, silenced: ReadonlySet<string>): void {
    const { attempt, endpointId, fence, manual, notification: { sandboxId, seq }, url } = taken
    const known = this.#known.get(endpointId)
    if (known === undefined) return
    const what = `${url} ${sandboxId} ${seq}`
    this.#rule("nothing is sent for a grant that is revoked, or to an endpoint that is deleted", !silenced.has(endpointId), what)
    if (manual) return
    const line = this.#lineOf(taken)
    const { now } = this.#timeline
    // The next worker sees a record before its writer is told of it, or sees that the writer died before.
    const { recording, taken: earlier } = line
    if (recording !== null && earlier?.fence === recording.fence && (earlier.seq !== seq || earlier.attempt !== attempt)) {
      this.#finishes(line, earlier.seq, recording.next)
    }
    this.#rule(
      "a sandbox has one notification under way at an endpoint",
      line.taken === null || now - line.taken.at >= TAKEN - BEHIND,
      what
    )
    line.taken = { fence, at: now, seq, attempt }
    const { finished } = line
    this.#rule("a notification that was accepted is not sent again", finished === null || seq > finished, `${what} after ${finished}`)
    const before = this.#dueOf(known, sandboxId, seq)
    this.#rule("notifications of a sandbox come in the order of its log", before === undefined, `${what} before ${before?.seq}`)
  }

  /** The event that follows an attempt at a notification. */
  #followsAttempt({ attempt, notification: { seq }, url }: TakenNotification, outcome: Attempt["outcome"], next: NextOfLine): void {
    const status = outcome._tag === "Answered" ? outcome.status : 0
    const failed = status === 410 ? "Gone" : attempt > WAITS.length ? "Skip" : "Retry"
    const expected = status >= 200 && status < 300 ? "Delivered" : failed
    this.#rule(
      "what follows an attempt at a notification is as the table of attempts says",
      next._tag === expected,
      `${url} ${seq}, attempt ${attempt}: ${next._tag}, not ${expected}`
    )
  }

  #finishes(line: KnownLine, seq: number, next: NextOfLine): void {
    line.taken = null
    line.recording = null
    this.#trace.count(`notifications: ${next._tag}`)
    const isFinished = next._tag === "Delivered" || next._tag === "Skip"
    if (isFinished) line.finished = seq
    line.isWaiting = !isFinished
  }

  /** Sees what was recorded, and whether the endpoint is disabled now. */
  #followsNotification<E>(
    store: WebhookStore["Service"],
    taken: TakenNotification,
    recording: Effect.Effect<boolean, E>,
    next: NextOfLine
  ): Effect.Effect<boolean, E> {
    const { endpointId, fence, manual, notification: { seq }, url } = taken
    const known = this.#known.get(endpointId)
    const line = this.#lineOf(taken)
    const isCurrent = line.taken?.fence === fence
    if (isCurrent && !manual) line.recording = { fence, next }
    return Effect.tap(recording, (isRecorded) =>
      Effect.gen({ self: this }, function*() {
        if (known === undefined || manual || !isRecorded) return
        this.#rule("of a notification that was taken anew nothing is recorded", isCurrent, `${url} ${fence}`)
        if (line.recording?.fence === fence) this.#finishes(line, seq, next)
        const { grantId, id } = known
        const endpoint = (yield* Effect.orDie(store.list(grantId))).find((one) => one.id === id)
        if (endpoint !== undefined && endpoint.disabled !== null) known.isDisabled = true
      }))
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
    const sent: { readonly sequence?: number; readonly type?: string; readonly sandbox?: { readonly id: SandboxId } } = JSON.parse(body)
    if (sent.sandbox !== undefined) {
      const { sandbox, ...event } = sent
      const wire = JSON.stringify(event)
      // The log may have been deleted since.
      const log = this.#log(sandbox.id)
      this.#rule(
        "a notification says what the log of its sandbox says",
        log.length === 0 || log.some((entry) => entry.wire === wire),
        `${url} ${id}: ${body}`
      )
      const known = this.#ids.get(id) ?? wire
      this.#ids.set(id, known)
      this.#rule("each notification has an id of its own", known === wire, `${url} ${id}: ${body}`)
      this.#trace.count("requests of notifications")
      this.#rule("a request is signed", secrets.length > 0, `${url} ${id}`)
      // A registration whose answer was lost is repeated, with another choice.
      const isChosen = Array.from(this.#known.values()).some((known) => known.url === url && known.types !== null)
      this.#rule("an endpoint gets the notifications that it chose", isChosen, `${url} ${id}: ${body}`)
      return
    }
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
