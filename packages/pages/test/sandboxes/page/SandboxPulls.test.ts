/** The pull request on the page of a sandbox: checks, and people's comments. */
import { assert, layer } from "@effect/vitest"
import type { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { type SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { type CommentWithText, noChecks, type PullRequest, type PullRequestDetails } from "@slipway/domain/source/schema/PullRequest"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { DateTime, Deferred, Effect, Result } from "effect"
import { visitor } from "../../../testing/Browser.ts"
import { ask, json, layer as http, type Reply, running, SANDBOXES } from "../../../testing/Harness.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const pullRequest: PullRequest = {
  id: 3,
  nodeId: "PR_3",
  number: 3,
  url: "https://host.test/acme/shop/pull/3",
  title: "Say hello.",
  state: "open",
  draft: true,
  merged: false,
  baseRef: "main",
  headRef: "slipway/x",
  headSha: "0".repeat(40),
  createdAt: at,
  updatedAt: at,
  additions: 1,
  deletions: 0,
  changedFiles: 1
}

const comment = (id: number, fields: Partial<CommentWithText> = {}): CommentWithText => ({
  id,
  title: "Comment",
  author: "mona",
  authorAvatarUrl: "https://elsewhere.test/mona.png",
  createdAt: "2026-11-21T02:41:00Z",
  updatedAt: "2026-11-21T02:41:00Z",
  url: `https://host.test/acme/shop/pull/3#c${id}`,
  text: `This is **number ${id}**.`,
  isWhole: true,
  path: null,
  line: null,
  ...fields
})

const details = (comments: ReadonlyArray<CommentWithText>, more: Partial<PullRequestDetails> = {}): PullRequestDetails => ({
  pullRequest,
  checks: noChecks,
  comments,
  pending: false,
  ...more
})

/** The host's present answer. */
let tells: Effect.Effect<PullRequestDetails, SourceHostError> = Effect.succeed(details([]))
let reads = 0
const host: Partial<SourceHost["Service"]> = {
  pullRequestDetails: () =>
    Effect.suspend(() => {
      reads++
      return tells
    })
}

/** A visitor with a sandbox whose pull request is open. */
const reviewer = Effect.fnUntraced(function*(name: string) {
  const browser = yield* visitor(name)
  const { id } = yield* running(browser.key)
  const published = { number: 3, url: pullRequest.url, state: "open", draft: true, merged: false } as const
  yield* tell(id, published)
  reads = 0
  return { ...browser, id, read: browser.get, get: browser.get(`/sandboxes/${id}`) }
})

const record = Effect.fnUntraced(function*(id: SandboxId, event: object) {
  yield* (yield* SandboxStore).change(id, "policy", () => Result.succeed([event as SandboxEvent]), yield* DateTime.now)
})
const tell = (id: SandboxId, data: object) =>
  record(id, { type: "pull_request.updated", data: { repo: "acme/shop", action_state: "idle", ...data } })

/** The piece of a page, or of its stream. */
const pullsOf = (text: string): string => /<ul class="pulls"[^>]*>[^]*?<\/form>\n<\/li>/u.exec(text)?.[0] ?? ""
const commentsOf = ({ text }: Reply): ReadonlyArray<string> =>
  [...pullsOf(text).matchAll(/<li class="pull-comment">([^]*?)<\/li>/gu)].map(([, shown = ""]) => shown)

const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  changes: () => Effect.succeed({ files: [], partialWarnings: [] })
}

layer(http({ host, trees }), { excludeTestServices: true })("the pull request on the page of a sandbox", (it) => {
  it.effect("is linked from the message after its first publication, if its address is one of the web", () =>
    Effect.gen(function*() {
      tells = Effect.succeed(details([]))
      const { get, id } = yield* visitor("opened").pipe(
        Effect.flatMap((browser) => Effect.map(running(browser.key), ({ id }) => ({ ...browser, id })))
      )
      const said = (query: string) =>
        Effect.map(get(`/sandboxes/${id}?${query}`), ({ text }) => /<p class="told"[^>]*>([^]*?)<\/p>/u.exec(text)?.[1])
      yield* tell(id, { number: 3, url: pullRequest.url, state: "open", draft: true, merged: false })
      const link = `<a href="https://host.test/acme/shop/pull/3" rel="noreferrer">#3</a>`
      assert.strictEqual(yield* said("done=opened&repo=ACME/shop"), `Draft pull request ${link} opened.`)
      assert.strictEqual(yield* said("done=opened&repo=acme/other"), "Draft pull request opened.")
      assert.strictEqual(yield* said("done=published&repo=acme/shop"), "Pull request updated.")
      yield* tell(id, { number: 3, url: "javascript:alert(1)", state: "open", draft: false, merged: false })
      assert.strictEqual(yield* said("done=opened&repo=acme/shop"), "Pull request #3 opened.")
    }))

  it.effect("says at once that feedback is paused, and continues it", () =>
    Effect.gen(function*() {
      tells = Effect.succeed(details([]))
      const { follow, get, id, post } = yield* reviewer("paused")
      yield* record(id, {
        type: "feedback.received",
        data: { repo: "acme/shop", kind: "checks", url: "", authors: [], count: 1, items: ["checks:1"], until: at, round: 1 }
      })
      const before = yield* get
      assert.notInclude(before.text, "Feedback is paused")
      const stream = yield* follow(`/sandboxes/${id}/pieces?since=${/data-cursor="(\d+)"/u.exec(before.text)?.[1] ?? ""}`)
      yield* record(id, { type: "feedback.paused", data: { repo: "acme/shop", rounds: 1 } })
      let piece = ""
      while (!piece.includes("Feedback is paused: 1 round without")) piece = (yield* stream.next) ?? assert.fail("the stream ended")
      assert.include(piece, `data-piece="pulls"`)
      assert.include(piece, `<form method="post" action="/sandboxes/${id}/feedback" data-live>`)
      const sent = yield* post(`/sandboxes/${id}/feedback`, { repo: "acme/shop", action: "resume" })
      assert.strictEqual(sent.headers["location"], `/sandboxes/${id}?done=resumed`)
      assert.notInclude(pullsOf((yield* get).text), "Feedback is paused")
      // The reason of a pause is a text of others.
      yield* record(id, { type: "feedback.paused", data: { repo: "acme/shop", rounds: 0, reason: "<b>The creator</b> is gone." } })
      assert.include(
        (yield* get).text,
        "no new sandbox may go on: &lt;b&gt;The creator&lt;/b&gt; is gone. The service tries again each hour."
      )
    }))

  it.effect("has what people say of it, as Markdown, with who, when and where", () =>
    Effect.gen(function*() {
      tells = Effect.succeed(details([
        comment(1),
        comment(2, { title: "Review comment on src/a.ts", path: "src/a.ts", line: 12, text: "Use `const`." }),
        comment(3, { path: "src/b.ts", createdAt: "yesterday" })
      ]))
      const { get, id, key } = yield* reviewer("talk")
      const page = yield* get
      const [first = "", second = "", third = ""] = commentsOf(page)
      assert.include(first, `<span class="who">mona</span>`)
      assert.include(first, "<p>This is <strong>number 1</strong>.</p>")
      const time = `<time datetime="2026-11-21T02:41:00.000Z">2026-11-21 02:41 UTC</time>`
      const link = `<a href="https://host.test/acme/shop/pull/3#c1" rel="noreferrer"><span class="unseen">Comment of </span>${time}</a>`
      assert.include(first, link)
      assert.include(second, `<code class="place">src/a.ts:12</code>`)
      assert.include(second, "<p>Use <code>const</code>.</p>")
      assert.include(third, `<code class="place">src/b.ts</code>`)
      assert.include(third, "yesterday")
      assert.include(page.text, "3 comments")
      assert.notInclude(page.text, "elsewhere.test")
      // The interface tells of them, and not what they say.
      const { comments } = json(yield* ask(`${SANDBOXES}/${id}/pull-request`, { key }))
      const fields = ["author", "authorAvatarUrl", "createdAt", "id", "title", "updatedAt", "url"]
      assert.deepStrictEqual(comments.map((one: object) => Object.keys(one).sort()), [fields, fields, fields])
    }))

  it.effect("shows what is hostile and does nothing of it", () =>
    Effect.gen(function*() {
      const hostile = `</li></ul><script>alert(1)</script> ![x](https://spy.test/x.png) [y](javascript:alert(1)) \u202e\u001b[31m`
      const fields = { author: hostile, path: hostile, url: "javascript:alert(2)", createdAt: hostile }
      tells = Effect.succeed(details([comment(1, { ...fields, text: hostile }), comment(2, { text: "After it." })]))
      const { get } = yield* reviewer("hostile")
      const { text } = yield* get
      const piece = pullsOf(text)
      assert.notMatch(piece, /<script|<img|\u202e|href="javascript:/u)
      assert.notInclude(piece, "\u001b")
      assert.include(piece, "&lt;script&gt;alert(1)&lt;/script&gt;")
      assert.include(visible("\u202e"), "RIGHT-TO-LEFT OVERRIDE")
      assert.include(piece, "RIGHT-TO-LEFT OVERRIDE")
      // A picture is a link, so that its host does not learn of the visit.
      assert.include(piece, `<a href="https://spy.test/x.png" rel="noreferrer noopener nofollow">x</a>`)
      assert.include(piece, "After it.")
    }))

  it.effect("has the newest twenty comments, oldest first, and leads to the others", () =>
    Effect.gen(function*() {
      tells = Effect.succeed(details(Array.from({ length: 25 }, (_, i) => comment(i + 1))))
      const { get } = yield* reviewer("many")
      const page = yield* get
      const numbers = commentsOf(page).map((shown) => Number(/number (\d+)/u.exec(shown)?.[1]))
      assert.deepStrictEqual(numbers, Array.from({ length: 20 }, (_, i) => i + 6))
      assert.include(page.text, "25 comments")
      assert.include(page.text, `<a href="https://host.test/acme/shop/pull/3" rel="noreferrer">5 more on host.test</a>`)
    }))

  it.effect("has as much of them as there is room for, the newest first, and leads to the rest", () =>
    Effect.gen(function*() {
      tells = Effect.succeed(
        details(Array.from({ length: 20 }, (_, i) => comment(i + 1, { text: `Number ${i + 1} ${"\u202c".repeat(900)}`, isWhole: false })))
      )
      const { get } = yield* reviewer("long")
      const page = yield* get
      const shown = commentsOf(page)
      assert.isAbove(shown.length, 1)
      assert.isBelow(shown.length, 20)
      assert.isBelow(Buffer.byteLength(pullsOf(page.text)), 100 * 1024)
      assert.include(shown.at(-1) ?? "", `<a href="https://host.test/acme/shop/pull/3#c20" rel="noreferrer">Show the rest</a>`)
      assert.include(page.text, `${20 - shown.length} more on host.test`)
    }))

  it.effect("bounds and escapes a comment of 60,000 characters with terminal codes and markup, and shows a later one whole", () =>
    Effect.gen(function*() {
      const unit = `</li></ol><script>alert(1)</script> <img src=x onerror=alert(2)> \u001b[31m\u202e **x** [y](javascript:alert(3)) \n`
      const hostile = unit.repeat(Math.ceil(60_000 / unit.length)).slice(0, 60_000)
      tells = Effect.succeed(details([comment(1, { text: hostile }), comment(2, { text: "After it." })]))
      const { get } = yield* reviewer("huge")
      const piece = pullsOf((yield* get).text)
      assert.isBelow(Buffer.byteLength(piece), 100 * 1024)
      assert.notMatch(piece, /<script|<img|\u202e|href="javascript:/u)
      assert.notInclude(piece, "\u001b")
      assert.include(piece, "shown as it was written")
      assert.include(piece, "&lt;script&gt;alert(1)&lt;/script&gt;")
      assert.include(piece, "<p>After it.</p>")
    }))

  it.effect("is sent back to the agent with the failed checks and the comments as text, in a form that sends a message", () =>
    Effect.gen(function*() {
      const url = "https://host.test/checks/1"
      const check = (id: number, name: string, conclusion: string) => ({ id, name, url, status: "completed", conclusion })
      const checkRuns = [check(1, "lint", "success"), check(2, `unit </textarea><b>`, "failure")]
      tells = Effect.succeed(
        details([comment(1, { path: "src/a.ts", line: 12, text: "Use `const`.\u202e\n</textarea><script>" })], {
          checks: { ...noChecks, state: "failure", checkRuns }
        })
      )
      const { get, id, post, read } = yield* reviewer("sends-back")
      const [, address = ""] = /<a href="([^"]*send-back[^"]*)">Send back to the agent…/u.exec((yield* get).text) ?? []
      assert.strictEqual(address, `/sandboxes/${id}/send-back?repo=acme%2Fshop`)
      const page = yield* read(address)
      const [, message = ""] = /<textarea [^>]*>\n([^<]*)<\/textarea>/u.exec(page.text) ?? []
      assert.strictEqual(
        message,
        `Pull request #3 needs changes.

Fix the failed checks:
- unit &lt;/textarea&gt;&lt;b&gt;: failure https://host.test/checks/1

Address the comments:

mona on src/a.ts:12:
&gt; Use \`const\`.${visible("\u202e")}
&gt; &lt;/textarea&gt;&lt;script&gt;`
      )
      assert.include(page.text, `<form method="post" action="/sandboxes/${id}/messages">`)
      assert.include(page.text, "The agent is working. Your message is sent when it finishes.")
      assert.include(page.text, `<a class="button quiet" href="/sandboxes/${id}?view=pull">Cancel</a>`)
      assert.include((yield* read(`${address}&next=//evil.test`)).text, `href="/sandboxes/${id}?view=pull">Cancel</a>`)
      assert.include((yield* read(`${address}&next=/pulls`)).text, `href="/pulls">Cancel</a>`)
      const sent = yield* post(`/sandboxes/${id}/messages`, { prompt: "Fix it.", whenBusy: "queue" })
      assert.strictEqual(sent.headers["location"], `/sandboxes/${id}?done=queued`)
      assert.strictEqual((yield* read(`/sandboxes/${id}/send-back?repo=acme/other`)).status, 404)
      assert.strictEqual((yield* (yield* visitor("stranger")).get(address)).status, 404)
      yield* post(`/sandboxes/${id}/terminate`)
      const ended = yield* read(address)
      assert.include(ended.text, "The sandbox has ended and takes no messages.")
      assert.notInclude(ended.text, "<textarea")
    }))

  it.effect("is sent back with a message of one's own while its host does not answer", () =>
    Effect.gen(function*() {
      tells = Effect.fail(new SourceHostError({ operation: "read", detail: "No.", retryable: true }))
      const { id, read } = yield* reviewer("sends-back-alone")
      const page = yield* read(`/sandboxes/${id}/send-back?repo=acme/shop`)
      assert.include(page.text, "Checks and comments are not loaded.")
      assert.match(page.text, /<textarea [^>]*>\nPull request #3 needs changes\.\n\n<\/textarea>/u)
    }))

  it.effect("does not hold the page up while its host takes its time, and comes with the stream", () =>
    Effect.gen(function*() {
      const told = yield* Deferred.make<PullRequestDetails>()
      tells = Deferred.await(told)
      const { follow, get, id } = yield* reviewer("slow")
      const { text } = yield* get
      assert.include(pullsOf(text), `<a href="https://host.test/acme/shop/pull/3" rel="noreferrer">#3 Say hello.</a>`)
      assert.include(pullsOf(text), "Loading checks and comments…")
      const cursor = /data-cursor="(\d+)"/u.exec(text)?.[1] ?? ""
      const stream = yield* follow(`/sandboxes/${id}/pieces?since=${cursor}`)
      yield* Deferred.succeed(told, details([comment(1)]))
      let piece = ""
      while (!piece.includes("number 1")) piece = (yield* stream.next) ?? assert.fail("the stream ended")
      assert.include(piece, `data-piece="pulls" data-again`)
      yield* get
      assert.strictEqual(reads, 1)
    }))

  it.effect("is read again once it was pushed to", () =>
    Effect.gen(function*() {
      tells = Effect.succeed(details([]))
      const { get, id } = yield* reviewer("pushed")
      yield* get
      yield* tell(id, { number: 3, head_sha: "1".repeat(40) })
      yield* get
      assert.strictEqual(reads, 2)
    }))

  it.effect("says that its host does not answer", () =>
    Effect.gen(function*() {
      tells = new SourceHostError({ operation: "read", detail: "secret detail", retryable: true })
      const { get } = yield* reviewer("silent")
      const { text } = yield* get
      assert.include(pullsOf(text), "The source host does not respond.")
      assert.notInclude(text, "secret")
    }))
})
