/** The part of `WebhookStoreMemory` that delivers notifications. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Scheduler from "effect/Scheduler"
import type { AuditLog } from "../../src/access/ports/AuditLog.ts"
import type { Uuid } from "../../src/ids/Ids.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import { type Attempt, TAKEN_TIME, type TakenNotification, told, type WebhookStore } from "../../src/partner/ports/WebhookStore.ts"
import {
  lineAfter,
  MAX_AT_ENDPOINT,
  MAX_AT_REFUSING,
  MAX_OF_GRANT,
  MAX_QUEUED_OF_GRANT,
  notificationId,
  standingOf
} from "../../src/partner/rules/Notification.ts"
import type { Endpoint, Secret } from "../../src/partner/rules/Webhook.ts"
import type { StoreUnavailable } from "../../src/store/StoreUnavailable.ts"
import type { Claimable, Line, MemoryNotifications, Queued } from "./MemoryNotifications.ts"

/** An endpoint with its secrets and its log. */
export interface KeptEndpoint {
  endpoint: Endpoint
  readonly secrets: ReadonlyArray<Secret>
  readonly log: Array<Attempt>
  /** Requested redeliveries of notifications by their id. */
  readonly manualNotifications: Map<Uuid, Claimable & { readonly queued: Queued }>
}

/** The state of the store that notifications need. */
export interface NotificationState {
  readonly audit: AuditLog["Service"]
  readonly endpoints: ReadonlyMap<Uuid, KeptEndpoint>
  readonly notifications: MemoryNotifications["Service"]
  readonly isHeard: (grantId: string) => Effect.Effect<boolean, StoreUnavailable>
  /** The next position of the log. */
  readonly nextPosition: () => number
}

/** Whether no worker has it. */
export const isFree = ({ until }: Claimable, now: DateTime.Utc) => until === null || DateTime.isLessThanOrEqualTo(until, now)

/** Gives the line to a worker. Returns the fence. */
export const give = (line: Claimable, now: DateTime.Utc) => {
  line.fence++
  line.until = DateTime.addDuration(now, TAKEN_TIME)
  return line.fence
}

interface Candidate {
  readonly kept: KeptEndpoint
  readonly sandboxId: SandboxId
  readonly line: Line
  readonly dueAt: DateTime.Utc
  /** Its place among those of its grant, after those under way. */
  place: number
}

/** The lines that are due, within the limits of endpoints and grants; of each grant the first ones first. */
const candidates = (
  { notifications }: NotificationState,
  heard: ReadonlyArray<KeptEndpoint>,
  { now, time }: { readonly now: DateTime.Utc; readonly time: DateTime.Utc }
): ReadonlyArray<Candidate> => {
  const busy = new Map<string, number>()
  const due = heard.flatMap((kept) => {
    const { disabled, grantId, id, refusingSince } = kept.endpoint
    const lines = Array.from(notifications.listeners.get(id)?.lines ?? [])
    const underWay = lines.filter(([, line]) => !isFree(line, time)).length
    busy.set(grantId, (busy.get(grantId) ?? 0) + underWay)
    if (disabled !== null) return []
    return lines
      .flatMap(([sandboxId, line]): ReadonlyArray<Candidate> => {
        const { dueAt } = line.progress
        const isDue = dueAt !== null && DateTime.isLessThanOrEqualTo(dueAt, now) && isFree(line, time)
        return isDue ? [{ kept, sandboxId, line, dueAt, place: 0 }] : []
      })
      .sort((a, b) => DateTime.Order(a.dueAt, b.dueAt))
      .slice(0, Math.max(0, (refusingSince === null ? MAX_AT_ENDPOINT : MAX_AT_REFUSING) - underWay))
      .map((one, i) => ({ ...one, place: i }))
  })
  const byPlace = due.sort((a, b) => a.place - b.place || DateTime.Order(a.dueAt, b.dueAt))
  for (const one of byPlace) {
    const { grantId } = one.kept.endpoint
    one.place = (busy.get(grantId) ?? 0) + 1
    busy.set(grantId, one.place)
  }
  return byPlace.filter(({ place }) => place <= MAX_OF_GRANT).sort((a, b) => a.place - b.place || DateTime.Order(a.dueAt, b.dueAt))
}

const nextOf = ({ notifications: { listeners, queued } }: NotificationState, { kept, line, sandboxId }: Candidate) => {
  const types = listeners.get(kept.endpoint.id)?.types ?? []
  return queued.get(sandboxId)?.find((one) =>
    one.notification.seq > line.progress.cursor && one.isKept() && one.types.some((type) => types.includes(type))
  )
}

const takenOf = ({ endpoint: { id, url }, secrets }: KeptEndpoint) => ({ endpointId: id, url, secrets })

const take = Effect.fnUntraced(function*(state: NotificationState, now: DateTime.Utc, limit: number) {
  const time = yield* DateTime.now
  const heard: Array<KeptEndpoint> = []
  for (const kept of state.endpoints.values()) if (yield* state.isHeard(kept.endpoint.grantId)) heard.push(kept)
  const taken: Array<TakenNotification> = []
  const takeLines = (limit: number) => {
    for (const one of candidates(state, heard, { now, time }).slice(0, limit)) {
      const next = nextOf(state, one)
      if (next === undefined) {
        // Its events are gone with their log.
        one.line.progress = { ...one.line.progress, cursor: one.line.newest, dueAt: null }
        continue
      }
      taken.push({
        ...takenOf(one.kept),
        notification: next.notification,
        attempt: one.line.progress.failures + 1,
        manual: false,
        dueAt: one.dueAt,
        fence: give(one.line, time)
      })
    }
  }
  takeLines(Math.ceil(limit / 2))
  for (const kept of heard) {
    // In the order of the requests.
    const [line] = kept.manualNotifications.values()
    if (line === undefined || !line.queued.isKept() || !isFree(line, time) || taken.length === limit) continue
    taken.push({ ...takenOf(kept), notification: line.queued.notification, attempt: 1, manual: true, dueAt: now, fence: give(line, time) })
  }
  takeLines(limit - taken.length)
  return taken
  // No other fiber runs between the check and the take.
}, Effect.provideService(Scheduler.PreventSchedulerYield, true))

const record = Effect.fnUntraced(function*(
  { audit, endpoints, nextPosition, notifications }: NotificationState,
  { attempt, dueAt, endpointId, fence, manual, notification: { sandboxId, seq, type } }: TakenNotification,
  made: Pick<Attempt, "at" | "durationMillis" | "outcome">,
  next: Parameters<WebhookStore["Service"]["recordNotification"]>[2],
  at: DateTime.Utc
) {
  const kept = endpoints.get(endpointId)
  const eventId = notificationId(sandboxId, seq)
  const line = notifications.listeners.get(endpointId)?.lines.get(sandboxId)
  const held = manual ? kept?.manualNotifications.get(eventId) : line
  if (kept === undefined || held?.fence !== fence || held.until === null) return false
  const logged = { eventId, sequence: seq, notification: { sandboxId, type }, attempt, manual, ...made }
  kept.log.push({ position: nextPosition(), ...logged })
  if (manual) {
    kept.manualNotifications.delete(eventId)
    return true
  }
  if (line === undefined) return false
  line.until = null
  const isLate = line.progress.dueAt !== null && !DateTime.Equivalence(line.progress.dueAt, dueAt)
  line.progress = lineAfter({ attempt, dueAt, seq }, next, at, { dueAt: line.progress.dueAt, newest: line.newest })
  const { disable, refusingSince } = standingOf(kept.endpoint.refusingSince, next, at, isLate)
  kept.endpoint = { ...kept.endpoint, refusingSince }
  if (disable === null || kept.endpoint.disabled !== null) return true
  kept.endpoint = { ...kept.endpoint, disabled: { at, reason: disable } }
  yield* audit.append([told("webhook.disabled", kept.endpoint, at, { reason: disable })])
  return true
})

const purge = ({ queued }: MemoryNotifications["Service"], before: DateTime.Utc, limit: number) => {
  const all = Array.from(queued.values()).flat()
  const ofGrant = new Map<string, number>()
  const old = all.toSorted((a, b) => DateTime.Order(b.at, a.at)).filter(({ at, grantId }) => {
    const place = (ofGrant.get(grantId) ?? 0) + 1
    ofGrant.set(grantId, place)
    return place > MAX_QUEUED_OF_GRANT || DateTime.isLessThan(at, before)
  })
  const gone = new Set(old.reverse().slice(0, limit))
  for (const [id, own] of queued) {
    const rest = own.filter((one) => !gone.has(one))
    if (rest.length === 0) queued.delete(id)
    else queued.set(id, rest)
  }
  return gone.size
}

/** The methods of the store. */
export const notificationsOf = (
  state: NotificationState
): Pick<WebhookStore["Service"], "purgeNotifications" | "recordNotification" | "takeNotifications"> => ({
  takeNotifications: (now, limit) => take(state, now, limit),
  recordNotification: (taken, attempt, next, at) => record(state, taken, attempt, next, at),
  purgeNotifications: (before, limit) => Effect.sync(() => purge(state.notifications, before, limit))
})
