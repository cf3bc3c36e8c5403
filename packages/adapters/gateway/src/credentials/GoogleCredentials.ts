/**
 * Google's application default credentials: the file of `GOOGLE_APPLICATION_CREDENTIALS` (a service account, workload identity
 * federation), those of `gcloud auth application-default login`, or the metadata of the machine.
 */
import { isObject, objectAt } from "../protocols/JsonFields.ts"
import { CachedCredentials, type Fetched } from "./CachedCredentials.ts"
import type { Authorized } from "./CloudCredentials.ts"

const SCOPE = "https://www.googleapis.com/auth/cloud-platform"

/** For a token whose end the source does not say. They are valid for an hour. */
const UNKNOWN_MILLIS = 30 * 60_000

const library = () => import("google-auth-library")

const fetchToken = async (): Promise<Fetched<Authorized>> => {
  const { GoogleAuth, gcpMetadata } = await library()
  // It would be remembered for ever that there is no metadata.
  gcpMetadata.resetIsAvailableCache()
  const client = await new GoogleAuth({
    scopes: SCOPE,
    // Otherwise it looks for a project by programs and by requests, which takes seconds. Addresses name the project.
    projectId: "unused",
    // The global one, which knows the operator's proxy.
    clientOptions: { transporterOptions: { redirect: "error", fetchImplementation: fetch } }
  }).getClient()
  const headers = Object.fromEntries(await client.getRequestHeaders())
  const token = /^Bearer (\S+)$/u.exec(headers["authorization"] ?? "")?.[1]
  if (token === undefined) throw new Error("no token")
  return { value: { headers, secrets: [token] }, expiresAt: client.credentials.expiry_date ?? Date.now() + UNKNOWN_MILLIS }
}

/** The code of an error of OAuth or of the connection. Texts of servers are left out. */
const codeOf = (error: unknown): string => {
  if (!isObject(error)) return ""
  const said = objectAt(objectAt(error, "response"), "data")["error"]
  const code = typeof said === "string" ? said : error["code"]
  return typeof code === "string" && /^\w{1,60}$/u.test(code) ? ` (${code})` : ""
}

export const identity = (now: () => number) => ({
  cache: new CachedCredentials<Authorized>({ load: library, fetch: fetchToken, now }),
  authorize: (token: Authorized) => Promise.resolve(token),
  explain: (error: unknown) =>
    `There are no Google credentials${codeOf(error)}: set GOOGLE_APPLICATION_CREDENTIALS to the file of credentials, run ` +
    "gcloud auth application-default login, or give this machine or its service account a role."
})
