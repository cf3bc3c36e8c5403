/** The choices of owners for a repository: for its pull requests, and for its file of MCP servers. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import { FeedbackPolicy } from "./FeedbackPolicy.ts"
import { NO_FEEDBACK } from "./NoFeedback.ts"

/** Labels of one repository (our choice). */
export const MAX_LABELS = 20
/** Reviewers of one repository: GitHub asks at most 15 for one pull request. */
export const MAX_REVIEWERS = 15

// One line without outer spaces: hosts trim names, and a name that is not the host's is never found.
const isOneLine = Schema.makeFilter(
  (value: string) => value === value.trim() && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(value),
  { expected: "one line without spaces at its ends", toJsonSchema: () => [{}, true] }
)

const isDistinct = Schema.makeFilter(
  (values: ReadonlyArray<string>) => new Set(values.map((value) => value.toLowerCase())).size === values.length,
  { expected: "no name twice", toJsonSchema: () => [{}, true] }
)

/** The name of a label; GitHub allows 50 characters. */
export const Label = text(1, 50).check(isOneLine)
/** `login`, or `organization/team`. */
export const Reviewer = Schema.String.check(
  Schema.isMaxLength(201),
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]*(?:\/[A-Za-z0-9][A-Za-z0-9._-]*)?$/u, { expected: "login or organization/team" })
)

/** The settings of one repository in one grant. */
export const RepoSettings = Schema.Struct({
  labels: Schema.Array(Label).check(Schema.isMaxLength(MAX_LABELS), isDistinct).annotateKey({
    description: "Labels of new pull requests. A label that the repository lacks is left out, and the publication says so."
  }),
  reviewers: Schema.Array(Reviewer).check(Schema.isMaxLength(MAX_REVIEWERS), isDistinct).annotateKey({
    description: "Logins, or `organization/team`, that new pull requests ask for a review."
  }),
  coAuthor: Schema.Boolean.annotateKey({ description: "Whether commits name the sandbox's creator in `Co-authored-by`." }),
  feedback: FeedbackPolicy.annotateKey({ description: "What of the repository's pull requests is given to their sandboxes." }),
  mcpFile: Schema.Boolean.annotateKey({
    description: "Whether agents have the MCP servers of the repository's `.mcp.json` that are commands.",
    default: false
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(false)))
}).annotate({ identifier: "RepoSettings" })
export type RepoSettings = typeof RepoSettings.Type

/** The settings of repositories without stored settings. */
export const NO_SETTINGS: RepoSettings = { labels: [], reviewers: [], coAuthor: false, feedback: NO_FEEDBACK, mcpFile: false }

/** Whether two settings are the same, with their lists in the same order. */
export const sameSettings = Schema.toEquivalence(RepoSettings)
