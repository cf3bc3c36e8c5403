/** Models, MCP servers and credentials of clouds in a network whose proxy alone knows the outside. */
import { assert, describe, it } from "@effect/vitest"
import * as CompanyNetwork from "@slipway/machine/testing/CompanyNetwork"
import { Effect, Logger, References } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { text } from "node:stream/consumers"
import * as Aws from "../src/credentials/AwsCredentials.ts"
import * as CloudCredentials from "../src/credentials/CloudCredentials.ts"
import * as Gateway from "../testing/Gateway.ts"
import * as McpAgent from "../testing/McpAgent.ts"
import * as Provider from "../testing/Provider.ts"
import { withVariables } from "../testing/Variables.ts"

const { CANARY } = CompanyNetwork
const PREFIXES = ["AWS_", "AZURE_", "IDENTITY_", "GOOGLE_", "GCE_", "GCLOUD_", "METADATA_"]

const asking = { model: "any", max_tokens: 10, messages: [{ role: "user", content: "Hi" }] }
const upstream = (url: string) => Gateway.upstreamOf("openai-chat", url)

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-clouds-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

/** A file with the text. */
const fileWith = (name: string, content: string) =>
  Effect.map(folder, (made) => {
    const file = path.join(made, name)
    writeFileSync(file, content)
    return file
  })

/** Runs the effect and returns all that is logged meanwhile. */
const logged = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const lines: Array<string> = []
    const logger = Logger.make((entry) => void lines.push(JSON.stringify(entry.message)))
    const result = yield* effect.pipe(
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(References.MinimumLogLevel, "Debug")
    )
    return { result, lines }
  })

describe("a model of the outside", () => {
  it.live("is asked through the proxy, over one connection", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.joined
      const keys: Array<string | undefined> = []
      yield* network.https("model.outside.test", (request, response) => {
        keys.push(request.headers.authorization)
        Provider.json(response, 200, { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } })
      })
      const { access } = yield* Gateway.open(upstream("https://model.outside.test/v1"))
      for (let i = 0; i < 3; i++) {
        const { status, text: said } = yield* Provider.ask(access, "/v1/chat/completions", asking)
        assert.strictEqual(status, 200, said)
      }
      assert.deepStrictEqual(network.asked, ["CONNECT model.outside.test:443"])
      assert.deepStrictEqual(keys, Array.from({ length: 3 }, () => `Bearer ${Gateway.KEY}`))
    }).pipe(Effect.provide(Gateway.layer())))

  it.live("of this machine is asked directly, and by http through the proxy otherwise", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.joined
      const provider = yield* Provider.start
      network.name("plain.outside.test:80", Number(new URL(provider.baseUrl).port))
      for (const url of [provider.baseUrl, "http://plain.outside.test/v1"]) {
        const { access } = yield* Gateway.open(upstream(url))
        assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", asking)).status, 200)
      }
      assert.deepStrictEqual(network.asked, ["POST http://plain.outside.test/v1/chat/completions"])
      assert.notProperty(provider.asked[1]?.headers ?? {}, "proxy-authorization")
    }).pipe(Effect.provide(Gateway.layer())))

  it.live("behind a proxy that refuses gives the agent an error and the operator the reason, without the password", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.joined
      network.behave(407)
      const asked = Effect.gen(function*() {
        const { access, account } = yield* Gateway.open(upstream("https://model.outside.test/v1"))
        return [yield* Provider.ask(access, "/v1/chat/completions", asking), yield* account] as const
      })
      const { lines, result: [reply, problem] } = yield* logged(asked.pipe(Effect.provide(Gateway.layer())))
      assert.strictEqual(reply.status, 502)
      assert.include(reply.text, "The model's provider cannot be reached.")
      const reason = "The service's proxy refuses the user and the password of its variable, or lacks them (status 407)."
      assert.include(JSON.stringify(problem), reason)
      assert.include(lines.join("\n"), reason)
      assert.notInclude(lines.join("\n") + reply.text + JSON.stringify(problem), CANARY.slice(0, 9))
    }))
})

describe("an MCP server of the outside", () => {
  it.live("is asked through the proxy, which may refuse", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.joined
      yield* network.https("wiki.outside.test", (_, response) => {
        Provider.json(response, 200, { jsonrpc: "2.0", id: 1, result: {} })
      })
      const at = { url: "https://wiki.outside.test/mcp", destination: "wiki.outside.test:443" }
      const agent = yield* McpAgent.open(at, {}, { privates: new Set(), lookup: () => Promise.resolve([]) })
      const { messages } = yield* McpAgent.ask(agent, McpAgent.rpc("ping"))
      assert.deepInclude(messages[0], { result: {} })
      assert.deepStrictEqual(network.asked, ["CONNECT wiki.outside.test:443"])
      network.behave(403)
      assert.include(
        JSON.stringify((yield* McpAgent.ask(agent, McpAgent.rpc("ping"))).messages),
        "The service's proxy does not allow this destination (status 403)."
      )
    }))

  it.live("with a private address is not asked through the proxy either", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.joined
      for (const [url, found] of [["https://wiki.outside.test/", ["10.0.0.1"]], ["https://10.0.0.1/", []]] as const) {
        const agent = yield* McpAgent.open({ url, destination: "" }, {}, { privates: new Set(), lookup: () => Promise.resolve(found) })
        assert.include(JSON.stringify((yield* McpAgent.ask(agent, McpAgent.rpc("ping"))).messages), "It has no public address.")
      }
      assert.deepStrictEqual(network.asked, [])
    }))
})

describe("credentials of a cloud", () => {
  it.live("of AWS come through the proxy, in exchange for a web identity", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.joined
      yield* network.https("sts.eu-west-1.amazonaws.com", (request, response) => {
        text(request).then((body) => {
          const form = new URLSearchParams(body)
          const isRight = form.get("Action") === "AssumeRoleWithWebIdentity" && form.get("WebIdentityToken") === "token-of-kubernetes"
          response.writeHead(isRight ? 200 : 400, { "content-type": "text/xml" }).end(`<AssumeRoleWithWebIdentityResponse
            xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
            <AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>
            <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
            </AssumeRoleWithWebIdentityResponse>`)
        }, () => response.destroy())
      })
      yield* withVariables({
        AWS_SHARED_CREDENTIALS_FILE: "/nonexistent/credentials",
        AWS_CONFIG_FILE: "/nonexistent/config",
        AWS_REGION: "eu-west-1",
        AWS_ROLE_ARN: "arn:aws:iam::123456789012:role/models",
        AWS_WEB_IDENTITY_TOKEN_FILE: yield* fileWith("token", "token-of-kubernetes")
      }, PREFIXES)
      const found = yield* Effect.promise(() => Aws.identity({ ...process.env }, Date.now).cache.get())
      assert.deepStrictEqual(found, { accessKeyId: "ASIAEXAMPLE", secretAccessKey: "secret", sessionToken: "session" })
      assert.deepStrictEqual(network.asked, ["CONNECT sts.eu-west-1.amazonaws.com:443"])
    }))

  it.live("of Google come through the proxy, and those of the machine's metadata directly", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.joined
      yield* network.https("sts.googleapis.com", (_, response) =>
        Provider.json(response, 200, {
          access_token: "ya29.token-0123456789",
          issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
          expires_in: 3600,
          token_type: "Bearer"
        }))
      const metadata = createServer((request, response) => {
        response.setHeader("metadata-flavor", "Google")
        Provider.json(response, 200, request.url?.includes("/token") === true ? { access_token: "ya29.machine", expires_in: 3600 } : {})
      })
      yield* Effect.acquireRelease(
        Effect.callback<void>((resume) => void metadata.listen(0, "127.0.0.1", () => resume(Effect.void))),
        () => Effect.sync(() => metadata.close())
      )
      const made = JSON.stringify({
        type: "external_account",
        audience: "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster",
        subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        token_url: "https://sts.googleapis.com/v1/token",
        credential_source: { file: yield* fileWith("subject", "token-of-the-service-account") }
      })
      const problem = Effect.suspend(() => CloudCredentials.ofEnvironment({}).problem("google"))
      yield* withVariables({ GOOGLE_APPLICATION_CREDENTIALS: yield* fileWith("identity.json", made) }, PREFIXES)
      assert.strictEqual(yield* problem, null)
      assert.deepStrictEqual(network.asked, ["CONNECT sts.googleapis.com:443"])
      const { port } = metadata.address() as AddressInfo
      yield* withVariables({ GCE_METADATA_HOST: `127.0.0.1:${port}`, HOME: yield* folder, NO_PROXY: "127.0.0.1" }, PREFIXES)
      assert.strictEqual(yield* problem, null)
      assert.strictEqual(network.asked.length, 1)
    }))

  it.live("of Entra come through the proxy, and its refusal is named by its code", () =>
    Effect.gen(function*() {
      const network = yield* CompanyNetwork.joined
      yield* network.https("login.outside.test", (_, response) =>
        Provider.json(response, 200, { access_token: "eyJ0.token-of-entra", expires_in: 3600 }))
      const environment = {
        AZURE_TENANT_ID: "tenant-1",
        AZURE_CLIENT_ID: "client-1",
        AZURE_CLIENT_SECRET: "secret-of-the-client",
        AZURE_AUTHORITY_HOST: "https://login.outside.test"
      }
      assert.strictEqual(yield* CloudCredentials.ofEnvironment(environment).problem("azure"), null)
      assert.deepStrictEqual(network.asked, ["CONNECT login.outside.test:443"])
      network.behave(407)
      yield* Effect.promise(() =>
        fetch("https://login.outside.test/", { headers: { connection: "close" } }).catch(() => null)
      )
      const refused = yield* CloudCredentials.ofEnvironment({ ...environment, AZURE_AUTHORITY_HOST: "https://other.outside.test" })
        .problem("azure")
      assert.include(refused ?? "", "There is no token of Microsoft Entra (PROXY_STATUS_407)")
    }))
})
