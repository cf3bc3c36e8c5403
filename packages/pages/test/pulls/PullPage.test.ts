/** The page of a pull request whose source host has none for it: who sees it, its diff, merging and closing. */
import { assert, layer } from "@effect/vitest"
import { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import * as SourceHostMemory from "@slipway/domain/memory/source/SourceHostMemory"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { headRef } from "@slipway/domain/source/schema/Naming"
import { noChecks, type PullRequestDetails } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Layer, Result } from "effect"
import { randomUUID } from "node:crypto"
import { type Fields, visitor } from "../../testing/Browser.ts"
import { ask, create, layer as http, type Reply } from "../../testing/Harness.ts"

const HOSTILE = `</h1><script>alert("1")</script>'&\u202e\u001b[31m`
const SHOWN = "&lt;/h1&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;⟨RIGHT-TO-LEFT OVERRIDE⟩⟨ESC⟩[31m"

/** How often git was asked for a diff. */
let diffs = 0

const served = Layer.unwrap(Effect.gen(function*() {
  const pulls = (yield* PullRequests) ?? assert.fail("no pull requests here")
  const counting: typeof pulls = {
    ...pulls,
    diff: (repo, number) =>
      Effect.suspend(() => {
        diffs++
        return pulls.diff(repo, number)
      })
  }
  return http({ host: yield* SourceHost, pulls: counting })
})).pipe(Layer.provideMerge(SourceHostMemory.layer), Layer.provideMerge(MemoryRepositories.layer))

/** A pull request of a sandbox of the grant. */
const opened = Effect.fnUntraced(function*(grant: string, changes: Readonly<Record<string, string | null>> = { a: "one\n2\n" }) {
  const person = yield* visitor(grant)
  const fullName = RepoName.make(`acme/${randomUUID()}`)
  const repository = (yield* MemoryRepositories).add(fullName, { a: "one\ntwo\n", b: "b\n" })
  const id = yield* create(person.key, { title: "Try it", repos: [{ fullName }] })
  const host = yield* SourceHost
  const headSha = repository.commit(headRef(id), changes)
  const pull = yield* host.openDraftPullRequest(fullName, {
    title: HOSTILE,
    body: `It *fixes* a. [Press](javascript:alert(1)) ${HOSTILE}`,
    baseRef: "main",
    headRef: headRef(id),
    headSha,
    at: DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
  })
  const published = {
    type: "pull_request.updated",
    data: { repo: fullName, action_state: "idle", number: 1, state: "open", draft: true, merged: false, head_sha: headSha }
  } as const
  yield* (yield* SandboxStore).change(id, "policy", () => Result.succeed([published]), yield* DateTime.now)
  const standing = Effect.map(host.pullRequestDetails(fullName, 1), ({ pullRequest: { merged, state } }) => ({ merged, state }))
  return { ...person, fullName, repository, id, pull, standing, address: `/local/${fullName}/pulls/1`, sha: headSha }
})

const told = ({ headers, status }: Reply) => [status, headers["location"]]
const OPEN = { state: "open", merged: false }

layer(served, { excludeTestServices: true })("the page of a pull request", (it) => {
  it.effect("asks git once while its branch is the same, and again for a new commit", () =>
    Effect.gen(function*() {
      const { address, fullName, get, id, repository } = yield* opened("asks")
      diffs = 0
      yield* Effect.all([get(address), get(address), get(`${address}?layout=split`)], { concurrency: "unbounded" })
      assert.include((yield* get(address)).text, `<tr class="removed"><td class="number">2</td>`)
      assert.strictEqual(diffs, 1)
      const headSha = repository.commit(headRef(id), { a: "one\n2\nthree\n" })
      yield* (yield* SourceHost).pullRequestPushed(fullName, 1, { headSha, at: DateTime.makeUnsafe(0) })
      assert.include((yield* get(address)).text, "three")
      assert.strictEqual(diffs, 2)
    }))

  it.effect("shows what it changes, with nothing of it taken for markup", () =>
    Effect.gen(function*() {
      const hostile = `${HOSTILE}.txt`
      const { address, fullName, get, id, sha } = yield* opened("shows", {
        a: "one\n2\n",
        [hostile]: `${HOSTILE}\n${"x".repeat(1_000_000)}\n`
      })
      const page = yield* get(address)
      assert.strictEqual(page.status, 200)
      for (const part of ["Draft", `<code>slipway/${id}</code> into <code>main</code>`, "2 files", `href="/sandboxes/${id}"`]) {
        assert.include(page.text, part)
      }
      assert.include(page.text, `<tr class="removed"><td class="number">2</td>`)
      assert.include(page.text, `<h1 title="`)
      assert.include(page.text, "<p>No checks. </p>")
      assert.include(page.text, `href="${address}/merge?sha=${sha}">Merge into main…</a>`)
      const back = new URLSearchParams({ repo: fullName, next: address }).toString().replaceAll("&", "&amp;")
      assert.include(page.text, `href="/sandboxes/${id}/send-back?${back}">Send back to the agent…</a>`)
      assert.match(page.text, /<h2 id="task-title">Task<\/h2>\s*<div class="task"><div class="markdown"><p>Say hello\.<\/p>/u)
      assert.include(page.text, "Diff too large.")
      assert.notMatch(page.text, /<script(?! type="module" src="\/assets\/)|\u202e/u)
      assert.notInclude(page.text, "\u001b")
      assert.isBelow(page.text.length, 100_000)
      assert.include(page.text, `href="${address}?after=0&amp;layout=split"`)
      const split = yield* get(`${address}?layout=split`)
      assert.match(split.text, /<tr><td class="number old removed">2<[^\n]*<td class="number now added">2</u)
      assert.include(split.text, `href="${address}?layout=split&amp;path=a"`)
      assert.include(split.text, `data-review="${address}"`)
      const alone = yield* get(`${address}?path=a`)
      assert.include(alone.text, `<tr class="removed"><td class="number">2</td>`)
      assert.notInclude(alone.text, "Diff too large")
    }))

  it.effect("has a button that ends the draft, and says when it had ended before", () =>
    Effect.gen(function*() {
      const { address, fullName, get, post } = yield* opened("ready")
      const button = `<form method="post" action="${address}/ready">`
      assert.include((yield* get(address)).text, button)
      assert.deepStrictEqual(told(yield* post(`${address}/ready`)), [303, `${address}?done=ready`])
      assert.deepInclude((yield* (yield* SourceHost).pullRequestDetails(fullName, 1)).pullRequest, { draft: false, state: "open" })
      const page = yield* get(`${address}?done=ready`)
      assert.include(page.text, "Marked as ready for review.")
      assert.notInclude(page.text, button)
      assert.deepStrictEqual(told(yield* post(`${address}/ready`)), [303, `${address}?done=ready`])
      yield* post(`${address}/close`)
      assert.deepStrictEqual(told(yield* post(`${address}/ready`)), [303, `${address}?done=before`])
      const other = yield* visitor("ready-other")
      assert.strictEqual((yield* other.post(`${address}/ready`)).status, 404)
    }))

  it.effect("lists its commits, and shows its description as Markdown, with nothing of either taken for markup", () =>
    Effect.gen(function*() {
      const { address, fullName, get, id, repository } = yield* opened("told")
      const note = { message: `${HOSTILE}\n\nMore`, author: { name: HOSTILE, email: "" }, seconds: 8_640_000_000 }
      const push = Effect.fnUntraced(function*(message: string) {
        const headSha = repository.commit(headRef(id), { a: message }, { ...note, message })
        yield* (yield* SourceHost).pullRequestPushed(fullName, 1, { headSha, at: DateTime.makeUnsafe(0) })
        return headSha
      })
      const sha = yield* push(note.message)
      const { text } = yield* get(address)
      assert.include(text, `<summary>2 commits</summary>`)
      assert.include(text, `<code>${sha.slice(0, 7)}</code> ${SHOWN} <span class="fine">${SHOWN}, <time datetime="2243-10-17T`)
      assert.match(
        text,
        /<h2 id="description-title">Description<\/h2>\s*<div class="task"><div class="markdown"><p>It <em>fixes<\/em> a\./u
      )
      assert.notMatch(text, /<script(?! type="module" src="\/assets\/)|\u202e|href="javascript:/u)
      for (let i = 0; i < 70; i++) yield* push(`c${i}`)
      const many = yield* get(address)
      assert.include(many.text, "<details><summary>72 commits</summary>")
      assert.include(many.text, "22 earlier commits hidden.")
      assert.include(many.text, `<ol class="commits" start="23">`)
      assert.include(many.text, "</code> c69 ")
      assert.isBelow(many.text.length, 100_000)
    }))

  it.effect("is only for people of the grant whose sandbox opened it, and so are its forms", () =>
    Effect.gen(function*() {
      const { address, get, sha, standing } = yield* opened("owner")
      const other = yield* visitor("other")
      const refused = [
        yield* other.get(address),
        yield* other.post(`${address}/merge`, { sha }),
        yield* other.post(`${address}/close`),
        yield* get(`${address}0`),
        yield* get("/local/acme/shop/pulls/x"),
        yield* get(address.replace("/1", "/01")),
        yield* get("/local/a%20b/shop/pulls/3"),
        yield* get("/local/acme/other/pulls/3")
      ]
      assert.deepStrictEqual(refused.map(({ status }) => status), refused.map(() => 404))
      assert.deepStrictEqual(told(yield* ask(address)), [303, `/sign-in?next=${encodeURIComponent(address)}`])
      assert.deepStrictEqual(yield* standing, OPEN)
    }))

  it.effect("takes no form of another site, of another session or of another grant", () =>
    Effect.gen(function*() {
      const { address, post, sha, standing } = yield* opened("proven")
      const { grantId } = yield* visitor("another-grant")
      for (const doing of ["merge", "close"]) {
        const form = (fields: Fields, headers = {}) => post(`${address}/${doing}`, fields, headers)
        assert.strictEqual((yield* form({ sha, csrf: "x".repeat(43) })).status, 403)
        assert.strictEqual((yield* form({ sha }, { "sec-fetch-site": "cross-site" })).status, 403)
        assert.strictEqual((yield* form({ sha }, { origin: "https://evil.test" })).status, 403)
        assert.strictEqual((yield* form({ sha, place: grantId })).status, 409)
      }
      assert.deepStrictEqual(yield* standing, OPEN)
    }))

  it.effect("merges once, tells the sandbox, and says of the second time that nothing was done", () =>
    Effect.gen(function*() {
      const { address, fullName, get, grantId, id, post, sha, standing } = yield* opened("merges")
      assert.deepStrictEqual(told(yield* post(`${address}/merge`, { sha })), [303, `${address}?done=merged`])
      assert.deepStrictEqual(yield* standing, { state: "closed", merged: true })
      const { publications } = yield* (yield* SandboxStore).find({ grantId, id })
      assert.deepInclude(publications[0], { repo: fullName, merged: true, state: "closed" })
      assert.deepStrictEqual(told(yield* post(`${address}/merge`, { sha })), [303, `${address}?done=again`])
      const page = yield* get(`${address}?done=merged`)
      assert.include(page.text, "Merged.")
      assert.include(page.text, `class="removed"`)
      assert.notInclude(page.text, "Merge into main")
      const closing = yield* post(`${address}/close`)
      assert.strictEqual(closing.status, 409)
      assert.include(closing.text, "Closing does not undo that.")
    }))

  it.effect("asks before it merges, and only what the person looked at", () =>
    Effect.gen(function*() {
      const { address, get, post, sha, standing } = yield* opened("asks")
      const asked = yield* get(`${address}/merge?sha=${sha}`)
      assert.strictEqual(asked.status, 200)
      assert.include(asked.text, "Merge this pull request?")
      assert.include(asked.text, `<input type="hidden" name="sha" value="${sha}">`)
      assert.notMatch(asked.text, /<script(?! type="module" src="\/assets\/)|\u202e/u)
      assert.strictEqual((yield* get(`${address}/merge`)).status, 400)
      assert.strictEqual((yield* (yield* visitor("asks-not")).get(`${address}/merge?sha=${sha}`)).status, 404)
      assert.deepStrictEqual(yield* standing, OPEN)
      const outdated = yield* get(`${address}/merge?sha=${"0".repeat(40)}`)
      assert.strictEqual(outdated.status, 409)
      assert.include(outdated.text, "New commits were pushed since you looked.")
      yield* post(`${address}/close`)
      assert.deepStrictEqual(told(yield* get(`${address}/merge?sha=${sha}`)), [303, `${address}?done=before`])
    }))

  it.effect("closes once, and merges nothing that is closed", () =>
    Effect.gen(function*() {
      const { address, post, sha, standing } = yield* opened("closes")
      assert.deepStrictEqual(told(yield* post(`${address}/close`)), [303, `${address}?done=closed`])
      assert.deepStrictEqual(told(yield* post(`${address}/close`)), [303, `${address}?done=before`])
      const merging = yield* post(`${address}/merge`, { sha })
      assert.strictEqual(merging.status, 409)
      assert.include(merging.text, "This pull request was closed without merging.")
      assert.deepStrictEqual(yield* standing, { state: "closed", merged: false })
    }))

  it.effect("says of a conflict what to do, and merges only what the person looked at", () =>
    Effect.gen(function*() {
      const { address, id, post, repository, sha, standing } = yield* opened("conflicts")
      assert.strictEqual((yield* post(`${address}/merge`)).status, 400)
      assert.strictEqual((yield* post(`${address}/merge`, { sha: "main" })).status, 400)
      const outdated = yield* post(`${address}/merge`, { sha: "0".repeat(40) })
      assert.strictEqual(outdated.status, 409)
      assert.include(outdated.text, "New commits were pushed since you looked.")
      repository.commit("main", { a: "one\nzwei\n" })
      const conflict = yield* post(`${address}/merge`, { sha })
      assert.strictEqual(conflict.status, 409)
      assert.include(conflict.text, "It conflicts with main.")
      assert.include(conflict.text, `git merge --no-ff origin/slipway/${id}`)
      assert.deepStrictEqual(yield* standing, OPEN)
    }))
})

/** How the host says that checks and comments are. */
let said: Partial<PullRequestDetails> = {}
const talking = Layer.unwrap(Effect.gen(function*() {
  const host = yield* SourceHost
  const pullRequestDetails = (...asked: Parameters<typeof host.pullRequestDetails>) =>
    Effect.map(host.pullRequestDetails(...asked), (details) => ({ ...details, ...said }))
  return http({ host: { ...host, pullRequestDetails }, pulls: yield* PullRequests })
})).pipe(Layer.provideMerge(SourceHostMemory.layer), Layer.provideMerge(MemoryRepositories.layer))

layer(talking, { excludeTestServices: true })("beside what is reviewed", (it) => {
  it.effect("the page says in a sentence how its checks stand, and what people say of it, as text", () =>
    Effect.gen(function*() {
      const { address, get, post, sha } = yield* opened("stands")
      const url = "https://host.test/1"
      const comment = { id: 1, title: "", author: HOSTILE, authorAvatarUrl: "", createdAt: "", updatedAt: "", url, path: null, line: null }
      const box = Effect.map(get(address), ({ text }) => /<aside class="panel merge-box"[^]*?<\/aside>/u.exec(text)?.[0] ?? "")
      const sentences = {
        success: "All checks passed.",
        failure: "Some checks failed.",
        pending: "Checks are running.",
        error: "The checks could not be loaded."
      } as const
      for (const [state, sentence] of Object.entries(sentences)) {
        said = { checks: { ...noChecks, state: state as keyof typeof sentences } }
        assert.include(yield* box, sentence)
        const asked = yield* get(`${address}/merge?sha=${sha}`)
        assert.strictEqual(asked.text.includes(`<p class="warning">${sentence}`), state !== "success", state)
      }
      const checkRuns = [{ id: 1, name: HOSTILE, url: "javascript:alert(1)", status: "completed", conclusion: "failure" }]
      said = {
        checks: { ...noChecks, state: "failure", checkRuns },
        comments: [{ ...comment, text: `**Why?** ${HOSTILE}`, isWhole: true }]
      }
      const { text } = yield* get(address)
      assert.include(text, "<strong>Why?</strong>")
      assert.include(text, ": failure</li>")
      assert.notMatch(text, /<script(?! type="module" src="\/assets\/)|\u202e|href="javascript:/u)
      yield* post(`${address}/merge`, { sha })
      said = {}
      assert.include(yield* box, "Merged into main.")
      assert.notInclude(yield* box, "<form")
    }))
})

const down = () =>
  Effect.fail(new SourceHostError({ operation: "read", detail: "The database is not available just now.", retryable: true }))
const never = {
  content: () => Effect.never,
  diff: () => Effect.never,
  review: () => Effect.never,
  merge: () => Effect.never,
  close: () => Effect.never
}

layer(http({ host: { pullRequestDetails: down }, pulls: never }), { excludeTestServices: true })("where the host does not answer", (it) => {
  it.effect("the page says so", () =>
    Effect.gen(function*() {
      const { get } = yield* visitor("waits")
      assert.strictEqual((yield* get("/local/acme/shop/pulls/4")).status, 502)
    }))
})

layer(http(), { excludeTestServices: true })("where pull requests have pages of their own", (it) => {
  it.effect("there is no such page", () =>
    Effect.gen(function*() {
      const { get } = yield* visitor("elsewhere")
      assert.strictEqual((yield* get("/local/acme/shop/pulls/3")).status, 404)
    }))
})
