import { assert, describe, expect, it } from "@effect/vitest"
import { Api } from "@slipway/api/Api"
import { PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { SandboxEvent } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { Ajv2020 } from "ajv/dist/2020.js"
import { HttpApi, OpenApi } from "effect/http-api"

interface Schema {
  readonly description?: string
  readonly format?: string
}

interface Document {
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: { readonly schemas: Record<string, any>; readonly headers: Record<string, { readonly required?: boolean }> }
}

interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly security: ReadonlyArray<object>
  readonly responses: Record<string, { readonly description: string; readonly headers?: object; readonly content?: object }>
  readonly parameters: ReadonlyArray<{ readonly name: string; readonly description?: string; readonly schema: object }>
}
const document: Document = JSON.parse(JSON.stringify(OpenApi.fromApi(Api)))

const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation }))
)

const everywhere = [400, 401, 403, 405, 429, 500, 503]
/** Statuses by operation (docs/decisions/1). */
const statuses: Record<string, ReadonlyArray<number>> = {
  createSandbox: [201, 200, 402, 404, 409, 413, 415],
  listSandboxes: [200],
  getSandbox: [200, 404],
  getSetup: [200, 404],
  terminateSandbox: [200, 404, 413, 415],
  interruptTurn: [200, 404, 413, 415],
  restoreCheckpoint: [200, 404, 409, 413, 415],
  syncSandbox: [200, 404, 409, 413, 415],
  forkSandbox: [201, 200, 402, 404, 409, 413, 415],
  decideApproval: [200, 404, 409, 413, 415],
  answerQuestion: [200, 404, 413, 415],
  sendMessage: [201, 200, 402, 404, 409, 413, 415],
  cancelMessage: [200, 404, 409],
  listMessages: [200, 404],
  listCheckpoints: [200, 404],
  listEvents: [200, 404, 410],
  streamEvents: [200, 204, 404, 410],
  listFiles: [200, 404, 409],
  downloadFile: [200, 404, 409, 413],
  getFileContent: [200, 404, 409, 413],
  diffFiles: [200, 404, 409, 413],
  uploadFile: [201, 409, 413, 415],
  getFile: [200, 404],
  listArtifacts: [200, 404],
  getArtifact: [200, 404],
  getFileBytes: [200, 404],
  requestChanges: [200, 402, 404, 409, 413, 415, 502],
  resumeFeedback: [200, 404],
  publishPullRequest: [200, 404, 409, 413, 415, 502],
  getPullRequest: [200, 404],
  listPartnerEvents: [200],
  getMetrics: [200]
}

describe("the OpenAPI document", () => {
  it("is the committed one; `vitest -u` writes it anew", async () => {
    await expect(`${JSON.stringify(document, null, 2)}\n`).toMatchFileSnapshot("../openapi.json")
  })

  it("names every status an operation answers with", () => {
    const found = Object.fromEntries(
      operations.filter(({ path }) => !path.endsWith("z")).map(({ operation }) => [
        operation.operationId,
        Object.keys(operation.responses).map(Number).sort()
      ])
    )
    const expected = Object.fromEntries(
      Object.entries(statuses).map(([operation, own]) => [operation, [...new Set([...own, ...everywhere])].sort()])
    )
    assert.deepStrictEqual(found, expected)
  })

  it("describes every operation, parameter and response, and every one but those of health needs a key", () => {
    for (const { operation, path } of operations) {
      assert.ok(operation.summary && operation.description, operation.operationId)
      for (const { description, name } of operation.parameters) assert.ok(description, `${operation.operationId} ${name}`)
      for (const { description } of Object.values(operation.responses)) assert.notMatch(description, /^(?:Error|Success|)$/u)
      assert.deepStrictEqual(operation.security, path.endsWith("z") ? [] : [{ apiKey: [] }])
    }
  })

  it("has one schema for all errors, and tells their headers", () => {
    for (const { operation } of operations) {
      for (const [status, { content, headers }] of Object.entries(operation.responses)) {
        if (Number(status) < 400) continue
        assert.deepStrictEqual(content, { "application/json": { schema: { $ref: "#/components/schemas/Error" } } })
        assert.ok(headers !== undefined && "X-Request-Id" in headers)
        assert.strictEqual(
          "Retry-After" in headers,
          status === "429" || status === "503" ||
            status === "409" && /agent_disconnected/u.test(JSON.stringify(operation.responses[status]))
        )
        const scoped = /insufficient_scope/u.test(JSON.stringify(operation.responses[status]))
        assert.strictEqual("WWW-Authenticate" in headers, status === "401" || scoped)
      }
    }
  })

  it("has every component it refers to, and refers to every component", () => {
    const text = JSON.stringify(document)
    const used = new Set(text.match(/#\/components\/schemas\/\w+/gu) ?? [])
    assert.sameMembers([...used].map((ref) => ref.split("/").at(-1)), Object.keys(document.components.schemas))
  })

  it("describes every property, and gives an example of every schema that fits it", () => {
    const bare: Array<string> = []
    const look = (value: unknown, path: string): void => {
      if (typeof value !== "object" || value === null) return
      for (const [name, member] of Object.entries(value)) {
        if (name === "examples") continue
        if (name === "properties") {
          for (const [property, schema] of Object.entries(member)) if (!(schema as Schema).description) bare.push(`${path}.${property}`)
        }
        look(member, `${path}.${name}`)
      }
    }
    look(document.components.schemas, "")
    assert.deepStrictEqual(bare, [])
    const ajv = new Ajv2020({ strict: false, validateFormats: false })
    ajv.addSchema(document, "document")
    for (const [name, { examples }] of Object.entries(document.components.schemas)) {
      assert.isNotEmpty(examples ?? [], name)
      const fits = ajv.compile({ $ref: `document#/components/schemas/${name}` })
      for (const example of examples) assert.isTrue(fits(example), `${name}: ${ajv.errorsText(fits.errors)}`)
    }
  })

  it("has one schema for each type of event, told apart by it", () => {
    const { schemas } = document.components
    const types = (union: string) => {
      const { discriminator, oneOf } = schemas[union]
      assert.strictEqual(discriminator.propertyName, "type")
      assert.deepStrictEqual(oneOf.map(({ $ref }: { $ref: string }) => $ref), Object.values(discriminator.mapping))
      for (const [type, ref] of Object.entries<string>(discriminator.mapping)) {
        const member = schemas[ref.split("/").at(-1) ?? ""]
        assert.deepStrictEqual(member.properties.type.enum, [type])
        assert.includeMembers(member.required, ["type", "data"])
        assert.isNotEmpty(Object.keys(member.properties.data.properties), type)
        // Fields are added over time.
        assert.notInclude(JSON.stringify(member), "\"additionalProperties\":false")
      }
      return Object.keys(discriminator.mapping)
    }
    assert.sameMembers(types("SandboxEventEnvelope"), [...SandboxEvent.members.map(({ fields }) => fields.type.literal), "snapshot",
      "stream.resync"])
    assert.sameMembers(types("PartnerEvent"), PartnerFact.members.map(({ fields }) => fields.type.literal))
    const stream = document.paths["/api/public/v1/sandboxes/{sandboxId}/events/stream"]?.["get"]?.responses["200"]?.content
    assert.deepStrictEqual(stream, { "text/event-stream": { schema: { $ref: "#/components/schemas/SandboxEventEnvelope" } } })
  })

  it("says which headers are always there, which texts are addresses, and what is taken where something is left out", () => {
    const { headers, schemas } = document.components
    for (const [name, header] of Object.entries(headers)) assert.isTrue(header.required, name)
    for (const link of Object.values<Schema>(schemas["Sandbox"].properties.links.properties)) assert.strictEqual(link.format, "uri")
    assert.strictEqual(schemas["CreateSandbox"].properties.toolApprovalMode.default, "auto")
    assert.deepStrictEqual(schemas["CreateSandbox"].properties.metadata.default, {})
  })

  it("states limits and patterns", () => {
    const { schemas } = document.components
    assert.deepInclude(schemas["CreateSandbox"].properties.prompt, { minLength: 1, maxLength: 60_000 })
    assert.deepInclude(schemas["CreateSandbox"].properties.repos, { minItems: 1, maxItems: 16 })
    assert.strictEqual(schemas["CreateSandbox"].additionalProperties, false)
    assert.strictEqual(schemas["Sandbox"].properties.id.pattern, "^c_[a-z2-9]{12}$")
    assert.strictEqual(schemas["RepoRef"].properties.fullName.maxLength, 201)
    const limit = operations.find(({ operation }) => operation.operationId === "listSandboxes")?.operation.parameters.find(({ name }) =>
      name === "limit"
    )
    assert.deepStrictEqual(limit?.schema, { type: "integer", minimum: 1, maximum: 100, default: 100 })
  })

  it("covers every route of the API", () => {
    const routes: Array<string> = []
    HttpApi.reflect(Api, { onGroup: () => {}, onEndpoint: ({ endpoint }) => routes.push(endpoint.identifier) })
    assert.sameMembers(operations.map(({ operation }) => operation.operationId), routes)
  })
})
