/** Commands of people: decided under the lock of their sandbox, kept with a receipt. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { conclude, securityEvents } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Command } from "@slipway/domain/sandbox/rules/Command"
import { type KeyedRequest, resolve } from "@slipway/domain/sandbox/rules/Idempotency"
import { type DateTime, Effect, Option } from "effect"
import { inTransaction } from "../sql/Transaction.ts"
import type { CreatingStore } from "./create.ts"
import { approvalsOf, questionsOf, type ReadingStore } from "./read.ts"
import { bindKey, messagesRoute } from "./statements/idempotencyKeys.ts"
import { findReceipt, hasReceipt, keepReceipt } from "./statements/receipts.ts"
import { selectSandbox } from "./statements/selectSandbox.ts"
import { keepTrace } from "./statements/traces.ts"
import { writeLocked } from "./write.ts"

/** The receipt of the command that the request's key is bound to; `null`: the key is free. */
const boundCommand = Effect.fnUntraced(
  function*(store: CreatingStore, key: { readonly grantId: string; readonly id: SandboxId }, keyed: KeyedRequest) {
    // The row's lock orders requests with one key, so this finds what an earlier one bound.
    const bound = yield* store.boundTo({ grantId: key.grantId, route: messagesRoute(key.id), key: keyed.key })
    if (Option.isNone(bound)) return null
    yield* Effect.fromResult(resolve(bound.value.fingerprint, keyed))
    return yield* findReceipt(store.sql, bound.value.commandId ?? "")
  }
)

/** Locks the sandbox, reads the receipt and the request that the command names, and writes what it decides with its receipt. */
export const command = Effect.fn("SandboxStore.command")(
  function*<E>(
    store: CreatingStore & ReadingStore,
    key: { readonly grantId: string; readonly id: SandboxId },
    command: Command<E>,
    now: DateTime.Utc,
    keyed: KeyedRequest | undefined,
    trace: string | null
  ) {
    const { audit, sql } = store
    const row = yield* selectSandbox(store, key, true)
    const { sandbox } = row
    const first = keyed === undefined ? null : yield* boundCommand(store, key, keyed)
    if (first !== null) {
      const result = { commandId: first.commandId, revision: first.revision, outcome: "duplicate" as const }
      return { result, turnId: first.turnId, before: sandbox, events: [], sandbox }
    }
    const commandId = command.identity(sandbox)
    const receipt = yield* findReceipt(sql, commandId)
    const [approval = null] = command.approvalId === null
      ? []
      : yield* approvalsOf(store, key.id, [command.approvalId])
    const [question = null] = command.questionId === undefined ? [] : yield* questionsOf(store, key.id, [command.questionId])
    const isMessage = command.messageId !== undefined && (yield* hasReceipt(sql, key.id, command.messageId))
    const verdict = yield* Effect.fromResult(command.decide({ sandbox, receipt, approval, question, isMessage }))
    const events = verdict.outcome === "applied" ? verdict.events : []
    const after = yield* writeLocked(store, row, events, now)
    yield* audit.append(securityEvents(key.id, events, now))
    const { keep, result, turnId } = conclude(after.revision, commandId, receipt, verdict)
    if (keep !== null) yield* keepReceipt(sql, key.id, keep, now)
    if (trace !== null && keep !== null && keep.turnId !== null) yield* keepTrace(sql, key.id, keep.turnId, trace)
    if (keyed !== undefined && keep?.outcome === "applied") {
      yield* bindKey(sql, { grantId: key.grantId, route: messagesRoute(key.id), keyed, id: key.id, commandId })
    }
    return { result, turnId, before: sandbox, events, sandbox: after }
  },
  inTransaction
)
