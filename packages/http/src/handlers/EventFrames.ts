/** Events as Server-Sent Events (decisions, section 5). Durable ones go out as the log keeps them, byte by byte. */
import { Schema } from "effect"
import { ApprovalRequest } from "@slipway/domain/sandbox/SandboxEvent"
import type { Sandbox } from "@slipway/domain/sandbox/Sandbox"
import { SandboxResource, toResource } from "@slipway/domain/sandbox/SandboxResource"
import type { SandboxId } from "@slipway/domain/sandbox/SandboxId"
import type { LogEntry } from "@slipway/domain/sandbox/SandboxStore"

const utf8 = new TextEncoder()

/** Browsers wait this long before they connect again. */
export const retry = (millis: number): Uint8Array => utf8.encode(`retry: ${millis}\n\n`)

export const heartbeat = utf8.encode(": hb\n\n")

const encoded = new WeakMap<LogEntry, Uint8Array>()

/** One durable frame. Readers that share a read of the log share its bytes. */
export const durable = (entry: LogEntry): Uint8Array => {
  const known = encoded.get(entry)
  if (known !== undefined) return known
  const bytes = utf8.encode(`id: ${entry.seq}\ndata: ${entry.wire}\n\n`)
  encoded.set(entry, bytes)
  return bytes
}

/** One frame that is not in the log; it has no id, so no reader resumes at it. */
export const transient = (sandboxId: SandboxId, at: Date, type: string, data: unknown): Uint8Array =>
  utf8.encode(`data: ${
    JSON.stringify({ object: "sandbox.event", version: "v1", ts: at.toISOString(), sandbox_id: sandboxId, type, data })
  }\n\n`)

const encodeResource = Schema.encodeSync(SandboxResource)
const encodeApprovals = Schema.encodeSync(Schema.Array(ApprovalRequest))

/** All of a sandbox, and the cursor right after it: both from one read. */
export const snapshotOf = (sandbox: Sandbox, publicUrl: string) => ({
  sandbox: encodeResource(toResource(sandbox, publicUrl)),
  turn: sandbox.turn === null ? null : { id: sandbox.turn.id, state: sandbox.turn.state },
  resume_cursor: String(sandbox.lastSeq),
  pending_approvals: encodeApprovals(sandbox.approvals)
})
