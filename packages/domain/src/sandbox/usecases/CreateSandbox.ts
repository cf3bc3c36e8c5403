/** The requests for a creation (docs/interface.md 4.2) and a fork (docs/decisions/16), and the `Creation` that they become. */
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SandboxVariables } from "../../environment/schema/SandboxVariables.ts"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { McpServerNames } from "../../mcp/schema/McpServer.ts"
import { type Catalogue, type Model, ModelId } from "../../models/schema/ModelCatalogue.ts"
import { ReasoningEffort } from "../../models/schema/ReasoningEffort.ts"
import { ToolApprovalMode } from "../../models/schema/ToolApprovalMode.ts"
import { isOn, newFeedback } from "../../source/rules/FeedbackState.ts"
import { FeedbackPolicy } from "../../source/schema/FeedbackPolicy.ts"
import type { FeedbackState } from "../../source/schema/FeedbackState.ts"
import { isCommitId, sameRepo } from "../../source/schema/Naming.ts"
import { NO_FEEDBACK } from "../../source/schema/NoFeedback.ts"
import { Ref, RepoName, RepoRef } from "../../source/schema/RepoRef.ts"
import { Counter } from "../../text/Text.ts"
import type { Continues, Creation, Origin } from "../rules/Sandbox.ts"
import { MAX_TITLE, Prompt, Title } from "../schema/Command.ts"
import { type AttachedFile, FileRefs } from "../schema/PromptFile.ts"
import { Metadata } from "../schema/Sandbox.ts"

/** The most repositories of one sandbox (docs/decisions/12). */
const MAX_REPOS = 16

const Repos = Schema.Array(RepoRef).check(
  Schema.isMinLength(1),
  Schema.isMaxLength(MAX_REPOS),
  Schema.makeFilter(
    (repos: ReadonlyArray<RepoRef>) => new Set(repos.map(({ fullName }) => fullName.toLowerCase())).size === repos.length,
    { expected: "repositories that differ in more than case", toJsonSchema: () => [{}, true] }
  )
)

/** The common fields of creations and forks. */
const firstPrompt = Prompt.annotateKey({ description: "The first task of the agent." })
const firstFiles = Schema.optionalKey(FileRefs).annotateKey({
  description: "Uploaded files for the first task: at most 10. The agent finds them below its home, and sees images if its model can."
})
const shownTitle = Schema.optionalKey(Title).annotateKey({
  description: "A title for people. Default: the prompt's first line."
})
const ownMetadata = Metadata.annotateKey({
  description: "Strings of the caller, kept unchanged: at most 16.",
  default: {}
}).pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))

const { checks, comments, publish, rounds } = FeedbackPolicy.fields
/** The feedback that a creation asks for. The other fields come from the settings of the repository. */
const FeedbackChoice = Schema.Struct({
  comments: Schema.optionalKey(comments),
  checks: Schema.optionalKey(checks),
  rounds: Schema.optionalKey(rounds),
  publish: Schema.optionalKey(publish)
}).annotate({ identifier: "FeedbackChoice" })

/** The pull request or branch that a new sandbox continues (docs/decisions/24). */
export const Continue = Schema.Struct({
  repo: Schema.optionalKey(RepoName).annotateKey({ description: "Its repository, one of `repos`. May be left out with one repository." }),
  pullRequest: Schema.optionalKey(Counter.check(Schema.isGreaterThan(0))).annotateKey({
    description: "The number of an open pull request whose branch is in the repository itself."
  }),
  branch: Schema.optionalKey(Ref.check(
    Schema.makeFilter((branch: string) => !isCommitId(branch), { expected: "a branch", toJsonSchema: () => [{}, true] })
  )).annotateKey({ description: "The short name of a branch." })
}).check(
  Schema.makeFilter(({ branch, pullRequest }) => (branch === undefined) !== (pullRequest === undefined), {
    expected: "exactly one of pullRequest and branch",
    toJsonSchema: () => [{}, true]
  })
).annotate({ identifier: "Continue" })
export type Continue = typeof Continue.Type

/** The repository of the creation that `continue` is about; `undefined`: it names none, or another one. */
export const continuedRepo = (
  { continue: asked, repos }: { readonly continue?: Continue; readonly repos: ReadonlyArray<RepoRef> }
): RepoRef | undefined => {
  const repo = asked?.repo
  return repo === undefined ? (repos.length === 1 ? repos[0] : undefined) : repos.find(({ fullName }) => sameRepo(fullName, repo))
}

const problemOfContinue = (
  request: { readonly continue?: Continue; readonly repos: ReadonlyArray<RepoRef> }
): string | undefined => {
  if (request.continue === undefined) return undefined
  const repo = continuedRepo(request)
  if (repo === undefined) return "Expected continue.repo to be one of repos"
  return repo.ref === undefined ? undefined : "Expected no ref for the repository of continue"
}

/** The body of a creation (docs/interface.md 4.2) with its defaults. Decoding refuses unknown fields. */
export const CreateSandbox = Schema.Struct({
  repos: Repos.annotateKey({ description: "The repositories: 1 to 16 different ones; case is ignored." }),
  prompt: firstPrompt,
  files: firstFiles,
  model: Schema.optionalKey(ModelId).annotateKey({ description: "A model's id in the catalogue. Default: the catalogue's default." }),
  reasoningEffort: Schema.optionalKey(ReasoningEffort).annotateKey({
    description: "The reasoning effort: a value that the catalogue lists for the model."
  }),
  title: shownTitle,
  toolApprovalMode: ToolApprovalMode.annotateKey({
    description: "`prompt`: the agent asks before every edit and command; `auto`: it never asks.",
    default: "auto"
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed("auto" as const))),
  metadata: ownMetadata,
  feedback: Schema.optionalKey(FeedbackChoice).annotateKey({
    description: "What of its pull requests becomes messages of the sandbox. Omitted fields are as set for its first repository."
  }),
  continue: Schema.optionalKey(Continue).annotateKey({
    description: "A pull request or a branch to start from and to publish to. Its repository may have no `ref`."
  }),
  budgetMicroUsd: Schema.optionalKey(Counter.check(Schema.isGreaterThan(0))).annotateKey({
    description: "The limit of its model costs in micro-USD, at most the operator's. Default: the operator's limit alone."
  }),
  environment: Schema.optionalKey(SandboxVariables).annotateKey({
    description:
      "Variables for setup and the agent, by name. They are not secret: the agent and everybody who sees the sandbox can read them."
  }),
  mcpServers: Schema.optionalKey(McpServerNames).annotateKey({
    description: "The MCP servers of its repositories that the agent gets, by name: at most 20. Default: those that are on by default."
  })
}).check(Schema.makeFilter(problemOfContinue, { toJsonSchema: () => [{}, true] })).annotate({ identifier: "CreateSandbox" })
export type CreateSandbox = typeof CreateSandbox.Type

/** The body of a fork (docs/decisions/16). Omitted fields are taken from the original sandbox. */
export const ForkSandbox = Schema.Struct({
  prompt: firstPrompt,
  files: firstFiles,
  model: Schema.optionalKey(ModelId).annotateKey({
    description: "A model's id in the catalogue, which may have another runtime. Default: the sandbox's model."
  }),
  reasoningEffort: Schema.optionalKey(ReasoningEffort).annotateKey({
    description: "The reasoning effort. Default: the sandbox's effort, if the catalogue lists it for the model."
  }),
  title: shownTitle,
  toolApprovalMode: Schema.optionalKey(ToolApprovalMode).annotateKey({ description: "Default: the sandbox's mode." }),
  metadata: ownMetadata,
  checkpoint: Schema.optionalKey(Counter).annotateKey({ description: "The checkpoint that its trees start as. Default: the newest one." })
}).annotate({ identifier: "ForkSandbox" })
export type ForkSandbox = typeof ForkSandbox.Type

/** The sandbox has no checkpoint to fork yet. A retry after the first turn helps. */
export class NoCheckpoint extends Schema.TaggedError<NoCheckpoint>()("NoCheckpoint", {}) {
  override get message() {
    return "The sandbox has no checkpoint yet. The first one is taken when its first turn has ended: fork it then, or create a sandbox."
  }
}

/** The first line of the prompt with text, its spaces collapsed, cut to the maximum length (docs/decisions/2.3). */
export const titleOf = (prompt: string): string => {
  const line = prompt.split(/\r\n|[\n\r\u2028\u2029]/u).map((candidate) => candidate.replace(/\s+/gu, " ").trim()).find((candidate) =>
    candidate !== ""
  )
  return line === undefined ? "Untitled sandbox" : Array.from(line).slice(0, MAX_TITLE).join("").trimEnd()
}

/** The values that the caller of `toCreation` provides. `model` is the catalogue's choice. */
interface Given {
  readonly id: SandboxId
  readonly grantId: string
  readonly createdBy: string
  readonly model: Model
  readonly at: DateTime.Utc
  /** As set for the first repository. */
  readonly feedback?: FeedbackPolicy
  /** The branch that `continue` stands for; absent or `null`: the request has none. */
  readonly continues?: Continues | null
  /** The files of the prompt. Absent: none. */
  readonly files?: ReadonlyArray<AttachedFile>
}

const feedbackOf = (policy: FeedbackPolicy, at: DateTime.Utc): FeedbackState | null =>
  isOn({ policy }) || !policy.publish ? newFeedback(policy, at) : null

/** The creation for a request. `origin`: the checkpoint that the sandbox starts with. */
export const toCreation = (request: CreateSandbox, given: Given, origin: Origin | null = null): Creation => ({
  id: given.id,
  grantId: given.grantId,
  createdBy: given.createdBy,
  title: request.title ?? titleOf(request.prompt),
  // The tree starts at the head of the continued branch.
  repos: request.repos.map((repo) =>
    given.continues != null && sameRepo(repo.fullName, given.continues.repo) ? { ...repo, ref: given.continues.branch } : repo
  ),
  prompt: request.prompt,
  ...(given.files === undefined || given.files.length === 0 ? {} : { files: given.files }),
  model: given.model.id,
  agentRuntime: given.model.agentRuntime,
  reasoningEffort: request.reasoningEffort ?? null,
  toolApprovalMode: request.toolApprovalMode,
  metadata: request.metadata,
  origin,
  feedback: feedbackOf({ ...NO_FEEDBACK, ...given.feedback, ...request.feedback }, given.at),
  continues: given.continues ?? null,
  budgetMicroUsd: request.budgetMicroUsd ?? null,
  environment: request.environment ?? {},
  ...(request.mcpServers === undefined ? {} : { mcpServers: request.mcpServers }),
  createdAt: given.at
})

/**
 * The budget and variables of a sandbox, for a fork or a successor. An operator's limit that was lowered meanwhile lowers
 * the budget.
 */
export const inputsOf = (
  { budgetMicroUsd = null, environment = {} }: Pick<Creation, "budgetMicroUsd" | "environment">,
  sandboxLimit: number | null
): Pick<CreateSandbox, "budgetMicroUsd" | "environment"> => ({
  ...(budgetMicroUsd === null ? {} : { budgetMicroUsd: Math.min(budgetMicroUsd, sandboxLimit ?? budgetMicroUsd) }),
  ...(Object.keys(environment).length === 0 ? {} : { environment })
})

/**
 * The creation request of a fork, with the original sandbox's values. An effort that the new model lacks is dropped. A request for
 * approvals is kept even if the model lacks them, so that it is refused and not silently dropped.
 */
export const asCreation = (
  { checkpoint: _checkpoint, ...request }: ForkSandbox,
  of: Pick<Creation, "budgetMicroUsd" | "environment" | "mcpServers" | "model" | "reasoningEffort" | "repos" | "toolApprovalMode">,
  catalogue: Catalogue,
  sandboxLimit: number | null = null
): CreateSandbox => {
  const model = request.model ?? of.model
  const efforts = catalogue.models.find(({ id }) => id === model)?.efforts ?? []
  const reasoningEffort = request.reasoningEffort ?? (of.reasoningEffort !== null && efforts.includes(of.reasoningEffort)
    ? of.reasoningEffort
    : undefined)
  return {
    ...request,
    repos: of.repos,
    model,
    toolApprovalMode: request.toolApprovalMode ?? of.toolApprovalMode,
    ...inputsOf(of, sandboxLimit),
    ...(of.mcpServers === undefined ? {} : { mcpServers: of.mcpServers }),
    ...(reasoningEffort === undefined ? {} : { reasoningEffort })
  }
}
