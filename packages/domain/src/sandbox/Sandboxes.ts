/** What a client may do with sandboxes: create, read, list, command. Each call loads, decides and commits once. */
import { Context, DateTime, Effect, Layer, Option, Result, Schedule, Schema } from "effect"
import type { Principal } from "../access/Principal.ts"
import { Ids, type Uuid } from "../Ids.ts"
import { type InvalidRequest, reader } from "../InvalidRequest.ts"
import {
  type ApprovalsUnsupported,
  choose,
  type InvalidModel,
  type InvalidReasoningEffort,
  ModelCatalogue
} from "../models/ModelCatalogue.ts"
import { Spending, type SpendingRefused } from "../models/Spending.ts"
import { PageLimit, readPage } from "../Page.ts"
import { ID_ALPHABET, SandboxId } from "../SandboxId.ts"
import { RepoName } from "../source/RepoRef.ts"
import { type RepoNotAccessible, SourceHost } from "../source/SourceHost.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"
import type { ConcurrencyLimitExceeded } from "./ActiveSandboxes.ts"
import { ApprovalId, Decision } from "./Approval.ts"
import {
  type ApprovalNotFound,
  type Command,
  type CommandResult,
  decideApproval,
  interrupt,
  Prompt,
  type SandboxNotRunning,
  sendMessage,
  terminate,
  type TurnActive
} from "./Command.ts"
import { count, countCreation, declare } from "./Counting.ts"
import { CreateSandbox, toCreation } from "./CreateSandbox.ts"
import { fingerprint, type IdempotencyConflict, IdempotencyKey } from "./Idempotency.ts"
import type { Sandbox } from "./Sandbox.ts"
import { SandboxStatus } from "./SandboxEvent.ts"
import { type ListQuery, type Message, type SandboxNotFound, SandboxStore } from "./SandboxStore.ts"

const readCreation = reader(CreateSandbox, "request")
const readPrompt = reader(Prompt, "prompt")
const readApprovalId = reader(ApprovalId, "approvalId")
const readDecision = reader(Decision, "decision")
const readKey = reader(IdempotencyKey, "idempotency-key")
const readQuery = reader(
  Schema.Struct({ limit: PageLimit, status: Schema.NullOr(SandboxStatus), repo: Schema.NullOr(RepoName) }),
  "query"
)

const keyOf = (key: Option.Option<string>) => Option.match(key, { onNone: () => Result.succeed(null), onSome: readKey })

/**
 * What clients may do with the sandboxes of their grant. Nothing slow happens within a call: it is decided, recorded
 * and answered; workers carry it out. What people give is read here, whoever calls: what does not fit is an
 * `InvalidRequest`, and nothing is stored.
 */
export class Sandboxes extends Context.Service<Sandboxes, {
  /**
   * Accepts a creation, a `CreateSandbox`; booting goes on without the caller. `replayed`: an equal request came under this
   * key before.
   */
  create(by: Principal, request: unknown, key: Option.Option<string>): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    | ApprovalsUnsupported
    | ConcurrencyLimitExceeded
    | IdempotencyConflict
    | InvalidModel
    | InvalidReasoningEffort
    | InvalidRequest
    | RepoNotAccessible
    | SpendingRefused
    | StoreUnavailable
  >
  get(by: Principal, id: SandboxId): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  list(by: Principal, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, InvalidRequest | StoreUnavailable>
  terminate(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  interrupt(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  decideApproval(by: Principal, id: SandboxId, approvalId: unknown, decision: unknown): Effect.Effect<
    CommandResult,
    ApprovalNotFound | InvalidRequest | SandboxNotFound | StoreUnavailable
  >
  /** Starts the next turn with a `Prompt`. `duplicate`: an equal message came under this key before, and `turnId` is its turn. */
  sendMessage(by: Principal, id: SandboxId, prompt: unknown, key: Option.Option<string>): Effect.Effect<
    CommandResult & { readonly turnId: Uuid },
    SpendingRefused | IdempotencyConflict | InvalidRequest | SandboxNotFound | SandboxNotRunning | TurnActive | StoreUnavailable
  >
  /** Prompts and complete messages of the agent after the event `after`, oldest first. */
  messages(by: Principal, id: SandboxId, page: { readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<Message>,
    InvalidRequest | SandboxNotFound | StoreUnavailable
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
        function*(by: Principal, given: unknown, givenKey: Option.Option<string>) {
          // The HTTP API has read its body by the same schema: doing it again takes 12 microseconds (2026-11-22).
          const request = yield* Effect.fromResult(readCreation(given))
          const key = yield* Effect.fromResult(keyOf(givenKey))
          const model = yield* Effect.fromResult(choose(catalogue, {
            model: request.model,
            reasoningEffort: request.reasoningEffort,
            toolApprovalMode: request.toolApprovalMode,
            offlineOnly: by.test
          }))
          const id = SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`)
          const at = yield* DateTime.now
          const keyed = key === null ? null : { key, fingerprint: fingerprint(ids, request) }
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
        function*(by: Principal, id: SandboxId, given: unknown, givenKey: Option.Option<string>) {
          const prompt = yield* Effect.fromResult(readPrompt(given))
          const key = yield* Effect.fromResult(keyOf(givenKey))
          const keyed = key === null ? undefined : { key, fingerprint: fingerprint(ids, { prompt }) }
          const command: Command<SpendingRefused | SandboxNotRunning | TurnActive> = sendMessage(ids, prompt, by.userId)
          const refused = yield* refusal(by, id)
          const sent = store.command(
            { grantId: by.grantId, id },
            // A repeated message is answered before anything is decided.
            refused === null ? command : { ...command, decide: () => Result.fail(refused) },
            yield* DateTime.now,
            keyed
          )
          const { result, turnId } = yield* Effect.tap(sent, count)
          if (turnId === null) return yield* Effect.die(new Error(`message ${result.commandId} started no turn`))
          return { ...result, turnId }
        }
      )

      return Sandboxes.of({
        create,
        get: (by, id) => store.find({ grantId: by.grantId, id }),
        list: Effect.fnUntraced(function*(by, { after, ...query }) {
          return yield* store.list(by.grantId, { after, ...yield* Effect.fromResult(readQuery(query)) })
        }),
        terminate: (by, id) => execute(by, id, terminate(ids)),
        interrupt: (by, id) => execute(by, id, interrupt(ids)),
        decideApproval: Effect.fnUntraced(function*(by, id, givenId, given) {
          const approvalId = yield* Effect.fromResult(readApprovalId(givenId))
          const decision = yield* Effect.fromResult(readDecision(given))
          return yield* execute(by, id, decideApproval(ids, approvalId, decision))
        }),
        sendMessage: send,
        messages: Effect.fn("Sandboxes.messages")(function*(by, id, page) {
          const { after, limit } = yield* Effect.fromResult(readPage(page))
          yield* store.find({ grantId: by.grantId, id })
          return yield* store.messages(id, after, limit)
        })
      })
    })
  )
}
