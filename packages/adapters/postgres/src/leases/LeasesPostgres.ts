/** `Leases` on Postgres: a lease is columns of the sandbox's row. */
import { type Leased, Leases, StaleLease } from "@slipway/domain/sandbox/ports/Leases"
import { type Limits, Policy } from "@slipway/domain/sandbox/rules/Policy"
import { Hints, WORK } from "@slipway/domain/store/Hints"
import { Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { sandboxOf, WIDTH } from "../sandbox-store/rows/SandboxRow.ts"
import { Renewals } from "../sql/Clients.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"
import * as Statements from "./statements/leases.ts"
import { takeLeases, type TakeRequest } from "./statements/takeLeases.ts"

/** The columns of a lease after those of its sandbox: fence, session of the agent, why it was moved. */
const decodeLease = Schema.decodeUnknownSync(
  Schema.Tuple([Int8, Schema.NullOr(Schema.String), Schema.NullOr(Schema.Literals(["drained", "lost"]))])
)

const take = Effect.fn("Leases.take")(function*(sql: SqlClient.SqlClient, limits: Limits, request: TakeRequest) {
  const rows = yield* takeLeases(sql, limits, request)
  return rows.map((values): Leased => {
    const sandbox = sandboxOf(values)
    const [fence, agentSession, moved] = decodeLease(values.slice(WIDTH))
    return { lease: { sandboxId: sandbox.id, fence }, sandbox, agentSession, moved }
  })
}, guard)

/** Fails with `StaleLease` when the statement changed no row. */
const current = <E, R>(rows: Effect.Effect<ReadonlyArray<unknown>, E, R>) =>
  Effect.flatMap(rows, ({ length }) => length === 0 ? Effect.fail(new StaleLease()) : Effect.void)

export const layer = Layer.effect(
  Leases,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const renewals = (yield* Renewals) ?? sql
    const hints = yield* Hints
    const limits = yield* Policy

    return Leases.of({
      take: ({ machine, worker }, room) => take(sql, limits, { machine, worker, ...room }),

      arrived: Effect.fn("Leases.arrived")((lease) => current(Statements.updateArrived(sql, lease)), guard),

      renew: Effect.fn("Leases.renew")(function*(leases) {
        if (leases.length === 0) return []
        const rows = yield* Statements.renewLeases(renewals, leases)
        const held = new Map(rows.map(({ fence, id }) => [id, Number(fence)]))
        return leases.filter(({ fence, sandboxId }) => held.get(sandboxId) === fence)
      }, guard),

      endLeases: (machine) => guard(Effect.asVoid(Statements.endLeases(sql, machine))),

      rest: Effect.fn("Leases.rest")(function*(lease) {
        const [row] = yield* Statements.restLease(sql, lease)
        return row === undefined ? yield* new StaleLease() : row.rested
      }, guard),

      release: (lease, { mayMove } = { mayMove: false }) =>
        guard(Statements.releaseLease(sql, lease, mayMove)).pipe(
          Effect.flatMap((rows) => rows.length === 0 ? Effect.void : hints.publish([WORK]))
        ),

      drain: Effect.fn("Leases.drain")(function*(machine, isDraining) {
        if (!isDraining) {
          yield* Statements.undrain(sql, machine)
          return
        }
        yield* Statements.drain(sql, machine)
        yield* hints.publish([WORK])
      }, guard),

      saveAgentSession: Effect.fn("Leases.saveAgentSession")(
        (lease, agentSession) => current(Statements.saveAgentSession(sql, lease, agentSession)),
        guard
      ),

      machineOf: Effect.fn("Leases.machineOf")(function*(ids) {
        const [row] = yield* Statements.selectMachine(sql, ids)
        return row?.machine ?? null
      }, guard)
    })
  })
)
