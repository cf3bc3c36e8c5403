/** The requests of a worker to trees and host to publish, and their order. */
import { assert, describe, it } from "@effect/vitest"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import {
  BranchMoved,
  MergeConflict,
  type MergeStep,
  NoChanges,
  type SnapshotOptions,
  WorkingTrees
} from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { CommitAuthor, CommitMessage, published, request } from "@slipway/domain/publishing/rules/Publication"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { RepositorySettings } from "@slipway/domain/source/ports/RepositorySettings"
import { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { noChecks, type PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { NO_SETTINGS } from "@slipway/domain/source/schema/RepoSettings"
import { DateTime, Effect, Layer, Result } from "effect"
import { publishChanges } from "../../src/publish/PublishChanges.ts"
import { draft } from "../PullRequests.ts"

const at = DateTime.makeUnsafe("2026-11-22T00:00:00.000Z")
const id = SandboxId.make("c_aaaaaaaaaaaa")
const REPO = "acme/shop"
const HEAD = `slipway/${id}`
const sha = "1".repeat(40)
const BASE = "b".repeat(40)
/** The commit that was published before. */
const before = "2".repeat(40)
const remote = { url: "/origin", authorization: null }
const pull = (headSha: string, number = 7) => draft(HEAD, headSha, number)

/** Trees and a host that note what they are asked for. `open`: the pull request that is there before. */
interface Scene {
  /** The result of a snapshot; `null`: nothing. */
  readonly snapshot: string | MergeConflict | null
  /** Where the host's branches are. */
  readonly branches: ReadonlyMap<string, string>
  /** Branches that somebody else moved. */
  readonly moved: ReadonlyArray<string>
  readonly isGone: boolean
  readonly isDown: boolean
  readonly open: PullRequest | null
  /** The pull request that is known by its number. */
  readonly ended: PullRequest | null
  /** Subjects of the agent's commits. */
  readonly subjects: ReadonlyArray<string>
}

const world = (
  {
    branches = new Map([["main", BASE], ["trunk", BASE]]),
    ended = null,
    isDown = false,
    isGone = false,
    moved = [],
    open = null,
    snapshot = sha,
    subjects = []
  }: Partial<Scene> = {}
) => {
  const bodies: Array<string> = []
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
      branches: (_, { branches: asked, headRef, pushed }) =>
        moved.includes(headRef)
          ? Effect.fail(new BranchMoved({ repo: REPO, branch: headRef }))
          : note(
            {
              head: branches.get(headRef) ?? null,
              isGone: isGone && headRef === HEAD,
              root: null,
              tips: new Map(Array.from(branches).filter(([name]) => asked.includes(name)))
            },
            "branches",
            headRef,
            pushed
          ),
      // The function that finds submodules has a test of its own.
      snapshot: (_, { submodule: _submodule, ...told }) =>
        snapshot === null
          ? Effect.fail(new NoChanges({ repo: REPO }))
          : typeof snapshot === "string"
          ? note({ sha: snapshot, baseRef: null, subjects }, "snapshot", told)
          : Effect.fail(snapshot),
      push: (_, options) => note(undefined, "push", options)
    }),
    Layer.mock(SourceHost, {
      names: ["test"],
      nameOf: () => Effect.succeed("test"),
      remote: (_, access) => note(remote, "remote", access),
      repository: () =>
        isDown
          ? Effect.fail(new SourceHostError({ operation: "read the repository", detail: "It is down.", retryable: true }))
          : note({ fullName: REPO, defaultBranch: "trunk" }, "repository"),
      findOpenPullRequest: (_, headRef) => note(open?.headRef === headRef ? open : null, "find", headRef),
      pullRequestDetails: (_, number) =>
        ended === null
          ? Effect.die(new Error(`there is no ${number}`))
          : note({ pullRequest: ended, checks: noChecks, comments: [], pending: false }, "details", number),
      openDraftPullRequest: (_, { baseRef, body, headRef, headSha, title }) => {
        bodies.push(body)
        return note({ ...pull(headSha, 8), headRef }, "open", { baseRef, headRef, headSha, title })
      },
      pullRequestPushed: (_, number, { headSha }) => note(pull(headSha, number), "pushed", number, headSha),
      decoratePullRequest: (_, number, decoration) => note(["lost"], "decorate", number, decoration)
    })
  ).pipe(Layer.provideMerge(HintsMemory.layer))
  return { asked, bodies, layer: Publishing.layer.pipe(Layer.provideMerge(ports)) }
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
      continues: null,
      createdAt: at
    },
    keyed: null
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
        ["remote", "write"],
        ["find", HEAD],
        ["repository"],
        ["branches", HEAD, null],
        ["snapshot", {
          message: `Say hello\n\n${id}`,
          author: { name: "Acme", email: "acme@example.com" },
          since: { head: null, merges: [], remote }
        }],
        ["push", { sha, headRef: HEAD, remote, expected: null, isMerged: false }],
        ["find", HEAD],
        ["open", { baseRef: "trunk", headRef: HEAD, headSha: sha, title: "Say hello" }]
      ])
      assert.deepInclude((yield* told).at(-1), { action_state: "idle", number: 8, draft: true, head_ref: HEAD, head_sha: sha })
    }).pipe(Effect.provide(layer.pipe(Layer.provideMerge(Layer.mergeAll(
      Layer.succeed(CommitAuthor, { name: "Acme", email: "acme@example.com" }),
      Layer.succeed(CommitMessage, "{title}\n\n{sandbox}")
    )))))
  })

  it.effect("names the creator in its commits, and decorates a pull request until it is recorded, and never again", () => {
    const { asked, layer } = world({ ended: pull(sha, 8) })
    const settings = { ...NO_SETTINGS, labels: ["agent", "lost"], reviewers: ["bob"], coAuthor: true }
    const user = { id: "u", name: "Ada", email: "ada@example.com", githubLogin: null, createdAt: at, approvedAt: at }
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      const once = yield* publishChanges(lease, sandbox, REPO)
      assert.deepInclude(asked.find(([name]) => name === "snapshot")?.[1], { trailer: "Co-authored-by: Ada <ada@example.com>" })
      assert.deepStrictEqual(asked.at(-1), ["decorate", 8, { labels: ["agent", "lost"], reviewers: ["bob"] }])
      assert.deepInclude((yield* told).at(-1), { action_state: "idle", number: 8, left_out: ["lost"] })

      const again = yield* SandboxStore.use((store) => store.change(id, { grantId: "g" }, (now) => request(now, REPO), at))
      assert.isNotNull(once)
      yield* publishChanges(lease, again.sandbox, REPO)
      assert.deepStrictEqual(asked.filter(([name]) => name === "decorate").length, 1)
      assert.notProperty((yield* told).at(-1), "left_out")
    }).pipe(Effect.provide(Layer.mergeAll(
      layer,
      Layer.mock(RepositorySettings, { of: () => Effect.succeed(settings) }),
      Layer.mock(MemberStore, { findUser: () => Effect.succeed(user) })
    )))
  })

  it.effect("updates the open pull request of any author, and opens none beside it", () => {
    const { asked, layer } = world({ open: pull(before, 9), branches: new Map([[HEAD, before]]) })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO)
      assert.deepStrictEqual(asked.slice(3).map(([call]) => call), ["snapshot", "push", "pushed"])
      assert.deepInclude(asked.find(([call]) => call === "push")?.[1], { sha, headRef: HEAD, expected: before })
      assert.deepInclude((yield* told).at(-1), { action_state: "idle", number: 9, head_sha: sha })
    }).pipe(Effect.provide(layer))
  })

  it.effect.each<readonly [ref: string | undefined, base: string]>([
    ["main", "main"],
    // As the default branch is called now.
    [undefined, "trunk"],
    ["v1.0", "trunk"],
    ["deleted", "trunk"]
  ])("opens what started at %s against %s", ([ref, base]) => {
    const { asked, layer } = world()
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished(ref)
      yield* publishChanges(lease, sandbox, REPO)
      assert.deepInclude(asked.at(-1)?.[1], { baseRef: base })
    }).pipe(Effect.provide(layer))
  })

  it.effect("pushes nothing where there is no branch to open it against", () => {
    const { asked, layer } = world({ branches: new Map() })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO)
      assert.notInclude(asked.map(([call]) => call), "push")
      assert.match((yield* told).at(-1)?.error?.message ?? "", /There is no branch "trunk"/u)
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

  it.effect("pushes nothing where there is nothing to publish", () => {
    const { asked, layer } = world({ snapshot: null })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO)
      assert.notInclude(asked.map(([call]) => call), "push")
      assert.deepInclude((yield* told).at(-1), {
        action_state: "idle",
        error: { code: "invalid_request", message: "no sandbox changes to publish" }
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect("lists the agent's commits in the description", () => {
    const { bodies, layer } = world({ subjects: ["Add search", "Close #12"] })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO)
      assert.lengthOf(bodies, 1)
      assert.include(bodies[0], "\n- Add search\n- Close # 12\n")
    }).pipe(Effect.provide(layer))
  })

  it.effect("hands on the agent's own commits", () => {
    const { asked, layer } = world()
    const history: NonNullable<SnapshotOptions["history"]> = () => {
      throw new Error("never read here")
    }
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* wished()
      yield* publishChanges(lease, sandbox, REPO, history)
      assert.deepInclude(asked.find(([call]) => call === "snapshot")?.[1], { history })
    }).pipe(Effect.provide(layer))
  })

  /** Published once before, as number 7. */
  const publishedBefore = Effect.fnUntraced(function*() {
    const { lease } = yield* wished()
    const store = yield* SandboxStore
    const change = (decide: Parameters<typeof store.change>[2]) => store.change(id, lease, decide, at)
    yield* change(() => Result.succeed([published(REPO, pull(before), { sha: before, merges: [] })]))
    const { sandbox } = yield* change((sandbox) => request(sandbox, REPO) as Result.Result<ReadonlyArray<SandboxEvent>, never>)
    return { lease, sandbox }
  })

  it.effect.each<readonly [string, Partial<Scene>, ReadonlyArray<MergeStep>]>([
    ["was merged", { ended: { ...pull(before), state: "closed", merged: true } }, [{ onto: BASE, ancestor: before }]],
    ["was closed", { ended: { ...pull(before), state: "closed" } }, [{ onto: BASE, ancestor: null }]],
    ["lost its branch", { open: pull(before), isGone: true }, [{ onto: BASE, ancestor: null }]]
  ])("goes on with another branch and another pull request after the first one %s", ([, scene, merges]) => {
    const { asked, layer } = world(scene)
    const NEXT = `${HEAD}-2`
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* publishedBefore()
      yield* publishChanges(lease, sandbox, REPO)
      const of = (name: string) => asked.find(([call]) => call === name)?.[1]
      assert.deepInclude(of("snapshot"), { since: { head: null, merges, remote } })
      assert.deepInclude(of("push"), { headRef: NEXT, expected: null, isMerged: true })
      assert.deepInclude(of("open"), { baseRef: "main", headRef: NEXT, headSha: sha })
      assert.deepInclude((yield* told).at(-1), { action_state: "idle", number: 8, head_ref: NEXT, head_sha: sha, merges })
    }).pipe(Effect.provide(layer))
  })

  it.effect("takes an unused branch", () => {
    const { asked, layer } = world({ ended: { ...pull(before), state: "closed", merged: true }, moved: [`${HEAD}-2`, `${HEAD}-3`] })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* publishedBefore()
      yield* publishChanges(lease, sandbox, REPO)
      assert.deepInclude(asked.find(([call]) => call === "push")?.[1], { headRef: `${HEAD}-4` })
    }).pipe(Effect.provide(layer))
  })

  it.effect.each<readonly [code: string, Partial<Scene>]>([
    ["branch_moved", { open: pull(before), moved: [HEAD] }],
    ["merge_conflict", {
      ended: { ...pull(before), state: "closed", merged: true },
      snapshot: new MergeConflict({ repo: REPO, files: ["src/a.ts"] })
    }]
  ])("pushes nothing and tells %s", ([code, scene]) => {
    const { asked, layer } = world(scene)
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* publishedBefore()
      yield* publishChanges(lease, sandbox, REPO)
      assert.notInclude(asked.map(([call]) => call), "push")
      assert.strictEqual((yield* told).at(-1)?.error?.code, code)
    }).pipe(Effect.provide(layer))
  })

  it.effect("answers with the pull request as it is when what is to be published is published already", () => {
    const { asked, layer } = world({ open: pull(before), branches: new Map([[HEAD, before]]), snapshot: before })
    return Effect.gen(function*() {
      const { lease, sandbox } = yield* publishedBefore()
      yield* publishChanges(lease, sandbox, REPO)
      assert.deepInclude(asked.find(([call]) => call === "push")?.[1], { sha: before, expected: before })
      assert.notInclude(asked.map(([call]) => call), "open")
      assert.deepInclude((yield* told).at(-1), { action_state: "idle", number: pull(before).number, head_sha: before })
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
