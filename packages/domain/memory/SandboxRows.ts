/** What `SandboxStore`, `Leases` and `Upkeep` in memory are over: a row for each sandbox, and the keys that made them. */
import { DateTime, Effect } from "effect"
import type { Uuid } from "../src/Ids.ts"
import type { Approval } from "../src/sandbox/Approval.ts"
import type { Receipt } from "../src/sandbox/Command.ts"
import { RETENTION_DAYS } from "../src/sandbox/Idempotency.ts"
import { type Lease, StaleLease } from "../src/sandbox/Leases.ts"
import { recordingOf, withMessages } from "../src/sandbox/Recording.ts"
import { type Creation, initial, type Sandbox } from "../src/sandbox/Sandbox.ts"
import type { SandboxEvent } from "../src/sandbox/SandboxEvent.ts"
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
  messages: ReadonlyArray<Message>
  fence: number
  leaseUntil: DateTime.Utc | null
  machine: string | null
  agentSession: string | null
  purged: number
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
  const { approvals, entries, messages, sandbox, texts } = recordingOf(row.sandbox, events, at)
  row.sandbox = sandbox
  row.log.push(...entries)
  for (const approval of approvals) row.approvals.set(approval.approvalId, approval)
  row.messages = withMessages(row.messages, messages, (id) => row.texts.get(id), at)
  for (const [id, text] of texts) row.texts.set(id, text)
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
