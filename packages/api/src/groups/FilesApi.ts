/** Read-only working trees (docs/interface.md 4.10, 4.11; docs/decisions/6 and 8). */
import { FileStatus, FileTree } from "@slipway/domain/files/schema/FileTree"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { characters, Counter } from "@slipway/domain/text/Text"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import {
  AgentDisconnected,
  CheckpointNotFound,
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
} from "../shared/Errors.ts"
import { Authenticated } from "../shared/Middleware.ts"
import { digits, inSandbox, repoQuery } from "../shared/Parameters.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

/** One side of a comparison. */
export const FileVersion = Schema.Struct({
  content: Schema.NullOr(Schema.String).annotateKey({ description: "The text; `null` when the file is binary." }),
  text: Schema.NullOr(Schema.String).annotateKey({ description: "The same as `content`." }),
  hash: Schema.String.annotateKey({ description: "The id git gives a blob of these bytes." }),
  ref: Schema.String.annotateKey({ description: "`working`, or the commit that holds this version." }),
  size: Counter.annotateKey({ description: "Bytes." }),
  binary: Schema.Boolean.annotateKey({ description: "Whether it is no text: it has a NUL in its first 8,000 bytes." })
}).annotate({ identifier: "FileVersion" })
const version = (description: string) => Schema.NullOr(FileVersion).annotateKey({ description })

/** One file as text, in its three versions. */
export const FileContent = Schema.Struct({
  path: Schema.String.annotateKey({ description: "Relative to the repository, normalised." }),
  repo: RepoName.annotateKey({ description: "`owner/name`, as the sandbox spells it." }),
  status: Schema.NullOr(FileStatus).annotateKey({ description: "As the listing of its directory says." }),
  binary: Schema.Boolean.annotateKey({ description: "Of the newest version there is." }),
  size: Schema.NullOr(Counter).annotateKey({ description: "Bytes of the file as it is now; `null` when it is not there." }),
  previousPath: Schema.NullOr(Schema.String).annotateKey({ description: "What a renamed file was called before, else `null`." }),
  editable: Schema.Literal(false).annotateKey({ description: "Files are read-only." }),
  editReason: Schema.String.annotateKey({ description: "Why the file cannot be edited, for people." }),
  working: version("As it is now; `null` when it is not there."),
  head: version("As published last; before that, as where the sandbox started."),
  base: version("As the sandbox found it."),
  reviewHead: version("Reserved: always `null`.")
}).annotate({ identifier: "FileContent" })

const fileQuery = { path: characters(1, 1000), ...repoQuery }

/** A checkpoint by its number, the tree as the sandbox found it, or as it is. */
const Version = Schema.Union([Schema.Literals(["base", "working"]), digits(Counter, "the number of a checkpoint")])

const unreachable = [
  InvalidPath,
  RepoRequired,
  SandboxNotFound,
  RepoNotFound,
  FileNotFound,
  SandboxNotRunning,
  AgentDisconnected
] as const
const refusals = [...unreachable, ProtectedFile] as const

/** Reads files, directories and patches; nothing can be written. */
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
      description: "One file as text: as it is now, as published last, and where the sandbox started. At most 1 MiB each. Of a path " +
        "that was never there every version is `null`."
    })),
    HttpApiEndpoint.get("diffFiles", "/diff", {
      params: inSandbox,
      query: {
        from: Schema.optionalKey(Version),
        to: Schema.optionalKey(Version),
        path: Schema.optionalKey(characters(1, 1000)),
        ...repoQuery
      },
      success: Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/x-diff; charset=utf-8" })),
      error: [...unreachable, CheckpointNotFound, FileTooLarge]
    }).annotateMerge(OpenApi.annotations({
      summary: "Compare trees",
      description: "What differs between two versions of a repository's tree, as a patch of at most 10 MiB that `git apply` takes. " +
        "Lines have the bytes of the files, which need not be UTF-8. Protected files are named in comments, not shown. Of a sandbox " +
        "that succeeded or failed `working` is its last checkpoint."
    }))
  )
  .prefix("/api/public/v1/sandboxes/:sandboxId/files")
  .middleware(Authenticated)
  .annotate(NeededScope, "sandboxes")
  .annotate(Area, "files")
  .annotateMerge(OpenApi.annotations({ title: "Files", description: "Read-only access to the working trees." }))
{}
