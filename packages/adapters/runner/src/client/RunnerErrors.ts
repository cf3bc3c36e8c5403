/** Errors of the connection to a runner. */
import { Schema } from "effect"

/**
 * Nothing was heard of the runner for as long as the worker waits, or the connection was closed by its owner. A new one may succeed.
 * `isRefused`: its machine says that no runner listens, so its processes are gone; it has to be started again.
 */
export class RunnerUnreachable extends Schema.TaggedError<RunnerUnreachable>()("RunnerUnreachable", {
  detail: Schema.String,
  isRefused: Schema.optionalKey(Schema.Literal(true))
}) {
  override get message() {
    return `the runner cannot be reached: ${this.detail}`
  }
}

/**
 * The runner lets this connection in no more, and no retry of it helps. `fence`: it has seen a newer lease, whose number is given.
 * `session`: it knows nothing of this session, so it was started again or waited too long, and the processes have ended; a new
 * connection may succeed. `protocol`: it is of another version.
 */
export class RunnerRefused extends Schema.TaggedError<RunnerRefused>()("RunnerRefused", {
  reason: Schema.Literals(["fence", "session", "protocol"]),
  fence: Schema.Finite
}) {
  override get message() {
    return `the runner refused the connection (${this.reason}, fence ${this.fence})`
  }
}

/** The runner said what no runner says. It is not to be trusted: all that it did is over. */
export class RunnerViolation extends Schema.TaggedError<RunnerViolation>()("RunnerViolation", { detail: Schema.String }) {
  override get message() {
    return `the runner broke the protocol: ${this.detail}`
  }
}

/** Why there is no connection any more. */
export type RunnerError = RunnerUnreachable | RunnerRefused | RunnerViolation

/** The process could not be started: `code` is the system's word, such as `ENOENT`, or the runner's. */
export class ProcessRefused extends Schema.TaggedError<ProcessRefused>()("ProcessRefused", { code: Schema.String }) {
  override get message() {
    return `the process could not be started (${this.code})`
  }
}

export const FileRefusalReason = Schema.Literals([
  "not_found",
  /** A link, behind one, something with a second name, or nothing that may be read. */
  "protected",
  "is_directory",
  "not_a_directory",
  /** Larger than was asked for. */
  "too_large",
  /** Its disk failed, or it went away while it was read. */
  "unreadable"
])

/**
 * The home cannot be read or written. `damaged`: the archive is invalid, and nothing was written. `failed`: by its disk, for example.
 * `detail` is the runner's text.
 */
export class HomeRefused extends Schema.TaggedError<HomeRefused>()("HomeRefused", {
  reason: Schema.Literals(["too_large", "too_slow", "damaged", "failed"]),
  detail: Schema.String
}) {
  override get message() {
    return `the home was refused (${this.reason}): ${this.detail}`
  }
}

/** The file or folder cannot be had. */
export class FileRefused extends Schema.TaggedError<FileRefused>()("FileRefused", { reason: FileRefusalReason }) {}
