/** Files for prompts (docs/decisions/21). */
import { FileId, PromptFile } from "@slipway/domain/sandbox/schema/PromptFile"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { PromptFileNotFound, TooManyUnusedFiles, UnsupportedMediaType, UploadTooLarge } from "../shared/Errors.ts"
import { Authenticated } from "../shared/Middleware.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

/** The media type that the document names. The server takes every other one too. */
export const UPLOAD_TYPE = "application/octet-stream"

/** Uploads and reads files for prompts. */
export class UploadsApi extends HttpApiGroup.make("uploads", { topLevel: true })
  .add(
    HttpApiEndpoint.post("uploadFile", "/", {
      headers: { "content-disposition": Schema.optionalKey(Schema.String) },
      payload: HttpApiSchema.StreamUint8Array({ contentType: UPLOAD_TYPE }),
      success: PromptFile.pipe(HttpApiSchema.status(201)),
      error: [UploadTooLarge, UnsupportedMediaType.schema, TooManyUnusedFiles]
    }).annotateMerge(OpenApi.annotations({
      summary: "Upload a file",
      description: "A file for the prompt of a creation, a fork or a message: its bytes as the body, at most 20 MiB, within 30 seconds. " +
        "Any `Content-Type` is taken; the bytes decide whether it is an image. A file that no prompt uses is deleted after 24 hours."
    })),
    HttpApiEndpoint.get("getFile", "/:fileId", {
      params: { fileId: FileId },
      success: PromptFile,
      error: [PromptFileNotFound]
    }).annotateMerge(OpenApi.annotations({
      summary: "Get a file",
      description: "What is known of an uploaded file. A file of another grant is an unknown one."
    })),
    HttpApiEndpoint.get("getFileBytes", "/:fileId/content", {
      params: { fileId: FileId },
      success: HttpApiSchema.WithHeaders(HttpApiSchema.StreamUint8Array(), {
        "content-disposition": Schema.String,
        "content-length": Schema.String
      }),
      error: [PromptFileNotFound]
    }).annotateMerge(OpenApi.annotations({
      summary: "Download an uploaded file",
      description: "Its bytes, as an attachment. Images have their media type, other files none."
    }))
  )
  .prefix("/api/public/v1/files")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "files")
  .annotateMerge(OpenApi.annotations({ title: "Uploads", description: "Files for prompts." }))
{}
