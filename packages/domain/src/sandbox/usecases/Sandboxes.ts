/** The use cases of clients: create, read, list, command. Each call loads, decides and commits once. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AccessStore } from "../../access/ports/AccessStore.ts"
import type { Principal } from "../../access/schema/Principal.ts"
import { Ids, type Uuid } from "../../ids/Ids.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { McpServerStore } from "../../mcp/ports/McpServerStore.ts"
import { Spending, type SpendingRefused } from "../../models/ports/Spending.ts"
import { ModelCatalogue } from "../../models/schema/ModelCatalogue.ts"
import { RepositorySettings } from "../../source/ports/RepositorySettings.ts"
import { SourceHost } from "../../source/ports/SourceHost.ts"
import { RepoName } from "../../source/schema/RepoRef.ts"
import { PageLimit, readPage } from "../../store/Page.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type InvalidRequest, reader } from "../../text/InvalidRequest.ts"
import { BeforeCreate } from "../ports/BeforeCreate.ts"
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
import { isSettled, type Sandbox, type SandboxNotFinished } from "../rules/Sandbox.ts"
import type { ApprovalDecision } from "../schema/Approval.ts"
import type { IdempotencyKey } from "../schema/Idempotency.ts"
import type { WhenBusy } from "../schema/MessageQueue.ts"
import { SandboxStatus } from "../schema/SandboxEvent.ts"
import { branchRulesOf } from "./Continuation.ts"
import type { CreateSandbox, ForkSandbox, NoCheckpoint } from "./CreateSandbox.ts"
import * as SandboxCommands from "./SandboxCommands.ts"
import * as SandboxCreation from "./SandboxCreation.ts"
import type { CreationRefused, ForkRefused } from "./SandboxCreation.ts"
import { declare } from "./SandboxMetrics.ts"

const readQuery = reader(
  Schema.Struct({ limit: PageLimit, status: Schema.NullOr(SandboxStatus), repo: Schema.NullOr(RepoName) }),
  "query"
)

/**
 * The use cases for the sandboxes of the caller's grant. No call waits for slow work: it is decided, recorded and answered, and workers
 * execute it. The caller decodes requests with the schemas of their types; `Requests` does that for callers without an HTTP API.
 */
export class Sandboxes extends Context.Service<Sandboxes, {
  /**
   * Accepts a creation. Booting continues without the caller. `key`: none if absent. `replayed`: an equal request with this key was
   * executed before.
   */
  create(by: Principal, request: CreateSandbox, key?: Option.Option<IdempotencyKey>): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    CreationRefused
  >
  /**
   * Accepts a fork of a sandbox in any status: a new sandbox with its repositories, whose trees start as its checkpoint. The original
   * sandbox does not change.
   */
  fork(by: Principal, id: SandboxId, request: ForkSandbox, key?: Option.Option<IdempotencyKey>): Effect.Effect<
    { readonly sandbox: Sandbox; readonly replayed: boolean },
    CheckpointNotFound | ForkRefused | NoCheckpoint | SandboxNotFound
  >
  get(by: Principal, id: SandboxId): Effect.Effect<Sandbox, SandboxNotFound | StoreUnavailable>
  list(by: Principal, query: ListQuery): Effect.Effect<ReadonlyArray<Sandbox>, InvalidRequest | StoreUnavailable>
  /** Like `list`, for lists of many sandboxes. */
  summaries(by: Principal, query: ListQuery): Effect.Effect<ReadonlyArray<SandboxSummary>, InvalidRequest | StoreUnavailable>
  terminate(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  interrupt(by: Principal, id: SandboxId): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  /** Approves or denies an agent's request. */
  decideApproval(by: Principal, id: SandboxId, approvalId: string, decision: ApprovalDecision): Effect.Effect<
    CommandResult,
    ApprovalNotFound | QueueFull | SandboxNotFound | ScopeUnsupported | StoreUnavailable
  >
  /** Restores trees and conversation to a checkpoint, between turns. */
  restore(by: Principal, id: SandboxId, checkpoint: number): Effect.Effect<
    CommandResult,
    CheckpointNotFound | SandboxNotFound | SandboxNotRunning | StoreUnavailable
  >
  /**
   * Makes the host's newest commits of base and branch available to the agent's git as `origin/…`, between turns. A worker does it; the
   * event `sandbox.synced` reports it.
   */
  sync(by: Principal, id: SandboxId): Effect.Effect<
    CommandResult,
    SandboxNotFound | SandboxNotRunning | StoreUnavailable | TurnActive
  >
  /**
   * Starts the next turn. While a turn is active, `whenBusy` decides whether the message is refused or waits (default: `reject`).
   * `turnId`: the id of its turn, which is also the message's id. `duplicate`: an equal message with this key was sent before, and
   * `turnId` is its turn.
   */
  sendMessage(by: Principal, id: SandboxId, prompt: string, key?: Option.Option<IdempotencyKey>, whenBusy?: WhenBusy): Effect.Effect<
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
  /** Withdraws a waiting message. */
  cancelMessage(by: Principal, id: SandboxId, messageId: string): Effect.Effect<
    CommandResult,
    MessageNotFound | MessageNotWaiting | SandboxNotFound | StoreUnavailable
  >
  /** Gives the sandbox another title, in any status. */
  rename(by: Principal, id: SandboxId, title: string): Effect.Effect<CommandResult, SandboxNotFound | StoreUnavailable>
  /** Deletes an ended sandbox and its data for good (`SandboxStore.delete`). The caller checks that `by` may delete. */
  delete(by: Principal, id: SandboxId): Effect.Effect<void, SandboxNotFinished | SandboxNotFound | StoreUnavailable>
  /** Prompts and complete messages of the agent after the event `after`, oldest first. */
  messages(by: Principal, id: SandboxId, page: { readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<Message>,
    InvalidRequest | SandboxNotFound | StoreUnavailable
  >
  /** The stored checkpoints after number `after`, oldest first. */
  checkpoints(by: Principal, id: SandboxId, page: { readonly after: number; readonly limit: number }): Effect.Effect<
    ReadonlyArray<Checkpoint>,
    InvalidRequest | SandboxNotFound | StoreUnavailable
  >
  /** The state of the sandbox's setup, and its output. */
  setup(by: Principal, id: SandboxId): Effect.Effect<SetupStatus, SandboxNotFound | StoreUnavailable>
}>()("@slipway/domain/Sandboxes") {
  /**
   * Without `Spending` there are neither budgets nor credits; without `SourceHost` any repository is accepted, and no branch is continued.
   * Without `AccessStore` each grant may push to the branches of sandboxes alone. Without `Checkpoints`
   * none are stored, without `Setups` no setup is known, without `RepositorySettings` and `McpServerStore` repositories have none.
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
      const beforeCreate = yield* BeforeCreate
      const settings = yield* Effect.serviceOption(RepositorySettings)
      const mcpServers = yield* Effect.serviceOption(McpServerStore)
      const access = yield* Effect.serviceOption(AccessStore)
      const branchRules = branchRulesOf(access)
      const deps = { store, ids, catalogue, spending, source, branchRules, kept, beforeCreate, settings, mcpServers }
      yield* declare

      return Sandboxes.of({
        create: (by, request, key = Option.none()) => SandboxCreation.create(deps, by, request, key),
        fork: (by, id, request, key = Option.none()) => SandboxCreation.fork(deps, by, id, request, key),
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
        sync: (by, id) => SandboxCommands.sync(deps, by, id),
        sendMessage: (by, id, prompt, key = Option.none(), whenBusy = "reject") =>
          SandboxCommands.sendMessage(deps, by, id, prompt, key, whenBusy),
        cancelMessage: (by, id, messageId) => SandboxCommands.cancelMessage(deps, by, id, messageId),
        rename: (by, id, title) => SandboxCommands.rename(deps, by, id, title),
        delete: (by, id) => Effect.flatMap(DateTime.now, (now) => store.delete({ grantId: by.grantId, id }, now)),
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
