/** A row of the table `sandboxes` as the domain's sandbox. */
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { DateTime, Schema } from "effect"

type Reader<A> = (value: unknown) => A

const refuse = (expected: string, value: unknown): never => {
  throw new TypeError(`a row of sandboxes has ${value === null ? "NULL" : typeof value} where ${expected} is to be`)
}

// What the driver makes of these is told apart without a schema: a walk through that of a whole row takes twice as long (2026-11-24).
const text: Reader<string> = (value) => typeof value === "string" ? value : refuse("text", value)
const flag: Reader<boolean> = (value) => typeof value === "boolean" ? value : refuse("a boolean", value)
const integer: Reader<number> = (value) => typeof value === "number" ? value : refuse("an integer", value)
/** Exact up to 2^53−1, which is all we write. */
const bigint: Reader<number> = (value) => typeof value === "bigint" ? Number(value) : refuse("a bigint", value)
const instant: Reader<DateTime.Utc> = (value) => value instanceof Date ? DateTime.makeUnsafe(value.getTime()) : refuse("an instant", value)
const orNull = <A>(read: Reader<A>): Reader<A | null> => (value) => value === null ? null : read(value)
const oneOf = <A extends string>({ literals }: { readonly literals: ReadonlyArray<A> }): Reader<A> => {
  const all = new Map<unknown, A>(literals.map((literal) => [literal, literal]))
  return (value) => all.get(value) ?? refuse(`one of ${literals.join(", ")}`, value)
}
/** The domain's own encoding. Of what lies in the database only the shape is checked: the rules for values were, when they were written. */
const encoded = <A, I>(schema: Schema.Codec<A, I>): Reader<A> => Schema.decodeUnknownSync(schema, { disableChecks: true })
const list = <A, I>(schema: Schema.Codec<ReadonlyArray<A>, I>): Reader<ReadonlyArray<A>> => {
  const read = encoded(schema)
  return (value) => Array.isArray(value) && value.length === 0 ? [] : read(value)
}

const of = Sandbox.fields

/** Each column of the table, as `s`, and how its value is read. */
const columns: { readonly [Name in keyof Sandbox]: readonly [column: string, read: Reader<Sandbox[Name]>] } = {
  id: ["id", encoded(of.id)],
  grantId: ["grant_id", text],
  createdBy: ["created_by", text],
  createdAt: ["created_at", instant],
  title: ["title", text],
  repos: ["repos", encoded(of.repos)],
  prompt: ["prompt", text],
  model: ["model", text],
  agentRuntime: ["agent_runtime", oneOf(of.agentRuntime)],
  reasoningEffort: ["reasoning_effort", orNull(encoded(of.reasoningEffort))],
  toolApprovalMode: ["tool_approval_mode", oneOf(of.toolApprovalMode)],
  metadata: ["metadata", encoded(of.metadata)],
  origin: ["origin", orNull(encoded(of.origin))],
  status: ["status", oneOf(of.status)],
  reason: ["reason", orNull(encoded(of.reason))],
  initiator: ["initiator", oneOf(of.initiator)],
  statusAt: ["status_at", instant],
  startedAt: ["started_at", orNull(instant)],
  setupTime: ["setup_time", orNull(encoded(of.setupTime))],
  completedAt: ["completed_at", orNull(instant)],
  error: ["error", orNull(text)],
  turn: ["turn", orNull(encoded(of.turn))],
  waiting: ["waiting", list(of.waiting)],
  turnless: ["turnless", bigint],
  idleSince: ["idle_since", orNull(instant)],
  approvals: ["approvals", list(of.approvals)],
  publications: ["publications", list(of.publications)],
  usage: ["usage", encoded(of.usage)],
  tokens: ["tokens", encoded(of.tokens)],
  checkpoint: ["checkpoint", integer],
  owesCheckpoint: ["owes_checkpoint", flag],
  pinned: ["pinned", flag],
  restoring: ["restoring", orNull(integer)],
  restores: ["restores", integer],
  revision: ["revision", bigint],
  lastSeq: ["last_seq", bigint],
  logBytes: ["log_bytes", bigint],
  waitingTexts: ["waiting_texts", list(of.waitingTexts)]
}
const entries = Object.entries(columns)
const readers = entries.map(([name, [, read]]) => [name, read] as const)
const names = entries.map(([, [column]]) => `s.${column}`)

/** How many columns {@link COLUMNS} are: what a statement selects after them begins there. */
export const WIDTH = names.length

/** The columns of a sandbox, of the table as `s`, in the order in which {@link sandboxOf} reads them. */
export const COLUMNS = names.join(", ")

/** As {@link COLUMNS}, of many at once: large texts are left where they are. */
export const LIST_COLUMNS = names.map((name) => name === "s.waiting_texts" ? "'[]'::jsonb" : name).join(", ")

/**
 * The sandbox whose {@link COLUMNS} are the first of these values. Values, since the driver takes a tenth of a list's time to make
 * objects of so many columns. Throws when one is not what it is to be.
 */
export const sandboxOf = (values: ReadonlyArray<unknown>): Sandbox => {
  const sandbox: Record<string, unknown> = {}
  for (let i = 0; i < WIDTH; i++) {
    const [name, read] = readers[i]!
    sandbox[name] = read(values[i])
  }
  return sandbox as Sandbox
}
