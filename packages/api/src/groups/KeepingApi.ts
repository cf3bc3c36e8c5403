/** Deleting and archiving sandboxes (docs/decisions/29). Not part of the public interface and its document. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Schema, SchemaTransformation } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { SandboxNotFinished, SandboxNotFound } from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { inSandbox, MAX_LIMIT } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

/** 1 to {@link MAX_LIMIT} ids with commas between them. */
const Ids = Schema.String.check(Schema.isMaxLength(MAX_LIMIT * 15)).pipe(
  Schema.decodeTo(
    Schema.Array(SandboxId).check(Schema.isMaxLength(MAX_LIMIT)),
    SchemaTransformation.transform({
      decode: (text): ReadonlyArray<string> => text.split(","),
      encode: (ids: ReadonlyArray<string>) => ids.join(",")
    })
  )
)

const commands = [SandboxNotFound] as const

/** Deleting needs the scope `sandboxes:delete`, everything else `sandboxes`. */
export class KeepingApi extends HttpApiGroup.make("keeping", { topLevel: true })
  .add(
    HttpApiEndpoint.get("archivedSandboxes", "/archived", {
      query: { ids: Ids },
      success: Schema.Struct({ data: Schema.Array(SandboxId) }).annotate({ identifier: "ArchivedSandboxes" })
    }).annotateMerge(OpenApi.annotations({
      summary: "Find archived sandboxes",
      description: "The archived ones of up to 100 sandboxes. Ids of other grants and unknown ids are left out."
    })),
    HttpApiEndpoint.delete("deleteSandbox", "/:sandboxId", {
      params: inSandbox,
      success: HttpApiSchema.NoContent,
      error: [SandboxNotFound, SandboxNotFinished]
    }).annotate(NeededScope, "sandboxes:delete").annotateMerge(OpenApi.annotations({
      summary: "Delete a sandbox",
      description:
        "Deletes an ended sandbox and its data for good: prompts, messages, events, setup output, and checkpoints that no fork " +
        "needs. Its idempotency key answers 409 `sandbox_deleted` from then on. A repetition is 404."
    })),
    HttpApiEndpoint.post("archiveSandbox", "/:sandboxId/archive", {
      params: inSandbox,
      success: HttpApiSchema.NoContent,
      error: commands
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Archive a sandbox",
      description: "Hides it from the list of the pages, their board, and `slipway ps`. The API shows it as before. Safe to repeat."
    })),
    HttpApiEndpoint.post("unarchiveSandbox", "/:sandboxId/unarchive", {
      params: inSandbox,
      success: HttpApiSchema.NoContent,
      error: commands
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Unarchive a sandbox",
      description: "Shows it again. Safe to repeat."
    }))
  )
  .prefix("/api/internal/v1/sandboxes")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "internal")
  .annotateMerge(OpenApi.annotations({
    title: "Keeping",
    description: "Deleting and archiving sandboxes. Deleting needs the scope `sandboxes:delete`, the rest `sandboxes`."
  }))
{}
