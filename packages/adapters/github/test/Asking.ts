/** Asks a GitHub-like server without any of our own code in between. */
import { createPrivateKey, sign } from "node:crypto"

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly body: any
}

export interface Credentials {
  readonly apiUrl: string
  readonly appId: number
  readonly privateKey: string
}

/** Signed by hand, as the documentation describes it. */
export const jwt = ({ appId, privateKey }: Credentials, claims: Readonly<Record<string, unknown>> = {}): string => {
  const now = Math.floor(Date.now() / 1000)
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url")
  const signed = `${encode({ alg: "RS256", typ: "JWT" })}.${encode({ iat: now - 60, exp: now + 300, iss: appId, ...claims })}`
  return `${signed}.${sign("RSA-SHA256", Buffer.from(signed), createPrivateKey(privateKey)).toString("base64url")}`
}

/** `token` may be the App's own. */
export const ask = async (
  { apiUrl }: Pick<Credentials, "apiUrl">,
  request: `${"GET" | "POST" | "PATCH" | "DELETE"} ${string}`,
  { body, headers = {}, token }: { readonly token?: string; readonly body?: object; readonly headers?: Readonly<Record<string, string>> } =
    {}
): Promise<Reply> => {
  const [method = "", path = ""] = request.split(" ")
  const response = await fetch(apiUrl + path, {
    method,
    redirect: "manual",
    headers: { "user-agent": "test", ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) }
}

/** A token of the installation with that id. */
export const tokenOf = async (credentials: Credentials, installation: number, body: object = {}): Promise<string> =>
  (await ask(credentials, `POST /app/installations/${installation}/access_tokens`, { token: jwt(credentials), body })).body.token
