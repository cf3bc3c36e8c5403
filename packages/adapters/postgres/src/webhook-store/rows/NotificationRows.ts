/** Rows of notifications as the domain's. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { TakenNotification } from "@slipway/domain/partner/ports/WebhookStore"
import { NotificationType } from "@slipway/domain/partner/schema/NotificationType"
import { SandboxStatus } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { Option, Schema } from "effect"
import type { Key } from "../../secret-store/SecretsKey.ts"
import { Instant } from "../../sql/Instant.ts"
import { Int8 } from "../../sql/Int8.ts"
import { decodeSecrets, openable } from "./Secrets.ts"
import type { Unread } from "./WebhookRows.ts"

/** An attempt that was taken; without `seq`, of a line whose events are gone. */
export const NotificationRow = Schema.Struct({
  endpointId: Schema.String,
  url: Schema.String,
  // Decoded row by row: a row that cannot be read blocks no other.
  secrets: Schema.Unknown,
  sandboxId: SandboxId,
  repos: Schema.Unknown,
  metadata: Schema.Unknown,
  failures: Schema.Int,
  dueAt: Instant,
  fence: Int8,
  seq: Schema.NullOr(Int8),
  type: Schema.NullOr(Schema.String),
  title: Schema.NullOr(Schema.String),
  status: Schema.NullOr(Schema.String),
  wire: Schema.NullOr(Schema.String)
})

const decode = Schema.decodeUnknownOption(
  Schema.Struct({
    type: NotificationType,
    wire: Schema.String,
    sandbox: Schema.Struct({
      title: Schema.String,
      status: SandboxStatus,
      repos: Schema.Array(RepoRef),
      metadata: Schema.Record(Schema.String, Schema.String)
    })
  }),
  { disableChecks: true }
)

/** The part of an attempt that is recorded. */
export interface HeldNotification extends Omit<TakenNotification, "notification" | "secrets"> {
  readonly notification: Pick<TakenNotification["notification"], "sandboxId" | "seq"> & { readonly type: string }
}

/** An attempt that was taken and cannot be made. */
export interface UnreadableNotification extends HeldNotification {
  readonly trouble: Unread
}

/** `null`: nothing is there to send. */
export const toNotification = (
  row: typeof NotificationRow.Type,
  manual: boolean,
  key: Key
): TakenNotification | UnreadableNotification | null => {
  const { dueAt, endpointId, failures, fence, metadata, repos, sandboxId, seq, status, title, type, url, wire } = row
  if (seq === null || type === null) return null
  const taken = { endpointId, url, attempt: manual ? 1 : failures + 1, manual, dueAt, fence }
  const read = decode({ type, wire, sandbox: { title, status, repos, metadata } })
  if (Option.isNone(read)) return { ...taken, notification: { sandboxId, seq, type }, trouble: "event_unreadable" }
  const secrets = Option.match(decodeSecrets(row.secrets), { onNone: () => [], onSome: (stored) => openable(stored, endpointId, key) })
  if (!secrets.some(({ until }) => until === null)) {
    return { ...taken, notification: { sandboxId, seq, type }, trouble: "secret_unreadable" }
  }
  return { ...taken, secrets, notification: { ...read.value, sandboxId, seq } }
}
