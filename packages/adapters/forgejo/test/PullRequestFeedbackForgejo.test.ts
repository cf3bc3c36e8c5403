import { assert, it } from "@effect/vitest"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as PullRequestFeedbackContract from "@slipway/testing/contracts/source/PullRequestFeedbackContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer } from "effect"
import * as PullRequestFeedbackForgejo from "../src/PullRequestFeedbackForgejo.ts"
import type { Options } from "../testing/ForgejoServer.ts"
import { hostOf, optionsOf, repository, TestForgejo } from "./TestForgejo.ts"

const layerOf = (options: Options = {}) =>
  Layer.unwrap(Effect.map(TestForgejo, (server) => Layer.merge(hostOf(server), PullRequestFeedbackForgejo.layer(optionsOf(server))))).pipe(
    Layer.provideMerge(TestForgejo.layer(options))
  )

const IDS: Readonly<Record<string, number>> = { maria: 11, piet: 12, mallory: 13 }

const fixture: PullRequestFeedbackContract.Fixture<TestForgejo> = {
  repository: Effect.fnUntraced(function*(files) {
    const { bot, flavour } = yield* TestForgejo
    const { fullName, repository: there } = yield* repository(files)
    return {
      fullName,
      // Only Gitea shows logs.
      lacks: flavour === "gitea" ? ["annotations"] : ["annotations", "logs"],
      commit: (branch, changes) => Effect.promise(() => there.commit(branch, changes)),
      deleteBranch: (branch) => Effect.promise(() => there.deleteBranch(branch)),
      say: (number, { isBot, kind, line = 0, login, path = "", text }) =>
        Effect.sync(() => {
          // The server marks no accounts as programs: only our own is known.
          const user = isBot === true ? bot : { id: IDS[login] ?? 99, login }
          if (kind === "comment") return there.entry(number, { user, body: text }).id
          return there.review(number, user, kind === "review" ? text : "", kind === "review" ? [] : [{ path, line, text }]).id
        }),
      edit: (_, said, text) =>
        Effect.sync(() => void Object.assign(there.entries.find(({ id }) => id === said)!, { body: text, updatedAt: there.instant() })),
      remove: (_, said) => Effect.sync(() => void there.entries.splice(there.entries.findIndex(({ id }) => id === said), 1)),
      check: (headSha, checks) =>
        Effect.sync(() => {
          there.statuses.length = there.runs.length = 0
          for (const { log = "", name, state } of checks) {
            const status = { running: "running", passed: "success", failed: "failure" }[state]
            if (flavour === "gitea") there.run(headSha, { name, status, log, event: name })
            else there.status(headSha, { context: name, status: status === "running" ? "pending" : status })
          }
        })
    }
  })
}

register(PullRequestFeedbackContract.suite("forgejo", layerOf(), fixture))
register(PullRequestFeedbackContract.suite("gitea", layerOf({ flavour: "gitea", pageLimit: 1 }), fixture))

const read = { since: DateTime.makeUnsafe(0), checks: true, knownChecks: new Set<string>() }

/** An open pull request. */
const opened = Effect.gen(function*() {
  const server = yield* TestForgejo
  const host = yield* SourceHost
  const feedback = yield* PullRequestFeedback
  const { fullName: repo, repository: there } = yield* repository({ v: "0\n" })
  const headSha = yield* Effect.promise(() => there.commit("slipway/x", { v: "1\n" }))
  const draft = { title: "T", body: "", baseRef: "trunk", headRef: "slipway/x", headSha, at: DateTime.makeUnsafe(0) }
  const { number } = yield* host.openDraftPullRequest(repo, draft)
  return { server, there, repo, number, headSha, feedback, host }
})

const maria = { id: 11, login: "maria" }

it.layer(layerOf())("Feedback at Forgejo", (it) => {
  it.effect("a reply whose answer was lost is found again", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server, there } = yield* opened
      server.strike({ method: "POST", url: /comments$/u, outcome: "reset", when: "after" })
      assert.strictEqual((yield* Effect.flip(feedback.reply(repo, number, "feedback", "Done.")))._tag, "SourceHostError")
      yield* feedback.reply(repo, number, "feedback", "Done.")
      assert.strictEqual(there.entries.length, 1)
    }))

  it.effect("a person's comment that has the mark of a reply before there is one is not replaced", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, there } = yield* opened
      const body = "Mine\n\n<!-- slipway:feedback -->"
      there.entry(number, { user: maria, body })
      for (const text of ["Done.", "Done again."]) yield* feedback.reply(repo, number, "feedback", text)
      assert.deepStrictEqual(there.entries.map((entry) => entry.body.split("\n")[0]), ["Mine", "Done again."])
    }))

  it.effect("reviews that were not submitted, and requests for a review, are no feedback", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server, there } = yield* opened
      there.review(number, server.bot, "Not yet said", [{ path: "v", line: 1, text: "Still being written" }], "PENDING")
      there.review(number, maria, "Asked", [], "REQUEST_REVIEW")
      there.review(number, maria, "", [], "APPROVED")
      assert.deepStrictEqual((yield* feedback.read(repo, number, read)).items, [])
    }))

  it.effect("a comment on a removed line has the line of the old file, and none without a line", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, there } = yield* opened
      there.review(number, maria, "", [{ path: "v", line: -1, text: "Why?" }, { path: "v", line: 0, text: "All of it" }])
      assert.deepStrictEqual((yield* feedback.read(repo, number, read)).items.map(({ line }) => line), [1, null])
    }))

  it.effect("deleted accounts are people, and accounts of the server are programs", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, there } = yield* opened
      there.entry(number, { user: { id: -1, login: "Ghost" }, body: "Gone" })
      there.entry(number, { user: { id: -2, login: "forgejo-actions" }, body: "Built" })
      assert.deepStrictEqual((yield* feedback.read(repo, number, read)).items.map(({ author }) => author.isBot), [false, true])
    }))

  it.effect("only the newest status of a context counts; a warning does not fail, an error does", () =>
    Effect.gen(function*() {
      const { feedback, headSha, number, repo, there } = yield* opened
      const stateNow = Effect.map(feedback.read(repo, number, read), ({ checks }) => checks?.state)
      there.status(headSha, { context: "ci", status: "failure" })
      there.status(headSha, { context: "ci", status: "success" })
      assert.strictEqual(yield* stateNow, "passed")
      there.status(headSha, { context: "lint", status: "warning" })
      assert.strictEqual(yield* stateNow, "passed")
      there.status(headSha, { context: "lint", status: "error", targetUrl: "javascript:alert(1)", description: "It broke" })
      const { checks } = yield* feedback.read(repo, number, read)
      assert.deepStrictEqual(checks?.failing, [{ name: "lint", url: "", summary: "It broke", annotations: [], log: "" }])
    }))

  it.effect("a workflow that could not begin has failed, until a later run of it passes", () =>
    Effect.gen(function*() {
      const { feedback, headSha, number, repo, there } = yield* opened
      there.run(headSha, { name: "build", status: "failure" })
      there.statuses.length = 0
      const { checks } = yield* feedback.read(repo, number, read)
      assert.deepStrictEqual(checks?.failing.map(({ name }) => name), ["build"])
      there.run(headSha, { name: "build", status: "success" })
      assert.strictEqual((yield* feedback.read(repo, number, read)).checks?.state, "passed")
    }))

  it.effect("gives the wait that the server asks for", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server } = yield* opened
      const outcome = { status: 429, body: { message: "slow down" }, headers: { "retry-after": "77" } }
      server.strike({ method: "GET", url: /reviews/u, outcome })
      const error = yield* Effect.flip(feedback.read(repo, number, read))
      assert.strictEqual(error._tag === "SourceHostError" ? error.retryAfter : undefined, 77)
    }))

  it.effect("comments that are too many to read are an error, not none", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server } = yield* opened
      const outcome = { status: 200, body: [{ body: "x".repeat(17 * 2 ** 20) }] }
      server.strike({ method: "GET", url: /issues\/\d+\/comments/u, outcome })
      assert.match((yield* Effect.flip(feedback.read(repo, number, read))).message, /too large/u)
    }))
})

it.layer(layerOf({ flavour: "gitea" }))("Feedback at Gitea", (it) => {
  it.effect("reads only the end of a log of any length", () =>
    Effect.gen(function*() {
      const { feedback, headSha, number, repo, server, there } = yield* opened
      there.run(headSha, { name: "test", status: "failure", log: `${"😀".repeat(500_000)} the end.` })
      const { checks } = yield* feedback.read(repo, number, read)
      assert.match(checks?.failing[0]?.log ?? "", /^😀+ the end\.$/u)
      assert.strictEqual(server.requests.find(({ url }) => url.includes("/logs"))?.headers.range, "bytes=-65536")
    }))

  it.effect("a log that is gone leaves the check without it; a server that fails is asked again", () =>
    Effect.gen(function*() {
      const { feedback, headSha, number, repo, server, there } = yield* opened
      there.run(headSha, { name: "test", status: "failure", log: "no" })
      server.strike({ method: "GET", url: /logs/u, outcome: { status: 404, body: { message: "gone" } } })
      assert.strictEqual((yield* feedback.read(repo, number, read)).checks?.failing[0]?.log, "")
      server.strike({ method: "GET", url: /logs/u, outcome: { status: 503 } })
      assert.deepInclude(yield* Effect.flip(feedback.read(repo, number, read)), { _tag: "SourceHostError", retryable: true })
    }))
})
