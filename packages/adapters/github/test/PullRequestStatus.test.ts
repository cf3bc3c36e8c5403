import { assert, it } from "@effect/vitest"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { MAX_COMMENT } from "@slipway/domain/source/schema/PullRequest"
import { DateTime, Effect } from "effect"
import { refuse } from "../testing/Routes.ts"
import { layer, repository, TestGitHub } from "./TestGitHub.ts"

/** A repository with an open pull request. */
const opened = Effect.gen(function*() {
  const server = yield* TestGitHub
  const host = yield* SourceHost
  const { fullName: repo, repository: there } = yield* repository({ v: "0\n" })
  const headSha = yield* Effect.promise(() => there.commit("slipway/x", { v: "1\n" }))
  const draft = { title: "Title", body: "Body", baseRef: "trunk", headRef: "slipway/x", headSha, at: DateTime.makeUnsafe(0) }
  const { number } = yield* host.openDraftPullRequest(repo, draft)
  return { server, host, there, repo, draft, headSha, number, details: host.pullRequestDetails(repo, number) }
})

it.layer(layer({ readsBeforeMergeable: 0 }))("The status of a pull request", (it) => {
  it.effect("has its checks, workflows and comments, in the words of GitHub", () =>
    Effect.gen(function*() {
      const { details, headSha, number, repo, server, there } = yield* opened
      const check = there.checkRun(headSha, {
        name: "build",
        status: "completed",
        conclusion: "success",
        startedAt: "2026-11-21T00:00:00Z",
        completedAt: "2026-11-21T00:01:00Z"
      })
      const running = there.checkRun(headSha, { name: "test", status: "in_progress", startedAt: "2026-11-21T00:00:30Z" })
      const workflow = there.workflowRun(headSha, {
        name: "CI",
        headBranch: "slipway/x",
        status: "in_progress",
        createdAt: "2026-11-21T00:00:00Z"
      })
      there.checkRun("0".repeat(40), { name: "of another commit" })
      there.workflowRun("0".repeat(40), { name: "of another commit" })
      const remark = there.comment(number, { user: { id: 7, login: "mona" }, body: "**Why?**" })
      const review = there.comment(number, { user: null, path: "src/a.ts", body: "Not this.", line: 12 })
      const { checks, comments } = yield* details
      assert.deepStrictEqual(checks, {
        label: "1 of 2 checks passed",
        state: "pending",
        updatedAt: "2026-11-21T00:01:00Z",
        checkRuns: [
          {
            id: running.id,
            name: "test",
            status: "in_progress",
            startedAt: "2026-11-21T00:00:30Z",
            url: `${server.url}/${repo}/runs/${running.id}`
          },
          {
            id: check.id,
            name: "build",
            status: "completed",
            conclusion: "success",
            startedAt: "2026-11-21T00:00:00Z",
            completedAt: "2026-11-21T00:01:00Z",
            url: `${server.url}/${repo}/runs/${check.id}`
          }
        ],
        runs: [{
          id: workflow.id,
          name: "CI",
          status: "in_progress",
          event: "push",
          headBranch: "slipway/x",
          headSha,
          runNumber: 1,
          createdAt: "2026-11-21T00:00:00Z",
          updatedAt: "2026-11-21T00:00:00Z",
          url: `${server.url}/${repo}/actions/runs/${workflow.id}`
        }]
      })
      assert.deepStrictEqual(comments, [
        {
          id: remark.id,
          title: "Comment",
          author: "mona",
          authorAvatarUrl: `${server.url}/avatars/u/7?v=4`,
          createdAt: remark.createdAt,
          updatedAt: remark.createdAt,
          url: `${server.url}/${repo}/pull/${number}#issuecomment-${remark.id}`,
          text: "**Why?**",
          isWhole: true,
          path: null,
          line: null
        },
        {
          id: review.id,
          title: "Review comment on src/a.ts",
          author: "ghost",
          authorAvatarUrl: "",
          createdAt: review.createdAt,
          updatedAt: review.createdAt,
          url: `${server.url}/${repo}/pull/${number}#discussion_r${review.id}`,
          text: "Not this.",
          isWhole: true,
          path: "src/a.ts",
          line: 12
        }
      ])
    }))

  it.effect("has of a comment on code that is outdated the line where it was written", () =>
    Effect.gen(function*() {
      const { details, number, there } = yield* opened
      there.comment(number, { path: "a.ts", originalLine: 3 })
      there.comment(number, { path: "a.ts" })
      assert.deepStrictEqual((yield* details).comments.map(({ line }) => line), [3, null])
    }))

  it.effect("keeps long comments no longer than there is room for, and reads them again", () =>
    Effect.gen(function*() {
      const { details, installation, number, there } = { ...(yield* opened), ...(yield* TestGitHub) }
      for (let i = 0; i < 1_000; i++) there.comment(number, { body: "x".repeat(MAX_COMMENT) })
      for (let i = 0; i < 1_000; i++) there.comment(number, { body: "x".repeat(2 * MAX_COMMENT), path: "a.ts" })
      const { comments } = yield* details
      assert.strictEqual(comments.length, 2_000)
      assert.isTrue(comments.every(({ text }) => text.length === MAX_COMMENT))
      const left = installation.remaining
      assert.deepStrictEqual((yield* details).comments, comments)
      assert.isBelow(installation.remaining, left)
    }))

  it.effect("has every page of its comments, up to a thousand", () =>
    Effect.gen(function*() {
      const { details, number, server, there } = yield* opened
      const [first, last] = [there.comment(number, {}), Array.from({ length: 249 }, () => there.comment(number, {})).at(-1)]
      const { comments } = yield* details
      assert.deepStrictEqual([comments.length, comments[0]?.id, comments.at(-1)?.id], [250, first.id, last?.id])
      for (let i = 0; i < 1_000; i++) there.comment(number, {})
      const before = server.requests.length
      assert.strictEqual((yield* details).comments.length, 1_000)
      // The pull request, its checks twice, one empty list, and ten pages.
      assert.strictEqual(server.requests.length - before, 14)
    }))

  it.effect("costs no rate limit while nothing changes, and is new as soon as something does", () =>
    Effect.gen(function*() {
      const { details, headSha, installation, number, there } = { ...(yield* opened), ...(yield* TestGitHub) }
      there.comment(number, {})
      const first = yield* details
      const left = installation.remaining
      assert.deepStrictEqual(yield* details, first)
      assert.strictEqual(installation.remaining, left)
      there.comment(number, {})
      there.checkRun(headSha, {})
      const { checks, comments } = yield* details
      assert.deepStrictEqual([comments.length, checks.checkRuns.length], [2, 1])
      // The lists, and the pull request, which counts its comments.
      assert.strictEqual(installation.remaining, left - 3)
      yield* Effect.promise(() => there.commit("slipway/x", { w: "1\n2\n" }))
      assert.deepInclude((yield* details).pullRequest, { additions: 3, changedFiles: 2 })
    }))

  it.effect("goes without what the installation may not read", () =>
    Effect.gen(function*() {
      const { headSha, host, installation, number, repo, server, there } = { ...(yield* opened), ...(yield* TestGitHub) }
      there.checkRun(headSha, { name: "build" })
      there.workflowRun(headSha, { name: "CI" })
      there.comment(number, {})
      const granted = installation.permissions
      const seen = (permissions: typeof granted) =>
        Effect.gen(function*() {
          installation.permissions = { metadata: "read", contents: "write", pull_requests: "write", ...permissions }
          // The permissions at the time of the token stay for its lifetime.
          server.app.expireTokens()
          const { checks, comments } = yield* host.pullRequestDetails(repo, number)
          assert.strictEqual(comments.length, 1)
          return checks
        })
      const [none, checks, actions] = [yield* seen({}), yield* seen({ checks: "read" }), yield* seen({ actions: "read" })]
      installation.permissions = granted
      assert.deepInclude(none, { state: "error", label: "Checks unknown", runs: [], checkRuns: [] })
      assert.match(none.error ?? "", /lacks checks: read and actions: read/u)
      assert.deepStrictEqual([checks.checkRuns.length, checks.runs.length], [1, 0])
      assert.deepStrictEqual([actions.checkRuns.length, actions.runs.length], [0, 1])
    }))

  it.effect("has no workflows where the host has none", () =>
    Effect.gen(function*() {
      const { details, headSha, server, there } = yield* opened
      there.checkRun(headSha, {})
      server.strike({ method: "GET", url: /\/actions\/runs\?/u, outcome: refuse(404, "Not Found") })
      assert.deepInclude((yield* details).checks, { label: "0 of 1 check passed", runs: [] })
    }))

  it.effect("comes as a whole or not at all", () =>
    Effect.gen(function*() {
      const { details, server } = yield* opened
      for (
        const url of [/\/pulls\/\d+$/u, /\/check-runs\?/u, /\/actions\/runs\?/u, /\/issues\/\d+\/comments\?/u, /\/pulls\/\d+\/comments\?/u]
      ) {
        server.strike({ method: "GET", url, outcome: { status: 500 } })
        assert.deepInclude(yield* Effect.flip(details), { _tag: "SourceHostError", retryable: true }, String(url))
      }
      yield* details
    }))
})

it.layer(layer())("A pull request", (it) => {
  it.effect("is pending until GitHub knows whether it can be merged, and never again once it is closed", () =>
    Effect.gen(function*() {
      const { details, there } = yield* opened
      const pending = Effect.map(details, ({ pending }) => pending)
      assert.deepStrictEqual([yield* pending, yield* pending], [true, false])
      yield* Effect.promise(() => there.commit("slipway/x", { v: "2\n" }))
      assert.isTrue(yield* pending)
      yield* Effect.promise(() => there.deleteBranch("slipway/x"))
      assert.isFalse(yield* pending)
    }))

  it.effect("is at the commit that was pushed, though GitHub has not noticed yet", () =>
    Effect.gen(function*() {
      const { draft, host, number, repo, there } = yield* opened
      const headSha = "f".repeat(40)
      const push = { headSha, at: draft.at }
      assert.deepInclude(yield* host.pullRequestPushed(repo, number, push), { headSha, state: "open" })
      yield* Effect.promise(() => there.deleteBranch("slipway/x"))
      assert.deepInclude(yield* host.pullRequestPushed(repo, number, push), { headSha: draft.headSha, state: "closed" })
    }))

  it.effect("is not taken for that of a fork, or of another branch, whatever GitHub makes of the question", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* opened
      const heads = [
        { ref: "slipway/x", repo: null },
        { ref: "slipway/x", repo: { full_name: "mallory/app" } },
        { ref: "slipway/y", repo: { full_name: repo } }
      ]
      server.strike({
        method: "GET",
        url: /\/pulls\?/u,
        outcome: { status: 200, body: heads.map((head) => ({ number: 1, title: "X", head })) }
      })
      assert.isNull(yield* host.findOpenPullRequest(repo, "slipway/x"))
    }))

  it.effect("is found by the exact name of its branch, whatever is in it", () =>
    Effect.gen(function*() {
      const { draft, host, number, repo, there } = yield* opened
      const headRef = "slipway/x#1&state=closed+é%2F"
      const headSha = yield* Effect.promise(() => there.commit(headRef, { w: "1\n" }))
      const other = yield* host.openDraftPullRequest(repo, { ...draft, headRef, headSha })
      for (
        const [branch, expected] of [["slipway/x", number], [headRef, other.number], ["slipway/X", undefined], ["slipway", undefined], ["x",
          undefined]] as const
      ) {
        assert.strictEqual((yield* host.findOpenPullRequest(repo, branch))?.number, expected, branch)
      }
    }))
})
