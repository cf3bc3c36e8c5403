import { assert, layer } from "@effect/vitest"
import { RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Layer, Redacted } from "effect"
import * as RepositoryNewsGitHub from "../src/RepositoryNewsGitHub.ts"
import { layer as github, repository, TestGitHub } from "./TestGitHub.ts"

const news = Layer.unwrap(Effect.map(TestGitHub, (server) =>
  RepositoryNewsGitHub.layer({
    appId: String(server.app.appId),
    privateKey: Redacted.make(server.app.privateKey),
    apiUrl: server.apiUrl
  })))

/** A followed repository. `poll` gives the news of one poll and the requests for it. */
const followed = Effect.gen(function*() {
  const server = yield* TestGitHub
  const source = yield* RepositoryNews
  const { fullName, repository: there } = yield* repository({ a: "a\n" })
  const since = DateTime.makeUnsafe(Date.now() - 1000)
  let cursor: string | null = null
  const poll = Effect.gen(function*() {
    const before = server.requests.length
    const polled = yield* source.poll(fullName, { cursor, since })
    cursor = polled.cursor
    const asked = server.requests.slice(before).filter(({ url }) => /^\/repos\/[^/]+\/[^/]+\/(?!installation)/u.test(url))
    return { ...polled, asked: asked.map(({ status, url }) => `${status} ${url.split("/").slice(4).join("/").split("?")[0]}`) }
  })
  const pull = Effect.gen(function*() {
    const host = yield* SourceHost
    const headSha = yield* Effect.promise(() => there.commit("slipway/x", { x: "x\n" }))
    return yield* host.openDraftPullRequest(fullName, {
      title: "T",
      body: "",
      baseRef: "trunk",
      headRef: "slipway/x",
      headSha,
      at: DateTime.makeUnsafe(0)
    })
  })
  return { fullName, there, poll, pull, source, since }
})

layer(Layer.provideMerge(news, github({ readsBeforeMergeable: 0 })), { excludeTestServices: true })("news of a repository", (it) => {
  it.effect("each poll sends one request, in turn for pull requests, events and runs, and later none that costs", () =>
    Effect.gen(function*() {
      const { poll } = yield* followed
      const first = yield* Effect.forEach(Array.from({ length: 4 }), () => poll)
      assert.deepStrictEqual(first.map(({ asked }) => asked), [["200 pulls"], ["200 events"], ["304 pulls"], ["200 actions/runs"]])
      const later = yield* Effect.forEach(Array.from({ length: 4 }), () => poll)
      assert.deepStrictEqual(later.map(({ asked }) => asked), [["304 pulls"], ["304 events"], ["304 pulls"], ["304 actions/runs"]])
      assert.deepStrictEqual([...first, ...later].flatMap(({ news }) => news), [])
      assert.deepStrictEqual(new Set([...first, ...later].map(({ pollAfterMillis }) => pollAfterMillis)), new Set([60_000]))
      for (const { asked, isUnchanged } of [...first, ...later]) assert.strictEqual(isUnchanged, asked[0]?.startsWith("304"))
    }))

  it.effect("a changed pull request is news", () =>
    Effect.gen(function*() {
      const { fullName, poll, pull } = yield* followed
      assert.deepStrictEqual((yield* poll).news, [])
      const { number } = yield* pull
      const polled = yield* Effect.forEach(Array.from({ length: 4 }), () => poll)
      assert.deepStrictEqual(polled.flatMap(({ news }) => news), [{ _tag: "Pull", repo: fullName, branch: "slipway/x", number }])
    }))

  it.effect("a cursor that was not stored gives its news again", () =>
    Effect.gen(function*() {
      const { fullName, pull, since, source } = yield* followed
      const { cursor } = yield* source.poll(fullName, { cursor: null, since })
      // The turn of pull requests comes again after that of events.
      const { cursor: next } = yield* source.poll(fullName, { cursor, since })
      yield* pull
      const once = yield* source.poll(fullName, { cursor: next, since })
      const twice = yield* source.poll(fullName, { cursor: next, since })
      assert.lengthOf(once.news, 1)
      assert.deepStrictEqual(twice.news, once.news)
    }))

  it.effect("completed runs are news of their branch", () =>
    Effect.gen(function*() {
      const { fullName, poll, there } = yield* followed
      there.workflowRun("0".repeat(40), { headBranch: "slipway/x", status: "completed", conclusion: "failure" })
      there.workflowRun("0".repeat(40), { headBranch: "slipway/y", status: "in_progress" })
      const polled = yield* Effect.forEach(Array.from({ length: 4 }), () => poll)
      assert.deepStrictEqual(polled.flatMap(({ news }) => news), [{ _tag: "Pull", repo: fullName, branch: "slipway/x", number: null }])
    }))

  const comment = (id: number) => ({
    action: "created",
    issue: {
      id: 1,
      number: 5,
      title: "Broken",
      html_url: "https://x.test/5",
      user: { id: 9, login: "bob" },
      created_at: "2026-01-01T00:00:00Z",
      updated_at: "2026-01-01T00:00:00Z"
    },
    comment: { id, body: "@slipway", html_url: "https://x.test/c", user: { id: 7, login: "ada" }, created_at: "2026-01-01T00:00:00Z" }
  })
  const idsOf = (polled: ReadonlyArray<{ readonly news: ReadonlyArray<object> }>) =>
    polled.flatMap(({ news }) => news.flatMap((one) => "id" in one ? [one.id] : []))

  it.effect("events are news once, also those that GitHub lists late", () =>
    Effect.gen(function*() {
      const { poll, there } = yield* followed
      there.event("IssueCommentEvent", comment(1))
      there.event("WatchEvent", { action: "started" })
      const polled = yield* Effect.forEach(Array.from({ length: 8 }), () => poll)
      assert.deepStrictEqual(idsOf(polled), ["comment:1"])
      // Listed below a pull request that was known already.
      const late = there.event("IssueCommentEvent", comment(2))
      there.events.splice(0, there.events.length, late, ...there.events.filter((event) => event !== late))
      assert.deepStrictEqual(idsOf(yield* Effect.forEach(Array.from({ length: 4 }), () => poll)), ["comment:2"])
    }))

  it.effect("many events are read page by page, a request a poll, and more than GitHub keeps are missed", () =>
    Effect.gen(function*() {
      const { fullName, poll, there } = yield* followed
      for (let id = 1; id <= 250; id++) there.event("IssueCommentEvent", comment(id))
      const polled = yield* Effect.forEach(Array.from({ length: 6 }), () => poll)
      assert.deepStrictEqual(polled.map(({ asked }) => asked.length), [1, 1, 1, 1, 1, 1])
      assert.deepStrictEqual(new Set(idsOf(polled)), new Set(Array.from({ length: 250 }, (_, i) => `comment:${i + 1}`)))
      assert.lengthOf(idsOf(polled), 250)
      for (let id = 251; id <= 651; id++) there.event("IssueCommentEvent", comment(id))
      const more = yield* Effect.forEach(Array.from({ length: 8 }), () => poll)
      assert.deepInclude(more.flatMap(({ news }) => news), { _tag: "Missed", repo: fullName })
      assert.lengthOf(idsOf(more), 300)
    }))

  it.effect("waits as long as GitHub asks for, also when nothing changed", () =>
    Effect.gen(function*() {
      const { poll, there } = yield* followed
      there.pollIntervalSeconds = 240
      const polled = yield* Effect.forEach(Array.from({ length: 6 }), () => poll)
      assert.deepStrictEqual(polled.map(({ pollAfterMillis }) => pollAfterMillis), [60_000, 240_000, 60_000, 60_000, 60_000, 240_000])
    }))

  it.effect("a renamed repository is asked for by its new name, and its news keep the name by which it is followed", () =>
    Effect.gen(function*() {
      const { fullName, poll, pull, there } = yield* followed
      yield* poll
      there.rename("renamed")
      const { number } = yield* pull
      const polled = yield* Effect.forEach(Array.from({ length: 2 }), () => poll)
      assert.deepStrictEqual(polled.map(({ presentName }) => presentName), [RepoName.make("Acme/renamed"), RepoName.make("Acme/renamed")])
      assert.deepStrictEqual(polled.flatMap(({ news }) => news), [{ _tag: "Pull", repo: fullName, branch: "slipway/x", number }])
    }))

  it.effect("a repository that is gone is not accessible", () =>
    Effect.gen(function*() {
      const source = yield* RepositoryNews
      const error = yield* Effect.flip(source.poll(RepoName.make("Acme/nothing"), { cursor: null, since: DateTime.makeUnsafe(0) }))
      assert.strictEqual(error._tag, "RepoNotAccessible")
    }))

  it.effect("an unreadable cursor is taken for none", () =>
    Effect.gen(function*() {
      const { fullName, since, source } = yield* followed
      for (const cursor of ["", "{}", "no JSON"]) {
        assert.deepStrictEqual((yield* source.poll(fullName, { cursor, since })).news, [])
      }
    }))
})
