/** Google's sources of tokens, for tests: the exchange of a token of workload identity federation, and the metadata of a machine. */
import { Effect, type Scope } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type IncomingMessage } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"

export interface Identity {
  /** The file for `GOOGLE_APPLICATION_CREDENTIALS`, of a federated identity. */
  readonly file: string
  /** The address for `GCE_METADATA_HOST`. */
  readonly metadata: string
  /** The tokens given so far. */
  readonly tokens: Array<string>
  /** How the next requests are answered. */
  state: "valid" | "revoked"
}

const AUDIENCE = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster"
const SUBJECT = "token-of-the-service-account"
const SCOPE = "https://www.googleapis.com/auth/cloud-platform"

/** Whether the request is one of RFC 8693 with the token of the file. */
const isExchange = ({ headers }: IncomingMessage, body: string): boolean => {
  const form = new URLSearchParams(body)
  return headers["content-type"]?.startsWith("application/x-www-form-urlencoded") === true
    && form.get("grant_type") === "urn:ietf:params:oauth:grant-type:token-exchange" && form.get("audience") === AUDIENCE
    && form.get("subject_token") === SUBJECT && form.get("scope") === SCOPE
}

export const identity: Effect.Effect<Identity, never, Scope.Scope> = Effect.gen(function*() {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-google-"))),
    (made) => Effect.sync(() => rmSync(made, { recursive: true }))
  )
  const tokens: Array<string> = []
  const server = createServer((request, response) => {
    let body = ""
    request.on("data", (chunk: Buffer) => body += chunk.toString())
    request.on("end", () => {
      const isMetadata = request.url?.startsWith("/computeMetadata/v1/instance") === true
      if (isMetadata) response.setHeader("metadata-flavor", "Google")
      const isAllowed = isMetadata ? request.headers["metadata-flavor"] === "Google" : request.url === "/token" && isExchange(request, body)
      if (!isAllowed || found.state === "revoked") {
        return response.writeHead(400, { "content-type": "application/json" })
          .end(JSON.stringify({ error: "invalid_grant", error_description: "canary words of Google" }))
      }
      if (isMetadata && request.url?.includes("/token") === false) return response.end("{}")
      tokens.push(`ya29.canary-${tokens.length + 1}-0123456789abcdef`)
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({
        access_token: tokens.at(-1),
        issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
        expires_in: 3600,
        token_type: "Bearer"
      }))
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
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const found: Identity = { file: path.join(folder, "identity.json"), metadata: host, tokens, state: "valid" }
  writeFileSync(path.join(folder, "subject"), SUBJECT)
  writeFileSync(
    found.file,
    JSON.stringify({
      type: "external_account",
      audience: AUDIENCE,
      subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
      token_url: `http://${host}/token`,
      credential_source: { file: path.join(folder, "subject") }
    })
  )
  return found
})
