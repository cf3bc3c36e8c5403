/** A grant as every store keeps it. */
import type * as DateTime from "effect/DateTime"

/** A named group of keys of an organization. Sandboxes and the partner feed belong to a grant. `id` is a UUID. */
export interface Grant {
  readonly id: string
  /** Unique among grants that are not revoked. */
  readonly name: string
  readonly organizationId: string
  readonly createdAt: DateTime.Utc
  readonly revokedAt: DateTime.Utc | null
  /** Days for which data of its ended sandboxes is kept (`RETENTION_BOUNDS`); `null`: as the service says. */
  readonly retentionDays: number | null
}
