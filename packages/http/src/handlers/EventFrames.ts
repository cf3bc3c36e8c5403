/** Events as Server-Sent Events (docs/decisions.md 5). Durable ones go out as the log keeps them, byte by byte. */
import type { Sandbox } from "@slipway/domain/sandbox/Sandbox"
import type { Entries } from "@slipway/domain/sandbox/SandboxEvents"
import type { LogEntry } from "@slipway/domain/sandbox/SandboxStore"
import { ApprovalRequest } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { queuedOf } from "@slipway/domain/sandbox/Waiting"
import type { SandboxId } from "@slipway/domain/SandboxId"
import { Schema } from "effect"
import { SandboxResource, toResource } from "../api/SandboxResource.ts"

const utf8 = new TextEncoder()

/** Characters that are handed to the socket at once, unless a single frame has more: what a slow reader may leave unread. */
const WRITE_CHARACTERS = 64 * 1024

/** What of an event stream is written at once. */
export interface Piece {
  readonly text: string | Uint8Array
  /** Of its last event; `null`: it has none. */
  readonly cursor: number | null
}

/** Durable frames, joined to pieces of a size that is worth a write. */
const piecesOf = (entries: ReadonlyArray<LogEntry>) => {
  const pieces: Array<{ readonly text: string; readonly cursor: number }> = []
  let text = ""
  let cursor = 0
  for (const { seq, wire } of entries) {
    if (text !== "" && text.length + wire.length > WRITE_CHARACTERS) {
      pieces.push({ text, cursor })
      text = ""
    }
    text += `id: ${seq}\ndata: ${wire}\n\n`
    cursor = seq
  }
  pieces.push({ text, cursor })
  return pieces
}

const shared = new WeakMap<ReadonlyArray<LogEntry>, ReadonlyArray<Piece>>()

/**
 * Durable frames. Readers that share a read of the log share its bytes. Of a page for one reader only the socket makes bytes, when
 * it takes them, and lets go of them when they are sent: made here they would wait for the garbage collector.
 */
export const durable = ({ entries, isShared }: Entries): ReadonlyArray<Piece> => {
  if (!isShared) return piecesOf(entries)
  const known = shared.get(entries)
  if (known !== undefined) return known
  const pieces = piecesOf(entries).map(({ cursor, text }) => ({ text: utf8.encode(text), cursor }))
  shared.set(entries, pieces)
  return pieces
}

/** One frame that is not in the log; it has no id, so no reader resumes at it. */
export const transient = (sandboxId: SandboxId, at: Date, type: string, data: unknown): string =>
  `data: ${JSON.stringify({ object: "sandbox.event", version: "v1", ts: at.toISOString(), sandbox_id: sandboxId, type, data })}\n\n`

const encodeResource = Schema.encodeSync(SandboxResource)
const encodeApprovals = Schema.encodeSync(Schema.Array(ApprovalRequest))

/** All of a sandbox, and the cursor right after it: both from one read. */
export const snapshotOf = (sandbox: Sandbox, publicUrl: string) => ({
  sandbox: encodeResource(toResource(sandbox, publicUrl)),
  turn: sandbox.turn === null ? null : { id: sandbox.turn.id, state: sandbox.turn.state },
  tokens: sandbox.tokens,
  resume_cursor: String(sandbox.lastSeq),
  pending_approvals: encodeApprovals(sandbox.approvals),
  waiting_messages: queuedOf(sandbox)
})
