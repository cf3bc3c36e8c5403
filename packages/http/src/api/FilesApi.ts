/** Read-only working trees (interface 4.10, 4.11; decisions, sections 6 and 8). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { FileTree } from "@slipway/domain/files/FileTree"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { characters, Counter } from "@slipway/domain/Text"
import {
  AgentDisconnected,
  FileNotFound,
  FileTooLarge,
  InvalidPath,
  IsDirectory,
  NotADirectory,
  ProtectedFile,
  RepoNotFound,
  RepoRequired,
  SandboxNotFound,
  SandboxNotRunning
} from "./Errors.ts"
import { Authenticated } from "./Middleware.ts"
import { inSandbox, repoQuery } from "./Parameters.ts"

const FileVersion = Schema.NullOr(Schema.Struct({
  /** `null` when the file is binary. */
  text: Schema.NullOr(Schema.String),
  /** Bytes. */
  size: Counter,
  binary: Schema.Boolean
}))

export const FileContent = Schema.Struct({
  path: Schema.String,
  repo: RepoName,
  /** As it is now. */
  working: FileVersion,
  /** As published last. */
  head: FileVersion,
  /** Where the sandbox started. */
  base: FileVersion,
  /** Reserved: always `null`. */
  reviewHead: FileVersion
}).annotate({ identifier: "FileContent" })

const fileQuery = { path: characters(1, 1000), ...repoQuery }

const refusals = [
  InvalidPath,
  RepoRequired,
  ProtectedFile,
  SandboxNotFound,
  RepoNotFound,
  FileNotFound,
  SandboxNotRunning,
  AgentDisconnected
] as const

export class FilesApi extends HttpApiGroup.make("files", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listFiles", "/tree", {
      params: inSandbox,
      query: { directory: Schema.optionalKey(characters(0, 1000)), ...repoQuery },
      success: FileTree,
      error: [...refusals, NotADirectory]
    }).annotateMerge(OpenApi.annotations({
      summary: "List a directory",
      description: "The immediate entries of one directory; the root when `directory` is left out. Needs a running sandbox."
    })),
    HttpApiEndpoint.get("downloadFile", "/download", {
      params: inSandbox,
      query: fileQuery,
      success: HttpApiSchema.WithHeaders(HttpApiSchema.StreamUint8Array(), {
        "content-disposition": Schema.String,
        "content-length": Schema.String
      }),
      error: [...refusals, IsDirectory, FileTooLarge]
    }).annotateMerge(OpenApi.annotations({
      summary: "Download a file",
      description: "The bytes of one file, at most 100 MiB. Needs a running sandbox."
    })),
    HttpApiEndpoint.get("getFileContent", "/content", {
      params: inSandbox,
      query: fileQuery,
      success: FileContent,
      error: [...refusals, IsDirectory, FileTooLarge]
    }).annotateMerge(OpenApi.annotations({
      summary: "Compare a file",
      description: "One file as text: as it is now, as published last, and where the sandbox started. At most 1 MiB each."
    }))
  )
  .prefix("/api/public/v1/sandboxes/:sandboxId/files")
  .middleware(Authenticated)
  .annotateMerge(OpenApi.annotations({ title: "Files", description: "Read-only access to the working trees." }))
{}
