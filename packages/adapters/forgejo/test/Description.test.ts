/** The test server is held to the published descriptions of the APIs. These tests hold the check itself to them. */
import { assert, it } from "@effect/vitest"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { DateTime, Effect, Layer } from "effect"
import { readFileSync } from "node:fs"
import * as ForgejoApi from "../src/ForgejoApi.ts"
import * as PullRequestFeedbackForgejo from "../src/PullRequestFeedbackForgejo.ts"
import * as RepositoryNewsForgejo from "../src/RepositoryNewsForgejo.ts"
import * as Description from "../testing/Description.ts"
import { layer, optionsOf, repository, TestForgejo } from "./TestForgejo.ts"

const { operationOf, problems, source } = Description.load("forgejo")
const gitea = Description.load("gitea")

const call = (method: string, path: string, more: Partial<Description.Exchange> = {}): Description.Exchange => ({
  method,
  path: `/repos/acme/app${path}`,
  query: new URLSearchParams(),
  body: undefined,
  status: 200,
  answer: undefined,
  ...more
})
const query = (text: string) => ({ query: new URLSearchParams(text), answer: [] })
const isFine = (exchange: Description.Exchange) => problems(exchange).length === 0

it("knows the operations of the description by their paths", () => {
  assert.strictEqual(operationOf("GET", "/user"), "get /user")
  assert.strictEqual(operationOf("GET", "/repos/a/b/branches/slipway/x"), "get /repos/{owner}/{repo}/branches/{branch}")
  assert.strictEqual(operationOf("GET", "/repos/a/b/issues/1/comments"), "get /repos/{owner}/{repo}/issues/{index}/comments")
  for (const [method, path] of [["GET", "/users"], ["DELETE", "/user"], ["GET", "/repos/a/b/actions/jobs/1/logs"]] as const) {
    assert.isUndefined(operationOf(method, path))
  }
  assert.isDefined(gitea.operationOf("GET", "/repos/a/b/actions/jobs/1/logs"))
  assert.match(source, /^Forgejo, .* at commit [\da-f]{40}/u)
})

it("takes no unknown operation, parameter, type or word", () => {
  assert.isTrue(isFine(call("GET", "/pulls", query("state=open&limit=5&page=1&sort=oldest"))))
  for (const wrong of ["per_page=5", "limit=many", "state=merged", "limit="]) {
    assert.isFalse(isFine(call("GET", "/pulls", query(wrong))), wrong)
  }
  assert.isFalse(isFine(call("GET", "/pulls/seven", { answer: {} })))
  assert.isFalse(isFine(call("GET", "/check-runs", { answer: {} })))
  assert.isFalse(isFine(call("GET", "/pulls", { ...query(""), body: {} })))
})

it("takes no body with other fields, other types or without what is required", () => {
  const opened = (body: object) => call("POST", "/pulls", { status: 201, answer: {}, body })
  assert.isTrue(isFine(opened({ title: "t", head: "x", base: "y" })))
  for (const wrong of [{ draft: true }, { title: 5 }, { labels: ["x"] }]) assert.isFalse(isFine(opened(wrong)), JSON.stringify(wrong))
  const commented = (body: object | undefined) => call("POST", "/issues/1/comments", { status: 201, answer: {}, body })
  assert.isTrue(isFine(commented({ body: "x" })))
  assert.isFalse(isFine(commented({})))
  assert.isFalse(isFine(commented({ body: null })))
})

it("takes no answer with other fields, types or status", () => {
  const read = (answer: unknown, status = 200) => call("GET", "/pulls/1", { answer, status })
  assert.isTrue(isFine(read({ id: 1, title: "t", closed_at: null })))
  assert.isTrue(isFine(read({ message: "no" }, 404)))
  for (const wrong of [{ node_id: "x" }, { id: "1" }, [], { user: { login: 5 } }]) {
    assert.isFalse(isFine(read(wrong)), JSON.stringify(wrong))
  }
  assert.isFalse(isFine(read({}, 201)))
})

it("the file names its sources and their licences", () => {
  const file = JSON.parse(readFileSync(new URL("../testing/api.json", import.meta.url), "utf8")) as Record<
    string,
    { licence: string; source: string }
  >
  for (const flavour of ["forgejo", "gitea"]) {
    assert.match(file[flavour]?.licence ?? "", /^MIT/u)
    assert.match(file[flavour]?.source ?? "", /swagger/u)
  }
})

/** Uses each operation of the adapter. */
const life = Effect.gen(function*() {
  const server = yield* TestForgejo
  const options = optionsOf(server)
  const { fullName: repo, repository: there } = yield* repository({ a: "a\n" })
  const headSha = yield* Effect.promise(() => there.commit("slipway/x", { x: "x\n" }))
  const at = DateTime.makeUnsafe(0)
  yield* Effect.gen(function*() {
    const host = yield* SourceHost
    const feedback = yield* PullRequestFeedback
    const news = yield* RepositoryNews
    yield* host.repositories({ owners: ["acme"], search: "", after: null, limit: 10 })
    yield* host.branch(repo, "slipway/x")
    yield* host.mayWrite(repo, { id: String(server.bot.id), login: server.bot.login })
    const { number } = yield* host.openDraftPullRequest(repo, { title: "T", body: "", baseRef: "trunk", headRef: "slipway/x", headSha, at })
    yield* host.findOpenPullRequest(repo, "slipway/x")
    yield* host.decoratePullRequest(repo, number, { labels: ["shared", "unknown"], reviewers: ["unknown"] })
    yield* host.readyPullRequest(repo, number)
    there.review(number, { id: 11, login: "maria" }, "Text", [{ path: "x", line: 1, text: "here" }])
    there.run(headSha, { status: "failure", log: "no" })
    yield* feedback.read(repo, number, { since: at, checks: true, knownChecks: new Set() })
    for (const text of ["one", "two"]) yield* feedback.reply(repo, number, "key", text)
    let cursor: string | null = null
    for (let times = 0; times < 6; times++) {
      const polled: { readonly cursor: string } = yield* news.poll(repo, { cursor, since: at })
      cursor = polled.cursor
    }
    yield* ForgejoApi.account(options)
  }).pipe(Effect.provide(Layer.merge(PullRequestFeedbackForgejo.layer(options), RepositoryNewsForgejo.layer(options))))
  return server.asked
})

for (const flavour of ["forgejo", "gitea"] as const) {
  it.effect(`the file has the operations that the adapter uses at ${flavour}, and no others`, () =>
    Effect.gen(function*() {
      const asked = yield* Effect.provide(life, layer({ flavour }))
      assert.deepStrictEqual([...asked].sort(), [...Description.load(flavour).operations].sort())
    }))
}
