import { assert, it } from "@effect/vitest"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { DateTime, Effect, Layer } from "effect"
import { said } from "../src/GitLabApi.ts"
import { draftTitle, plainTitle } from "../src/Text.ts"
import type * as GitLabServer from "../testing/GitLabServer.ts"
import { ADA, BOB, failureOf, hostOf, layer, project, TestGitLab } from "./TestGitLab.ts"

const pushed = Effect.gen(function*() {
  const server = yield* TestGitLab
  const host = yield* SourceHost
  const { fullName: repo, project: there } = yield* project({ v: "0\n" })
  const headSha = yield* Effect.promise(() => there.commit("slipway/x", { v: "1\n" }))
  const draft = { title: "T", body: "", baseRef: "trunk", headRef: "slipway/x", headSha, at: DateTime.makeUnsafe(0) }
  return { server, host, repo, there, draft }
})

it("reads each form of GitLab's errors", () => {
  assert.strictEqual(said({ message: "404 Project Not Found" }), "404 Project Not Found")
  assert.strictEqual(said({ message: ["one", "two"] }), "one, two")
  assert.strictEqual(said({ message: { title: ["is too long"], base: ["no"] } }), "title is too long, no")
  assert.strictEqual(said({ error: "insufficient_scope", error_description: "More is needed." }), "insufficient_scope: More is needed.")
  assert.strictEqual(said({ error: "404 Not Found" }), "404 Not Found")
  for (const none of [undefined, null, 1, {}, "<html>"]) assert.strictEqual(said(none), "")
})

it("marks and unmarks titles of drafts", () => {
  for (const title of ["Draft: T", "[draft] T", "(Draft)T", "DRAFT:  T", "Draft: draft: T"]) assert.strictEqual(plainTitle(title), "T")
  for (const title of ["Drafty", "T Draft:", "Draft:"]) assert.strictEqual(plainTitle(title), title)
  assert.strictEqual(draftTitle("T"), "Draft: T")
  assert.strictEqual(draftTitle(`${"x".repeat(247)}🦜`), `Draft: ${"x".repeat(247)}`)
})

it.layer(layer())("GitLab's refusals", (it) => {
  it.effect("carries out no quick action of a description", () =>
    Effect.gen(function*() {
      const { draft, host, repo, there } = yield* pushed
      yield* host.openDraftPullRequest(repo, { ...draft, body: "/merge\nSee /approve\n  /assign @ada" })
      assert.deepStrictEqual(there.quickActions, [])
      assert.strictEqual(there.mergeRequests[0]?.description, "\\/merge\nSee /approve\n  \\/assign @ada")
    }))

  it.effect("finds no merge request of a fork whose branch has the same name", () =>
    Effect.gen(function*() {
      const { draft, host, repo, there } = yield* pushed
      const fork = { author: ADA, description: "", sourceBranch: draft.headRef, sourceProject: 1, targetBranch: "trunk", title: "T" }
      yield* Effect.promise(() => there.open(fork))
      assert.isNull(yield* host.findOpenPullRequest(repo, draft.headRef))
    }))

  it.effect("a second merge request for a branch is explained with the address of the first", () =>
    Effect.gen(function*() {
      const { draft, host, repo } = yield* pushed
      const { url } = yield* host.openDraftPullRequest(repo, draft)
      const error = yield* failureOf(host.openDraftPullRequest(repo, draft))
      assert.deepInclude(error, {
        _tag: "SourceHostError",
        detail: `There is an open merge request for the branch "slipway/x" already: ${url}.`,
        retryable: false
      })
    }))

  it.effect("opens none between branches that are not there, which GitLab would do", () =>
    Effect.gen(function*() {
      const { draft, host, repo, there } = yield* pushed
      const error = yield* failureOf(host.openDraftPullRequest(repo, { ...draft, baseRef: "missing" }))
      assert.deepInclude(error, { _tag: "SourceHostError", detail: `${repo} has no branch "missing".`, retryable: false })
      assert.lengthOf(there.mergeRequests, 0)
    }))

  it.effect("a refused token is no missing repository, and is not tried again", () =>
    Effect.gen(function*() {
      const { repo, server } = yield* pushed
      const error = yield* SourceHost.use((host) => failureOf(host.repository(repo))).pipe(
        Effect.provide(hostOf({ ...server, secret: "glpat-0123456789abcdef" }))
      )
      assert.deepInclude(error, { _tag: "SourceHostError", retryable: false })
      assert.match(error.message, /does not accept the token/u)
      assert.notInclude(error.message, "0123456789abcdef")
    }))

  it.effect("a token without the scope says so in GitLab's words", () =>
    Effect.gen(function*() {
      const { draft, repo, server } = yield* pushed
      const secret = server.token({ id: 2, username: "deploy" }, { scopes: ["read_api"] })
      const error = yield* SourceHost.use((host) => failureOf(host.openDraftPullRequest(repo, draft))).pipe(
        Effect.provide(hostOf({ ...server, secret }))
      )
      assert.include(error.message, "insufficient_scope: The request requires higher privileges")
      assert.deepInclude(error, { retryable: false })
    }))

  it.effect("hides the token that a text of GitLab has in it", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      const message = `no ${server.secret} and no glrt-abcdefghijklmnop`
      server.strike({ method: "GET", url: /projects/u, outcome: { status: 400, body: { message } } })
      const error = yield* failureOf(host.repository(repo))
      assert.match(error.message, /says: no \*{3} and no \*{3}$/u)
    }))

  it.effect("an outage is neither a missing repository nor a missing branch", () =>
    Effect.gen(function*() {
      const { draft, host, repo, server } = yield* pushed
      for (const outcome of ["reset", { status: 502, body: "bad gateway" }, { status: 200, body: "<html>" }] as const) {
        server.strike({ method: "GET", url: /\/projects\/[^/]+$/u, outcome })
        assert.deepInclude(yield* failureOf(host.repository(repo)), { _tag: "SourceHostError", retryable: true })
        server.strike({ method: "GET", url: /branches/u, outcome })
        assert.deepInclude(yield* failureOf(host.branch(repo, draft.headRef)), { _tag: "SourceHostError", retryable: true })
      }
    }))

  it.effect("a merge request whose answer was lost is found by its branch", () =>
    Effect.gen(function*() {
      const { draft, host, repo, server, there } = yield* pushed
      server.strike({ method: "POST", url: /merge_requests$/u, outcome: "reset", when: "after" })
      assert.deepInclude(yield* failureOf(host.openDraftPullRequest(repo, draft)), { _tag: "SourceHostError", retryable: true })
      assert.deepInclude(yield* host.findOpenPullRequest(repo, draft.headRef), { number: 1, draft: true, title: "T" })
      assert.lengthOf(there.mergeRequests, 1)
    }))

  it.effect("a person whose membership ended or is blocked may not write", () =>
    Effect.gen(function*() {
      const { host, repo, there } = yield* pushed
      const may = (more: object) => {
        there.members.set(ADA.id, { user: ADA, level: 30, state: "active", expiresAt: null, ...more })
        return host.mayWrite(repo, { id: "7", login: "ada" })
      }
      assert.isTrue(yield* may({}))
      assert.isTrue(yield* may({ expiresAt: "2999-01-01" }))
      assert.isFalse(yield* may({ expiresAt: "1969-12-31" }))
      assert.isFalse(yield* may({ state: "blocked" }))
      assert.isFalse(yield* may({ level: 20 }))
      assert.isFalse(yield* may({ user: { id: 7, username: "renamed" } }))
      assert.isFalse(yield* host.mayWrite(repo, { id: "../7", login: "ada" }))
    }))

  it.effect("makes no label, and takes no number for one", () =>
    Effect.gen(function*() {
      const { draft, host, repo, there } = yield* pushed
      const { number } = yield* host.openDraftPullRequest(repo, draft)
      assert.deepStrictEqual(yield* host.decoratePullRequest(repo, number, { labels: ["12"], reviewers: [] }), ["12"])
      assert.strictEqual(there.labels.size, 0)
    }))

  it.effect("keeps the labels and reviewers of other people, and says whom GitLab left out", () =>
    Effect.gen(function*() {
      const { draft, host, repo, there } = yield* pushed
      for (const user of [ADA, BOB]) there.members.set(user.id, { user, level: 30, state: "active", expiresAt: null })
      const { number } = yield* host.openDraftPullRequest(repo, draft)
      const [found] = there.mergeRequests
      assert(found !== undefined)
      found.labels.add("theirs")
      found.reviewers = [BOB]
      there.labels.add("ours")
      there.isPaid = false
      assert.deepStrictEqual(yield* host.decoratePullRequest(repo, number, { labels: ["ours"], reviewers: ["ada"] }), ["ada"])
      assert.deepStrictEqual([[...found.labels], found.reviewers], [["theirs", "ours"], [BOB]])
    }))
})

const slow: GitLabServer.Options = { unpreparedReads: 2 }

it.live("waits for GitLab to prepare a new merge request, so that its counts are right", () =>
  Effect.gen(function*() {
    const { draft, host, repo } = yield* pushed
    assert.deepInclude(yield* host.openDraftPullRequest(repo, draft), { additions: 1, deletions: 1, changedFiles: 1 })
  }).pipe(Effect.provide(layer(slow))))

it.live("details of a merge request that GitLab has not prepared are pending", () =>
  Effect.gen(function*() {
    const { draft, host, repo, there } = yield* pushed
    const { number } = yield* host.openDraftPullRequest(repo, draft)
    Object.assign(there.mergeRequests[0] ?? {}, { unpreparedReads: 1 })
    assert.isTrue((yield* host.pullRequestDetails(repo, number)).pending)
    assert.isFalse((yield* host.pullRequestDetails(repo, number)).pending)
  }).pipe(Effect.provide(layer())))

it.live("fails for an address that is not of the web", () =>
  Effect.gen(function*() {
    const server = yield* TestGitLab
    for (const url of ["gitlab.example.com", "file:///etc", ""]) {
      assert.strictEqual((yield* failureOf(Layer.build(hostOf(server, { url })).pipe(Effect.scoped)))._tag, "SourceHostError")
    }
  }).pipe(Effect.provide(TestGitLab.layer())))
