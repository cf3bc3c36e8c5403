/**
 * What the schemas cannot say of themselves in the OpenAPI document: one error body instead of one per code, headers that
 * every reply has, numbers that travel as digits, descriptions of parameters, and examples.
 */
import type { OpenApi } from "effect/http-api"

type Spec = OpenApi.OpenAPISpec
type Operation = OpenApi.OpenAPISpecOperation
type Response = OpenApi.OpenApiSpecResponse
type Schema = OpenApi.OpenAPISpecParameter["schema"]

const counter = { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER }

const parameters: Record<string, { readonly name?: string; readonly description: string; readonly schema?: Schema }> = {
  sandboxId: { description: "Id of a sandbox of the key's grant." },
  approvalId: { description: "The `approval_id` of an `approval.requested` event." },
  "idempotency-key": {
    name: "Idempotency-Key",
    description: "Chosen by the caller, 1 to 255 printable ASCII characters. Repeating a request under its key does nothing twice."
  },
  "last-event-id": { name: "Last-Event-ID", description: "Resumes after this event. Wins over `since`.", schema: { type: "string", pattern: "^\\d+$" } },
  since: { description: "Resumes after this event; 0 is the beginning.", schema: counter },
  limit: { description: "Most items of a page.", schema: { type: "integer", minimum: 1, maximum: 100, default: 100 } },
  status: { description: "Only sandboxes with this status." },
  directory: { description: "Relative to the repository; the root when it is empty or left out." },
  path: { description: "Relative to the repository." },
  repo: { description: "A repository, `owner/name`, whatever the case." },
  after: { description: "The `nextCursor` of the page before." },
  "after listEvents": { description: "Only events after this one; 0 is the beginning.", schema: { ...counter, default: 0 } },
  "after listPartnerEvents": { description: "The `sequence` of the last event that was processed.", schema: { ...counter, default: 0 } },
  "after listMessages": { description: "The `nextCursor` of the page before.", schema: { ...counter, default: 0 } },
  "repo listSandboxes": { description: "Only sandboxes with this repository, `owner/name`, whatever the case." }
}

const headers = {
  "X-Request-Id": { description: "Names this reply in the service's logs.", schema: { type: "string", pattern: "^req_[0-9A-HJKMNP-TV-Z]{26}$" } },
  RateLimit: { description: "Requests left to the key, and seconds until there are more.", schema: { type: "string" }, example: `"default";r=119;t=60` },
  "RateLimit-Policy": { description: "Requests a key may make, and in how many seconds.", schema: { type: "string" }, example: `"default";q=120;w=60` },
  "Retry-After": { description: "Seconds after which a retry may succeed.", schema: { type: "integer", minimum: 1 } },
  "WWW-Authenticate": { description: "A Bearer challenge.", schema: { type: "string" } },
  Allow: { description: "The methods this address answers to.", schema: { type: "string" } },
  Location: { description: "Address of the sandbox.", schema: { type: "string", format: "uri" } },
  "Idempotent-Replayed": { description: "The request was carried out before, under the same key.", schema: { type: "string", const: "true" } },
  "Content-Disposition": { description: "`attachment`, with the file's name.", schema: { type: "string" } },
  "Content-Length": { description: "Bytes of the file.", schema: { type: "integer", minimum: 0 } }
}

const ofStatus: Record<string, ReadonlyArray<keyof typeof headers>> = {
  401: ["WWW-Authenticate"],
  405: ["Allow"],
  429: ["Retry-After"],
  503: ["Retry-After"]
}

const successes: Record<string, string> = {
  SandboxCreated: "Accepted. The sandbox boots on its own.",
  SandboxReplayed: "An equal creation was accepted under the same key before. The sandbox as it is now.",
  MessageSent: "Accepted.",
  MessageSentBefore: "An equal message was accepted under the same key before.",
  CommandResult: "What became of the command. It is durable.",
  "streamEvents 200": "The stream.",
  "streamEvents 204": "The sandbox is finished and everything was read: do not connect again.",
  "downloadFile 200": "The file."
}

const sandbox = {
  id: "c_k3v9p2m7x4qa",
  worktreeId: "w_k3v9p2m7x4qa",
  object: "sandbox",
  status: "queued",
  title: "Fix the flaky checkout test",
  repos: [{ fullName: "acme/shop", ref: "main" }],
  model: "offline/demo",
  agentRuntime: "opencode",
  turn: { active: false },
  usage: { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 },
  metadata: { ticket: "SHOP-42" },
  error: null,
  createdAt: "2026-11-21T02:41:00.123Z",
  startedAt: null,
  completedAt: null,
  links: {
    self: "https://slipway.example/api/public/v1/sandboxes/c_k3v9p2m7x4qa",
    events: "https://slipway.example/api/public/v1/sandboxes/c_k3v9p2m7x4qa/events",
    messages: "https://slipway.example/api/public/v1/sandboxes/c_k3v9p2m7x4qa/messages"
  }
}

const examples: Record<string, unknown> = {
  Sandbox: sandbox,
  CreateSandbox: {
    repos: [{ fullName: "acme/shop", ref: "main" }],
    prompt: "Fix the flaky checkout test.",
    metadata: { ticket: "SHOP-42" }
  },
  ApprovalDecision: { decision: "approve" },
  SendMessage: { prompt: "Now add a test for the empty cart." },
  PublishPullRequest: { repo: "acme/shop" },
  CommandResult: { commandId: "4b5a1f0e-6f0b-5a52-9d0c-0a6a3c0f2f11", revision: 4, outcome: "applied" },
  SandboxEventEnvelope: {
    object: "sandbox.event",
    version: "v1",
    id: "7",
    ts: "2026-11-21T02:41:03.004Z",
    sandbox_id: sandbox.id,
    type: "turn.completed",
    turn_id: "0f8c9d0e-9d1b-5a3e-8c55-2f3d5b1c7a10",
    data: { state: "succeeded" }
  },
  Error: { error: { code: "invalid_request", message: "repos[0].fullName: owner/name expected" } }
}

/** Every code a response may carry, in the order of the schemas. */
const codesIn = (schema: unknown, schemas: Spec["components"]["schemas"]): ReadonlyArray<string> => {
  if (typeof schema !== "object" || schema === null) return []
  if ("$ref" in schema) return codesIn(schemas[String(schema.$ref).split("/").at(-1) ?? ""], schemas)
  if ("anyOf" in schema && Array.isArray(schema.anyOf)) return schema.anyOf.flatMap((member) => codesIn(member, schemas))
  return /"code":\{"type":"string","enum":\["(\w+)"\]/u.exec(JSON.stringify(schema))?.slice(1) ?? []
}

const refusalOf = (status: string, response: Response, schemas: Spec["components"]["schemas"]) => {
  const codes = [...new Set(codesIn(response.content?.["application/json"]?.schema, schemas))]
  const names = codes.includes("agent_disconnected") ? ["Retry-After" as const] : ofStatus[status] ?? []
  return {
    description: codes.map((code) => `\`${code}\``).join(", "),
    headers: referTo(["X-Request-Id", ...names]),
    content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } }
  }
}

const referTo = (names: ReadonlyArray<keyof typeof headers>) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))

const canonical = new Map(Object.keys(headers).map((name) => [name.toLowerCase(), name as keyof typeof headers]))

const tidyOperation = (operation: Operation, schemas: Spec["components"]["schemas"]) => {
  const rates = operation.security.length > 0 ? ["RateLimit", "RateLimit-Policy"] as const : []
  return {
    ...operation,
    parameters: operation.parameters.map((parameter) => {
      const known = parameters[`${parameter.name} ${operation.operationId}`] ?? parameters[parameter.name]
      return { ...parameter, ...known }
    }),
    ...(operation.operationId === "publishPullRequest" ? { requestBody: { ...operation.requestBody, required: false } } : {}),
    responses: Object.fromEntries(Object.entries(operation.responses).map(([status, response]) => {
      if (Number(status) >= 400) return [status, refusalOf(status, response, schemas)]
      const own = Object.keys(response.headers ?? {}).flatMap((name) => canonical.get(name) ?? [])
      return [status, {
        description: successes[response.description] ?? successes[`${operation.operationId} ${status}`] ?? "What was asked for.",
        headers: referTo(["X-Request-Id", ...rates, ...own]),
        ...(response.content === undefined ? {} : {
          content: Object.fromEntries(
            Object.entries(response.content).map(([type, { schema }]) => [
              type,
              { schema: type === "text/event-stream" ? { type: "string" } : schema }
            ])
          )
        })
      }]
    }))
  }
}

const errorSchema = {
  type: "object",
  description: "The body of every error.",
  properties: {
    error: {
      type: "object",
      properties: {
        code: { type: "string", description: "For programs. The codes of a status are listed with it; codes may be added." },
        message: { type: "string", description: "For people." }
      },
      required: ["code", "message"],
      additionalProperties: false
    }
  },
  required: ["error"],
  additionalProperties: false
}

const timestamp = { type: "string", format: "date-time", description: "UTC, with exactly three fraction digits." }

export const tidy = (spec: Spec): Spec => {
  const { schemas } = spec.components
  const paths = Object.fromEntries(
    Object.entries(spec.paths).map(([path, item]) => [
      path,
      Object.fromEntries(
        Object.entries(item).map(([method, operation]) => [method, tidyOperation(operation as Operation, schemas)])
      )
    ])
  )
  const kept = Object.entries({ ...schemas, Error: errorSchema, TimestampEncoded: timestamp }).flatMap(([name, schema]) =>
    name.endsWith("Encoded") && name !== "TimestampEncoded"
      ? []
      : [[name, name in examples ? { ...schema, examples: [examples[name]] } : schema] as const]
  )
  const document = { ...spec, paths, components: { ...spec.components, schemas: Object.fromEntries(kept), headers } }
  const text = JSON.stringify(document).replaceAll("/schemas/TimestampEncoded", "/schemas/Timestamp").replace(`"TimestampEncoded":`, `"Timestamp":`)
  return JSON.parse(text)
}
