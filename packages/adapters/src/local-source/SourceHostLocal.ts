/**
 * `SourceHost` on repositories of this machine: for trying Slipway out, for tests, and for teams whose git server is a
 * folder. Pull requests are rows of ours. What git knows of them is looked up each time and kept for when it is gone:
 *
 * - the head is what the branch points to now;
 * - a head that is in the history of its base is merged, which closes it (a squashed merge is not noticed);
 * - a branch that is deleted closes it, and so does whoever closes it (`LocalPullRequests`); closed ones stay as they are.
 */
import { RepoNotAccessible, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { noChecks, PullRequest } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import type { GitFailed } from "../git/Git.ts"
import type * as Shortstat from "../git/save/Shortstat.ts"
import { Instant } from "../postgres/sql/Instant.ts"
import { guard } from "../postgres/sql/SqlFailure.ts"
import * as LocalGit from "./LocalGit.ts"
import { LocalRepositories, type LocalRepository } from "./LocalRepositories.ts"

export interface Options {
  /** Where people reach Slipway; pull requests are pages below it. */
  readonly publicUrl: string
}

const Row = Schema.Struct({ ...PullRequest.fields, createdAt: Instant, updatedAt: Instant }).mapFields(
  ({ nodeId: _nodeId, url: _url, ...fields }) => fields
)
type Row = typeof Row.Type
const isSame = Schema.toEquivalence(Schema.toType(Row))

const make = Effect.fnUntraced(function*(options: Options) {
  const sql = yield* SqlClient.SqlClient
  const repositories = yield* LocalRepositories

  const columns = sql.literal(`
    id, number, title, state, draft, merged, base_ref AS "baseRef", head_ref AS "headRef", head_sha AS "headSha",
    created_at AS "createdAt", updated_at AS "updatedAt", additions, deletions, changed_files AS "changedFiles"`)
  const repositoryId = (repo: RepoName) => sql`(SELECT id FROM local_repositories WHERE lower(full_name) = lower(${repo}))`

  const openFor = (repo: RepoName, headRef: string) =>
    SqlSchema.findOneOption({
      Request: Schema.Void,
      Result: Row,
      execute: () =>
        sql`
        SELECT ${columns} FROM local_pull_requests
        WHERE repository_id = ${repositoryId(repo)} AND head_ref = ${headRef} AND state = 'open'`
    })()
  const numbered = (repo: RepoName, number: number) =>
    SqlSchema.findOneOption({
      Request: Schema.Void,
      Result: Row,
      execute: () => sql`SELECT ${columns} FROM local_pull_requests WHERE repository_id = ${repositoryId(repo)} AND number = ${number}`
    })()

  /** The number is drawn under the lock of the repository's row, and given back when the insert fails. */
  const insert = (repo: RepoName, draft: Parameters<SourceHost["Service"]["openDraftPullRequest"]>[1], counts: Shortstat.Counts) =>
    SqlSchema.findOne({
      Request: Schema.Void,
      Result: Row,
      execute: () =>
        sql`
        WITH repository AS (
          UPDATE local_repositories SET pull_requests = pull_requests + 1 WHERE lower(full_name) = lower(${repo})
          RETURNING id, pull_requests
        )
        INSERT INTO local_pull_requests (repository_id, number, title, body, state, draft, merged, base_ref, head_ref, head_sha,
          additions, deletions, changed_files, created_at, updated_at)
        SELECT id, pull_requests, ${draft.title}, ${draft.body}, 'open', true, false, ${draft.baseRef}, ${draft.headRef}, ${draft.headSha},
          ${counts.additions}::integer, ${counts.deletions}::integer, ${counts.changedFiles}::integer,
          ${DateTime.formatIso(draft.at)}::timestamptz, ${DateTime.formatIso(draft.at)}::timestamptz
        FROM repository
        RETURNING ${columns}`
    })().pipe(Effect.catchTag("NoSuchElementError", Effect.die))

  const update = (row: Row) =>
    sql`
      UPDATE local_pull_requests SET state = ${row.state}, merged = ${row.merged}, head_sha = ${row.headSha}, additions = ${row.additions},
        deletions = ${row.deletions}, changed_files = ${row.changedFiles}, updated_at = ${DateTime.formatIso(row.updatedAt)}
      WHERE id = ${row.id} AND state = 'open'`

  const toPullRequest = (repository: LocalRepository, row: Row): PullRequest => ({
    ...row,
    nodeId: `local_${row.id}`,
    url: `${options.publicUrl.replace(/\/$/u, "")}/local/${repository.fullName}/pulls/${row.number}`
  })

  /** Runs `use` with the repository; what git or the database cannot do becomes the port's error. */
  const within = <A>(
    operation: string,
    repo: RepoName,
    use: (repository: LocalRepository) => Effect.Effect<A, GitFailed | RepoNotAccessible | SourceHostError | StoreUnavailable>
  ) =>
    Effect.gen(function*() {
      const repository = yield* repositories.find(repo)
      if (Option.isNone(repository)) return yield* new RepoNotAccessible({ repo })
      return yield* use(repository.value)
    }).pipe(Effect.catchTags({
      GitFailed: (failure) =>
        Effect.andThen(
          Effect.logWarning("git could not read a local repository", { repo, failure: failure.message }),
          Effect.fail(
            /not a git repository|ermission denied/u.test(failure.stderr)
              ? new RepoNotAccessible({ repo })
              : new SourceHostError({ operation, detail: "The repository could not be read.", retryable: failure.reason !== "exit" })
          )
        ),
      StoreUnavailable: () =>
        Effect.fail(new SourceHostError({ operation, detail: "The database is not available just now.", retryable: true }))
    }))

  /** What the repository says now. `at` dates the change, if there is one. */
  const look = Effect.fnUntraced(function*({ path }: LocalRepository, row: Row, at: DateTime.Utc) {
    if (row.state === "closed") return row
    const tips = yield* LocalGit.tips(path, row.headRef, row.baseRef)
    const [head, base] = [tips.get(row.headRef), tips.get(row.baseRef)]
    const headSha = head ?? row.headSha
    const merged = base !== undefined && (yield* LocalGit.contains(path, base, headSha))
    const state = merged || head === undefined ? "closed" as const : "open" as const
    // Of a merged or deleted branch the last counts stand; so they do where the branches have nothing in common.
    const counts = state === "closed" || base === undefined ? {} : yield* LocalGit.counts(path, base, headSha).pipe(
      Effect.catchTag("GitFailed", () => Effect.succeed({}))
    )
    const seen: Row = { ...row, ...counts, headSha, merged, state }
    if (isSame(seen, row)) return row
    const changed = { ...seen, updatedAt: at }
    yield* guard(update(changed))
    return changed
  })

  const noSuch = (operation: string) => new SourceHostError({ operation, detail: "There is no such pull request.", retryable: false })

  return SourceHost.of({
    name: "local",
    refusal: Effect.fn("SourceHost.refusal")(function*(repos: ReadonlyArray<RepoName>) {
      const [repo] = yield* repositories.missing(repos)
      if (repo === undefined) return null
      return new RepoNotAccessible({ repo, advice: `Add it to those of this machine with: slipway repos add ${repo} PATH` })
      // What cannot be looked up is not known; whoever stores the sandbox meets the same trouble.
    }, Effect.catchTag("StoreUnavailable", () => Effect.succeed(null))),
    repositories: Effect.fn("SourceHost.repositories")((query) =>
      Effect.catchTag(repositories.page(query), "StoreUnavailable", () =>
        Effect.fail(
          new SourceHostError({ operation: "list repositories", detail: "The database is not available just now.", retryable: true })
        ))
    ),
    repository: Effect.fn("SourceHost.repository")((repo: RepoName) =>
      within(
        "read the repository",
        repo,
        ({ fullName, path }) => Effect.map(LocalGit.defaultBranch(path), (defaultBranch) => ({ fullName, defaultBranch }))
      )
    ),
    remote: Effect.fn("SourceHost.remote")((repo: RepoName) =>
      within("read the repository", repo, ({ path }) => Effect.succeed({ url: path, authorization: null }))
    ),
    findOpenPullRequest: Effect.fn("SourceHost.findOpenPullRequest")((repo: RepoName, headRef: string) =>
      within("find the pull request", repo, (repository) =>
        Effect.gen(function*() {
          const row = yield* guard(openFor(repo, headRef))
          if (Option.isNone(row)) return null
          const seen = yield* look(repository, row.value, yield* DateTime.now)
          return seen.state === "open" ? toPullRequest(repository, seen) : null
        }))
    ),
    openDraftPullRequest: Effect.fn("SourceHost.openDraftPullRequest")((repo, draft) => {
      const operation = "open the pull request"
      const refuse = (detail: string) => new SourceHostError({ operation, detail, retryable: false })
      return within(operation, repo, (repository) =>
        Effect.gen(function*() {
          const tips = yield* LocalGit.tips(repository.path, draft.headRef, draft.baseRef)
          const base = tips.get(draft.baseRef)
          if (base === undefined) return yield* refuse(`There is no branch "${draft.baseRef}" to merge into.`)
          if (tips.get(draft.headRef) !== draft.headSha) {
            return yield* refuse(`The branch "${draft.headRef}" is not at the commit that was pushed.`)
          }
          const counts = yield* LocalGit.counts(repository.path, base, draft.headSha)
          const row = yield* insert(repo, draft, counts).pipe(
            Effect.catchReason("SqlError", "UniqueViolation", () =>
              Effect.fail(refuse(`There is an open pull request for the branch "${draft.headRef}" already.`))),
            guard
          )
          return toPullRequest(repository, row)
        }))
    }),
    pullRequestPushed: Effect.fn("SourceHost.pullRequestPushed")((repo, number, push) => {
      const operation = "update the pull request"
      return within(operation, repo, (repository) =>
        Effect.gen(function*() {
          const row = yield* guard(numbered(repo, number))
          if (Option.isNone(row)) return yield* noSuch(operation)
          return toPullRequest(repository, yield* look(repository, row.value, push.at))
        }))
    }),
    pullRequestDetails: Effect.fn("SourceHost.pullRequestDetails")((repo: RepoName, number: number) => {
      const operation = "read the pull request"
      return within(operation, repo, (repository) =>
        Effect.gen(function*() {
          const row = yield* guard(numbered(repo, number))
          if (Option.isNone(row)) return yield* noSuch(operation)
          const seen = yield* look(repository, row.value, yield* DateTime.now)
          return { pullRequest: toPullRequest(repository, seen), checks: noChecks, comments: [], pending: false }
        }))
    })
  })
})

/** Needs `LocalRepositories` and the database. */
export const layer = (options: Options): Layer.Layer<SourceHost, never, LocalRepositories | SqlClient.SqlClient> =>
  Layer.effect(SourceHost, make(options))
