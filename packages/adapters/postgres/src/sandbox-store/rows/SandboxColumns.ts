/** Columns of `sandboxes` as statements write them; `SandboxRow` reads them. */
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import { nextDeadline } from "@slipway/domain/sandbox/rules/TimeLimit"
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { Schema, Struct } from "effect"
import { iso } from "../../sql/Iso.ts"

/** The columns that hold JSON, as the domain encodes them. */
export const encodeColumns = Schema.encodeSync(
  Sandbox.mapFields(Struct.pick(["approvals", "continues", "feedback", "publications", "setupTime", "tokens", "turn", "usage"])),
  { disableChecks: true }
)

/** The same as texts: the JSON columns that a change may write. */
export const encodeState = (sandbox: Sandbox) => {
  const { approvals, feedback, publications, setupTime, tokens, turn, usage } = encodeColumns(sandbox)
  return {
    setupTime: setupTime === null ? null : JSON.stringify(setupTime),
    turn: turn === null ? null : JSON.stringify(turn),
    approvals: JSON.stringify(approvals),
    feedback: feedback === null ? null : JSON.stringify(feedback),
    publications: JSON.stringify(publications),
    tokens: JSON.stringify(tokens),
    usage: JSON.stringify(usage)
  }
}

/** Only workers of the previous version read this column (0055). */
export const deadlineOf = (sandbox: Sandbox, limits: Limits) => iso(nextDeadline(sandbox, limits))
