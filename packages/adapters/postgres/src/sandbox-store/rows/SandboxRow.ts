/** A row of the table `sandboxes` as the domain's sandbox. */
import { McpServerNames } from "@slipway/domain/mcp/schema/McpServer"
import type { SandboxSummary } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { TurnState } from "@slipway/domain/sandbox/schema/Turn"
import { FeedbackState } from "@slipway/domain/source/schema/FeedbackState"
import { DateTime, Schema } from "effect"

type Reader<A> = (value: unknown) => A

const refuse = (expected: string, value: unknown): never => {
  throw new TypeError(`a row of sandboxes has ${value === null ? "NULL" : typeof value} where ${expected} is to be`)
}

// Scalars are decoded without a schema: with schemas a row takes four times as long (2026-11-24).
const text: Reader<string> = (value) => typeof value === "string" ? value : refuse("text", value)
const flag: Reader<boolean> = (value) => typeof value === "boolean" ? value : refuse("a boolean", value)
const number: Reader<number> = (value) => typeof value === "number" ? value : refuse("a number", value)
/** Exact up to 2^53−1, which is all we write. */
const bigint: Reader<number> = (value) => typeof value === "bigint" ? Number(value) : refuse("a bigint", value)
const instant: Reader<DateTime.Utc> = (value) => value instanceof Date ? DateTime.fromDateUnsafe(value) : refuse("an instant", value)
const orNull = <A>(read: Reader<A>): Reader<A | null> => (value) => value === null ? null : read(value)
const oneOf = <A extends string>({ literals }: { readonly literals: ReadonlyArray<A> }): Reader<A> => {
  const all = new Map<unknown, A>(literals.map((literal) => [literal, literal]))
  return (value) => all.get(value) ?? refuse(`one of ${literals.join(", ")}`, value)
}
const object: Reader<Readonly<Record<string, unknown>>> = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value as Record<string, unknown> : refuse("an object", value)
/** The domain's own encoding. Of what lies in the database only the shape is checked: the rules for values were, when they were written. */
const encoded = <A, I>(schema: Schema.Codec<A, I>): Reader<A> => Schema.decodeUnknownSync(schema, { disableChecks: true })
const list = <A, I>(schema: Schema.Codec<ReadonlyArray<A>, I>): Reader<ReadonlyArray<A>> => {
  const read = encoded(schema)
  return (value) => Array.isArray(value) && value.length === 0 ? [] : read(value)
}

const repo: Reader<Sandbox["repos"][number]> = (value) => {
  const { fullName, ref } = object(value)
  return ref === undefined ? { fullName: text(fullName) } : { fullName: text(fullName), ref: text(ref) }
}
const repos: Reader<Sandbox["repos"]> = (value) => Array.isArray(value) ? value.map(repo) : refuse("an array", value)
const metadata: Reader<Sandbox["metadata"]> = (value) => {
  const members = object(value)
  for (const name in members) text(members[name])
  return members as Sandbox["metadata"]
}
const usage: Reader<Sandbox["usage"]> = (value) => {
  const { costMicroUsd, creditsChargedMicros, llmRequestCount } = object(value)
  return {
    llmRequestCount: number(llmRequestCount),
    costMicroUsd: number(costMicroUsd),
    creditsChargedMicros: number(creditsChargedMicros)
  }
}
const tokens: Reader<Sandbox["tokens"]> = (value) => {
  const { cachedInput, input, output } = object(value)
  return { input: number(input), cachedInput: number(cachedInput), output: number(output) }
}

const of = Sandbox.fields
const id = encoded(of.id)
const agentRuntime = oneOf(of.agentRuntime)
const reasoningEffort = orNull(encoded(of.reasoningEffort))
const toolApprovalMode = oneOf(of.toolApprovalMode)
const origin = orNull(encoded(of.origin))
const feedback = orNull(encoded(FeedbackState))
const continues = orNull(encoded(of.continues))
const mcpServers = orNull(encoded(McpServerNames))
const chosen = (names: typeof McpServerNames.Type | null): Pick<Sandbox, "mcpServers"> => names === null ? {} : { mcpServers: names }
const status = oneOf(of.status)
const reason = orNull(encoded(of.reason))
const initiator = oneOf(of.initiator)
const maybeInstant = orNull(instant)
const setupTime = orNull(encoded(of.setupTime))
const maybeText = orNull(text)
const turn = orNull(encoded(of.turn))
const turnState = oneOf(TurnState)
const turnInState = orNull((value) => ({ state: turnState(value) }))
const waiting = list(of.waiting)
const approvals = list(of.approvals)
const publications = list(of.publications)
const maybeNumber = orNull(number)
const maybeBigint = orNull(bigint)
const environment: Reader<Sandbox["environment"]> = (value) => value === null ? {} : metadata(value)
const waitingTexts = list(of.waitingTexts)

/** In the order in which {@link sandboxOf} reads them. */
const names = `
  id grant_id created_by created_at title repos prompt model agent_runtime reasoning_effort tool_approval_mode metadata origin
  feedback continues status reason initiator status_at started_at setup_time completed_at error turn waiting turnless idle_since approvals
  publications usage tokens checkpoint owes_checkpoint pinned restoring restores renames syncing syncs revision last_seq recorded_at
  log_bytes budget_micro_usd environment mcp_servers waiting_texts
`.trim().split(/\s+/u).map((name) => `s.${name}`)

/** How many columns {@link COLUMNS} are: what a statement selects after them begins there. */
export const WIDTH = names.length

/** The columns of a sandbox, of the table as `s`, in the order in which {@link sandboxOf} reads them. */
export const COLUMNS = names.join(", ")

/** As {@link COLUMNS}, of many at once: large texts are left where they are. */
export const LIST_COLUMNS = names.map((name) => name === "s.waiting_texts" ? "'[]'::jsonb" : name).join(", ")

/** The columns of a summary, of the table as `s`. Documents are texts, which are made once for their length and for us. */
export const SUMMARY_COLUMNS = `
  s.id, s.created_at, s.title, s.repos::text AS repos, s.model, s.agent_runtime, s.metadata::text AS metadata, s.status, s.started_at,
  s.completed_at, s.error, s.turn ->> 'state' AS turn, s.usage`

/** Those columns as they are called there. */
export const SUMMARY_NAMES =
  "id, created_at, title, repos, model, agent_runtime, metadata, status, started_at, completed_at, error, turn, usage"

/** The summary whose {@link SUMMARY_NAMES} are the first of these values. Throws when one is not what it is to be. */
export const summaryOf = (row: ReadonlyArray<unknown>): SandboxSummary => {
  let i = 0
  return {
    id: id(row[i++]),
    createdAt: instant(row[i++]),
    title: text(row[i++]),
    repos: repos(JSON.parse(text(row[i++]))),
    model: text(row[i++]),
    agentRuntime: agentRuntime(row[i++]),
    metadata: metadata(JSON.parse(text(row[i++]))),
    status: status(row[i++]),
    startedAt: maybeInstant(row[i++]),
    completedAt: maybeInstant(row[i++]),
    error: maybeText(row[i++]),
    turn: turnInState(row[i++]),
    usage: usage(row[i++])
  }
}

/**
 * The sandbox whose {@link COLUMNS} are the first of these values. Values, since the driver takes a tenth of a list's time to make
 * objects of so many columns; one literal, since adding so many members one by one takes longer than reading them. Throws when one
 * is not what it is to be.
 */
export const sandboxOf = (row: ReadonlyArray<unknown>): Sandbox => {
  let i = 0
  return {
    id: id(row[i++]),
    grantId: text(row[i++]),
    createdBy: text(row[i++]),
    createdAt: instant(row[i++]),
    title: text(row[i++]),
    repos: repos(row[i++]),
    prompt: text(row[i++]),
    model: text(row[i++]),
    agentRuntime: agentRuntime(row[i++]),
    reasoningEffort: reasoningEffort(row[i++]),
    toolApprovalMode: toolApprovalMode(row[i++]),
    metadata: metadata(row[i++]),
    origin: origin(row[i++]),
    feedback: feedback(row[i++]),
    continues: continues(row[i++]),
    status: status(row[i++]),
    reason: reason(row[i++]),
    initiator: initiator(row[i++]),
    statusAt: instant(row[i++]),
    startedAt: maybeInstant(row[i++]),
    setupTime: setupTime(row[i++]),
    completedAt: maybeInstant(row[i++]),
    error: maybeText(row[i++]),
    turn: turn(row[i++]),
    waiting: waiting(row[i++]),
    turnless: bigint(row[i++]),
    idleSince: maybeInstant(row[i++]),
    approvals: approvals(row[i++]),
    publications: publications(row[i++]),
    usage: usage(row[i++]),
    tokens: tokens(row[i++]),
    checkpoint: number(row[i++]),
    owesCheckpoint: flag(row[i++]),
    pinned: flag(row[i++]),
    restoring: maybeNumber(row[i++]),
    restores: number(row[i++]),
    renames: number(row[i++]),
    syncing: flag(row[i++]),
    syncs: number(row[i++]),
    revision: bigint(row[i++]),
    lastSeq: bigint(row[i++]),
    recordedAt: maybeInstant(row[i++]),
    logBytes: bigint(row[i++]),
    budgetMicroUsd: maybeBigint(row[i++]),
    environment: environment(row[i++]),
    ...chosen(mcpServers(row[i++])),
    waitingTexts: waitingTexts(row[i++])
  }
}
