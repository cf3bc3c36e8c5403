/** Webhooks with the fields of GitLab's examples: https://docs.gitlab.com/user/project/integrations/webhook_events/ */
import { assert, it } from "@effect/vitest"
import { type PolledNews, RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { MAX_NEWS_BODY, type News, SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { DateTime, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { createHmac } from "node:crypto"
import * as RepositoryNewsGitLab from "../src/RepositoryNewsGitLab.ts"
import * as SourceHostEventsGitLab from "../src/SourceHostEventsGitLab.ts"
import { ADA, failureOf, optionsOf, OWN, project as newProject, TestGitLab } from "./TestGitLab.ts"

const SECRET = "what only GitLab and we know"
const secret = Redacted.make(SECRET)

const send = (options: SourceHostEventsGitLab.Options, headers: Readonly<Record<string, string>>, body: string) =>
  SourceHostEvents.use((events) => events.read({ headers, body })).pipe(Effect.provide(SourceHostEventsGitLab.layer(options)))
const read = (payload: object) => send({ secret }, { "x-gitlab-token": SECRET }, JSON.stringify(payload))

const user = { id: 7, name: "Ada", username: "ada", avatar_url: null, email: "[REDACTED]" }
const project = { id: 15, name: "Shop", path_with_namespace: "acme/tools/shop", web_url: "https://gitlab.test/acme/tools/shop" }
const repo = project.path_with_namespace
const at = "2026-11-21T02:41:00Z"
const ada = { id: "7", login: "ada", isBot: false }
const mergeRequest = {
  object_kind: "merge_request",
  event_type: "merge_request",
  user,
  project,
  labels: [],
  changes: {},
  object_attributes: {
    id: 90,
    iid: 3,
    title: "Draft: Fix",
    description: "By me",
    source_branch: "slipway/x",
    target_branch: "main",
    state: "opened",
    action: "update",
    url: `${project.web_url}/-/merge_requests/3`,
    created_at: "2026-11-21 02:40:00 UTC",
    updated_at: "2026-11-21 02:41:00 UTC"
  }
}
const issue = {
  object_kind: "issue",
  event_type: "issue",
  user,
  project,
  labels: [],
  changes: {},
  object_attributes: {
    id: 80,
    iid: 5,
    title: "Broken",
    description: "It breaks",
    state: "opened",
    action: "open",
    confidential: false,
    url: `${project.web_url}/-/issues/5`,
    created_at: at,
    updated_at: at
  }
}
const note = {
  object_kind: "note",
  event_type: "note",
  user,
  project_id: 15,
  project,
  object_attributes: {
    id: 70,
    note: "@slipway go",
    noteable_type: "MergeRequest",
    author_id: 7,
    system: false,
    internal: false,
    action: "create",
    created_at: at,
    updated_at: at,
    url: `${project.web_url}/-/merge_requests/3#note_70`
  },
  merge_request: { id: 90, iid: 3, title: "Fix", source_branch: "slipway/x" }
}
const pull: News = { _tag: "Pull", repo, branch: "slipway/x", number: 3 }

it.effect("a change of a merge request names its branch; a new one is also a text", () =>
  Effect.gen(function*() {
    assert.deepStrictEqual(yield* read(mergeRequest), [pull])
    const opened = { ...mergeRequest, object_attributes: { ...mergeRequest.object_attributes, action: "open" } }
    assert.deepStrictEqual(yield* read(opened), [pull, {
      _tag: "Comment",
      id: "pull:90",
      repo,
      number: 3,
      isPull: true,
      title: "Draft: Fix",
      body: "By me",
      url: `${project.web_url}/-/merge_requests/3`,
      author: ada,
      at: DateTime.makeUnsafe("2026-11-21T02:40:00Z")
    }])
  }))

it.effect("each added label is news, and none that was there or was taken away", () =>
  Effect.gen(function*() {
    const [bug, go, old] = [{ id: 1, title: "bug" }, { id: 2, title: "go" }, { id: 3, title: "old" }]
    const labelled = {
      _tag: "Labelled",
      repo,
      number: 5,
      isPull: false,
      title: "Broken",
      body: "It breaks",
      url: `${project.web_url}/-/issues/5`,
      author: ada,
      at: DateTime.makeUnsafe(at)
    } as const
    const minute = Math.floor(Date.parse(at) / 60_000)
    const update = { ...issue.object_attributes, action: "update" }
    assert.deepStrictEqual(
      yield* read({ ...issue, object_attributes: update, changes: { labels: { previous: [bug, old], current: [bug, go] } } }),
      [{ ...labelled, id: `15#5:${minute}:go`, label: "go" }]
    )
    const [text, ...labels] = yield* read({ ...issue, labels: [bug, go] })
    assert.deepInclude(text, { _tag: "Comment", id: "issue:80" })
    assert.deepStrictEqual(labels, ["bug", "go"].map((label) => ({ ...labelled, id: `15#5:${minute}:${label}`, label })))
  }))

it.effect("a new comment is news, an edited one only of its merge request, and GitLab's own none", () =>
  Effect.gen(function*() {
    const said: News = {
      _tag: "Comment",
      id: "note:70",
      repo,
      number: 3,
      isPull: true,
      title: "Fix",
      body: "@slipway go",
      url: note.object_attributes.url,
      author: ada,
      at: DateTime.makeUnsafe(at)
    }
    const withNote = (more: object) => read({ ...note, object_attributes: { ...note.object_attributes, ...more } })
    assert.deepStrictEqual(yield* read(note), [pull, said])
    assert.deepStrictEqual(yield* withNote({ action: "update" }), [pull])
    assert.deepStrictEqual(yield* withNote({ internal: true }), [pull])
    assert.deepStrictEqual(yield* withNote({ system: true }), [])
    assert.deepStrictEqual(yield* withNote({ noteable_type: "Commit" }), [])
    const { merge_request: _, ...onIssue } = note
    assert.deepStrictEqual(
      yield* read({
        ...onIssue,
        object_attributes: { ...note.object_attributes, noteable_type: "Issue" },
        issue: { iid: 5, title: "Broken" }
      }),
      [{ ...said, number: 5, isPull: false, title: "Broken" }]
    )
    const [, long] = yield* withNote({ note: "x".repeat(MAX_NEWS_BODY + 1) })
    assert.strictEqual(long?._tag === "Comment" ? long.body.length : 0, MAX_NEWS_BODY)
  }))

it.effect("nothing confidential is news", () =>
  Effect.gen(function*() {
    const confidential = { ...issue.object_attributes, confidential: true }
    assert.deepStrictEqual(yield* read({ ...issue, object_attributes: confidential }), [])
    assert.deepStrictEqual(yield* read({ ...issue, event_type: "confidential_issue" }), [])
    assert.deepStrictEqual(yield* read({ ...note, event_type: "confidential_note" }), [])
  }))

it.effect("the service's own replies and those of token accounts are a program's", () =>
  Effect.gen(function*() {
    const isBot = (news: ReadonlyArray<News>) => news.flatMap((one) => one._tag === "Comment" ? one.author.isBot : [])
    const reply = { ...note.object_attributes, note: "Done.\n\n<!-- slipway:feedback:1 -->" }
    assert.deepStrictEqual(isBot(yield* read({ ...note, object_attributes: reply })), [true])
    assert.deepStrictEqual(isBot(yield* read({ ...note, user: { ...user, username: "group_12_bot_3f9a" } })), [true])
    const server = yield* TestGitLab
    const host = optionsOf(server)
    const own = JSON.stringify({ ...note, user: { ...user, id: OWN.id } })
    assert.deepStrictEqual(isBot(yield* send({ secret, host }, { "x-gitlab-token": SECRET }, own)), [true])
    assert.deepStrictEqual(isBot(yield* send({ secret, host }, { "x-gitlab-token": SECRET }, JSON.stringify(note))), [false])
  }).pipe(Effect.provide(TestGitLab.layer())))

it.effect("an ended pipeline, a push and a moved project are news; a running pipeline, a tag and a job are not", () =>
  Effect.gen(function*() {
    const pipeline = { object_kind: "pipeline", project, object_attributes: { id: 1, ref: "slipway/x", tag: false, status: "failed" } }
    assert.deepStrictEqual(yield* read({ ...pipeline, merge_request: { iid: 3, source_branch: "slipway/x" } }), [pull])
    assert.deepStrictEqual(yield* read({ ...pipeline, merge_request: null }), [{ ...pull, number: null }])
    assert.deepStrictEqual(yield* read({ ...pipeline, object_attributes: { ...pipeline.object_attributes, tag: true } }), [])
    assert.deepStrictEqual(yield* read({ ...pipeline, object_attributes: { ...pipeline.object_attributes, status: "running" } }), [])
    const push = { object_kind: "push", event_name: "push", ref: "refs/heads/slipway/x", project, user_id: 7 }
    assert.deepStrictEqual(yield* read(push), [{ ...pull, number: null }])
    assert.deepStrictEqual(yield* read({ ...push, object_kind: "tag_push", event_name: "tag_push", ref: "refs/tags/v1" }), [])
    assert.deepStrictEqual(yield* read({ object_kind: "build", project, build_status: "success" }), [])
    for (const name of ["project_rename", "project_transfer"]) {
      const moved = { event_name: name, project_id: 15, path_with_namespace: repo, old_path_with_namespace: "acme/shop" }
      assert.deepStrictEqual(yield* read(moved), [{ _tag: "Renamed", from: "acme/shop", repo }])
    }
  }))

it.effect("reads nothing of payloads of another form", () =>
  Effect.gen(function*() {
    for (const payload of [{}, { object_kind: "toString" }, { object_kind: "issue" }, { object_kind: "note", user, project }, []]) {
      assert.deepStrictEqual(yield* read(payload), [])
    }
    assert.deepStrictEqual(yield* send({ secret }, { "x-gitlab-token": SECRET }, "{"), [])
  }))

it.effect("takes only the secret token", () =>
  Effect.gen(function*() {
    for (const headers of [{}, { "x-gitlab-token": "" }, { "x-gitlab-token": `${SECRET}!` }, { "x-gitlab-token": SECRET.slice(1) }]) {
      assert.strictEqual((yield* failureOf(send({ secret }, headers, JSON.stringify(note))))._tag, "NotAuthentic")
    }
    for (const options of [{ secret: null }, { secret: Redacted.make("") }]) {
      assert.strictEqual((yield* failureOf(send(options, { "x-gitlab-token": "" }, JSON.stringify(note))))._tag, "NotAuthentic")
    }
  }))

it.effect("takes only requests with a fresh signature once a signing token is configured", () =>
  Effect.gen(function*() {
    const now = Date.parse(at) / 1000
    yield* TestClock.setTime(now * 1000)
    const body = JSON.stringify(note)
    for (const [token, key] of [["whsec_c2VjcmV0", Buffer.from("secret")], ["another form", Buffer.from("another form")]] as const) {
      const sign = (text: string) => `v1,${createHmac("sha256", key).update(text).digest("base64")}`
      const signed = (more: Readonly<Record<string, string>> = {}, sent = body) =>
        send({ secret: null, signingToken: Redacted.make(token) }, {
          "webhook-id": "one",
          "webhook-timestamp": String(now),
          "webhook-signature": `v1,AAAA ${sign(`one.${now}.${body}`)}`,
          ...more
        }, sent)
      assert.lengthOf(yield* signed(), 2)
      const old = now - 301
      const refused = [
        signed({}, `${body} `),
        signed({ "webhook-id": "two" }),
        signed({ "webhook-signature": "" }),
        signed({ "webhook-timestamp": String(old), "webhook-signature": sign(`one.${old}.${body}`) }),
        signed({ "webhook-timestamp": "x", "webhook-signature": sign(`one.x.${body}`) }),
        send({ secret, signingToken: Redacted.make(token) }, { "x-gitlab-token": SECRET }, body)
      ]
      for (const one of refused) assert.strictEqual((yield* failureOf(one))._tag, "NotAuthentic")
    }
  }))

it.live("texts and labels have the same ids from a webhook and from polling", () =>
  Effect.gen(function*() {
    const server = yield* TestGitLab
    const { fullName, project: there } = yield* newProject({ a: "a\n" })
    const since = DateTime.makeUnsafe(Date.now() - 1000)
    const one = there.issue({ title: "Broken", description: "It breaks", author: ADA })
    const label = there.label("issues", 1, "go", ADA)
    const said = there.note(1, { of: "Issue", author: ADA, body: "hm" })
    const polled: Array<News> = []
    yield* RepositoryNews.use(Effect.fnUntraced(function*(news) {
      let cursor: string | null = null
      for (let i = 0; i < 8; i++) {
        const { cursor: next, news: found }: PolledNews = yield* news.poll(fullName, { cursor, since })
        cursor = next
        polled.push(...found)
      }
    })).pipe(Effect.provide(RepositoryNewsGitLab.layer(optionsOf(server))))
    const own = { ...project, id: there.id, path_with_namespace: fullName }
    const by = { ...user, id: ADA.id, username: ADA.username }
    const sent = [
      ...yield* read({
        ...issue,
        user: by,
        project: own,
        labels: [{ id: 1, title: "go" }],
        object_attributes: { ...issue.object_attributes, id: one.id, iid: 1, created_at: one.createdAt, updated_at: label.createdAt }
      }),
      ...yield* read({
        ...note,
        user: by,
        project: own,
        issue: { iid: 1, title: "Broken" },
        object_attributes: { ...note.object_attributes, id: said.id, noteable_type: "Issue" }
      })
    ]
    const ids = (news: ReadonlyArray<News>) => news.flatMap((one) => "id" in one ? `${one._tag} ${one.id}` : []).sort()
    assert.lengthOf(ids(sent), 3)
    assert.deepStrictEqual(ids(polled), ids(sent))
  }).pipe(Effect.provide(TestGitLab.layer())))
