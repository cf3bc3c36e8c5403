/** Pull requests of repositories on this machine: their rows and states. */
import { PullRequestRefused } from "@slipway/domain/source/ports/PullRequests"
import type { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { guard } from "@slipway/postgres/sql/SqlFailure"
import { DateTime, Effect, Option, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import type { LocalRepositories, LocalRepository } from "./LocalRepositories.ts"
import type { LocalPullRequest } from "./PullCommands.ts"

/** The common parts of operations on pull requests. */
export interface Pulls {
  readonly sql: SqlClient.SqlClient
  readonly repositories: LocalRepositories["Service"]
  readonly host: SourceHost["Service"]
  readonly select: ReturnType<typeof select>
}

export const select = (sql: SqlClient.SqlClient) =>
  SqlSchema.findAll({
    Request: Schema.Struct({ repo: Schema.NullOr(RepoName), number: Schema.NullOr(Schema.Int), open: Schema.Boolean }),
    Result: Schema.Struct({ fullName: RepoName, path: Schema.String, number: Schema.Int }),
    execute: ({ number, open, repo }) =>
      sql`
      SELECT full_name AS "fullName", path, number FROM local_pull_requests
      JOIN local_repositories ON local_repositories.id = repository_id
      WHERE removed_at IS NULL
        AND (${repo}::text IS NULL OR lower(full_name) = lower(${repo}))
        AND (${number}::integer IS NULL OR number = ${number})
        AND (NOT ${open}::boolean OR state = 'open')
      ORDER BY local_pull_requests.id DESC`
  })

const look = (
  { host }: Pulls,
  { fullName, number, path }: { readonly fullName: RepoName; readonly number: number; readonly path: string }
) =>
  Effect.map(host.pullRequestDetails(fullName, number), ({ pullRequest }): LocalPullRequest => ({
    repository: { fullName, path },
    pullRequest
  }))

export const refuse = (repo: RepoName, number: number | null) => (reason: PullRequestRefused["reason"], detail: string) =>
  new PullRequestRefused({ repo, number, reason, detail })

export const unreadable = (repo: RepoName, number: number, path: string) =>
  refuse(repo, number)("unreadable", `${path} cannot be read as a git repository. If it has moved: slipway repos add ${repo} <path>`)

const known = Effect.fnUntraced(function*({ repositories }: Pulls, repo: RepoName, number: number | null) {
  if (Option.isSome(yield* repositories.find(repo))) return
  return yield* refuse(repo, number)("unknown repository", "there is no such repository. Those there are: slipway repos list")
})

export const find = Effect.fn("LocalPullRequests.find")(function*(pulls: Pulls, repo: RepoName, number: number) {
  yield* known(pulls, repo, number)
  const [row] = yield* guard(pulls.select({ repo, number, open: false }))
  if (row === undefined) {
    return yield* refuse(repo, number)(
      "unknown number",
      `there is no such pull request. Those there are: slipway pulls --repo ${repo} --state all`
    )
  }
  return yield* Effect.catchTag(look(pulls, row), "RepoNotAccessible", () => unreadable(row.fullName, number, row.path))
})

/** The pull requests of one repository, or of all. */
export const list = Effect.fn("LocalPullRequests.list")(function*(
  pulls: Pulls,
  { repo, state }: { readonly repo: RepoName | null; readonly state: "open" | "closed" | "all" }
) {
  if (repo !== null) yield* known(pulls, repo, null)
  // An open row may have been merged since the last look.
  const rows = yield* guard(pulls.select({ repo, number: null, open: state === "open" }))
  const missing = new Map<string, LocalRepository>()
  const looked = yield* Effect.forEach(
    rows,
    (row) =>
      Effect.catchTag(
        look(pulls, row),
        "RepoNotAccessible",
        () => Effect.sync(() => void missing.set(row.fullName, { fullName: row.fullName, path: row.path }))
      ),
    { concurrency: 4 }
  )
  const pullRequests = looked.flatMap((one) => one === undefined || state !== "all" && one.pullRequest.state !== state ? [] : [one])
    .sort((a, b) => DateTime.toEpochMillis(b.pullRequest.updatedAt) - DateTime.toEpochMillis(a.pullRequest.updatedAt))
  return { pullRequests, unreadable: [...missing.values()] }
})
