/** `SandboxStore` on Postgres. One row is a sandbox; its lock orders everything that happens to it. */
import { AuditLog } from "@slipway/domain/access/AuditLog"
import { Hints } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { PAGE_BYTES } from "@slipway/domain/Page"
import { ConcurrencyLimitExceeded, MaxActiveSandboxes } from "@slipway/domain/sandbox/ActiveSandboxes"
import { CheckpointNotFound, letGo } from "@slipway/domain/sandbox/Checkpoints"
import type { Receipt } from "@slipway/domain/sandbox/Command"
import { type KeyedRequest, resolve, RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import { StaleLease } from "@slipway/domain/sandbox/Leases"
import { isArrival, workOf } from "@slipway/domain/sandbox/Leasing"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { type Recording, recordingOf } from "@slipway/domain/sandbox/Recording"
import { created, initial, type Origin } from "@slipway/domain/sandbox/Sandbox"
import { type SandboxEvent, TEXT_PART } from "@slipway/domain/sandbox/SandboxEvent"
import {
  Appended,
  CHECKPOINT_TYPES,
  conclude,
  type CreationRequest,
  type ListQuery,
  SandboxIdTaken,
  SandboxNotFound,
  SandboxStore,
  securityEvents,
  topicsOf,
  type Writer
} from "@slipway/domain/sandbox/SandboxStore"
import { Approval } from "@slipway/domain/sandbox/schema/Approval"
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { nextDeadline } from "@slipway/domain/sandbox/TimeLimit"
import { SandboxId } from "@slipway/domain/SandboxId"
import { Context, DateTime, Effect, Exit, Layer, Option, Result, Schema, Struct } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { Reads } from "../Database.ts"
import { makeOpened } from "../partner-store/PartnerStorePostgres.ts"
import * as Batches from "../sql/Batches.ts"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"
import { type KnownRow, KnownRows } from "./KnownRows.ts"
import { COLUMNS, LIST_COLUMNS, sandboxOf, SUMMARY_COLUMNS, SUMMARY_NAMES, summaryOf, WIDTH } from "./SandboxRow.ts"

/** `route` of the keys of POST /sandboxes, and of POST /sandboxes/{id}/fork. */
const creationRoute = (forkOf: SandboxId | null) => forkOf === null ? "sandboxes" : `sandboxes/${forkOf}/fork`
/** `route` of the keys of POST /sandboxes/{id}/messages. */
const messagesRoute = (id: SandboxId) => `sandboxes/${id}/messages`

/** Sandboxes that one statement reads, and statements at once. */
const READS_AT_ONCE = { most: 16, underWay: 3 }
/** Creations that one statement makes. */
const BATCH = 64
/** Characters of their JSON, and of one more. */
const BATCH_CHARACTERS = 1024 * 1024

const encodeColumns = Schema.encodeSync(
  Sandbox.mapFields(Struct.pick(["approvals", "publications", "setupTime", "tokens", "turn", "usage"])),
  { disableChecks: true }
)
/** The JSON columns that a change may write. */
const encodeState = (sandbox: Sandbox) => {
  const { approvals, publications, setupTime, tokens, turn, usage } = encodeColumns(sandbox)
  return {
    setupTime: setupTime === null ? null : JSON.stringify(setupTime),
    turn: turn === null ? null : JSON.stringify(turn),
    approvals: JSON.stringify(approvals),
    publications: JSON.stringify(publications),
    tokens: JSON.stringify(tokens),
    usage: JSON.stringify(usage)
  }
}
const fenceOf = (by: Writer): number | null => by !== "policy" && "fence" in by ? by.fence : null
/** Whether the row is the writer's to change. */
const isBy = ({ fence, sandbox }: KnownRow, by: Writer): boolean =>
  by === "policy" || ("fence" in by ? by.fence === fence : by.grantId === sandbox.grantId)
const iso = (at: DateTime.Utc | null): string | null => at === null ? null : DateTime.formatIso(at)

export const layer = Layer.effect(
  SandboxStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const hints = yield* Hints
    const columns = sql.literal(COLUMNS)
    const listColumns = sql.literal(LIST_COLUMNS)
    const audit = yield* AuditLog
    const limits = yield* Policy
    const maxActive = yield* MaxActiveSandboxes
    const ids = yield* Ids
    const tellOpened = yield* makeOpened
    const known = new KnownRows()
    /** Read by workers of the version before alone (0055). */
    const deadlineOf = (sandbox: Sandbox) => iso(nextDeadline(sandbox, limits))

    /** For `pageOf`: the length of a text is known without reading it, so what is beyond the page is left on the disk. */
    const bytesBefore = (bytes: Statement.Fragment, order: Statement.Fragment) =>
      sql`coalesce(sum(${bytes}) OVER (ORDER BY ${order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before`

    const transaction = <A, E, R>(self: Effect.Effect<A, E, R>) => guard(sql.withTransaction(self))

    const read = (key: { readonly id: SandboxId; readonly grantId?: string }, lock: boolean) => {
      const client = lock ? sql : reads
      return Effect.flatMap(
        client`
          SELECT ${columns}, s.fence, s.xmin::text FROM sandboxes s
          WHERE s.id = ${key.id} ${key.grantId === undefined ? sql`` : sql`AND s.grant_id = ${key.grantId}`}
          ${lock ? sql`FOR UPDATE` : sql``}`.values,
        ([row]): Effect.Effect<KnownRow, SandboxNotFound> =>
          row === undefined
            ? Effect.fail(new SandboxNotFound())
            : Effect.succeed({ sandbox: sandboxOf(row), fence: Number(row[WIDTH]), version: String(row[WIDTH + 1]) })
      )
    }

    const find = Batches.make({
      client: reads,
      run: (asked: ReadonlyArray<{ readonly id: SandboxId; readonly grantId: string }>) =>
        Effect.map(
          reads`
          SELECT ${columns}, k.n
          FROM unnest(${textArray(asked.map(({ id }) => id))}::text[], ${textArray(asked.map(({ grantId }) => grantId))}::uuid[])
            WITH ORDINALITY AS k(id, grant_id, n)
          CROSS JOIN LATERAL (SELECT * FROM sandboxes WHERE id = k.id AND grant_id = k.grant_id LIMIT 1) s`.values,
          (rows) => Batches.placed(asked, rows, (row) => row[WIDTH])
        ),
      ...READS_AT_ONCE
    })

    /** Makes visible what the lease that records a checkpoint put of it last. */
    const keepCheckpoints = (events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc, fence: number) => {
      const recorded = events.flatMap(({ data, type }) =>
        type === "sandbox.checkpoint" ? [{ checkpoint: data.checkpoint ?? 0, turn: data.turn_id ?? null, repos: data.repos ?? [] }] : []
      )
      return recorded.length === 0 ? sql`` : sql`, kept AS (
          INSERT INTO checkpoints (sandbox_id, checkpoint, content, turn_id, created_at, bytes, repos)
          SELECT c.id, r.checkpoint, last.id, r.turn, ${iso(at)}, last.bytes, r.repos
          FROM changed c CROSS JOIN jsonb_to_recordset(${JSON.stringify(recorded)}::jsonb) AS r(checkpoint integer, turn text, repos jsonb)
          CROSS JOIN LATERAL (
            SELECT p.id, p.bytes FROM checkpoint_contents p
            WHERE p.sandbox_id = c.id AND p.checkpoint = r.checkpoint AND p.fence = ${fence} ORDER BY p.id DESC LIMIT 1
          ) last WHERE last.bytes IS NOT NULL
        )`
    }

    const standing = (approvals: Recording["approvals"]) =>
      approvals.length === 0 ? sql`` : sql`, stood AS (
          INSERT INTO approvals (sandbox_id, approval_id, outcome, resolved_by, reason)
          SELECT c.id, a."approvalId", a.outcome, a.by, a.reason
          FROM changed c
          CROSS JOIN jsonb_to_recordset(${JSON.stringify(approvals)}::jsonb) AS a("approvalId" text, outcome text, by text, reason text)
          ON CONFLICT (sandbox_id, approval_id) DO UPDATE
            SET outcome = excluded.outcome, resolved_by = excluded.resolved_by, reason = excluded.reason
        )`

    const listing = (messages: Recording["messages"], at: DateTime.Utc) =>
      messages.length === 0 ? sql`` : sql`, said AS (
          -- One that is whole twice is listed where it said something first, with all of its text.
          SELECT c.id AS sandbox_id, min(m.seq) AS seq, m.id, m."turnId", m.role,
            (array_agg(coalesce(m.text, l.text) ORDER BY m.seq DESC))[1] AS text
          FROM changed c
          CROSS JOIN jsonb_to_recordset(${JSON.stringify(messages)}::jsonb) AS m(seq bigint, id text, "turnId" text, role text, text text)
          LEFT JOIN LATERAL (
            SELECT e.wire::jsonb -> 'data' ->> 'text' AS text FROM sandbox_events e
            WHERE m.text IS NULL AND e.sandbox_id = c.id AND e.part_id = m.id || ${TEXT_PART}
            ORDER BY e.seq DESC LIMIT 1
          ) l ON true
          -- A message that was all reasoning says nothing.
          WHERE coalesce(m.text, l.text) IS NOT NULL
          GROUP BY c.id, m.id, m."turnId", m.role
        ), told_on AS (
          -- One that went on after it was listed.
          UPDATE messages t SET text = s.text FROM said s
          WHERE s.role = 'assistant' AND t.sandbox_id = s.sandbox_id AND t.id = s.id AND t.role = 'assistant'
          RETURNING t.id
        ), listed AS (
          INSERT INTO messages (sandbox_id, seq, id, turn_id, role, text, created_at)
          SELECT s.sandbox_id, s.seq, s.id, s."turnId", s.role, s.text, ${iso(at)} FROM said s
          WHERE s.role = 'user' OR s.id NOT IN (SELECT id FROM told_on)
        )`

    const markForPruning = (ids: ReadonlyArray<SandboxId>) =>
      ids.length === 0 ? sql`` : sql`, marked AS (
          INSERT INTO checkpoint_marks (sandbox_id) SELECT m.id FROM changed CROSS JOIN unnest(${textArray(ids)}::text[]) AS m(id)
          ON CONFLICT (sandbox_id) DO UPDATE SET due_at = excluded.due_at
        )`

    /** What waits is up to 600,000 characters, and most events leave it as it is. */
    const queueOf = (before: Sandbox, { turnless, waiting, waitingTexts }: Sandbox) =>
      waiting === before.waiting
        ? sql``
        : sql`
          waiting = ${JSON.stringify(waiting)}::jsonb, waiting_texts = ${JSON.stringify(waitingTexts)}::jsonb, turnless = ${turnless},`

    /** Its machine has all of it by now. */
    const arrived = sql.literal("moved = NULL, moved_from = NULL, moved_fence = NULL,")

    /**
     * The new state, its events and what follows from them, by one statement, if the row is as it is known; `null`: it is another one,
     * and nothing was written. `fence`: of the lease of whoever writes, if one does.
     */
    const write = Effect.fnUntraced(function*(
      row: KnownRow,
      events: ReadonlyArray<SandboxEvent>,
      now: DateTime.Utc,
      fence: number | null = null
    ) {
      const before = row.sandbox
      if (events.length === 0) return before
      const { approvals, at, entries, messages, sandbox } = recordingOf(before, events, now)
      const state = encodeState(sandbox)
      const work = workOf(sandbox)
      const workSince = work === null ? sql`NULL` : sql`coalesce(work_since, now())`
      const kept = fence === null ? sql`` : keepCheckpoints(events, at, fence)
      const besides = sql`${standing(approvals)}${listing(messages, at)}${kept}${markForPruning(letGo({ before, sandbox }))}`
      // All that is written is of the row that was changed, so nothing is before it is locked.
      const [changed] = yield* sql<{ readonly version: string }>`
        WITH changed AS (
          UPDATE sandboxes SET
            status = ${sandbox.status}, reason = ${sandbox.reason}, initiator = ${sandbox.initiator},
            status_at = ${iso(sandbox.statusAt)}, started_at = ${iso(sandbox.startedAt)},
            completed_at = ${iso(sandbox.completedAt)}, error = ${sandbox.error}, turn = ${state.turn}::jsonb,
            idle_since = ${iso(sandbox.idleSince)}, approvals = ${state.approvals}::jsonb,
            publications = ${state.publications}::jsonb, usage = ${state.usage}::jsonb, tokens = ${state.tokens}::jsonb,
            revision = ${sandbox.revision},
            last_seq = ${sandbox.lastSeq}, recorded_at = ${iso(at)}, log_bytes = ${sandbox.logBytes}, checkpoint = ${sandbox.checkpoint},
            owes_checkpoint = ${sandbox.owesCheckpoint}, pinned = ${sandbox.pinned},
            restoring = ${sandbox.restoring}, restores = ${sandbox.restores}, setup_time = ${state.setupTime}::jsonb,
            ${queueOf(before, sandbox)}
            deadline_at = ${deadlineOf(sandbox)}, ${fence !== null && isArrival(events) ? arrived : sql``}
            work = ${work}, work_since = ${workSince}, work_seq = ${sandbox.lastSeq}
          WHERE id = ${sandbox.id} AND last_seq = ${before.lastSeq} AND xmin = ${row.version}::xid
          RETURNING id, xmin::text AS version
        ), logged AS (
          INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
          SELECT c.id, e.seq, ${iso(at)}, e.type, e.part, e.wire
          FROM changed c CROSS JOIN jsonb_to_recordset(${JSON.stringify(entries)}::jsonb) AS e(seq bigint, type text, part text, wire text)
        )${besides}
        SELECT version FROM changed`
      if (changed === undefined) return null
      yield* sql.afterCommit(Effect.andThen(
        Effect.sync(() => known.remember({ sandbox, fence: row.fence, version: changed.version })),
        hints.publish(topicsOf({ before, events, sandbox }), new Appended(entries))
      ))
      return sandbox
    })

    /** The row is locked. */
    const writeLocked = (row: KnownRow, events: ReadonlyArray<SandboxEvent>, now: DateTime.Utc, fence?: number | null) =>
      Effect.flatMap(
        write(row, events, now, fence),
        (sandbox) => sandbox === null ? Effect.die(new Error("a sandbox changed while it was locked")) : Effect.succeed(sandbox)
      )

    /** Binds a key that is free, or whose time is over. Waits for another transaction that is binding it. */
    const bind = (binding: {
      readonly grantId: string
      readonly route: string
      readonly keyed: KeyedRequest
      readonly id: SandboxId
      readonly commandId: string | null
    }) =>
      sql`
      INSERT INTO idempotency_keys AS known (grant_id, route, key, fingerprint, sandbox_id, command_id)
      VALUES (${binding.grantId}, ${binding.route}, ${binding.keyed.key}, ${binding.keyed.fingerprint}, ${binding.id}, ${binding.commandId})
      ON CONFLICT (grant_id, route, key) DO UPDATE SET
        fingerprint = excluded.fingerprint, sandbox_id = excluded.sandbox_id, command_id = excluded.command_id, created_at = now()
      WHERE known.created_at < now() - make_interval(days => ${RETENTION_DAYS})`

    /** What `insert` takes of a request, encoded by whoever asks. */
    const prepare = Effect.fnUntraced(function*({ creation, keyed, organizationId, trace = null }: CreationRequest) {
      const events = created(creation)
      const { entries, sandbox } = recordingOf(initial(creation), events, creation.createdAt)
      const { approvals, publications, usage } = encodeColumns(sandbox)
      const { createdAt, ...fixed } = creation
      const { grantId, id } = creation
      const route = creationRoute(creation.origin?.sandboxId ?? null)
      const key = keyed?.key ?? null
      const row = JSON.stringify({
        ...fixed,
        at: iso(createdAt),
        repoNames: sandbox.repos.map(({ fullName }) => fullName.toLowerCase()),
        status: sandbox.status,
        initiator: sandbox.initiator,
        approvals,
        publications,
        usage,
        revision: sandbox.revision,
        lastSeq: sandbox.lastSeq,
        logBytes: sandbox.logBytes,
        deadlineAt: deadlineOf(sandbox),
        work: workOf(sandbox),
        entries,
        route,
        key,
        fingerprint: keyed?.fingerprint,
        trace,
        organizationId,
        repo: sandbox.repos[0]?.fullName ?? "",
        eventId: organizationId === null ? null : yield* ids.uuid7
      })
      return { id, grantId, route, key, row, sandbox, topics: topicsOf({ before: initial(creation), events, sandbox }) }
    })
    type Prepared = Effect.Success<ReturnType<typeof prepare>>

    /**
     * One statement and one fsync, for as many as there are. Ids of those that were made: a key of the others is bound already, by a
     * transaction that has committed. What others may hold is locked in one order, so that no two wait for each other: keys by name, then
     * where tasks are attributed, then feeds.
     */
    const insert = (prepared: ReadonlyArray<Prepared>) =>
      prepared.length === 0 ? Effect.succeed(new Set<string>()) : Effect.map(
        sql<{ readonly id: string }>`
        WITH asked AS MATERIALIZED (
          SELECT * FROM json_to_recordset(${`[${prepared.map(({ row }) => row).join(",")}]`}::json) AS r(
            id text, "grantId" uuid, "createdBy" text, at timestamptz, title text, repos jsonb, "repoNames" text[], prompt text, model text,
            "agentRuntime" text, "reasoningEffort" text, "toolApprovalMode" text, metadata jsonb, origin jsonb, status text,
            initiator text, approvals jsonb, publications jsonb, usage jsonb, revision bigint, "lastSeq" bigint, "logBytes" bigint,
            "deadlineAt" timestamptz, work text, entries json, route text, key text, fingerprint text, trace text, "organizationId" uuid,
            repo text, "eventId" uuid
          )
        ), bound AS (
          INSERT INTO idempotency_keys AS known (grant_id, route, key, fingerprint, sandbox_id)
          SELECT "grantId", route, key, fingerprint, id FROM asked WHERE key IS NOT NULL ORDER BY "grantId", route, key
          ON CONFLICT (grant_id, route, key) DO UPDATE SET
            fingerprint = excluded.fingerprint, sandbox_id = excluded.sandbox_id, command_id = excluded.command_id, created_at = now()
          WHERE known.created_at < now() - make_interval(days => ${RETENTION_DAYS})
          RETURNING sandbox_id
        ), made AS (
          INSERT INTO sandboxes (
            id, grant_id, created_by, created_at, title, repos, repo_names, prompt, model, agent_runtime, reasoning_effort,
            tool_approval_mode, metadata, origin, status, initiator, status_at, approvals, publications, usage, revision, last_seq,
            recorded_at, log_bytes, deadline_at, work, work_since, work_seq
          )
          SELECT id, "grantId", "createdBy", at, title, repos, "repoNames", prompt, model, "agentRuntime", "reasoningEffort",
            "toolApprovalMode", metadata, origin, status, initiator, at, approvals, publications, usage, revision, "lastSeq", at,
            "logBytes", "deadlineAt", work, now(), "lastSeq"
          FROM asked WHERE key IS NULL OR id IN (SELECT sandbox_id FROM bound)
          RETURNING id
        ), logged AS (
          INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
          SELECT a.id, e.seq, a.at, e.type, e.part, e.wire
          FROM made JOIN asked a USING (id), json_to_recordset(a.entries) AS e(seq bigint, type text, part text, wire text)
        ), traced AS (
          INSERT INTO traces (sandbox_id, turn_id, traceparent)
          SELECT id, '', trace FROM made JOIN asked USING (id) WHERE trace IS NOT NULL
        ), attributed AS MATERIALIZED (
          SELECT pg_advisory_xact_lock_shared(hashtextextended('attribution/' || "organizationId", 0))
          FROM (SELECT DISTINCT "organizationId" FROM asked WHERE "organizationId" IS NOT NULL) o
        )
        SELECT id, CASE WHEN "organizationId" IS NOT NULL
          THEN start_task(id, "createdBy", "organizationId", repo, at, "eventId") END
        FROM (
          SELECT a.* FROM made JOIN asked a USING (id)
          LEFT JOIN recipient_touches t ON t.organization_id = a."organizationId" AND t.recipient_id = a."createdBy"
          LEFT JOIN credit_claims c ON c.id = t.claim_id
          WHERE (SELECT count(*) FROM attributed) >= 0
          ORDER BY c.grant_id NULLS FIRST OFFSET 0
        ) started`,
        (rows) => new Set(rows.map(({ id }) => id))
      )

    /**
     * Within a transaction: of these, those that the limit leaves no room for. Creations of one grant wait for each other, so each
     * counts those before it. One whose key is bound makes nothing, and needs no room.
     */
    const beyond = Effect.fnUntraced(function*(prepared: ReadonlyArray<Prepared>, limit: number) {
      // The weakest lock that excludes itself: whoever only refers to the grant does not wait.
      yield* sql`
        SELECT FROM grants WHERE id = ANY(${textArray(prepared.map(({ grantId }) => grantId))}::uuid[]) ORDER BY id FOR NO KEY UPDATE`
      const asked = JSON.stringify(prepared.map(({ grantId, id, key, route }) => ({ id, grantId, route, key })))
      const rows = yield* sql<{ readonly id: string; readonly known: boolean; readonly active: bigint }>`
        SELECT r.id,
          EXISTS (
            SELECT FROM idempotency_keys k WHERE k.grant_id = r."grantId" AND k.route = r.route AND k.key = r.key
              AND k.created_at >= now() - make_interval(days => ${RETENTION_DAYS})
          ) AS known,
          (SELECT count(*) FROM (
            SELECT FROM sandboxes s
            WHERE s.grant_id = r."grantId" AND s.status IN ('queued', 'creating', 'running', 'terminating') LIMIT ${limit}
          ) active) AS active
        FROM json_to_recordset(${asked}::json) AS r(id text, "grantId" uuid, route text, key text)`
      const found = new Map(rows.map((row) => [row.id, row]))
      const making = new Map<string, number>()
      return prepared.filter(({ grantId, id }) => {
        const { active = 0n, known = false } = found.get(id) ?? {}
        if (known) return false
        const before = Number(active) + (making.get(grantId) ?? 0)
        if (before >= limit) return true
        making.set(grantId, (making.get(grantId) ?? 0) + 1)
        return false
      })
    })

    type Made = Exit.Exit<Sandbox | null, ConcurrencyLimitExceeded | SandboxIdTaken>

    const makeWithin = Effect.fnUntraced(function*(prepared: ReadonlyArray<Prepared>) {
      const refused = maxActive === null ? [] : yield* beyond(prepared, maxActive)
      const made = yield* insert(prepared.filter((one) => !refused.includes(one)))
      const topics = prepared.flatMap(({ id, topics }) => made.has(id) ? topics : [])
      if (topics.length > 0) yield* sql.afterCommit(hints.publish([...new Set(topics)]))
      return prepared.map((one): Made =>
        maxActive !== null && refused.includes(one)
          ? Exit.fail(new ConcurrencyLimitExceeded({ limit: maxActive }))
          : Exit.succeed(made.has(one.id) ? one.sandbox : null)
      )
    })

    /** Of each the sandbox that was made; `null`: its key is bound. */
    const makeAll = (prepared: ReadonlyArray<Prepared>) => {
      const made = maxActive === null ? makeWithin(prepared) : sql.withTransaction(makeWithin(prepared))
      if (prepared.length > 1) return made
      return Effect.catchReason(made, "SqlError", "UniqueViolation", () => Effect.succeed([Exit.fail(new SandboxIdTaken()) as Made]))
    }

    const make = Batches.make({
      client: sql,
      run: makeAll,
      most: BATCH,
      underWay: 1,
      weight: { of: ({ row }) => row.length, most: BATCH_CHARACTERS },
      apart: ({ grantId, key, route }) => key === null ? null : `${grantId} ${route} ${key}`
    })

    /**
     * As `make`, of what is kept: `Checkpoints.prune` waits for the row's lock, and looks for forks once it has it. What is
     * not kept any more may have been when the key was bound.
     */
    const makeFork = ({ creation, keyed }: CreationRequest, prepared: Prepared, { checkpoint, sandboxId }: Origin) =>
      sql.withTransaction(Effect.gen(function*() {
        const kept = yield* sql`
          SELECT FROM checkpoints WHERE sandbox_id = ${sandboxId} AND checkpoint = ${checkpoint} FOR KEY SHARE`
        if (kept.length === 0) return yield* new CheckpointNotFound()
        const [outcome = Exit.die("no outcome")] = yield* makeAll([prepared])
        const made = yield* outcome
        if (made !== null) yield* audit.append(securityEvents(creation.id, created(creation), creation.createdAt))
        return made
      })).pipe(
        Effect.catchTag("CheckpointNotFound", (error) =>
          Effect.flatMap(
            keyed === null ? Effect.succeed(null) : replay(creation.grantId, keyed, sandboxId),
            (known) => known === null ? Effect.fail(error) : Effect.succeed(null)
          )),
        guard
      )

    const boundTo = SqlSchema.findOneOption({
      Request: Schema.Struct({ grantId: Schema.String, route: Schema.String, key: Schema.String }),
      Result: Schema.Struct({ fingerprint: Schema.String, id: SandboxId, commandId: Schema.NullOr(Schema.String) }),
      execute: ({ grantId, key, route }) =>
        sql`
        SELECT fingerprint, sandbox_id AS id, command_id AS "commandId" FROM idempotency_keys
        WHERE grant_id = ${grantId} AND route = ${route} AND key = ${key}
          AND created_at >= now() - make_interval(days => ${RETENTION_DAYS})`
    })

    const replay = Effect.fnUntraced(function*(grantId: string, keyed: KeyedRequest, forkOf: SandboxId | null) {
      const bound = yield* boundTo({ grantId, route: creationRoute(forkOf), key: keyed.key })
      if (Option.isNone(bound)) return null
      yield* Effect.fromResult(resolve(bound.value.fingerprint, keyed))
      return (yield* Effect.catchTag(read(bound.value, false), "SandboxNotFound", Effect.die)).sandbox
    })

    const findReceipt = Effect.fnUntraced(function*(commandId: string) {
      const [row] = yield* sql<{ readonly outcome: Receipt["outcome"]; readonly revision: bigint; readonly turnId: string | null }>`
        SELECT outcome, revision, turn_id AS "turnId" FROM commands WHERE id = ${commandId}`
      return row === undefined ? null : { commandId, outcome: row.outcome, revision: Number(row.revision), turnId: row.turnId }
    })

    const hasReceipt = (id: SandboxId, turnId: string) =>
      Effect.map(sql`SELECT FROM commands WHERE turn_id = ${turnId} AND sandbox_id = ${id} LIMIT 1`, (rows) => rows.length > 0)

    /** Of a message's receipt that a process of an earlier version wrote during an upgrade: without the turn that it started. */
    const keepTurn = Effect.fnUntraced(function*({ commandId }: Receipt) {
      const [row] = yield* sql<{ readonly turnId: string | null }>`
        UPDATE commands c SET turn_id = (SELECT turn_id FROM started_turns(c.sandbox_id) WHERE revision = c.revision)
        WHERE id = ${commandId} RETURNING turn_id AS "turnId"`
      return row?.turnId ?? null
    })

    const approvalRows = SqlSchema.findAll({
      Request: Schema.Struct({ id: SandboxId, approvalIds: Schema.Array(Schema.String) }),
      Result: Schema.Struct({ ...Approval.fields, reason: Schema.NullOr(Schema.String) }),
      execute: ({ approvalIds, id }) =>
        sql`
        SELECT approval_id AS "approvalId", outcome, resolved_by AS by, reason FROM approvals
        WHERE sandbox_id = ${id} AND approval_id = ANY(${textArray(approvalIds)}::text[])`
    })

    /** As literals: the planner takes the partial index (0059) only for types that it knows. */
    const checkpointTypes = sql.literal(`AND type IN (${CHECKPOINT_TYPES.map((type) => `'${type}'`).join(", ")})`)

    const entriesOf = (id: SandboxId, after: number, limit: number, only: Statement.Fragment = sql``) =>
      Effect.map(
        reads<{ readonly seq: bigint; readonly type: SandboxEvent["type"]; readonly wire: string }>`
          SELECT seq, type, wire FROM (
            SELECT seq, type, wire, ${bytesBefore(sql`octet_length(wire)`, sql`seq`)} FROM sandbox_events
            WHERE sandbox_id = ${id} AND seq > ${after} ${only} ORDER BY seq LIMIT ${limit}
          ) page WHERE bytes_before < ${PAGE_BYTES} ORDER BY seq`,
        (rows) => rows.map(({ seq, type, wire }) => ({ seq: Number(seq), type, wire }))
      )

    const approvalsOf = (id: SandboxId, approvalIds: ReadonlyArray<string>) =>
      Effect.map(
        approvalRows({ id, approvalIds }),
        (rows) => rows.map(({ reason, ...approval }): Approval => reason === null ? approval : { ...approval, reason })
      )

    const messageRows = SqlSchema.findAll({
      Request: Schema.Tuple([SandboxId, Schema.Int, Schema.Int]),
      Result: Schema.Struct({
        seq: Int8,
        id: Schema.String,
        turnId: Schema.String,
        role: Schema.Literals(["user", "assistant"]),
        text: Schema.String,
        createdAt: Instant
      }),
      execute: ([id, after, limit]) =>
        reads`
        SELECT seq, id, turn_id AS "turnId", role, text, created_at AS "createdAt" FROM (
          SELECT *, ${bytesBefore(sql`octet_length(text)`, sql`seq`)} FROM messages
          WHERE sandbox_id = ${id} AND seq > ${after} ORDER BY seq LIMIT ${limit}
        ) page WHERE bytes_before < ${PAGE_BYTES} ORDER BY seq`
    })

    /** By its own knowledge of the row alone, and only if that is what there is; `null`: the row has to be read. */
    const changeKnown = <E>(
      id: SandboxId,
      by: Writer,
      decide: (sandbox: Sandbox) => Result.Result<ReadonlyArray<SandboxEvent>, E>,
      now: DateTime.Utc
    ) =>
      Effect.contextWith((context: Context.Context<never>) => {
        const row = Context.getOrUndefined(context, sql.transactionService) === undefined ? known.find(id) : undefined
        if (row === undefined || !isBy(row, by)) return Effect.succeed(null)
        const events = Result.getOrElse(decide(row.sandbox), () => [])
        // What refuses, or leaves it as it is, is decided on what there is.
        if (events.length === 0) return Effect.succeed(null)
        return Effect.map(
          // What is committed is hinted.
          guard(Effect.uninterruptible(write(row, events, now, fenceOf(by)))),
          (sandbox) => sandbox === null ? null : { before: row.sandbox, events, sandbox }
        )
      })

    const newest = (grantId: string, { after, limit, repo, status }: ListQuery) =>
      sql`
          WHERE s.grant_id = ${grantId}
            ${after === null ? sql`` : sql`AND (s.created_at, s.id) < (${iso(after.createdAt)}::timestamptz, ${after.id})`}
            ${status === null ? sql`` : sql`AND s.status = ${status}`}
            ${repo === null ? sql`` : sql`AND ${repo.toLowerCase()} = ANY(s.repo_names)`}
          ORDER BY s.created_at DESC, s.id DESC LIMIT ${limit}`

    return SandboxStore.of({
      create: Effect.fn("SandboxStore.create")(function*(request) {
        const { creation, keyed } = request
        const { origin } = creation
        const prepared = yield* prepare(request)
        for (;;) {
          const made = yield* origin === null ? make(prepared) : makeFork(request, prepared, origin)
          if (made !== null) return { sandbox: made, replayed: false }
          const known = keyed === null ? null : yield* guard(replay(creation.grantId, keyed, origin?.sandboxId ?? null))
          // The binding expired between the two statements: the key is free again.
          if (known !== null) return { sandbox: known, replayed: true }
        }
      }),

      replay: (grantId, keyed, forkOf) => guard(replay(grantId, keyed, forkOf)),

      find: (key) => Effect.flatMap(find(key), (row) => row === null ? Effect.fail(new SandboxNotFound()) : Effect.succeed(sandboxOf(row))),

      list: Effect.fn("SandboxStore.list")(function*(grantId, query) {
        const bytes = sql`
          octet_length(s.prompt) + octet_length(coalesce(s.turn ->> 'prompt', '')) + octet_length(s.approvals::text) +
          octet_length(s.metadata::text) + octet_length(s.publications::text) + octet_length(s.repos::text) + octet_length(s.title)`
        const rows = yield* reads`
          SELECT ${listColumns} FROM (
          SELECT s.*, ${bytesBefore(bytes, sql`created_at DESC, id DESC`)}
          FROM sandboxes s ${newest(grantId, query)}
          ) s WHERE bytes_before < ${PAGE_BYTES} ORDER BY s.created_at DESC, s.id DESC`.values
        return rows.map((row) => sandboxOf(row))
      }, guard),

      summaries: Effect.fn("SandboxStore.summaries")(function*(grantId, query) {
        const bytes = sql`
          coalesce(octet_length(p.error), 0) + octet_length(p.metadata) + octet_length(p.repos) + octet_length(p.title)`
        const rows = yield* reads`
          SELECT ${sql.literal(SUMMARY_NAMES)} FROM (
          SELECT p.*, ${bytesBefore(bytes, sql`created_at DESC, id DESC`)}
          FROM (SELECT ${sql.literal(SUMMARY_COLUMNS)} FROM sandboxes s ${newest(grantId, query)}) p
          ) p WHERE bytes_before < ${PAGE_BYTES} ORDER BY created_at DESC, id DESC`.values
        return rows.map((row) => summaryOf(row))
      }, guard),

      log: (id, after, limit) => guard(entriesOf(id, after, limit)),

      checkpointLog: (id, after, limit) => guard(entriesOf(id, after, limit, checkpointTypes)),

      messages: (id, after, limit) => guard(messageRows([id, after, limit])),

      command: Effect.fn("SandboxStore.command")((key, command, now, keyed, trace = null) =>
        transaction(Effect.gen(function*() {
          const row = yield* read(key, true)
          const { sandbox } = row
          // The row's lock orders requests with one key, so this finds what an earlier one bound.
          const bound = keyed === undefined
            ? Option.none()
            : yield* boundTo({ grantId: key.grantId, route: messagesRoute(key.id), key: keyed.key })
          if (keyed !== undefined && Option.isSome(bound)) {
            yield* Effect.fromResult(resolve(bound.value.fingerprint, keyed))
            const first = yield* findReceipt(bound.value.commandId ?? "")
            if (first !== null) {
              const result = { commandId: first.commandId, revision: first.revision, outcome: "duplicate" as const }
              return { result, turnId: first.turnId ?? (yield* keepTurn(first)), before: sandbox, events: [], sandbox }
            }
          }
          const commandId = command.identity(sandbox)
          const receipt = yield* findReceipt(commandId)
          const [approval = null] = command.approvalId === null
            ? []
            : yield* approvalsOf(key.id, [command.approvalId])
          const isMessage = command.messageId !== undefined && (yield* hasReceipt(key.id, command.messageId))
          const verdict = yield* Effect.fromResult(command.decide({ sandbox, receipt, approval, isMessage }))
          const events = verdict.outcome === "applied" ? verdict.events : []
          const after = yield* writeLocked(row, events, now)
          yield* audit.append(securityEvents(key.id, events, now))
          const { keep, result, turnId } = conclude(after.revision, commandId, receipt, verdict)
          if (keep !== null) {
            yield* sql`
              INSERT INTO commands (id, sandbox_id, outcome, revision, turn_id, at)
              VALUES (${keep.commandId}, ${key.id}, ${keep.outcome}, ${keep.revision}, ${keep.turnId}, ${iso(now)})
              ON CONFLICT (id) DO UPDATE
              SET outcome = excluded.outcome, revision = excluded.revision, turn_id = excluded.turn_id, at = excluded.at`
          }
          if (trace !== null && keep !== null && keep.turnId !== null) {
            yield* sql`
              INSERT INTO traces (sandbox_id, turn_id, traceparent) VALUES (${key.id}, ${keep.turnId}, ${trace})
              ON CONFLICT DO NOTHING`
          }
          if (keyed !== undefined && keep?.outcome === "applied") {
            yield* bind({ grantId: key.grantId, route: messagesRoute(key.id), keyed, id: key.id, commandId })
          }
          return { result, turnId, before: sandbox, events, sandbox: after }
        }))
      ),

      change: Effect.fn("SandboxStore.change")(function*(id, by, decide, now, opened) {
        const changed = opened === undefined ? yield* changeKnown(id, by, decide, now) : null
        if (changed !== null) return changed
        return yield* transaction(Effect.gen(function*() {
          const found = read({ id, ...(by !== "policy" && "grantId" in by ? { grantId: by.grantId } : {}) }, true)
          const row = yield* fenceOf(by) === null ? found : Effect.catchTag(found, "SandboxNotFound", () => Effect.fail(new StaleLease()))
          if (!isBy(row, by)) return yield* new StaleLease()
          const before = row.sandbox
          const events = yield* Effect.fromResult(decide(before))
          const sandbox = yield* writeLocked(row, events, now, fenceOf(by))
          if (opened !== undefined && events.length > 0) yield* tellOpened(id, opened, now)
          return { before, events, sandbox }
        }))
      }),

      traces: Effect.fn("SandboxStore.traces")(function*(id, turnId) {
        const rows = yield* sql<{ readonly turnId: string; readonly traceparent: string }>`
          SELECT turn_id AS "turnId", traceparent FROM traces WHERE sandbox_id = ${id} AND turn_id IN ('', ${turnId ?? ""})`
        const of = (turn: string) => rows.find((row) => row.turnId === turn)?.traceparent ?? null
        return { creation: of(""), turn: turnId === null ? null : of(turnId) }
      }, guard),

      approvals: (id, approvalIds) => guard(approvalsOf(id, approvalIds)),

      purged: Effect.fn("SandboxStore.purged")(function*(id) {
        const [row] = yield* sql<{ readonly purged: bigint }>`SELECT purged_seq AS purged FROM sandboxes WHERE id = ${id}`
        return Number(row?.purged ?? 0)
      }, guard)
    })
  })
).pipe(Layer.provide(AuditLogPostgres.layer))
