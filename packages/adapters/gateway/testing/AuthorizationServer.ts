/** A real authorization server (`oidc-provider`) whose every prompt is agreed to, and a browser that visits it. */
import { Effect, type Scope } from "effect"
import { once } from "node:events"
import { createServer, type IncomingMessage, type Server } from "node:http"
import Provider from "oidc-provider"

export interface Behaviour {
  /** Whether clients may register themselves. */
  readonly registers?: boolean
  /** A client that an owner registered. */
  readonly client?: { readonly id: string; readonly secret: string; readonly redirectUri: string }
  /** Seconds of an access token. */
  readonly tokenSeconds?: number
}

/** A request that it got. */
export interface Got {
  readonly method: string
  readonly path: string
  readonly form: Readonly<Record<string, string>>
}

export interface TestAuthorizationServer {
  readonly issuer: string
  /** `host:port`. */
  readonly destination: string
  readonly got: ReadonlyArray<Got>
  /** Whether a token is good for this resource. */
  readonly isGood: (token: string, resource: string) => Promise<boolean>
  /** Makes a token invalid before its time. */
  readonly revoke: (token: string) => Promise<void>
  /** When set, the token endpoint answers with it instead. */
  failing: { readonly status: number; readonly error: string } | null
}

const SCOPES = "tools offline_access"

export const listening = (server: Server): Effect.Effect<number, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
      () =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    ),
    () => {
      const address = server.address()
      return address !== null && typeof address === "object" ? address.port : 0
    }
  )

const configuration = ({ client, registers = true, tokenSeconds = 3600 }: Behaviour) => ({
  clients: client === undefined ? [] : [{
    client_id: client.id,
    client_secret: client.secret,
    redirect_uris: [client.redirectUri],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"]
  }],
  clientAuthMethods: ["none", "client_secret_basic"],
  scopes: ["openid", "offline_access", "tools"],
  ttl: { AccessToken: tokenSeconds, AuthorizationCode: 60, Grant: 86_400, Interaction: 600, RefreshToken: 86_400, Session: 86_400 },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: registers },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_context: unknown, resource: string) => ({
        scope: SCOPES,
        audience: resource,
        accessTokenFormat: "opaque",
        accessTokenTTL: tokenSeconds
      })
    }
  },
  pkce: { required: () => true },
  cookies: { keys: ["test-only"] },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  interactions: { url: (_context: unknown, { uid }: { readonly uid: string }) => `/login/${uid}` },
  findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) })
})

const agreeing = (provider: Provider) => {
  provider.use(async (context, next) => {
    if (!context.path.startsWith("/login/")) return await next()
    const { params, prompt } = await provider.interactionDetails(context.req, context.res)
    if (prompt.name === "login") {
      return await provider.interactionFinished(context.req, context.res, { login: { accountId: "ada" } })
    }
    const grant = new provider.Grant({ accountId: "ada", clientId: params["client_id"] })
    grant.addOIDCScope(SCOPES)
    grant.addResourceScope(String(params["resource"]), SCOPES)
    return await provider.interactionFinished(context.req, context.res, { consent: { grantId: await grant.save() } })
  })
}

/** Reads the body without taking it from the provider. */
const formOf = async (request: IncomingMessage): Promise<Readonly<Record<string, string>>> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString("utf8")
  // `oidc-provider` takes a body that was read before.
  Object.assign(request, { body: request.headers["content-type"]?.startsWith("application/json") === true ? JSON.parse(text) : text })
  return Object.fromEntries(new URLSearchParams(text))
}

export const start = (behaviour: Behaviour = {}): Effect.Effect<TestAuthorizationServer, never, Scope.Scope> =>
  Effect.gen(function*() {
    const got: Array<Got> = []
    let answer: ReturnType<Provider["callback"]> | null = null
    const server = createServer((request, response) => {
      const { pathname: path } = new URL(request.url ?? "/", "http://x")
      const serve = async () => {
        const form = request.method === "POST" ? await formOf(request) : {}
        got.push({ method: request.method ?? "", path, form })
        const { failing } = made
        if (path === "/token" && failing !== null) {
          return response.writeHead(failing.status, { "content-type": "application/json" }).end(JSON.stringify({ error: failing.error }))
        }
        answer?.(request, response)
      }
      serve().catch(() => response.destroy())
    })
    const port = yield* listening(server)
    const issuer = `http://localhost:${port}`
    const provider = new Provider(issuer, configuration(behaviour))
    agreeing(provider)
    answer = provider.callback()
    const made: TestAuthorizationServer = {
      issuer,
      destination: `localhost:${port}`,
      got,
      isGood: async (token, resource) => {
        const found = await provider.AccessToken.find(token)
        return found !== undefined && !found.isExpired && [found.aud].flat().includes(resource)
      },
      revoke: async (token) => await (await provider.AccessToken.find(token))?.destroy(),
      failing: null
    }
    return made
  })

/** Visits the address as a browser does, until it comes back to `redirectUri`. Returns the query. */
export const visit = (address: string, redirectUri: string) =>
  Effect.promise(async () => {
    const cookies = new Map<string, string>()
    let at = address
    for (let steps = 0; steps < 20; steps++) {
      const response = await fetch(at, { redirect: "manual", headers: { cookie: [...cookies].map((pair) => pair.join("=")).join("; ") } })
      const location = response.headers.get("location")
      const text = await response.text()
      if (location === null) throw new Error(`no redirect at ${at}: ${response.status} ${text.slice(0, 500)}`)
      for (const cookie of response.headers.getSetCookie()) {
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/u.exec(cookie) ?? []
        cookies.set(name, value)
      }
      at = new URL(location, at).href
      if (at.startsWith(redirectUri)) return new URL(at).searchParams
    }
    throw new Error("too many redirects")
  })
