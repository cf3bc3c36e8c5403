/**
 * Channels between a process that answers requests and the worker with a sandbox's lease: a `CONNECT` request with the proofs of
 * `LinkProtocol`, then bytes in both directions, which the proofs do not cover. A further operation is a further member of `Wanted`, and
 * an earlier worker refuses it with 400.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import {
  BoxNotRunning,
  PortClosed,
  PortsUnsupported,
  TooManyConnections,
  WorkerUnreachable
} from "@slipway/domain/sandbox/ports/BoxConnection"
import { TerminalChoice, TerminalSize, TerminalUnavailable } from "@slipway/domain/sandbox/ports/Terminals"
import { Schema } from "effect"

/** The authority of the request, in place of a host's. */
export const AUTHORITY = "channel.slipway:1"
/** The request as JSON in base64url. Its proof is the header `authorization`. */
export const REQUEST_HEADER = "slipway-request"
/** A refusal as JSON in base64url, with status 422. */
export const REFUSAL_HEADER = "slipway-refusal"
/** Begins the text that a request's proof covers, so that a proof of a request for trees opens no channel. */
export const LABEL = "channel\n"
/** Characters of the request's header: all headers together may have 4,096 bytes. */
export const MAX_REQUEST_CHARACTERS = 3000

/** The request's operation with its fields. */
export const Wanted = Schema.Union([
  /** A connection to a port of the box. */
  Schema.Struct({ operation: Schema.Literal("port"), port: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 65_535 })) }),
  /** An attachment to a terminal in the box, as `TerminalFrames`. */
  Schema.Struct({ operation: Schema.Literal("terminal"), terminal: TerminalChoice, size: TerminalSize })
])
export type Wanted = typeof Wanted.Type

export const Request = Schema.Struct({
  /** The intended worker, because another worker may have the address by now. */
  worker: Schema.String,
  sandboxId: SandboxId,
  wanted: Wanted,
  /** Epoch milliseconds. */
  at: Schema.Int,
  /** Random. A worker opens one channel for it, so that an intercepted request opens none. */
  nonce: Schema.String
})

export const Refusal = Schema.Union([
  BoxNotRunning,
  PortClosed,
  PortsUnsupported,
  TooManyConnections,
  WorkerUnreachable,
  TerminalUnavailable
])
export type Refusal = typeof Refusal.Type
