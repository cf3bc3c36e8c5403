import { assert, describe, it } from "@effect/vitest"
import type { Upstream, UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type IncomingMessage } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import * as CloudCredentials from "../src/credentials/CloudCredentials.ts"
import * as Gateway from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"

const CLIENT = { AZURE_TENANT_ID: "tenant-1", AZURE_CLIENT_ID: "client-1" }
const SECRET = "canary~secret.of.entra-0123456789"
const TOKEN = "eyJ0.canary-token-of-entra.0123456789"
const RESOURCE = "https://cognitiveservices.azure.com"

/** Microsoft Entra and the metadata of a machine: a token for each right request, and OAuth's error for others. */
const entra = Effect.gen(function*() {
  const asked: Array<string> = []
  const isRight = ({ headers, method, url }: IncomingMessage, body: string): boolean => {
    const form = new URLSearchParams(body)
    if (method === "POST") {
      const isProven = form.get("client_secret") === SECRET || form.get("client_assertion") === "assertion-of-kubernetes"
          && form.get("client_assertion_type") === "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
      return url === "/tenant-1/oauth2/v2.0/token" && form.get("grant_type") === "client_credentials" &&
        form.get("client_id") === "client-1"
        && form.get("scope") === `${RESOURCE}/.default` && isProven
    }
    const { pathname, searchParams } = new URL(url ?? "/", "http://entra")
    const isMetadata = pathname === "/metadata/identity/oauth2/token" && headers["metadata"] === "true"
      && searchParams.get("api-version") === "2018-02-01"
    const isService = pathname === "/msi/token" && headers["x-identity-header"] === SECRET &&
      searchParams.get("api-version") === "2019-08-01"
    return (isMetadata || isService) && searchParams.get("resource") === RESOURCE
  }
  const server = createServer((request, response) => {
    let body = ""
    request.on("data", (chunk: Buffer) => body += chunk.toString())
    request.on("end", () => {
      asked.push(request.url ?? "")
      if (request.url?.startsWith("/moved") === true) return response.writeHead(307, { location: "/tenant-1/oauth2/v2.0/token" }).end()
      const answer = isRight(request, body)
        ? { access_token: TOKEN, token_type: "Bearer", expires_in: 3600 }
        : { error: "invalid_client", error_description: "canary words of Microsoft" }
      response.writeHead("error" in answer ? 401 : 200, { "content-type": "application/json" }).end(JSON.stringify(answer))
    })
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
})

const upstreamAt = (provider: Provider.Provider, protocol: UpstreamProtocol, at: string, more: Partial<Upstream> = {}) =>
  Gateway.upstreamOf(protocol, `${provider.baseUrl.replace(/\/v1$/u, "")}${at}`, { auth: "azure", keyVariable: null, ...more })

const PATHS = { "openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses", "anthropic-messages": "/v1/messages" } as const
const asking = { model: "any", max_tokens: 10, messages: [{ role: "user", content: "Hi" }], input: "Hi" }

describe("a request to Foundry", () => {
  it.effect.each<readonly [UpstreamProtocol, string, Partial<Upstream>, string, string]>([
    ["openai-chat", "/openai/v1", {}, "/openai/v1/chat/completions", "api-key"],
    ["openai-responses", "/openai/v1", {}, "/openai/v1/responses", "api-key"],
    ["anthropic-messages", "/anthropic/v1", {}, "/anthropic/v1/messages", "x-api-key"],
    [
      "openai-chat",
      "/openai/deployments/gpt",
      { apiVersion: "2024-10-21" },
      "/openai/deployments/gpt/chat/completions?api-version=2024-10-21",
      "api-key"
    ]
  ])("in %s at %s has Azure's address, and the key in its header", ([protocol, at, more, url, header]) =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access } = yield* Gateway.open(upstreamAt(provider, protocol, at, { keyVariable: "PROVIDER_KEY", ...more }))
      yield* Provider.ask(access, `${PATHS[protocol]}?beta=true`, asking)
      const asked = provider.asked[0] ?? assert.fail("nothing was asked")
      assert.deepStrictEqual([asked.url, asked.headers[header], asked.headers.authorization], [url, Gateway.KEY, undefined])
      assert.strictEqual(asked.body.model, "the-model")
    }).pipe(Effect.scoped, Effect.provide(Gateway.layer())))
})

describe("a token of Entra", () => {
  const folder = Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-azure-"))),
    (made) => Effect.sync(() => rmSync(made, { recursive: true }))
  )

  /** The request that reaches the provider, and the account after it. */
  const asked = (variables: Readonly<Record<string, string>>) =>
    Effect.gen(function*() {
      const provider = yield* Provider.start
      const { access, account } = yield* Gateway.open(upstreamAt(provider, "anthropic-messages", "/anthropic/v1"))
      const reply = yield* Provider.ask(access, "/v1/messages", asking)
      return { reply, authorization: provider.asked[0]?.headers.authorization, account: yield* account }
    }).pipe(Effect.provide(Gateway.layer({ clouds: CloudCredentials.ofEnvironment(variables) })))

  it.effect("comes by the client's secret, a federated token, the machine's metadata, or App Service", () =>
    Effect.gen(function*() {
      const { url } = yield* entra
      const file = path.join(yield* folder, "token")
      writeFileSync(file, "assertion-of-kubernetes\n")
      const ways: ReadonlyArray<Readonly<Record<string, string>>> = [
        { ...CLIENT, AZURE_AUTHORITY_HOST: `${url}/`, AZURE_CLIENT_SECRET: SECRET },
        { ...CLIENT, AZURE_AUTHORITY_HOST: url, AZURE_FEDERATED_TOKEN_FILE: file },
        { AZURE_POD_IDENTITY_AUTHORITY_HOST: url },
        { IDENTITY_ENDPOINT: `${url}/msi/token`, IDENTITY_HEADER: SECRET }
      ]
      for (const variables of ways) assert.strictEqual((yield* asked(variables)).authorization, `Bearer ${TOKEN}`)
    }).pipe(Effect.scoped))

  it.effect("that is refused is explained without Microsoft's words, and nothing is sent or charged", () =>
    Effect.gen(function*() {
      const { url } = yield* entra
      const { account, authorization, reply } = yield* asked({
        ...CLIENT,
        AZURE_AUTHORITY_HOST: url,
        AZURE_CLIENT_SECRET: "canary-of-a-wrong-secret"
      })
      assert.deepStrictEqual([reply.status, authorization, account.usage.llmRequestCount], [503, undefined, 0])
      assert.include(account.trouble?.message, "There is no token of Microsoft Entra (invalid_client)")
      assert.notInclude(`${reply.text}${account.trouble?.message}`, "canary")
    }).pipe(Effect.scoped))

  it.effect("is not asked for at an address that its source redirects to", () =>
    Effect.gen(function*() {
      const { asked: came, url } = yield* entra
      const { reply } = yield* asked({ ...CLIENT, AZURE_AUTHORITY_HOST: `${url}/moved`, AZURE_CLIENT_SECRET: SECRET })
      assert.strictEqual(reply.status, 503)
      assert.deepStrictEqual(came, ["/moved/tenant-1/oauth2/v2.0/token"])
    }).pipe(Effect.scoped))
})
