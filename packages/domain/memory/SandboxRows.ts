/** What `SandboxStore`, `Leases` and `Upkeep` in memory are over: a row for each sandbox, and the keys that made them. */
import { DateTime, Effect } from "effect"
import type { Uuid } from "../src/Ids.ts"
import type { Approval } from "../src/sandbox/Approval.ts"
import type { Receipt } from "../src/sandbox/Command.ts"
import { RETENTION_DAYS } from "../src/sandbox/Idempotency.ts"
import { type Lease, StaleLease } from "../src/sandbox/Leases.ts"
import { type Creation, evolve, initial, type Sandbox, wholeMessage } from "../src/sandbox/Sandbox.ts"
import { type SandboxEvent, toWire } from "../src/sandbox/SandboxEvent.ts"
import { SandboxNotFound, type LogEntry, type Message, type ListPosition } from "../src/sandbox/SandboxStore.ts"
import type { SandboxId } from "../src/SandboxId.ts"

/** `createdAt`, then `id`, both descending. */
export const newestFirst = (a: ListPosition, b: ListPosition): number =>
  DateTime.Order(b.createdAt, a.createdAt) || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)

/** One sandbox, and all that is known of it. */
export interface Row {
  sandbox: Sandbox
  readonly log: Array<LogEntry>
  readonly receipts: Map<Uuid, Receipt>
  readonly keys: Map<string, Receipt & { readonly fingerprint: string; readonly boundAt: DateTime.Utc }>
  readonly approvals: Map<string, Approval>
  /** Text so far by message. */
  readonly texts: Map<string, string>
  readonly messages: Array<Message>
  fence: number
  leaseUntil: DateTime.Utc | null
  machine: string | null
  agentSession: string | null
  purged: number
}

const remember = (row: Row, event: SandboxEvent, createdAt: DateTime.Utc): void => {
  const { lastSeq: seq } = row.sandbox
  const turnId = event.turn_id ?? ""
  switch (event.type) {
    case "approval.requested":
      row.approvals.set(event.data.approval_id, { approvalId: event.data.approval_id, outcome: null, by: null })
      return
    case "approval.resolved":
      row.approvals.set(event.data.approval_id, { approvalId: event.data.approval_id, outcome: event.data.outcome, by: event.data.by })
      return
    case "turn.started":
      row.messages.push({ seq, id: event.data.prompt_id, turnId, role: "user", text: event.data.text, createdAt })
      return
    case "message.updated":
      if (event.data.kind === "text") row.texts.set(event.data.message_id, event.data.text)
      return
  }
}

/** A message of the agent is whole. One that went on afterwards is listed where it was, with all of its text. */
const list = ({ messages, sandbox, texts }: Row, id: string, turnId: string, createdAt: DateTime.Utc): void => {
  const text = texts.get(id)
  if (text === undefined) return
  const listed = messages.findIndex((message) => message.id === id && message.role === "assistant")
  const known = messages[listed]
  if (known === undefined) messages.push({ seq: sandbox.lastSeq, id, turnId, role: "assistant", text, createdAt })
  else messages[listed] = { ...known, text }
}

/** A sandbox as it was asked for: nothing happened to it yet. */
export const newRow = (creation: Creation): Row => ({
  sandbox: initial(creation),
  log: [],
  receipts: new Map(),
  keys: new Map(),
  approvals: new Map(),
  texts: new Map(),
  messages: [],
  fence: 0,
  leaseUntil: null,
  machine: null,
  agentSession: null,
  purged: 0
})

/** Writes events into the log and into what follows from them. */
export const record = (row: Row, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc): void => {
  for (const event of events) {
    const before = row.sandbox
    row.sandbox = evolve(before, event, at)
    row.log.push({
      seq: row.sandbox.lastSeq,
      type: event.type,
      wire: toWire(row.sandbox.id, { seq: row.sandbox.lastSeq, at, event })
    })
    remember(row, event, at)
    const whole = wholeMessage(before, event, row.sandbox)
    if (whole !== null) list(row, whole, event.turn_id ?? "", at)
  }
}

/** What a creation's key is bound to. */
interface Binding {
  readonly fingerprint: string
  readonly id: SandboxId
  readonly boundAt: DateTime.Utc
}

/** Whether a key's time is over: it binds nothing any more. */
export const isExpired = ({ boundAt }: { readonly boundAt: DateTime.Utc }, now: DateTime.Utc): boolean =>
  DateTime.isLessThan(DateTime.add(boundAt, { days: RETENTION_DAYS }), now)

/** The state of one store. */
export interface SandboxRows {
  readonly rows: Map<SandboxId, Row>
  /** By grant and key. */
  readonly keys: Map<string, Binding>
}

export const make = (): SandboxRows => ({ rows: new Map(), keys: new Map() })

/** The row that the lease is of. */
export const leased = ({ rows }: SandboxRows, { fence, sandboxId }: Lease): Effect.Effect<Row, StaleLease> => {
  const row = rows.get(sandboxId)
  return row?.fence === fence ? Effect.succeed(row) : Effect.fail(new StaleLease())
}

/** The row of a sandbox, of this grant if one is named. */
export const rowOf = ({ rows }: SandboxRows, id: SandboxId, grantId?: string): Effect.Effect<Row, SandboxNotFound> => {
  const row = rows.get(id)
  return row === undefined || grantId !== undefined && row.sandbox.grantId !== grantId
    ? Effect.fail(new SandboxNotFound())
    : Effect.succeed(row)
}
