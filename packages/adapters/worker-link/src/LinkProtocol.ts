/**
 * What is said between the processes that answer requests and those that hold trees: `POST /trees` with one JSON object.
 * Both sides prove that they know the shared secret, and neither sends it: who listens at an address that a worker had
 * before learns nothing and is not believed.
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
import { ChangedFiles, FileTree } from "@slipway/domain/files/schema/FileTree"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Redacted, Schema, SchemaTransformation } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"

/** Name of the shared secret. */
export const SECRET = "worker_link"
export const PATH = "/trees"
/** The answer's proof. That of the request is its `authorization`. */
export const PROOF_HEADER = "slipway-proof"
/** Bytes of a request. A path may have 4,096 bytes, and JSON six for each. */
export const MAX_REQUEST_BYTES = 65_536
/** How far the clocks of two machines may be apart. A request that was overheard can be repeated for so long. */
export const MAX_AGE_MILLIS = 120_000

export const Request = Schema.Struct({
  operation: Schema.Literals(["list", "changes", "open", "compare", "diff"]),
  /** Who is meant: the address may be another one's by now. */
  worker: Schema.String,
  sandboxId: SandboxId,
  repo: RepoName,
  /** Normalised; "" for all changes, and for the difference of whole trees. */
  path: Schema.String,
  /** 0 for a listing and for changes. */
  maximumBytes: Schema.Int,
  /** Of a difference: which two versions. */
  from: Schema.optionalKey(Schema.String),
  to: Schema.optionalKey(Schema.String),
  /** Of a difference: with the contents of binary files. Earlier versions do not say: without them. */
  isWhole: Schema.optionalKey(Schema.Boolean),
  /**
   * Whether the trees of the worker's machine are the sandbox's own; else, and where it has none, what is read is its last
   * checkpoint. Earlier versions do not say: they mean that they are.
   */
  isOwner: Schema.optionalKey(Schema.Boolean),
  /** For which grant; earlier versions do not say. */
  grantId: Schema.optionalKey(Schema.String),
  /** Epoch milliseconds. */
  at: Schema.Int,
  /** Random: no two requests have the same proof. */
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

/** Status of an answer that is a refusal. */
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

/** `said`: the answer's JSON, or of a file or a difference its size. Its bytes are not covered. */
export const proofOfAnswer = (key: Redacted.Redacted, request: string, status: number, said: string): string =>
  proof(key, "answer", request, String(status), said)

/** In a time that does not depend on where they differ. */
export const isSame = (expected: string, given: string): boolean => {
  const [a, b] = [Buffer.from(expected), Buffer.from(given)]
  return a.length === b.length && timingSafeEqual(a, b)
}
