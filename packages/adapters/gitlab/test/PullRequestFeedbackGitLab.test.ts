import { assert, it } from "@effect/vitest"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as PullRequestFeedbackContract from "@slipway/testing/contracts/source/PullRequestFeedbackContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer } from "effect"
import * as PullRequestFeedbackGitLab from "../src/PullRequestFeedbackGitLab.ts"
import type * as GitLabServer from "../testing/GitLabServer.ts"
import { failureOf, hostOf, optionsOf, project, TestGitLab } from "./TestGitLab.ts"

const layer = (options?: GitLabServer.Options) =>
  Layer.unwrap(Effect.map(TestGitLab, (server) => Layer.merge(hostOf(server), PullRequestFeedbackGitLab.layer(optionsOf(server))))).pipe(
    Layer.provideMerge(TestGitLab.layer(options))
  )

const USERS: Readonly<Record<string, { readonly id: number; readonly username: string }>> = {
  maria: { id: 31, username: "maria" },
  piet: { id: 32, username: "piet" },
  mallory: { id: 33, username: "mallory" },
  "helper[bot]": { id: 34, username: "project_5_bot_0f3a" }
}
const instant = "2026-11-21T00:01:00Z"

register(PullRequestFeedbackContract.suite("gitlab", layer(), {
  repository: Effect.fnUntraced(function*(files) {
    const { fullName, project: there } = yield* project(files)
    const find = (said: number) => there.notes.findIndex(({ id }) => id === said)
    return {
      fullName,
      hasReviews: false,
      lacks: ["annotations"],
      commit: (branch, changes) => Effect.promise(() => there.commit(branch, changes)),
      deleteBranch: (branch) => Effect.promise(() => there.deleteBranch(branch)),
      say: (number, { line = null, login, path = null, text }) =>
        Effect.sync(() => there.note(number, { author: USERS[login] ?? { id: 99, username: login }, body: text, path, line }).id),
      edit: (_, said, text) => Effect.sync(() => void Object.assign(there.notes[find(said)]!, { body: text, updatedAt: there.instant() })),
      remove: (_, said) => Effect.sync(() => void there.notes.splice(find(said), 1)),
      check: (headSha, checks) =>
        Effect.sync(() => {
          there.statuses.length = 0
          for (const { log, name, state } of checks) {
            const status = state === "running" ? "running" : state === "passed" ? "success" : "failed"
            there.status(headSha, { name, status, finishedAt: state === "running" ? null : instant, log: log ?? null })
          }
        })
    }
  })
}))

const read = { since: DateTime.makeUnsafe(0), checks: true, knownChecks: new Set<string>() }

/** An open merge request. */
const opened = Effect.gen(function*() {
  const server = yield* TestGitLab
  const host = yield* SourceHost
  const feedback = yield* PullRequestFeedback
  const { fullName: repo, project: there } = yield* project({ v: "0\n" })
  const headSha = yield* Effect.promise(() => there.commit("slipway/x", { v: "1\n" }))
  const draft = { title: "T", body: "", baseRef: "trunk", headRef: "slipway/x", headSha, at: DateTime.makeUnsafe(0) }
  const { number } = yield* host.openDraftPullRequest(repo, draft)
  const check = Effect.map(feedback.read(repo, number, read), ({ checks }) => checks)
  const details = host.pullRequestDetails(repo, number)
  return { server, there, repo, number, headSha, feedback, host, check, details }
})

it.layer(layer())("Feedback at GitLab", (it) => {
  it.effect("answers that did not change are not sent again", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server, there } = yield* opened
      there.note(number, { body: "Why?" })
      const first = yield* feedback.read(repo, number, read)
      const asked = server.requests.length
      assert.deepStrictEqual(yield* feedback.read(repo, number, read), first)
      assert.isTrue(server.requests.slice(asked).every(({ status }) => status === 304))
    }))

  it.effect("leaves out what GitLab itself says", () =>
    Effect.gen(function*() {
      const { details, feedback, number, repo, there } = yield* opened
      there.note(number, { body: "added 1 commit", system: true })
      there.note(number, { body: "Why?" })
      assert.deepStrictEqual((yield* feedback.read(repo, number, read)).items.map(({ body }) => body), ["Why?"])
      assert.deepStrictEqual((yield* details).comments.map(({ text }) => text), ["Why?"])
    }))

  it.effect("a comment on a removed line has the line of the old file", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, there } = yield* opened
      there.note(number, { body: "Why?", path: "v", line: 3, isOfOldLine: true })
      const [item] = (yield* feedback.read(repo, number, read)).items
      assert.deepStrictEqual([item?.kind, item?.path, item?.line], ["review_comment", "v", 3])
    }))

  it.effect("a reply whose answer was lost is found again", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server, there } = yield* opened
      server.strike({ method: "POST", url: /notes$/u, outcome: "reset", when: "after" })
      assert.strictEqual((yield* failureOf(feedback.reply(repo, number, "feedback", "Done.")))._tag, "SourceHostError")
      yield* feedback.reply(repo, number, "feedback", "Done.")
      assert.lengthOf(there.notes, 1)
    }))

  it.effect("no text of an agent becomes a quick action", () =>
    Effect.gen(function*() {
      const { feedback, host, number, repo, there } = yield* opened
      yield* feedback.reply(repo, number, "feedback", "/merge\n  /close\n/usr/bin/env is a path\nnot /approve")
      const headSha = yield* Effect.promise(() => there.commit("slipway/y", { y: "1\n" }))
      const draft = { title: "T", body: "/approve\n/merge", baseRef: "trunk", headRef: "slipway/y", headSha, at: DateTime.makeUnsafe(0) }
      yield* host.openDraftPullRequest(repo, draft)
      assert.deepStrictEqual(there.quickActions, [])
      assert.match(there.notes[0]?.body ?? "", /^\\\/merge\n {2}\\\/close\n\/usr\/bin\/env is a path\nnot \/approve\n/u)
      assert.strictEqual(there.mergeRequests[1]?.description, "\\/approve\n\\/merge")
    }))

  it.effect("gives the wait that GitLab asks for", () =>
    Effect.gen(function*() {
      const { feedback, number, repo, server } = yield* opened
      server.strike({
        method: "GET",
        url: /notes/u,
        outcome: { status: 429, body: { message: "slow down" }, headers: { "retry-after": "77" } }
      })
      const error = yield* failureOf(feedback.read(repo, number, read))
      assert.strictEqual(error._tag === "SourceHostError" ? error.retryAfter : undefined, 77)
    }))
})

it.layer(layer())("Checks at GitLab", (it) => {
  it.effect("jobs that may fail and jobs that wait for a person do not count", () =>
    Effect.gen(function*() {
      const { check, details, headSha, there } = yield* opened
      const pipeline = there.pipeline(headSha, { ref: "slipway/x", status: "success" }).id
      there.status(headSha, { name: "test", status: "success", pipeline })
      there.status(headSha, { name: "lint", status: "failed", allowFailure: true, pipeline })
      there.status(headSha, { name: "deploy", status: "manual", pipeline })
      const { checks } = yield* details
      assert.deepInclude(checks, { state: "success", label: "3 of 3 checks passed" })
      assert.deepStrictEqual(checks.checkRuns.map(({ conclusion, name }) => [name, conclusion]), [
        ["test", "success"],
        ["lint", "neutral"],
        ["deploy", "skipped"]
      ])
      assert.deepInclude(yield* check, { state: "passed", failing: [] })
    }))

  it.effect("jobs behind a manual one keep nothing waiting, those of a running pipeline do", () =>
    Effect.gen(function*() {
      const { check, details, headSha, there } = yield* opened
      const pipeline = there.pipeline(headSha, { ref: "slipway/x", status: "manual" })
      there.status(headSha, { name: "deploy", status: "manual", pipeline: pipeline.id })
      there.status(headSha, { name: "announce", status: "created", pipeline: pipeline.id })
      assert.deepInclude((yield* details).checks, { state: "success" })
      pipeline.status = "running"
      assert.deepInclude((yield* details).checks, { state: "pending" })
      assert.deepInclude(yield* check, { state: "running" })
    }))

  it.effect("of a ref's pipelines the newest counts", () =>
    Effect.gen(function*() {
      const { details, headSha, there } = yield* opened
      const first = there.pipeline(headSha, { ref: "slipway/x", status: "failed" }).id
      there.status(headSha, { name: "test", status: "failed", pipeline: first })
      const second = there.pipeline(headSha, { ref: "slipway/x", status: "success" }).id
      there.status(headSha, { name: "test", status: "success", pipeline: second })
      const { checks } = yield* details
      assert.strictEqual(checks.state, "success")
      assert.deepStrictEqual(checks.runs.map(({ id }) => id), [second])
      assert.lengthOf(checks.checkRuns, 1)
    }))

  it.effect("a pipeline of the merged result counts for the commit that it merges", () =>
    Effect.gen(function*() {
      const { details, headSha, there } = yield* opened
      const merge = (head: string) =>
        Effect.promise(async () => {
          const tree = await there.bare.git(["rev-parse", `${head}^{tree}`])
          return there.bare.commitTree(tree, [(await there.bare.branches()).get("trunk") ?? "", head], "merge\n")
        })
      const merged = yield* merge(headSha)
      const pipeline = there.pipeline(merged, { ref: "refs/merge-requests/1/merge", source: "merge_request_event", status: "failed" }).id
      there.status(merged, { name: "test", status: "failed", pipeline })
      assert.deepInclude((yield* details).checks, { state: "failure", label: "0 of 1 check passed" })
      yield* Effect.promise(() => there.commit("slipway/x", { v: "2\n" }))
      assert.deepInclude((yield* details).checks, { state: "idle" })
    }))

  it.effect("a pipeline that could not begin is a failing check", () =>
    Effect.gen(function*() {
      const { check, headSha, there } = yield* opened
      const { id } = there.pipeline(headSha, { ref: "slipway/x", status: "failed" })
      const checks = yield* check
      assert.strictEqual(checks?.state, "failed")
      assert.deepStrictEqual(checks?.failing.map(({ name }) => name), [`Pipeline #${id}`])
    }))

  it.effect("checks that may not be read are unknown, not absent", () =>
    Effect.gen(function*() {
      const { check, details, there } = yield* opened
      there.hasPipelines = false
      assert.deepInclude((yield* details).checks, { state: "error", label: "Checks unknown" })
      assert.strictEqual((yield* check)?.state, "none")
    }))

  it.effect("reads only the end of a log, without colours and the marks of sections", () =>
    Effect.gen(function*() {
      const { check, headSha, there } = yield* opened
      const end = "section_start:1700000000:step_script[collapsed=true]\r\u001b[0K\u001b[31;1mthe end\u001b[0m"
      there.status(headSha, { name: "test", status: "failed", finishedAt: instant, log: `${"😀x".repeat(4_000_000)}\n${end}` })
      const log = (yield* check)?.failing[0]?.log ?? ""
      assert.isTrue(log.endsWith("x\nthe end"))
      assert.isTrue(log.isWellFormed() && !log.includes("\ufffd"))
      assert.isAtMost(Buffer.byteLength(log), 65_536)
    }))

  it.effect("gives up on a log above 128 MiB", () =>
    Effect.gen(function*() {
      const { check, headSha, there } = yield* opened
      there.status(headSha, { name: "test", status: "failed", finishedAt: instant, log: `${"x".repeat(128 * 2 ** 20)}the end` })
      assert.deepInclude((yield* check)?.failing[0], { name: "test", log: "" })
    }))

  it.effect("asks another program's status for no log", () =>
    Effect.gen(function*() {
      const { check, headSha, server, there } = yield* opened
      there.status(headSha, { name: "scan", status: "failed", finishedAt: instant })
      const asked = server.requests.length
      assert.strictEqual((yield* check)?.failing[0]?.log, "")
      assert.isFalse(server.requests.slice(asked).some(({ url }) => url.includes("/trace")))
    }))
})

it.layer(layer({ hasLogStorage: true }))("Logs in another storage", (it) => {
  it.effect("are read there, without GitLab's credentials", () =>
    Effect.gen(function*() {
      const { check, headSha, server, there } = yield* opened
      there.status(headSha, { name: "test", status: "failed", finishedAt: instant, log: "the end" })
      assert.strictEqual((yield* check)?.failing[0]?.log, "the end")
      const stored = server.requests.filter(({ url }) => url.startsWith("/storage/"))
      assert.lengthOf(stored, 1)
      assert.isUndefined(stored[0]?.headers.authorization)
    }))
})
