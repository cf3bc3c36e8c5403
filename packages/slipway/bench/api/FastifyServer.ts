/**
 * What Slipway is compared with: the same statements, answers and headers as somebody would write them by hand, with
 * Fastify and `pg`. It validates bodies and serializes answers by JSON schema, prepares its statements and encodes an
 * event once for all readers. It leaves out what the measured requests do not need.
 */
import fastify, { type FastifyReply, type FastifyRequest } from "fastify"
import { createHash, randomBytes } from "node:crypto"
import type { ServerResponse } from "node:http"
import { crc32 } from "node:zlib"
import { Pool, type PoolClient } from "pg"
import * as Protocol from "./Protocol.ts"

const { databaseUrl, publicUrl, requestsPerMinute, requestsPerTenant } = Protocol.options<Protocol.ServerOptions>()

const pool = new Pool({
  connectionString: databaseUrl,
  max: 10,
  options: "-c TimeZone=UTC -c lock_timeout=5s -c statement_timeout=30s"
})
// The database may end first.
pool.on("error", () => {})

// ---------------------------------------------------------------------------------------------------------------
// Names

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
const ulid = (): string => {
  let text = ""
  for (let time = Date.now(), i = 0; i < 10; i++, time = Math.floor(time / 32)) text = CROCKFORD.charAt(time % 32) + text
  for (const byte of randomBytes(16)) text += CROCKFORD.charAt(byte & 31)
  return text
}

const ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz23456789"
const sandboxId = (): string => {
  let text = "c_"
  while (text.length < 14) for (const byte of randomBytes(16)) if (byte < 238 && text.length < 14) text += ID_ALPHABET.charAt(byte % 34)
  return text
}

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const isWellFormed = (key: string): boolean => {
  if (!/^sbx_(?:live|test)_[0-9A-Za-z]{49}$/u.test(key)) return false
  let digits = ""
  for (let rest = crc32(key.slice(0, -6)), i = 0; i < 6; i++, rest = Math.floor(rest / 62)) digits = BASE62.charAt(rest % 62) + digits
  return key.endsWith(digits)
}

// ---------------------------------------------------------------------------------------------------------------
// Statements

const ADMIT = {
  name: "admit",
  text: `
    WITH found AS MATERIALIZED (
      SELECT k.id, k.grant_id, k.user_id, k.scopes, k.prefix, k.last_used_at, g.organization_id,
        coalesce(m.active, false) AS active, o.suspended_at IS NOT NULL AS suspended
      FROM api_keys k
      JOIN grants g ON g.id = k.grant_id AND g.revoked_at IS NULL
      JOIN organizations o ON o.id = g.organization_id
      LEFT JOIN memberships m ON m.organization_id = g.organization_id AND m.user_id = k.user_id
      WHERE k.digest = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
    ), used AS (
      UPDATE api_keys SET last_used_at = now() FROM found
      WHERE api_keys.id = found.id
        AND (found.last_used_at IS NULL OR found.last_used_at < now() - interval '1 minute')
        AND set_config('synchronous_commit', 'off', true) = 'off'
    )
    SELECT f.id AS "keyId", f.grant_id AS "grantId", f.organization_id AS "organizationId", f.user_id AS "userId",
      f.scopes, f.prefix = 'sbx_test_' AS test, f.active AS "memberActive", f.suspended AS "organizationSuspended",
      s.taken, s.remaining, s.reset_ms AS "resetMillis"
    FROM found f CROSS JOIN LATERAL take_rate_slots(
      ARRAY[f.id, md5(f.user_id)::uuid, f.grant_id], ARRAY[$2::integer, $3::integer, $3::integer]) s`
}

const COLUMNS = `
  s.id, s.grant_id AS "grantId", s.created_by AS "createdBy", s.created_at AS "createdAt", s.title, s.repos, s.prompt,
  s.model, s.agent_runtime AS "agentRuntime", s.reasoning_effort AS "reasoningEffort",
  s.tool_approval_mode AS "toolApprovalMode", s.metadata, s.status, s.reason, s.initiator,
  s.status_at AS "statusAt", s.started_at AS "startedAt", s.completed_at AS "completedAt", s.error, s.turn,
  s.idle_since AS "idleSince", s.approvals, s.publications, s.usage, s.revision, s.last_seq AS "lastSeq"`

const FIND = { name: "find", text: `SELECT ${COLUMNS}, s.fence FROM sandboxes s WHERE s.id = $1 AND s.grant_id = $2` }
const LIST = {
  name: "list",
  text: `SELECT ${COLUMNS} FROM sandboxes s WHERE s.grant_id = $1 ORDER BY s.created_at DESC, s.id DESC LIMIT $2`
}
const CREATE = {
  name: "create",
  text: `
    WITH bound AS (
      INSERT INTO idempotency_keys (grant_id, route, key, fingerprint, sandbox_id)
      VALUES ($1, 'sandboxes', $2, $3, $4) ON CONFLICT DO NOTHING RETURNING 1
    ), made AS (
      INSERT INTO sandboxes (
        id, grant_id, created_by, created_at, title, repos, repo_names, prompt, model, agent_runtime, reasoning_effort,
        tool_approval_mode, metadata, status, initiator, status_at, approvals, publications, usage, revision, last_seq,
        deadline_at
      )
      SELECT $4, $1::uuid, $5, $6::timestamptz, $7, $8::jsonb, $9::text[], $10, $11, $12, $13, $14, $15::jsonb, $16, $17,
        $6::timestamptz, $18::jsonb, $19::jsonb, $20::jsonb, $21::bigint, $22::bigint, $23::timestamptz
      FROM bound RETURNING id
    )
    INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
    SELECT made.id, e.seq, $6::timestamptz, e.type, e.part, e.wire
    FROM made, jsonb_to_recordset($24::jsonb) AS e(seq bigint, type text, part text, wire text)
    RETURNING seq`
}
const LOG = {
  name: "log",
  text: "SELECT seq, type, wire FROM sandbox_events WHERE sandbox_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"
}
const LOCK = { name: "lock", text: `SELECT ${COLUMNS}, s.fence FROM sandboxes s WHERE s.id = $1 FOR UPDATE` }
const APPEND = {
  name: "append",
  text: `
    WITH logged AS (
      INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
      SELECT $1, e.seq, $2, e.type, e.part, e.wire
      FROM jsonb_to_recordset($3::jsonb) AS e(seq bigint, type text, part text, wire text)
    )
    UPDATE sandboxes SET usage = $4::jsonb, last_seq = $5 WHERE id = $1`
}

interface Admission {
  readonly grantId: string
  readonly userId: string
  readonly scopes: ReadonlyArray<string>
  readonly memberActive: boolean
  readonly organizationSuspended: boolean
  readonly taken: boolean
  readonly remaining: number
  readonly resetMillis: string
}

interface Row {
  readonly id: string
  readonly createdAt: Date
  readonly title: string
  readonly repos: ReadonlyArray<{ readonly fullName: string; readonly ref?: string }>
  readonly model: string | null
  readonly agentRuntime: string
  readonly metadata: Record<string, string>
  readonly status: string
  readonly startedAt: Date | null
  readonly completedAt: Date | null
  readonly error: string | null
  readonly turn: { readonly state: string } | null
  readonly approvals: ReadonlyArray<unknown>
  readonly usage: unknown
  readonly lastSeq: string
}

const ACTIVE = new Set(["pending", "running", "awaiting_approval"])

const toResource = (row: Row) => {
  const self = `${publicUrl}/api/public/v1/sandboxes/${row.id}`
  return {
    id: row.id,
    worktreeId: `w_${row.id.slice(2)}`,
    object: "sandbox",
    status: row.status,
    title: row.title,
    repos: row.repos,
    model: row.model,
    agentRuntime: row.agentRuntime,
    turn: { active: row.turn !== null && ACTIVE.has(row.turn.state) },
    usage: row.usage,
    metadata: row.metadata,
    error: row.status === "failed" ? row.error : null,
    createdAt: row.createdAt.toISOString(),
    startedAt: row.startedAt?.toISOString() ?? null,
    completedAt: row.completedAt?.toISOString() ?? null,
    links: { self, events: `${self}/events`, messages: `${self}/messages` }
  }
}

// ---------------------------------------------------------------------------------------------------------------
// JSON schemas: of answers for fast-json-stringify, of bodies for ajv

const string = { type: "string" } as const
const nullable = { type: "string", nullable: true } as const
const object = (properties: Record<string, unknown>, required = Object.keys(properties)) => ({ type: "object", properties, required })
const SANDBOX = object({
  id: string,
  worktreeId: string,
  object: string,
  status: string,
  title: string,
  repos: { type: "array", items: object({ fullName: string, ref: string }, ["fullName"]) },
  model: nullable,
  agentRuntime: string,
  turn: object({ active: { type: "boolean" } }),
  usage: object({ llmRequestCount: { type: "integer" }, costMicroUsd: { type: "integer" }, creditsChargedMicros: { type: "integer" } }),
  metadata: { type: "object", additionalProperties: string },
  error: nullable,
  createdAt: string,
  startedAt: nullable,
  completedAt: nullable,
  links: object({ self: string, events: string, messages: string })
})
const PAGE = object({ data: { type: "array", items: SANDBOX }, nextCursor: nullable })

const BODY = {
  ...object({
    repos: {
      type: "array",
      minItems: 1,
      maxItems: 16,
      items: {
        ...object({
          fullName: { type: "string", maxLength: 201, pattern: "^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$" },
          ref: { type: "string", minLength: 1, maxLength: 255, pattern: "^[A-Za-z0-9._/-]+$" }
        }, ["fullName"]),
        additionalProperties: false
      }
    },
    prompt: { type: "string", minLength: 1, maxLength: 60_000 },
    model: { type: "string", minLength: 1, maxLength: 200 },
    reasoningEffort: { enum: ["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"] },
    title: { type: "string", minLength: 1, maxLength: 120 },
    toolApprovalMode: { enum: ["auto", "prompt"] },
    metadata: {
      type: "object",
      maxProperties: 16,
      propertyNames: { minLength: 1, maxLength: 64 },
      additionalProperties: { type: "string", maxLength: 1000 }
    }
  }, ["repos", "prompt"]),
  additionalProperties: false
}

interface Body {
  readonly repos: ReadonlyArray<{ readonly fullName: string; readonly ref?: string }>
  readonly prompt: string
  readonly title?: string
  readonly toolApprovalMode?: string
  readonly metadata?: Record<string, string>
}

const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`
  if (value === null || typeof value !== "object") return JSON.stringify(value)
  const members = Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(",")}}`
}

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex")

// ---------------------------------------------------------------------------------------------------------------
// Requests

const app = fastify()
const admissions = new WeakMap<FastifyRequest, Admission>()

const refuse = (reply: FastifyReply, status: number, code: string, message: string) =>
  reply.code(status).header("content-type", "application/json; charset=utf-8").send(JSON.stringify({ error: { code, message } }))

const INVALID = `Bearer realm="slipway", error="invalid_token", error_description="The API key is not valid."`

app.addHook("onRequest", async (request, reply) => {
  reply.headers({ "cache-control": "no-store", "x-content-type-options": "nosniff", "x-request-id": `req_${ulid()}` })
  const authorization = request.headers.authorization
  if (authorization === undefined || !/^bearer /iu.test(authorization)) {
    reply.header("www-authenticate", `Bearer realm="slipway"`)
    return refuse(reply, 401, "unauthorized", "Send an API key: Authorization: Bearer <key>.")
  }
  const key = authorization.slice("bearer ".length)
  const admission = isWellFormed(key)
    ? (await pool.query<Admission>({ ...ADMIT, values: [sha256(key), requestsPerMinute, requestsPerTenant] })).rows[0]
    : undefined
  if (admission === undefined) {
    reply.header("www-authenticate", INVALID)
    return refuse(reply, 401, "unauthorized", "The API key is not valid.")
  }
  const reset = Math.max(1, Math.ceil(Number(admission.resetMillis) / 1000))
  reply.headers({
    "ratelimit-policy": `"default";q=${requestsPerMinute};w=60`,
    ratelimit: `"default";r=${admission.remaining};t=${reset}`
  })
  if (!admission.taken) {
    reply.header("retry-after", reset)
    return refuse(reply, 429, "rate_limited", "Too many requests with this key.")
  }
  if (!admission.memberActive || admission.organizationSuspended || !admission.scopes.includes("sandboxes")) {
    return refuse(reply, 403, "forbidden", "Not allowed.")
  }
  admissions.set(request, admission)
  return undefined
})

const by = (request: FastifyRequest): Admission => {
  const admission = admissions.get(request)
  if (admission === undefined) throw new Error("not admitted")
  return admission
}

const PATH = { params: object({ id: { type: "string", pattern: "^c_[a-z2-9]{12}$" } }) }

app.get<{ Params: { id: string } }>(
  "/api/public/v1/sandboxes/:id",
  { schema: { ...PATH, response: { 200: SANDBOX } } },
  async (request, reply) => {
    const { rows: [row] } = await pool.query<Row>({ ...FIND, values: [request.params.id, by(request).grantId] })
    return row === undefined ? refuse(reply, 404, "not_found", "No such sandbox.") : toResource(row)
  }
)

app.get<{ Querystring: { limit: number } }>("/api/public/v1/sandboxes", {
  schema: { querystring: object({ limit: { type: "integer", minimum: 1, maximum: 100, default: 100 } }, []), response: { 200: PAGE } }
}, async (request) => {
  const { limit } = request.query
  const { grantId } = by(request)
  const { rows } = await pool.query<Row>({ ...LIST, values: [grantId, limit + 1] })
  const page = rows.slice(0, limit)
  const last = rows.length > limit ? page.at(-1) : undefined
  const position = last === undefined ? "" : `${last.createdAt.getTime()} ${last.id}`
  const tag = createHash("sha256").update(`list ${grantId} ${position}`).digest().subarray(0, 16)
  return {
    data: page.map(toResource),
    nextCursor: last === undefined ? null : Buffer.concat([tag, Buffer.from(position)]).toString("base64url")
  }
})

const NO_USAGE = { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }

app.post<{ Body: Body }>("/api/public/v1/sandboxes", { schema: { body: BODY, response: { 201: SANDBOX } } }, async (request, reply) => {
  const { metadata = {}, prompt, repos, toolApprovalMode = "auto" } = request.body
  const { grantId, userId } = by(request)
  const key = request.headers["idempotency-key"]
  const fingerprint = `1:${sha256(canonical({ ...request.body, metadata, toolApprovalMode }))}`
  const id = sandboxId()
  const createdAt = new Date()
  const at = createdAt.toISOString()
  const title = request.body.title ??
    (prompt.split("\n").map((line) => line.replaceAll(/\s+/gu, " ").trim()).find((line) => line !== "") ?? "Untitled sandbox").slice(0, 120)
  const wire = JSON.stringify({
    object: "sandbox.event",
    version: "v1",
    id: "1",
    ts: at,
    sandbox_id: id,
    type: "sandbox.status",
    data: { status: "queued", previous: null, reason: null, initiator: "user" }
  })
  const { rows } = await pool.query({
    ...CREATE,
    values: [
      grantId,
      key,
      fingerprint,
      id,
      userId,
      at,
      title,
      JSON.stringify(repos),
      repos.map(({ fullName }) => fullName.toLowerCase()),
      prompt,
      "offline/demo",
      "opencode",
      null,
      toolApprovalMode,
      JSON.stringify(metadata),
      "queued",
      "user",
      "[]",
      "[]",
      JSON.stringify(NO_USAGE),
      1,
      1,
      new Date(createdAt.getTime() + 3_600_000).toISOString(),
      JSON.stringify([{ seq: 1, type: "sandbox.status", part: null, wire }])
    ]
  })
  if (rows.length === 0) return refuse(reply, 409, "idempotency_conflict", "This Idempotency-Key was already used.")
  publish(id)
  reply.code(201).header("location", `${publicUrl}/api/public/v1/sandboxes/${id}`)
  return toResource({
    id,
    createdAt,
    title,
    repos,
    model: "offline/demo",
    agentRuntime: "opencode",
    metadata,
    status: "queued",
    startedAt: null,
    completedAt: null,
    error: null,
    turn: null,
    approvals: [],
    usage: NO_USAGE,
    lastSeq: "1"
  })
})

// ---------------------------------------------------------------------------------------------------------------
// Event streams: one read and one encoding for all readers of a sandbox

interface Watched {
  readonly readers: Set<ServerResponse>
  cursor: number
  reading: boolean
  again: boolean
}

const watched = new Map<string, Watched>()

const spread = async (id: string, all: Watched): Promise<void> => {
  all.again = true
  if (all.reading) return
  all.reading = true
  while (all.again) {
    all.again = false
    const { rows } = await pool.query<{ seq: string; wire: string }>({ ...LOG, values: [id, all.cursor, 100] })
    if (rows.length === 0) continue
    all.cursor = Number(rows.at(-1)?.seq)
    const bytes = Buffer.from(rows.map(({ seq, wire }) => `id: ${seq}\ndata: ${wire}\n\n`).join(""))
    for (const reader of all.readers) reader.write(bytes)
    all.again ||= rows.length === 100
  }
  all.reading = false
}

const outbox = new Set<string>()
/** Readers of this process at once, those of others by one NOTIFY for all that came together. */
const publish = (id: string) => {
  const all = watched.get(id)
  if (all !== undefined) void spread(id, all)
  if (outbox.size === 0) {
    setImmediate(() => {
      const topics = [...outbox].join(" ")
      outbox.clear()
      pool.query({ name: "notify", text: "SELECT pg_notify('slipway_bench', $1)", values: [topics] }).catch(() => {})
    })
  }
  outbox.add(id)
}

app.get<{ Params: { id: string } }>("/api/public/v1/sandboxes/:id/events/stream", { schema: PATH }, async (request, reply) => {
  const { id } = request.params
  const { rows: [row] } = await pool.query<Row>({ ...FIND, values: [id, by(request).grantId] })
  if (row === undefined) return refuse(reply, 404, "not_found", "No such sandbox.")
  reply.hijack()
  const response = reply.raw
  response.writeHead(200, {
    ...reply.getHeaders() as Record<string, string>,
    "content-type": "text/event-stream; charset=utf-8",
    "x-accel-buffering": "no"
  })
  const transient = (type: string, data: unknown) =>
    `data: ${JSON.stringify({ object: "sandbox.event", version: "v1", ts: new Date().toISOString(), sandbox_id: id, type, data })}\n\n`
  response.write(
    "retry: 2000\n\n" +
      transient("snapshot", { sandbox: toResource(row), turn: null, resume_cursor: row.lastSeq, pending_approvals: row.approvals }) +
      transient("sandbox.status", { status: row.status })
  )
  const all = watched.get(id) ?? { readers: new Set(), cursor: Number(row.lastSeq), reading: false, again: false }
  watched.set(id, all)
  all.readers.add(response)
  const heartbeat = setInterval(() => response.write(": hb\n\n"), 15_000)
  response.once("close", () => {
    clearInterval(heartbeat)
    all.readers.delete(response)
    if (all.readers.size === 0) watched.delete(id)
  })
  return reply
})

const commit = async (id: string): Promise<Protocol.Committed> => {
  const usage = JSON.stringify({ llmRequestCount: 1, costMicroUsd: 1, creditsChargedMicros: 0 })
  const client: PoolClient = await pool.connect()
  try {
    await client.query("BEGIN")
    const { rows: [row] } = await client.query<Row>({ ...LOCK, values: [id] })
    const seq = Number(row?.lastSeq) + 1
    const at = new Date().toISOString()
    const wire = JSON.stringify({
      object: "sandbox.event",
      version: "v1",
      id: String(seq),
      ts: at,
      sandbox_id: id,
      type: "usage.updated",
      data: { usage: JSON.parse(usage) }
    })
    await client.query({ ...APPEND, values: [id, at, JSON.stringify([{ seq, type: "usage.updated", part: "usage", wire }]), usage, seq] })
    await client.query("COMMIT")
    const committed = { seq, at: Protocol.now() }
    publish(id)
    return committed
  } finally {
    client.release()
  }
}

const address = await app.listen({ host: "127.0.0.1", port: 0 })
Protocol.answer(async (ask) => {
  switch (ask._tag) {
    case "Cpu":
      return Protocol.cpu()
    case "Commit":
      return await commit(ask.sandboxId)
    default:
      throw new Error(`a server cannot ${ask._tag}`)
  }
})
Protocol.ready(Number(new URL(address).port))
