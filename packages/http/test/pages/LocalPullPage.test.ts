/** The page of a pull request of a repository on this machine. */
import { assert, layer } from "@effect/vitest"
import { Sessions } from "@slipway/domain/access/Sessions"
import { headRef, noChecks } from "@slipway/domain/source/PullRequest"
import { RepoNotAccessible, type SourceHost, SourceHostError } from "@slipway/domain/source/SourceHost"
import { DateTime, Effect, Redacted } from "effect"
import { ask, COOKIE, create, joined, layer as http, mintKey } from "../../testing/Harness.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")

/** Of which sandbox number 3 is. */
let sandbox = ""
const local: Partial<SourceHost["Service"]> = {
  name: "local",
  pullRequestDetails: (repo, number) =>
    repo !== "acme/shop"
      ? Effect.fail(new RepoNotAccessible({ repo }))
      : number === 4
      ? Effect.fail(new SourceHostError({ operation: "read", detail: "The database is not available just now.", retryable: true }))
      : number !== 3
      ? Effect.fail(new SourceHostError({ operation: "find it", detail: "There is no such pull request.", retryable: false }))
      : Effect.succeed({
        pullRequest: {
          id: 9,
          nodeId: "PR_9",
          number,
          url: "https://slipway.test/local/acme/shop/pulls/3",
          title: "<b>Say hello</b>",
          state: "open",
          draft: true,
          merged: false,
          baseRef: "main",
          headRef: headRef(sandbox),
          headSha: "0".repeat(40),
          createdAt: at,
          updatedAt: at,
          additions: 12,
          deletions: 3,
          changedFiles: 2
        },
        checks: noChecks,
        comments: [],
        pending: false
      })
}

const visitor = Effect.fnUntraced(function*(grant: string) {
  const sessions = yield* Sessions
  const { grant: { id }, key } = yield* mintKey({ grant })
  const { session, token } = yield* sessions.signIn(yield* joined(`person-of-${grant}`), null)
  yield* sessions.chooseGrant(session, id)
  return { key, get: (path: string) => ask(path, { headers: { cookie: `${COOKIE}=${Redacted.value(token)}` } }) }
})

layer(http({ host: local }), { excludeTestServices: true })("the page of a local pull request", (it) => {
  it.effect("is there for people of the grant whose sandbox opened it, and for nobody else", () =>
    Effect.gen(function*() {
      const owner = yield* visitor("owner")
      const other = yield* visitor("other")
      sandbox = yield* create(owner.key, { title: "Try it" })
      const page = yield* owner.get("/local/acme/shop/pulls/3")
      assert.strictEqual(page.status, 200)
      for (
        const part of ["&lt;b&gt;Say hello&lt;/b&gt;", "Draft", `<code>slipway/${sandbox}</code> into <code>main</code>`, "2 files", "+12",
          "−3", `href="/sandboxes/${sandbox}"`]
      ) {
        assert.include(page.text, part)
      }
      assert.strictEqual((yield* other.get("/local/acme/shop/pulls/3")).status, 404)
      assert.strictEqual((yield* ask("/local/acme/shop/pulls/3")).status, 303)
    }))

  it.effect("says what is not there, and what cannot be told now", () =>
    Effect.gen(function*() {
      const { get } = yield* visitor("lost")
      for (
        const path of ["acme/shop/pulls/5", "acme/other/pulls/3", "acme/shop/pulls/x", "acme/shop/pulls/03", "a%20b/shop/pulls/3",
          "../shop/pulls/3"]
      ) {
        assert.strictEqual((yield* get(`/local/${path}`)).status, 404, path)
      }
      assert.strictEqual((yield* get("/local/acme/shop/pulls/4")).status, 502)
    }))
})

layer(http(), { excludeTestServices: true })("where pull requests are elsewhere", (it) => {
  it.effect("there is no such page", () =>
    Effect.gen(function*() {
      const { get } = yield* visitor("elsewhere")
      assert.strictEqual((yield* get("/local/acme/shop/pulls/3")).status, 404)
    }))
})
