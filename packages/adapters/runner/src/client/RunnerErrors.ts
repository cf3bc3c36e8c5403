/** Errors of the connection to a runner. */
import { Schema } from "effect"

/**
 * The runner was silent for as long as the worker waits, or the connection was closed by its owner. A new connection may succeed.
 * `isRefused`: no runner listens in the machine, so its processes have ended; it has to be started again.
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
 * The runner refuses this connection, and a retry of it does not help. `fence`: it has seen a newer lease, whose number is given.
 * `session`: it does not know this session, because it was started again or waited too long, and the processes have ended; a new
 * connection may succeed. `protocol`: it has another version.
 */
export class RunnerRefused extends Schema.TaggedError<RunnerRefused>()("RunnerRefused", {
  reason: Schema.Literals(["fence", "session", "protocol"]),
  fence: Schema.Finite
}) {
  override get message() {
    return `the runner refused the connection (${this.reason}, fence ${this.fence})`
  }
}

/** The runner broke the protocol, so it cannot be trusted. All its work has ended. */
export class RunnerViolation extends Schema.TaggedError<RunnerViolation>()("RunnerViolation", { detail: Schema.String }) {
  override get message() {
    return `the runner broke the protocol: ${this.detail}`
  }
}

/** The end of a connection. */
export type RunnerError = RunnerUnreachable | RunnerRefused | RunnerViolation

/** The process could not be started: `code` is the system's, such as `ENOENT`, or the runner's. */
export class ProcessRefused extends Schema.TaggedError<ProcessRefused>()("ProcessRefused", { code: Schema.String }) {
  override get message() {
    return `the process could not be started (${this.code})`
  }
}

export const FileRefusalReason = Schema.Literals([
  "not_found",
  /** A link, a path behind a link, a file with a second name, or an unreadable file. */
  "protected",
  "is_directory",
  "not_a_directory",
  /** Larger than the requested maximum. */
  "too_large",
  /** Its disk failed, or it was removed while it was read. */
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

/** The file or folder cannot be read. */
export class FileRefused extends Schema.TaggedError<FileRefused>()("FileRefused", { reason: FileRefusalReason }) {}
