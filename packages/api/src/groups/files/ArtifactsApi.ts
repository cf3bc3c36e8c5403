/** Files that agents leave for people (docs/decisions/32). */
import { ArtifactList } from "@slipway/domain/files/schema/Artifact"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ArtifactNotFound, SandboxNotFound } from "../../shared/Errors.ts"
import { Authenticated } from "../../shared/Middleware.ts"
import { inSandbox } from "../../shared/Parameters.ts"
import { Area, NeededScope } from "../../shared/Routing.ts"

/** Lists and downloads artifacts. Nothing is written here: only the agent does that. */
export class ArtifactsApi extends HttpApiGroup.make("artifacts", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listArtifacts", "/", {
      params: inSandbox,
      success: ArtifactList,
      error: [SandboxNotFound]
    }).annotateMerge(OpenApi.annotations({
      summary: "List artifacts",
      description:
        "The files that the agent left in `$SLIPWAY_ARTIFACTS`, as of the end of its last turn. At most 50, so there are no pages."
    })),
    HttpApiEndpoint.get("getArtifact", "/:name", {
      params: { ...inSandbox, name: Schema.String },
      headers: { range: Schema.optionalKey(Schema.String) },
      success: HttpApiSchema.WithHeaders(HttpApiSchema.StreamUint8Array(), {
        "content-disposition": Schema.String,
        "content-length": Schema.String,
        etag: Schema.String
      }),
      error: [SandboxNotFound, ArtifactNotFound]
    }).annotateMerge(OpenApi.annotations({
      summary: "Download an artifact",
      description: "Its bytes, as an attachment without a media type. A `Range` of bytes is answered with 206."
    }))
  )
  .prefix("/api/public/v1/sandboxes/:sandboxId/artifacts")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "files")
  .annotateMerge(OpenApi.annotations({ title: "Artifacts", description: "Files that the agent of a sandbox leaves for people." }))
{}
