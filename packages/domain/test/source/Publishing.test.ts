import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Fiber, Layer } from "effect"
import type { Principal } from "../../src/access/Principal.ts"
import { PushFailed, WorkingTrees } from "../../src/files/WorkingTrees.ts"
import { Hints } from "../../src/Hints.ts"
import { offlineDemo } from "../../src/sandbox/ModelCatalogue.ts"
import { Policy } from "../../src/sandbox/Policy.ts"
import { SandboxId } from "../../src/sandbox/SandboxId.ts"
import { SandboxStore } from "../../src/sandbox/SandboxStore.ts"
import { decide } from "../../src/sandbox/SystemCommand.ts"
import { isUnderWay, publicationOf, Publishing } from "../../src/source/Publishing.ts"
import { RepoNotAccessible, SourceHost, SourceHostError } from "../../src/source/SourceHost.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const by: Principal = { keyId: "k", grantId: "g", organizationId: "o", userId: "u", scopes: new Set(), test: false }
const id = SandboxId.make("c_aaaaaaaaaaaa")
const REPO = "acme/shop"

/** What the caller of a publication gets whose push ends in this trouble. */
const told = (trouble: PushFailed | RepoNotAccessible | SourceHostError) => {
  const ports = Layer.mergeAll(
    SandboxStore.layerMemory,
    Layer.mock(WorkingTrees, {
      workspace: () => "",
      folder: () => "",
      snapshot: () => Effect.succeed({ sha: "0".repeat(40), baseRef: "main", baseSha: "0".repeat(40) }),
      push: () => trouble._tag === "PushFailed" ? Effect.fail(trouble) : Effect.die("it does not come to this")
    }),
    Layer.mock(SourceHost, {
      name: "test",
      remote: () => trouble._tag === "PushFailed" ? Effect.succeed({ url: "/origin", authorization: null }) : Effect.fail(trouble)
    })
  ).pipe(Layer.provideMerge(Hints.layerMemory))
  return Effect.gen(function*() {
    const store = yield* SandboxStore
    const publishing = yield* Publishing
    const limits = yield* Policy
    yield* store.create({
      id, grantId: by.grantId, createdBy: by.userId, title: "title", repos: [{ fullName: REPO }], prompt: "prompt", model: offlineDemo.id,
      agentRuntime: "opencode", reasoningEffort: null, toolApprovalMode: "auto", metadata: {}, createdAt: at
    }, null)
    const [claimed] = yield* store.claim({ worker: "w", machine: "m" }, 1)
    assert(claimed !== undefined)
    for (const command of [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: "t" }] as const) {
      yield* store.change(id, claimed.lease, (sandbox) => decide(sandbox, command, { limits, now: at }), at)
    }
    const changed = yield* Hints.use((hints) => hints.watch(id))
    const asked = yield* Effect.forkChild(Effect.flip(publishing.publish(by, id, undefined)))
    yield* changed
    const sandbox = yield* store.find({ grantId: by.grantId, id })
    assert.isTrue(isUnderWay(publicationOf(sandbox, REPO)))
    yield* publishing.carryOut(claimed.lease, sandbox, REPO)
    return yield* Fiber.join(asked)
  }).pipe(Effect.scoped, Effect.provide(Publishing.layer.pipe(Layer.provideMerge(ports))))
}

describe("a publication that does not go through", () => {
  it.effect("tells its caller how long the source host asked to wait", () =>
    Effect.gen(function*() {
      const error = yield* told(new SourceHostError({ operation: "mint a token", detail: "too many requests", retryable: true, retryAfter: 42 }))
      assert(error._tag === "SourceHostError")
      assert.deepStrictEqual([error.retryAfter, error.retryable], [42, true])
    }))

  it.effect("names no time when the host did not", () =>
    Effect.gen(function*() {
      for (const trouble of [
        new SourceHostError({ operation: "mint a token", detail: "down", retryable: true }),
        new PushFailed({ repo: REPO, detail: "the connection was lost", retryable: true })
      ]) {
        const error = yield* told(trouble)
        assert(error._tag === "SourceHostError")
        assert.isUndefined(error.retryAfter)
      }
    }))

  it.effect("is not a failure of the host when the repository is closed to us", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* told(new RepoNotAccessible({ repo: REPO })))._tag, "RepoNotAccessible")
    }))
})
