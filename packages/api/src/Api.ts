/** The whole public HTTP API. Servers, clients and the OpenAPI document are made from this value. */
import { HttpApi, OpenApi } from "effect/http-api"
import { CheckpointsApi } from "./groups/CheckpointsApi.ts"
import { EventsApi } from "./groups/EventsApi.ts"
import { FeedbackApi } from "./groups/FeedbackApi.ts"
import { ArtifactsApi } from "./groups/files/ArtifactsApi.ts"
import { FilesApi } from "./groups/FilesApi.ts"
import { HealthApi } from "./groups/HealthApi.ts"
import { MessagesApi } from "./groups/MessagesApi.ts"
import { MetricsApi } from "./groups/MetricsApi.ts"
import { PartnerApi } from "./groups/PartnerApi.ts"
import { PullRequestsApi } from "./groups/PullRequestsApi.ts"
import { SandboxesApi } from "./groups/SandboxesApi.ts"
import { UploadsApi } from "./groups/UploadsApi.ts"
import { tidy } from "./openapi/OpenApiDocument.ts"

/** The endpoints that keys with the scope `sandboxes` use, and those for machines: health, metrics and the partner feed. */
export class Api extends HttpApi.make("slipway")
  .add(SandboxesApi)
  .add(MessagesApi)
  .add(CheckpointsApi)
  .add(EventsApi)
  .add(FilesApi)
  .add(ArtifactsApi)
  .add(UploadsApi)
  .add(PullRequestsApi)
  .add(FeedbackApi)
  .add(PartnerApi)
  .add(HealthApi)
  .add(MetricsApi)
  // Bodies are strict. The other parts of a request are not: unknown query parameters and headers are ignored.
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })
  .annotateMerge(OpenApi.annotations({
    title: "Slipway",
    version: "1.0.0",
    summary: "Coding agents in sandboxes over your git repositories",
    description: "Create a sandbox from repositories and a prompt, follow what the agent does, decide its tool calls, read its " +
      "files and publish a draft pull request. Every error has the same body, `{ error: { code, message } }`.",
    license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0.html" },
    servers: [{ url: "/", description: "This server" }],
    transform: (spec) => tidy(spec as OpenApi.OpenAPISpec)
  }))
{}
