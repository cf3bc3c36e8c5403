/** Where workers serve the trees of their sandboxes, told to the processes that answer requests. */
import { SandboxId } from "@slipway/domain/SandboxId"
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Reads } from "../postgres/Database.ts"
import { guard } from "../postgres/SqlFailure.ts"

export const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const reads = (yield* Reads) ?? sql
  const holder = SqlSchema.findOneOption({
    Request: SandboxId,
    Result: Schema.Struct({ worker: Schema.String, address: Schema.NullOr(Schema.String) }),
    execute: (id) =>
      reads`
      SELECT s.worker, l.address FROM sandboxes s LEFT JOIN worker_links l ON l.worker = s.worker
      WHERE s.id = ${id} AND s.worker IS NOT NULL AND s.lease_until > now()`
  })
  return {
    publish: (worker: string, address: string) =>
      guard(Effect.asVoid(sql`
        INSERT INTO worker_links (worker, address) VALUES (${worker}, ${address})
        ON CONFLICT (worker) DO UPDATE SET address = excluded.address, seen_at = now()`)),
    /** The worker ends. Those that were killed are cleared away with it. */
    withdraw: (worker: string) =>
      guard(Effect.asVoid(sql`DELETE FROM worker_links WHERE worker = ${worker} OR seen_at < now() - interval '1 day'`)),
    /** Who holds the lease of the sandbox, and its endpoint as `ip:port`; `null`: it has told none. */
    holder: (id: SandboxId) => guard(holder(id))
  }
})
