/**
 * Adds to the OpenAPI document what schemas cannot express: one error body instead of one per code, headers that
 * every reply has, numbers that travel as digits, descriptions of parameters, and examples.
 */
import type { OpenApi } from "effect/http-api"
import { eventSchemas } from "../schema/EventSchemas.ts"
import { examples } from "./Examples.ts"

type Spec = OpenApi.OpenAPISpec
type Operation = OpenApi.OpenAPISpecOperation
type Response = OpenApi.OpenApiSpecResponse
type Schema = OpenApi.OpenAPISpecParameter["schema"]

const counter = { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER }

const parameters: Record<string, { readonly name?: string; readonly description: string; readonly schema?: Schema }> = {
  sandboxId: { description: "Id of a sandbox of the key's grant." },
  approvalId: { description: "The `approval_id` of an `approval.requested` event." },
  name: { description: "Name of the artifact. A `/` in it is sent as `%2F`." },
  range: { name: "Range", description: "One range of bytes, such as `bytes=0-1023`: answered with 206. Other ranges are ignored." },
  fileId: { description: "Id of an uploaded file of the key's grant." },
  "content-disposition": {
    name: "Content-Disposition",
    description: "Names the file, as in `attachment; filename=\"a.png\"`. Without it the name is `file`."
  },
  questionId: { description: "The `question_id` of a `question.asked` event." },
  messageId: { description: "The `turnId` that sending the message answered." },
  "idempotency-key": {
    name: "Idempotency-Key",
    description: "Chosen by the caller, 1 to 255 printable ASCII characters. Repeating a request under its key does nothing twice."
  },
  "last-event-id": {
    name: "Last-Event-ID",
    description: "Resumes after this event. Wins over `since`.",
    schema: { type: "string", pattern: "^\\d+$" }
  },
  since: { description: "Resumes after this event; 0 is the beginning.", schema: counter },
  limit: { description: "Most items of a page.", schema: { type: "integer", minimum: 1, maximum: 100, default: 100 } },
  status: { description: "Only sandboxes with this status." },
  directory: { description: "Relative to the repository; the root when it is empty or left out." },
  path: { description: "Relative to the repository." },
  repo: { description: "A repository, `owner/name`, whatever the case." },
  after: { description: "The `nextCursor` of the page before." },
  from: { description: "What to begin with: `base`, the tree as the sandbox found it, `working`, or the number of a checkpoint." },
  to: { description: "What to end with: `working`, the tree as it is, `base`, or the number of a checkpoint." },
  "path diffFiles": { description: "A file or a folder, relative to the repository. Left out: all of it." },
  "after listEvents": { description: "Only events after this one; 0 is the beginning.", schema: { ...counter, default: 0 } },
  "after listPartnerEvents": { description: "The `sequence` of the last event that was processed.", schema: { ...counter, default: 0 } },
  "after listMessages": { description: "The `nextCursor` of the page before.", schema: { ...counter, default: 0 } },
  "repo listSandboxes": { description: "Only sandboxes with this repository, `owner/name`, whatever the case." }
}

const described = {
  "X-Request-Id": {
    description: "Names this reply in the service's logs.",
    schema: { type: "string", pattern: "^req_[0-9A-HJKMNP-TV-Z]{26}$" }
  },
  RateLimit: {
    description:
      "Requests left, and seconds until there are more: to the key, to its user with all keys, or to its grant, whichever has the fewest.",
    schema: { type: "string" },
    example: `"default";r=119;t=60`
  },
  "RateLimit-Policy": {
    description: "Requests a key may make, and in how many seconds.",
    schema: { type: "string" },
    example: `"default";q=120;w=60`
  },
  "Retry-After": { description: "Seconds after which a retry may succeed.", schema: { type: "integer", minimum: 1 } },
  "WWW-Authenticate": { description: "A Bearer challenge.", schema: { type: "string" } },
  Allow: { description: "The methods this address answers to.", schema: { type: "string" } },
  Location: { description: "Address of the sandbox.", schema: { type: "string", format: "uri" } },
  "Idempotent-Replayed": {
    description: "The request was carried out before, under the same key.",
    schema: { type: "string", const: "true" }
  },
  "Content-Disposition": { description: "`attachment`, with the file's name.", schema: { type: "string" } },
  "Content-Length": { description: "Bytes of the file.", schema: { type: "integer", minimum: 0 } },
  ETag: { description: "The SHA-256 of the file, quoted.", schema: { type: "string" } }
}

/** Where a reply refers to one of them, it is always there. */
const headers = Object.fromEntries(Object.entries(described).map(([name, header]) => [name, { ...header, required: true }]))

const ofStatus: Record<string, ReadonlyArray<keyof typeof described>> = {
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
  "uploadFile 201": "The file is stored.",
  "downloadFile 200": "The file.",
  "getFileBytes 200": "The file.",
  "getArtifact 200": "The file.",
  "diffFiles 200": "The patch, as git writes them; empty: nothing differs."
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
  // Where one code of several has a header, it may be missing.
  const sometimes = codes.includes("agent_disconnected") ?
    { "Retry-After": described["Retry-After"] }
    : codes.includes("insufficient_scope") ?
    { "WWW-Authenticate": described["WWW-Authenticate"] }
    : {}
  return {
    description: codes.map((code) => `\`${code}\``).join(", "),
    headers: { ...referTo(["X-Request-Id", ...ofStatus[status] ?? []]), ...sometimes },
    content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } }
  }
}

const referTo = (names: ReadonlyArray<keyof typeof described>) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))

const canonical = new Map(Object.keys(described).map((name) => [name.toLowerCase(), name as keyof typeof described]))

const tidyOperation = (operation: Operation, schemas: Spec["components"]["schemas"]) => {
  const rates = operation.security.length > 0 ? ["RateLimit", "RateLimit-Policy"] as const : []
  return {
    ...operation,
    parameters: operation.parameters.map((parameter) => {
      const known = parameters[`${parameter.name} ${operation.operationId}`] ?? parameters[parameter.name]
      return { ...parameter, ...known }
    }),
    ...(operation.operationId === "publishPullRequest" ? { requestBody: { ...operation.requestBody, required: false } } : {}),
    responses: Object.fromEntries(
      Object.entries(operation.responses).map(([status, response]) => {
        if (Number(status) >= 400) return [status, refusalOf(status, response, schemas)]
        const own = Object.keys(response.headers ?? {}).flatMap((name) => canonical.get(name) ?? [])
        return [status, {
          description: successes[response.description] ?? successes[`${operation.operationId} ${status}`] ?? "What was asked for.",
          headers: referTo(["X-Request-Id", ...rates, ...own]),
          ...(response.content === undefined ? {} : {
            content: Object.fromEntries(
              Object.entries(response.content).map(([type, { schema }]) => [
                type,
                { schema: type === "text/event-stream" ? { $ref: "#/components/schemas/SandboxEventEnvelope" } : schema }
              ])
            )
          })
        }]
      })
    )
  }
}

const errorSchema = {
  type: "object",
  description: "The body of every error.",
  properties: {
    error: {
      type: "object",
      description: "What is wrong.",
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

/** `credit_claim.created` → `CreditClaimCreatedEvent`. */
const nameOf = (type: string) => `${type.split(/[._]/u).map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")}Event`

/**
 * A schema for each type of event, and their union by `type`. Readers must ignore unknown fields and types, so no schema is closed.
 */
const byType = (name: string, description: string, members: ReadonlyArray<object>): ReadonlyArray<readonly [string, object]> => {
  const named = members.map((member) => {
    const type: string = (member as { properties: { type: { enum: [string] } } }).properties.type.enum[0]
    return [type, nameOf(type), open(member)] as const
  })
  const refs = named.map(([type, schema]) => [type, `#/components/schemas/${schema}`] as const)
  const union = {
    description,
    oneOf: refs.map(([, $ref]) => ({ $ref })),
    discriminator: { propertyName: "type", mapping: Object.fromEntries(refs) }
  }
  return [[name, union], ...named.map(([, schema, member]) => [schema, member] as const)]
}

const open = (schema: object): object =>
  JSON.parse(JSON.stringify(schema, (key, value) => key === "additionalProperties" && value === false ? undefined : value))

/** Moves the description of a property out of its `allOf`, to where every tool looks for it. */
const flat = (_key: string, value: unknown): unknown => {
  if (typeof value !== "object" || value === null || !("allOf" in value) || !Array.isArray(value.allOf)) return value
  const { allOf, ...rest } = value
  const parts: ReadonlyArray<object> = [rest, ...allOf]
  const keys = parts.flatMap((part) => Object.keys(part))
  return new Set(keys).size === keys.length ? Object.assign({}, ...allOf, rest) : value
}

/** Completes the generated document with everything that the schemas cannot express. */
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
  const kept = Object.entries({ ...schemas, Error: errorSchema, TimestampEncoded: timestamp }).flatMap(
    ([name, schema]): ReadonlyArray<readonly [string, object]> => {
      if (name.endsWith("Encoded") && name !== "TimestampEncoded") return []
      if (name === "SandboxEventEnvelope") {
        return byType(name, "An event of a sandbox. Ignore types and fields you do not know.", eventSchemas())
      }
      if (name === "PartnerEvent" && "anyOf" in schema) {
        return byType(name, "An event of the feed. Ignore types and fields you do not know.", schema.anyOf as ReadonlyArray<object>)
      }
      return [[name, schema]]
    }
  )
  const shown = kept.map(([name, schema]) => {
    const example = examples[name.replace(/Encoded$/u, "")]
    return [name, example === undefined ? schema : { ...schema, examples: [example] }]
  })
  const document = { ...spec, paths, components: { ...spec.components, schemas: Object.fromEntries(shown), headers } }
  const text = JSON.stringify(document, flat).replaceAll("/schemas/TimestampEncoded", "/schemas/Timestamp").replace(
    `"TimestampEncoded":`,
    `"Timestamp":`
  )
  return JSON.parse(text)
}
