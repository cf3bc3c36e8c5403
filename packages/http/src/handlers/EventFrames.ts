/** Events as Server-Sent Events (docs/decisions/5). Durable ones go out as the log keeps them, byte by byte. */
import { SandboxResource, toResource } from "@slipway/api/schema/SandboxResource"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { LogEntry } from "@slipway/domain/sandbox/ports/SandboxStore"
import { queuedOf } from "@slipway/domain/sandbox/rules/MessageQueue"
import { questionsOf } from "@slipway/domain/sandbox/rules/Question"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { QuestionRequest } from "@slipway/domain/sandbox/schema/Question"
import { ApprovalRequest } from "@slipway/domain/sandbox/schema/SandboxEvent"
import type { Entries } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import { Schema } from "effect"

/** Characters that are handed to the socket at once, unless a single frame has more: what a slow reader may leave unread. */
const WRITE_CHARACTERS = 64 * 1024

/** A part of an event stream that is written at once. */
export interface Piece {
  readonly text: () => string | Uint8Array
  /** The cursor of its last event; `null`: it has no event. */
  readonly cursor: number | null
}

const frame = ({ seq, wire }: LogEntry): string => `id: ${seq}\ndata: ${wire}\n\n`

/** Durable frames, joined to pieces of a size that is worth a write. What is written of one is made when it is. */
const piecesOf = (entries: ReadonlyArray<LogEntry>) => {
  const pieces: Array<Piece & { readonly text: () => string }> = []
  let begin = 0
  let characters = 0
  const cut = (end: number) => {
    const some = entries.slice(begin, end)
    pieces.push({ text: () => some.map(frame).join(""), cursor: some.at(-1)?.seq ?? null })
    begin = end
    characters = 0
  }
  for (const [i, { wire }] of entries.entries()) {
    if (i > begin && characters + wire.length > WRITE_CHARACTERS) cut(i)
    characters += wire.length
  }
  cut(entries.length)
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
  const pieces = piecesOf(entries).map(({ cursor, text }): Piece => {
    const bytes = Buffer.from(text())
    return { text: () => bytes, cursor }
  })
  shared.set(entries, pieces)
  return pieces
}

/** One frame that is not in the log; it has no id, so no reader resumes at it. */
export const transient = (sandboxId: SandboxId, at: Date, type: string, data: unknown): string =>
  `data: ${JSON.stringify({ object: "sandbox.event", version: "v1", ts: at.toISOString(), sandbox_id: sandboxId, type, data })}\n\n`

const encodeResource = Schema.encodeSync(SandboxResource)
const encodeQuestions = Schema.encodeSync(Schema.Array(QuestionRequest))
const encodeApprovals = Schema.encodeSync(Schema.Array(ApprovalRequest))

/** All of a sandbox, and the cursor right after it: both from one read. */
export const snapshotOf = (sandbox: Sandbox, publicUrl: string) => ({
  sandbox: encodeResource(toResource(sandbox, publicUrl)),
  turn: sandbox.turn === null ? null : { id: sandbox.turn.id, state: sandbox.turn.state },
  tokens: sandbox.tokens,
  resume_cursor: String(sandbox.lastSeq),
  pending_approvals: encodeApprovals(sandbox.approvals),
  pending_questions: encodeQuestions(questionsOf(sandbox)),
  waiting_messages: queuedOf(sandbox)
})
