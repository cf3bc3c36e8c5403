/** Events as Server-Sent Events (docs/decisions.md 5). Durable ones go out as the log keeps them, byte by byte. */
import type { Sandbox } from "@slipway/domain/sandbox/Sandbox"
import type { LogEntry } from "@slipway/domain/sandbox/SandboxStore"
import { ApprovalRequest } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { queuedOf } from "@slipway/domain/sandbox/Waiting"
import type { SandboxId } from "@slipway/domain/SandboxId"
import { Schema } from "effect"
import { SandboxResource, toResource } from "../api/SandboxResource.ts"

const utf8 = new TextEncoder()

const encoded = new WeakMap<LogEntry, Uint8Array>()

/** One durable frame. Readers that share a read of the log share its bytes. */
const durable = (entry: LogEntry): Uint8Array => {
  const known = encoded.get(entry)
  if (known !== undefined) return known
  const bytes = utf8.encode(`id: ${entry.seq}\ndata: ${entry.wire}\n\n`)
  encoded.set(entry, bytes)
  return bytes
}

/** Bytes that are handed to the socket at once, unless a single frame has more: what a slow reader may leave unread. */
const WRITE_BYTES = 64 * 1024

/** Durable frames, joined to pieces of a size that is worth a write. */
export const joined = (entries: ReadonlyArray<LogEntry>): ReadonlyArray<Uint8Array> => {
  const pieces: Array<Uint8Array> = []
  let piece: Array<Uint8Array> = []
  let size = 0
  const cut = () => {
    const [only] = piece
    if (only !== undefined) pieces.push(piece.length === 1 ? only : Buffer.concat(piece, size))
    piece = []
    size = 0
  }
  for (const entry of entries) {
    const bytes = durable(entry)
    if (size + bytes.length > WRITE_BYTES) cut()
    piece.push(bytes)
    size += bytes.length
  }
  cut()
  return pieces
}

/** One frame that is not in the log; it has no id, so no reader resumes at it. */
export const transient = (sandboxId: SandboxId, at: Date, type: string, data: unknown): Uint8Array =>
  utf8.encode(
    `data: ${JSON.stringify({ object: "sandbox.event", version: "v1", ts: at.toISOString(), sandbox_id: sandboxId, type, data })}\n\n`
  )

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
