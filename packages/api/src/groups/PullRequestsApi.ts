/** Publishing what a sandbox changed (docs/interface.md 4.7; docs/decisions/7 and 8). */
import { PullRequestStatus } from "@slipway/domain/source/schema/PullRequest"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import {
  BranchMoved,
  MergeConflict,
  NothingToPublish,
  PullRequestNotWritable,
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

/** The body of a publication; it may be left out where the sandbox has one repository. */
export const Publish = Schema.Struct({
  repo: repoQuery.repo.annotateKey({ description: "Which of the sandbox's repositories; may be left out when there is one." }),
  ready: Schema.optionalKey(Schema.Boolean).annotateKey({
    description: "Whether the pull request then becomes ready for review, also where there is nothing new to publish. Default: `false`."
  })
}).annotate({ identifier: "PublishPullRequest" })

/** Publishes changes as a draft pull request, and shows it. */
export class PullRequestsApi extends HttpApiGroup.make("pullRequests", { topLevel: true })
  .add(
    HttpApiEndpoint.post("publishPullRequest", "/", {
      params: inSandbox,
      payload: Publish,
      success: PullRequestStatus,
      error: [
        RepoRequired,
        RepoNotAccessible,
        SandboxNotFound,
        RepoNotFound,
        SandboxNotRunning,
        NothingToPublish,
        BranchMoved,
        MergeConflict,
        PullRequestNotWritable,
        SourceHostError
      ]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Publish a draft pull request",
      description: "Pushes the sandbox's changes and opens a draft pull request, or adds to the open one. At most one is open " +
        "at a time. Answers after at most 20 seconds; `actionState` then tells whether it is still under way."
    })),
    HttpApiEndpoint.get("getPullRequest", "/", {
      params: inSandbox,
      query: repoQuery,
      success: PullRequestStatus,
      error: [RepoRequired, RepoNotAccessible, SandboxNotFound, RepoNotFound]
    }).annotateMerge(OpenApi.annotations({
      summary: "Get the pull request",
      description: "How the pull request stands; `pullRequest` is `null` before anything was published."
    }))
  )
  .prefix("/api/public/v1/sandboxes/:sandboxId/pull-request")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "pull_requests")
  .annotateMerge(OpenApi.annotations({ title: "Pull requests", description: "Publishing what a sandbox changed." }))
{}
