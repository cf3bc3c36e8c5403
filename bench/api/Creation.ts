/** The creation of a sandbox as somebody would write it by hand: one statement, what it writes as ours writes it. */
import { createHash, randomBytes, randomUUID } from "node:crypto"
import type { Creator } from "./Protocol.ts"

export interface Body {
  readonly repos: ReadonlyArray<{ readonly fullName: string; readonly ref?: string }>
  readonly prompt: string
  readonly title?: string
  readonly toolApprovalMode?: string
  readonly metadata?: Record<string, string>
}

const ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz23456789"
const sandboxId = (): string => {
  let text = "c_"
  while (text.length < 14) for (const byte of randomBytes(16)) if (byte < 238 && text.length < 14) text += ID_ALPHABET.charAt(byte % 34)
  return text
}

const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`
  if (value === null || typeof value !== "object") return JSON.stringify(value)
  const members = Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(",")}}`
}

const NO_USAGE = { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }

const CREATE = `
  WITH bound AS (
    INSERT INTO idempotency_keys AS known (grant_id, route, key, fingerprint, sandbox_id, command_id)
    VALUES ($1, 'sandboxes', $2, $3, $4, NULL)
    ON CONFLICT (grant_id, route, key) DO UPDATE SET
      fingerprint = excluded.fingerprint, sandbox_id = excluded.sandbox_id, command_id = excluded.command_id, created_at = now()
    WHERE known.created_at < now() - make_interval(days => 30) RETURNING 1
  ), made AS (
    INSERT INTO sandboxes (
      id, grant_id, created_by, created_at, title, repos, repo_names, prompt, model, agent_runtime, reasoning_effort,
      tool_approval_mode, metadata, origin, status, initiator, status_at, approvals, publications, usage, revision, last_seq,
      log_bytes, deadline_at, work, work_since, work_seq
    )
    SELECT $4, $1::uuid, $5, $6::timestamptz, $7, $8::jsonb, $9::text[], $10, $11, $12, NULL, $13, $14::jsonb, NULL, 'queued', 'user',
      $6::timestamptz, '[]'::jsonb, '[]'::jsonb, $15::jsonb, 1, 1, octet_length($17), $16::timestamptz, 'boot', now(), 1
    FROM bound RETURNING id
  ), logged AS (
    INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
    SELECT made.id, 1, $6::timestamptz, 'sandbox.status', NULL, $17 FROM made
  )
  SELECT start_task(id, $5, $18, $19, $6::timestamptz, $20) FROM made`

/** The row as it will be, and the statement that makes it; the statement answers no row if the key is bound already. */
export const of = ({ grantId, organizationId, userId }: Creator, body: Body, key: string | null) => {
  const { metadata = {}, prompt, repos, toolApprovalMode = "auto" } = body
  const fingerprint = createHash("sha256").update(canonical({ ...body, metadata, toolApprovalMode })).digest("hex")
  const id = sandboxId()
  const createdAt = new Date()
  const at = createdAt.toISOString()
  const title = body.title ??
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
  const row = {
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
  }
  const values = [
    grantId,
    key ?? randomUUID(),
    `1:${fingerprint}`,
    id,
    userId,
    at,
    title,
    JSON.stringify(repos),
    repos.map(({ fullName }) => fullName.toLowerCase()),
    prompt,
    row.model,
    row.agentRuntime,
    toolApprovalMode,
    JSON.stringify(metadata),
    JSON.stringify(NO_USAGE),
    new Date(createdAt.getTime() + 3_600_000).toISOString(),
    wire,
    organizationId,
    repos[0]?.fullName ?? "",
    randomUUID()
  ]
  return { row, statement: { name: "create", text: CREATE, values } }
}
