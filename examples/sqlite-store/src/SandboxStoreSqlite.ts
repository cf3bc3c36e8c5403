/**
 * `SandboxStore` on SQLite. It has no `Checkpoints`, so nothing can be forked, and no partners, so there are no tasks to report.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { ConcurrencyLimitExceeded, MaxActiveSandboxes } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import { CheckpointNotFound } from "@slipway/domain/sandbox/ports/Checkpoints"
import {
  Appended,
  bytesOf,
  CHECKPOINT_TYPES,
  conclude,
  type ListQuery,
  type LogEntry,
  type Message,
  type Recorded,
  SandboxIdTaken,
  SandboxStore,
  securityEvents,
  summaryOf,
  topicsOf,
  type Writer
} from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Receipt } from "@slipway/domain/sandbox/rules/Command"
import { type KeyedRequest, resolve, RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { created, initial, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { Approval } from "@slipway/domain/sandbox/schema/Approval"
import { Hints } from "@slipway/domain/store/Hints"
import { pageOf } from "@slipway/domain/store/Page"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { DateTime, Effect, Layer, Result, Schema } from "effect"
import { appendTo, author } from "./AuditLogSqlite.ts"
import { Database, type Sql } from "./Database.ts"
import { decode, insert, leasedRow, record, type Row, rowOf } from "./SandboxRow.ts"

const decodeApproval = Schema.decodeUnknownSync(Approval)

/** Keys of creations, of forks of each sandbox, and of messages to each are apart. */
const creationRoute = (forkOf: SandboxId | null) => forkOf === null ? "sandboxes" : `sandboxes/${forkOf}/fork`
const messagesRoute = (id: SandboxId) => `sandboxes/${id}/messages`

interface Bound {
  readonly fingerprint: string
  readonly sandboxId: SandboxId
  readonly commandId: string | null
}

/** What a key is bound to whose time is not over. */
const boundTo = (sql: Sql, grantId: string, route: string, key: string, now: DateTime.Utc): Bound | null => {
  const row = sql.get(
    `SELECT fingerprint, sandbox_id AS sandboxId, command_id AS commandId FROM keys
      WHERE grant_id = :grantId AND route = :route AND key = :key AND bound_at >= :kept`,
    { grantId, route, key, kept: DateTime.subtract(now, { days: RETENTION_DAYS }).epochMilliseconds }
  )
  return row === undefined ? null : row as unknown as Bound
}

/** Binds a free or expired key. */
const bind = (
  sql: Sql,
  grantId: string,
  route: string,
  { fingerprint, key }: KeyedRequest,
  to: Omit<Bound, "fingerprint">,
  now: DateTime.Utc
) =>
  sql.run(
    `INSERT OR REPLACE INTO keys (grant_id, route, key, fingerprint, sandbox_id, command_id, bound_at)
      VALUES (:grantId, :route, :key, :fingerprint, :sandboxId, :commandId, :now)`,
    { grantId, route, key, fingerprint, sandboxId: to.sandboxId, commandId: to.commandId, now: now.epochMilliseconds }
  )

const replayed = (sql: Sql, grantId: string, keyed: KeyedRequest, forkOf: SandboxId | null, now: DateTime.Utc) =>
  Result.gen(function*() {
    const bound = boundTo(sql, grantId, creationRoute(forkOf), keyed.key, now)
    if (bound === null) return null
    yield* resolve(bound.fingerprint, keyed)
    return Result.getOrThrow(rowOf(sql, bound.sandboxId)).sandbox
  })

const receiptOf = (sql: Sql, commandId: string): Receipt | null => {
  const row = sql.get("SELECT id AS commandId, outcome, revision, turn_id AS turnId FROM commands WHERE id = :commandId", { commandId })
  return row === undefined ? null : { ...row } as unknown as Receipt
}

const hasReceipt = (sql: Sql, id: SandboxId, turnId: string): boolean =>
  sql.get("SELECT 1 FROM commands WHERE turn_id = :turnId AND sandbox_id = :id", { id, turnId }) !== undefined

const approvalOf = (sql: Sql, id: SandboxId, approvalId: string): Approval | null => {
  const row = sql.get(
    `SELECT approval_id AS approvalId, outcome, resolved_by AS "by", reason FROM approvals
      WHERE sandbox_id = :id AND approval_id = :approvalId`,
    { id, approvalId }
  )
  if (row === undefined) return null
  const { reason, ...approval } = row
  return decodeApproval(reason === null ? approval : { ...approval, reason })
}

const saveTrace = (sql: Sql, id: SandboxId, turnId: string, traceparent: string) =>
  sql.run("INSERT OR IGNORE INTO traces (sandbox_id, turn_id, traceparent) VALUES (:id, :turnId, :traceparent)", {
    id,
    turnId,
    traceparent
  })

const writable = (sql: Sql, id: SandboxId, by: Writer) =>
  by === "policy" ? rowOf(sql, id) : "grantId" in by ? rowOf(sql, id, by.grantId) : leasedRow(sql, by)

const map = function*<A, B>(all: Iterable<A>, f: (one: A) => B): Iterable<B> {
  for (const one of all) yield f(one)
}

/** Each is read when it is asked for, and without the texts of what waits. */
const newest = (sql: Sql, grantId: string, { after, limit, repo, status }: ListQuery): Iterable<Sandbox> =>
  map(
    sql.iterate(
      `SELECT json_set(state, '$.waitingTexts', json('[]')) AS state FROM sandboxes
        WHERE grant_id = :grantId AND (:status IS NULL OR status = :status)
          AND (:afterId IS NULL OR (created_at, id) < (:afterAt, :afterId))
          AND (:repo IS NULL OR :repo IN (SELECT lower(value ->> '$.fullName') FROM json_each(state, '$.repos')))
        ORDER BY created_at DESC, id DESC LIMIT :limit`,
      {
        grantId,
        status,
        afterAt: after?.createdAt.epochMilliseconds ?? null,
        afterId: after?.id ?? null,
        repo: repo?.toLowerCase() ?? null,
        limit
      }
    ),
    ({ state }) => decode(state)
  )

const CHECKPOINTS = `AND type IN (${CHECKPOINT_TYPES.map((type) => `'${type}'`).join(", ")})`

const entriesOf = (sql: Sql, page: { readonly id: SandboxId; readonly after: number; readonly limit: number }, only = "") =>
  pageOf(
    map(
      sql.iterate(`SELECT seq, type, wire FROM events WHERE sandbox_id = :id AND seq > :after ${only} ORDER BY seq LIMIT :limit`, page),
      (row) => ({ ...row }) as unknown as LogEntry
    ),
    page.limit,
    bytesOf.entry
  )

export const layer = Layer.effect(
  SandboxStore,
  Effect.gen(function*() {
    const database = yield* Database
    const hints = yield* Hints
    const limits = yield* Policy
    const maxActive = yield* MaxActiveSandboxes

    type Written = Recorded & { readonly entries: ReadonlyArray<LogEntry> }

    /** Commits, then tells those who wait. A caller that stops waiting in between takes no hint from others. */
    const committed = <A extends Written, E>(write: Effect.Effect<A, E | StoreUnavailable>) =>
      Effect.uninterruptible(
        Effect.tap(write, (written) =>
          written.events.length === 0 ? Effect.void : hints.publish(topicsOf(written), new Appended(written.entries)))
      )

    return SandboxStore.of({
      create: Effect.fn("SandboxStore.create")(function*({ creation, keyed, trace = null }) {
        const now = yield* DateTime.now
        const by = yield* author
        const { createdAt: at, grantId, id, origin } = creation
        const forkOf = origin?.sandboxId ?? null
        const made = yield* committed(database.write((sql) =>
          Result.gen(function*() {
            const known = keyed === null ? null : yield* replayed(sql, grantId, keyed, forkOf, now)
            if (known !== null) return { before: known, events: [], sandbox: known, entries: [], replayed: true }
            if (Result.isSuccess(rowOf(sql, id))) return yield* Result.fail(new SandboxIdTaken())
            if (origin !== null) return yield* Result.fail(new CheckpointNotFound())
            const active = "grant_id = :grantId AND status IN ('queued', 'creating', 'running', 'terminating')"
            const count = Number(sql.get(`SELECT count(*) AS n FROM sandboxes WHERE ${active}`, { grantId })?.["n"])
            if (maxActive !== null && count >= maxActive) return yield* Result.fail(new ConcurrencyLimitExceeded({ limit: maxActive }))
            const events = created(creation)
            insert(sql, initial(creation))
            const written = record(sql, initial(creation), events, { at, now }, limits)
            appendTo(sql, securityEvents(id, events, at), by)
            if (trace !== null) saveTrace(sql, id, "", trace)
            if (keyed !== null) bind(sql, grantId, creationRoute(forkOf), keyed, { sandboxId: id, commandId: null }, now)
            return { ...written, replayed: false }
          })
        ))
        return { sandbox: made.sandbox, replayed: made.replayed }
      }),

      replay: (grantId, keyed, forkOf) =>
        Effect.flatMap(
          DateTime.now,
          (now) => Effect.flatMap(database.read((sql) => replayed(sql, grantId, keyed, forkOf, now)), Effect.fromResult)
        ),

      find: ({ grantId, id }) =>
        Effect.flatMap(database.read((sql) => Result.map(rowOf(sql, id, grantId), ({ sandbox }) => sandbox)), Effect.fromResult),

      list: (grantId, query) => database.read((sql) => pageOf(newest(sql, grantId, query), query.limit, bytesOf.sandbox)),

      summaries: (grantId, query) =>
        database.read((sql) => pageOf(map(newest(sql, grantId, query), summaryOf), query.limit, bytesOf.summary)),

      log: (id, after, limit) => database.read((sql) => entriesOf(sql, { id, after, limit })),

      checkpointLog: (id, after, limit) => database.read((sql) => entriesOf(sql, { id, after, limit }, CHECKPOINTS)),

      messages: (id, after, limit) =>
        database.read((sql) =>
          pageOf(
            map(
              sql.iterate(
                `SELECT seq, id, turn_id AS turnId, role, text, created_at AS createdAt FROM messages
                  WHERE sandbox_id = :id AND seq > :after ORDER BY seq LIMIT :limit`,
                { id, after, limit }
              ),
              ({ createdAt, ...row }) => ({ ...row, createdAt: DateTime.makeUnsafe(Number(createdAt)) }) as unknown as Message
            ),
            limit,
            bytesOf.message
          )
        ),

      command: Effect.fn("SandboxStore.command")(function*(key, command, at, keyed, trace = null) {
        const now = yield* DateTime.now
        const by = yield* author
        const { events, before, result, sandbox, turnId } = yield* committed(database.write((sql) =>
          Result.gen(function*() {
            const { sandbox: before } = yield* rowOf(sql, key.id, key.grantId)
            const bound = keyed === undefined ? null : boundTo(sql, key.grantId, messagesRoute(key.id), keyed.key, now)
            if (keyed !== undefined && bound !== null) {
              yield* resolve(bound.fingerprint, keyed)
              const first = receiptOf(sql, bound.commandId ?? "")
              if (first === null) throw new Error(`The command ${bound.commandId} of a key has no receipt.`)
              const { commandId, revision, turnId } = first
              const result = { commandId, revision, outcome: "duplicate" as const }
              return { before, events: [], sandbox: before, entries: [], result, turnId }
            }
            const commandId = command.identity(before)
            const receipt = receiptOf(sql, commandId)
            const approval = command.approvalId === null ? null : approvalOf(sql, key.id, command.approvalId)
            const isMessage = command.messageId !== undefined && hasReceipt(sql, key.id, command.messageId)
            const verdict = yield* command.decide({ sandbox: before, receipt, approval, isMessage })
            const events = verdict.outcome === "applied" ? verdict.events : []
            const written = record(sql, before, events, { at, now }, limits)
            appendTo(sql, securityEvents(key.id, events, at), by)
            const { keep, result, turnId } = conclude(written.sandbox.revision, commandId, receipt, verdict)
            if (keep !== null) {
              sql.run(
                `INSERT OR REPLACE INTO commands (id, sandbox_id, outcome, revision, turn_id)
                  VALUES (:commandId, :id, :outcome, :revision, :turnId)`,
                { ...keep, id: key.id }
              )
            }
            if (trace !== null && keep !== null && keep.turnId !== null) saveTrace(sql, key.id, keep.turnId, trace)
            if (keyed !== undefined && keep?.outcome === "applied") {
              bind(sql, key.grantId, messagesRoute(key.id), keyed, { sandboxId: key.id, commandId }, now)
            }
            return { ...written, result, turnId }
          })
        ))
        return { before, events, sandbox, result, turnId }
      }),

      change: Effect.fn("SandboxStore.change")(function*(id, by, decide, at) {
        const now = yield* DateTime.now
        const { before, events, sandbox } = yield* committed(database.write((sql) =>
          Result.gen(function*() {
            const { fence, sandbox }: Row = yield* writable(sql, id, by)
            const events = yield* decide(sandbox)
            return record(sql, sandbox, events, { at, now }, limits, by !== "policy" && "fence" in by ? fence : null)
          })
        ))
        return { before, events, sandbox }
      }),

      traces: (id, turnId) =>
        database.read((sql) => {
          const of = (turnId: string) =>
            sql.get("SELECT traceparent FROM traces WHERE sandbox_id = :id AND turn_id = :turnId", { id, turnId })?.["traceparent"] as
              | string
              | undefined
          return { creation: of("") ?? null, turn: turnId === null ? null : of(turnId) ?? null }
        }),

      approvals: (id, approvalIds) => database.read((sql) => approvalIds.flatMap((approvalId) => approvalOf(sql, id, approvalId) ?? [])),

      purged: (id) =>
        database.read((sql) => Number(sql.get("SELECT purged_seq AS seq FROM sandboxes WHERE id = :id", { id })?.["seq"] ?? 0))
    })
  })
)
