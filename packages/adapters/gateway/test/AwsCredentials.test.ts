import { assert, describe, it } from "@effect/vitest"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { identity, secretsIn } from "../src/credentials/AwsCredentials.ts"
import * as CloudCredentials from "../src/credentials/CloudCredentials.ts"
import * as Bedrock from "../testing/Bedrock.ts"
import * as Gateway from "../testing/Gateway.ts"
import * as Provider from "../testing/Provider.ts"
import * as Variables from "../testing/Variables.ts"

const withVariables = (variables: Readonly<Record<string, string>>) => Variables.withVariables(variables, ["AWS_"])

const serving = (listener: RequestListener) =>
  Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const server = createServer(listener)
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  ).pipe(Effect.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`))

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-aws-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

const get = Effect.suspend(() => Effect.promise(() => identity({ ...process.env }, Date.now).cache.get()))
const { accessKeyId, secretAccessKey, sessionToken = "" } = Bedrock.ACCOUNT
const NOWHERE = { AWS_SHARED_CREDENTIALS_FILE: "/nonexistent/credentials", AWS_CONFIG_FILE: "/nonexistent/config" }

describe("AWS credentials of the environment", () => {
  it.effect("are those of the variables", () =>
    Effect.gen(function*() {
      yield* withVariables({ AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN: sessionToken })
      assert.deepStrictEqual(yield* get, Bedrock.ACCOUNT)
      assert.includeMembers([...secretsIn({ ...process.env })], ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
    }).pipe(Effect.scoped))

  it.effect("are those of the chosen profile of the shared file, as it is now", () =>
    Effect.gen(function*() {
      const file = path.join(yield* folder, "credentials")
      const profile = (name: string, id: string, secret: string) =>
        `[${name}]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`
      const write = (secret: string) => writeFileSync(file, profile("default", "other", "other") + profile("models", accessKeyId, secret))
      write(secretAccessKey)
      yield* withVariables({ ...NOWHERE, AWS_SHARED_CREDENTIALS_FILE: file, AWS_PROFILE: "models" })
      assert.deepStrictEqual(yield* get, { accessKeyId, secretAccessKey, sessionToken: undefined })
      write("another-secret-of-aws")
      assert.strictEqual((yield* get).secretAccessKey, "another-secret-of-aws")
    }).pipe(Effect.scoped))

  it.effect("are those of the container's metadata, which gets its token", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      const url = yield* serving((request, response) => {
        asked.push(`${request.url} ${request.headers.authorization}`)
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({
          AccessKeyId: accessKeyId,
          SecretAccessKey: secretAccessKey,
          Token: sessionToken,
          Expiration: new Date(Date.now() + 3_600_000).toISOString()
        }))
      })
      yield* withVariables({
        ...NOWHERE,
        AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/role`,
        AWS_CONTAINER_AUTHORIZATION_TOKEN: "container-token"
      })
      assert.deepStrictEqual(yield* get, Bedrock.ACCOUNT)
      assert.deepStrictEqual(asked, ["/role container-token"])
    }).pipe(Effect.scoped))

  it.effect("are those of the instance's metadata, by its newer protocol", () =>
    Effect.gen(function*() {
      const url = yield* serving((request, response) => {
        if (request.method === "PUT") return response.end("imds-token")
        if (request.headers["x-aws-ec2-metadata-token"] !== "imds-token") return response.writeHead(401).end()
        if (request.url?.endsWith("/security-credentials/") === true) return response.end("role")
        response.end(JSON.stringify({
          Code: "Success",
          AccessKeyId: accessKeyId,
          SecretAccessKey: secretAccessKey,
          Token: sessionToken,
          Expiration: new Date(Date.now() + 3_600_000).toISOString()
        }))
      })
      yield* withVariables({ ...NOWHERE, AWS_EC2_METADATA_SERVICE_ENDPOINT: url })
      assert.deepStrictEqual(yield* get, Bedrock.ACCOUNT)
    }).pipe(Effect.scoped))

  it.effect("are those of a role that a web identity takes on", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      const url = yield* serving((request, response) => {
        let body = ""
        request.on("data", (chunk: Buffer) => body += chunk.toString())
        request.on("end", () => {
          asked.push(body)
          const credentials = `<AccessKeyId>${accessKeyId}</AccessKeyId><SecretAccessKey>${secretAccessKey}</SecretAccessKey>` +
            `<SessionToken>${sessionToken}</SessionToken><Expiration>${new Date(Date.now() + 3_600_000).toISOString()}</Expiration>`
          response.writeHead(200, { "content-type": "text/xml" }).end(
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>" +
              `<Credentials>${credentials}</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`
          )
        })
      })
      const file = path.join(yield* folder, "token")
      writeFileSync(file, "service-account-token")
      yield* withVariables({
        ...NOWHERE,
        AWS_REGION: "eu-central-1",
        AWS_ENDPOINT_URL_STS: url,
        AWS_ROLE_ARN: "arn:aws:iam::123456789012:role/models",
        AWS_WEB_IDENTITY_TOKEN_FILE: file
      })
      const found = yield* get
      assert.deepStrictEqual({ ...found }, Bedrock.ACCOUNT)
      const [body = ""] = asked
      const form = new URLSearchParams(body)
      assert.deepStrictEqual(
        [form.get("Action"), form.get("RoleArn"), form.get("WebIdentityToken")],
        ["AssumeRoleWithWebIdentity", "arn:aws:iam::123456789012:role/models", "service-account-token"]
      )
    }).pipe(Effect.scoped))
})

describe("a machine without AWS credentials", () => {
  let now = Date.now()

  it.effect("says so, sends nothing, charges nothing, and asks the provider once it has some", () =>
    Effect.gen(function*() {
      let hasRole = false
      const metadata = yield* serving((_, response) => {
        if (!hasRole) return response.writeHead(404).end("the secret words of a metadata service")
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({
          AccessKeyId: accessKeyId,
          SecretAccessKey: secretAccessKey,
          Token: sessionToken,
          Expiration: new Date(Date.now() + 3_600_000).toISOString()
        }))
      })
      yield* withVariables({ ...NOWHERE, AWS_EC2_METADATA_DISABLED: "true", AWS_CONTAINER_CREDENTIALS_FULL_URI: `${metadata}/role` })
      const clouds = CloudCredentials.ofEnvironment({ ...process.env })
      assert.match((yield* clouds.problem("aws")) ?? "", /^There are no AWS credentials \(\w+\): set AWS_ACCESS_KEY_ID/u)

      const provider = yield* Provider.start
      const upstream: Upstream = Gateway.upstreamOf("openai-chat", provider.baseUrl, {
        auth: "aws",
        keyVariable: null,
        region: "eu-central-1"
      })
      const { access, account } = yield* Gateway.open(upstream)
      const reply = yield* Provider.ask(access, "/v1/chat/completions", { messages: [] })
      assert.deepStrictEqual([reply.status, JSON.parse(reply.text).error.code], [503, "no_credentials"])
      const { trouble, usage } = yield* account
      assert.include(trouble?.message, "The provider of the model the-model was not asked. There are no AWS credentials")
      assert.notInclude(`${reply.text}${trouble?.message}`, "secret words")
      assert.deepStrictEqual([provider.asked.length, usage.llmRequestCount], [0, 0])

      hasRole = true
      // A failure is remembered for 5 seconds.
      now += 5000
      assert.strictEqual((yield* Provider.ask(access, "/v1/chat/completions", { messages: [] })).status, 200)
      assert.notProperty(yield* account, "trouble")
    }).pipe(Effect.scoped, Effect.provide(Gateway.layer({ clouds: CloudCredentials.ofEnvironment({}, () => now) }))))
})
