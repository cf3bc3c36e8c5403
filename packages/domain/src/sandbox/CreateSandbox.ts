/** What a creation may ask for (docs/interface.md 4.2), and what is made of it. */
import { Effect, Schema } from "effect"
import type { DateTime } from "effect"
import { type Model, ModelId } from "../models/ModelCatalogue.ts"
import { ReasoningEffort } from "../models/ReasoningEffort.ts"
import { ToolApprovalMode } from "../models/ToolApprovalMode.ts"
import type { SandboxId } from "../SandboxId.ts"
import { RepoRef } from "../source/RepoRef.ts"
import { text } from "../Text.ts"
import { Prompt } from "./Command.ts"
import { type Creation, Metadata } from "./Sandbox.ts"

/** At most this many repositories in one sandbox (docs/decisions.md 12). */
const MAX_REPOS = 16

const Repos = Schema.Array(RepoRef).check(
  Schema.isMinLength(1),
  Schema.isMaxLength(MAX_REPOS),
  Schema.makeFilter(
    (repos: ReadonlyArray<RepoRef>) => new Set(repos.map(({ fullName }) => fullName.toLowerCase())).size === repos.length,
    { expected: "repositories that differ in more than case", toJsonSchema: () => [{}, true] }
  )
)

/**
 * The body of a creation (docs/interface.md 4.2), with its defaults filled in. Unknown fields are refused where it is decoded.
 */
export const CreateSandbox = Schema.Struct({
  repos: Repos.annotateKey({ description: "What to work on: 1 to 16, which differ in more than case." }),
  prompt: Prompt.annotateKey({ description: "What the agent is to do first." }),
  model: Schema.optionalKey(ModelId).annotateKey({ description: "A model's id in the catalogue. Left out: the catalogue's default." }),
  reasoningEffort: Schema.optionalKey(ReasoningEffort).annotateKey({
    description: "How hard the model is to think; one that the catalogue lists for it."
  }),
  title: Schema.optionalKey(text(1, 120)).annotateKey({ description: "For people. Left out: the prompt's first line." }),
  toolApprovalMode: ToolApprovalMode.annotateKey({
    description: "`prompt`: the agent asks before it edits or runs anything; `auto`: it never asks.",
    default: "auto"
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed("auto" as const))),
  metadata: Metadata.annotateKey({
    description: "Strings of the caller, kept as they came: at most 16.",
    default: {}
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))
}).annotate({ identifier: "CreateSandbox" })
export type CreateSandbox = typeof CreateSandbox.Type

/** The first line of the prompt that is not blank, its spaces collapsed, cut to 120 characters (docs/decisions.md 2.3). */
export const titleOf = (prompt: string): string => {
  const line = prompt.split(/\r\n|[\n\r\u2028\u2029]/u).map((candidate) => candidate.replace(/\s+/gu, " ").trim()).find((candidate) =>
    candidate !== ""
  )
  return line === undefined ? "Untitled sandbox" : Array.from(line).slice(0, 120).join("").trimEnd()
}

/** The creation that a request asks for. `given.model` is the catalogue's answer to it. */
export const toCreation = (
  request: CreateSandbox,
  given: { readonly id: SandboxId; readonly grantId: string; readonly createdBy: string; readonly model: Model; readonly at: DateTime.Utc }
): Creation => ({
  id: given.id,
  grantId: given.grantId,
  createdBy: given.createdBy,
  title: request.title ?? titleOf(request.prompt),
  repos: request.repos,
  prompt: request.prompt,
  model: given.model.id,
  agentRuntime: given.model.agentRuntime,
  reasoningEffort: request.reasoningEffort ?? null,
  toolApprovalMode: request.toolApprovalMode,
  metadata: request.metadata,
  createdAt: given.at
})
