import { assert, it } from "@effect/vitest"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as PullRequestFeedbackContract from "@slipway/testing/contracts/source/PullRequestFeedbackContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer, Redacted } from "effect"
import * as PullRequestFeedbackGitHub from "../src/PullRequestFeedbackGitHub.ts"
import { hostOf, repository, TestGitHub } from "./TestGitHub.ts"

const layer = Layer.unwrap(Effect.map(TestGitHub, (server) =>
  Layer.merge(
    hostOf(server),
    PullRequestFeedbackGitHub.layer({
      appId: String(server.app.appId),
      privateKey: Redacted.make(server.app.privateKey),
      apiUrl: server.apiUrl
    })
  ))).pipe(Layer.provideMerge(TestGitHub.layer({ readsBeforeMergeable: 0 })))

const IDS: Readonly<Record<string, number>> = { maria: 11, piet: 12, mallory: 13, "helper[bot]": 14 }
const instant = "2026-11-21T00:01:00Z"

register(PullRequestFeedbackContract.suite("github", layer, {
  repository: Effect.fnUntraced(function*(files) {
    const { fullName, repository: there } = yield* repository(files)
    const find = (said: number) => there.comments.findIndex(({ id }) => id === said)
    return {
      fullName,
      commit: (branch, changes) => Effect.promise(() => there.commit(branch, changes)),
      deleteBranch: (branch) => Effect.promise(() => there.deleteBranch(branch)),
      say: (number, { kind, line, login, path, text }) =>
        Effect.sync(() =>
          there.comment(number, {
            user: { id: IDS[login] ?? 99, login },
            body: text,
            isReview: kind === "review",
            ...(path === undefined ? {} : { path }),
            ...(line === undefined ? {} : { line })
          }).id
        ),
      edit: (_, said, text) =>
        Effect.sync(() => void Object.assign(there.comments[find(said)]!, { body: text, updatedAt: there.instant() })),
      remove: (_, said) => Effect.sync(() => void there.comments.splice(find(said), 1)),
      check: (headSha, checks) =>
        Effect.sync(() => {
          there.checkRuns.length = 0
          for (const { annotations = [], log, name, state } of checks) {
            there.checkRun(headSha, {
              name,
              annotations,
              log: log ?? null,
              ...(state === "running"
                ? { status: "in_progress" }
                : { status: "completed", conclusion: state === "passed" ? "success" : "failure", completedAt: instant })
            })
          }
        })
    }
  })
}))

const read = { since: DateTime.makeUnsafe(0), checks: true, knownChecks: new Set<string>() }

/** An open pull request. */
const opened = Effect.gen(function*() {
  const server = yield* TestGitHub
  const host = yield* SourceHost
  const feedback = yield* PullRequestFeedback
  const { fullName: repo, repository: there } = yield* repository({ v: "0\n" })
  const headSha = yield* Effect.promise(() => there.commit("slipway/x", { v: "1\n" }))
  const draft = { title: "T", body: "", baseRef: "trunk", headRef: "slipway/x", headSha, at: DateTime.makeUnsafe(0) }
  const { number } = yield* host.openDraftPullRequest(repo, draft)
  return { server, there, repo, number, headSha, feedback }
})

it.layer(layer)("Feedback at GitHub", (it) => {
  it.effect("costs no rate limit while nothing changes", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server, there } = yield* opened
      there.comment(number, { body: "Why?" })
      const first = yield* feedback.read(repo, number, read)
      const { remaining } = server.installation
      const asked = server.requests.length
      assert.deepStrictEqual(yield* feedback.read(repo, number, read), first)
      assert.strictEqual(server.installation.remaining, remaining)
      assert.isTrue(server.requests.slice(asked).every(({ status }) => status === 304))
    }))

  it.effect("a reply whose answer was lost is found again", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server, there } = yield* opened
      server.strike({ method: "POST", url: /comments$/u, outcome: "reset", when: "after" })
      assert.strictEqual((yield* Effect.flip(feedback.reply(repo, number, "feedback", "Done.")))._tag, "SourceHostError")
      yield* feedback.reply(repo, number, "feedback", "Done.")
      assert.strictEqual(there.comments.length, 1)
    }))

  it.effect("reads only the end of a log of any length, and sends no credentials there", () =>
    Effect.gen(function*() {
      const { feedback, headSha, number, repo, server, there } = yield* opened
      const log = `${"x".repeat(20_000_000)}the end`
      there.checkRun(headSha, { name: "test", status: "completed", conclusion: "failure", completedAt: instant, log })
      const asked = server.requests.length
      const { checks } = yield* feedback.read(repo, number, read)
      assert.isTrue(checks?.failing[0]?.log.endsWith("the end"))
      const parts = server.requests.slice(asked).filter(({ url }) => url.startsWith("/logs/"))
      assert.deepStrictEqual(parts.map(({ headers }) => headers.range), ["bytes=0-0", `bytes=${log.length - 65_536}-${log.length - 1}`])
      assert.isTrue(parts.every(({ headers }) => headers.authorization === undefined))
    }))

  it.effect("without permission for checks it knows of none", () =>
    Effect.gen(function*() {
      const { feedback, headSha, number, repo, server, there } = yield* opened
      there.checkRun(headSha, { name: "test", status: "completed", conclusion: "failure", completedAt: instant })
      const { permissions } = server.installation
      Object.assign(server.installation, { permissions: { ...permissions, checks: undefined } })
      const { checks } = yield* feedback.read(repo, number, read)
      Object.assign(server.installation, { permissions })
      assert.strictEqual(checks?.state, "none")
    }))

  it.effect("gives the wait that GitHub asks for", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server } = yield* opened
      server.strike({
        method: "GET",
        url: /reviews/u,
        outcome: { status: 429, body: { message: "slow down" }, headers: { "retry-after": "77" } }
      })
      const error = yield* Effect.flip(feedback.read(repo, number, read))
      assert.strictEqual(error._tag === "SourceHostError" ? error.retryAfter : undefined, 77)
    }))
})
