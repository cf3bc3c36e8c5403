/**
 * The messages of a terminal's WebSocket (docs/decisions/32). Binary messages are bytes: keys to the service, output from it. Text messages
 * are these, as JSON.
 */
import { MAX_SIZE, TerminalEnd } from "@slipway/domain/sandbox/ports/Terminals"
import { Schema } from "effect"

/** The address of the terminals of a sandbox. */
export const TERMINAL_PATH = "/api/public/v1/sandboxes/:sandboxId/terminal"

/** The longest message to the service, in bytes. */
export const MAX_MESSAGE_BYTES = 64 * 1024
/** Bytes of output that may be sent before the reader says that it took them. */
export const WINDOW_BYTES = 512 * 1024

const Cells = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_SIZE }))

/** From a client. */
export const ClientMessage = Schema.Union([
  Schema.Struct({ type: Schema.Literal("resize"), columns: Cells, rows: Cells }),
  /** The reader took so many more bytes of output. Without it the service stops at {@link WINDOW_BYTES}. */
  Schema.Struct({ type: Schema.Literal("taken"), bytes: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: WINDOW_BYTES })) }),
  /** Ends the terminal, with its programs. */
  Schema.Struct({ type: Schema.Literal("end") }),
  /** The answer to a heartbeat. */
  Schema.Struct({ type: Schema.Literal("heartbeat") })
])
export type ClientMessage = typeof ClientMessage.Type

/** From the service. */
export const ServerMessage = Schema.Union([
  Schema.Struct({ type: Schema.Literal("attached"), terminal: Schema.Int }),
  /** So many bytes of output were left out here, because the reader took nothing for too long. */
  Schema.Struct({ type: Schema.Literal("skipped"), bytes: Schema.Int }),
  /** The last message. `code`: the exit code of the shell. */
  Schema.Struct({ type: Schema.Literal("ended"), reason: TerminalEnd, code: Schema.NullOr(Schema.Int) }),
  /** The last message, instead of `attached`. */
  Schema.Struct({ type: Schema.Literal("refused"), code: Schema.String, message: Schema.String }),
  Schema.Struct({ type: Schema.Literal("heartbeat") })
])
export type ServerMessage = typeof ServerMessage.Type

/** Sentences for people about why a terminal ended. */
export const END_REASONS: Readonly<Record<TerminalEnd, string>> = {
  exited: "The shell ended.",
  closed: "The terminal was ended.",
  unattached: "The terminal was left alone for too long.",
  rested: "The sandbox went to rest. A message starts it again.",
  finished: "The sandbox ended.",
  moved: "The sandbox's worker gave it up. Another one may go on with it.",
  lost: "The connection to the sandbox's worker broke."
}

/** Codes of the WebSocket's close. */
export const CLOSE = {
  /** After `ended` or `refused`. */
  normal: 1000,
  /** The service shuts down. The terminal runs on: attach again. */
  shutdown: 1001,
  /** A message that is invalid. */
  invalid: 1008,
  /** Something went wrong in the service. */
  failed: 1011,
  /** The key, the session or the membership ended. */
  revoked: 4401,
  /** The sandbox was deleted. */
  deleted: 4404,
  /** The client did not answer heartbeats. */
  silent: 4408
} as const
