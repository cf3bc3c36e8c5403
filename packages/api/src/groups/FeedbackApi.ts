/** Feedback that people give to sandboxes here (docs/decisions/24). That of source hosts comes by itself. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CommandResult } from "@slipway/domain/sandbox/schema/Command"
import { MAX_REVIEW_COMMENTS } from "@slipway/domain/source/ports/PullRequests"
import { text } from "@slipway/domain/text/Text"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import {
  BudgetExceeded,
  NoCredits,
  NoFailingChecks,
  QueueFull,
  RepoNotAccessible,
  RepoNotFound,
  RepoRequired,
  SandboxNotFound,
  SandboxNotRunning,
  SourceHostError
} from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { inSandbox, repoQuery } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"
import { MessageResult } from "./MessagesApi.ts"

const LineComment = Schema.Struct({
  path: text(1, 1000).annotateKey({ description: "The file, relative to the repository." }),
  line: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2 ** 31 - 1 }))).annotateKey({
    description: "Its line in the published commit; left out for all of the file."
  }),
  text: text(1, 10_000).annotateKey({ description: "What should be different there." })
})

/** The body of a request for changes. */
export const RequestChanges = Schema.Struct({
  repo: repoQuery.repo.annotateKey({ description: "Which of the sandbox's repositories; may be left out when there is one." }),
  text: Schema.optionalKey(text(1, 60_000)).annotateKey({ description: "What should be different." }),
  comments: Schema.optionalKey(Schema.Array(LineComment).check(Schema.isMaxLength(MAX_REVIEW_COMMENTS))).annotateKey({
    description: "Comments on files and lines: at most 100."
  }),
  checks: Schema.optionalKey(Schema.Boolean).annotateKey({
    description: "`true`: the agent gets the failing checks of the pull request, with their annotations and the ends of their logs."
  })
}).check(
  Schema.makeFilter(({ checks, comments, text }) => text !== undefined || checks === true || (comments ?? []).length > 0, {
    expected: "text, comments or checks",
    toJsonSchema: () => [{}, true]
  })
).annotate({ identifier: "RequestChanges" })

/** The answer to a request for changes. */
const ChangesRequested = Schema.Struct({
  ...MessageResult.fields,
  sandboxId: SandboxId.annotateKey({
    description: "The sandbox that has the message: a new one if this one has finished, else this one."
  })
}).annotate({ identifier: "ChangesRequested" })

/** Requests changes, and continues after a pause. */
export class FeedbackApi extends HttpApiGroup.make("feedback", { topLevel: true })
  .add(
    HttpApiEndpoint.post("requestChanges", "/", {
      params: inSandbox,
      payload: RequestChanges,
      success: ChangesRequested,
      error: [
        NoCredits,
        BudgetExceeded,
        RepoRequired,
        RepoNotAccessible,
        SandboxNotFound,
        RepoNotFound,
        SandboxNotRunning,
        QueueFull,
        NoFailingChecks,
        SourceHostError
      ]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Request changes",
      description: "Gives the agent comments on files and lines, or the failing checks, as its next message. It waits while a turn is " +
        "active. The changes are published after the turn, and the pull request gets a reply. In repositories of the service itself " +
        "the comments stand on the pull request too. A finished sandbox with an open pull request is continued by a new sandbox."
    })),
    HttpApiEndpoint.post("resumeFeedback", "/resume", {
      params: inSandbox,
      success: CommandResult,
      error: [SandboxNotFound]
    }).annotateMerge(OpenApi.annotations({
      summary: "Continue feedback",
      description: "Feedback goes on after it was paused. Safe to repeat."
    }))
  )
  .prefix("/api/public/v1/sandboxes/:sandboxId/feedback")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "pull_requests")
  .annotateMerge(OpenApi.annotations({ title: "Feedback", description: "Feedback on what a sandbox published." }))
{}
