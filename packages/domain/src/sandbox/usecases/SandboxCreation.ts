/** Accepts creations and forks of sandboxes. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type { Principal } from "../../access/schema/Principal.ts"
import type { Ids } from "../../ids/Ids.ts"
import { ID_ALPHABET, SandboxId } from "../../ids/SandboxId.ts"
import type { McpServerStore } from "../../mcp/ports/McpServerStore.ts"
import { unknownNames } from "../../mcp/rules/McpServers.ts"
import type { Spending, SpendingRefused } from "../../models/ports/Spending.ts"
import { BudgetTooLarge } from "../../models/rules/Budget.ts"
import {
  type ApprovalsUnsupported,
  type Catalogue,
  choose,
  type InvalidModel,
  type InvalidReasoningEffort
} from "../../models/schema/ModelCatalogue.ts"
import * as RootSpan from "../../observability/RootSpan.ts"
import type { RepositorySettings } from "../../source/ports/RepositorySettings.ts"
import type { RepoNotAccessible, SourceHost } from "../../source/ports/SourceHost.ts"
import type { FeedbackState } from "../../source/schema/FeedbackState.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import { NO_SETTINGS } from "../../source/schema/RepoSettings.ts"
import type { PullRequestNotWritable } from "../../source/schema/WritableBranch.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { InvalidRequest } from "../../text/InvalidRequest.ts"
import type { ConcurrencyLimitExceeded } from "../ports/ActiveSandboxes.ts"
import type { BeforeCreate, CreationDenied } from "../ports/BeforeCreate.ts"
import { TaskOrganization } from "../ports/SandboxFacts.ts"
import type { SandboxStore } from "../ports/SandboxStore.ts"
import { type IdempotencyConflict, keyed, type KeyedRequest, type SandboxDeleted } from "../rules/Idempotency.ts"
import type { Creation, Origin, Sandbox } from "../rules/Sandbox.ts"
import { turnId } from "../rules/Turn.ts"
import { IdempotencyKey } from "../schema/Idempotency.ts"
import { type BranchRulesOf, resolve, type SourceUnreadable } from "./Continuation.ts"
import { asCreation, type CreateSandbox, type ForkSandbox, inputsOf, NoCheckpoint, toCreation } from "./CreateSandbox.ts"
import { countCreation } from "./SandboxMetrics.ts"

/** The errors of a creation. A fork has all but the errors of a budget and of a continued branch. */
export type CreationRefused = BudgetTooLarge | ForkRefused | PullRequestNotWritable | SourceUnreadable

/** The errors of a fork that are not about the sandbox that it forks. */
export type ForkRefused =
  | ApprovalsUnsupported
  | ConcurrencyLimitExceeded
  | CreationDenied
  | IdempotencyConflict
  | InvalidModel
  | InvalidReasoningEffort
  | InvalidRequest
  | RepoNotAccessible
  | SandboxDeleted
  | SpendingRefused
  | StoreUnavailable

/** The ports of creations. */
export interface Dependencies {
  readonly store: SandboxStore["Service"]
  readonly ids: Ids["Service"]
  readonly catalogue: Catalogue
  readonly spending: Option.Option<Spending["Service"]>
  readonly source: Option.Option<SourceHost["Service"]>
  readonly branchRules: BranchRulesOf
  readonly beforeCreate: (typeof BeforeCreate)["Service"]
  readonly settings: Option.Option<RepositorySettings["Service"]>
  readonly mcpServers: Option.Option<McpServerStore["Service"]>
}

/** Why the budget or the credits refuse new work; `null`: allowed. */
export const refusalOf = ({ spending }: Pick<Dependencies, "spending">, by: Principal, sandboxId: SandboxId | null) =>
  Option.isNone(spending) ? Effect.succeed(null) : spending.value.refusal({ grantId: by.grantId, sandboxId })

/** The operator's limit of one sandbox; `null`: no limit. */
const sandboxLimit = ({ spending }: Pick<Dependencies, "spending">) => Option.isNone(spending) ? null : spending.value.sandboxLimit

/** Why the request cannot have its budget; `null`: it can, or asks for none. */
const refusalOfBudget = (deps: Dependencies, { budgetMicroUsd }: CreateSandbox): BudgetTooLarge | null => {
  if (budgetMicroUsd === undefined) return null
  const limit = sandboxLimit(deps)
  return Option.isNone(deps.spending) || limit !== null && budgetMicroUsd > limit ? new BudgetTooLarge({ limit }) : null
}

/** Why a repository cannot be used; `null`: all can. */
const refusalOfRepos = ({ source }: Dependencies, repos: CreateSandbox["repos"]) =>
  Option.isNone(source) ? Effect.succeed(null) : source.value.refusal(repos.map(({ fullName }) => fullName))

/** The settings of the first repository. */
const settingsOf = ({ settings }: Dependencies, { grantId }: Principal, { repos: [first] }: CreateSandbox) =>
  Option.isNone(settings) || first === undefined ? Effect.succeed(NO_SETTINGS) : settings.value.of({ grantId, repo: first.fullName })

/** The chosen MCP server that no repository has; `null`: all are there. */
const refusalOfServers = Effect.fnUntraced(
  function*({ mcpServers }: Dependencies, { grantId }: Principal, { mcpServers: chosen = [], repos }: CreateSandbox) {
    if (chosen.length === 0) return null
    const all = Option.isNone(mcpServers) ? [] : yield* mcpServers.value.list(grantId, null)
    const [name] = unknownNames(all, repos.map(({ fullName }) => fullName), chosen)
    return name === undefined
      ? null
      : new InvalidRequest({ field: "mcpServers", reason: `none of the repositories has the MCP server ${name}` })
  }
)

const drawId = ({ ids }: Dependencies) => Effect.map(ids.random(ID_ALPHABET, 12), (letters) => SandboxId.make(`c_${letters}`))

/** Checks a creation. Returns the sandbox that an equal earlier request made, or the creation to record. */
const check = Effect.fnUntraced(
  function*(deps: Dependencies, by: Principal, request: CreateSandbox, bound: KeyedRequest | null, origin: Origin | null) {
    const { beforeCreate, catalogue, store } = deps
    const model = yield* Effect.fromResult(choose(catalogue, {
      model: request.model,
      reasoningEffort: request.reasoningEffort,
      toolApprovalMode: request.toolApprovalMode,
      offlineOnly: by.test
    }))
    const id = yield* drawId(deps)
    const at = yield* DateTime.now
    const refused = refusalOfBudget(deps, request) ?? (yield* refusalOf(deps, by, null)) ?? (yield* refusalOfRepos(deps, request.repos)) ??
      (origin === null ? yield* refusalOfServers(deps, by, request) : null)
    if (refused !== null || beforeCreate !== null || request.continue !== undefined) {
      const known = bound === null ? null : yield* store.replay(by.grantId, bound, origin?.sandboxId ?? null)
      if (known !== null) return { known, creation: null }
      if (refused !== null) return yield* refused
    }
    const { feedback } = yield* settingsOf(deps, by, request)
    const continues = yield* resolve(deps, by.grantId, request)
    const creation = toCreation(request, { id, grantId: by.grantId, createdBy: by.userId, model, at, continues, feedback }, origin)
    if (beforeCreate !== null) {
      const { id: _id, ...proposed } = creation
      yield* beforeCreate(proposed, by)
    }
    return { known: null, creation }
  }
)

/**
 * Checks and records a creation. `origin`: the checkpoint that the sandbox starts with. `complete`: changes the creation, whose id is
 * final.
 */
const accept = Effect.fnUntraced(
  function*(
    deps: Dependencies,
    by: Principal,
    request: CreateSandbox,
    bound: KeyedRequest | null,
    origin: Origin | null,
    complete: (creation: Creation) => Creation = identity
  ) {
    const { creation, known } = yield* check(deps, by, request, bound, origin)
    if (creation === null) return { sandbox: known, replayed: true }
    const trace = yield* RootSpan.traceparent
    const record = (id: SandboxId) => deps.store.create({ creation: complete({ ...creation, id }), keyed: bound, trace })
    return yield* record(creation.id).pipe(
      Effect.catchTag("SandboxIdTaken", () =>
        Effect.retry(Effect.flatMap(drawId(deps), record), {
          while: (error) => error._tag === "SandboxIdTaken",
          schedule: Schedule.recurs(4)
        })),
      Effect.catchTag("SandboxIdTaken", Effect.die),
      Effect.provideService(TaskOrganization, by.organizationId),
      Effect.tap(countCreation)
    )
  }
)

/** Creates a sandbox. See `Sandboxes.create`. */
export const create = Effect.fn("Sandboxes.create")(
  function*(deps: Dependencies, by: Principal, request: CreateSandbox, key: Option.Option<IdempotencyKey>) {
    return yield* accept(deps, by, request, keyed(deps.ids, key, request), null)
  },
  // A creation starts with no checkpoint.
  Effect.catchTag("CheckpointNotFound", Effect.die)
)

/** A finished sandbox, the pull request that a new one goes on with, and the feedback that begins it. */
export interface Successor {
  readonly of: Sandbox
  readonly repo: RepoName
  readonly pullRequest: number
  readonly prompt: string
  /** The first state of its feedback, whose round has this turn. */
  readonly feedback: (turnId: string, at: DateTime.Utc) => FeedbackState
}

/**
 * Creates the sandbox that goes on with the pull request of a finished one (docs/decisions/24). A sandbox has one successor: a repetition
 * returns the first, whatever the feedback is then.
 */
export const createSuccessor = Effect.fn("Sandboxes.createSuccessor")(
  function*(deps: Dependencies, by: Principal, { feedback, of, prompt, pullRequest, repo }: Successor) {
    const { mcpServers, metadata, model, reasoningEffort, repos, title, toolApprovalMode } = of
    const key = IdempotencyKey.make(`feedback/${deps.ids.derive(`${of.id}/successor`)}`)
    const request: CreateSandbox = {
      repos,
      prompt,
      model,
      title,
      toolApprovalMode,
      metadata,
      continue: { repo, pullRequest },
      ...inputsOf(of, sandboxLimit(deps)),
      ...(reasoningEffort === null ? {} : { reasoningEffort })
    }
    return yield* accept(deps, by, request, keyed(deps.ids, Option.some(key), { successorOf: of.id }), null, (creation) => ({
      ...creation,
      // Not of the request: a server that was removed since is only missing.
      ...(mcpServers === undefined ? {} : { mcpServers }),
      feedback: feedback(turnId(deps.ids, creation.id, 1), creation.createdAt),
      continues: creation.continues === null ? null : { ...creation.continues, sandboxId: of.id }
    }))
  },
  // It starts with no checkpoint.
  Effect.catchTag("CheckpointNotFound", Effect.die)
)

/** Forks a sandbox. See `Sandboxes.fork`. */
export const fork = Effect.fn("Sandboxes.fork")(
  function*(deps: Dependencies, by: Principal, id: SandboxId, request: ForkSandbox, key: Option.Option<IdempotencyKey>) {
    const sandbox = yield* deps.store.find({ grantId: by.grantId, id })
    // The fingerprint covers the request as received, because the newest checkpoint changes.
    const bound = keyed(deps.ids, key, { ...request, forkOf: id })
    if (sandbox.checkpoint === 0 && request.checkpoint === undefined) return yield* new NoCheckpoint()
    const origin = { sandboxId: id, checkpoint: request.checkpoint ?? sandbox.checkpoint }
    return yield* accept(deps, by, asCreation(request, sandbox, deps.catalogue, sandboxLimit(deps)), bound, origin)
  },
  // A fork continues no branch: it publishes to one of its own. Its budget is within the limit.
  Effect.catchTags({ BudgetTooLarge: Effect.die, PullRequestNotWritable: Effect.die, SourceUnreadable: Effect.die })
)
