import { assert, layer as layerTest } from "@effect/vitest"
import { MAX_CURSOR, RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import type { News } from "@slipway/domain/source/ports/SourceHostEvents"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Layer } from "effect"
import * as RepositoryNewsForgejo from "../src/RepositoryNewsForgejo.ts"
import type { Options } from "../testing/ForgejoServer.ts"
import { layer as forgejo, optionsOf, repository, TestForgejo } from "./TestForgejo.ts"

/** The server's clock, which the tests set. */
let nowMillis = Date.parse("2026-11-21T02:00:00Z")
const MINUTE = 60_000

const layerOf = (options: Options = {}) =>
  Layer.provideMerge(
    Layer.unwrap(Effect.map(TestForgejo, (server) => RepositoryNewsForgejo.layer(optionsOf(server)))),
    forgejo({ now: () => nowMillis, ...options })
  )

const maria = { id: 11, login: "maria" }

/** A followed repository. `poll` gives the news of one poll and the requests for it. */
const followed = Effect.gen(function*() {
  const server = yield* TestForgejo
  const source = yield* RepositoryNews
  const { fullName, repository: there } = yield* repository({ a: "a\n" })
  nowMillis += MINUTE
  const since = DateTime.makeUnsafe(nowMillis)
  let cursor: string | null = null
  const poll = Effect.gen(function*() {
    nowMillis += MINUTE
    const before = server.requests.length
    const polled = yield* source.poll(fullName, { cursor, since })
    assert.isAtMost(polled.cursor.length, MAX_CURSOR)
    cursor = polled.cursor
    const asked = server.requests.slice(before).filter(({ url }) => url.includes("/repos/"))
    // Whether the repository is there is no request for news.
    const paths = asked.map(({ url }) => url.split("/").slice(6).join("/").split("?")[0] ?? "").filter((path) => path !== "")
    return { ...polled, asked: paths }
  })
  /** The news of so many polls, each once. */
  const polls = (times: number) =>
    Effect.map(Effect.forEach(Array.from({ length: times }), () => poll), (all) => {
      assert.isTrue(all.every(({ asked }) => asked.length === 1))
      return [...new Map(all.flatMap(({ news }) => news).map((one) => [JSON.stringify(one), one])).values()]
    })
  const pull = Effect.gen(function*() {
    const host = yield* SourceHost
    const headSha = yield* Effect.promise(() => there.commit("slipway/x", { x: "x\n" }))
    const draft = { title: "T", body: "Text", baseRef: "trunk", headRef: "slipway/x", headSha, at: DateTime.makeUnsafe(0) }
    return yield* host.openDraftPullRequest(fullName, draft)
  })
  const issue = (title = "Broken", body = "It breaks") => there.open({ title, body, user: maria })
  return { server, fullName, there, poll, polls, pull, issue, source, since }
})

/** The parts that tell news apart. */
const short = (news: ReadonlyArray<News>) =>
  news.map((one) =>
    one._tag === "Comment"
      ? one.body
      : one._tag === "Labelled"
      ? `+${one.label}`
      : one._tag === "Pull"
      ? one.number ?? one.branch
      : one._tag
  )

/** More changes than a cursor has room for. */
const busy = Effect.gen(function*() {
  const { polls, there } = yield* followed
  const bodies = Array.from({ length: 25 }, (_, count) => `text ${count}`)
  for (const body of bodies) {
    const issue = there.open({ title: "\u0001".repeat(300), body, user: maria })
    there.entry(issue.number, { user: maria, body: `about ${body}` })
    there.label(issue.number, "\u0002".repeat(300), maria)
  }
  nowMillis += 5 * MINUTE
  const news = short(yield* polls(160))
  for (const body of bodies) {
    assert.include(news, body)
    assert.include(news, `about ${body}`)
  }
  assert.strictEqual(news.filter((one) => String(one).startsWith("+")).length, 25)
})

layerTest(layerOf(), { excludeTestServices: true })("news of a repository at Forgejo", (it) => {
  it.effect("each poll sends one request, in turn for issues and jobs, and finds nothing where nothing changed", () =>
    Effect.gen(function*() {
      const { issue, poll } = yield* followed
      issue()
      for (let times = 0; times < 4; times++) yield* poll
      const later = yield* Effect.forEach(Array.from({ length: 4 }), () => poll)
      assert.deepStrictEqual(later.map(({ asked }) => asked), [["issues"], ["actions/tasks"], ["issues"], ["actions/tasks"]])
      assert.deepStrictEqual(later.flatMap(({ news }) => news), [])
    }))

  it.effect("a changed pull request is news, and its text when it is new", () =>
    Effect.gen(function*() {
      const { fullName, polls, pull, server, there } = yield* followed
      const { number } = yield* pull
      const news = yield* polls(3)
      assert.deepStrictEqual(news[0], {
        _tag: "Comment",
        id: `issue:${there.id}#${number}`,
        repo: fullName,
        number,
        isPull: true,
        title: "WIP: T",
        body: "Text",
        url: `${server.webUrl}/${fullName}/pulls/${number}`,
        author: { id: "5", login: "slipway", isBot: true },
        at: DateTime.makeUnsafe(there.issue(number)?.createdAt ?? "")
      })
      assert.deepStrictEqual(short(news), ["Text", number])
      nowMillis += MINUTE
      yield* Effect.promise(() => there.commit("slipway/x", { y: "y\n" }))
      assert.deepStrictEqual(short(yield* polls(6)), [number])
    }))

  it.effect("comments, reviews with a text and added labels are news, each with its author and title", () =>
    Effect.gen(function*() {
      const { fullName, issue, polls, pull, server, there } = yield* followed
      const { number } = yield* pull
      const other = issue()
      yield* polls(10)
      nowMillis += MINUTE
      const comment = there.entry(other.number, { user: maria, body: "@slipway go" })
      there.entry(other.number, { user: server.bot, body: "On it" })
      there.label(other.number, "bug", maria)
      there.entry(other.number, { type: "label", user: maria, label: { id: 1, name: "removed" }, body: "" })
      there.entry(other.number, { type: "change_title", user: maria, body: "Other" })
      there.review(number, maria, "Please rename", [{ path: "x", line: 1, text: "here" }])
      there.review(number, maria, "", [], "APPROVED")
      const news = yield* polls(12)
      assert.deepStrictEqual(new Set(short(news)), new Set(["@slipway go", "On it", "+bug", "Please rename", number]))
      const of = (body: string) => news.find((one) => one._tag === "Comment" && one.body === body)
      assert.deepInclude(of("@slipway go"), {
        id: `comment:${comment.id}`,
        repo: fullName,
        number: other.number,
        isPull: false,
        title: "Broken",
        author: { id: "11", login: "maria", isBot: false },
        at: DateTime.makeUnsafe(comment.createdAt)
      })
      assert.deepInclude(of("On it"), { author: { id: "5", login: "slipway", isBot: true } })
      assert.deepInclude(of("Please rename"), { number, isPull: true })
      const labelled = news.find(({ _tag }) => _tag === "Labelled")
      assert.deepInclude(labelled, {
        number: other.number,
        label: "bug",
        body: "It breaks",
        author: { id: "11", login: "maria", isBot: false }
      })
    }))

  it.effect("what was written before, or only edited, is no news", () =>
    Effect.gen(function*() {
      const { fullName, source, there } = yield* followed
      const issue = there.open({ title: "Old", body: "Old text", user: maria })
      const comment = there.entry(issue.number, { user: maria, body: "old" })
      nowMillis += 10 * MINUTE
      const since = DateTime.makeUnsafe(nowMillis)
      nowMillis += MINUTE
      Object.assign(comment, { body: "edited", updatedAt: there.instant() })
      issue.updatedAt = there.instant()
      let cursor: string | null = null
      for (let times = 0; times < 6; times++) {
        const polled: { readonly cursor: string; readonly news: ReadonlyArray<News> } = yield* source.poll(fullName, { cursor, since })
        assert.deepStrictEqual(polled.news, [])
        cursor = polled.cursor
      }
    }))

  it.effect("a second change in the same second is seen", () =>
    Effect.gen(function*() {
      const { issue, polls, there } = yield* followed
      const { number } = issue()
      yield* polls(4)
      nowMillis += MINUTE
      const first = there.entry(number, { user: maria, body: "one" })
      // The poll comes within that second.
      nowMillis -= MINUTE
      assert.include(short(yield* polls(2)), "one")
      const second = there.entry(number, { user: maria, body: "two" })
      Object.assign(second, { createdAt: first.createdAt, updatedAt: first.updatedAt })
      Object.assign(there.issue(number)!, { updatedAt: first.updatedAt })
      assert.include(short(yield* polls(4)), "two")
    }))

  it.effect("a change that is dated into the future hides no others", () =>
    Effect.gen(function*() {
      const { issue, polls, there } = yield* followed
      issue().updatedAt = "2030-01-01T00:00:00Z"
      yield* polls(6)
      nowMillis += MINUTE
      const { number } = there.open({ title: "Later", body: "later text", user: maria })
      there.entry(number, { user: maria, body: "and said" })
      const news = short(yield* polls(8))
      assert.include(news, "later text")
      assert.include(news, "and said")
    }))

  it.effect("issues that wait for their turn hold up no news of others", () =>
    Effect.gen(function*() {
      const { issue, polls } = yield* followed
      for (let count = 0; count < 10; count++) issue(`Issue ${count}`)
      yield* polls(1)
      issue("Later", "later text")
      assert.include(short(yield* polls(4)), "later text")
    }))

  it.effect("a repeated cursor repeats its news; an unreadable one begins anew", () =>
    Effect.gen(function*() {
      const { fullName, issue, since, source } = yield* followed
      issue()
      nowMillis += MINUTE
      const first = yield* source.poll(fullName, { cursor: null, since })
      assert.deepStrictEqual(short(first.news), ["It breaks"])
      assert.deepStrictEqual(yield* source.poll(fullName, { cursor: null, since }), first)
      assert.deepStrictEqual((yield* source.poll(fullName, { cursor: "{\"turn\":\"x\"}", since })).news, first.news)
      const second = yield* source.poll(fullName, { cursor: first.cursor, since })
      assert.deepStrictEqual(yield* source.poll(fullName, { cursor: first.cursor, since }), second)
    }))

  it.effect("a deleted issue is passed over", () =>
    Effect.gen(function*() {
      const { issue, poll, polls, there } = yield* followed
      issue()
      yield* poll
      there.issues.length = 0
      assert.deepStrictEqual(yield* polls(4), [])
    }))

  it.effect("runs that ended name their branch or pull request; more than a page has are reported as missed", () =>
    Effect.gen(function*() {
      const { polls, there } = yield* followed
      nowMillis += MINUTE
      there.run("0".repeat(40), { branch: "slipway/x", status: "failure" })
      there.run("0".repeat(40), { branch: "#7", status: "success", event: "pull_request" })
      there.run("0".repeat(40), { branch: "#8", status: "success", event: "push" })
      there.run("0".repeat(40), { branch: "busy", status: "running" })
      assert.deepStrictEqual(short(yield* polls(2)), ["slipway/x", 7, "#8"])
      nowMillis += MINUTE
      for (let count = 0; count < 60; count++) there.run("0".repeat(40), { branch: `b${count}`, status: "success" })
      nowMillis += 2 * MINUTE
      assert.deepStrictEqual(short(yield* polls(2)), ["Missed"])
    }))

  it.effect("a server without Actions, and a repository without issues, have no news", () =>
    Effect.gen(function*() {
      const { issue, poll, server } = yield* followed
      issue()
      for (const url of [/actions\/tasks/u, /\/issues\?/u]) {
        server.strike({ method: "GET", url, outcome: { status: 404, body: { message: "not here" } } })
      }
      assert.deepStrictEqual([...(yield* poll).news, ...(yield* poll).news], [])
      assert.deepStrictEqual(short((yield* poll).news), ["It breaks"])
    }))

  it.effect("loses none of many changes on one page, whatever their titles are, and keeps the cursor short", () => busy, 30_000)

  it.effect("a repository that was renamed is read by its present name, which is told", () =>
    Effect.gen(function*() {
      const { fullName, issue, server, source, there } = yield* followed
      issue()
      there.rename(`New-${there.id}`)
      const asked = server.requests.length
      nowMillis += MINUTE
      const polled = yield* source.poll(fullName, { cursor: null, since: DateTime.makeUnsafe(0) })
      assert.strictEqual(polled.presentName, there.fullName)
      assert.deepStrictEqual(server.requests.slice(asked).map(({ status }) => status).slice(0, 2), [301, 200])
      for (const one of polled.news) assert.strictEqual(one.repo, fullName)
      const gone = source.poll(RepoName.make("no/where"), { cursor: null, since: DateTime.makeUnsafe(0) })
      assert.strictEqual((yield* Effect.flip(gone))._tag, "RepoNotAccessible")
    }))
})

layerTest(layerOf({ flavour: "gitea", pageLimit: 3 }), { excludeTestServices: true })("news of a busy repository at Gitea", (it) => {
  it.effect("loses none of many changes on many pages", () => busy, 30_000)

  it.effect("a timeline with hidden comments is read on", () =>
    Effect.gen(function*() {
      const { polls, pull, there } = yield* followed
      const { number } = yield* pull
      yield* polls(6)
      nowMillis += MINUTE
      const code = Array.from({ length: 3 }, () => ({ path: "x", line: 1, text: "here" }))
      const review = there.review(number, maria, "", code, "PENDING")
      there.entry(number, { type: "review", user: maria, body: "Please rename", review })
      assert.include(short(yield* polls(8)), "Please rename")
    }))
})
