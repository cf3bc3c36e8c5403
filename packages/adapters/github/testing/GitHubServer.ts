/**
 * A source host for tests that speaks as GitHub Enterprise does, on one loopback origin: the REST API below `/api/v3`,
 * git over HTTP below `/owner/name.git`, both over real bare repositories and behind an App's tokens. Everything that is
 * asked is recorded, and any answer can be made to fail, before or after it took effect.
 */
import { BareRepository, type Changes } from "@slipway/git/testing/BareRepository"
import * as GitBackend from "@slipway/git/testing/GitBackend"
import * as HostServer from "@slipway/git/testing/HostServer"
import { Effect, type Scope } from "effect"
import { createHash, randomUUID } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import type { IncomingHttpHeaders } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { AppAuthentication, isGranted } from "./AppAuthentication.ts"
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

/** As {@link HostServer.Outcome}, or `revoke`: its token ends right before. */
export type Outcome = "revoke" | HostServer.Outcome

interface Fault extends Omit<HostServer.Fault, "outcome"> {
  readonly outcome: Outcome
}

export interface GitHubServer extends Omit<HostServer.HostServer, "strike"> {
  readonly apiUrl: string
  readonly app: AppAuthentication
  /** How people sign in with the App: the web pages are on the origin. */
  readonly users: UserAuthorization
  /** A private repository with one commit on its default branch, `trunk` unless named. */
  repository(fullName: string, files: Changes, defaultBranch?: string): Effect.Effect<Repository>
  strike(fault: Fault): void
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
    const startedAtMillis = now()
    let ids = 1000
    let origin = ""

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

    const world = (): Routes.World => ({ addresses: { origin, api: origin + apiPath }, app, repositories })

    const api = async (seen: HostServer.Seen): Promise<Routes.Answer> => {
      const { authorization, "if-none-match": known } = seen.headers
      const { pathname, searchParams } = new URL(seen.url, origin)
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

    const git = async (seen: HostServer.Seen): Promise<GitBackend.GitAnswer> => {
      const { pathname, search, searchParams } = new URL(seen.url, origin)
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

    const serve = async (request: HostServer.Seen): Promise<HostServer.Answer> => {
      const [path = "", query = ""] = request.url.split("?")
      if (GIT.test(path)) return git(request)
      const call = `${request.method} ${path}`
      if (call === "GET /login/oauth/authorize") return users.authorize(new URLSearchParams(query))
      if (call === "POST /login/oauth/access_token") return users.exchange(request.body.toString(), request.headers.accept)
      if (call === `GET ${apiPath}/user`) return users.profile(request.headers.authorization)
      if (path.startsWith("/logs/")) return log(path, request.headers)
      if (call === `POST ${apiPath.replace(/\/v3$/u, "")}/graphql`) {
        return Routes.graphql(world(), request.body.toString(), app.token(Routes.tokenOf(request.headers.authorization) ?? ""))
      }
      return path.startsWith(`${apiPath}/`)
        ? api({ ...request, url: request.url.slice(apiPath.length) })
        : Routes.refuse(404, "Not Found")
    }

    const server = yield* HostServer.start({
      serve,
      shownUrl: (url) => url.startsWith(`${apiPath}/`) ? url.slice(apiPath.length) : url,
      now,
      headers: () => ({ "x-github-request-id": randomUUID() })
    })
    origin = server.url

    return {
      ...server,
      apiUrl: origin + apiPath,
      app,
      users,
      strike: ({ outcome, ...fault }) =>
        server.strike({
          ...fault,
          outcome: outcome !== "revoke" ? outcome : ({ headers }) => {
            app.revoke(Routes.tokenOf(headers.authorization) ?? "")
            return undefined
          }
        }),
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
        })
    }
  })
