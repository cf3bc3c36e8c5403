import { assert, it } from "@effect/vitest"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { gitIn, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as Migrations from "@slipway/postgres/Migrations"
import * as PullRequestFeedbackContract from "@slipway/testing/contracts/source/PullRequestFeedbackContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { LocalPullRequests } from "../src/LocalPullRequests.ts"
import { LocalRepositories } from "../src/LocalRepositories.ts"
import * as PullRequestFeedbackLocal from "../src/PullRequestFeedbackLocal.ts"
import * as SourceHostLocal from "../src/SourceHostLocal.ts"

const layer = Layer.merge(PullRequestFeedbackLocal.layer, LocalPullRequests.layerPages).pipe(
  Layer.provideMerge(SourceHostLocal.layer({ publicUrl: "https://slipway.example" })),
  Layer.provideMerge(LocalRepositories.layer),
  Layer.provideMerge(TestPostgres.layer(Migrations.layer))
)

const repository = Effect.fnUntraced(function*(files: Readonly<Record<string, string>>) {
  const repositories = yield* LocalRepositories
  const path = yield* temporaryFolder
  gitIn(path, "init", "--quiet", "--initial-branch=trunk")
  const commit = (changes: Readonly<Record<string, string | null>>) => {
    for (const [name, content] of Object.entries(changes)) writeFileSync(join(path, name), content ?? "")
    gitIn(path, "add", "--all")
    gitIn(path, "commit", "--quiet", "--message", "change")
    return gitIn(path, "rev-parse", "HEAD")
  }
  commit(files)
  const { fullName } = yield* repositories.register(RepoName.make(`Acme/App-${randomUUID()}`), path)
  return {
    fullName,
    commit: (branch: string, changes: Readonly<Record<string, string | null>>) =>
      Effect.sync(() => {
        gitIn(path, "switch", "--quiet", "--create", branch, "trunk")
        const sha = commit(changes)
        gitIn(path, "switch", "--quiet", "trunk")
        return sha
      }),
    deleteBranch: (branch: string) => Effect.sync(() => void gitIn(path, "branch", "--quiet", "-D", branch))
  }
})

let reviews = 0

const fixture: PullRequestFeedbackContract.Fixture<LocalRepositories | SqlClient.SqlClient | typeof PullRequests.Identifier> = {
  repository: Effect.fnUntraced(function*(files) {
    const sql = yield* SqlClient.SqlClient
    const pulls = yield* PullRequests
    const here = yield* repository(files)
    return {
      ...here,
      say: Effect.fnUntraced(function*(number, { isBot = false, kind, line = null, login, path, text }) {
        const at = yield* DateTime.now
        const comments = path === undefined ? [] : [{ path, line, text }]
        const review = {
          key: String(++reviews),
          author: { id: `user_${login}`, login },
          text: path === undefined ? text : "",
          comments,
          at
        }
        yield* Effect.orDie(pulls!.review(here.fullName, number, review))
        // Only the service and reviews write comments; those of others are made here.
        yield* Effect.orDie(sql`
          UPDATE local_pull_comments SET is_review = ${kind === "review"}, author_id = ${isBot ? null : `user_${login}`}
          WHERE id = (SELECT max(id) FROM local_pull_comments)`)
        return reviews
      })
    }
  })
}

register(PullRequestFeedbackContract.suite("local", layer, fixture))

it.layer(layer)("Reviews of local pull requests", (it) => {
  const opened = Effect.gen(function*() {
    const host = yield* SourceHost
    const pulls = (yield* PullRequests)!
    const here = yield* repository({ a: "one\n" })
    const headSha = yield* here.commit("slipway/x", { a: "two\n" })
    const at = yield* DateTime.now
    const { number } = yield* host.openDraftPullRequest(here.fullName, {
      title: "T",
      body: "",
      baseRef: "trunk",
      headRef: "slipway/x",
      headSha,
      at
    })
    const review = {
      key: "1",
      author: { id: "user_1", login: "Maria" },
      text: "All of it.",
      comments: [{ path: "a", line: 1, text: "Rename." }],
      at
    }
    return { host, pulls, here, number, review }
  })

  it.effect("are stored once, and are comments of the pull request", () =>
    Effect.gen(function*() {
      const { here: { fullName }, host, number, pulls, review } = yield* opened
      yield* pulls.review(fullName, number, review)
      yield* pulls.review(fullName, number, { ...review, text: "Other." })
      const feedback = yield* PullRequestFeedback
      const { items } = yield* feedback.read(fullName, number, { since: DateTime.makeUnsafe(0), checks: false, knownChecks: new Set() })
      assert.deepStrictEqual(items.map(({ body, kind, line, path }) => [kind, body, path, line]), [
        ["review", "All of it.", null, null],
        ["review_comment", "Rename.", "a", 1]
      ])
      const { comments } = yield* host.pullRequestDetails(fullName, number)
      assert.deepStrictEqual(comments.map(({ author, text, title }) => [author, title, text]), [
        ["Maria", "Comment", "All of it."],
        ["Maria", "Review comment on a", "Rename."]
      ])
      assert.deepStrictEqual(comments.map(({ url }) => url), items.map(({ url }) => url))
    }))

  it.effect("are refused where the pull request is closed", () =>
    Effect.gen(function*() {
      const { here: { fullName }, number, pulls, review } = yield* opened
      yield* pulls.close(fullName, number)
      const refused = yield* Effect.flip(pulls.review(fullName, number, review))
      assert.strictEqual(refused._tag === "PullRequestRefused" ? refused.reason : null, "closed")
    }))
})
