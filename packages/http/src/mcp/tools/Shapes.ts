/** Parts of the inputs and outputs of several tools. */
import type { Sandbox, Snapshot } from "@slipway/client"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CommandResult } from "@slipway/domain/sandbox/schema/Command"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Schema } from "effect"
import { UNTRUSTED } from "./Tool.ts"

export const sandboxId = Schema.toEncoded(SandboxId).annotateKey({ description: "The sandbox's id, such as c_abcdefgh2345." })

export const repo = Schema.optionalKey(RepoName).annotateKey({
  description: "Which of the sandbox's repositories, as owner/name. May be left out when it has one."
})

export const idempotencyKey = (description: string) => Schema.optionalKey(IdempotencyKey).annotateKey({ description })

export const note = Schema.String.annotateKey({ description: "How to treat the texts of the result." })

/** A sandbox without the addresses of the API. */
export const SandboxSummary = Schema.Struct({
  id: Schema.String,
  status: Schema.String.annotateKey({ description: "queued, creating, running, succeeded, failed, terminating or terminated." }),
  title: Schema.String,
  repos: Schema.Array(Schema.Struct({ fullName: Schema.String, ref: Schema.optionalKey(Schema.String) })),
  model: Schema.NullOr(Schema.String),
  turnActive: Schema.Boolean.annotateKey({ description: "The agent works, or waits for an approval or an answer." }),
  costMicroUsd: Schema.Number.annotateKey({ description: "Model costs so far, in millionths of a US dollar." }),
  error: Schema.NullOr(Schema.String).annotateKey({ description: "Why it failed." }),
  createdAt: Schema.String
})

export const summaryOf = ({ createdAt, error, id, model, repos, status, title, turn, usage }: Sandbox): typeof SandboxSummary.Encoded => ({
  id,
  status,
  title,
  repos,
  model,
  turnActive: turn.active,
  costMicroUsd: usage.costMicroUsd,
  error,
  createdAt
})

/** A sandbox with everything that waits for a person. */
export const SandboxState = Schema.Struct({
  note,
  sandbox: SandboxSummary,
  turn: Schema.NullOr(Schema.Struct({ id: Schema.String, state: Schema.String })).annotateKey({ description: "The newest turn." }),
  pendingApprovals: Schema.Array(Schema.Record(Schema.String, Schema.Unknown)).annotateKey({
    description: "Tool calls that wait for decide_approval. Each has an approval_id."
  }),
  pendingQuestions: Schema.Array(Schema.Record(Schema.String, Schema.Unknown)).annotateKey({
    description: "Questions that wait for answer_question. Each has a question_id."
  }),
  waitingMessages: Schema.Number.annotateKey({ description: "Messages that wait for a turn of their own." })
})

/** Characters of one text in an approval's preview. The rest is on the sandbox's page. */
const MAX_PREVIEW = 4_000

/** Cuts every long text of a value, and says so. */
export const cut = (value: unknown, most = MAX_PREVIEW): unknown => {
  if (typeof value === "string") {
    return value.length <= most ? value : `${value.slice(0, most)}… (${value.length - most} more characters are left out)`
  }
  if (Array.isArray(value)) return value.map((one) => cut(one, most))
  return typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cut(one, most)]))
    : value
}

type Records = ReadonlyArray<Record<string, unknown>>

export const stateOf = (
  { pending_approvals, pending_questions, sandbox, turn, waiting_messages }: Snapshot
): typeof SandboxState.Encoded => ({
  note: UNTRUSTED,
  sandbox: summaryOf(sandbox),
  turn,
  pendingApprovals: cut(pending_approvals) as Records,
  pendingQuestions: cut(pending_questions) as Records,
  waitingMessages: waiting_messages.length
})

/** The outcome of a command. */
export const Outcome = Schema.Struct(CommandResult.fields)

/** Characters of one page. */
const DEFAULT_PAGE = 20_000
const MAX_PAGE = 100_000

/** The input of tools with long texts. */
export const paging = {
  offset: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000_000 }))).annotateKey({
    description: "The character to begin with; default 0. Give the nextOffset of the page before to read on."
  }),
  limit: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE }))).annotateKey({
    description: `The number of characters, 1 to ${MAX_PAGE}; default ${DEFAULT_PAGE}.`
  })
}

/** The output of tools with long texts. */
export const page = {
  text: Schema.String,
  totalCharacters: Schema.Number.annotateKey({ description: "Of the whole text, which may change while the agent works." }),
  nextOffset: Schema.NullOr(Schema.Number).annotateKey({ description: "The offset of the rest; null: this is the end." })
}

/** Does not cut between the halves of a character. */
const boundary = (text: string, at: number): number => at > 0 && at < text.length && /[\udc00-\udfff]/u.test(text[at] ?? "") ? at - 1 : at

export const pageOf = (text: string, { limit = DEFAULT_PAGE, offset = 0 }: { readonly offset?: number; readonly limit?: number }) => {
  const from = boundary(text, Math.min(offset, text.length))
  const end = boundary(text, Math.min(from + limit, text.length))
  // A page of one character may end within it.
  const to = end === from && from < text.length ? Math.min(from + 2, text.length) : end
  return { text: text.slice(from, to), totalCharacters: text.length, nextOffset: to < text.length ? to : null }
}
