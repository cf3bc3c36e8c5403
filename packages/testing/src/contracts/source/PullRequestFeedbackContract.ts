/**
 * The rules that every `PullRequestFeedback` must keep, beside the `SourceHost` of the same repositories. An adapter proves itself by
 * running this suite against its layer. Runs on real repositories, so it uses the real clock.
 */
import {
  MAX_ANNOTATIONS,
  MAX_FEEDBACK_TEXT,
  MAX_LOG_TAIL,
  MAX_REPLY,
  PullRequestFeedback,
  type ReadOptions
} from "@slipway/domain/source/ports/PullRequestFeedback"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { utf8Length } from "@slipway/domain/text/Utf8"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"
import type { HostedRepository } from "./SourceHostContract.ts"

/** A comment or review that a test writes on a pull request. */
export interface Saying {
  readonly kind: "review" | "review_comment" | "comment"
  readonly login: string
  readonly isBot?: boolean
  readonly text: string
  readonly path?: string
  readonly line?: number
}

/** A check of a commit. */
export interface Checking {
  readonly name: string
  readonly state: "running" | "passed" | "failed"
  readonly annotations?: ReadonlyArray<{ readonly path: string; readonly line: number; readonly message: string }>
  readonly log?: string
}

/** A repository where people comment, and where programs check commits. */
export interface DiscussedRepository extends Pick<HostedRepository, "commit" | "deleteBranch" | "fullName"> {
  /** `false`: a review has no text of its own there, so that it is said as a comment. */
  readonly hasReviews?: boolean
  /** Returns what `edit` and `remove` name it by. */
  say(number: number, saying: Saying): Effect.Effect<number>
  /** Left out where comments do not change. */
  edit?(number: number, said: number, text: string): Effect.Effect<void>
  remove?(number: number, said: number): Effect.Effect<void>
  /** Left out where nothing is checked. */
  check?(headSha: string, checks: ReadonlyArray<Checking>): Effect.Effect<void>
  /** Parts of checks that the host does not give. */
  readonly lacks?: ReadonlyArray<"annotations" | "logs">
}

/** Operations that the suite needs and the port lacks. */
export interface Fixture<R> {
  repository(files: Readonly<Record<string, string>>): Effect.Effect<DiscussedRepository, unknown, Scope.Scope | R>
}

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const all: ReadOptions = { since: DateTime.makeUnsafe(0), checks: true, knownChecks: new Set() }

const openedOf = <R>(fixture: Fixture<R>) =>
  Effect.gen(function*() {
    const host = yield* SourceHost
    const feedback = yield* PullRequestFeedback
    const repository = yield* fixture.repository({ a: "one\n" })
    const headSha = yield* repository.commit("slipway/x", { a: "two\n" }, "Change")
    const repo = repository.fullName
    const { number, url } = yield* host.openDraftPullRequest(repo, {
      title: "t",
      body: "",
      baseRef: "trunk",
      headRef: "slipway/x",
      headSha,
      at
    })
    const read = (more: Partial<ReadOptions> = {}) => feedback.read(repo, number, { ...all, ...more })
    const reply = (key: string, text: string) => feedback.reply(repo, number, key, text)
    return { feedback, repository, repo, number, url, headSha, read, reply }
  })

const items = <R>(it: Writer<PullRequestFeedback | SourceHost | R>, opened: ReturnType<typeof openedOf<R>>) => {
  it.effect("lists what people say, oldest first, with its author, its place, its time and its address", () =>
    Effect.gen(function*() {
      const { number, read, repository, url } = yield* opened
      assert.deepStrictEqual(yield* read(), { isOpen: true, url, headRef: "slipway/x", items: [], checks: (yield* read()).checks })
      const review = repository.hasReviews === false ? "comment" : "review"
      yield* repository.say(number, { kind: review, login: "maria", text: "Not **yet**.\r\n" })
      yield* repository.say(number, { kind: "review_comment", login: "piet", text: "This one.", path: "a", line: 1 })
      yield* repository.say(number, { kind: "comment", login: "maria", text: "\u202ewhy?" })
      const { items } = yield* read()
      const saw = items.map(({ author: { isBot, login }, body, kind, line, path }) => ({ isBot, login, body, kind, line, path }))
      assert.deepStrictEqual(saw, [
        { isBot: false, login: "maria", body: "Not **yet**.\r\n", kind: review, line: null, path: null },
        { isBot: false, login: "piet", body: "This one.", kind: "review_comment", line: 1, path: "a" },
        { isBot: false, login: "maria", body: "\u202ewhy?", kind: "comment", line: null, path: null }
      ])
      assert.strictEqual(new Set(items.map(({ id }) => id)).size, 3)
      assert.strictEqual(items[0]?.author.id, items[2]?.author.id)
      assert.notStrictEqual(items[0]?.author.id, items[1]?.author.id)
      assert.isTrue(items.every(({ at, updatedAt, url }) => URL.canParse(url) && DateTime.isGreaterThanOrEqualTo(updatedAt, at)))
      assert.deepStrictEqual((yield* read()).items, items)
    }))

  it.effect("tells programs from people", () =>
    Effect.gen(function*() {
      const { number, read, repository } = yield* opened
      yield* repository.say(number, { kind: "comment", login: "helper[bot]", isBot: true, text: "Coverage fell." })
      assert.deepStrictEqual((yield* read()).items.map(({ author }) => author.isBot), [true])
    }))

  it.effect("an edited item keeps its id and its first time; a deleted one is missing", () =>
    Effect.gen(function*() {
      const { number, read, repository } = yield* opened
      const { edit, remove } = repository
      if (edit === undefined || remove === undefined) return
      const first = yield* repository.say(number, { kind: "comment", login: "maria", text: "one" })
      const second = yield* repository.say(number, { kind: "comment", login: "maria", text: "two" })
      const [before] = (yield* read()).items
      yield* edit(number, first, "other")
      yield* remove(number, second)
      const { items } = yield* read()
      assert.deepStrictEqual(items.map(({ at, body, id }) => ({ at, body, id })), [{ at: before?.at, body: "other", id: before?.id }])
      assert.isTrue(DateTime.isGreaterThan(items[0]?.updatedAt ?? at, before?.updatedAt ?? at))
    }))

  it.effect("cuts long texts, and no character in two", () =>
    Effect.gen(function*() {
      const { number, read, repository } = yield* opened
      yield* repository.say(number, { kind: "comment", login: "maria", text: `x${"😀".repeat(MAX_FEEDBACK_TEXT / 2)}` })
      const [item] = (yield* read()).items
      assert.isAtMost(item?.body.length ?? Infinity, MAX_FEEDBACK_TEXT)
      assert.isTrue(item?.body.startsWith("x😀") === true && item.body.isWellFormed())
    }))

  it.effect("reads nothing of a closed pull request, and does not know a repository that is not there", () =>
    Effect.gen(function*() {
      const { feedback, number, read, repository } = yield* opened
      yield* repository.say(number, { kind: "comment", login: "maria", text: "one" })
      yield* repository.deleteBranch("slipway/x")
      const { checks, isOpen, items } = yield* read()
      assert.deepStrictEqual({ checks, isOpen, items }, { checks: null, isOpen: false, items: [] })
      const unknown = RepoName.make("nobody/nothing-of-that-name")
      const errors = [yield* Effect.flip(feedback.read(unknown, 1, all)), yield* Effect.flip(feedback.reply(unknown, 1, "k", "t"))]
      assert.deepStrictEqual(errors.map(({ _tag }) => _tag), ["RepoNotAccessible", "RepoNotAccessible"])
    }))
}

const replies = <R>(it: Writer<PullRequestFeedback | SourceHost | R>, opened: ReturnType<typeof openedOf<R>>) => {
  it.effect("a key has one reply, whose text is replaced; it is a program's", () =>
    Effect.gen(function*() {
      const { number, read, reply, repository } = yield* opened
      yield* repository.say(number, { kind: "comment", login: "maria", text: "one" })
      const url = yield* reply("round", "first")
      assert.strictEqual(yield* reply("round", "first"), url)
      assert.strictEqual(yield* reply("round", "second"), url)
      const other = yield* reply("other", "third")
      const own = (yield* read()).items.filter(({ author }) => author.isBot)
      assert.deepStrictEqual(own.map(({ url }) => url), [url, other])
      assert.match(own[0]?.body ?? "", /^second/u)
      assert.notInclude(own[0]?.body ?? "", "first")
    }))

  it.effect("a person's comment that quotes the reply is not replaced", () =>
    Effect.gen(function*() {
      const { number, read, reply, repository } = yield* opened
      yield* reply("round", "first")
      const [own] = (yield* read()).items
      yield* repository.say(number, { kind: "comment", login: "mallory", text: own?.body ?? "" })
      yield* reply("round", "second")
      const { items } = yield* read()
      assert.deepStrictEqual(items.map(({ author }) => author.isBot), [true, false])
      assert.match(items[0]?.body ?? "", /^second/u)
      assert.match(items[1]?.body ?? "", /^first/u)
    }))

  it.effect("a reply is cut", () =>
    Effect.gen(function*() {
      const { read, reply } = yield* opened
      yield* reply("round", "x".repeat(MAX_REPLY + 100))
      assert.isAtMost(/^x*/u.exec((yield* read()).items[0]?.body ?? "")?.[0].length ?? 0, MAX_REPLY)
    }))
}

const checks = <R>(it: Writer<PullRequestFeedback | SourceHost | R>, opened: ReturnType<typeof openedOf<R>>) => {
  it.effect("reads checks only where it is asked for them, and none of a commit without any", () =>
    Effect.gen(function*() {
      const { headSha, read } = yield* opened
      assert.strictEqual((yield* read({ checks: false })).checks, null)
      assert.deepStrictEqual((yield* read()).checks, { headSha, state: "none", at: null, failing: [] })
    }))

  it.effect("checks run until all are done, whatever failed; then those that failed have annotations and the ends of their logs", () =>
    Effect.gen(function*() {
      const { headSha, read, repository } = yield* opened
      if (repository.check === undefined) return
      const message = "expected \u202e1"
      const log = `${"old line\n".repeat(40_000)}the end 😀`
      const failed: Checking = { name: "test", state: "failed", annotations: [{ path: "a", line: 1, message }], log }
      yield* repository.check(headSha, [failed, { name: "lint", state: "running" }])
      const running = (yield* read()).checks
      assert.deepStrictEqual([running?.state, running?.failing], ["running", []])
      yield* repository.check(headSha, [failed, { name: "lint", state: "passed" }])
      const done = (yield* read()).checks
      assert.deepStrictEqual([done?.headSha, done?.state, done?.failing.map(({ name }) => name)], [headSha, "failed", ["test"]])
      assert.isTrue(done !== null && done.at !== null)
      const { lacks = [] } = repository
      assert.deepStrictEqual(done?.failing[0]?.annotations, lacks.includes("annotations") ? [] : [{ path: "a", line: 1, message }])
      const tail = done?.failing[0]?.log ?? ""
      if (lacks.includes("logs")) assert.strictEqual(tail, "")
      else {
        assert.isTrue(tail.endsWith("old line\nthe end 😀"))
        assert.isAtMost(utf8Length(tail), MAX_LOG_TAIL)
        assert.isAbove(utf8Length(tail), MAX_LOG_TAIL / 2)
      }
      assert.deepStrictEqual((yield* read({ knownChecks: new Set([headSha]) })).checks?.failing, [])
    }))

  it.effect("passes where all passed, and has a bounded number of annotations", () =>
    Effect.gen(function*() {
      const { headSha, read, repository } = yield* opened
      if (repository.check === undefined) return
      yield* repository.check(headSha, [{ name: "lint", state: "passed" }])
      assert.strictEqual((yield* read()).checks?.state, "passed")
      const annotations = Array.from({ length: MAX_ANNOTATIONS + 5 }, (_, line) => ({ path: "a", line, message: "no" }))
      yield* repository.check(headSha, [{ name: "lint", state: "failed", annotations }])
      assert.isAtMost((yield* read()).checks?.failing[0]?.annotations.length ?? Infinity, MAX_ANNOTATIONS)
    }))
}

/** The rules for a layer. */
export const suite = <R, E>(
  name: string,
  layer: Layer.Layer<PullRequestFeedback | SourceHost | R, E>,
  fixture: Fixture<R>
) =>
  defineLive(`PullRequestFeedback: ${name}`, layer, (it) => {
    const opened = openedOf(fixture)
    items(it, opened)
    replies(it, opened)
    checks(it, opened)
  })
