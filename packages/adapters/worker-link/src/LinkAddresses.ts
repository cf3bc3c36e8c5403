/** The addresses at which workers serve the trees of their machines, for the processes that answer requests. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Reads } from "@slipway/postgres/Database"
import { guard } from "@slipway/postgres/sql/SqlFailure"
import { Effect, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

/** The interval of a worker's reports. */
export const HEARD_SECONDS = 20
/** A worker is gone after three missed reports. */
const GONE_SECONDS = 3 * HEARD_SECONDS
/** Workers that may be asked for one sandbox. */
const CANDIDATES = 4

const Holder = Schema.Struct({ worker: Schema.String, address: Schema.NullOr(Schema.String) })
const Candidate = Schema.Struct({ worker: Schema.String, address: Schema.String, isOwner: Schema.Boolean })
export type Candidate = typeof Candidate.Type

export const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const reads = (yield* Reads) ?? sql
  const holder = SqlSchema.findOneOption({
    Request: SandboxId,
    Result: Holder,
    execute: (id) =>
      reads`
      SELECT s.worker, l.address FROM sandboxes s LEFT JOIN worker_links l ON l.worker = s.worker
      WHERE s.id = ${id} AND s.worker IS NOT NULL AND s.lease_until > now()`
  })
  // Ordered by a hash of both: the worker that restored the trees is asked again, and sandboxes are spread over workers.
  const candidates = SqlSchema.findAll({
    Request: SandboxId,
    Result: Candidate,
    execute: (id) =>
      reads`
      SELECT l.worker, l.address, coalesce(l.machine = s.machine, false) AS "isOwner"
      FROM sandboxes s, worker_links l
      WHERE s.id = ${id} AND l.seen_at > now() - make_interval(secs => ${GONE_SECONDS})
      ORDER BY 3 DESC, md5(s.id || l.worker), l.worker LIMIT ${CANDIDATES}`
  })
  return {
    publish: (worker: string, machine: string, address: string) =>
      guard(Effect.asVoid(sql`
        INSERT INTO worker_links (worker, machine, address) VALUES (${worker}, ${machine}, ${address})
        ON CONFLICT (worker) DO UPDATE SET machine = excluded.machine, address = excluded.address, seen_at = now()`)),
    /** Removes the worker that ends, and killed workers with it. */
    withdraw: (worker: string) =>
      guard(Effect.asVoid(sql`DELETE FROM worker_links WHERE worker = ${worker} OR seen_at < now() - interval '1 day'`)),
    /** The worker with the lease of the sandbox, and its endpoint as `ip:port`; `null`: it has reported none. */
    holder: (id: SandboxId) => guard(holder(id)),
    /**
     * Workers that reported recently, in the order for asking about a sandbox without a lease. Workers of the machine that last ran it
     * come first (`isOwner`), then others in an order that is fixed per sandbox.
     */
    candidates: (id: SandboxId) => guard(candidates(id))
  }
})
