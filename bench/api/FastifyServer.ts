/**
 * The server that Slipway is compared with: the same statements, answers and headers as somebody would write them by hand, with Fastify and
 * `pg`. It validates bodies and serializes answers by JSON schema and prepares its statements. It leaves out everything that the measured
 * requests do not need.
 */
import fastify, { type FastifyReply, type FastifyRequest } from "fastify"
import { createHash, randomBytes } from "node:crypto"
import { crc32 } from "node:zlib"
import { Pool } from "pg"
import * as Creation from "./Creation.ts"
import * as Notify from "./Notify.ts"
import * as Protocol from "./Protocol.ts"

const { databaseUrl, publicUrl, requestsPerMinute, requestsPerTenant } = Protocol.options<Protocol.ServerOptions>()

const pool = new Pool({
  connectionString: databaseUrl,
  max: 10,
  options: "-c search_path=slipway -c TimeZone=UTC -c lock_timeout=5s -c statement_timeout=30s"
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
interface Admission {
  readonly organizationId: string
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

const publish = Notify.by((topics) => pool.query({ name: "notify", text: "SELECT pg_notify('slipway_bench', $1)", values: [topics] }))

app.post<{ Body: Creation.Body }>(
  "/api/public/v1/sandboxes",
  { schema: { body: BODY, response: { 201: SANDBOX } } },
  async (request, reply) => {
    const key = request.headers["idempotency-key"]
    const creation = Creation.of(by(request), request.body, typeof key === "string" ? key : null)
    const { rows } = await pool.query(creation.statement)
    if (rows.length === 0) return refuse(reply, 409, "idempotency_conflict", "This Idempotency-Key was already used.")
    publish(creation.row.id)
    reply.code(201).header("location", `${publicUrl}/api/public/v1/sandboxes/${creation.row.id}`)
    return toResource(creation.row)
  }
)

const address = await app.listen({ host: "127.0.0.1", port: 0 })
Protocol.answer(async (ask) => {
  switch (ask._tag) {
    case "Cpu":
      return Protocol.cpu()
    default:
      throw new Error(`a server cannot ${ask._tag}`)
  }
})
Protocol.ready(Number(new URL(address).port))
