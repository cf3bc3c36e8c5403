/** Ports: pseudo-terminals with a shell in the box of a running sandbox (docs/decisions/32). */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"

/** Terminals that one sandbox may have at once. They are numbered from 1. */
export const MAX_TERMINALS = 4
/** The most columns, and the most rows. */
export const MAX_SIZE = 1000

const Cells = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_SIZE }))

/** The size of a terminal in characters. */
export const TerminalSize = Schema.Struct({ columns: Cells, rows: Cells })
export type TerminalSize = typeof TerminalSize.Type

/** The number of a terminal, which is made if it does not exist; `new`: the lowest unused number. */
export const TerminalChoice = Schema.Union([
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_TERMINALS })),
  Schema.Literal("new")
])
export type TerminalChoice = typeof TerminalChoice.Type

/**
 * Why a terminal ended or an attachment was closed. `exited`: its shell did. `closed`: a person ended it. `unattached`: it had no
 * attachment for too long. `rested`, `finished`: the box ended because the sandbox did so. `moved`: the worker gave the sandbox up, and
 * another one may go on. `lost`: the connection to the worker broke; the terminal may still run.
 */
export const TerminalEnd = Schema.Literals(["exited", "closed", "unattached", "rested", "finished", "moved", "lost"])
export type TerminalEnd = typeof TerminalEnd.Type

/** The output for an attachment, in order. */
export const TerminalOutput = Schema.TaggedUnion({
  /** As the programs wrote them, first the scrollback. Untrusted: they may contain any escape sequence. */
  Bytes: { bytes: Schema.Uint8Array },
  /** This many bytes were left out here, because the attachment took nothing for too long. */
  Skipped: { count: Schema.Int },
  /** The last one. `code`: the exit code of the shell, if the reason is `exited` and the code is known. */
  Ended: { reason: TerminalEnd, code: Schema.NullOr(Schema.Int) }
})
export type TerminalOutput = typeof TerminalOutput.Type

/** The terminal cannot be had. */
export class TerminalUnavailable extends Schema.TaggedError<TerminalUnavailable>()("TerminalUnavailable", {
  /**
   * `not_running`: no worker has the sandbox's box now; a terminal does not wake it. `unreachable`: its worker does not answer; a retry
   * may succeed. `no_program`: the box lacks a program. `too_many`: terminals of the sandbox, or attachments of the terminal. `failed`:
   * the shell did not start. `off`: this service offers no terminals.
   */
  reason: Schema.Literals(["not_running", "unreachable", "no_program", "too_many", "failed", "off"]),
  /** A sentence for people. */
  detail: Schema.String
}) {
  override get message() {
    return this.detail
  }
}

/** No worker has the box of the sandbox. */
export const notRunning = () =>
  new TerminalUnavailable({
    reason: "not_running",
    detail: "The sandbox has no running box. Send it a message to start it; a terminal does not wake it."
  })

/** The worker with the sandbox's box does not answer. */
export const unreachable = () =>
  new TerminalUnavailable({ reason: "unreachable", detail: "The sandbox's worker cannot be reached just now. Try again in a moment." })

/** This service offers no terminals. */
export const switchedOff = () => new TerminalUnavailable({ reason: "off", detail: "Terminals are switched off in this service." })

/** An attachment to a terminal. The last resize of any attachment holds. */
export interface TerminalAttachment {
  readonly terminal: number
  /**
   * Ends after `Ended`. Read it once. The terminal waits for a slow reader, then leaves bytes out for it, so that other attachments go
   * on.
   */
  readonly output: Stream.Stream<TerminalOutput>
  /** The keys that a person pressed. Waits until the box has taken them. Does nothing after the end. */
  write(bytes: Uint8Array): Effect.Effect<void>
  resize(size: TerminalSize): Effect.Effect<void>
  /** Ends the terminal and everything that was started in it, for all attachments. */
  readonly end: Effect.Effect<void>
}

/** The parameters of an attachment. */
export interface TerminalRequest {
  readonly terminal: TerminalChoice
  readonly size: TerminalSize
}

/** Port: the terminals of boxes of this process. */
export class LocalTerminals extends Context.Service<LocalTerminals, {
  /** Attaches until the scope closes. The terminal runs on without attachments for a limited time, and ends with the box. */
  attach(id: SandboxId, request: TerminalRequest): Effect.Effect<TerminalAttachment, TerminalUnavailable, Scope.Scope>
}>()("@slipway/domain/LocalTerminals") {}

/** Port: the terminals of a sandbox, whichever process has its box. */
export class Terminals extends Context.Service<Terminals, {
  /** As `LocalTerminals.attach`, at the worker that holds the sandbox. */
  attach(
    id: SandboxId,
    request: TerminalRequest
  ): Effect.Effect<TerminalAttachment, TerminalUnavailable | StoreUnavailable, Scope.Scope>
}>()("@slipway/domain/Terminals") {}
