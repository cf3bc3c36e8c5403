/** The fixture and the requirements of the suite of `WebhookStore`. */
import type { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import type { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Access } from "@slipway/domain/access/usecases/Access"
import type { Ids } from "@slipway/domain/ids/Ids"
import type { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import type { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import type { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import type { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"

/** Operations that a test needs and the port lacks; the adapter under test provides them. */
export class WebhookFixture extends Context.Service<WebhookFixture, {
  /** Lets all that was taken run out. */
  readonly expireTaken: Effect.Effect<void>
  /** The store's clock, which is later than the dates of the suite. */
  readonly now: Effect.Effect<DateTime.Utc>
}>()("@slipway/testing/WebhookFixture") {}

export type Requirements =
  | WebhookStore
  | WebhookFixture
  | SandboxStore
  | Maintenance
  | PartnerStore
  | Access
  | AccessStore
  | MemberStore
  | AuditLog
  | Ids
