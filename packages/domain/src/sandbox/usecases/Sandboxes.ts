/** What a client may do with sandboxes: create, read, list, command. Each call loads, decides and commits once. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { Principal } from "../../access/schema/Principal.ts"
import { Ids, type Uuid } from "../../ids/Ids.ts"
import { ID_ALPHABET, SandboxId } from "../../ids/SandboxId.ts"
import { Spending, type SpendingRefused } from "../../models/ports/Spending.ts"
import { canSteer, denialTelling } from "../../models/rules/Steering.ts"
import {
  type ApprovalsUnsupported,
  choose,
  type InvalidModel,
  type InvalidReasoningEffort,
  ModelCatalogue
} from "../../models/schema/ModelCatalogue.ts"
import * as RootSpan from "../../observability/RootSpan.ts"
import { type RepoNotAccessible, SourceHost } from "../../source/ports/SourceHost.ts"
import { RepoName } from "../../source/schema/RepoRef.ts"
import { PageLimit, readPage } from "../../store/Page.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type InvalidRequest, reader } from "../../text/InvalidRequest.ts"
import { Counter } from "../../text/Text.ts"
import type { ConcurrencyLimitExceeded } from "../ports/ActiveSandboxes.ts"
import { type Checkpoint, type CheckpointNotFound, Checkpoints } from "../ports/Checkpoints.ts"
import { type ListQuery, type Message, type SandboxNotFound, SandboxStore, type SandboxSummary } from "../ports/SandboxStore.ts"
import { Setups, type SetupStatus, statusOf } from "../ports/Setups.ts"
import {
  type ApprovalNotFound,
  cancelMessage,
  type Command,
  type CommandResult,
  decideApproval,
  interrupt,
  type MessageNotFound,
  type MessageNotWaiting,
  type QueueFull,
  restore,
  type SandboxNotRunning,
  type ScopeUnsupported,
  sendMessage,
  type SteeringUnsupported,
  terminate,
  type TurnActive
} from "../rules/Command.ts"
import { fingerprint, type IdempotencyConflict, type KeyedRequest } from "../rules/Idempotency.ts"
import { isSettled, type Origin, type Sandbox } from "../rules/Sandbox.ts"
import { ApprovalDecision, ApprovalId } from "../schema/Approval.ts"
import { MessageId, Prompt } from "../schema/Command.ts"
import { IdempotencyKey } from "../schema/Idempotency.ts"
import { WhenBusy } from "../schema/MessageQueue.ts"
import { SandboxStatus } from "../schema/SandboxEvent.ts"
import { asCreation, CreateSandbox, ForkSandbox, NoCheckpoint, toCreation } from "./CreateSandbox.ts"
import { count, countCreation, declare } from "./SandboxMetrics.ts"

const readCreation = reader(CreateSandbox, "request")
const readFork = reader(ForkSandbox, "request")
const readCheckpoint = reader(Counter, "checkpoint")
const readPrompt = reader(Prompt, "prompt")
const readWhenBusy = reader(WhenBusy, "whenBusy")
const readMessageId = reader(MessageId, "messageId")
const readApprovalId = reader(ApprovalId, "approvalId")
const readDecision = reader(ApprovalDecision, "decision")
const readKey = reader(IdempotencyKey, "idempotency-key")
const readQuery = reader(
  Schema.Struct({ limit: PageLimit, status: Schema.NullOr(SandboxStatus), repo: Schema.NullOr(RepoName) }),
  "query"
)

const keyOf = (key: Option.Option<string>) => Option.match(key, { onNone: () => Result.succeed(null), onSome: readKey })

/** Why a request for a sandbox is refused. */
type CreationRefused =
  | ApprovalsUnsupported
  | ConcurrencyLimitExceeded
  | IdempotencyConflict
  | InvalidModel
  | InvalidReasoningEffort
  | InvalidRequest
  | RepoNotAccessible
  | SpendingRefused
  | StoreUnavailable

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
    CreationRefused
  >
  /**
   * Accepts a `ForkSandbox` of a sandbox in any status: a creation with its repositories, whose trees start as a checkpoint of it.
   * The sandbox itself stays as it is.
   */
  fork(by: Principal, id: SandboxId, request: unknown, key: Option.Option<string>): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    CheckpointNotFound | CreationRefused | NoCheckpoint | SandboxNotFound
  >
  get(by: Principal, id: SandboxId): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  list(by: Principal, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, InvalidRequest | StoreUnavailable>
  /** As `list`, for who shows many of them. */
  summaries(by: Principal, query: ListQuery): Effect.Effect<ReadonlyArray<SandboxSummary>, InvalidRequest | StoreUnavailable>
  terminate(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  interrupt(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  /** Approves or denies what the agent asks for, as an `ApprovalDecision` says. */
  decideApproval(by: Principal, id: SandboxId, approvalId: unknown, decision: unknown): Effect.Effect<
    CommandResult,
    ApprovalNotFound | InvalidRequest | QueueFull | SandboxNotFound | ScopeUnsupported | StoreUnavailable
  >
  /** Takes trees and conversation back to a checkpoint, between turns. */
  restore(by: Principal, id: SandboxId, checkpoint: unknown): Effect.Effect<
    CommandResult,
    CheckpointNotFound | InvalidRequest | SandboxNotFound | SandboxNotRunning | StoreUnavailable
  >
  /**
   * Starts the next turn with a `Prompt`. While one is active the message is refused, or waits, as `whenBusy` says (a `WhenBusy`;
   * `reject` where it is left out). `turnId`: the turn that it gets, which is the message's id as well. `duplicate`: an equal
   * message came under this key before, and `turnId` is that one's.
   */
  sendMessage(by: Principal, id: SandboxId, prompt: unknown, key: Option.Option<string>, whenBusy?: unknown): Effect.Effect<
    CommandResult & { readonly turnId: Uuid },
    | IdempotencyConflict
    | InvalidRequest
    | QueueFull
    | SandboxNotFound
    | SandboxNotRunning
    | SpendingRefused
    | SteeringUnsupported
    | StoreUnavailable
    | TurnActive
  >
  /** Takes back a message that waits. */
  cancelMessage(by: Principal, id: SandboxId, messageId: unknown): Effect.Effect<
    CommandResult,
    InvalidRequest | MessageNotFound | MessageNotWaiting | SandboxNotFound | StoreUnavailable
  >
  /** Prompts and complete messages of the agent after the event `after`, oldest first. */
  messages(by: Principal, id: SandboxId, page: { readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<Message>,
    InvalidRequest | SandboxNotFound | StoreUnavailable
  >
  /** What is kept of the checkpoints after the one of number `after`, oldest first. */
  checkpoints(by: Principal, id: SandboxId, page: { readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<Checkpoint>,
    InvalidRequest | SandboxNotFound | StoreUnavailable
  >
  /** How its setup stands, and what that wrote. */
  setup(by: Principal, id: SandboxId): Effect.Effect<SetupStatus, SandboxNotFound | StoreUnavailable>
}>()("@slipway/domain/Sandboxes") {
  /**
   * Without a `Spending` there are neither budgets nor credits; without a `SourceHost` any repository may be named; without
   * `Checkpoints` none are kept, without `Setups` nothing is known of any.
   */
  static readonly layer = Layer.effect(
    Sandboxes,
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const ids = yield* Ids
      const catalogue = yield* ModelCatalogue
      const spending = yield* Effect.serviceOption(Spending)
      const source = yield* Effect.serviceOption(SourceHost)
      const kept = yield* Effect.serviceOption(Checkpoints)
      const setups = yield* Effect.serviceOption(Setups)
      yield* declare

      /** Why there may be no new work; `null`: there may. */
      const refusal = (by: Principal, sandboxId: SandboxId | null) =>
        Option.isNone(spending) ? Effect.succeed(null) : spending.value.refusal({ grantId: by.grantId, sandboxId })

      const refusalOf = (repos: CreateSandbox["repos"]) =>
        Option.isNone(source) ? Effect.succeed(null) : source.value.refusal(repos.map(({ fullName }) => fullName))

      /** `origin`: what it starts with. */
      const accept = Effect.fnUntraced(
        function*(by: Principal, request: CreateSandbox, keyed: KeyedRequest | null, origin: Origin | null) {
          const model = yield* Effect.fromResult(choose(catalogue, {
            model: request.model,
            reasoningEffort: request.reasoningEffort,
            toolApprovalMode: request.toolApprovalMode,
            offlineOnly: by.test
          }))
          const id = SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`)
          const at = yield* DateTime.now
          const refused = (yield* refusal(by, null)) ?? (yield* refusalOf(request.repos))
          if (refused !== null) {
            const known = keyed === null ? null : yield* store.replay(by.grantId, keyed, origin?.sandboxId ?? null)
            return known === null ? yield* refused : { sandbox: known, replayed: true }
          }
          const creation = toCreation(request, { id, grantId: by.grantId, createdBy: by.userId, model, at }, origin)
          return yield* Effect.tap(
            store.create({ creation, keyed, organizationId: by.organizationId, trace: yield* RootSpan.traceparent }),
            countCreation
          )
        },
        Effect.retry({ while: (error) => error._tag === "SandboxIdTaken", schedule: Schedule.recurs(5) }),
        Effect.catchTag("SandboxIdTaken", Effect.die)
      )

      const create = Effect.fn("Sandboxes.create")(
        function*(by: Principal, given: unknown, givenKey: Option.Option<string>) {
          // The HTTP API has read its body by the same schema: doing it again takes 12 microseconds (2026-11-22).
          const request = yield* Effect.fromResult(readCreation(given))
          const key = yield* Effect.fromResult(keyOf(givenKey))
          return yield* accept(by, request, key === null ? null : { key, fingerprint: fingerprint(ids, request) }, null)
        },
        // It starts with no checkpoint.
        Effect.catchTag("CheckpointNotFound", Effect.die)
      )

      const fork = Effect.fn("Sandboxes.fork")(
        function*(by: Principal, id: SandboxId, given: unknown, givenKey: Option.Option<string>) {
          const request = yield* Effect.fromResult(readFork(given))
          const key = yield* Effect.fromResult(keyOf(givenKey))
          const sandbox = yield* store.find({ grantId: by.grantId, id })
          // As it was asked for: which checkpoint is the newest changes.
          const keyed = key === null ? null : { key, fingerprint: fingerprint(ids, { ...request, forkOf: id }) }
          if (sandbox.checkpoint === 0 && request.checkpoint === undefined) return yield* new NoCheckpoint()
          const origin = { sandboxId: id, checkpoint: request.checkpoint ?? sandbox.checkpoint }
          return yield* accept(by, asCreation(request, sandbox, catalogue), keyed, origin)
        }
      )

      /** One that the log tells of may be forgotten. */
      const isKept = (id: SandboxId, checkpoint: number) =>
        Option.isNone(kept) || checkpoint < 1
          ? Effect.succeed(false)
          : Effect.map(kept.value.list(id, checkpoint - 1, 1), ([found]) => found?.checkpoint === checkpoint)

      const execute = Effect.fnUntraced(function*<E>(by: Principal, id: SandboxId, command: Command<E>) {
        const { result } = yield* Effect.tap(store.command({ grantId: by.grantId, id }, command, yield* DateTime.now), count)
        return result
      }, Effect.catchTag("IdempotencyConflict", Effect.die))

      const send = Effect.fn("Sandboxes.sendMessage")(
        function*(by: Principal, id: SandboxId, given: unknown, givenKey: Option.Option<string>, busy: unknown = "reject") {
          const prompt = yield* Effect.fromResult(readPrompt(given))
          const whenBusy = yield* Effect.fromResult(readWhenBusy(busy))
          const key = yield* Effect.fromResult(keyOf(givenKey))
          // As before there was a choice: keys bound then are still found.
          const asked = whenBusy === "reject" ? { prompt } : { prompt, whenBusy }
          const keyed = key === null ? undefined : { key, fingerprint: fingerprint(ids, asked) }
          const command: Command<QueueFull | SandboxNotRunning | SpendingRefused | SteeringUnsupported | TurnActive> = sendMessage(
            ids,
            prompt,
            by.userId,
            { whenBusy, canSteer: (sandbox) => canSteer(catalogue, sandbox) }
          )
          const refused = yield* refusal(by, id)
          const sent = store.command(
            { grantId: by.grantId, id },
            // A repeated message is answered before anything is decided.
            refused === null ? command : { ...command, decide: () => Result.fail(refused) },
            yield* DateTime.now,
            keyed,
            yield* RootSpan.traceparent
          )
          const { result, turnId } = yield* Effect.tap(sent, count)
          if (turnId === null) return yield* Effect.die(new Error(`message ${result.commandId} started no turn`))
          return { ...result, turnId }
        }
      )

      return Sandboxes.of({
        create,
        fork,
        get: (by, id) => store.find({ grantId: by.grantId, id }),
        list: Effect.fnUntraced(function*(by, { after, ...query }) {
          return yield* store.list(by.grantId, { after, ...yield* Effect.fromResult(readQuery(query)) })
        }),
        summaries: Effect.fnUntraced(function*(by, { after, ...query }) {
          return yield* store.summaries(by.grantId, { after, ...yield* Effect.fromResult(readQuery(query)) })
        }),
        terminate: (by, id) => execute(by, id, terminate(ids)),
        interrupt: (by, id) => execute(by, id, interrupt(ids)),
        decideApproval: Effect.fnUntraced(function*(by, id, givenId, given) {
          const approvalId = yield* Effect.fromResult(readApprovalId(givenId))
          const decision = yield* Effect.fromResult(readDecision(given))
          const decider = { userId: by.userId, tellingOf: (sandbox: Sandbox) => denialTelling(catalogue, sandbox) }
          return yield* execute(by, id, decideApproval(ids, approvalId, decision, decider))
        }),
        restore: Effect.fn("Sandboxes.restore")(function*(by, id, given) {
          const checkpoint = yield* Effect.fromResult(readCheckpoint(given))
          // Whose sandbox it is, first.
          yield* store.find({ grantId: by.grantId, id })
          return yield* execute(by, id, restore(ids, checkpoint, yield* isKept(id, checkpoint)))
        }),
        sendMessage: send,
        cancelMessage: Effect.fnUntraced(function*(by, id, givenId) {
          const messageId = yield* Effect.fromResult(readMessageId(givenId))
          return yield* execute(by, id, cancelMessage(ids, messageId))
        }),
        messages: Effect.fn("Sandboxes.messages")(function*(by, id, page) {
          const { after, limit } = yield* Effect.fromResult(readPage(page))
          yield* store.find({ grantId: by.grantId, id })
          return yield* store.messages(id, after, limit)
        }),
        checkpoints: Effect.fn("Sandboxes.checkpoints")(function*(by, id, page) {
          const { after, limit } = yield* Effect.fromResult(readPage(page))
          yield* store.find({ grantId: by.grantId, id })
          return Option.isNone(kept) ? [] : yield* kept.value.list(id, after, limit)
        }),
        setup: Effect.fn("Sandboxes.setup")(function*(by, id) {
          const { status } = yield* store.find({ grantId: by.grantId, id })
          return statusOf(Option.isNone(setups) ? null : yield* setups.value.find(id), isSettled(status))
        })
      })
    })
  )
}
