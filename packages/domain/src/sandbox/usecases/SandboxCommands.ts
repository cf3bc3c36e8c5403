/** Commands of people to a sandbox: each is decided under the lock of the sandbox, and counted. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { Principal } from "../../access/schema/Principal.ts"
import type { Ids } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { Spending, SpendingRefused } from "../../models/ports/Spending.ts"
import { canSteer, denialTelling } from "../../models/rules/Steering.ts"
import type { Catalogue } from "../../models/schema/ModelCatalogue.ts"
import * as RootSpan from "../../observability/RootSpan.ts"
import type { Checkpoints } from "../ports/Checkpoints.ts"
import type { SandboxStore } from "../ports/SandboxStore.ts"
import * as Command from "../rules/Command.ts"
import { keyed } from "../rules/Idempotency.ts"
import type { Sandbox } from "../rules/Sandbox.ts"
import type { ApprovalDecision } from "../schema/Approval.ts"
import type { IdempotencyKey } from "../schema/Idempotency.ts"
import type { WhenBusy } from "../schema/MessageQueue.ts"
import type { QuestionReply } from "../schema/Question.ts"
import { refusalOf } from "./SandboxCreation.ts"
import { count } from "./SandboxMetrics.ts"

interface Dependencies {
  readonly store: SandboxStore["Service"]
  readonly ids: Ids["Service"]
  readonly catalogue: Catalogue
  readonly spending: Option.Option<Spending["Service"]>
  readonly kept: Option.Option<Checkpoints["Service"]>
}

const execute = Effect.fnUntraced(
  function*<E>({ store }: Dependencies, by: Principal, id: SandboxId, command: Command.Command<E>) {
    const { result } = yield* Effect.tap(store.command({ grantId: by.grantId, id }, command, yield* DateTime.now), count)
    return result
  },
  Effect.catchTag("IdempotencyConflict", Effect.die)
)

/** Ends a sandbox of the caller's grant. Never rejected; safe to repeat. */
export const terminate = (deps: Dependencies, by: Principal, id: SandboxId) => execute(deps, by, id, Command.terminate(deps.ids))

/** Interrupts the active turn. */
export const interrupt = (deps: Dependencies, by: Principal, id: SandboxId) => execute(deps, by, id, Command.interrupt(deps.ids))

/** Approves or denies a pending tool call. */
export const decideApproval = (deps: Dependencies, by: Principal, id: SandboxId, approvalId: string, decision: ApprovalDecision) => {
  const decider = { userId: by.userId, tellingOf: (sandbox: Sandbox) => denialTelling(deps.catalogue, sandbox) }
  return execute(deps, by, id, Command.decideApproval(deps.ids, approvalId, decision, decider))
}

/** Answers or dismisses an agent's request for answers. */
export const answerQuestion = (deps: Dependencies, by: Principal, id: SandboxId, questionId: string, reply: QuestionReply) =>
  execute(deps, by, id, Command.answerQuestion(deps.ids, questionId, reply))

/** Whether a checkpoint is stored. The log may list deleted ones. */
const isKept = ({ kept }: Dependencies, id: SandboxId, checkpoint: number) =>
  Option.isNone(kept) || checkpoint < 1
    ? Effect.succeed(false)
    : Effect.map(kept.value.list(id, checkpoint - 1, 1), ([found]) => found?.checkpoint === checkpoint)

/** Requests a restore of a checkpoint. */
export const restore = Effect.fn("Sandboxes.restore")(function*(deps: Dependencies, by: Principal, id: SandboxId, checkpoint: number) {
  // First check access to the sandbox.
  yield* deps.store.find({ grantId: by.grantId, id })
  return yield* execute(deps, by, id, Command.restore(deps.ids, checkpoint, yield* isKept(deps, id, checkpoint)))
})

/** Requests the host's newest commits. */
export const sync = (deps: Dependencies, by: Principal, id: SandboxId) => execute(deps, by, id, Command.sync(deps.ids))

/** Sends a message. With a key, an equal request is executed once. */
export const sendMessage = Effect.fn("Sandboxes.sendMessage")(
  function*(deps: Dependencies, by: Principal, id: SandboxId, prompt: string, key: Option.Option<IdempotencyKey>, whenBusy: WhenBusy) {
    const { catalogue, ids, store } = deps
    // The fingerprint leaves out the default `reject`, so that keys bound before there was a choice are still found.
    const asked = whenBusy === "reject" ? { prompt } : { prompt, whenBusy }
    const command: Command.Command<
      Command.QueueFull | Command.SandboxNotRunning | Command.SteeringUnsupported | Command.TurnActive | SpendingRefused
    > = Command.sendMessage(ids, prompt, by.userId, { whenBusy, canSteer: (sandbox) => canSteer(catalogue, sandbox) })
    const refused = yield* refusalOf(deps, by, id)
    const sent = store.command(
      { grantId: by.grantId, id },
      // A duplicate is answered before the refusal.
      refused === null ? command : { ...command, decide: () => Result.fail(refused) },
      yield* DateTime.now,
      keyed(ids, key, asked) ?? undefined,
      yield* RootSpan.traceparent
    )
    const { result, turnId } = yield* Effect.tap(sent, count)
    if (turnId === null) return yield* Effect.die(new Error(`message ${result.commandId} started no turn`))
    return { ...result, turnId }
  }
)

/** Withdraws a waiting message. */
export const cancelMessage = (deps: Dependencies, by: Principal, id: SandboxId, messageId: string) =>
  execute(deps, by, id, Command.cancelMessage(deps.ids, messageId))

/** Gives the sandbox another title. */
export const rename = (deps: Dependencies, by: Principal, id: SandboxId, title: string) =>
  execute(deps, by, id, Command.rename(deps.ids, title))
