/** What a client may do with sandboxes: create, read, list, command. Each call loads, decides and commits once. */
import { Context, DateTime, Effect, Layer, Option, Result, Schedule, Schema } from "effect"
import type { Principal } from "../access/Principal.ts"
import { Ids, type Uuid } from "../Ids.ts"
import {
  type ApprovalsUnsupported,
  choose,
  type InvalidModel,
  type InvalidReasoningEffort,
  ModelCatalogue
} from "../models/ModelCatalogue.ts"
import { Spending, type SpendingRefused } from "../models/Spending.ts"
import { ID_ALPHABET, SandboxId, turnId } from "../SandboxId.ts"
import { type RepoNotAccessible, SourceHost } from "../source/SourceHost.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import type { ConcurrencyLimitExceeded } from "./ActiveSandboxes.ts"
import type { Decision } from "./Approval.ts"
import {
  type ApprovalNotFound,
  type Command,
  type CommandResult,
  decideApproval,
  interrupt,
  messageId,
  type SandboxNotRunning,
  sendMessage,
  terminate,
  type TurnActive
} from "./Command.ts"
import { count, countCreation, declare } from "./Counting.ts"
import { CreateSandbox, toCreation } from "./CreateSandbox.ts"
import { fingerprint, type IdempotencyConflict, type IdempotencyKey } from "./Idempotency.ts"
import type { Sandbox } from "./Sandbox.ts"
import { type ListQuery, type Message, type SandboxNotFound, SandboxStore } from "./SandboxStore.ts"

const encodeRequest = Schema.encodeSync(CreateSandbox)

/**
 * What clients may do with the sandboxes of their grant. Nothing slow happens within a call: it is decided, recorded
 * and answered; workers carry it out.
 */
export class Sandboxes extends Context.Service<Sandboxes, {
  /** Accepts a creation; booting goes on without the caller. `replayed`: an equal request came under this key before. */
  create(by: Principal, request: CreateSandbox, key: Option.Option<IdempotencyKey>): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    | ApprovalsUnsupported
    | ConcurrencyLimitExceeded
    | IdempotencyConflict
    | InvalidModel
    | InvalidReasoningEffort
    | RepoNotAccessible
    | SpendingRefused
    | StoreUnavailable
  >
  get(by: Principal, id: SandboxId): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  list(by: Principal, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, StoreUnavailable>
  terminate(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  interrupt(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  decideApproval(by: Principal, id: SandboxId, approvalId: string, decision: Decision): Effect.Effect<
    CommandResult,
    ApprovalNotFound | SandboxNotFound | StoreUnavailable
  >
  /** Starts the next turn. `duplicate`: an equal message came under this key before, and `turnId` is its turn. */
  sendMessage(by: Principal, id: SandboxId, prompt: string, key: Option.Option<IdempotencyKey>): Effect.Effect<
    CommandResult & { readonly turnId: Uuid },
    SpendingRefused | IdempotencyConflict | SandboxNotFound | SandboxNotRunning | TurnActive | StoreUnavailable
  >
  /** Prompts and complete messages of the agent after the event `after`, oldest first. */
  messages(by: Principal, id: SandboxId, page: { readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<Message>,
    SandboxNotFound | StoreUnavailable
  >
}>()("@slipway/domain/Sandboxes") {
  /** Without a `Spending` there are neither budgets nor credits; without a `SourceHost` any repository may be named. */
  static readonly layer = Layer.effect(
    Sandboxes,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const ids = yield* Ids
      const catalogue = yield* ModelCatalogue
      const spending = yield* Effect.serviceOption(Spending)
      const source = yield* Effect.serviceOption(SourceHost)
      yield* declare

      /** Why there may be no new work; `null`: there may. */
      const refusal = (by: Principal, sandboxId: SandboxId | null) =>
        Option.isNone(spending) ? Effect.succeed(null) : spending.value.refusal({ grantId: by.grantId, sandboxId })

      const refusalOf = (repos: CreateSandbox["repos"]) =>
        Option.isNone(source) ? Effect.succeed(null) : source.value.refusal(repos.map(({ fullName }) => fullName))

      const create = Effect.fn("Sandboxes.create")(
        function*(by: Principal, request: CreateSandbox, key: Option.Option<IdempotencyKey>) {
          const model = yield* Effect.fromResult(choose(catalogue, {
            model: request.model,
            reasoningEffort: request.reasoningEffort,
            toolApprovalMode: request.toolApprovalMode,
            offlineOnly: by.test
          }))
          const id = SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`)
          const at = yield* DateTime.now
          const keyed = Option.getOrNull(Option.map(key, (key) => ({ key, fingerprint: fingerprint(ids, encodeRequest(request)) })))
          const refused = (yield* refusal(by, null)) ?? (yield* refusalOf(request.repos))
          if (refused !== null) {
            const known = keyed === null ? null : yield* store.replay(by.grantId, keyed)
            return known === null ? yield* refused : { sandbox: known, replayed: true }
          }
          const creation = toCreation(request, { id, grantId: by.grantId, createdBy: by.userId, model, at })
          return yield* Effect.tap(store.create({ creation, keyed, organizationId: by.organizationId }), countCreation)
        },
        Effect.retry({ while: (error) => error._tag === "SandboxIdTaken", schedule: Schedule.recurs(5) }),
        Effect.catchTag("SandboxIdTaken", Effect.die)
      )

      const execute = Effect.fnUntraced(function*<E>(by: Principal, id: SandboxId, command: Command<E>) {
        const { result } = yield* Effect.tap(store.command({ grantId: by.grantId, id }, command, yield* DateTime.now), count)
        return result
      }, Effect.catchTag("IdempotencyConflict", Effect.die))

      const send = Effect.fn("Sandboxes.sendMessage")(
        function*(by: Principal, id: SandboxId, prompt: string, key: Option.Option<IdempotencyKey>) {
          const owned = { grantId: by.grantId, id }
          const keyed = Option.map(key, (key) => ({ key, fingerprint: fingerprint(ids, { prompt }) }))
          const command: Command<SpendingRefused | SandboxNotRunning | TurnActive> = sendMessage(ids, prompt, by.userId)
          const refused = yield* refusal(by, id)
          const sent = store.command(
            owned,
            // A repeated message is answered before anything is decided.
            refused === null ? command : { ...command, decide: () => Result.fail(refused) },
            yield* DateTime.now,
            Option.getOrUndefined(keyed)
          )
          const { result } = yield* Effect.tap(sent, count)
          const { turn } = yield* store.find(owned)
          // A message's command is named after its turn; that of a repeated one may lie some turns back.
          let n = turn?.n ?? 1
          while (n > 1 && messageId(ids, id, n) !== result.commandId) n--
          return { ...result, turnId: turnId(ids, id, n) }
        }
      )

      return Sandboxes.of({
        create,
        get: (by, id) => store.find({ grantId: by.grantId, id }),
        list: (by, query) => store.list(by.grantId, query),
        terminate: (by, id) => execute(by, id, terminate(ids)),
        interrupt: (by, id) => execute(by, id, interrupt(ids)),
        decideApproval: (by, id, approvalId, decision) => execute(by, id, decideApproval(ids, approvalId, decision)),
        sendMessage: send,
        messages: Effect.fn("Sandboxes.messages")(function*(by, id, { after, limit }) {
          yield* store.find({ grantId: by.grantId, id })
          return yield* store.messages(id, after, limit)
        })
      })
    })
  )
}
