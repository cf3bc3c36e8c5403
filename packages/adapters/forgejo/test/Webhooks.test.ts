/** Webhooks of Forgejo and Gitea, with payloads as their sources form them (services/webhook/notifier.go). */
import { assert, layer as layerTest } from "@effect/vitest"
import { RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { MAX_NEWS_BODY, MAX_NEWS_TITLE, type News, SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { createHmac } from "node:crypto"
import * as RepositoryNewsForgejo from "../src/RepositoryNewsForgejo.ts"
import * as SourceHostEventsForgejo from "../src/SourceHostEventsForgejo.ts"
import type { Entry, Issue, Repository } from "../testing/Repository.ts"
import * as Shapes from "../testing/Shapes.ts"
import { layer as forgejo, optionsOf, repository, TestForgejo } from "./TestForgejo.ts"

const SECRET = "known to Forgejo and Slipway alone"
const sign = (body: string, secret = SECRET) => createHmac("sha256", secret).update(body).digest("hex")

const layer = Layer.provideMerge(
  Layer.unwrap(
    Effect.map(TestForgejo, (server) =>
      Layer.merge(
        RepositoryNewsForgejo.layer(optionsOf(server)),
        SourceHostEventsForgejo.layer({ ...optionsOf(server), secret: Redacted.make(SECRET) })
      ))
  ),
  forgejo()
)

const maria = { id: 11, login: "maria" }

const sent = (headers: Readonly<Record<string, string>>, body: string) => SourceHostEvents.use((events) => events.read({ headers, body }))
/** Whether the request is refused. */
const isRefused = (headers: Readonly<Record<string, string>>, body: string) =>
  Effect.map(Effect.result(sent(headers, body)), (result) => result._tag === "Failure" && result.failure._tag === "NotAuthentic")
const read = (name: string, payload: object) => {
  const body = JSON.stringify(payload)
  return sent({ "x-forgejo-event": name, "x-gitea-event": name, "x-forgejo-signature": sign(body), "x-gitea-signature": sign(body) }, body)
}

/** A repository, and the parts of its payloads. */
const hooked = Effect.gen(function*() {
  const server = yield* TestForgejo
  const { fullName, repository: there } = yield* repository({ a: "a\n" })
  const at: Shapes.Surroundings = { origin: server.webUrl, flavour: "forgejo", draftPrefixes: ["WIP:"] }
  const sha = yield* Effect.promise(() => there.commit("slipway/x", { x: "x\n" }))
  const branches = yield* Effect.promise(() => there.bare.branches())
  const pull = there.open({
    title: "Fix",
    body: "By me",
    user: maria,
    pull: {
      baseRef: "trunk",
      headRef: "slipway/x",
      headSha: sha,
      mergeBase: sha,
      counts: yield* Effect.promise(() => there.bare.counts(sha, sha))
    }
  }) as Repository["pulls"][number]
  const issue = there.open({ title: "Broken", body: "It breaks", user: maria })
  const repo = Shapes.repository(at, there, true)
  const common = { repository: repo, sender: Shapes.user(at, maria) }
  const payloads = {
    pull: (action: string) => ({ ...common, action, number: pull.number, pull_request: Shapes.pull(at, there, pull, branches) }),
    issue: (action: string, one: Issue = issue) => ({ ...common, action, number: one.number, issue: Shapes.issue(at, there, one) }),
    comment: (action: string, one: Issue, entry: Entry) => ({
      ...common,
      action,
      issue: Shapes.issue(at, there, one),
      comment: Shapes.comment(at, there, entry),
      is_pull: one.pull !== null
    })
  }
  const changed: News = { _tag: "Pull", repo: fullName, branch: "slipway/x", number: pull.number }
  return { server, fullName, there, pull, issue, common, repo, payloads, changed }
})

layerTest(layer, { excludeTestServices: true })("webhooks of Forgejo", (it) => {
  it.effect("takes signed requests alone, by each of the signatures that the servers send", () =>
    Effect.gen(function*() {
      const { fullName, common } = yield* hooked
      const body = JSON.stringify({ ...common, ref: "refs/heads/x" })
      const news: ReadonlyArray<News> = [{ _tag: "Pull", repo: fullName, branch: "x", number: null }]
      for (
        const signed of [
          { "x-forgejo-event": "push", "x-forgejo-signature": sign(body) },
          { "x-gitea-event": "push", "x-gitea-signature": sign(body) },
          { "x-gitea-event": "push", "x-hub-signature-256": `sha256=${sign(body)}` }
        ]
      ) assert.deepStrictEqual(yield* sent(signed, body), news)
      for (
        const signature of ["", "sha256=", sign(body, "other"), sign(`${body} `), sign(body).slice(1), `${sign(body)}00`, "z".repeat(64)]
      ) {
        assert.isTrue(yield* isRefused({ "x-forgejo-event": "push", "x-forgejo-signature": signature }, body), signature)
      }
      assert.isTrue(yield* isRefused({ "x-forgejo-event": "push" }, body))
    }))

  it.effect("no secret at all lets no request in", () =>
    Effect.gen(function*() {
      const server = yield* TestForgejo
      const events = SourceHostEventsForgejo.layer({ ...optionsOf(server), secret: Redacted.make("") })
      assert.isTrue(yield* Effect.provide(isRefused({ "x-forgejo-signature": sign("{}", "") }, "{}"), events))
    }))

  it.effect("each event of a pull request names its branch, and its text when it was opened", () =>
    Effect.gen(function*() {
      const { changed, payloads, pull, there } = yield* hooked
      for (const action of ["closed", "synchronized", "edited", "assigned"]) {
        assert.deepStrictEqual(yield* read("pull_request", payloads.pull(action)), [changed])
      }
      const [first, opened] = yield* read("pull_request", payloads.pull("opened"))
      assert.deepStrictEqual(first, changed)
      assert.deepInclude(opened, {
        _tag: "Comment",
        id: `issue:${there.id}#${pull.number}`,
        isPull: true,
        title: "Fix",
        body: "By me",
        author: { id: "11", login: "maria", isBot: false }
      })
    }))

  it.effect("a comment is news once, when it is written; our own is a program's", () =>
    Effect.gen(function*() {
      const { fullName, issue, payloads, pull, server, there } = yield* hooked
      const comment = there.entry(issue.number, { user: maria, body: "@slipway go" })
      const [said, ...rest] = yield* read("issue_comment", payloads.comment("created", issue, comment))
      assert.deepStrictEqual(rest, [])
      assert.deepInclude(said, { _tag: "Comment", id: `comment:${comment.id}`, number: issue.number, isPull: false, title: "Broken" })
      const own = there.entry(pull.number, { user: server.bot, body: "Done" })
      const changed: News = { _tag: "Pull", repo: fullName, branch: null, number: pull.number }
      const [first, second] = yield* read("issue_comment", payloads.comment("created", pull, own))
      assert.deepStrictEqual(first, changed)
      assert.deepInclude(second, { _tag: "Comment", author: { id: "5", login: "slipway", isBot: true } })
      for (const action of ["edited", "deleted"]) {
        assert.deepStrictEqual(yield* read("issue_comment", payloads.comment(action, pull, own)), [changed])
        assert.deepStrictEqual(yield* read("issue_comment", payloads.comment(action, issue, comment)), [])
      }
    }))

  it.effect("a label and a review are looked up, because the event does not say which they are", () =>
    Effect.gen(function*() {
      const { changed, issue, payloads, pull, there } = yield* hooked
      there.label(issue.number, "bug", maria)
      const labelled = yield* read("issues", payloads.issue("label_updated"))
      assert.lengthOf(labelled, 1)
      assert.deepInclude(labelled[0], { _tag: "Labelled", label: "bug", number: issue.number, body: "It breaks", isPull: false })
      const before = there.review(pull.number, maria, "Earlier")
      Object.assign(there.entries.at(-1)!, { createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z" })
      there.review(pull.number, maria, "Please rename")
      for (const name of ["pull_request_approved", "pull_request_rejected", "pull_request_comment"]) {
        const [first, ...texts] = yield* read(name, payloads.pull("reviewed"))
        assert.deepStrictEqual(first, changed)
        assert.deepStrictEqual(texts.map((one) => one._tag === "Comment" ? one.body : one._tag), ["Please rename"])
      }
      assert.strictEqual(before.body, "Earlier")
      there.label(pull.number, "go", maria)
      assert.deepInclude((yield* read("pull_request", payloads.pull("label_updated")))[1], { _tag: "Labelled", label: "go", isPull: true })
    }))

  it.effect("the same change has the same id in webhooks and polls", () =>
    Effect.gen(function*() {
      const { fullName, issue, payloads, pull, there } = yield* hooked
      const comment = there.entry(issue.number, { user: maria, body: "go" })
      const byHook = [
        ...yield* read("issues", payloads.issue("opened")),
        ...yield* read("pull_request", payloads.pull("opened")),
        ...yield* read("issue_comment", payloads.comment("created", issue, comment))
      ]
      there.label(issue.number, "bug", maria)
      byHook.push(...yield* read("issues", payloads.issue("label_updated")))
      there.review(pull.number, maria, "Please rename")
      byHook.push(...yield* read("pull_request_comment", payloads.pull("reviewed")))
      const texts = byHook.filter(({ _tag }) => _tag === "Comment" || _tag === "Labelled")
      assert.lengthOf(texts, 5)
      const source = yield* RepositoryNews
      const polled: Array<unknown> = []
      let cursor: string | null = null
      for (let times = 0; times < 12; times++) {
        const answer: { readonly cursor: string; readonly news: ReadonlyArray<unknown> } = yield* source.poll(fullName, {
          cursor,
          since: DateTime.makeUnsafe(Date.now() - 60_000)
        })
        cursor = answer.cursor
        polled.push(...answer.news)
      }
      for (const text of texts) assert.deepInclude(polled, text)
    }))

  it.effect("if labels cannot be looked up, the rest is still news", () =>
    Effect.gen(function*() {
      const { changed, payloads, pull, server, there } = yield* hooked
      there.label(pull.number, "go", maria)
      server.strike({ method: "GET", url: /timeline/u, outcome: { status: 503 } })
      assert.deepStrictEqual(yield* read("pull_request", payloads.pull("label_updated")), [changed])
    }))

  it.effect("while our own account is not known, no text counts as a person's", () =>
    Effect.gen(function*() {
      const { changed, issue, payloads, server, there } = yield* hooked
      const events = SourceHostEventsForgejo.layer({ ...optionsOf(server), secret: Redacted.make(SECRET) })
      const body = JSON.stringify(payloads.comment("created", issue, there.entry(issue.number, { user: server.bot, body: "Done" })))
      const opened = JSON.stringify(payloads.pull("opened"))
      server.strike({ method: "GET", url: /\/user$/u, outcome: { status: 503 }, times: 2 })
      yield* Effect.gen(function*() {
        assert.deepStrictEqual(yield* sent({ "x-forgejo-event": "issue_comment", "x-forgejo-signature": sign(body) }, body), [])
        assert.deepStrictEqual(yield* sent({ "x-forgejo-event": "pull_request", "x-forgejo-signature": sign(opened) }, opened), [changed])
      }).pipe(Effect.provide(events))
    }))

  it.effect("runs and statuses that ended are news of their branch, of their pull request, or of all", () =>
    Effect.gen(function*() {
      const { common, fullName, repo } = yield* hooked
      const run = (prettyref: string, event = "push") => ({ action: "success", run: { prettyref, event, repository: repo } })
      const branch = (name: string): ReadonlyArray<News> => [{ _tag: "Pull", repo: fullName, branch: name, number: null }]
      for (const name of ["action_run_success", "action_run_failure", "action_run_recover"]) {
        assert.deepStrictEqual(yield* read(name, run("slipway/x")), branch("slipway/x"))
      }
      assert.deepStrictEqual(yield* read("action_run_failure", run("#7", "pull_request")), [
        { _tag: "Pull", repo: fullName, branch: null, number: 7 }
      ])
      assert.deepStrictEqual(yield* read("action_run_failure", run("#7")), branch("#7"))
      const workflow = (action: string) => ({ ...common, action, workflow_run: { head_branch: "slipway/x", event: "push" } })
      assert.deepStrictEqual(yield* read("workflow_run", workflow("completed")), branch("slipway/x"))
      assert.deepStrictEqual(yield* read("workflow_run", workflow("in_progress")), [])
      assert.deepStrictEqual(yield* read("status", { ...common, sha: "0", state: "failure" }), [{ _tag: "Missed", repo: fullName }])
      assert.deepStrictEqual(yield* read("status", { ...common, sha: "0", state: "pending" }), [])
    }))

  it.effect("hostile and unknown payloads are no news, and long texts are cut", () =>
    Effect.gen(function*() {
      const { common, issue, payloads } = yield* hooked
      for (
        const name of ["push", "pull_request", "issues", "issue_comment", "workflow_run", "status", "__proto__", "constructor", "wiki", ""]
      ) {
        for (
          const payload of [{}, [], { ...common }, { repository: { id: 1, full_name: "../../etc" } }, { ...common, ref: 5, issue: null }]
        ) {
          assert.deepStrictEqual(yield* read(name, payload), [])
        }
      }
      const body = "{"
      assert.deepStrictEqual(yield* sent({ "x-forgejo-event": "push", "x-forgejo-signature": sign(body) }, body), [])
      Object.assign(issue, { title: "😀".repeat(MAX_NEWS_TITLE), body: `x${"😀".repeat(MAX_NEWS_BODY)}` })
      const [news] = yield* read("issues", payloads.issue("opened"))
      const cut = news?._tag === "Comment" ? news : assert.fail("is no text")
      assert.isAtMost(cut.title.length, MAX_NEWS_TITLE)
      assert.isAtMost(cut.body.length, MAX_NEWS_BODY)
      assert.isTrue(cut.title.isWellFormed() && cut.body.isWellFormed())
      assert.isAtMost(cut.id.length, 255)
    }))
})
