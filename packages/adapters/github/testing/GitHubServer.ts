/**
 * A source host for tests that speaks as GitHub Enterprise does, on one loopback origin: the REST API below `/api/v3`,
 * git over HTTP below `/owner/name.git`, both over real bare repositories and behind an App's tokens. Everything that is
 * asked is recorded, and any answer can be made to fail, before or after it took effect.
 */
import { Effect, type Scope } from "effect"
import { createHash, randomUUID } from "node:crypto"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buffer } from "node:stream/consumers"
import { AppAuthentication, isGranted } from "./AppAuthentication.ts"
import { BareRepository, type Changes } from "./BareRepository.ts"
import * as GitBackend from "./GitBackend.ts"
import { Repository } from "./Repository.ts"
import * as Routes from "./Routes.ts"
import { UserAuthorization } from "./UserAuthorization.ts"

export interface Options {
  /** Default `/api/v3`; empty: the API at the root of the origin. */
  readonly apiPath?: string
  /** How often a pull request is read until it is known whether it can be merged. Default 1, as on GitHub, which computes it when asked. */
  readonly readsBeforeMergeable?: number
  /** The server's clock, in milliseconds. */
  readonly now?: () => number
}

/** One request. */
interface Seen {
  readonly method: string
  /** With its query; below the API's base, or that of git. */
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  /** `null`: no answer (yet). */
  status: number | null
  /** Resolves when it is over, answered or not. */
  readonly over: Promise<void>
}

/**
 * `hang`: no answer ever comes. `reset`: the connection breaks. `revoke`: its token ends right before. Otherwise what is
 * answered instead.
 */
export type Outcome = "hang" | "reset" | "revoke" | Routes.Answer | ((seen: Seen) => Routes.Answer)

interface Fault {
  readonly method: string
  /** A pattern for the URL as {@link Seen} has it. */
  readonly url: RegExp
  readonly outcome: Outcome
  /** `after`: the request takes effect, only its answer is lost. Default `before`. */
  readonly when?: "before" | "after"
  /** How many requests it strikes. Default 1. */
  readonly times?: number
}

export interface GitHubServer {
  /** The origin: what git URLs start with. */
  readonly url: string
  readonly apiUrl: string
  readonly app: AppAuthentication
  /** How people sign in with the App: the web pages are on the origin. */
  readonly users: UserAuthorization
  /** Everything asked so far, oldest first. */
  readonly requests: ReadonlyArray<Seen>
  /** A private repository with one commit on its default branch, `trunk` unless named. */
  repository(fullName: string, files: Changes, defaultBranch?: string): Effect.Effect<Repository>
  strike(fault: Fault): void
  /** When such a request has arrived, now or earlier. */
  arrived(method: string, url: RegExp): Effect.Effect<Seen>
  /** `look` runs as each request from now on arrives, while its client waits. */
  watch(look: (seen: Seen) => void): void
}

/**
 * GitHub's answer to too many requests at once.
 * https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
 */
export const secondaryLimit = (status: 403 | 429, retryAfterSeconds?: number): Routes.Answer => ({
  ...Routes.refuse(status, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."),
  ...(retryAfterSeconds === undefined ? {} : { headers: { "retry-after": String(retryAfterSeconds) } })
})

const GIT = /^\/([^/]+)\/([^/]+?)(?:\.git)?\/(info\/refs|git-upload-pack|git-receive-pack)$/u
const HOUR_MILLIS = 3_600_000

export const start = (options: Options = {}): Effect.Effect<GitHubServer, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { apiPath = "/api/v3", now = Date.now, readsBeforeMergeable = 1 } = options
    const root = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(join(tmpdir(), "slipway-github-"))),
      (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
    )
    const app = new AppAuthentication(now)
    const users = new UserAuthorization(now)
    const repositories: Array<Repository> = []
    const requests: Array<Seen> = []
    const faults: Array<Fault & { left: number }> = []
    const listeners = new Set<(seen: Seen) => void>()
    const startedAtMillis = now()
    let ids = 1000

    /** Counts a request against its installation, and says so in the headers. */
    const rateLimit = (token: ReturnType<AppAuthentication["token"]>, cost: number) => {
      if (token === undefined) return {}
      const { installation } = token
      installation.remaining = Math.max(installation.remaining - cost, 0)
      return {
        "x-ratelimit-limit": String(installation.limit),
        "x-ratelimit-remaining": String(installation.remaining),
        "x-ratelimit-used": String(installation.limit - installation.remaining),
        "x-ratelimit-reset": String(Math.ceil((startedAtMillis + HOUR_MILLIS) / 1000)),
        "x-ratelimit-resource": "core"
      }
    }

    const world = (): Routes.World => ({ addresses: { origin: origin(), api: origin() + apiPath }, app, repositories })

    const api = async (seen: Seen): Promise<Routes.Answer> => {
      const { authorization, "if-none-match": known } = seen.headers
      const { pathname, searchParams } = new URL(seen.url, origin())
      const token = app.token(Routes.tokenOf(authorization) ?? "")
      if (token?.installation.remaining === 0) {
        return {
          ...Routes.refuse(403, `API rate limit exceeded for installation ID ${token.installation.id}.`),
          headers: rateLimit(token, 0)
        }
      }
      const call = { method: seen.method, path: pathname, query: searchParams, authorization, body: seen.body.toString() }
      const answer = await Routes.answer(world(), call, token)
      if (seen.method !== "GET" || answer.status !== 200) return { ...answer, headers: { ...rateLimit(token, 1), ...answer.headers } }
      // GitHub's tags are good for the one token they were given to: https://github.com/eclipse-csi/otterdog/issues/201
      const etag = `"${createHash("sha256").update(`${authorization}\n${JSON.stringify(answer.body)}`).digest("hex")}"`
      const isKnown = known?.replace(/^W\//u, "") === etag
      return {
        status: isKnown ? 304 : 200,
        headers: { ...rateLimit(token, isKnown ? 0 : 1), ...answer.headers, etag: `W/${etag}` },
        ...(isKnown ? {} : { body: answer.body })
      }
    }

    /** The log of a job, whole or in parts, as the storage has it where GitHub keeps them: to anybody who knows its address. */
    const log = (path: string, { authorization, range }: IncomingHttpHeaders): Routes.Answer | GitBackend.GitAnswer => {
      const run = repositories.flatMap(({ checkRuns }) => checkRuns).find(({ id }) => path === `/logs/${id}`)
      // It refuses the credentials of another service.
      if (run === undefined || run.log === null || authorization !== undefined) return Routes.refuse(403, "Forbidden")
      const bytes = Buffer.from(run.log)
      const [, first = "", last = ""] = /^bytes=(\d+)-(\d+)$/u.exec(range ?? "") ?? []
      if (first === "") return { status: 200, headers: {}, body: bytes }
      const part = bytes.subarray(Number(first), Number(last) + 1)
      return { status: 206, headers: { "content-range": `bytes ${first}-${Number(first) + part.length - 1}/${bytes.length}` }, body: part }
    }

    const refuseGit = (status: number, text: string, headers: Record<string, string> = {}): GitBackend.GitAnswer => ({
      status,
      headers: { "content-type": "text/plain", ...headers },
      body: Buffer.from(`${text}\n`)
    })

    const git = async (seen: Seen): Promise<GitBackend.GitAnswer> => {
      const { pathname, search, searchParams } = new URL(seen.url, origin())
      const [, owner = "", name = "", service = ""] = GIT.exec(pathname) ?? []
      const token = app.token(Routes.tokenOf(seen.headers.authorization) ?? "")
      const repository = Routes.findRepository(world(), owner, name)
      if (token === undefined && (seen.headers.authorization !== undefined || repository?.private !== false)) {
        return refuseGit(401, "Invalid username or token.", { "www-authenticate": "Basic realm=\"GitHub\"" })
      }
      const permissions = repository === undefined ? undefined : Routes.permissionsOn(repository, token)
      if (repository === undefined || permissions === undefined) return refuseGit(404, "Repository not found.")
      const writes = (searchParams.get("service") ?? service) === "git-receive-pack"
      if (!isGranted(permissions, "contents", writes ? "write" : "read")) return refuseGit(403, "Write access to repository not granted.")
      return repository.exclusively(async () => {
        const answer = await GitBackend.answer(repository.bare.path, {
          method: seen.method,
          service,
          query: search.slice(1),
          headers: seen.headers,
          body: seen.body
        })
        if (writes && seen.method === "POST") await repository.settle()
        return answer
      })
    }

    const handle = async (request: IncomingMessage, response: ServerResponse) => {
      const body = await buffer(request)
      const raw = request.url ?? "/"
      const isApi = raw.startsWith(`${apiPath}/`)
      const url = isApi ? raw.slice(apiPath.length) : raw
      const over = new Promise<void>((resolve) => response.once("close", () => resolve()))
      const seen: Seen = { method: request.method ?? "", url, headers: request.headers, body, status: null, over }
      requests.push(seen)
      for (const tell of listeners) tell(seen)
      const fault = faults.find(({ left, method, url }) => left > 0 && method === seen.method && url.test(seen.url))
      if (fault !== undefined) fault.left--
      if (fault?.outcome === "revoke") app.revoke(Routes.tokenOf(seen.headers.authorization) ?? "")

      const send = (answer: Routes.Answer | GitBackend.GitAnswer) => {
        seen.status = answer.status
        const content = answer.body === undefined ? "" : Buffer.isBuffer(answer.body) ? answer.body : JSON.stringify(answer.body)
        response.sendDate = false
        response.writeHead(answer.status, {
          date: new Date(now()).toUTCString(),
          "x-github-request-id": randomUUID(),
          ...(answer.body === undefined || Buffer.isBuffer(answer.body) ? {} : { "content-type": "application/json; charset=utf-8" }),
          ...answer.headers
        })
        response.end(content)
      }
      const serve = async () => {
        const [path = "", query = ""] = raw.split("?")
        if (GIT.test(path)) return git(seen)
        const call = `${seen.method} ${path}`
        if (call === "GET /login/oauth/authorize") return users.authorize(new URLSearchParams(query))
        if (call === "POST /login/oauth/access_token") return users.exchange(body.toString(), request.headers.accept)
        if (call === `GET ${apiPath}/user`) return users.profile(request.headers.authorization)
        if (path.startsWith("/logs/")) return log(path, request.headers)
        if (call === `POST ${apiPath.replace(/\/v3$/u, "")}/graphql`) {
          return Routes.graphql(world(), body.toString(), app.token(Routes.tokenOf(request.headers.authorization) ?? ""))
        }
        return isApi ? api(seen) : Routes.refuse(404, "Not Found")
      }

      const outcome = fault?.outcome === "revoke" ? undefined : fault?.outcome
      if (outcome === undefined) return send(await serve())
      if (fault?.when === "after") await serve()
      if (outcome === "reset") request.socket.destroy()
      else if (outcome !== "hang") send(typeof outcome === "function" ? outcome(seen) : outcome)
    }

    const server = createServer((request, response) => {
      handle(request, response).catch((defect: Error) => {
        // The client is gone in the middle of its request, or the server is wrong: then a test is to see why.
        if (!response.headersSent) {
          response.writeHead(500, { "content-type": "application/json" }).end(JSON.stringify({ message: defect.stack }))
        }
      })
    })
    const origin = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    yield* Effect.acquireRelease(
      Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
      () =>
        Effect.promise(() => {
          server.closeAllConnections()
          return once(server.close(), "close")
        })
    )

    return {
      url: origin(),
      apiUrl: origin() + apiPath,
      app,
      users,
      requests,
      repository: (fullName, files, defaultBranch = "trunk") =>
        Effect.promise(async () => {
          const [login = "", name = ""] = fullName.split("/")
          const nextId = () => ++ids
          const bare = await BareRepository.create(join(root, `${nextId()}.git`), defaultBranch)
          await bare.commit(defaultBranch, files)
          const owner = repositories.find((other) => other.owner.login === login)?.owner ?? { id: nextId(), login }
          const repository = new Repository(owner, name, defaultBranch, bare, { nextId, now, readsBeforeMergeable })
          repositories.push(repository)
          return repository
        }),
      watch: (look) => void listeners.add(look),
      strike: (fault) => void faults.push({ ...fault, left: fault.times ?? 1 }),
      arrived: (method, url) =>
        Effect.callback<Seen>((resume) => {
          const tell = (seen: Seen) => {
            if (seen.method !== method || !url.test(seen.url)) return
            listeners.delete(tell)
            resume(Effect.succeed(seen))
          }
          listeners.add(tell)
          for (const seen of requests) tell(seen)
          return Effect.sync(() => void listeners.delete(tell))
        })
    }
  })
