/**
 * What `slipway pulls` shows and does of pull requests of repositories on this machine. How they stand is
 * `SourceHostLocal`'s to say: it is asked before and after.
 */
import type { Author } from "@slipway/domain/publishing/rules/Publication"
import { type Ended, PullRequestRefused, PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost, type SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { MAX_DIFF_BYTES } from "@slipway/domain/source/rules/FileRules"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { statSync } from "node:fs"
import type { GitFailed } from "../git/Git.ts"
import { guard } from "../postgres/sql/SqlFailure.ts"
import * as LocalGit from "./LocalGit.ts"
import { LocalRepositories, type LocalRepository } from "./LocalRepositories.ts"

export interface LocalPullRequest {
  readonly repository: LocalRepository
  readonly pullRequest: PullRequest
}

type Trouble = PullRequestRefused | SourceHostError | StoreUnavailable

/** Where `changed` is `false`, nothing else was done either. */
export interface Done extends Ended, LocalPullRequest {
  readonly branchDeleted: boolean
  /** Where the base branch is checked out, and its files are the merged ones now. */
  readonly checkout?: string
}

const FILTERED = "and some of its files pass through a filter such as LFS"

/** Files that are written there belong to whoever runs this: git itself would not touch another user's checkout either. */
const isOurs = (folder: string): boolean => process.getuid === undefined || statSync(folder).uid === process.getuid()

const quote = (word: string): string => /^[\w@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`

/** Commands that merge it with plain git: in its checkout, or for a bare repository in any clone of it. */
export const mergeCommands = ({ pullRequest, repository }: LocalPullRequest): ReadonlyArray<string> => {
  const [path, base, head] = [repository.path, pullRequest.baseRef, pullRequest.headRef].map(quote)
  return LocalGit.isCheckout(repository.path)
    ? [`cd ${path}`, `git switch ${base}`, `git merge --no-ff ${head}`]
    : [`git switch ${base}`, `git pull ${path} ${base}`, `git pull --no-rebase --no-ff ${path} ${head}`, `git push ${path} ${base}`]
}

/** Commands that get its files into any clone of the repository. */
export const fetchCommands = (
  { pullRequest, repository }: LocalPullRequest
): ReadonlyArray<string> => [`git fetch ${quote(repository.path)} ${quote(pullRequest.headRef)}`, "git switch --detach FETCH_HEAD"]

export class LocalPullRequests extends Context.Service<LocalPullRequests, {
  /** What was changed last comes first. `unreadable`: repositories whose open ones could not be looked at. */
  list(filter: { readonly repo: RepoName | null; readonly state: "open" | "closed" | "all" }): Effect.Effect<
    { readonly pullRequests: ReadonlyArray<LocalPullRequest>; readonly unreadable: ReadonlyArray<LocalRepository> },
    Trouble
  >
  find(repo: RepoName, number: number): Effect.Effect<LocalPullRequest, Trouble>
  /** What its branch changed since it left its base: a patch, or with `statWidth` a line for each file in so many columns. */
  diff(
    repo: RepoName,
    number: number,
    options: LocalGit.DiffOptions
  ): Effect.Effect<Buffer, Trouble>
  /** Closes it without merging. Safe to repeat. */
  close(repo: RepoName, number: number, options: { readonly deleteBranch: boolean }): Effect.Effect<Done, Trouble>
  /**
   * Puts a merge commit on the base branch. Where that is checked out, its files follow, if nobody has changed one: else
   * it is refused. `headSha`: the branch must be at this commit. Safe to repeat.
   */
  merge(repo: RepoName, number: number, options: {
    readonly author: Author
    readonly deleteBranch: boolean
    readonly headSha?: string
  }): Effect.Effect<Done, Trouble>
}>()("@slipway/adapters/LocalPullRequests") {
  /** Needs `SourceHostLocal`, not any other host. */
  static readonly layer = Layer.effect(
    LocalPullRequests,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const repositories = yield* LocalRepositories
      const host = yield* SourceHost

      const select = SqlSchema.findAll({
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

      const look = ({ fullName, number, path }: { readonly fullName: RepoName; readonly number: number; readonly path: string }) =>
        Effect.map(host.pullRequestDetails(fullName, number), ({ pullRequest }): LocalPullRequest => ({
          repository: { fullName, path },
          pullRequest
        }))

      const refuse = (repo: RepoName, number: number | null) => (reason: PullRequestRefused["reason"], detail: string) =>
        new PullRequestRefused({ repo, number, reason, detail })

      const unreadable = (repo: RepoName, number: number, path: string) =>
        refuse(repo, number)("unreadable", `${path} cannot be read as a git repository. If it has moved: slipway repos add ${repo} <path>`)

      const known = Effect.fnUntraced(function*(repo: RepoName, number: number | null) {
        if (Option.isSome(yield* repositories.find(repo))) return
        return yield* refuse(repo, number)("unknown repository", "there is no such repository. Those there are: slipway repos list")
      })

      const find = Effect.fn("LocalPullRequests.find")(function*(repo: RepoName, number: number) {
        yield* known(repo, number)
        const [row] = yield* guard(select({ repo, number, open: false }))
        if (row === undefined) {
          return yield* refuse(repo, number)(
            "unknown number",
            `there is no such pull request. Those there are: slipway pulls --repo ${repo} --state all`
          )
        }
        return yield* Effect.catchTag(look(row), "RepoNotAccessible", () => unreadable(row.fullName, number, row.path))
      })

      /** What git cannot do becomes a refusal. */
      const withGit = <A>(
        { pullRequest: { number }, repository: { fullName, path } }: LocalPullRequest,
        self: Effect.Effect<A, GitFailed | Trouble>
      ) =>
        Effect.catchTag(self, "GitFailed", (failure) =>
          Effect.andThen(
            Effect.logWarning("git failed in a local repository", { repo: fullName, failure: failure.message }),
            unreadable(fullName, number, path)
          ))

      /** Taken before it goes: a branch that is checked out somewhere cannot be deleted. */
      const deletable = Effect.fnUntraced(
        function*({ pullRequest: { headRef, number }, repository: { fullName, path } }: LocalPullRequest) {
          const folder = yield* LocalGit.checkedOutIn(path, headRef)
          if (folder === undefined) return
          return yield* refuse(fullName, number)(
            "checked out",
            `its branch cannot be deleted: it is checked out in ${folder}. Switch to another branch there.`
          )
        }
      )

      /** Leaves a branch that has moved since. */
      const deleteBranch = ({ pullRequest: { headRef, headSha }, repository: { path } }: LocalPullRequest) =>
        LocalGit.moveBranch(path, headRef, headSha, null).pipe(Effect.as(true), Effect.catchTag("GitFailed", () => Effect.succeed(false)))

      return LocalPullRequests.of({
        find,
        list: Effect.fn("LocalPullRequests.list")(function*({ repo, state }) {
          if (repo !== null) yield* known(repo, null)
          // Those that count as open may have been merged since anybody looked.
          const rows = yield* guard(select({ repo, number: null, open: state === "open" }))
          const missing = new Map<string, LocalRepository>()
          const looked = yield* Effect.forEach(
            rows,
            (row) =>
              Effect.catchTag(
                look(row),
                "RepoNotAccessible",
                () => Effect.sync(() => void missing.set(row.fullName, { fullName: row.fullName, path: row.path }))
              ),
            { concurrency: 4 }
          )
          const pullRequests = looked.flatMap((one) => one === undefined || state !== "all" && one.pullRequest.state !== state ? [] : [one])
            .sort((a, b) => DateTime.toEpochMillis(b.pullRequest.updatedAt) - DateTime.toEpochMillis(a.pullRequest.updatedAt))
          return { pullRequests, unreadable: [...missing.values()] }
        }),
        diff: Effect.fn("LocalPullRequests.diff")(function*(repo: RepoName, number: number, options) {
          const found = yield* find(repo, number)
          const { pullRequest: { baseRef, headRef, headSha, merged }, repository: { path } } = found
          const refused = refuse(found.repository.fullName, number)
          return yield* withGit(
            found,
            Effect.gen(function*() {
              if ((yield* LocalGit.commit(path, headSha)) === undefined) {
                return yield* refused("no commit", `its branch ${headRef} was deleted, and git has removed the commit ${headSha} since.`)
              }
              const base = (yield* LocalGit.tips(path, baseRef)).get(baseRef)
              if (base === undefined) return yield* refused("no base", `there is no branch ${baseRef} to compare it with.`)
              const before = merged ? yield* LocalGit.beforeMerge(path, base, headSha) : base
              if (before === undefined) {
                return yield* refused(
                  "merged without a merge commit",
                  `${baseRef} was moved on to it, so git does not know where it began. See: git -C ${quote(path)} log -p ${headSha}`
                )
              }
              const from = yield* LocalGit.mergeBase(path, before, headSha)
              if (from === undefined) return yield* refused("nothing in common", `${headRef} and ${baseRef} have no commit in common.`)
              return yield* LocalGit.diff(path, from, headSha, options).pipe(
                Effect.catchIf(({ reason }) => reason === "output", () =>
                  refused(
                    "too large",
                    `its diff is too large to show. See it in parts: git -C ${quote(path)} diff ${from} ${headSha} -- <file>`
                  ))
              )
            })
          )
        }),
        close: Effect.fn("LocalPullRequests.close")(function*(repo: RepoName, number: number, options) {
          const found = yield* find(repo, number)
          const { pullRequest, repository: { fullName } } = found
          if (pullRequest.merged) {
            return yield* refuse(fullName, number)("merged", "it was merged, which cannot be taken back by closing it.")
          }
          if (pullRequest.state === "closed") return { ...found, changed: false, branchDeleted: false }
          if (options.deleteBranch) yield* withGit(found, deletable(found))
          const at = DateTime.formatIso(yield* DateTime.now)
          yield* guard(sql`
            UPDATE local_pull_requests SET state = 'closed', updated_at = ${at} WHERE id = ${pullRequest.id} AND state = 'open'`)
          const branchDeleted = options.deleteBranch && (yield* deleteBranch(found))
          return { ...yield* find(repo, number), changed: true, branchDeleted }
        }),
        merge: Effect.fn("LocalPullRequests.merge")(function*(repo: RepoName, number: number, options) {
          const found = yield* find(repo, number)
          const { pullRequest: { baseRef, headRef, headSha, merged, state, title }, repository: { fullName, path } } = found
          const refused = refuse(fullName, number)
          if (merged) return { ...found, changed: false, branchDeleted: false }
          if (state === "closed") return yield* refused("closed", "it was closed without being merged.")
          if (options.headSha !== undefined && options.headSha !== headSha) {
            return yield* refused("outdated", `${headRef} was pushed to since it was looked at.`)
          }
          return yield* withGit(
            found,
            Effect.gen(function*() {
              const base = (yield* LocalGit.tips(path, baseRef)).get(baseRef)
              if (base === undefined) return yield* refused("no base", `there is no branch ${baseRef} to merge into.`)
              const folder = yield* LocalGit.checkedOutIn(path, baseRef)
              /** Whoever works there decides what becomes of their files. */
              const leave = (why: string) => {
                const command = `cd ${quote(folder ?? "")} && git merge --no-ff ${quote(headRef)}`
                return refused("checked out", `${baseRef} is checked out in ${folder}, ${why}. Merge it there: ${command}`)
              }
              if (folder !== undefined) {
                if (!isOurs(folder)) return yield* leave("which belongs to another user")
                if (yield* LocalGit.hasFilters(path, base)) return yield* leave(FILTERED)
                if (!(yield* LocalGit.isClean(folder))) return yield* leave("where something is not committed yet")
              }
              if (options.deleteBranch) yield* deletable(found)
              const common = yield* LocalGit.mergeBase(path, base, headSha)
              if (common === undefined) {
                return yield* refused("nothing in common", `${headRef} and ${baseRef} have no commit in common.`)
              }
              // Somebody else merged it since it was found.
              if (common === headSha) return { ...yield* find(repo, number), changed: false, branchDeleted: false }
              const tree = yield* LocalGit.mergedTree(path, base, headSha)
              if (tree === undefined) {
                const where = LocalGit.isCheckout(path) ? "" : "In a clone of it: "
                return yield* refused(
                  "conflict",
                  `it conflicts with ${baseRef}. Merge it by hand. ${where}${mergeCommands(found).join(" && ")}`
                )
              }
              const merge = yield* LocalGit.makeCommit(path, {
                tree,
                parents: [base, headSha],
                message: `Merge pull request #${number} from ${headRef}\n\n${title}\n`,
                author: options.author,
                at: yield* DateTime.now
              })
              if (folder !== undefined && (yield* LocalGit.hasFilters(path, merge))) return yield* leave(FILTERED)
              const move = folder === undefined ? LocalGit.moveBranch(path, baseRef, base, merge) : LocalGit.fastForward(folder, merge)
              yield* move.pipe(
                Effect.catchTag(
                  "GitFailed",
                  Effect.fnUntraced(function*(failure) {
                    if ((yield* LocalGit.tips(path, baseRef)).get(baseRef) === base) {
                      return yield* folder === undefined ? failure : leave("where a file that git does not know is in the way")
                    }
                    return yield* refused("moved", `${baseRef} was moved by somebody else meanwhile. Try again.`)
                  })
                )
              )
              const branchDeleted = options.deleteBranch && (yield* deleteBranch(found))
              return { ...yield* find(repo, number), changed: true, branchDeleted, ...(folder === undefined ? {} : { checkout: folder }) }
            })
          )
        })
      })
    })
  )

  /** The port, for the service's own pages. */
  static readonly layerPages = Layer.effect(
    PullRequests,
    Effect.map(LocalPullRequests, (pulls) => ({
      diff: (repo, number) => pulls.diff(repo, number, { maximumBytes: MAX_DIFF_BYTES }),
      merge: (repo, number, options) => pulls.merge(repo, number, { ...options, deleteBranch: false }),
      close: (repo, number) => pulls.close(repo, number, { deleteBranch: false })
    }))
  ).pipe(Layer.provide(LocalPullRequests.layer))
}
