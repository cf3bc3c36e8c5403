/** `WebhookStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scheduler from "effect/Scheduler"
import { AccessStore } from "../../src/access/ports/AccessStore.ts"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import { MemberStore } from "../../src/access/ports/MemberStore.ts"
import { PartnerStore } from "../../src/partner/ports/PartnerStore.ts"
import {
  EndpointNotFound,
  PartnerEventNotFound,
  TooManyEndpoints,
  type EndpointKey,
  type Attempt,
  type TakenAttempt,
  told,
  WebhookStore
} from "../../src/partner/ports/WebhookStore.ts"
import {
  atHead,
  enabled,
  feedTypes,
  MAX_ENDPOINTS,
  rotated,
  type Secret,
  standingAfter,
  wantedNotifications
} from "../../src/partner/rules/Webhook.ts"
import type { PartnerEvent } from "../../src/partner/schema/PartnerEvent.ts"
import * as AuditLogMemory from "../access/AuditLogMemory.ts"
import * as MemoryNotifications from "./MemoryNotifications.ts"
import { give, isFree, type KeptEndpoint, notificationsOf } from "./NotificationsMemory.ts"

interface Kept extends MemoryNotifications.Claimable, KeptEndpoint {
  secrets: ReadonlyArray<Secret>
  log: Array<Attempt>
  /** Requested redeliveries by event id. */
  readonly manual: Map<string, MemoryNotifications.Claimable & { readonly event: PartnerEvent }>
}

/** The state of the layer. */
interface State {
  readonly audit: AuditLog["Service"]
  /** `null`: every grant exists. */
  readonly access: AccessStore["Service"] | null
  readonly members: MemberStore["Service"] | null
  readonly endpoints: Map<string, Kept>
  readonly notifications: MemoryNotifications.MemoryNotifications["Service"]
  /** The position of the newest attempt in the log. */
  position: number
  readonly feed: (grantId: string, after: number) => ReturnType<PartnerStore["Service"]["feed"]>
}

const keptIn = ({ endpoints }: State, { grantId, id }: EndpointKey) =>
  Effect.suspend(() => {
    const found = endpoints.get(id)
    return found?.endpoint.grantId === grantId ? Effect.succeed(found) : Effect.fail(new EndpointNotFound())
  })

/** Whether the grant is neither revoked nor of a suspended organization. */
const isHeard = Effect.fnUntraced(function*({ access, members }: State, grantId: string) {
  if (access === null) return true
  const grant = (yield* access.listGrants).find(({ id }) => id === grantId)
  if (grant === undefined || grant.revokedAt !== null) return false
  const organizations = members === null ? [] : yield* members.organizations
  return organizations.every(({ id, suspendedAt }) => id !== grant.organizationId || suspendedAt === null)
})

/** Takes the next events of endpoints that are due, the longest due first. */
const takeOrdered = Effect.fnUntraced(function*(
  { feed }: State,
  heard: ReadonlyArray<Kept>,
  { now, time }: { readonly now: DateTime.Utc; readonly time: DateTime.Utc },
  limit: number
) {
  const taken: Array<TakenAttempt> = []
  for (const found of heard.toSorted((a, b) => DateTime.Order(a.endpoint.dueAt, b.endpoint.dueAt))) {
    const { endpoint, secrets } = found
    if (taken.length === limit) return taken
    if (
      endpoint.disabled !== null || feedTypes(endpoint.types)?.length === 0 || DateTime.isGreaterThan(endpoint.dueAt, now) ||
      !isFree(found, time)
    ) continue
    const events = yield* feed(endpoint.grantId, endpoint.cursor)
    const wanted = feedTypes(endpoint.types)
    const event = events.find(({ type }) => wanted === null || wanted.includes(type))
    found.endpoint = { ...endpoint, cursor: event === undefined ? endpoint.cursor + events.length : event.sequence - 1 }
    if (event === undefined) continue
    taken.push({
      endpointId: endpoint.id,
      url: endpoint.url,
      secrets,
      event,
      attempt: endpoint.failures + 1,
      manual: false,
      dueAt: endpoint.dueAt,
      fence: give(found, time)
    })
  }
  return taken
})

/** The endpoints and their secrets. */
const endpointsOf = (state: State): Pick<WebhookStore["Service"], "enable" | "find" | "list" | "register" | "remove" | "rotate"> => {
  const { audit, endpoints, feed, notifications: { listeners } } = state
  const kept = (key: EndpointKey) => keptIn(state, key)
  return {
    register: Effect.fnUntraced(function*(endpoint, secret) {
      const head = (yield* feed(endpoint.grantId, 0)).length
      const others = Array.from(endpoints.values()).filter((other) => other.endpoint.grantId === endpoint.grantId)
      if (others.length >= MAX_ENDPOINTS) return yield* new TooManyEndpoints()
      const registered = { ...endpoint, ...atHead(head, endpoint.createdAt, endpoint.types), refusingSince: null }
      const types = wantedNotifications(endpoint.types)
      if (types.length > 0) listeners.set(endpoint.id, { grantId: endpoint.grantId, types, lines: new Map() })
      endpoints.set(endpoint.id, {
        endpoint: registered,
        secrets: [{ value: secret, until: null }],
        log: [],
        manual: new Map(),
        manualNotifications: new Map(),
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
      listeners.delete(key.id)
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
      found.endpoint = { ...found.endpoint, ...enabled(found.endpoint, at), refusingSince: null }
      for (const line of listeners.get(key.id)?.lines.values() ?? []) {
        const { cursor, dueAt } = line.progress
        line.progress = { cursor, failures: 0, dueAt: dueAt === null ? null : at }
      }
      if (wasDisabled) yield* audit.append([told("webhook.enabled", key, at)])
      return found.endpoint
    })
  }
}

/** Attempts and their log. */
const attemptsOf = (state: State): Pick<WebhookStore["Service"], "deliveries" | "purge" | "record" | "redeliver" | "take"> => {
  const { audit, endpoints, feed, notifications } = state
  const kept = (key: EndpointKey) => keptIn(state, key)
  return {
    deliveries: (key, { before, limit }) =>
      Effect.map(
        kept(key),
        ({ log }) => log.filter(({ position }) => before === null || position < before).toReversed().slice(0, limit)
      ),
    redeliver: Effect.fnUntraced(function*(key, eventId) {
      const { log, manual, manualNotifications } = yield* kept(key)
      const told = log.find((attempt) => attempt.eventId === eventId)
      const sandboxId = told?.notification?.sandboxId
      const queued = sandboxId === undefined
        ? undefined
        : notifications.queued.get(sandboxId)?.find((one) => one.notification.seq === told?.sequence && one.isKept())
      if (queued !== undefined) {
        if (!manualNotifications.has(eventId)) manualNotifications.set(eventId, { queued, fence: 0, until: null })
        return
      }
      const event = (yield* feed(key.grantId, 0)).find(({ id }) => id === eventId)
      if (event === undefined) return yield* new PartnerEventNotFound()
      if (!manual.has(eventId)) manual.set(eventId, { event, fence: 0, until: null })
    }),
    take: Effect.fnUntraced(function*(now, limit) {
      const time = yield* DateTime.now
      const attempts: Array<TakenAttempt> = []
      const heard: Array<Kept> = []
      for (const found of endpoints.values()) if (yield* isHeard(state, found.endpoint.grantId)) heard.push(found)
      const due = yield* takeOrdered(state, heard, { now, time }, Math.ceil(limit / 2))
      for (const { endpoint: { dueAt, id, url }, manual, secrets } of heard) {
        // In the order of the requests.
        const [line] = manual.values()
        if (line === undefined || !isFree(line, time) || attempts.length + due.length === limit) continue
        attempts.push({ endpointId: id, url, secrets, event: line.event, attempt: 1, manual: true, dueAt, fence: give(line, time) })
      }
      attempts.push(...due, ...(yield* takeOrdered(state, heard, { now, time }, limit - attempts.length - due.length)))
      return attempts
      // No other fiber runs between the check and the take.
    }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
    record: Effect.fnUntraced(function*({ attempt, dueAt, endpointId, event, fence, manual }, made, next, at) {
      const found = endpoints.get(endpointId)
      const line = manual ? found?.manual.get(event.id) : found
      if (found === undefined || line?.fence !== fence || line.until === null) return false
      found.log.push({
        position: ++state.position,
        eventId: event.id,
        sequence: event.sequence,
        notification: null,
        attempt,
        manual,
        ...made
      })
      if (manual) {
        found.manual.delete(event.id)
        return true
      }
      found.until = null
      const standing = standingAfter({ attempt, sequence: event.sequence, dueAt }, next, at, found.endpoint)
      const wasDisabled = found.endpoint.disabled !== null
      found.endpoint = {
        ...found.endpoint,
        ...standing,
        refusingSince: next._tag === "Delivered" ? null : found.endpoint.refusingSince
      }
      if (next._tag === "Disable" && standing.disabled !== null && !wasDisabled) {
        yield* audit.append([told("webhook.disabled", found.endpoint, at, { reason: next.reason })])
      }
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
  }
}

/** Process-local, for tests and for embedding without a database. Reads the feeds of the `PartnerStore` below it. */
export const layer = Layer.effect(
  WebhookStore,
  Effect.gen(function*() {
    const partners = yield* PartnerStore
    const state: State = {
      audit: yield* AuditLog,
      access: Option.getOrNull(yield* Effect.serviceOption(AccessStore)),
      members: Option.getOrNull(yield* Effect.serviceOption(MemberStore)),
      endpoints: new Map(),
      notifications: Option.getOrElse(yield* Effect.serviceOption(MemoryNotifications.MemoryNotifications), MemoryNotifications.make),
      position: 0,
      feed: (grantId, after) => partners.feed(grantId, after, Number.MAX_SAFE_INTEGER)
    }
    return WebhookStore.of({
      ...endpointsOf(state),
      ...attemptsOf(state),
      ...notificationsOf({ ...state, isHeard: (grantId) => isHeard(state, grantId), nextPosition: () => ++state.position })
    })
  })
).pipe(Layer.provideMerge(AuditLogMemory.layer))
