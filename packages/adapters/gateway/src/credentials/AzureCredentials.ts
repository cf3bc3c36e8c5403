/**
 * Tokens of Microsoft Entra for models in Foundry: of a client with a secret, of a federated identity (Kubernetes), or of the managed
 * identity of the machine.
 */
import { readFile } from "node:fs/promises"
import { isObject } from "../protocols/JsonFields.ts"
import { CachedCredentials, type Fetched } from "./CachedCredentials.ts"
import type { Authorized, Environment } from "./CloudCredentials.ts"

/** For OpenAI's and Anthropic's models in Foundry. */
const RESOURCE = "https://cognitiveservices.azure.com"
const SCOPE = `${RESOURCE}/.default`
const MAXIMUM_BYTES = 256 * 1024

const SECRETS = ["AZURE_CLIENT_SECRET", "IDENTITY_HEADER"]

/** The variables with secrets. */
export const secretsIn = (): ReadonlyArray<string> => SECRETS

/** A source refused. The code is one of OAuth, or a status. */
class Refused extends Error {
  readonly code: string

  constructor(code: string) {
    super(code)
    this.code = code
  }
}

const send = async (url: string, init: RequestInit): Promise<Fetched<Authorized>> => {
  // The secret must not go to another address.
  const response = await fetch(url, { ...init, redirect: "error" })
  const text = await response.text()
  const json: unknown = text.length > MAXIMUM_BYTES ? null : JSON.parse(text)
  if (!isObject(json)) throw new Refused(`status ${response.status}`)
  const { access_token: token, error, expires_in: seconds, expires_on: end } = json
  if (!response.ok || typeof token !== "string" || !/^[\x21-\x7e]{8,20000}$/u.test(token)) {
    throw new Refused(typeof error === "string" && /^\w{1,60}$/u.test(error) ? error : `status ${response.status}`)
  }
  const expiresAt = Number(end) > 0 ? Number(end) * 1000 : Date.now() + (Number(seconds) > 0 ? Number(seconds) : 1800) * 1000
  return { value: { headers: { authorization: `Bearer ${token}` }, secrets: [token] }, expiresAt }
}

/** The first source that the environment names; without one, the metadata of the machine. */
const fetchToken = (environment: Environment) => async (signal: AbortSignal): Promise<Fetched<Authorized>> => {
  const of = (name: string) => environment[name] ?? ""
  const [tenant, client, secret, file] = ["TENANT_ID", "CLIENT_ID", "CLIENT_SECRET", "FEDERATED_TOKEN_FILE"].map((name) =>
    of(`AZURE_${name}`)
  )
  if (tenant !== "" && client !== "" && (secret !== "" || file !== "")) {
    const authority = (of("AZURE_AUTHORITY_HOST") || "https://login.microsoftonline.com").replace(/(?<!\/)\/+$/u, "")
    const proof = secret !== "" ? { client_secret: secret ?? "" } : {
      client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      client_assertion: (await readFile(file ?? "", "utf8")).trim()
    }
    const body = new URLSearchParams({ grant_type: "client_credentials", client_id: client ?? "", scope: SCOPE, ...proof })
    return send(`${authority}/${encodeURIComponent(tenant ?? "")}/oauth2/v2.0/token`, { method: "POST", body, signal })
  }
  const endpoint = of("IDENTITY_ENDPOINT")
  const url = new URL(
    endpoint === ""
      ? `${of("AZURE_POD_IDENTITY_AUTHORITY_HOST") || "http://169.254.169.254"}/metadata/identity/oauth2/token`
      : endpoint
  )
  url.searchParams.set("api-version", endpoint === "" ? "2018-02-01" : "2019-08-01")
  url.searchParams.set("resource", RESOURCE)
  if (client !== "") url.searchParams.set("client_id", client ?? "")
  return send(url.href, { headers: endpoint === "" ? { metadata: "true" } : { "x-identity-header": of("IDENTITY_HEADER") }, signal })
}

/** The code of a failure. Texts of servers are left out. */
const codeOf = (error: unknown): string => {
  if (error instanceof Refused) return ` (${error.code})`
  const cause: unknown = error instanceof Error && error.cause !== undefined ? error.cause : error
  return isObject(cause) && typeof cause["code"] === "string" && /^\w{1,60}$/u.test(cause["code"]) ? ` (${cause["code"]})` : ""
}

export const identity = (environment: Environment, now: () => number) => ({
  cache: new CachedCredentials<Authorized>({ fetch: fetchToken(environment), now }),
  authorize: (token: Authorized) => Promise.resolve(token),
  explain: (error: unknown) =>
    `There is no token of Microsoft Entra${codeOf(error)}: set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or ` +
    "AZURE_FEDERATED_TOKEN_FILE, give this machine a managed identity, or set keyVariable."
})
