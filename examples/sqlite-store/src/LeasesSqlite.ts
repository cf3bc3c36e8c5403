/** `Leases` on SQLite: columns of the sandbox's row. Who may have which is the domain's rule, over those that have work. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Lease, LEASE_SECONDS, Leases, StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { isGivenUp, type Leasable, leaseOrder } from "@slipway/domain/sandbox/rules/LeaseRules"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { Hints, WORK } from "@slipway/domain/store/Hints"
import { DateTime, Effect, Layer, Result } from "effect"
import { Database, type Sql } from "./Database.ts"
import { arrive, decode } from "./SandboxRow.ts"

type Moved = "drained" | "lost" | null

/** What of a row decides who may have it, and where its files are. */
type Candidate = Leasable & { readonly fence: number; readonly movedFrom: string | null; readonly moved: Moved }

const candidates = (sql: Sql): ReadonlyArray<Candidate> =>
  sql.all(`
    SELECT id, grant_id AS grantId, created_at AS createdAt, status, work, work_since AS workSince, unsaved, fence, machine,
      lease_until AS leaseUntil, drained, moved_from AS movedFrom, moved
    FROM sandboxes WHERE work IS NOT NULL`).map(({ createdAt, drained, leaseUntil, machine, unsaved, workSince, ...row }) =>
    ({
      ...row,
      createdAt: DateTime.makeUnsafe(Number(createdAt)),
      workSince: DateTime.makeUnsafe(Number(workSince)),
      drained: drained === 1,
      unsaved: unsaved === 1,
      lease: machine === null ? null : { machine: String(machine), until: DateTime.makeUnsafe(Number(leaseUntil)) }
    }) as unknown as Candidate
  )

const OWN = "id = :sandboxId AND fence = :fence"
type Own = { readonly sandboxId: SandboxId; readonly fence: number }

export const layer = Layer.effect(
  Leases,
  Effect.gen(function*() {
    const database = yield* Database
    const hints = yield* Hints
    const { lost } = yield* Policy

    const write = <A, E = never>(body: (sql: Sql, now: number) => Result.Result<A, E>) =>
      Effect.flatMap(DateTime.now, ({ epochMilliseconds }) => database.write((sql) => body(sql, epochMilliseconds)))
    /** A statement that changes the row of a lease, or finds it stale. */
    const ofLease = ({ fence, sandboxId }: Lease, set: (sql: Sql, own: Own) => number) =>
      database.write((sql) => set(sql, { sandboxId, fence }) === 0 ? Result.fail(new StaleLease()) : Result.succeed(undefined))

    return Leases.of({
      take: ({ machine }, room) =>
        Effect.flatMap(DateTime.now, (now) =>
          database.write((sql) => {
            const known = new Map(candidates(sql).map((candidate) => [candidate.id, candidate]))
            const chosen = leaseOrder(Array.from(known.values()), { machine, now, lost }, room)
            return Result.succeed(chosen.flatMap((sandboxId) => {
              const candidate = known.get(sandboxId)
              if (candidate === undefined) return []
              const from = candidate.movedFrom ?? candidate.lease?.machine ?? null
              const isMoved = from !== null && from !== machine
              const moved = isMoved ? candidate.moved ?? (isGivenUp(candidate) ? "drained" : "lost") : null
              const fence = candidate.fence + 1
              sql.run(
                `UPDATE sandboxes SET fence = :fence, machine = :machine, lease_until = :until, drained = 0,
                  moved_from = :from, moved = :moved WHERE id = :sandboxId`,
                {
                  sandboxId,
                  fence,
                  machine,
                  until: DateTime.add(now, { seconds: LEASE_SECONDS }).epochMilliseconds,
                  from: isMoved ? from : null,
                  moved
                }
              )
              const row = sql.get("SELECT state, agent_session AS session FROM sandboxes WHERE id = :sandboxId", { sandboxId })
              return [{
                lease: { sandboxId, fence },
                sandbox: decode(row?.["state"]),
                agentSession: row?.["session"] as string | null,
                moved
              }]
            }))
          })),

      arrived: (lease) =>
        ofLease(lease, (sql, own) => {
          const held = sql.all(`SELECT 1 FROM sandboxes WHERE ${OWN}`, own).length
          if (held > 0) arrive(sql, own.sandboxId)
          return held
        }),

      renew: (leases) =>
        write((sql, now) =>
          Result.succeed(
            leases.filter(({ fence, sandboxId }) =>
              sql.run(`UPDATE sandboxes SET lease_until = :until WHERE ${OWN}`, { sandboxId, fence, until: now + LEASE_SECONDS * 1000 }) > 0
            )
          )
        ),

      endLeases: (machine) =>
        write((sql, now) => {
          sql.run("UPDATE sandboxes SET lease_until = :now WHERE machine = :machine AND lease_until > :now", { machine, now })
          return Result.succeed(undefined)
        }),

      rest: ({ fence, sandboxId }) =>
        write((sql, now) => {
          const row = sql.get(`SELECT work FROM sandboxes WHERE ${OWN}`, { sandboxId, fence })
          if (row === undefined) return Result.fail(new StaleLease())
          if (row["work"] !== null) return Result.succeed(false)
          sql.run("UPDATE sandboxes SET lease_until = :now WHERE id = :sandboxId", { sandboxId, now })
          return Result.succeed(true)
        }),

      release: ({ fence, sandboxId }, { mayMove } = { mayMove: false }) =>
        Effect.flatMap(
          write((sql, now) =>
            Result.succeed(sql.run(
              `UPDATE sandboxes SET lease_until = :now, drained = max(drained, :mayMove) WHERE ${OWN}`,
              { sandboxId, fence, now, mayMove: Number(mayMove) }
            ))
          ),
          (released) => released > 0 ? hints.publish([WORK]) : Effect.void
        ),

      // Takes longer the more a machine has: one statement over its index. With thousands, keep a row for each drained machine.
      drain: (machine, isDraining) =>
        Effect.andThen(
          write((sql, now) => {
            sql.run("UPDATE sandboxes SET drained = :drained WHERE machine = :machine AND lease_until <= :now", {
              machine,
              now,
              drained: Number(isDraining)
            })
            return Result.succeed(undefined)
          }),
          isDraining ? hints.publish([WORK]) : Effect.void
        ),

      saveAgentSession: (lease, session) =>
        ofLease(lease, (sql, own) => sql.run(`UPDATE sandboxes SET agent_session = :session WHERE ${OWN}`, { ...own, session })),

      machineOf: (ids) =>
        database.read((sql) => {
          const row = sql.get(
            `SELECT machine FROM sandboxes WHERE id IN (SELECT value FROM json_each(:ids)) AND machine IS NOT NULL
              GROUP BY machine ORDER BY count(*) DESC LIMIT 1`,
            { ids: JSON.stringify(ids) }
          )
          return row === undefined ? null : String(row["machine"])
        })
    })
  })
)
