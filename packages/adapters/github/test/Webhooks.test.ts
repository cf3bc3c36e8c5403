/** Events as GitHub describes them: `@octokit/openapi-webhooks-types` holds the payloads of these tests to its description. */
import { assert, it } from "@effect/vitest"
import type { components } from "@octokit/openapi-webhooks-types"
import { MAX_NEWS_BODY, type News, SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { DateTime, Effect, Redacted } from "effect"
import { createHmac } from "node:crypto"
import * as SourceHostEventsGitHub from "../src/SourceHostEventsGitHub.ts"

type Part<T> = T extends ReadonlyArray<infer A> ? ReadonlyArray<Part<A>> : T extends object ? { readonly [K in keyof T]?: Part<T[K]> } : T
type Payload<Name extends keyof components["schemas"]> = Part<components["schemas"][Name]>

const SECRET = "what only GitHub and we know"
const sign = (body: string, secret = SECRET) => `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`

const layer = SourceHostEventsGitHub.layer({ secret: Redacted.make(SECRET) })
const sent = (name: string, body: string, signature = sign(body)) =>
  SourceHostEvents.use((events) => events.read({ headers: { "x-github-event": name, "x-hub-signature-256": signature }, body })).pipe(
    Effect.provide(layer)
  )
const read = (name: string, payload: object) => sent(name, JSON.stringify(payload))

const repository = { full_name: "Acme/Shop" }
const sender = { id: 7, login: "ada", type: "User" } as const
const head = { ref: "slipway/c_aaaaaaaaaaaa" }
const at = "2026-11-21T02:41:00Z"
const pull = {
  id: 90,
  number: 3,
  title: "Fix",
  body: "By me",
  html_url: "https://github.test/pull/3",
  head,
  user: sender,
  created_at: at,
  updated_at: at
}
const issue = {
  id: 80,
  number: 5,
  title: "Broken",
  body: "It breaks",
  html_url: "https://github.test/issues/5",
  user: { id: 9, login: "dependabot[bot]", type: "Bot" } as const,
  created_at: at,
  updated_at: at
}
const comment = {
  id: 70,
  body: "@slipway go",
  html_url: "https://github.test/issues/5#issuecomment-70",
  user: sender,
  created_at: at,
  updated_at: at
}
const pullNews: News = { _tag: "Pull", repo: repository.full_name, branch: head.ref, number: 3 }
const ada = { id: "7", login: "ada", isBot: false }
const said = { repo: repository.full_name, at: DateTime.makeUnsafe(at), author: ada }

it.effect("each event of a pull request names its branch", () =>
  Effect.gen(function*() {
    const closed = { action: "closed", pull_request: pull, repository, sender, number: 3 } satisfies Payload<"webhook-pull-request-closed">
    const synchronized = { action: "synchronize", pull_request: pull, repository, sender, number: 3 } satisfies Payload<
      "webhook-pull-request-synchronize"
    >
    for (const payload of [closed, synchronized]) assert.deepStrictEqual(yield* read("pull_request", payload), [pullNews])
    const dismissed = {
      action: "dismissed",
      pull_request: { number: 3, head },
      repository,
      sender,
      review: { id: 60, body: "No", html_url: "https://github.test/r", user: sender }
    } satisfies Payload<"webhook-pull-request-review-dismissed">
    assert.deepStrictEqual(yield* read("pull_request_review", dismissed), [pullNews])
  }))

it.effect("a review with a text, a comment on code, and a pull request that opens are comments too", () =>
  Effect.gen(function*() {
    const review = { id: 60, body: "Please rename it", html_url: "https://github.test/r", user: sender, submitted_at: at } as const
    const submitted = {
      action: "submitted",
      pull_request: { number: 3, title: "Fix", head },
      repository,
      sender,
      review
    } satisfies Payload<
      "webhook-pull-request-review-submitted"
    >
    const about = { ...said, number: 3, isPull: true, title: "Fix" }
    assert.deepStrictEqual(yield* read("pull_request_review", submitted), [pullNews, {
      _tag: "Comment",
      ...about,
      id: "review:60",
      body: "Please rename it",
      url: "https://github.test/r"
    }])
    assert.deepStrictEqual(yield* read("pull_request_review", { ...submitted, review: { ...review, body: null } }), [pullNews])
    const onCode = { action: "created", pull_request: { number: 3, title: "Fix", head }, repository, sender, comment } satisfies Payload<
      "webhook-pull-request-review-comment-created"
    >
    const [, second] = yield* read("pull_request_review_comment", onCode)
    assert.deepInclude(second, { _tag: "Comment", id: "review_comment:70", body: "@slipway go", isPull: true })
    const opened = { action: "opened", pull_request: pull, repository, sender, number: 3 } satisfies Payload<"webhook-pull-request-opened">
    assert.deepStrictEqual(yield* read("pull_request", opened), [pullNews, {
      _tag: "Comment",
      ...about,
      id: "pull:90",
      body: "By me",
      url: pull.html_url
    }])
  }))

it.effect("a comment below an issue or pull request is told once, when it is written", () =>
  Effect.gen(function*() {
    const created = { action: "created", issue, comment, repository, sender } satisfies Payload<"webhook-issue-comment-created">
    const news = {
      _tag: "Comment",
      ...said,
      id: "comment:70",
      number: 5,
      isPull: false,
      title: "Broken",
      body: "@slipway go",
      url: comment.html_url
    }
    assert.deepStrictEqual(yield* read("issue_comment", created), [news as News])
    const onPull = { ...created, issue: { ...issue, pull_request: { url: "https://github.test/pulls/5" } } }
    assert.deepStrictEqual(yield* read("issue_comment", onPull), [
      { _tag: "Pull", repo: repository.full_name, branch: null, number: 5 },
      { ...news, isPull: true } as News
    ])
    const edited = { action: "edited", changes: {}, issue, comment, repository, sender } satisfies Payload<"webhook-issue-comment-edited">
    assert.deepStrictEqual(yield* read("issue_comment", edited), [])
  }))

it.effect("an issue is told when it opens and when a label is added, by whom", () =>
  Effect.gen(function*() {
    const opened = { action: "opened", issue, repository, sender } satisfies Payload<"webhook-issues-opened">
    const [first] = yield* read("issues", opened)
    assert.deepInclude(first, { _tag: "Comment", id: "issue:80", body: "It breaks" })
    assert.deepStrictEqual(first?._tag === "Comment" ? first.author : null, { id: "9", login: "dependabot[bot]", isBot: true })
    const label = { name: "slipway" }
    const labeled = { action: "labeled", issue, label, repository, sender } satisfies Payload<"webhook-issues-labeled">
    const news = yield* read("issues", labeled)
    assert.lengthOf(news, 1)
    assert.deepInclude(news[0], { _tag: "Labelled", label: "slipway", author: ada, number: 5, isPull: false, body: "It breaks" })
    // Repeated deliveries have the same id; the same label once more has another.
    assert.deepStrictEqual(yield* read("issues", labeled), news)
    const later = yield* read("issues", { ...labeled, issue: { ...issue, updated_at: "2026-11-21T02:42:00Z" } })
    assert.notDeepEqual(later, news)
    const onPull = { action: "labeled", pull_request: pull, label, repository, sender, number: 3 } satisfies Payload<
      "webhook-pull-request-labeled"
    >
    const [changed, added] = yield* read("pull_request", onPull)
    assert.deepStrictEqual(changed, pullNews)
    assert.deepInclude(added, { _tag: "Labelled", label: "slipway", number: 3, isPull: true })
  }))

it.effect("checks are told when they are completed, of each pull request or of their branch", () =>
  Effect.gen(function*() {
    const run = { action: "completed", repository, sender, check_run: { pull_requests: [{ number: 3, head }] } } satisfies Payload<
      "webhook-check-run-completed"
    >
    assert.deepStrictEqual(yield* read("check_run", run), [pullNews])
    const suite = {
      action: "completed",
      repository,
      sender,
      check_suite: { head_branch: head.ref, pull_requests: [] }
    } satisfies Payload<"webhook-check-suite-completed">
    assert.deepStrictEqual(yield* read("check_suite", suite), [{ ...pullNews, number: null }])
    const workflow = {
      action: "completed",
      repository,
      sender,
      workflow_run: { head_branch: head.ref, pull_requests: [] }
    } satisfies Payload<"webhook-workflow-run-completed">
    assert.deepStrictEqual(yield* read("workflow_run", workflow), [{ ...pullNews, number: null }])
    assert.deepStrictEqual(yield* read("check_run", { ...run, action: "created" }), [])
  }))

it.effect("a push names its branch, a tag nothing", () =>
  Effect.gen(function*() {
    const push = { ref: "refs/heads/feature/a", repository, sender } satisfies Payload<"webhook-push">
    assert.deepStrictEqual(yield* read("push", push), [{ ...pullNews, branch: "feature/a", number: null }])
    assert.deepStrictEqual(yield* read("push", { ...push, ref: "refs/tags/v1" }), [])
  }))

it.effect("a renamed or moved repository is told with its earlier name", () =>
  Effect.gen(function*() {
    const renamed = { action: "renamed", repository, sender, changes: { repository: { name: { from: "store" } } } } satisfies Payload<
      "webhook-repository-renamed"
    >
    assert.deepStrictEqual(yield* read("repository", renamed), [{ _tag: "Renamed", from: "Acme/store", repo: repository.full_name }])
    const moved = {
      action: "transferred",
      repository,
      sender,
      changes: { owner: { from: { organization: { login: "globex" } } } }
    } satisfies Payload<"webhook-repository-transferred">
    assert.deepStrictEqual(yield* read("repository", moved), [{ _tag: "Renamed", from: "globex/Shop", repo: repository.full_name }])
  }))

it.effect("texts are cut to their bounds, without splitting a character", () =>
  Effect.gen(function*() {
    const body = `${"x".repeat(MAX_NEWS_BODY - 1)}🦜`
    const [news] = yield* read("issue_comment", {
      action: "created",
      issue: { ...issue, title: "t".repeat(9999) },
      comment: { ...comment, body },
      repository,
      sender
    })
    assert.strictEqual(news?._tag === "Comment" ? news.body : "", "x".repeat(MAX_NEWS_BODY - 1))
    assert.strictEqual(news?._tag === "Comment" ? news.title.length : 0, 256)
  }))

it.effect("unknown events, and known ones of another form, are authentic and nothing more", () =>
  Effect.gen(function*() {
    for (const name of ["", "star", "constructor", "__proto__", "pull_request", "issues", "check_run", "push", "repository"]) {
      for (const payload of [{ repository, sender }, { repository, pull_request: null, issue: 1, changes: [] }, { zen: "x" }, [], 1]) {
        assert.deepStrictEqual(yield* read(name, Object(payload)), [], name)
      }
      assert.deepStrictEqual(yield* sent(name, "no JSON"), [])
    }
    const hidden = { action: "closed", pull_request: pull, repository: { full_name: "../etc" }, sender }
    assert.deepStrictEqual(yield* read("pull_request", hidden), [])
  }))

it.effect("a forged signature is refused before anything is read", () =>
  Effect.gen(function*() {
    const body = JSON.stringify({ action: "closed", pull_request: pull, repository, sender })
    for (const signature of ["", "sha256=", sign(body, "another"), sign(`${body} `)]) {
      assert.strictEqual((yield* Effect.flip(sent("pull_request", body, signature)))._tag, "NotAuthentic")
    }
  }))
