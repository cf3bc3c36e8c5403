import { assert, layer } from "@effect/vitest"
import { RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import type { News } from "@slipway/domain/source/ports/SourceHostEvents"
import { DateTime, Effect, Layer } from "effect"
import * as RepositoryNewsGitLab from "../src/RepositoryNewsGitLab.ts"
import { ADA, failureOf, optionsOf, OWN, project, TestGitLab } from "./TestGitLab.ts"

const source = Layer.unwrap(Effect.map(TestGitLab, (server) => RepositoryNewsGitLab.layer(optionsOf(server)))).pipe(
  Layer.provideMerge(TestGitLab.layer())
)

/** A followed project. `poll` gives the news of one poll and the requests for it, `all` those of polls until GitLab has no more. */
const followed = Effect.gen(function*() {
  const server = yield* TestGitLab
  const news = yield* RepositoryNews
  const { fullName, project: there } = yield* project({ a: "a\n" })
  const since = DateTime.makeUnsafe(Date.now() - 1000)
  let cursor: string | null = null
  const pollFrom = Effect.fnUntraced(function*(from: string | null) {
    const before = server.requests.length
    const polled = yield* news.poll(fullName, { cursor: from, since })
    const asked = server.requests.slice(before).flatMap(({ status, url }) => {
      const rest = /^\/api\/v4\/projects\/\d+\/([^?]+)/u.exec(url)?.[1]
      return rest === undefined ? [] : [`${status} ${rest}`]
    })
    return { ...polled, asked }
  })
  const poll = Effect.suspend(() => pollFrom(cursor)).pipe(Effect.tap((polled) => Effect.sync(() => void (cursor = polled.cursor))))
  const all = Effect.gen(function*() {
    const found: Array<News> = []
    let quiet = 0
    while (quiet < 4) {
      const { news, pollAfterMillis } = yield* poll
      found.push(...news)
      quiet = pollAfterMillis === 1_000 ? 0 : quiet + 1
    }
    return found
  })
  const open = Effect.promise(async () => {
    await there.commit("slipway/x", { x: "x\n" })
    return there.open({ author: ADA, title: "Fix", description: "By me", sourceBranch: "slipway/x", targetBranch: "trunk" })
  })
  return { server, fullName, there, poll, pollFrom, all, open }
})

layer(source, { excludeTestServices: true })("news of a project", (it) => {
  it.effect("each poll sends one request, in turn for each list, and nothing new is not sent again", () =>
    Effect.gen(function*() {
      const { poll } = yield* followed
      const first = yield* Effect.forEach(Array.from({ length: 4 }), () => poll)
      assert.deepStrictEqual(first.map(({ asked }) => asked), [["200 merge_requests"], ["200 pipelines"], ["200 events"], ["200 issues"]])
      const later = yield* Effect.forEach(Array.from({ length: 4 }), () => poll)
      assert.deepStrictEqual(later.map(({ asked }) => asked), [["304 merge_requests"], ["304 pipelines"], ["304 events"], ["304 issues"]])
      assert.deepStrictEqual([...first, ...later].flatMap(({ news }) => news), [])
      for (const { asked, isUnchanged, pollAfterMillis } of [...first, ...later]) {
        assert.strictEqual(isUnchanged, asked[0]?.startsWith("304"))
        assert.strictEqual(pollAfterMillis, 60_000)
      }
    }))

  it.effect("a new merge request is news once, and so is each change of it", () =>
    Effect.gen(function*() {
      const { all, fullName, open, server, there } = yield* followed
      const opened = yield* open
      const pull = { _tag: "Pull", repo: fullName, branch: "slipway/x", number: 1 } as const
      const said = {
        _tag: "Comment",
        id: `pull:${opened.id}`,
        repo: fullName,
        number: 1,
        isPull: true,
        title: "Fix",
        body: "By me",
        url: `${server.webUrl}/${fullName}/-/merge_requests/1`,
        author: { id: "7", login: "Ada", isBot: false },
        at: DateTime.makeUnsafe(opened.createdAt)
      } as const
      assert.deepStrictEqual(yield* all, [pull, said])
      assert.deepStrictEqual(yield* all, [])
      yield* Effect.promise(() => there.commit("slipway/x", { x: "y\n" }))
      assert.deepStrictEqual(yield* all, [pull])
    }))

  it.effect("comments of people are news, and those of the service are a program's; internal ones and GitLab's own are not", () =>
    Effect.gen(function*() {
      const { all, fullName, open, server, there } = yield* followed
      yield* open
      const issue = there.issue({ title: "Broken", description: "It breaks", author: ADA })
      yield* all
      const one = there.note(1, { author: ADA, body: "@slipway go" })
      const two = there.note(issue.iid, { author: OWN, body: "Done.", of: "Issue" })
      there.note(1, { author: ADA, body: "a secret", internal: true })
      there.note(1, { body: "added 1 commit", system: true })
      const comments = (yield* all).filter(({ _tag }) => _tag === "Comment")
      assert.deepStrictEqual(comments, [{
        _tag: "Comment",
        id: `note:${one.id}`,
        repo: fullName,
        number: 1,
        isPull: true,
        title: "Fix",
        body: "@slipway go",
        url: `${server.webUrl}/${fullName}/-/merge_requests/1#note_${one.id}`,
        author: { id: "7", login: "Ada", isBot: false },
        at: DateTime.makeUnsafe(one.createdAt)
      }, {
        _tag: "Comment",
        id: `note:${two.id}`,
        repo: fullName,
        number: 1,
        isPull: false,
        title: "Broken",
        body: "Done.",
        url: `${server.webUrl}/${fullName}/-/issues/1#note_${two.id}`,
        author: { id: "2", login: "deploy", isBot: true },
        at: DateTime.makeUnsafe(two.createdAt)
      }])
    }))

  it.effect("confidential issues are not news", () =>
    Effect.gen(function*() {
      const { all, there } = yield* followed
      there.issue({ title: "A leak", confidential: true })
      const open = there.issue({ title: "Broken" })
      there.label("issues", 1, "go")
      assert.deepStrictEqual((yield* all).map((news) => news._tag === "Comment" ? news.id : news._tag), [`issue:${open.id}`])
    }))

  it.effect("an added label is news with who added it and the text of its issue, and only once", () =>
    Effect.gen(function*() {
      const { all, fullName, server, there } = yield* followed
      const issue = there.issue({ title: "Broken", description: "It breaks" })
      there.label("issues", 1, "bug")
      yield* all
      const added = there.label("issues", 1, "go", ADA)
      there.labelEvents.push({ ...added, id: there.nextId(), action: "remove", label: "bug" })
      assert.deepStrictEqual(yield* all, [{
        _tag: "Labelled",
        id: `${there.id}#1:${Math.floor(Date.parse(added.createdAt) / 60_000)}:go`,
        repo: fullName,
        number: 1,
        isPull: false,
        title: "Broken",
        body: "It breaks",
        url: `${server.webUrl}/${fullName}/-/issues/1`,
        label: "go",
        author: { id: "7", login: "Ada", isBot: false },
        at: DateTime.makeUnsafe(added.createdAt)
      }])
      there.note(issue.iid, { of: "Issue", body: "hm" })
      assert.deepStrictEqual((yield* all).map(({ _tag }) => _tag), ["Comment"])
    }))

  it.effect("the end of a pipeline is news of its branch or merge request", () =>
    Effect.gen(function*() {
      const { all, fullName, there } = yield* followed
      there.pipeline("0".repeat(40), { ref: "slipway/x", status: "running" })
      assert.deepStrictEqual(yield* all, [])
      there.pipeline("0".repeat(40), { ref: "slipway/y", status: "success" })
      there.pipeline("0".repeat(40), { ref: "refs/merge-requests/12/head", status: "failed" })
      assert.deepStrictEqual(yield* all, [
        { _tag: "Pull", repo: fullName, branch: "slipway/y", number: null },
        { _tag: "Pull", repo: fullName, branch: null, number: 12 }
      ])
    }))

  it.effect("the same cursor gives the same news, also of labels", () =>
    Effect.gen(function*() {
      const { pollFrom, there } = yield* followed
      there.issue()
      there.label("issues", 1, "go")
      const cursors = [null as string | null]
      for (let i = 0; i < 6; i++) cursors.push((yield* pollFrom(cursors.at(-1) ?? null)).cursor)
      const again = yield* Effect.forEach(cursors.slice(0, -1), (cursor) => pollFrom(cursor))
      assert.deepStrictEqual(again.map(({ cursor }) => cursor), cursors.slice(1))
      assert.include(again.flatMap(({ news }) => news.map(({ _tag }) => _tag)), "Labelled")
    }))

  it.effect("reads more than a page of comments in several polls, and says that some are lost where there are too many", () =>
    Effect.gen(function*() {
      const { all, open, there } = yield* followed
      yield* open
      yield* all
      for (let i = 0; i < 150; i++) there.note(1, { body: String(i) })
      const bodies = (yield* all).flatMap((news) => news._tag === "Comment" ? news.body : [])
      assert.deepStrictEqual(bodies.map(Number).sort((a, b) => a - b), Array.from({ length: 150 }, (_, i) => i))
      for (let i = 0; i < 350; i++) there.note(1, { body: String(i) })
      assert.include((yield* all).map(({ _tag }) => _tag), "Missed")
      assert.deepStrictEqual((yield* all).filter(({ _tag }) => _tag !== "Pull"), [])
    }))

  it.effect("reads more changed items than a page has, oldest first", () =>
    Effect.gen(function*() {
      const { all, there } = yield* followed
      for (let i = 0; i < 120; i++) there.issue({ title: String(i) })
      const titles = (yield* all).flatMap((news) => news._tag === "Comment" ? Number(news.title) : [])
      assert.deepStrictEqual(titles, Array.from({ length: 120 }, (_, i) => i))
    }))

  it.effect("says that news are lost where more changed at one time than a page has", () =>
    Effect.gen(function*() {
      const { all, there } = yield* followed
      const at = new Date().toISOString()
      for (let i = 0; i < 120; i++) Object.assign(there.issue(), { updatedAt: at, createdAt: at })
      assert.include((yield* all).map(({ _tag }) => _tag), "Missed")
    }))

  it.effect("knows the new path of a project that was moved", () =>
    Effect.gen(function*() {
      const { poll, there } = yield* followed
      there.move(`Acme/moved-${there.id}`)
      assert.strictEqual((yield* poll).presentName, there.path)
    }))

  it.effect("a part of the project that is turned off has no news", () =>
    Effect.gen(function*() {
      const { all, there } = yield* followed
      there.hasPipelines = false
      there.issue()
      assert.deepStrictEqual((yield* all).map(({ _tag }) => _tag), ["Comment"])
    }))

  it.effect("does not know a project that is not there", () =>
    Effect.gen(function*() {
      const news = yield* RepositoryNews
      const error = yield* failureOf(news.poll("somebody/nothing", { cursor: null, since: DateTime.makeUnsafe(0) }))
      assert.strictEqual(error._tag, "RepoNotAccessible")
    }))
})
