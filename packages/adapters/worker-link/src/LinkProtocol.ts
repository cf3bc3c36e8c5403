/**
 * The protocol between processes that answer requests and workers with trees: `POST /trees` with one JSON object. Both sides prove that
 * they know a shared secret without sending it. So a stranger at a worker's former address learns nothing and is not trusted.
 */
import { AgentDisconnected } from "@slipway/domain/files/ports/RemoteTrees"
import {
  FileNotFound,
  FileProtected,
  FileTooLarge,
  IsDirectory,
  NotADirectory,
  TreesUnavailable,
  UnknownCommit
} from "@slipway/domain/files/ports/WorkingTrees"
import { FileSearch, FoundFiles } from "@slipway/domain/files/schema/FileSearch"
import { ChangedFiles, FileTree } from "@slipway/domain/files/schema/FileTree"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Redacted, Schema, SchemaTransformation } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"

/** Name of the shared secret. */
export const SECRET = "worker_link"
export const PATH = "/trees"
/** The header with the answer's proof. The request's proof is its `authorization`. */
export const PROOF_HEADER = "slipway-proof"
/** Bytes of a request. A path may have 4,096 bytes, each of up to six bytes in JSON. */
export const MAX_REQUEST_BYTES = 65_536
/** The largest clock difference of two machines. For this time an intercepted request can be replayed. */
export const MAX_AGE_MILLIS = 120_000

export const Request = Schema.Struct({
  operation: Schema.Literals(["list", "changes", "search", "open", "compare", "diff"]),
  /** The intended worker, because another worker may have the address by now. */
  worker: Schema.String,
  sandboxId: SandboxId,
  repo: RepoName,
  /** Normalised; "" for all changes, for a search and for a diff of whole trees. */
  path: Schema.String,
  /** 0 for a listing, for changes and for a search. */
  maximumBytes: Schema.Int,
  search: Schema.optionalKey(FileSearch),
  /** The versions of a diff. */
  from: Schema.optionalKey(Schema.String),
  to: Schema.optionalKey(Schema.String),
  /** For a diff: with the contents of binary files. Absent from earlier versions: without them. */
  isWhole: Schema.optionalKey(Schema.Boolean),
  /**
   * Whether the worker's machine may have the sandbox's own trees. Otherwise, or if it has none, the last checkpoint is read. Absent
   * from earlier versions: it may.
   */
  isOwner: Schema.optionalKey(Schema.Boolean),
  /** The grant; absent from earlier versions. */
  grantId: Schema.optionalKey(Schema.String),
  /** Epoch milliseconds. */
  at: Schema.Int,
  /** Random, so that every request has another proof. */
  nonce: Schema.String
})
export type Request = typeof Request.Type

const FileVersion = Schema.NullOr(Schema.Struct({
  content: Schema.NullOr(Schema.String),
  hash: Schema.String,
  ref: Schema.String,
  size: Schema.Int,
  binary: Schema.Boolean
}))
export const Comparison = Schema.Struct({ working: FileVersion, head: FileVersion, base: FileVersion })
export const Listing = FileTree
export const Changes = ChangedFiles
export const Found = FoundFiles

/** The status of a refusal. */
export const REFUSED = 422
export const ListRefusal = Schema.Union([AgentDisconnected, FileNotFound, NotADirectory, FileProtected, TreesUnavailable])
export const ChangesRefusal = Schema.Union([AgentDisconnected, FileNotFound, TreesUnavailable])
export const ReadRefusal = Schema.Union([AgentDisconnected, FileNotFound, IsDirectory, FileProtected, FileTooLarge, TreesUnavailable])
const NoCheckpoint = Schema.TaggedStruct("CheckpointNotFound", {}).pipe(Schema.decodeTo(
  Schema.instanceOf(CheckpointNotFound),
  SchemaTransformation.transform({
    decode: () => new CheckpointNotFound(),
    encode: () => ({ _tag: "CheckpointNotFound" as const })
  })
))
export const DiffRefusal = Schema.Union([
  AgentDisconnected,
  NoCheckpoint,
  FileNotFound,
  FileTooLarge,
  TreesUnavailable,
  UnknownCommit
])
export const Refusal = Schema.Union([ListRefusal, ReadRefusal, DiffRefusal])

const proof = (key: Redacted.Redacted, ...parts: ReadonlyArray<string>) =>
  createHmac("sha256", Redacted.value(key)).update(parts.join("\n")).digest("hex")

export const proofOfRequest = (key: Redacted.Redacted, body: string): string => proof(key, "request", body)

/** `said`: the answer's JSON, or the size of a file or diff, whose bytes the proof does not cover. */
export const proofOfAnswer = (key: Redacted.Redacted, request: string, status: number, said: string): string =>
  proof(key, "answer", request, String(status), said)

/** Compares in a time that does not depend on the difference. */
export const isSame = (expected: string, given: string): boolean => {
  const [a, b] = [Buffer.from(expected), Buffer.from(given)]
  return a.length === b.length && timingSafeEqual(a, b)
}
