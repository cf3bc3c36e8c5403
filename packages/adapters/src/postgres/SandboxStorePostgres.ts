/** `SandboxStore` on Postgres. One row is a sandbox; its lock orders everything that happens to it. */
import { AuditLog } from "@slipway/domain/access/AuditLog"
import { Hints, WORK } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { PAGE_BYTES } from "@slipway/domain/Page"
import { ConcurrencyLimitExceeded, MaxActiveSandboxes } from "@slipway/domain/sandbox/ActiveSandboxes"
import { Approval } from "@slipway/domain/sandbox/Approval"
import type { Receipt } from "@slipway/domain/sandbox/Command"
import { type KeyedRequest, resolve, RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { type Creation, created, evolve, initial, Sandbox, wholeMessage } from "@slipway/domain/sandbox/Sandbox"
import { partOf, type SandboxEvent, toWire } from "@slipway/domain/sandbox/SandboxEvent"
import {
  type Claimed,
  conclude,
  decisions,
  LEASE_SECONDS,
  SandboxIdTaken,
  SandboxNotFound,
  SandboxStore,
  StaleLease,
  topicsOf,
  type Writer
} from "@slipway/domain/sandbox/SandboxStore"
import { nextDeadline } from "@slipway/domain/sandbox/TimeLimit"
import { SandboxId } from "@slipway/domain/SandboxId"
import { DateTime, Duration, Effect, Layer, Option, Schema, Struct } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import * as AuditLogPostgres from "./AuditLogPostgres.ts"
import { Reads, Renewals } from "./Database.ts"
import { Int8 } from "./Int8.ts"
import { makeOpened } from "./PartnerStorePostgres.ts"
import { guard } from "./SqlFailure.ts"
import { textArray } from "./TextArray.ts"

/** `route` of the keys of POST /sandboxes. */
const CREATE_ROUTE = "sandboxes"
/** `route` of the keys of POST /sandboxes/{id}/messages. */
const messagesRoute = (id: SandboxId) => `sandboxes/${id}/messages`

const Instant = Schema.DateTimeUtcFromDate
/** `null` first: trying a date before it takes ten times as long, and most sandboxes of a list have some. */
const InstantOrNull = Schema.Union([Schema.Null, Instant])

/** A row of `sandboxes` under the names of the domain. JSON columns hold the domain's own encoding. */
const SandboxRow = Schema.Struct({
  ...Sandbox.fields,
  createdAt: Instant,
  statusAt: Instant,
  startedAt: InstantOrNull,
  completedAt: InstantOrNull,
  idleSince: InstantOrNull,
  revision: Int8,
  lastSeq: Int8,
  logBytes: Int8
})
/** Of what lies in the database only the shape is checked: the rules for values were, when they were written. Throws. */
const decodeSandbox = Schema.decodeUnknownSync(SandboxRow, { disableChecks: true })

const ClaimedRow = Schema.Struct({
  ...SandboxRow.fields,
  fence: Int8,
  agentSession: Schema.NullOr(Schema.String),
  elsewhere: Schema.Boolean
})

const CensusRow = Schema.Struct({
  status: Schema.Literals(["queued", "creating", "running", "terminating"]),
  count: Int8,
  leased: Int8,
  oldest: Instant,
  approvals: Int8
})

const encodeColumns = Schema.encodeSync(
  Sandbox.mapFields(Struct.pick(["approvals", "publications", "turn", "usage"])),
  { disableChecks: true }
)
/** The JSON columns that a change may write. */
const encodeState = (sandbox: Sandbox) => {
  const { approvals, publications, turn, usage } = encodeColumns(sandbox)
  return {
    turn: turn === null ? null : JSON.stringify(turn),
    approvals: JSON.stringify(approvals),
    publications: JSON.stringify(publications),
    usage: JSON.stringify(usage)
  }
}
const iso = (at: DateTime.Utc | null): string | null => at === null ? null : DateTime.formatIso(at)

/** Events as they go into the log and into the tables that follow from it. */
const record = (before: Sandbox, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc) => {
  const rows: Array<{ seq: number; type: string; part: string | null; wire: string }> = []
  const approvals: Array<{ id: string; outcome: string | null; by: string | null }> = []
  const messages: Array<{ seq: number; id: string; turn: string; role: "user" | "assistant"; text: string | null }> = []
  let sandbox = before
  // By id: an agent may write thousands of short messages at once.
  const texts = new Map<string, string>()
  const listed = new Map<string, { text: string | null }>()
  for (const event of events) {
    const previous = sandbox
    sandbox = evolve(previous, event, at)
    const seq = sandbox.lastSeq
    rows.push({ seq, type: event.type, part: partOf(event), wire: toWire(sandbox.id, { seq, at, event }) })
    const turn = event.turn_id ?? ""
    switch (event.type) {
      case "approval.requested":
        approvals.push({ id: event.data.approval_id, outcome: null, by: null })
        break
      case "approval.resolved":
        approvals.push({ id: event.data.approval_id, outcome: event.data.outcome, by: event.data.by })
        break
      case "turn.started":
        messages.push({ seq, id: event.data.prompt_id, turn, role: "user", text: event.data.text })
        break
    }
    if (event.type === "message.updated" && event.data.kind === "text") texts.set(event.data.message_id, event.data.text)
    const id = wholeMessage(previous, event, sandbox)
    if (id === null) continue
    // The last text is usually in the same batch; otherwise the log has it.
    const text = texts.get(id) ?? null
    const known = listed.get(id)
    if (known === undefined) {
      const message = { seq, id, turn, role: "assistant" as const, text }
      messages.push(message)
      listed.set(id, message)
    } else known.text = text ?? known.text
  }
  // One statement may write a row once: the newest standing of an approval is the one that counts.
  return { sandbox, rows, approvals: [...new Map(approvals.map((approval) => [approval.id, approval])).values()], messages }
}

export const layer = Layer.effect(
  SandboxStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const renewals = (yield* Renewals) ?? sql
    const hints = yield* Hints
    const audit = yield* AuditLog
    const limits = yield* Policy
    const maxActive = yield* MaxActiveSandboxes
    const ids = yield* Ids
    const tellOpened = yield* makeOpened

    const columns = sql.literal(`
      s.id, s.grant_id AS "grantId", s.created_by AS "createdBy", s.created_at AS "createdAt", s.title, s.repos, s.prompt,
      s.model, s.agent_runtime AS "agentRuntime", s.reasoning_effort AS "reasoningEffort",
      s.tool_approval_mode AS "toolApprovalMode", s.metadata, s.status, s.reason, s.initiator,
      s.status_at AS "statusAt", s.started_at AS "startedAt", s.completed_at AS "completedAt", s.error, s.turn,
      s.idle_since AS "idleSince", s.approvals, s.publications, s.usage, s.revision, s.last_seq AS "lastSeq",
      s.log_bytes AS "logBytes"`)

    /** In the past at once: storing it rounds to the millisecond, and could round up. */
    const justNow = sql.literal("date_trunc('milliseconds', now())")

    /** For `pageOf`: the length of a text is known without reading it, so what is beyond the page is left on the disk. */
    const bytesBefore = (bytes: Statement.Fragment, order: Statement.Fragment) =>
      sql`coalesce(sum(${bytes}) OVER (ORDER BY ${order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before`

    const transaction = <A, E, R>(self: Effect.Effect<A, E, R>) => guard(sql.withTransaction(self))

    const read = (key: { readonly id: SandboxId; readonly grantId?: string }, lock: boolean) => {
      const client = lock ? sql : reads
      return Effect.flatMap(
        client`
          SELECT ${columns}, s.fence FROM sandboxes s
          WHERE s.id = ${key.id} ${key.grantId === undefined ? sql`` : sql`AND s.grant_id = ${key.grantId}`}
          ${lock ? sql`FOR UPDATE` : sql``}`,
        ([row]) =>
          row === undefined
            ? Effect.fail(new SandboxNotFound())
            : Effect.succeed({ sandbox: decodeSandbox(row), fence: Number(row["fence"]) })
      )
    }

    /** One statement: the new state, its events and what follows from them. */
    const write = Effect.fnUntraced(function*(before: Sandbox, events: ReadonlyArray<SandboxEvent>, at: DateTime.Utc) {
      if (events.length === 0) return before
      const { approvals, messages, rows, sandbox } = record(before, events, at)
      const state = encodeState(sandbox)
      yield* sql`
        WITH logged AS (
          INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
          SELECT ${sandbox.id}, e.seq, ${iso(at)}, e.type, e.part, e.wire
          FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) AS e(seq bigint, type text, part text, wire text)
        ), stood AS (
          INSERT INTO approvals (sandbox_id, approval_id, outcome, resolved_by)
          SELECT ${sandbox.id}, a.id, a.outcome, a.by
          FROM jsonb_to_recordset(${JSON.stringify(approvals)}::jsonb) AS a(id text, outcome text, by text)
          ON CONFLICT (sandbox_id, approval_id) DO UPDATE SET outcome = excluded.outcome, resolved_by = excluded.resolved_by
        ), said AS (
          SELECT m.seq, m.id, m.turn, m.role, coalesce(m.text, l.text) AS text
          FROM jsonb_to_recordset(${JSON.stringify(messages)}::jsonb) AS m(seq bigint, id text, turn text, role text, text text)
          LEFT JOIN LATERAL (
            SELECT e.wire::jsonb -> 'data' ->> 'text' AS text FROM sandbox_events e
            WHERE m.text IS NULL AND e.sandbox_id = ${sandbox.id} AND e.part_id = m.id || ':text'
            ORDER BY e.seq DESC LIMIT 1
          ) l ON true
          -- A message that was all reasoning says nothing.
          WHERE coalesce(m.text, l.text) IS NOT NULL
        ), told_on AS (
          -- One that went on after it was listed.
          UPDATE messages t SET text = s.text FROM said s
          WHERE s.role = 'assistant' AND t.sandbox_id = ${sandbox.id} AND t.id = s.id AND t.role = 'assistant'
          RETURNING t.id
        ), listed AS (
          INSERT INTO messages (sandbox_id, seq, id, turn_id, role, text, created_at)
          SELECT ${sandbox.id}, s.seq, s.id, s.turn, s.role, s.text, ${iso(at)} FROM said s
          WHERE s.role = 'user' OR s.id NOT IN (SELECT id FROM told_on)
        )
        UPDATE sandboxes SET
          status = ${sandbox.status}, reason = ${sandbox.reason}, initiator = ${sandbox.initiator},
          status_at = ${iso(sandbox.statusAt)}, started_at = ${iso(sandbox.startedAt)},
          completed_at = ${iso(sandbox.completedAt)}, error = ${sandbox.error}, turn = ${state.turn}::jsonb,
          idle_since = ${iso(sandbox.idleSince)}, approvals = ${state.approvals}::jsonb,
          publications = ${state.publications}::jsonb, usage = ${state.usage}::jsonb, revision = ${sandbox.revision},
          last_seq = ${sandbox.lastSeq}, log_bytes = ${sandbox.logBytes}, deadline_at = ${iso(nextDeadline(sandbox, limits))}
        WHERE id = ${sandbox.id}`
      yield* sql.afterCommit(hints.publish(topicsOf(sandbox.id, events)))
      return sandbox
    })

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

    /** One statement and one fsync. `None`: the key is bound already, by a transaction that has committed. */
    const insert = Effect.fnUntraced(function*(creation: Creation, keyed: KeyedRequest | null, organizationId: string | undefined) {
      const at = iso(creation.createdAt)
      const { rows, sandbox } = record(initial(creation), created, creation.createdAt)
      const { metadata, repos } = sandbox
      const state = encodeState(sandbox)
      const inserted = yield* sql`
        WITH bound AS (
          ${
        keyed === null ? sql`SELECT 1` : sql`
${bind({ grantId: creation.grantId, route: CREATE_ROUTE, keyed, id: creation.id, commandId: null })} RETURNING 1`
      }
        ), made AS (
          INSERT INTO sandboxes (
            id, grant_id, created_by, created_at, title, repos, repo_names, prompt, model, agent_runtime, reasoning_effort,
            tool_approval_mode, metadata, status, initiator, status_at, approvals, publications, usage, revision, last_seq,
            log_bytes, deadline_at
          )
          SELECT ${creation.id}, ${creation.grantId}::uuid, ${creation.createdBy}, ${at}::timestamptz, ${creation.title},
            ${JSON.stringify(repos)}::jsonb, ${textArray(repos.map(({ fullName }) => fullName.toLowerCase()))}::text[],
            ${creation.prompt}, ${creation.model}, ${creation.agentRuntime}, ${creation.reasoningEffort},
            ${creation.toolApprovalMode}, ${JSON.stringify(metadata)}::jsonb, ${sandbox.status}, ${sandbox.initiator},
            ${at}::timestamptz, ${state.approvals}::jsonb, ${state.publications}::jsonb, ${state.usage}::jsonb,
            ${sandbox.revision}::bigint, ${sandbox.lastSeq}::bigint, ${sandbox.logBytes}::bigint,
            ${iso(nextDeadline(sandbox, limits))}::timestamptz
          FROM bound RETURNING id
        ), logged AS (
          INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
          SELECT made.id, e.seq, ${at}::timestamptz, e.type, e.part, e.wire
          FROM made, jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) AS e(seq bigint, type text, part text, wire text)
        )
        SELECT ${
        organizationId === undefined ? sql`1` : sql`
          start_task(id, ${creation.createdBy}, ${organizationId}, ${repos[0]?.fullName ?? ""}, ${at}, ${yield* ids.uuid7})`
      } FROM made`
      return inserted.length > 0 ? Option.some(sandbox) : Option.none()
    })

    /** As `insert`, within the limit. Creations of one grant wait for each other, so each counts those before it. */
    const insertLimited = (creation: Creation, keyed: KeyedRequest | null, organizationId: string | undefined, limit: number) =>
      sql.withTransaction(Effect.gen(function*() {
        // The weakest lock that excludes itself: whoever only refers to the grant does not wait.
        yield* sql`SELECT FROM grants WHERE id = ${creation.grantId} FOR NO KEY UPDATE`
        const made = yield* insert(creation, keyed, organizationId)
        if (Option.isNone(made)) return made
        const active = yield* sql`
          SELECT FROM sandboxes
          WHERE grant_id = ${creation.grantId} AND status IN ('queued', 'creating', 'running', 'terminating')
          LIMIT ${limit + 1}`
        return active.length > limit ? yield* new ConcurrencyLimitExceeded({ limit }) : made
      }))

    const boundTo = SqlSchema.findOneOption({
      Request: Schema.Struct({ grantId: Schema.String, route: Schema.String, key: Schema.String }),
      Result: Schema.Struct({ fingerprint: Schema.String, id: SandboxId, commandId: Schema.NullOr(Schema.String) }),
      execute: ({ grantId, key, route }) =>
        sql`
        SELECT fingerprint, sandbox_id AS id, command_id AS "commandId" FROM idempotency_keys
        WHERE grant_id = ${grantId} AND route = ${route} AND key = ${key}
          AND created_at >= now() - make_interval(days => ${RETENTION_DAYS})`
    })

    const findReceipt = Effect.fnUntraced(function*(commandId: string) {
      const [row] = yield* sql<{ readonly outcome: Receipt["outcome"]; readonly revision: bigint }>`
        SELECT outcome, revision FROM commands WHERE id = ${commandId}`
      return row === undefined ? null : { commandId, outcome: row.outcome, revision: Number(row.revision) }
    })

    const approvalRows = SqlSchema.findAll({
      Request: Schema.Struct({ id: SandboxId, approvalIds: Schema.Array(Schema.String) }),
      Result: Approval,
      execute: ({ approvalIds, id }) =>
        sql`
        SELECT approval_id AS "approvalId", outcome, resolved_by AS by FROM approvals
        WHERE sandbox_id = ${id} AND approval_id = ANY(${textArray(approvalIds)}::text[])`
    })

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

    // Every live row is in the partial index for claims, and no other one is looked at: 3 ms for 2,000 among 100,000 (2026-11-22).
    const censusRows = SqlSchema.findAll({
      Request: Schema.Void,
      Result: CensusRow,
      execute: () =>
        sql`
        SELECT status, count(*) AS count, count(*) FILTER (WHERE lease_until > now()) AS leased, min(created_at) AS oldest,
          sum(jsonb_array_length(approvals))::bigint AS approvals
        FROM sandboxes WHERE status IN ('queued', 'creating', 'running', 'terminating') GROUP BY status`
    })

    const theTime = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ now: Instant }),
      execute: () => reads`SELECT clock_timestamp() AS now`
    })

    /** At least one row, for the time. */
    const dueRows = SqlSchema.findNonEmpty({
      Request: Schema.Int,
      Result: Schema.Struct({ now: Instant, id: Schema.NullOr(SandboxId) }),
      execute: (limit) =>
        sql`
        SELECT now() AS now, due.id FROM (SELECT) one LEFT JOIN (
          SELECT id, deadline_at FROM sandboxes WHERE deadline_at <= now() ORDER BY deadline_at LIMIT ${limit}
        ) due ON true ORDER BY due.deadline_at`
    })

    const lockFor = Effect.fnUntraced(function*(id: SandboxId, by: Writer) {
      const key = by !== "policy" && "grantId" in by ? { id, grantId: by.grantId } : { id }
      const { fence, sandbox } = yield* read(key, true)
      return by !== "policy" && "fence" in by && by.fence !== fence ? yield* new StaleLease() : sandbox
    })

    return SandboxStore.of({
      create: Effect.fn("SandboxStore.create")(function*(creation, keyed, refused = null, organizationId) {
        const make = maxActive === null
          ? insert(creation, keyed, organizationId)
          : insertLimited(creation, keyed, organizationId, maxActive)
        for (;;) {
          const made = refused !== null ? Option.none() : yield* make.pipe(
            Effect.catchReason("SqlError", "UniqueViolation", () => Effect.fail(new SandboxIdTaken()))
          )
          if (Option.isSome(made)) {
            yield* hints.publish(topicsOf(creation.id, created))
            return { sandbox: made.value, replayed: false }
          }
          const existing = yield* boundTo({ grantId: creation.grantId, route: CREATE_ROUTE, key: keyed?.key ?? "" })
          if (Option.isNone(existing) && refused !== null) return yield* refused
          // The binding expired between the two statements: the key is free again.
          if (Option.isNone(existing)) continue
          if (keyed !== null) yield* Effect.fromResult(resolve(existing.value.fingerprint, keyed))
          const { sandbox } = yield* Effect.catchTag(read(existing.value, false), "SandboxNotFound", Effect.die)
          return { sandbox, replayed: true }
        }
      }, guard),

      find: (key) => guard(Effect.map(read(key, false), ({ sandbox }) => sandbox)),

      list: Effect.fn("SandboxStore.list")(function*(grantId, { after, limit, repo, status }) {
        const rows = yield* reads`
          SELECT ${columns} FROM (
          SELECT s.*, ${
          bytesBefore(
            sql`
              octet_length(s.prompt) + octet_length(coalesce(s.turn ->> 'prompt', '')) + octet_length(s.approvals::text) +
              octet_length(s.metadata::text) + octet_length(s.publications::text) + octet_length(s.repos::text) + octet_length(s.title)`,
            sql`created_at DESC, id DESC`
          )
        }
          FROM sandboxes s
          WHERE s.grant_id = ${grantId}
            ${after === null ? sql`` : sql`AND (s.created_at, s.id) < (${iso(after.createdAt)}::timestamptz, ${after.id})`}
            ${status === null ? sql`` : sql`AND s.status = ${status}`}
            ${repo === null ? sql`` : sql`AND ${repo.toLowerCase()} = ANY(s.repo_names)`}
          ORDER BY s.created_at DESC, s.id DESC LIMIT ${limit}
          ) s WHERE bytes_before < ${PAGE_BYTES} ORDER BY s.created_at DESC, s.id DESC`
        return rows.map((row) => decodeSandbox(row))
      }, guard),

      log: (id, after, limit) =>
        guard(Effect.map(
          reads<{ readonly seq: bigint; readonly type: SandboxEvent["type"]; readonly wire: string }>`
            SELECT seq, type, wire FROM (
              SELECT seq, type, wire, ${bytesBefore(sql`octet_length(wire)`, sql`seq`)} FROM sandbox_events
              WHERE sandbox_id = ${id} AND seq > ${after} ORDER BY seq LIMIT ${limit}
            ) page WHERE bytes_before < ${PAGE_BYTES} ORDER BY seq`,
          (rows) => rows.map(({ seq, type, wire }) => ({ seq: Number(seq), type, wire }))
        )),

      messages: (id, after, limit) => guard(messageRows([id, after, limit])),

      command: Effect.fn("SandboxStore.command")((key, command, now, keyed) =>
        transaction(Effect.gen(function*() {
          const { sandbox } = yield* read(key, true)
          // The row's lock orders requests with one key, so this finds what an earlier one bound.
          const bound = keyed === undefined
            ? Option.none()
            : yield* boundTo({ grantId: key.grantId, route: messagesRoute(key.id), key: keyed.key })
          if (keyed !== undefined && Option.isSome(bound)) {
            yield* Effect.fromResult(resolve(bound.value.fingerprint, keyed))
            const first = yield* findReceipt(bound.value.commandId ?? "")
            if (first !== null) return { commandId: first.commandId, revision: first.revision, outcome: "duplicate" as const }
          }
          const commandId = command.identity(sandbox)
          const receipt = yield* findReceipt(commandId)
          const [approval = null] = command.approvalId === null
            ? []
            : yield* approvalRows({ id: key.id, approvalIds: [command.approvalId] })
          const verdict = yield* Effect.fromResult(command.decide({ sandbox, receipt, approval }))
          const after = verdict.outcome === "applied" ? yield* write(sandbox, verdict.events, now) : sandbox
          if (verdict.outcome === "applied") yield* audit.append(decisions(key.id, verdict.events, now))
          const { keep, result } = conclude(after.revision, commandId, receipt, verdict)
          if (keep !== null) {
            yield* sql`
              INSERT INTO commands (id, sandbox_id, outcome, revision, at)
              VALUES (${keep.commandId}, ${key.id}, ${keep.outcome}, ${keep.revision}, ${iso(now)})
              ON CONFLICT (id) DO UPDATE SET outcome = excluded.outcome, revision = excluded.revision, at = excluded.at`
          }
          if (keyed !== undefined && keep?.outcome === "applied") {
            yield* bind({ grantId: key.grantId, route: messagesRoute(key.id), keyed, id: key.id, commandId })
          }
          return result
        }))
      ),

      change: Effect.fn("SandboxStore.change")((id, by, decide, now, opened) =>
        transaction(Effect.gen(function*() {
          const sandbox = yield* lockFor(id, by)
          const events = yield* Effect.fromResult(decide(sandbox))
          const after = yield* write(sandbox, events, now)
          if (opened !== undefined && events.length > 0) yield* tellOpened(id, opened, now)
          return after
        }))
      ),

      approvals: (id, approvalIds) => guard(approvalRows({ id, approvalIds })),

      claim: Effect.fn("SandboxStore.claim")(function*({ machine, worker }, limit, ending = limit) {
        const isFree = sql`(lease_until IS NULL
          OR lease_until <= now() AND machine = ${machine}
          OR lease_until <= now() - make_interval(secs => ${Duration.toSeconds(limits.lost)}))`
        const isLive = sql.literal("status IN ('queued', 'creating', 'running')")
        const elsewhere = sql`machine IS NOT NULL AND machine <> ${machine} AS elsewhere`
        const rows = yield* SqlSchema.findAll({
          Request: Schema.Void,
          Result: ClaimedRow,
          // A grant's next one comes behind as many as workers hold of it, and behind its own that waited longer. What another
          // worker is just claiming is passed over, so there is one to spare for each.
          execute: () =>
            sql`
            WITH ending AS (
              SELECT id, ${elsewhere} FROM sandboxes WHERE status = 'terminating' AND ${isFree}
              ORDER BY created_at LIMIT ${ending} FOR UPDATE SKIP LOCKED
            ), waiting AS (
              SELECT s.id, ${elsewhere} FROM sandboxes s JOIN (
                SELECT id, turn FROM (
                  SELECT id, created_at, free,
                    count(*) FILTER (WHERE lease_until > now()) OVER (PARTITION BY grant_id)
                      + count(*) FILTER (WHERE free) OVER (PARTITION BY grant_id ORDER BY created_at, id) AS turn
                  FROM (SELECT id, grant_id, created_at, lease_until, ${isFree} AS free FROM sandboxes WHERE ${isLive}) live
                ) turns
                WHERE free ORDER BY turn, created_at LIMIT ${limit * 2}
              ) next ON next.id = s.id
              WHERE ${isLive} AND ${isFree}
              ORDER BY next.turn, s.created_at LIMIT ${limit} FOR UPDATE OF s SKIP LOCKED
            )
            UPDATE sandboxes s SET
              fence = s.fence + 1, worker = ${worker}, machine = ${machine},
              lease_until = now() + make_interval(secs => ${LEASE_SECONDS})
            FROM (
              SELECT * FROM ending UNION ALL SELECT * FROM waiting
            ) free
            WHERE s.id = free.id
            RETURNING ${columns}, s.fence, s.agent_session AS "agentSession", free.elsewhere`
        })(undefined)
        return rows.map(({ agentSession, elsewhere, fence, ...sandbox }): Claimed => ({
          lease: { sandboxId: sandbox.id, fence },
          sandbox,
          agentSession,
          elsewhere
        }))
      }, guard),

      renew: Effect.fn("SandboxStore.renew")(function*(leases) {
        if (leases.length === 0) return []
        const rows = yield* renewals<{ readonly id: string; readonly fence: bigint }>`
          UPDATE sandboxes s SET lease_until = now() + make_interval(secs => ${LEASE_SECONDS})
          FROM jsonb_to_recordset(${JSON.stringify(leases)}::jsonb) AS l("sandboxId" text, fence bigint)
          WHERE s.id = l."sandboxId" AND s.fence = l.fence RETURNING s.id, s.fence`
        const held = new Map(rows.map(({ fence, id }) => [id, Number(fence)]))
        return leases.filter(({ fence, sandboxId }) => held.get(sandboxId) === fence)
      }, guard),

      endLeases: (machine) =>
        guard(Effect.asVoid(sql`UPDATE sandboxes SET lease_until = ${justNow} WHERE machine = ${machine} AND lease_until > now()`)),

      release: ({ fence, sandboxId }) =>
        guard(Effect.asVoid(sql`UPDATE sandboxes SET lease_until = ${justNow} WHERE id = ${sandboxId} AND fence = ${fence}`)).pipe(
          Effect.andThen(hints.publish([WORK]))
        ),

      saveAgentSession: Effect.fn("SandboxStore.saveAgentSession")(function*({ fence, sandboxId }, agentSession) {
        const rows = yield* sql`
          UPDATE sandboxes SET agent_session = ${agentSession} WHERE id = ${sandboxId} AND fence = ${fence} RETURNING 1`
        if (rows.length === 0) return yield* new StaleLease()
      }, guard),

      now: guard(theTime(undefined)).pipe(Effect.map(({ now }) => now), Effect.catchTag("NoSuchElementError", Effect.die)),

      due: (limit) =>
        guard(dueRows(limit)).pipe(
          Effect.map((rows) => ({ now: rows[0].now, ids: rows.flatMap(({ id }) => id ?? []) })),
          Effect.catchTag("NoSuchElementError", Effect.die)
        ),

      ofRevokedGrants: (limit) =>
        guard(Effect.map(
          sql<{ readonly id: SandboxId }>`
            SELECT s.id FROM sandboxes s JOIN grants g ON g.id = s.grant_id AND g.revoked_at IS NOT NULL
            WHERE s.status IN ('queued', 'creating', 'running') LIMIT ${limit}`,
          (rows) => rows.map(({ id }) => id)
        )),

      purged: Effect.fn("SandboxStore.purged")(function*(id) {
        const [row] = yield* sql<{ readonly purged: bigint }>`SELECT purged_seq AS purged FROM sandboxes WHERE id = ${id}`
        return Number(row?.purged ?? 0)
      }, guard),

      purgeEvents: (endedBefore, limit) =>
        guard(Effect.map(
          sql`
            WITH ended AS (
              SELECT id, last_seq FROM sandboxes
              WHERE status IN ('succeeded', 'failed', 'terminated') AND (purged_before IS NULL OR purged_before < status_at)
                AND status_at <= ${iso(endedBefore)}::timestamptz
              ORDER BY status_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ), gone AS (
              DELETE FROM sandbox_events e USING ended WHERE e.sandbox_id = ended.id AND e.seq <= ended.last_seq
            )
            UPDATE sandboxes s SET purged_seq = ended.last_seq, purged_before = ${iso(endedBefore)}::timestamptz
            FROM ended WHERE s.id = ended.id RETURNING 1`,
          (rows) => rows.length
        )),

      purgeKeys: (limit) =>
        guard(Effect.map(
          sql`
            DELETE FROM idempotency_keys WHERE (grant_id, route, key) IN (
              SELECT grant_id, route, key FROM idempotency_keys
              WHERE created_at < now() - make_interval(days => ${RETENTION_DAYS})
              ORDER BY created_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
            ) RETURNING 1`,
          (rows) => rows.length
        )),

      over: (ids) =>
        guard(Effect.map(
          sql<{ readonly id: string }>`
            SELECT id FROM sandboxes
            WHERE id = ANY(${textArray(ids)}::text[]) AND status IN ('queued', 'creating', 'running', 'terminating')`,
          (rows) => {
            const live = new Set(rows.map(({ id }) => id))
            return ids.filter((id) => !live.has(id))
          }
        )),

      machineOf: Effect.fn("SandboxStore.machineOf")(function*(ids) {
        const [row] = yield* sql<{ readonly machine: string }>`
          SELECT machine FROM sandboxes WHERE id = ANY(${textArray(ids)}::text[]) AND machine IS NOT NULL
          GROUP BY machine ORDER BY count(*) DESC LIMIT 1`
        return row?.machine ?? null
      }, guard),

      census: guard(Effect.map(censusRows(undefined), (rows) => {
        const live = { queued: 0, creating: 0, running: 0, terminating: 0 }
        for (const { count, status } of rows) live[status] = count
        const sum = (of: (row: typeof CensusRow.Type) => number) => rows.reduce((total, row) => total + of(row), 0)
        return {
          live,
          leased: sum(({ leased }) => leased),
          oldestQueuedAt: rows.find(({ status }) => status === "queued")?.oldest ?? null,
          pendingApprovals: sum(({ approvals }) => approvals)
        }
      }))
    })
  })
).pipe(Layer.provide(AuditLogPostgres.layer))
