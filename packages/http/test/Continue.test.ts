/** Sandboxes that continue a branch or a pull request, and syncs, as HTTP sees them (docs/decisions/24). */
import { assert, layer } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { continuedBranch } from "@slipway/domain/sandbox/rules/Sandbox"
import { RepoNotAccessible, type SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { BranchRule, MAX_BRANCH_RULES } from "@slipway/domain/source/schema/BranchRules"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { BranchState, PullRequestSource } from "@slipway/domain/source/schema/WritableBranch"
import { DateTime, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { checkpointed } from "../testing/Checkpointed.ts"
import { ask, create, creation, drive, json, layer as http, mintKey, postJson, refused, running, SANDBOXES } from "../testing/Harness.ts"

const [HEAD, NEWER] = ["a".repeat(40), "b".repeat(40)]
const at = DateTime.makeUnsafe("2026-11-22T00:00:00.000Z")

const pull = (number: number, headRef: string, more: Partial<PullRequest> = {}): PullRequest => ({
  id: number,
  nodeId: `PR_${number}`,
  number,
  url: `https://host.test/acme/shop/pull/${number}`,
  title: "Theirs",
  state: "open",
  draft: false,
  merged: false,
  baseRef: "main",
  headRef,
  headSha: HEAD,
  createdAt: at,
  updatedAt: at,
  additions: 1,
  deletions: 0,
  changedFiles: 1,
  ...more
})

const SHOP = "acme/shop" as RepoName
const within = (pullRequest: PullRequest, headRepo: string | null = SHOP): PullRequestSource => ({
  pullRequest,
  headRepo: headRepo as RepoName | null
})

/** The branches of the source host: `main` is its default branch. */
const pulls = new Map<number, PullRequestSource>()
const branches = new Map<string, BranchState>()
let readings = 0
let fails: RepoNotAccessible | SourceHostError | "silent" | null = null

const answer = <A>(value: () => A): Effect.Effect<A, RepoNotAccessible | SourceHostError> =>
  Effect.suspend(() => {
    readings++
    return fails === null ? Effect.succeed(value()) : fails === "silent" ? Effect.never : Effect.fail(fails)
  })
const host: Partial<SourceHost["Service"]> = {
  repository: () => answer(() => ({ fullName: SHOP, defaultBranch: "main" })),
  branch: (_repo, name) => answer(() => branches.get(name) ?? null),
  pullRequestSource: (_repo, number) => answer(() => pulls.get(number) ?? null),
  findOpenPullRequest: (_repo, headRef) =>
    answer(() => Array.from(pulls.values(), ({ pullRequest }) => pullRequest).find((one) => one.headRef === headRef) ?? null)
}

/** The host's state before each test: an open pull request 7 of a branch, and a branch without one. */
const reset = Effect.sync(() => {
  pulls.clear()
  branches.clear()
  fails = null
  readings = 0
  pulls.set(7, within(pull(7, "slipway/theirs")))
  branches.set("slipway/theirs", { headSha: HEAD, isProtected: false })
  branches.set("slipway/alone", { headSha: NEWER, isProtected: false })
  branches.set("main", { headSha: HEAD, isProtected: true })
})

const count = Effect.fnUntraced(function*(key: string) {
  return json(yield* ask(SANDBOXES, { key })).data.length as number
})

layer(http({ host }), { excludeTestServices: true })("a creation that continues", (it) => {
  const given = Effect.gen(function*() {
    yield* reset
    const { grant, key } = yield* mintKey({ grant: crypto.randomUUID() })
    const begin = (asked: object, more: object = {}, headers: Record<string, string> = {}) =>
      postJson(SANDBOXES, key, { ...creation, ...more, continue: asked }, headers)
    const stored = Effect.fnUntraced(function*(id: string) {
      return yield* (yield* SandboxStore).find({ grantId: grant.id, id: id as never })
    })
    return { begin, grant, key, stored }
  })
  /** Nothing was created, and the message says why. */
  const notWritable = (reply: { readonly text: string } & Parameters<typeof refused>[0], reason: RegExp) => {
    refused(reply, 409, "pull_request_not_writable")
    assert.match(json(reply).error.message, reason)
  }

  it.effect("a pull request starts at its branch and has it from the first events on", () =>
    Effect.gen(function*() {
      const { begin, key, stored } = yield* given
      const reply = yield* begin({ pullRequest: 7 })
      assert.strictEqual(reply.status, 201, reply.text)
      const { id, repos } = json(reply)
      assert.deepStrictEqual(repos, [{ fullName: SHOP, ref: "slipway/theirs" }])
      const { data } = json(yield* ask(`${SANDBOXES}/${id}/events`, { key }))
      assert.deepStrictEqual(data.map(({ type }: { type: string }) => type).slice(0, 3), [
        "sandbox.status",
        "sandbox.continued",
        "pull_request.updated"
      ])
      assert.deepStrictEqual(data[1].data, { repo: SHOP, branch: "slipway/theirs", pull_request: 7 })
      assert.deepInclude(data[2].data, { repo: SHOP, number: 7, head_ref: "slipway/theirs", action_state: "idle" })
      const sandbox = yield* stored(id)
      assert.deepInclude(continuedBranch(sandbox, SHOP), { branch: "slipway/theirs", headSha: HEAD, pullRequest: 7 })
    }))

  it.effect("a branch finds its open pull request, and needs none", () =>
    Effect.gen(function*() {
      const { begin, key } = yield* given
      const told = Effect.fnUntraced(function*(branch: string) {
        const { id } = json(yield* begin({ repo: "ACME/Shop", branch }))
        const { data: [, continued, ...rest] } = json(yield* ask(`${SANDBOXES}/${id}/events`, { key }))
        return [continued.data, ...rest.map(({ type }: { type: string }) => type)]
      })
      assert.deepStrictEqual(yield* told("slipway/theirs"), [
        { repo: SHOP, branch: "slipway/theirs", pull_request: 7 },
        "pull_request.updated"
      ])
      assert.deepStrictEqual(yield* told("slipway/alone"), [{ repo: SHOP, branch: "slipway/alone" }])
    }))

  it.effect("is refused with the reason, and makes nothing", () =>
    Effect.gen(function*() {
      const { begin, key } = yield* given
      pulls.set(1, within(pull(1, "slipway/theirs", { state: "closed" })))
      pulls.set(2, within(pull(2, "slipway/theirs", { state: "closed", merged: true })))
      pulls.set(3, within(pull(3, "slipway/theirs"), "stranger/shop"))
      pulls.set(4, within(pull(4, "slipway/theirs"), null))
      pulls.set(5, within(pull(5, "feature/theirs")))
      pulls.set(6, within(pull(6, "slipway/gone")))
      branches.set("feature/theirs", { headSha: HEAD, isProtected: false })
      branches.set("slipway/kept", { headSha: HEAD, isProtected: true })
      const rows: ReadonlyArray<readonly [object, RegExp]> = [
        [{ pullRequest: 1 }, /#1 of acme\/shop is closed/u],
        [{ pullRequest: 2 }, /#2 of acme\/shop is merged/u],
        [{ pullRequest: 3 }, /#3 of acme\/shop comes from another repository, a fork/u],
        [{ pullRequest: 4 }, /#4 of acme\/shop comes from another repository/u],
        [{ pullRequest: 5 }, /grant may not push to feature\/theirs/u],
        [{ pullRequest: 6 }, /has no branch slipway\/gone/u],
        [{ pullRequest: 8 }, /has no pull request #8/u],
        [{ branch: "main" }, /main is the default branch/u],
        [{ branch: "feature/theirs" }, /grant may not push to feature\/theirs/u],
        [{ branch: "slipway/kept" }, /slipway\/kept is a protected branch/u],
        [{ branch: "slipway/gone" }, /has no branch slipway\/gone/u]
      ]
      for (const [asked, reason] of rows) notWritable(yield* begin(asked), reason)
      assert.strictEqual(yield* count(key), 0)
    }))

  it.effect("may push where its grant's rules say so, but never to the default branch or a protected one", () =>
    Effect.gen(function*() {
      const { begin, grant } = yield* given
      branches.set("feature/a", { headSha: HEAD, isProtected: false })
      branches.set("feature/kept", { headSha: HEAD, isProtected: true })
      const access = yield* Access
      yield* access.setBranches(grant.id, [BranchRule.make("*")])
      assert.strictEqual((yield* begin({ branch: "feature/a" })).status, 201)
      notWritable(yield* begin({ branch: "feature/kept" }), /protected/u)
      notWritable(yield* begin({ branch: "main" }), /default branch/u)
      yield* access.setBranches(grant.id, [])
      notWritable(yield* begin({ branch: "slipway/theirs" }), /grant may not push/u)
      const most = Array.from({ length: MAX_BRANCH_RULES }, (_, i) => BranchRule.make(i === 0 ? "feature/*" : `b${i}`))
      yield* access.setBranches(grant.id, most)
      assert.strictEqual((yield* begin({ branch: "feature/a" })).status, 201)
    }))

  it.effect("takes exactly one of pullRequest and branch, of one of its repositories without a ref", () =>
    Effect.gen(function*() {
      const { begin, key } = yield* given
      const bad: ReadonlyArray<readonly [object | null, object?]> = [
        [null],
        [{}],
        [{ repo: SHOP }],
        [{ pullRequest: 7, branch: "slipway/theirs" }],
        [{ pullRequest: 0 }],
        [{ pullRequest: -1 }],
        [{ pullRequest: 1.5 }],
        [{ pullRequest: "7" }],
        [{ pullRequest: 2 ** 53 }],
        [{ branch: "" }],
        [{ branch: "-x" }],
        [{ branch: "a..b" }],
        [{ branch: HEAD }],
        [{ branch: "x".repeat(256) }],
        [{ branch: null }],
        [{ pullRequest: 7, force: true }],
        [{ pullRequest: 7, repo: "acme/docs" }],
        [{ pullRequest: 7, repo: "shop" }],
        [{ pullRequest: 7 }, { repos: [{ fullName: SHOP }, { fullName: "acme/docs" }] }],
        [{ pullRequest: 7 }, { repos: [{ fullName: SHOP, ref: "main" }] }]
      ]
      for (const [asked, more] of bad) {
        const reply = yield* postJson(SANDBOXES, key, { ...creation, ...more, continue: asked })
        refused(reply, 400, "invalid_request")
      }
      assert.strictEqual(readings, 0)
      const two = { repos: [{ fullName: "acme/docs" }, { fullName: SHOP }] }
      assert.strictEqual((yield* begin({ pullRequest: 7, repo: SHOP }, two)).status, 201)
      assert.strictEqual(yield* count(key), 1)
    }))

  it.effect("is answered again under its key without the source host, also after the pull request was closed", () =>
    Effect.gen(function*() {
      const { begin, key } = yield* given
      const headers = { "idempotency-key": "continue-1" }
      const first = yield* begin({ pullRequest: 7 }, {}, headers)
      pulls.set(7, within(pull(7, "slipway/theirs", { state: "closed" })))
      readings = 0
      const again = yield* begin({ pullRequest: 7 }, {}, headers)
      assert.deepStrictEqual([first.status, again.status, json(again).id], [201, 200, json(first).id])
      refused(yield* begin({ branch: "slipway/theirs" }, {}, headers), 409, "idempotency_conflict")
      assert.strictEqual(readings, 0)
      // A refused attempt uses up no key.
      const other = { "idempotency-key": "continue-2" }
      notWritable(yield* begin({ pullRequest: 7 }, {}, other), /closed/u)
      pulls.set(7, within(pull(7, "slipway/theirs")))
      assert.strictEqual((yield* begin({ pullRequest: 7 }, {}, other)).status, 201)
      assert.strictEqual(yield* count(key), 2)
    }))

  it.effect("is 503 with a time to wait while the source host cannot be read, and hides what it hides", () =>
    Effect.gen(function*() {
      const { begin, key } = yield* given
      fails = new SourceHostError({ operation: "read the pull request", detail: "The host is down.", retryable: true, retryAfter: 17 })
      const down = yield* begin({ pullRequest: 7 })
      refused(down, 503, "unavailable")
      assert.strictEqual(down.headers["retry-after"], "17")
      fails = new RepoNotAccessible({ repo: SHOP, advice: "The App is not installed there." })
      const hidden = yield* begin({ pullRequest: 7 })
      refused(hidden, 403, "repo_not_accessible")
      assert.notInclude(hidden.text, "installed")
      assert.strictEqual(yield* count(key), 0)
    }))

  it.effect("forks publish to a branch of their own", () =>
    Effect.gen(function*() {
      const { key, stored } = yield* given
      const { id } = yield* checkpointed(key, 1, { continue: { pullRequest: 7 } })
      assert.isNotNull((yield* stored(id)).continues)
      const fork = yield* postJson(`${SANDBOXES}/${id}/fork`, key, { prompt: "Try it otherwise." })
      assert.strictEqual(fork.status, 201, fork.text)
      assert.isNull((yield* stored(json(fork).id)).continues)
    }))
})

layer(http({ host }))("a source host that does not answer", (it) => {
  it.effect("is waited for for 10 seconds", () =>
    Effect.gen(function*() {
      yield* reset
      const { key } = yield* mintKey()
      fails = "silent"
      const reply = yield* Effect.forkChild(postJson(SANDBOXES, key, { ...creation, continue: { pullRequest: 7 } }))
      yield* Effect.promise(async () => {
        while (readings === 0) await new Promise((turn) => setImmediate(turn))
      })
      yield* TestClock.adjust("10 seconds")
      refused(yield* Fiber.join(reply), 503, "unavailable")
      assert.strictEqual(yield* count(key), 0)
    }))
})

layer(http({ host }), { excludeTestServices: true })("a sync", (it) => {
  const sync = (key: string, id: string) => ask(`${SANDBOXES}/${id}/sync`, { key, method: "POST" })
  const eventsOf = (key: string, id: string) => Effect.map(ask(`${SANDBOXES}/${id}/events`, { key }), (reply) => json(reply).data)

  it.effect("between turns is one command for all who ask for it meanwhile, and the log tells what came of it", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key)
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      const replies = yield* Effect.all(Array.from({ length: 5 }, () => sync(key, id)), { concurrency: "unbounded" })
      assert.deepStrictEqual(replies.map(({ status }) => status), [200, 200, 200, 200, 200])
      assert.deepStrictEqual(replies.map((reply) => json(reply).outcome).toSorted(), [
        "applied",
        ...Array.from({ length: 4 }, () => "duplicate")
      ])
      const branches = [{ repo: SHOP, branch: "main", sha: HEAD }]
      yield* drive(id, [{ _tag: "RecordSync", data: { branches } }])
      const told = (yield* eventsOf(key, id)).filter(({ type }: { type: string }) => /^sandbox\.sync/u.test(type))
      assert.deepStrictEqual(told.map(({ data, type }: { type: string; data: object }) => [type, data]), [
        ["sandbox.syncing", { repos: [SHOP] }],
        ["sandbox.synced", { branches }]
      ])
      assert.deepInclude(json(yield* sync(key, id)), { outcome: "applied" })
    }))

  it.effect("during a turn is 409 turn_active, and changes nothing", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      refused(yield* sync(key, id), 409, "turn_active")
      assert.isFalse((yield* eventsOf(key, id)).some(({ type }: { type: string }) => type === "sandbox.syncing"))
    }))

  it.effect("before it runs is 409 sandbox_not_running; once it is over, rejected sandbox_terminal", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      refused(yield* sync(key, id), 409, "sandbox_not_running")
      yield* ask(`${SANDBOXES}/${id}/terminate`, { key, method: "POST" })
      const reply = yield* sync(key, id)
      assert.strictEqual(reply.status, 200)
      assert.deepInclude(json(reply), { outcome: "rejected", rejection: "sandbox_terminal" })
    }))

  it.effect("while a checkpoint is restored is rejected restore_active", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* checkpointed(key)
      assert.deepInclude(json(yield* postJson(`${SANDBOXES}/${id}/restore`, key, { checkpoint: 1 })), { outcome: "applied" })
      assert.deepInclude(json(yield* sync(key, id)), { outcome: "rejected", rejection: "restore_active" })
    }))

  it.effect("of another grant's sandbox, and of an unknown sandbox, is 404", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const other = yield* mintKey({ grant: "other" })
      refused(yield* sync(other.key, id), 404, "not_found")
      refused(yield* sync(key, "c_zzzzzzzzzzzz"), 404, "not_found")
    }))
})
