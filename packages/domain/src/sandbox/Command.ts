/**
 * The commands of people (docs/decisions.md 3): terminate, interrupt, decide an approval, send a message. Each has a
 * natural identity, so repeating one finds the first. Every command is decided under the lock of its sandbox and is
 * durable before it is answered.
 */
import { Result, Schema } from "effect"
import type { Ids, Uuid } from "../Ids.ts"
import { turnId } from "../SandboxId.ts"
import { Counter, text } from "../Text.ts"
import { type Approval, type Decision, outcomeOf } from "./Approval.ts"
import { isSettled, type Sandbox } from "./Sandbox.ts"
import type { SandboxEvent } from "./SandboxEvent.ts"
import { denyApprovals, moveTo, resolveApproval, turnPending, turnUpdated } from "./Transition.ts"
import { isActive } from "./Turn.ts"

/** 1 to 60000 characters. */
export const Prompt = text(1, 60_000)

/** Why a command has no effect (docs/decisions.md 3). Retrying does not help. */
export const Rejection = Schema.Literals([
  "sandbox_terminal",
  "no_active_turn",
  "approval_expired",
  "approval_already_resolved"
])
export type Rejection = typeof Rejection.Type

/** What the caller of a command is told (docs/interface.md 2.4). `rejection` is there iff the outcome is `rejected`. */
export const CommandResult = Schema.Struct({
  commandId: Schema.String.check(Schema.isUUID()).annotateKey({ description: "Names the command: repeating it gives the same id." }),
  revision: Counter.annotateKey({ description: "Of the sandbox after the command; unchanged by a rejected one." }),
  outcome: Schema.Literals(["applied", "duplicate", "rejected"]).annotateKey({
    description: "`applied`: this request did it; `duplicate`: an equal one did before; `rejected`: it is not legal now."
  }),
  rejection: Schema.optionalKey(Rejection).annotateKey({ description: "Why, where the outcome is `rejected`; else left out." })
}).annotate({ identifier: "CommandResult" })
export type CommandResult = typeof CommandResult.Type

/** The durable trace of a command, found again by its id. */
export interface Receipt {
  readonly commandId: Uuid
  /** Revision of the sandbox after the command; unchanged by a rejected one. */
  readonly revision: number
  readonly outcome: "applied" | "rejected"
  /** The turn that it started; `null`: it was no message, or was rejected. */
  readonly turnId: Uuid | null
}

/** No such approval in this sandbox. */
export class ApprovalNotFound extends Schema.TaggedError<ApprovalNotFound>()("ApprovalNotFound", {}) {
  override get message() {
    return "No such approval."
  }
}
/** The sandbox is not running, so it cannot take a message, show files or publish. */
export class SandboxNotRunning extends Schema.TaggedError<SandboxNotRunning>()("SandboxNotRunning", {}) {
  override get message() {
    return "The sandbox is not running."
  }
}
/** A turn is active; a message must wait for its end. */
export class TurnActive extends Schema.TaggedError<TurnActive>()("TurnActive", {}) {
  override get message() {
    return "A turn is active. Wait for its end or interrupt it."
  }
}

/** What a command comes to. `duplicate`: an equal one took effect before. */
export type Verdict =
  | { readonly outcome: "applied"; readonly events: ReadonlyArray<SandboxEvent> }
  | { readonly outcome: "duplicate" }
  | { readonly outcome: "rejected"; readonly rejection: Rejection }

/** What a command is decided on, read under the lock of its sandbox. */
export interface Current {
  readonly sandbox: Sandbox
  /** Of the command's own identity. */
  readonly receipt: Receipt | null
  /** The one the command names. */
  readonly approval: Approval | null
}

/** A person's command, decided under the lock of its sandbox. Pure: `E` is what its caller did wrong. */
export interface Command<E> {
  /** Two commands with one identity are the same command. */
  identity(sandbox: Sandbox): Uuid
  /** The approval it is about. */
  readonly approvalId: string | null
  /** The first situation of docs/decisions.md 3, that matches. */
  decide(current: Current): Result.Result<Verdict, E>
}

const applied = (events: ReadonlyArray<SandboxEvent>): Result.Result<Verdict> => Result.succeed({ outcome: "applied", events })
const rejected = (rejection: Rejection): Result.Result<Verdict> => Result.succeed({ outcome: "rejected", rejection })
const duplicate: Result.Result<Verdict> = Result.succeed({ outcome: "duplicate" })

/** Neither running nor on its way there: nobody works for it any more. */
const isOver = (sandbox: Sandbox) => sandbox.status === "terminating" || isSettled(sandbox.status)

type Derive = Pick<Ids["Service"], "derive">

/** Ends the sandbox. Never rejected. */
export const terminate = (ids: Derive): Command<never> => ({
  identity: ({ id }) => ids.derive(`${id}/terminate`),
  approvalId: null,
  decide: ({ receipt, sandbox }) =>
    receipt?.outcome === "applied"
      ? duplicate
      // One that time or a revoked grant already ends is accepted too: there is nothing left to change.
      : applied(Result.getOrElse(moveTo(sandbox, "terminated"), () => []))
})

/** Ends the active turn. */
export const interrupt = (ids: Derive): Command<never> => ({
  identity: ({ id, revision, turn }) =>
    // Naming an ended turn finds the interrupt that ended it, if there was one.
    ids.derive(
      turn !== null && (isActive(turn) || turn.interruptRequested)
        ? `${id}/interrupt/${turn.id}`
        : `${id}/interrupt/none/${revision}`
    ),
  approvalId: null,
  decide: ({ receipt, sandbox }) => {
    if (receipt?.outcome === "applied") return duplicate
    if (isOver(sandbox)) return rejected("sandbox_terminal")
    const { turn } = sandbox
    if (!isActive(turn)) return rejected("no_active_turn")
    const asked = { reason: "interrupt", initiator: "user" } as const
    // No agent has a pending turn, so it ends here; any other one ends when its agent answers.
    return applied([
      ...denyApprovals(sandbox, "interrupt"),
      turn.state === "pending"
        ? { type: "turn.completed", turn_id: turn.id, data: { state: "cancelled", ...asked } }
        : turnUpdated(turn, "running", asked)
    ])
  }
})

/** Approves or denies a pending tool call. */
export const decideApproval = (ids: Derive, approvalId: string, decision: Decision): Command<ApprovalNotFound> => ({
  identity: ({ id }) => ids.derive(`${id}/approval/${approvalId}/${decision}`),
  approvalId,
  decide: ({ approval, sandbox }) => {
    if (approval === null) return Result.fail(new ApprovalNotFound())
    const outcome = outcomeOf[decision]
    if (approval.by === "user" && approval.outcome === outcome) return duplicate
    if (isOver(sandbox)) return rejected("sandbox_terminal")
    if (approval.by === "timeout") return rejected("approval_expired")
    if (approval.outcome !== null) return rejected("approval_already_resolved")
    return applied(resolveApproval(sandbox, approvalId, outcome, "user"))
  }
})

/** Starts the next turn. */
export const sendMessage = (ids: Derive, prompt: string, authorId: string): Command<SandboxNotRunning | TurnActive> => ({
  identity: ({ id, turn }) => ids.derive(`${id}/message/${(turn?.n ?? 0) + 1}`),
  approvalId: null,
  decide: ({ sandbox }) => {
    if (sandbox.status !== "running") return Result.fail(new SandboxNotRunning())
    if (isActive(sandbox.turn)) return Result.fail(new TurnActive())
    return applied([turnPending(turnId(ids, sandbox.id, (sandbox.turn?.n ?? 0) + 1), prompt, authorId)])
  }
})
