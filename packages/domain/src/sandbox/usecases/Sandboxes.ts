/** Operations of clients on sandboxes: create, read, list, command. Each call loads, decides and commits once. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Principal } from "../../access/schema/Principal.ts"
import { Ids, type Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { Spending, type SpendingRefused } from "../../models/ports/Spending.ts"
import { ModelCatalogue } from "../../models/schema/ModelCatalogue.ts"
import { SourceHost } from "../../source/ports/SourceHost.ts"
import { RepoName } from "../../source/schema/RepoRef.ts"
import { PageLimit, readPage } from "../../store/Page.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type InvalidRequest, reader } from "../../text/InvalidRequest.ts"
import { type Checkpoint, type CheckpointNotFound, Checkpoints } from "../ports/Checkpoints.ts"
import { type ListQuery, type Message, type SandboxNotFound, SandboxStore, type SandboxSummary } from "../ports/SandboxStore.ts"
import { Setups, type SetupStatus, statusOf } from "../ports/Setups.ts"
import type {
  ApprovalNotFound,
  CommandResult,
  MessageNotFound,
  MessageNotWaiting,
  QueueFull,
  SandboxNotRunning,
  ScopeUnsupported,
  SteeringUnsupported,
  TurnActive
} from "../rules/Command.ts"
import type { IdempotencyConflict } from "../rules/Idempotency.ts"
import { isSettled, type Sandbox } from "../rules/Sandbox.ts"
import type { ApprovalDecision } from "../schema/Approval.ts"
import type { IdempotencyKey } from "../schema/Idempotency.ts"
import type { WhenBusy } from "../schema/MessageQueue.ts"
import { SandboxStatus } from "../schema/SandboxEvent.ts"
import type { CreateSandbox, ForkSandbox, NoCheckpoint } from "./CreateSandbox.ts"
import * as SandboxCommands from "./SandboxCommands.ts"
import * as SandboxCreation from "./SandboxCreation.ts"
import type { CreationRefused } from "./SandboxCreation.ts"
import { declare } from "./SandboxMetrics.ts"

const readQuery = reader(
  Schema.Struct({ limit: PageLimit, status: Schema.NullOr(SandboxStatus), repo: Schema.NullOr(RepoName) }),
  "query"
)

/**
 * What clients may do with the sandboxes of their grant. Nothing slow happens within a call: it is decided, recorded
 * and answered; workers carry it out. Requests are decoded before, by the schemas of their types: `Requests` for callers without an HTTP
 * API.
 */
export class Sandboxes extends Context.Service<Sandboxes, {
  /**
   * Accepts a creation; booting goes on without the caller. `replayed`: an equal request came under this key before.
   */
  create(by: Principal, request: CreateSandbox, key: Option.Option<IdempotencyKey>): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    CreationRefused
  >
  /**
   * Accepts a fork of a sandbox in any status: a creation with its repositories, whose trees start as a checkpoint of it.
   * The sandbox itself stays as it is.
   */
  fork(by: Principal, id: SandboxId, request: ForkSandbox, key: Option.Option<IdempotencyKey>): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    CheckpointNotFound | CreationRefused | NoCheckpoint | SandboxNotFound
  >
  get(by: Principal, id: SandboxId): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  list(by: Principal, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, InvalidRequest | StoreUnavailable>
  /** As `list`, for who shows many of them. */
  summaries(by: Principal, query: ListQuery): Effect.Effect<ReadonlyArray<SandboxSummary>, InvalidRequest | StoreUnavailable>
  terminate(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  interrupt(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  /** Approves or denies what the agent asks for. */
  decideApproval(by: Principal, id: SandboxId, approvalId: string, decision: ApprovalDecision): Effect.Effect<
    CommandResult,
    ApprovalNotFound | QueueFull | SandboxNotFound | ScopeUnsupported | StoreUnavailable
  >
  /** Takes trees and conversation back to a checkpoint, between turns. */
  restore(by: Principal, id: SandboxId, checkpoint: number): Effect.Effect<
    CommandResult,
    CheckpointNotFound | SandboxNotFound | SandboxNotRunning | StoreUnavailable
  >
  /**
   * Starts the next turn. While one is active the message is refused, or waits, as `whenBusy` says (default: `reject`). `turnId`: the
   * turn that it gets, which is the message's id as well. `duplicate`: an equal message came under this key before, and `turnId` is the
   * earlier one's.
   */
  sendMessage(by: Principal, id: SandboxId, prompt: string, key: Option.Option<IdempotencyKey>, whenBusy?: WhenBusy): Effect.Effect<
    CommandResult & { readonly turnId: Uuid },
    | IdempotencyConflict
    | QueueFull
    | SandboxNotFound
    | SandboxNotRunning
    | SpendingRefused
    | SteeringUnsupported
    | StoreUnavailable
    | TurnActive
  >
  /** Takes back a message that waits. */
  cancelMessage(by: Principal, id: SandboxId, messageId: string): Effect.Effect<
    CommandResult,
    MessageNotFound | MessageNotWaiting | SandboxNotFound | StoreUnavailable
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
      const deps = { store, ids, catalogue, spending, source, kept }
      yield* declare

      return Sandboxes.of({
        create: (by, request, key) => SandboxCreation.create(deps, by, request, key),
        fork: (by, id, request, key) => SandboxCreation.fork(deps, by, id, request, key),
        get: (by, id) => store.find({ grantId: by.grantId, id }),
        list: Effect.fnUntraced(function*(by, { after, ...query }) {
          return yield* store.list(by.grantId, { after, ...yield* Effect.fromResult(readQuery(query)) })
        }),
        summaries: Effect.fnUntraced(function*(by, { after, ...query }) {
          return yield* store.summaries(by.grantId, { after, ...yield* Effect.fromResult(readQuery(query)) })
        }),
        terminate: (by, id) => SandboxCommands.terminate(deps, by, id),
        interrupt: (by, id) => SandboxCommands.interrupt(deps, by, id),
        decideApproval: (by, id, approvalId, decision) => SandboxCommands.decideApproval(deps, by, id, approvalId, decision),
        restore: (by, id, checkpoint) => SandboxCommands.restore(deps, by, id, checkpoint),
        sendMessage: (by, id, prompt, key, whenBusy = "reject") => SandboxCommands.sendMessage(deps, by, id, prompt, key, whenBusy),
        cancelMessage: (by, id, messageId) => SandboxCommands.cancelMessage(deps, by, id, messageId),
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
