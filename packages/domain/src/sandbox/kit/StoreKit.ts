/**
 * The stores of sandboxes over the statements of a database: `SandboxStore`, `Leases`, `Maintenance`, `Checkpoints`, `Setups` and
 * `AuditLog`.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { AccessStore } from "../../access/ports/AccessStore.ts"
import { AuditLog } from "../../access/ports/AuditLog.ts"
import { Hints } from "../../store/Hints.ts"
import { MaxActiveSandboxes } from "../ports/ActiveSandboxes.ts"
import { Checkpoints } from "../ports/Checkpoints.ts"
import { Leases } from "../ports/Leases.ts"
import { Maintenance } from "../ports/Maintenance.ts"
import { SandboxStore } from "../ports/SandboxStore.ts"
import { Setups } from "../ports/Setups.ts"
import { Policy } from "../rules/Policy.ts"
import * as AuditLogKit from "./AuditLogKit.ts"
import * as CheckpointsKit from "./CheckpointsKit.ts"
import * as LeasesKit from "./LeasesKit.ts"
import * as MaintenanceKit from "./MaintenanceKit.ts"
import * as SandboxStoreKit from "./SandboxStoreKit.ts"
import * as SetupsKit from "./SetupsKit.ts"
import type { Statements } from "./Statements.ts"

export { type Answer, attempt, type EndedBefore, StatementError, type Statements, type Tables } from "./Statements.ts"

type Ports = SandboxStore | Leases | Maintenance | Checkpoints | Setups | AuditLog

/**
 * The stores over these statements, for one process; each process that shares the database builds its own. `AccessStore`, if it is
 * provided, knows which grants are revoked.
 */
export const layer = (statements: Statements): Layer.Layer<Ports, never, Hints> =>
  Layer.effectContext(Effect.gen(function*() {
    const hints = yield* Hints
    const limits = yield* Policy
    const maxActive = yield* MaxActiveSandboxes
    const access = Option.getOrNull(yield* Effect.serviceOption(AccessStore))
    return Context.make(SandboxStore, SandboxStoreKit.make({ statements, hints, limits, maxActive })).pipe(
      Context.add(Leases, LeasesKit.make(statements, limits, hints)),
      Context.add(Maintenance, MaintenanceKit.make(statements, limits, access)),
      Context.add(Checkpoints, CheckpointsKit.make(statements)),
      Context.add(Setups, SetupsKit.make(statements)),
      Context.add(AuditLog, AuditLogKit.make(statements))
    )
  }))
