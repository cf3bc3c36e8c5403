/** Finds the authorization server of an MCP server: RFC 9728, then RFC 8414 or OpenID Connect Discovery. */
import * as oauth from "oauth4webapi"
import { failed, fetchWithin, type FetchOptions, isAllowed } from "./OAuthFetch.ts"

/** The authorization server of a resource, and what the resource asks for. */
export interface Discovered {
  /** The resource that tokens are for (RFC 8707). */
  readonly resource: string
  readonly scopes: string | null
  readonly server: oauth.AuthorizationServer & { readonly authorization_endpoint: string; readonly token_endpoint: string }
}

export interface Step {
  readonly options: FetchOptions
  readonly signal: AbortSignal
}

/** The options that the library takes for each request. The addresses are checked by ours. */
export const requestOptions = ({ options, signal }: Step) => ({
  signal,
  [oauth.allowInsecureRequests]: true,
  [oauth.customFetch]: fetchWithin(options, signal)
})

const INITIALIZE = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "slipway", version: "1" } }
})

const parameter = (challenge: string, name: string): string | null =>
  new RegExp(String.raw`(?:^|[\s,])${name}="([^"]{1,2000})"`, "u").exec(challenge)?.[1] ?? null

/** The MCP server's answer to a request without a token. */
const challengeOf = async (url: string, { options, signal }: Step) => {
  const { headers } = await fetchWithin(options, signal)(url, {
    method: "POST",
    headers: { accept: "application/json, text/event-stream", "content-type": "application/json" },
    body: INITIALIZE
  })
  const challenge = headers.get("www-authenticate") ?? ""
  const isBearer = /^bearer\b/iu.test(challenge)
  return { metadata: isBearer ? parameter(challenge, "resource_metadata") : null, scope: isBearer ? parameter(challenge, "scope") : null }
}

const isJson = (response: Response) =>
  response.status === 200 && /^application\/(?:.+\+)?json\b/iu.test(response.headers.get("content-type") ?? "")

/** Whether a resource covers the server: the same origin, and its path or one above it. */
const covers = (resource: string, url: string): boolean => {
  if (!URL.canParse(resource)) return false
  const [of, at] = [new URL(resource), new URL(url)]
  const path = of.pathname.endsWith("/") ? of.pathname : `${of.pathname}/`
  return of.origin === at.origin && of.hash === "" && (of.pathname === at.pathname || at.pathname.startsWith(path)) &&
    (of.search === "" || of.search === at.search)
}

/** The metadata of the protected resource; `null`: it has none. */
const resourceOf = async (url: string, named: string | null, step: Step): Promise<oauth.ResourceServer | null> => {
  const { origin, pathname } = new URL(url)
  const wellKnown = `${origin}/.well-known/oauth-protected-resource`
  const places = named !== null ? [named] : pathname === "/" ? [wellKnown] : [`${wellKnown}${pathname}`, wellKnown]
  for (const place of places) {
    if (!isAllowed(place, step.options)) throw failed("The server names an address of its metadata that cannot be used.")
    const response = await fetchWithin(step.options, step.signal)(place, { method: "GET", headers: { accept: "application/json" } })
    if (!isJson(response)) continue
    const text = await response.text()
    const { resource }: { readonly resource?: unknown } = JSON.parse(text)
    if (typeof resource !== "string" || !covers(resource, url)) throw failed("The server's metadata are those of another resource.")
    return await oauth.processResourceDiscoveryResponse(
      new URL(resource),
      new Response(text, { headers: { "content-type": "application/json" } })
    )
  }
  if (named !== null) throw failed("The server has no metadata at the address that it names.")
  return null
}

const serverOf = async (issuer: string, step: Step): Promise<oauth.AuthorizationServer> => {
  const { host } = new URL(issuer)
  for (const algorithm of ["oauth2", "oidc"] as const) {
    const response = await oauth.discoveryRequest(new URL(issuer), { ...requestOptions(step), algorithm })
    if (isJson(response)) return await oauth.processDiscoveryResponse(new URL(issuer), response)
  }
  throw failed(`The authorization server ${host} has no metadata.`)
}

/** Finds the authorization server of the MCP server at `url`, which has to know PKCE. */
export const discover = async (url: string, step: Step): Promise<Discovered> => {
  const challenge = await challengeOf(url, step)
  const metadata = await resourceOf(url, challenge.metadata, step)
  // Servers without metadata are their own authorization servers.
  const issuer = metadata === null ? new URL(url).origin : metadata.authorization_servers?.[0]
  if (!isAllowed(issuer, step.options)) throw failed("The server names no authorization server that can be used.")
  const server = await serverOf(issuer, step)
  const { host } = new URL(issuer)
  const { authorization_endpoint, token_endpoint } = server
  if (!isAllowed(authorization_endpoint, step.options) || !isAllowed(token_endpoint, step.options)) {
    throw failed(`The authorization server ${host} names addresses that cannot be used.`)
  }
  if (!(server.code_challenge_methods_supported ?? []).includes("S256")) {
    throw failed(`The authorization server ${host} does not know PKCE, which is needed.`)
  }
  return {
    resource: metadata?.resource ?? url,
    scopes: challenge.scope ?? metadata?.scopes_supported?.join(" ") ?? null,
    server: { ...server, authorization_endpoint, token_endpoint }
  }
}
