/**
 * Notifications tell webhook endpoints what happens to sandboxes (docs/webhooks.md). Pure: which events are notifications, their ids and
 * bodies, and what follows an attempt. Each sandbox has a line of its own at each endpoint.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import { uuid5 } from "../../ids/Digest.ts"
import type { Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { Sandbox } from "../../sandbox/rules/Sandbox.ts"
import { NOTIFICATION_TYPES, type NotificationType } from "../schema/NotificationType.ts"
import { afterAttempt, type Next, type Outcome } from "./Webhook.ts"

/** Namespace of the ids of notifications. Never change it: receivers would take repeated notifications for new ones. */
export const NOTIFICATIONS: Uuid = "394a10f9-63c2-4153-8661-c29c08db4464"

/** The `webhook-id` of a sandbox's event, the same at every attempt and endpoint: UUIDv5 of `SANDBOX/EVENT`. */
export const notificationId = (sandboxId: SandboxId, seq: number): Uuid => uuid5(NOTIFICATIONS, `${sandboxId}/${seq}`)

/** Undelivered notifications of a sandbox that are kept, the newest ones (our choice). The log of the sandbox has all. */
export const MAX_QUEUED = 1000

/** Notifications of a grant that are kept, the newest ones, at each purge (our choice). */
export const MAX_QUEUED_OF_GRANT = 100_000

/** Attempts under way at one endpoint (our choice). */
export const MAX_AT_ENDPOINT = 8

/** The same while the endpoint accepts nothing: a receiver that is down needs no more requests. */
export const MAX_AT_REFUSING = 1

/** Attempts under way for all endpoints of a grant (our choice), so that one grant cannot take every attempt of a worker. */
export const MAX_OF_GRANT = 16

/** An endpoint that accepted nothing for this time is disabled (docs/webhooks.md). */
export const REFUSING_TIME = Duration.hours(24)

/** An event of a sandbox that some endpoint is told of. */
export interface Notification {
  readonly sandboxId: SandboxId
  /** The event's number in the sandbox's log, its `id` on the wire. */
  readonly seq: number
  readonly type: NotificationType
  /** The event's JSON, as every reader of the log gets it. */
  readonly wire: string
  /** Title and status are those right after the event. */
  readonly sandbox: Pick<Sandbox, "title" | "status" | "repos" | "metadata">
}

/**
 * The types that an event of a sandbox counts as, the most exact one first; empty: it is no notification. The function
 * `notification_types` in Postgres says the same.
 */
export const notificationTypes = (type: string, wire: string): ReadonlyArray<NotificationType> => {
  if (type !== "sandbox.status") return NOTIFICATION_TYPES.filter((known) => known === type)
  const { data }: { readonly data?: { readonly status?: string } } = JSON.parse(wire)
  switch (data?.status) {
    case "running":
      return ["sandbox.running"]
    case "failed":
      return ["sandbox.failed", "sandbox.ended"]
    case "succeeded":
    case "terminated":
      return ["sandbox.ended"]
    default:
      return []
  }
}

/** The body of a request: the event's JSON as it is in the log, with one more member. */
export const notificationBody = ({ sandbox: { metadata, repos, status, title }, sandboxId, wire }: Notification): string =>
  `${wire.slice(0, -1)},"sandbox":${JSON.stringify({ id: sandboxId, title, status, repos, metadata })}}`

/** The progress of an endpoint with one sandbox. */
export interface LineProgress {
  /** `seq` of the last finished event: delivered, or skipped after its last attempt. */
  readonly cursor: number
  /** Failed attempts at the next event since the endpoint was last enabled. */
  readonly failures: number
  /** The earliest time of the next attempt; `null`: nothing waits. */
  readonly dueAt: DateTime.Utc | null
}

/** The step after an attempt at a notification. `Skip`: it was the last one, and the event is passed over. */
export type NextOfLine = Exclude<Next, { readonly _tag: "Disable" }> | { readonly _tag: "Skip" } | { readonly _tag: "Gone" }

/** As `afterAttempt` of the feed, but an event that failed ten times is skipped, and disables no endpoint. */
export const afterNotification = (attempt: number, outcome: Outcome, at: DateTime.Utc, jitter: number): NextOfLine => {
  const next = afterAttempt(attempt, outcome, at, jitter)
  return next._tag !== "Disable" ? next : next.reason === "gone" ? { _tag: "Gone" } : { _tag: "Skip" }
}

/**
 * The line's progress after its `attempt`-th attempt at the event `seq`, which was due at `dueAt`. `now`: the line as it is; its due time
 * differs only if the endpoint was enabled during the attempt, and then earlier failures do not count. `newest`: the line's last event.
 */
export const lineAfter = (
  { attempt, dueAt, seq }: { readonly attempt: number; readonly seq: number; readonly dueAt: DateTime.Utc },
  next: NextOfLine,
  at: DateTime.Utc,
  now: { readonly dueAt: DateTime.Utc | null; readonly newest: number }
): LineProgress => {
  const done = { cursor: seq, failures: 0, dueAt: now.newest > seq ? at : null }
  if (next._tag === "Delivered") return done
  if (now.dueAt !== null && !DateTime.Equivalence(dueAt, now.dueAt)) return { cursor: seq - 1, failures: 0, dueAt: now.dueAt }
  if (next._tag === "Skip") return done
  return { cursor: seq - 1, failures: attempt, dueAt: next._tag === "Retry" ? next.at : at }
}

/**
 * Since when the endpoint accepts nothing, and why it is to be disabled, after an attempt at a notification. `null` twice: all is well.
 * `refusingSince`: before the attempt. `isLate`: the endpoint was enabled during the attempt, so a failure says nothing of it.
 */
export const standingOf = (
  refusingSince: DateTime.Utc | null,
  next: NextOfLine,
  at: DateTime.Utc,
  isLate: boolean
): { readonly refusingSince: DateTime.Utc | null; readonly disable: "gone" | "not_accepting" | null } => {
  if (next._tag === "Delivered") return { refusingSince: null, disable: null }
  if (isLate) return { refusingSince, disable: null }
  const since = refusingSince ?? at
  const isOver = DateTime.isGreaterThanOrEqualTo(at, DateTime.addDuration(since, REFUSING_TIME))
  return { refusingSince: since, disable: next._tag === "Gone" ? "gone" : isOver ? "not_accepting" : null }
}
