/** A connection into the box of a running sandbox: bytes in both directions, as TCP has it. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

/** The connection broke before the other side ended it. Bytes may be lost in both directions. */
export class ConnectionBroken extends Schema.TaggedError<ConnectionBroken>()("ConnectionBroken", {}) {
  override get message() {
    return "The connection broke off."
  }
}

/** Ends with the scope that it was opened in. Each half ends by itself. */
export interface ByteConnection {
  /** Ends when the other side has sent all. A slow reader slows the sender down. For one reader. */
  readonly received: Stream.Stream<Uint8Array, ConnectionBroken>
  /** Waits while the other side is slow. Calls must follow each other. */
  send(bytes: Uint8Array): Effect.Effect<void, ConnectionBroken>
  /** Tells the other side that no more bytes follow. */
  readonly endInput: Effect.Effect<void>
}

/** The sandbox has no box now: it rests, starts or has ended. Connecting never wakes it. */
export class BoxNotRunning extends Schema.TaggedError<BoxNotRunning>()("BoxNotRunning", {}) {
  override get message() {
    return "The sandbox is not running."
  }
}

/** No process of the sandbox listens on this port of its loopback interface. A retry helps after one does. */
export class PortClosed extends Schema.TaggedError<PortClosed>()("PortClosed", { port: Schema.Int }) {
  override get message() {
    return `No server of the sandbox listens on port ${this.port}.`
  }
}

/** As many connections to the sandbox are open as may be. */
export class TooManyConnections extends Schema.TaggedError<TooManyConnections>()("TooManyConnections", {}) {
  override get message() {
    return "Too many connections to the sandbox are open."
  }
}

/** No way leads to the ports of the processes that the sandbox runs now. A retry helps only after others were started. */
export class PortsUnsupported extends Schema.TaggedError<PortsUnsupported>()("PortsUnsupported", {}) {
  override get message() {
    return "No way leads to the ports of this sandbox."
  }
}

/** The sandbox runs on a worker that cannot be reached now. A retry after a moment may succeed. */
export class WorkerUnreachable extends Schema.TaggedError<WorkerUnreachable>()("WorkerUnreachable", {}) {
  override get message() {
    return "The sandbox's worker cannot be reached just now."
  }
}

const pass = (from: ByteConnection, to: ByteConnection) =>
  Effect.andThen(Stream.runForEach(from.received, (bytes) => to.send(bytes)), to.endInput)

/** Passes the bytes of each connection to the other, until both have ended or one breaks. */
export const join = (one: ByteConnection, other: ByteConnection): Effect.Effect<void, ConnectionBroken> =>
  Effect.all([pass(one, other), pass(other, one)], { concurrency: "unbounded", discard: true })
