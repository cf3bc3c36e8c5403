/**
 * A source host for tests that speaks as Forgejo or Gitea do, on a loopback origin: the API below `/api/v1`, and git over HTTP below
 * `/owner/name.git`, both over real bare repositories. Requests and answers that are not as the published description says are answered
 * with status 500, so that the test fails that sent them.
 */
import { BareRepository, type Changes } from "@slipway/git/testing/BareRepository"
import * as GitBackend from "@slipway/git/testing/GitBackend"
import * as HostServer from "@slipway/git/testing/HostServer"
import { Effect, type Scope } from "effect"
import { randomBytes } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Description from "./Description.ts"
import { Repository, type User } from "./Repository.ts"
import * as Routes from "./Routes.ts"

export interface Options {
  /** Default `forgejo`. */
  readonly flavour?: Description.Flavour
  /** The path of the server's pages. Default: none. */
  readonly prefix?: string
  /** Entries on a page, at most. Default 50. */
  readonly pageLimit?: number
  /** Default `WIP:` and `[WIP]`, as the servers have them. */
  readonly draftPrefixes?: ReadonlyArray<string>
  /** The server's clock, in milliseconds. */
  readonly now?: () => number
}

export interface ForgejoServer extends HostServer.HostServer {
  /** The address of its pages. */
  readonly webUrl: string
  readonly flavour: Description.Flavour
  /** The account of {@link token}. */
  readonly bot: User
  /** Its token. */
  readonly token: string
  /** A further token. */
  mint(user: User, scopes: ReadonlyArray<string>): string
  revoke(token: string): void
  /** Operations of the description that were asked for. */
  readonly asked: ReadonlySet<string>
  readonly users: Array<User>
  readonly organizations: Map<string, Routes.Organization>
  /** A private repository with one commit on its default branch, `trunk` unless named. The bot is its administrator. */
  repository(fullName: string, files: Changes, defaultBranch?: string): Effect.Effect<Repository>
}

const GIT = /^\/([^/]+)\/([^/]+?)(?:\.git)?\/(info\/refs|git-upload-pack|git-receive-pack)$/u
const VERSIONS: Readonly<Record<Description.Flavour, string>> = { forgejo: "12.0.0+gitea-1.22.0", gitea: "1.27.0" }

/** `token X` and `Bearer X` for the API, `Basic` for git, with the token as the password. */
const tokenOf = (authorization: string | undefined): string => {
  const [, scheme = "", credentials = ""] = /^(\S+) +(\S+)$/u.exec(authorization ?? "") ?? []
  if (/^(?:token|bearer)$/iu.test(scheme)) return credentials
  return /^basic$/iu.test(scheme) ? /:(.*)$/su.exec(Buffer.from(credentials, "base64").toString())?.[1] ?? "" : ""
}

const parsed = (body: Buffer): unknown => body.length === 0 ? undefined : JSON.parse(body.toString())

export const start = (options: Options = {}): Effect.Effect<ForgejoServer, never, Scope.Scope> =>
  Effect.gen(function*() {
    const { draftPrefixes = ["WIP:", "[WIP]"], flavour = "forgejo", now = Date.now, pageLimit = 50, prefix = "" } = options
    const root = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(join(tmpdir(), "slipway-forgejo-"))),
      (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
    )
    const description = Description.load(flavour)
    const asked = new Set<string>()
    const repositories: Array<Repository> = []
    const organizations = new Map<string, Routes.Organization>()
    const bot: User = { id: 5, login: "slipway" }
    const users: Array<User> = [bot]
    const tokens = new Map<string, Routes.Token>()
    const mint = (user: User, scopes: ReadonlyArray<string>) => {
      const token = randomBytes(20).toString("hex")
      tokens.set(token, { user, scopes: new Set(scopes) })
      return token
    }
    let ids = 1000
    let origin = ""
    const world = (): Routes.World => ({
      origin: origin + prefix,
      flavour,
      draftPrefixes,
      version: VERSIONS[flavour],
      pageLimit,
      repositories,
      organizations,
      users,
      now
    })

    const api = async (seen: HostServer.Seen): Promise<Routes.Answer> => {
      const { pathname, searchParams } = new URL(seen.url, origin)
      const path = pathname.slice(`${prefix}/api/v1`.length)
      const call: Routes.Call = { method: seen.method, path, query: searchParams, body: parsed(seen.body), range: seen.headers.range }
      const answer = await Routes.answer(world(), call, tokens.get(tokenOf(seen.headers.authorization)))
      const operation = description.operationOf(seen.method, path)
      if (operation !== undefined) asked.add(operation)
      const problems = description.problems({ ...call, status: answer.status === 206 ? 200 : answer.status, answer: answer.body })
      return problems.length === 0 ? answer : Routes.refuse(world(), 500, `Not as described: ${problems.join("; ")}`)
    }

    const git = async (seen: HostServer.Seen): Promise<GitBackend.GitAnswer> => {
      const { pathname, search, searchParams } = new URL(seen.url, origin)
      const [, owner = "", name = "", service = ""] = GIT.exec(pathname.slice(prefix.length)) ?? []
      const token = tokens.get(tokenOf(seen.headers.authorization))
      const refused = (status: number, text: string): GitBackend.GitAnswer => ({
        status,
        headers: { "content-type": "text/plain", ...(status === 401 ? { "www-authenticate": "Basic realm=\"Gitea\"" } : {}) },
        body: Buffer.from(text)
      })
      if (token === undefined) return refused(401, "Unauthorized")
      const repository = Routes.findRepository({ repositories }, owner, name)
      if (repository === undefined || Routes.accessOf(repository, token.user) === "none") return refused(404, "Not found.")
      const writes = (searchParams.get("service") ?? service) === "git-receive-pack"
      if (writes && !Routes.mayWrite(repository, token.user)) return refused(403, "User permission denied for writing.")
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

    const server = yield* HostServer.start({
      now,
      serve: async (seen) => {
        const [path = ""] = seen.url.split("?")
        if (path.startsWith(`${prefix}/api/v1/`)) return api(seen)
        return path.startsWith(prefix) && GIT.test(path.slice(prefix.length)) ? git(seen) : { status: 404 }
      }
    })
    origin = server.url

    return {
      ...server,
      webUrl: origin + prefix,
      flavour,
      bot,
      token: mint(bot, ["all"]),
      mint,
      revoke: (token) => void tokens.delete(token),
      asked,
      users,
      organizations,
      repository: (fullName, files, defaultBranch = "trunk") =>
        Effect.promise(async () => {
          const [login = "", name = ""] = fullName.split("/")
          const nextId = () => ++ids
          const bare = await BareRepository.create(join(root, `${nextId()}.git`), defaultBranch)
          await bare.commit(defaultBranch, files)
          const owner = repositories.find((other) => other.owner.login === login)?.owner ?? { id: nextId(), login }
          const repository = new Repository(owner, name, defaultBranch, bare, { nextId, now })
          repository.collaborators.push({ ...bot, permission: "admin" })
          repositories.push(repository)
          return repository
        })
    }
  })
