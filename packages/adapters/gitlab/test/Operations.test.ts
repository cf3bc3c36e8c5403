/** The checks that hold the test server, and the adapter's requests to it, to GitLab's published description. */
import { assert, it } from "@effect/vitest"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { type PolledNews, RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { DateTime, Effect, Layer } from "effect"
import { account } from "../src/GitLabApi.ts"
import * as PullRequestFeedbackGitLab from "../src/PullRequestFeedbackGitLab.ts"
import * as RepositoryNewsGitLab from "../src/RepositoryNewsGitLab.ts"
import * as OpenApi from "../testing/OpenApi.ts"
import { ADA, hostOf, optionsOf, project, TestGitLab } from "./TestGitLab.ts"

const problems = (method: string, url: string, body?: unknown) => OpenApi.checkRequest({ method, url: `/api/v4${url}`, body }).problems

it("is the description of GitLab 19.5", () => assert.strictEqual(OpenApi.version, "19.5"))

it("refuses requests that GitLab does not describe", () => {
  assert.deepStrictEqual(
    problems("GET", "/projects/a%2Fb/merge_requests?state=opened&per_page=100&updated_after=2026-11-21T02:41:00.000Z"),
    []
  )
  assert.deepStrictEqual(problems("POST", "/projects/1/merge_requests", { title: "t", source_branch: "a", target_branch: "b" }), [])
  const wrong: ReadonlyArray<readonly [string, string, unknown?]> = [
    ["GET", "/projects/1/merge_requests/2/approvals"],
    ["PATCH", "/projects/1"],
    ["GET", "/projects/1/merge_requests?head=x"],
    ["GET", "/projects/1/merge_requests?state=open"],
    ["GET", "/projects/1/merge_requests?per_page=many"],
    ["GET", "/projects/1/merge_requests?updated_after=2026-11-21"],
    ["GET", "/projects/1/merge_requests/one"],
    ["GET", "/projects/1/jobs/1/trace?byte_limit=512001"],
    ["POST", "/projects/1/merge_requests", { title: "t", source_branch: "a" }],
    ["POST", "/projects/1/merge_requests", { title: "t", source_branch: "a", target_branch: "b", draft: true }],
    ["POST", "/projects/1/merge_requests", { title: 1, source_branch: "a", target_branch: "b" }],
    ["POST", "/projects/1/merge_requests", { title: null, source_branch: "a", target_branch: "b" }],
    ["PUT", "/projects/1/merge_requests/2", { reviewer_ids: ["7"] }],
    ["GET", "/user", {}]
  ]
  for (const [method, url, body] of wrong) assert.lengthOf(problems(method, url, body), 1, `${method} ${url}`)
})

it("refuses answers that GitLab does not describe", () => {
  const answer = (url: string, body: unknown, status = 200) => OpenApi.checkAnswer({ method: "GET", url: `/api/v4${url}` }, status, body)
  assert.deepStrictEqual(answer("/projects/1/merge_requests/2", { id: 1, iid: 2, sha: null, reviewers: [{ id: 1, username: "ada" }] }), [])
  assert.lengthOf(answer("/projects/1/merge_requests/2", { id: "1" }), 1)
  assert.lengthOf(answer("/projects/1/merge_requests/2", { number: 1 }), 1)
  assert.lengthOf(answer("/projects/1/merge_requests/2", { reviewers: [{ login: "ada" }] }), 1)
  assert.lengthOf(answer("/projects/1/merge_requests/2", { created_at: "yesterday" }), 1)
  assert.lengthOf(answer("/projects/1/merge_requests", {}), 1)
  assert.lengthOf(answer("/user", { id: 1 }, 201), 1)
})

it.live("the adapter calls each operation of the file, and no other", () =>
  Effect.gen(function*() {
    const server = yield* TestGitLab
    const { fullName: repo, project: there } = yield* project({ a: "a\n" }, "Acme/tools/App")
    there.members.set(ADA.id, { user: ADA, level: 30, state: "active", expiresAt: null })
    there.labels.add("go")
    const options = optionsOf(server, { groups: ["Acme"] })
    yield* Effect.gen(function*() {
      const host = yield* SourceHost
      const feedback = yield* PullRequestFeedback
      const news = yield* RepositoryNews
      const headSha = yield* Effect.promise(() => there.commit("slipway/x", { x: "x\n" }))
      yield* host.repositories({ owners: ["tools"], search: "", after: null, limit: 10 })
      yield* host.repository("tools/app")
      yield* host.mayWrite(repo, { id: "7", login: "ada" })
      const draft = { title: "T", body: "", baseRef: "trunk", headRef: "slipway/x", headSha, at: DateTime.makeUnsafe(0) }
      const { number } = yield* host.openDraftPullRequest(repo, draft)
      yield* host.decoratePullRequest(repo, number, { labels: ["go"], reviewers: ["ada"] })
      const pipeline = there.pipeline(headSha, { ref: `refs/merge-requests/${number}/merge`, status: "failed" }).id
      there.status(headSha, { name: "test", status: "failed", log: "the end", finishedAt: DateTime.formatIso(draft.at), pipeline })
      yield* feedback.read(repo, number, { since: draft.at, checks: true, knownChecks: new Set() })
      yield* feedback.reply(repo, number, "key", "one")
      yield* feedback.reply(repo, number, "key", "two")
      there.issue()
      there.label("issues", 1, "go")
      there.label("merge_requests", number, "go")
      let cursor: string | null = null
      for (let i = 0; i < 12; i++) {
        const polled: PolledNews = yield* news.poll(repo, { cursor, since: draft.at })
        cursor = polled.cursor
      }
      yield* account(options)
    }).pipe(
      Effect.provide(Layer.mergeAll(hostOf(server, options), PullRequestFeedbackGitLab.layer(options), RepositoryNewsGitLab.layer(options)))
    )
    assert.deepStrictEqual([...server.called].sort(), [...OpenApi.names].sort())
  }).pipe(Effect.provide(TestGitLab.layer())))
