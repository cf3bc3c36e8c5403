import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxNotFound } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Effect } from "effect"
import type { Clients } from "../../sql/Clients.ts"
import type { CachedRow } from "../rows/RowCache.ts"
import { COLUMNS, sandboxOf, WIDTH } from "../rows/SandboxRow.ts"

/**
 * One sandbox by its primary key, with the fence of its newest lease and the version of its row. `lock`: the row stays locked until
 * the transaction ends, which orders all writes of one sandbox.
 */
export const selectSandbox = (
  { reads, sql }: Clients,
  key: { readonly id: SandboxId; readonly grantId?: string },
  lock: boolean
) => {
  const client = lock ? sql : reads
  return Effect.flatMap(
    client`
          SELECT ${sql.literal(COLUMNS)}, s.fence, s.xmin::text FROM sandboxes s
          WHERE s.id = ${key.id} AND s.deleted_at IS NULL ${key.grantId === undefined ? sql`` : sql`AND s.grant_id = ${key.grantId}`}
          ${lock ? sql`FOR UPDATE` : sql``}`.values,
    ([row]): Effect.Effect<CachedRow, SandboxNotFound> =>
      row === undefined
        ? Effect.fail(new SandboxNotFound())
        : Effect.succeed({ sandbox: sandboxOf(row), fence: Number(row[WIDTH]), version: String(row[WIDTH + 1]) })
  )
}
