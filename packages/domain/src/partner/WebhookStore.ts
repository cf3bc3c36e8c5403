/** Port: endpoints of webhooks, how far each is, and the log of their deliveries. Checked by `testing/WebhookStoreContract`. */
import { Context, DateTime, Duration, Effect, Layer, Option, type Redacted, Scheduler, Schema } from "effect"
import { AccessStore } from "../access/AccessStore.ts"
import { type Action, AuditLog, type SecurityEvent } from "../access/AuditLog.ts"
import { MemberStore } from "../access/MemberStore.ts"
import type { Uuid } from "../Ids.ts"
import type { StoreUnavailable } from "../sandbox/SandboxStore.ts"
import type { PartnerEvent } from "./PartnerEvent.ts"
import { PartnerStore } from "./PartnerStore.ts"
import { atHead, enabled, type Endpoint, MAX_ENDPOINTS, type Next, type Outcome, rotated, type Secret, standingAfter } from "./Webhook.ts"

/** No endpoint of the grant has this id. Another grant's is as unknown. */
export class EndpointNotFound extends Schema.TaggedError<EndpointNotFound>()("EndpointNotFound", {}) {
  override get message() {
    return "There is no such webhook endpoint."
  }
}

/** The grant's feed has no such event. */
export class PartnerEventNotFound extends Schema.TaggedError<PartnerEventNotFound>()("PartnerEventNotFound", {}) {
  override get message() {
    return "There is no such event."
  }
}

/** The grant has as many endpoints as it may have. One has to be deleted first. */
export class TooManyEndpoints extends Schema.TaggedError<TooManyEndpoints>()("TooManyEndpoints", {}) {
  override get message() {
    return `A grant may have ${MAX_ENDPOINTS} webhook endpoints.`
  }
}

/** An endpoint as its grant names it. */
export interface EndpointKey {
  readonly grantId: string
  readonly id: Uuid
}

/** One attempt, in the log. */
export interface Delivery {
  /** Greater than that of every earlier one of the endpoint; a page goes on below it. */
  readonly position: number
  readonly eventId: Uuid
  /** The event's, in the feed. */
  readonly sequence: number
  /** Which attempt at the event it was, from 1; 1 for a manual one. */
  readonly attempt: number
  /** Asked for by somebody, beside the line of the feed. */
  readonly manual: boolean
  /** When it began. */
  readonly at: DateTime.Utc
  /** Whole milliseconds. */
  readonly durationMillis: number
  readonly outcome: Outcome
}

/** A worker's right to make one attempt, for {@link CLAIM_TIME}. */
export interface ClaimedDelivery {
  readonly endpointId: Uuid
  readonly url: string
  readonly secrets: ReadonlyArray<Secret>
  readonly event: PartnerEvent
  readonly attempt: number
  readonly manual: boolean
  /** Grows with each claim. A record with an old one changes nothing. */
  readonly fence: number
}

/** Longer than an attempt with all around it can take. A worker that died keeps the endpoint waiting for so long. */
export const CLAIM_TIME = Duration.minutes(1)

/** How long the log is kept (ours). */
export const LOG_RETENTION = Duration.days(30)

/** The entry of something that happened to an endpoint. */
export const told = (
  action: Action,
  { grantId, id }: EndpointKey,
  at: DateTime.Utc,
  more: Readonly<Record<string, string>> = {}
): SecurityEvent => ({
  action,
  at,
  subjects: { endpointId: id, grantId, ...more }
})

/**
 * Checked by `testing/WebhookStoreContract`. Of an endpoint, one event at a time is claimed, in the order of the feed, and
 * the next one only once it is delivered. Times of retries are the caller's, claims last by the store's own time. What
 * changes an endpoint is in the audit log.
 */
export class WebhookStore extends Context.Service<WebhookStore, {
  /** At the head of the grant's feed. */
  register(
    endpoint: Pick<Endpoint, "id" | "grantId" | "url" | "types" | "createdAt">,
    secret: Redacted.Redacted
  ): Effect.Effect<Endpoint, TooManyEndpoints | StoreUnavailable>
  /** Oldest first. */
  list(grantId: string): Effect.Effect<ReadonlyArray<Endpoint>, StoreUnavailable>
  find(key: EndpointKey): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  /** With its log. Nothing more is sent, but for what is on its way. */
  remove(key: EndpointKey, at: DateTime.Utc): Effect.Effect<void, EndpointNotFound | StoreUnavailable>
  /** From the next claim on. Secrets before it sign along as `rotated` says. */
  rotate(key: EndpointKey, secret: Redacted.Redacted, at: DateTime.Utc): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  /** See `enabled`. Safe to call twice. */
  enable(key: EndpointKey, at: DateTime.Utc): Effect.Effect<Endpoint, EndpointNotFound | StoreUnavailable>
  /** The log, newest first, below the position `before`; `null`: from its end. */
  deliveries(
    key: EndpointKey,
    page: { readonly before: number | null; readonly limit: number }
  ): Effect.Effect<ReadonlyArray<Delivery>, EndpointNotFound | StoreUnavailable>
  /**
   * Has one event of the grant's feed sent once more, beside the line and whatever the endpoint's standing, types included.
   * One that waits already waits once.
   */
  redeliver(
    key: EndpointKey,
    eventId: Uuid,
    at: DateTime.Utc
  ): Effect.Effect<void, EndpointNotFound | PartnerEventNotFound | StoreUnavailable>
  /**
   * Up to `limit` attempts that are due, for this caller alone. Nothing of an endpoint that is disabled, whose grant is
   * revoked or whose organization is suspended. Manual ones, one of an endpoint at a time, get what the line leaves: that
   * is half of it while they wait, so that nobody who asks for much keeps others from their events.
   */
  claim(now: DateTime.Utc, limit: number): Effect.Effect<ReadonlyArray<ClaimedDelivery>, StoreUnavailable>
  /**
   * Logs the attempt and moves its endpoint on as `standingAfter` says; a manual one is only logged. `false`: the claim was
   * another's by then, or the endpoint is deleted; nothing was changed.
   */
  record(
    claimed: ClaimedDelivery,
    attempt: Pick<Delivery, "at" | "durationMillis" | "outcome">,
    next: Next,
    at: DateTime.Utc
  ): Effect.Effect<boolean, StoreUnavailable>
  /** Forgets up to `limit` attempts of the log that began before `before`; how many there were. */
  purge(before: DateTime.Utc, limit: number): Effect.Effect<number, StoreUnavailable>
}>()("@slipway/domain/WebhookStore") {
  /** Process-local, for tests and for embedding without a database. Reads the feeds of the `PartnerStore` beneath it. */
  static readonly layerMemory = Layer.effect(
    WebhookStore,
    Effect.gen(function*() {
      const partners = yield* PartnerStore
      const audit = yield* AuditLog
      const access = Option.getOrNull(yield* Effect.serviceOption(AccessStore))
      const members = Option.getOrNull(yield* Effect.serviceOption(MemberStore))
      const endpoints = new Map<string, Kept>()
      let position = 0

      const kept = ({ grantId, id }: EndpointKey) =>
        Effect.suspend(() => {
          const found = endpoints.get(id)
          return found?.endpoint.grantId === grantId ? Effect.succeed(found) : Effect.fail(new EndpointNotFound())
        })
      const feed = (grantId: string, after: number) => partners.feed(grantId, after, Number.MAX_SAFE_INTEGER)
      const isHeard = Effect.fnUntraced(function*(grantId: string) {
        if (access === null) return true
        const grant = (yield* access.listGrants).find(({ id }) => id === grantId)
        if (grant === undefined || grant.revokedAt !== null) return false
        const organizations = members === null ? [] : yield* members.organizations
        return organizations.every(({ id, suspendedAt }) => id !== grant.organizationId || suspendedAt === null)
      })
      const isFree = ({ until }: Claimable, now: DateTime.Utc) => until === null || DateTime.isLessThanOrEqualTo(until, now)
      const take = (line: Claimable, now: DateTime.Utc) => {
        line.fence++
        line.until = DateTime.addDuration(now, CLAIM_TIME)
        return line.fence
      }

      return WebhookStore.of({
        register: Effect.fnUntraced(function*(endpoint, secret) {
          const head = (yield* feed(endpoint.grantId, 0)).length
          const others = Array.from(endpoints.values()).filter((other) => other.endpoint.grantId === endpoint.grantId)
          if (others.length >= MAX_ENDPOINTS) return yield* new TooManyEndpoints()
          const registered = { ...endpoint, ...atHead(head, endpoint.createdAt) }
          endpoints.set(endpoint.id, {
            endpoint: registered,
            secrets: [{ value: secret, until: null }],
            log: [],
            manual: new Map(),
            fence: 0,
            until: null
          })
          yield* audit.append([told("webhook.registered", endpoint, endpoint.createdAt)])
          return registered
        }),
        list: (grantId) =>
          Effect.sync(() => Array.from(endpoints.values(), ({ endpoint }) => endpoint).filter((endpoint) => endpoint.grantId === grantId)),
        find: (key) => Effect.map(kept(key), ({ endpoint }) => endpoint),
        remove: Effect.fnUntraced(function*(key, at) {
          yield* kept(key)
          endpoints.delete(key.id)
          yield* audit.append([told("webhook.deleted", key, at)])
        }),
        rotate: Effect.fnUntraced(function*(key, secret, at) {
          const found = yield* kept(key)
          found.secrets = rotated(found.secrets, secret, at)
          yield* audit.append([told("webhook.secret_rotated", key, at)])
          return found.endpoint
        }),
        enable: Effect.fnUntraced(function*(key, at) {
          const found = yield* kept(key)
          const wasDisabled = found.endpoint.disabled !== null
          found.endpoint = { ...found.endpoint, ...enabled(found.endpoint, at) }
          if (wasDisabled) yield* audit.append([told("webhook.enabled", key, at)])
          return found.endpoint
        }),
        deliveries: (key, { before, limit }) =>
          Effect.map(
            kept(key),
            ({ log }) => log.filter(({ position }) => before === null || position < before).toReversed().slice(0, limit)
          ),
        redeliver: Effect.fnUntraced(function*(key, eventId) {
          const { manual } = yield* kept(key)
          const event = (yield* feed(key.grantId, 0)).find(({ id }) => id === eventId)
          if (event === undefined) return yield* new PartnerEventNotFound()
          if (!manual.has(eventId)) manual.set(eventId, { event, fence: 0, until: null })
        }),
        claim: Effect.fnUntraced(function*(now, limit) {
          const time = yield* DateTime.now
          const claimed: Array<ClaimedDelivery> = []
          const heard: Array<Kept> = []
          for (const found of endpoints.values()) if (yield* isHeard(found.endpoint.grantId)) heard.push(found)
          const ordered = Effect.fnUntraced(function*(limit: number) {
            const taken: Array<ClaimedDelivery> = []
            for (const found of heard.toSorted((a, b) => DateTime.Order(a.endpoint.dueAt, b.endpoint.dueAt))) {
              const { endpoint, secrets } = found
              if (taken.length === limit) return taken
              if (endpoint.disabled !== null || DateTime.isGreaterThan(endpoint.dueAt, now) || !isFree(found, time)) continue
              const events = yield* feed(endpoint.grantId, endpoint.cursor)
              const event = events.find(({ type }) => endpoint.types === null || endpoint.types.includes(type))
              found.endpoint = { ...endpoint, cursor: event === undefined ? endpoint.cursor + events.length : event.sequence - 1 }
              if (event === undefined) continue
              taken.push({
                endpointId: endpoint.id,
                url: endpoint.url,
                secrets,
                event,
                attempt: endpoint.failures + 1,
                manual: false,
                fence: take(found, time)
              })
            }
            return taken
          })
          const due = yield* ordered(Math.ceil(limit / 2))
          for (const { endpoint: { id, url }, manual, secrets } of heard) {
            // In the order in which they were asked for.
            const [line] = manual.values()
            if (line === undefined || !isFree(line, time) || claimed.length + due.length === limit) continue
            claimed.push({ endpointId: id, url, secrets, event: line.event, attempt: 1, manual: true, fence: take(line, time) })
          }
          claimed.push(...due, ...(yield* ordered(limit - claimed.length - due.length)))
          return claimed
          // Nothing else runs between what is looked at and what is taken.
        }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
        record: Effect.fnUntraced(function*({ attempt, endpointId, event, fence, manual }, made, next, at) {
          const found = endpoints.get(endpointId)
          const line = manual ? found?.manual.get(event.id) : found
          if (found === undefined || line?.fence !== fence || line.until === null) return false
          found.log.push({ position: ++position, eventId: event.id, sequence: event.sequence, attempt, manual, ...made })
          if (manual) {
            found.manual.delete(event.id)
            return true
          }
          found.until = null
          found.endpoint = { ...found.endpoint, ...standingAfter({ attempt, sequence: event.sequence }, next, at) }
          if (next._tag === "Disable") yield* audit.append([told("webhook.disabled", found.endpoint, at, { reason: next.reason })])
          return true
        }),
        purge: (before, limit) =>
          Effect.sync(() => {
            let purged = 0
            for (const found of endpoints.values()) {
              const old = found.log.filter(({ at }) => DateTime.isLessThan(at, before)).slice(0, limit - purged)
              found.log = found.log.filter((delivery) => !old.includes(delivery))
              purged += old.length
            }
            return purged
          })
      })
    })
  ).pipe(Layer.provideMerge(AuditLog.layerMemory))
}

/** What one worker at a time may be at. `until: null`: nobody is. */
interface Claimable {
  fence: number
  until: DateTime.Utc | null
}

interface Kept extends Claimable {
  endpoint: Endpoint
  secrets: ReadonlyArray<Secret>
  log: Array<Delivery>
  /** Events that somebody asked for, by their ids. */
  readonly manual: Map<string, Claimable & { readonly event: PartnerEvent }>
}
