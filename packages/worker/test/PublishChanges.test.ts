/** What a worker asks of trees and host to publish, and in which order. */
import { assert, describe, it } from "@effect/vitest"
import { NoChanges, type SnapshotOptions, WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/SandboxStoreMemory"
import { offlineDemo } from "@slipway/domain/models/ModelCatalogue"
import { CommitAuthor, CommitMessage, request } from "@slipway/domain/publishing/Publication"
import { Publishing } from "@slipway/domain/publishing/Publishing"
import { Leases } from "@slipway/domain/sandbox/Leases"
import { Policy } from "@slipway/domain/sandbox/Policy"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/SystemCommand"
import { SandboxId } from "@slipway/domain/SandboxId"
import type { PullRequest } from "@slipway/domain/source/PullRequest"
import { SourceHost, SourceHostError } from "@slipway/domain/source/SourceHost"
import { DateTime, Effect, Layer } from "effect"
import { publishChanges } from "../src/PublishChanges.ts"
import { draft } from "./PullRequests.ts"

const at = DateTime.makeUnsafe("2026-11-22T00:00:00.000Z")
const id = SandboxId.make("c_aaaaaaaaaaaa")
const REPO = "acme/shop"
const HEAD = `slipway/${id}`
const sha = "1".repeat(40)
const remote = { url: "/origin", authorization: null }
const pull = (headSha: string, number = 7) => draft(HEAD, headSha, number)

/** Trees and a host that note what they are asked for. `open`: the pull request that is there before. */
const world = ({ baseRef = "main" as string | null, changes = true, isDown = false, open = null as PullRequest | null } = {}) => {
  const asked: Array<readonly [string, ...ReadonlyArray<unknown>]> = []
  const note = <A>(answer: A, ...call: typeof asked[number]) =>
    Effect.sync(() => {
      asked.push(call)
      return answer
    })
  const ports = Layer.mergeAll(
    SandboxStoreMemory.layer,
    Layer.mock(WorkingTrees, {
      folder: () => "",
      snapshot: (_, options) => changes ? note({ sha, baseRef }, "snapshot", options) : Effect.fail(new NoChanges({ repo: REPO })),
      push: (_, options) => note(undefined, "push", options)
    }),
    Layer.mock(SourceHost, {
      name: "test",
      remote: (_, access) => note(remote, "remote", access),
      repository: () =>
        isDown
          ? Effect.fail(new SourceHostError({ operation: "read the repository", detail: "It is down.", retryable: true }))
          : note({ fullName: REPO, defaultBranch: "trunk" }, "repository"),
      findOpenPullRequest: (_, headRef) => note(open, "find", headRef),
      openDraftPullRequest: (_, { baseRef, headRef, headSha, title }) => note(pull(headSha), "open", { baseRef, headRef, headSha, title }),
      pullRequestPushed: (_, number, { headSha }) => note(pull(headSha, number), "pushed", number, headSha)
    })
  ).pipe(Layer.provideMerge(HintsMemory.layer))
  return { asked, layer: Publishing.layer.pipe(Layer.provideMerge(ports)) }
}

/** A sandbox of which a publication is asked for, and its lease. */
const wished = Effect.fnUntraced(function*(ref?: string) {
  const store = yield* SandboxStore
  const leases = yield* Leases
  const limits = yield* Policy
  yield* store.create({
    creation: {
      id,
      grantId: "g",
      createdBy: "u",
      title: "Say hello",
      repos: [{ fullName: REPO, ...(ref === undefined ? {} : { ref }) }],
      prompt: "prompt",
      model: offlineDemo.id,
      agentRuntime: "opencode",
      reasoningEffort: null,
      toolApprovalMode: "auto",
      metadata: {},
      origin: null,
      createdAt: at
    },
    keyed: null,
    organizationId: null
  })
  const [leased] = yield* leases.take({ worker: "w", machine: "m" }, { slots: 1, boots: 1, errands: 1 })
  assert(leased !== undefined)
  const report = (command: SystemCommand) => store.change(id, leased.lease, (sandbox) => decide(sandbox, command, { limits, now: at }), at)
  yield* report({ _tag: "StartBoot" })
  yield* report({ _tag: "FinishBoot", turnId: "t" })
  const { sandbox } = yield* store.change(id, { grantId: "g" }, (sandbox) => request(sandbox, REPO), at)
  return { lease: leased.lease, leases, sandbox }
})

const told = Effect.gen(function*() {
  const entries = yield* SandboxStore.use((store) => store.log(id, 0, 100))
  return entries.map(({ wire }) => fromWire(wire).event).flatMap((event) => event.type === "pull_request.updated" ? [event.data] : [])
})

describe("a worker that publishes", () => {
  it.effect("commits as configured, pushes to the sandbox's branch, and looks for a pull request before it opens a draft", () => {
    const { asked, layer } = world()
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO)
      assert.deepStrictEqual(asked, [
        ["snapshot", { message: `Say hello\n\n${id}`, author: { name: "Acme", email: "acme@example.com" } }],
        ["find", HEAD],
        ["repository"],
        ["remote", "write"],
        ["push", { sha, headRef: HEAD, remote }],
        ["find", HEAD],
        ["open", { baseRef: "trunk", headRef: HEAD, headSha: sha, title: "Say hello" }]
      ])
      assert.deepInclude((yield* told).at(-1), { action_state: "idle", number: 7, draft: true, head_ref: HEAD, head_sha: sha })
    }).pipe(Effect.provide(layer.pipe(Layer.provideMerge(Layer.mergeAll(
      Layer.succeed(CommitAuthor, { name: "Acme", email: "acme@example.com" }),
      Layer.succeed(CommitMessage, "{title}\n\n{sandbox}")
    )))))
  })

  it.effect("updates the one that is open, whoever opened it, and opens none beside it", () => {
    const { asked, layer } = world({ open: pull("0".repeat(40), 9) })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO)
      assert.deepStrictEqual(asked.slice(2), [["remote", "write"], ["push", { sha, headRef: HEAD, remote }], ["pushed", 9, sha]])
      assert.deepInclude((yield* told).at(-1), { action_state: "idle", number: 9, head_sha: sha })
    }).pipe(Effect.provide(layer))
  })

  it.effect.each<readonly [ref: string | undefined, startedFrom: string | null, base: string]>([
    ["main", "main", "main"],
    // As the default branch is called now.
    [undefined, "main", "trunk"],
    ["v1.0", null, "trunk"]
  ])("opens what started at %s, from the branch %s, against %s", ([ref, baseRef, base]) => {
    const { asked, layer } = world({ baseRef })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished(ref)
      yield* publishChanges(lease, sandbox, REPO)
      assert.deepInclude(asked.at(-1)?.[1], { baseRef: base })
    }).pipe(Effect.provide(layer))
  })

  it.effect("pushes nothing while it cannot be told what to open it against", () => {
    const { asked, layer } = world({ isDown: true })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO)
      assert.notInclude(asked.map(([call]) => call), "push")
      assert.deepInclude((yield* told).at(-1), { action_state: "failed" })
    }).pipe(Effect.provide(layer))
  })

  it.effect("asks nothing of the host where there is nothing to publish", () => {
    const { asked, layer } = world({ changes: false })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO)
      assert.deepStrictEqual(asked, [])
      assert.deepInclude((yield* told).at(-1), {
        action_state: "idle",
        error: { code: "invalid_request", message: "no sandbox changes to publish" }
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect("hands on the agent's own commits", () => {
    const { asked, layer } = world()
    const history: NonNullable<SnapshotOptions["history"]> = () => {
      throw new Error("nobody reads them here")
    }
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO, history)
      assert.deepInclude(asked[0]?.[1], { history })
    }).pipe(Effect.provide(layer))
  })

  it.effect("tells the end once, though two of them see it", () => {
    const { layer } = world()
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      for (let i = 0; i < 2; i++) yield* publishChanges(lease, sandbox, REPO)
      assert.deepStrictEqual((yield* told).map(({ action_state }) => action_state), ["publishing", "idle"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("tells nothing once the sandbox is another worker's", () => {
    const { layer } = world()
    return Effect.gen(function*() {
      const { lease, leases, sandbox } = yield* wished()
      yield* leases.endLeases("m")
      yield* leases.take({ worker: "v", machine: "m" }, { slots: 1, boots: 1, errands: 1 })
      assert.strictEqual((yield* Effect.flip(publishChanges(lease, sandbox, REPO)))._tag, "StaleLease")
      assert.deepStrictEqual((yield* told).map(({ action_state }) => action_state), ["publishing"])
    }).pipe(Effect.provide(layer))
  })
})
