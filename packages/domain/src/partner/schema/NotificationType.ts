/** The types of notifications that an endpoint may choose (docs/webhooks.md). They are no events of a partner's feed. */
import * as Schema from "effect/Schema"

/** In the order in which a sandbox usually has them. `sandbox.ended` includes `sandbox.failed`. */
export const NOTIFICATION_TYPES = [
  "sandbox.running",
  "turn.completed",
  "approval.requested",
  "question.asked",
  "sandbox.failed",
  "sandbox.ended",
  "pull_request.updated",
  "feedback.paused"
] as const

/** One of {@link NOTIFICATION_TYPES}. */
export const NotificationType = Schema.Literals(NOTIFICATION_TYPES)
export type NotificationType = typeof NotificationType.Type
