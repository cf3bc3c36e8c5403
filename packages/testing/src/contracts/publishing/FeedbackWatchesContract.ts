/**
 * The rules that every `FeedbackWatches` must keep, beside the `SandboxStore` of the same rows. An adapter proves itself by running this
 * suite against its layer; a rule that is missing here is not part of the port.
 */
import { CLAIM_TIME, FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { newFeedback } from "@slipway/domain/source/rules/FeedbackState"
import { headRef } from "@slipway/domain/source/schema/Naming"
import { NO_FEEDBACK } from "@slipway/domain/source/schema/NoFeedback"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { assert } from "../../suite/Assert.ts"
import { define } from "../../suite/Suite.ts"
import { at, make, type Stores } from "../sandbox/SandboxStates.ts"

/** Later than the clock of any store. */
const far = DateTime.makeUnsafe("2100-01-01T00:00:00.000Z")
const after = (seconds: number) => DateTime.add(far, { seconds })
const MANY = 100_000

const pull = (repo: string, more: object = {}): SandboxEvent => ({
  type: "pull_request.updated",
  data: { repo, action_state: "idle", number: 12, ...more }
})
const change = (id: Sandbox["id"], ...events: ReadonlyArray<SandboxEvent>) =>
  SandboxStore.use((store) => store.change(id, "policy", () => Result.succeed(events), at))
const taken = (id: Sandbox["id"], now = far) =>
  FeedbackWatches.use((watches) => Effect.map(watches.take(now, MANY), (all) => all.filter(({ sandboxId }) => sandboxId === id)))
const quiet = { lookAt: null, failures: 0 }
/** The repositories whose watches are due, each recorded as looked at. */
const looked = (id: Sandbox["id"]) =>
  Effect.gen(function*() {
    const due = yield* taken(id)
    for (const one of due) yield* FeedbackWatches.use((watches) => watches.record(one, quiet))
    return due.map(({ repo }) => repo).sort()
  })

const theirs: PullRequest = {
  id: 7,
  nodeId: "PR_7",
  number: 12,
  url: "https://host.test/acme/shop/pull/12",
  title: "Theirs",
  state: "open",
  draft: false,
  merged: false,
  baseRef: "main",
  headRef: "feature/cart",
  headSha: "a",
  createdAt: at,
  updatedAt: at,
  additions: 1,
  deletions: 0,
  changedFiles: 1
}

/** A sandbox with feedback and two pull requests. */
const watched = Effect.gen(function*() {
  const sandbox = yield* make({ feedback: newFeedback({ ...NO_FEEDBACK, comments: "all" }, at) })
  yield* change(sandbox.id, pull("acme/Shop"), pull("acme/other"))
  return sandbox
})

export const suite = (name: string, layer: Layer.Layer<Stores | FeedbackWatches, unknown>) =>
  define(`FeedbackWatches (${name})`, layer, (it) => {
    it.effect("has a watch of each pull request of a sandbox with feedback, once, and of no other", () =>
      Effect.gen(function*() {
        const plain = yield* make()
        yield* change(plain.id, pull("acme/Shop"))
        const unpublished = yield* make({ feedback: newFeedback(NO_FEEDBACK, at) })
        yield* change(unpublished.id, { type: "pull_request.updated", data: { repo: "acme/Shop", action_state: "publishing" } })
        const { id } = yield* watched
        const all = yield* (yield* FeedbackWatches).take(far, MANY)
        const made = all.filter(({ sandboxId }) => [plain.id, unpublished.id, id].includes(sandboxId))
        assert.deepStrictEqual(made.map(({ repo, sandboxId }) => `${sandboxId} ${repo}`).sort(), [`${id} acme/Shop`, `${id} acme/other`])
      }))

    it.effect("gives a claimed watch to no other worker until its claim is over, and takes no record of the earlier claim then", () =>
      Effect.gen(function*() {
        const watches = yield* FeedbackWatches
        const { id } = yield* watched
        const [first] = yield* taken(id)
        assert.isDefined(first)
        assert.deepStrictEqual(yield* taken(id, after(1)), [])
        const [second] = yield* taken(id, DateTime.addDuration(far, CLAIM_TIME))
        assert.isDefined(second)
        if (first === undefined || second === undefined) return
        assert.isAbove(second.fence, first.fence)
        assert.isFalse(yield* watches.record(first, quiet))
        assert.isTrue(yield* watches.record(second, { lookAt: after(1000), failures: 3 }))
        const found = (yield* taken(id, after(1000))).find(({ repo }) => repo === second.repo)
        assert.strictEqual(found?.failures, 3)
      }))

    it.effect("is due at the recorded time, and without one when its sandbox changes", () =>
      Effect.gen(function*() {
        const watches = yield* FeedbackWatches
        const { id } = yield* watched
        for (const one of yield* taken(id)) yield* watches.record(one, one.repo === "acme/Shop" ? { ...quiet, lookAt: after(60) } : quiet)
        assert.deepStrictEqual(yield* taken(id, after(59)), [])
        const due = yield* taken(id, after(60))
        assert.deepStrictEqual(due.map(({ repo }) => repo), ["acme/Shop"])
        for (const one of due) yield* watches.record(one, quiet)
        yield* change(id, { type: "sandbox.renamed", data: { title: "Other" } })
        assert.deepStrictEqual(yield* taken(id, after(61)), [])
        yield* change(id, pull("acme/other", { head_sha: "a" }))
        assert.strictEqual((yield* taken(id, after(61))).length, 2)
      }))

    it.effect("is due when its branch or its repository is noticed, in any case of the name", () =>
      Effect.gen(function*() {
        const watches = yield* FeedbackWatches
        const { id } = yield* watched
        yield* looked(id)
        yield* watches.noticed("acme/shop", "other-branch", far)
        assert.deepStrictEqual(yield* looked(id), [])
        yield* watches.noticed("ACME/shop", headRef(id), far)
        assert.deepStrictEqual(yield* looked(id), ["acme/Shop"])
        yield* watches.noticed("acme/OTHER", null, far)
        assert.deepStrictEqual(yield* looked(id), ["acme/other"])
      }))

    it.effect("follows the branch that its sandbox continues, from the creation, until it published to another one", () =>
      Effect.gen(function*() {
        const watches = yield* FeedbackWatches
        const continues = { repo: RepoName.make("acme/Shop"), branch: "feature/cart", pullRequest: 12, headSha: "a", details: theirs }
        const { id } = yield* make({ feedback: newFeedback({ ...NO_FEEDBACK, comments: "all" }, at), continues })
        yield* change(id, pull("acme/other"))
        const noticed = (repo: string, branch: string) =>
          Effect.andThen(looked(id), Effect.andThen(watches.noticed(RepoName.make(repo), branch, far), looked(id)))
        assert.deepStrictEqual(yield* noticed("acme/shop", "feature/cart"), ["acme/Shop"])
        assert.deepStrictEqual(yield* noticed("acme/shop", headRef(id)), [])
        assert.deepStrictEqual(yield* noticed("acme/other", headRef(id)), ["acme/other"])
        yield* change(
          id,
          { type: "pull_request.updated", data: { repo: "acme/Shop", action_state: "updating" } },
          pull("acme/Shop", { head_ref: headRef(id, 2), head_sha: "b" })
        )
        assert.deepStrictEqual(yield* noticed("acme/shop", headRef(id, 2)), ["acme/Shop"])
        assert.deepStrictEqual(yield* noticed("acme/shop", "feature/cart"), [])
      }))

    it.effect("keeps what is noticed during a look", () =>
      Effect.gen(function*() {
        const watches = yield* FeedbackWatches
        const { id } = yield* watched
        const [first] = yield* taken(id)
        if (first === undefined) return assert.fail("nothing is due")
        yield* watches.noticed(first.repo, null, far)
        assert.isTrue(yield* watches.record(first, quiet))
        assert.deepStrictEqual((yield* taken(id)).map(({ repo }) => repo), [first.repo])
      }))

    it.effect("gives no more than are asked for", () =>
      Effect.gen(function*() {
        const watches = yield* FeedbackWatches
        yield* watched
        assert.isAtMost((yield* watches.take(far, 1)).length, 1)
      }))
  })
