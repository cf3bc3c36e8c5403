/**
 * A GitLab server for tests on one loopback origin: the REST API below `/api/v4`, GraphQL, and git over HTTP, over real bare repositories
 * and behind tokens. It refuses requests that GitLab's published description does not have, and checks its own answers against it.
 */
import { BareRepository, type Changes } from "@slipway/git/testing/BareRepository"
import * as GitBackend from "@slipway/git/testing/GitBackend"
import * as HostServer from "@slipway/git/testing/HostServer"
import { Effect, type Scope } from "effect"
import { createHash, randomUUID } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as OpenApi from "./OpenApi.ts"
import { Project, type User } from "./Project.ts"
import * as Routes from "./Routes.ts"

export interface Options {
  /** The web pages' path on the origin. Default none. */
  readonly prefix?: string
  /** Reads of a new merge request until its changes are known. Default none: GitLab takes a moment. */
  readonly unpreparedReads?: number
  /** The server's clock, in milliseconds. */
  readonly now?: () => number
  /** Logs are in another storage, to which GitLab redirects. */
  readonly hasLogStorage?: boolean
}

export interface GitLabServer extends HostServer.HostServer {
  /** The web address. */
  readonly webUrl: string
  readonly users: Array<User>
  readonly tokens: Map<string, Routes.Token>
  readonly groups: Map<string, Map<number, number>>
  readonly projects: ReadonlyArray<Project>
  /** Operations of GitLab's description that were called. */
  readonly called: Set<string>
  /** A private project with one commit on its default branch, `trunk` unless named. */
  project(path: string, files: Changes, defaultBranch?: string): Effect.Effect<Project>
  /** A token with all rights of its account. */
  token(user: User, more?: Partial<Omit<Routes.Token, "user">>): string
}

const GIT = /^\/(.+?)(?:\.git)?\/(info\/refs|git-upload-pack|git-receive-pack)$/u
const TRACE = /^\/api\/v4\/projects\/(\d+)\/jobs\/(\d+)\/trace$/u

const parsed = (body: Buffer): unknown => {
  try {
    return body.length === 0 ? undefined : JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

const refuseGit = (status: number, text: string): GitBackend.GitAnswer => ({
  status,
  headers: { "content-type": "text/plain", ...(status === 401 ? { "www-authenticate": "Basic realm=\"GitLab\"" } : {}) },
  body: Buffer.from(`${text}\n`)
})

export const start = (options: Options = {}): Effect.Effect<GitLabServer, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { hasLogStorage = false, now = Date.now, prefix = "", unpreparedReads = 0 } = options
    const root = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(join(tmpdir(), "slipway-gitlab-"))),
      (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
    )
    const users: Array<User> = []
    const tokens = new Map<string, Routes.Token>()
    const groups = new Map<string, Map<number, number>>()
    const projects: Array<Project> = []
    const called = new Set<string>()
    let ids = 1000
    let origin = ""
    const world = (): Routes.World => ({ origin: origin + prefix, projects, users, tokens, groups })

    /** Answers only what GitLab's description has. */
    const api = async (seen: HostServer.Seen): Promise<HostServer.Answer> => {
      const { pathname, searchParams } = new URL(seen.url, origin)
      const body = parsed(seen.body)
      const { name, problems } = OpenApi.checkRequest({ method: seen.method, url: seen.url, body })
      if (problems.length > 0) return Routes.refuse(500, `not in GitLab's description: ${problems.join("; ")}`)
      if (name !== null) called.add(name)
      const call = {
        method: seen.method,
        path: pathname.slice("/api/v4".length),
        query: searchParams,
        body: (body ?? {}) as Record<string, unknown>
      }
      const answer = await Routes.answer(world(), call, seen.headers.authorization)
      const wrong = OpenApi.checkAnswer(seen, answer.status, answer.body)
      if (wrong.length > 0) return Routes.refuse(500, `the test server answers unlike GitLab: ${wrong.join("; ")}`)
      if (seen.method !== "GET" || answer.status !== 200) return answer
      const etag = `W/"${createHash("sha256").update(JSON.stringify(answer.body)).digest("hex").slice(0, 32)}"`
      return seen.headers["if-none-match"] === etag
        ? { status: 304, headers: { etag } }
        : { ...answer, headers: { ...answer.headers, etag } }
    }

    /** The log of a job: from GitLab, or by a redirection from the storage, which refuses the credentials of another service. */
    const log = ({ headers, url }: HostServer.Seen): HostServer.Answer => {
      const { pathname } = new URL(url, origin)
      const isStored = pathname.startsWith("/storage/")
      const [, id = "", job = ""] = TRACE.exec(isStored ? pathname.slice("/storage".length) : pathname) ?? []
      if (isStored ? headers.authorization !== undefined : !tokens.has(Routes.tokenOf(headers.authorization))) {
        return Routes.refuse(403, "403 Forbidden")
      }
      const status = projects.find((project) => String(project.id) === id)?.statuses.find((one) => String(one.id) === job)
      if (status?.log == null) return Routes.refuse(404, "404 Not Found")
      const { name, problems } = isStored ? { name: null, problems: [] } : OpenApi.checkRequest({ method: "GET", url, body: undefined })
      if (problems.length > 0) return Routes.refuse(500, problems.join("; "))
      if (name !== null) called.add(name)
      if (hasLogStorage && !isStored) return { status: 302, headers: { location: `${origin}/storage${pathname}?signature=x` } }
      return { status: 200, headers: { "content-type": "text/plain" }, body: Buffer.from(status.log) }
    }

    const git = async (seen: HostServer.Seen): Promise<GitBackend.GitAnswer> => {
      const { pathname, search, searchParams } = new URL(seen.url, origin)
      const [, path = "", service = ""] = GIT.exec(pathname) ?? []
      const token = tokens.get(Routes.tokenOf(seen.headers.authorization))
      if (token === undefined || !token.isActive) return refuseGit(401, "HTTP Basic: Access denied")
      const project = Routes.findProject(world(), path)
      const level = project === undefined ? 0 : Routes.levelOf(world(), project, token.user)
      if (project === undefined || level === 0) return refuseGit(404, "The project you were looking for could not be found.")
      const writes = (searchParams.get("service") ?? service) === "git-receive-pack"
      if (writes && level < Routes.DEVELOPER) return refuseGit(403, "You are not allowed to push code to this project.")
      return project.exclusively(async () => {
        const answer = await GitBackend.answer(project.bare.path, {
          method: seen.method,
          service,
          query: search.slice(1),
          headers: seen.headers,
          body: seen.body
        })
        if (writes && seen.method === "POST") await project.settle()
        return answer
      })
    }

    const serve = async (request: HostServer.Seen): Promise<HostServer.Answer> => {
      if (request.url.startsWith("/storage/")) return log(request)
      if (!request.url.startsWith(`${prefix}/`)) return Routes.refuse(404, "404 Not Found")
      const seen = { ...request, url: request.url.slice(prefix.length) }
      const [path = ""] = seen.url.split("?")
      if (path === "/api/graphql") {
        return Routes.graphql(world(), parsed(seen.body) as Record<string, unknown>, seen.headers.authorization)
      }
      if (TRACE.test(path)) return log(seen)
      if (path.startsWith("/api/v4/")) return api(seen)
      return GIT.test(path) ? git(seen) : Routes.refuse(404, "404 Not Found")
    }

    const server = yield* HostServer.start({ serve, now, headers: () => ({ "x-request-id": randomUUID() }) })
    origin = server.url

    return {
      ...server,
      webUrl: origin + prefix,
      users,
      tokens,
      groups,
      projects,
      called,
      project: (path, files, defaultBranch = "trunk") =>
        Effect.promise(async () => {
          const nextId = () => ++ids
          const bare = await BareRepository.create(join(root, `${nextId()}.git`), defaultBranch)
          await bare.commit(defaultBranch, files)
          const project = new Project(path, defaultBranch, bare, { nextId, now, unpreparedReads })
          projects.push(project)
          return project
        }),
      token: (user, more = {}) => {
        const value = `glpat-${randomUUID().replaceAll("-", "")}`
        tokens.set(value, { user, scopes: ["api"], isActive: true, expiresAt: null, isOfApplication: false, ...more })
        if (!users.includes(user)) users.push(user)
        return value
      }
    }
  })
