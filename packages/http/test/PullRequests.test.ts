import { assert, layer } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoNotAccessible, type SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { noChecks, type PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { Effect, Fiber } from "effect"
import { DateTime } from "effect"
import {
  ask,
  create,
  drive,
  failed,
  json,
  layer as http,
  mintKey,
  openStream,
  postJson,
  refused,
  type Reply,
  running,
  SANDBOXES
} from "../testing/Harness.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const pullRequest: PullRequest = {
  id: 9,
  nodeId: "PR_9",
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
const wire = { ...pullRequest, createdAt: "2026-11-21T02:41:00.123Z", updatedAt: "2026-11-21T02:41:00.123Z" }

const ready = { ...pullRequest, draft: false }
const host = (pullRequestDetails: SourceHost["Service"]["pullRequestDetails"]) => ({ host: { pullRequestDetails } })
const answers = {
  host: {
    pullRequestDetails: () => Effect.succeed({ pullRequest, checks: noChecks, comments: [], pending: false }),
    readyPullRequest: () => Effect.succeed(ready)
  }
}

const report = (id: SandboxId, data: Extract<Parameters<typeof drive>[1][number], { readonly _tag: "ReportPublication" }>["data"]) =>
  drive(id, [{ _tag: "ReportPublication", data }])

layer(http(answers), { excludeTestServices: true })("a pull request", (it) => {
  /** Publishes, and plays the worker once the wish is in the log. */
  const publish = Effect.fnUntraced(function*(
    key: string,
    id: SandboxId,
    outcome: Parameters<typeof report>[1],
    body: string | undefined = "{}"
  ) {
    const events = yield* openStream(`${SANDBOXES}/${id}/events/stream`, { key })
    const asked = yield* Effect.forkChild(
      ask(`${SANDBOXES}/${id}/pull-request`, { key, method: "POST", ...(body === undefined ? {} : { body }) })
    )
    for (let block = ""; !block.includes("pull_request.updated");) block = (yield* events.next) ?? "pull_request.updated"
    yield* report(id, outcome)
    return yield* Fiber.join(asked)
  })

  it.effect("is published by the worker, and the request waits for it", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const before = yield* ask(`${SANDBOXES}/${id}/pull-request`, { key })
      const idle = { actionState: "idle", checks: noChecks, comments: [], repository: "acme/shop", detailsPending: false }
      assert.deepStrictEqual(json(before), { ...idle, pullRequest: null })
      const reply = yield* publish(key, id, { repo: "acme/shop", action_state: "idle", number: 3 })
      assert.deepStrictEqual([reply.status, json(reply)], [200, { ...idle, pullRequest: wire }])
      assert.deepStrictEqual(json(yield* ask(`${SANDBOXES}/${id}/pull-request?repo=ACME/shop`, { key })), json(reply))
    }))

  it.effect("is ready for review afterwards if the request says so, also with nothing new to publish", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const draftOf = (reply: Reply) => [reply.status, json(reply).pullRequest?.draft]
      const idle = { repo: "acme/shop", action_state: "idle", number: 3 } as const
      const error = { code: "invalid_request", message: "no sandbox changes to publish" }
      const unchanged = { repo: "acme/shop", action_state: "failed", error } as const
      assert.deepStrictEqual(draftOf(yield* publish(key, id, idle)), [200, true])
      refused(yield* publish(key, id, unchanged, JSON.stringify({ ready: false })), 409, "invalid_request")
      assert.deepStrictEqual(draftOf(yield* publish(key, id, unchanged, JSON.stringify({ ready: true }))), [200, false])
      assert.deepStrictEqual(draftOf(yield* publish(key, id, idle, JSON.stringify({ repo: "acme/shop", ready: true }))), [200, false])
      refused(yield* postJson(`${SANDBOXES}/${id}/pull-request`, key, { ready: "yes" }), 400, "invalid_request")
    }))

  it.effect("that failed stays a draft, whatever the request says", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const failed = { repo: "acme/shop", action_state: "failed", error: { code: "branch_moved", message: "It moved." } } as const
      refused(yield* publish(key, id, failed, JSON.stringify({ ready: true })), 409, "branch_moved")
      const nothing = { ...failed, error: { code: "invalid_request", message: "no sandbox changes to publish" } }
      refused(yield* publish(key, id, nothing, JSON.stringify({ ready: true })), 409, "invalid_request")
    }))

  it.effect("that did not come about says why", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const failed = (code: string) => publish(key, id, { repo: "acme/shop", action_state: "failed", error: { code, message: "a reason" } })
      const nothing = yield* failed("invalid_request")
      refused(nothing, 409, "invalid_request")
      assert.strictEqual(json(nothing).error.message, "no sandbox changes to publish")
      refused(yield* failed("repo_not_accessible"), 403, "repo_not_accessible")
      refused(yield* failed("source_host_error"), 502, "source_host_error")
    }))

  it.effect("that the source host put off is to be asked for again when it said", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      const error = { code: "unavailable", message: "secret detail", retry_after: 42 }
      const reply = yield* publish(key, id, { repo: "acme/shop", action_state: "failed", error })
      refused(reply, 503, "unavailable")
      assert.strictEqual(reply.headers["retry-after"], "42")
      assert.notMatch(reply.text, /secret/u)
      assert.strictEqual((yield* publish(key, id, { repo: "acme/shop", action_state: "idle", number: 3 })).status, 200)
    }))

  it.effect("is published of a sandbox that failed, too, as long as it has a checkpoint", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* failed(key)
      const asked = yield* Effect.forkChild(postJson(`${SANDBOXES}/${id}/pull-request`, key, {}))
      while (json(yield* ask(`${SANDBOXES}/${id}/pull-request`, { key })).actionState !== "publishing") yield* Effect.yieldNow
      yield* report(id, { repo: "acme/shop", action_state: "idle", number: 3 })
      assert.strictEqual((yield* Fiber.join(asked)).status, 200)
      const without = yield* create(key)
      yield* drive(without, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "It did not start.", retryable: false }])
      refused(yield* postJson(`${SANDBOXES}/${without}/pull-request`, key, {}), 409, "sandbox_not_running")
    }))
})

layer(http(host(() => Effect.fail(new SourceHostError({ operation: "read", detail: "secret detail", retryable: true, retryAfter: 17 })))), {
  excludeTestServices: true
})("a source host that is busy", (it) => {
  it.effect("is to be asked again when it said", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* running(key)
      yield* report(id, { repo: "acme/shop", action_state: "idle", number: 3 })
      const reply = yield* ask(`${SANDBOXES}/${id}/pull-request`, { key })
      refused(reply, 503, "unavailable")
      assert.strictEqual(reply.headers["retry-after"], "17")
      assert.notMatch(reply.text, /secret/u)
    }))
})

layer(http(host((repo) => Effect.fail(new RepoNotAccessible({ repo })))), { excludeTestServices: true })(
  "a repository that is closed to us",
  (it) => {
    it.effect("is 403", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        const { id } = yield* running(key)
        yield* report(id, { repo: "acme/shop", action_state: "idle", number: 3 })
        refused(yield* ask(`${SANDBOXES}/${id}/pull-request`, { key }), 403, "repo_not_accessible")
      }))
  }
)
