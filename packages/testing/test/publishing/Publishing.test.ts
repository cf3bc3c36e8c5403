import { assert, describe, it } from "@effect/vitest"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { BranchMoved, FileNotFound, MergeConflict, type MergeStep, NoChanges, PushFailed } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as FollowedRepositoriesMemory from "@slipway/domain/memory/source/FollowedRepositoriesMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import {
  CommitAuthor,
  commitMessage,
  CommitMessage,
  currentRound,
  failure,
  nextRound,
  observed,
  published,
  request
} from "@slipway/domain/publishing/rules/Publication"
import { HandleNews } from "@slipway/domain/publishing/usecases/HandleNews"
import { NothingToPublish, Publishing, WAIT } from "@slipway/domain/publishing/usecases/Publishing"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { publicationOf } from "@slipway/domain/sandbox/rules/Sandbox"
import { RepoNotFound, RepoRequired, selectRepo } from "@slipway/domain/sandbox/rules/SelectRepo"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { RepoNotAccessible, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { isUnderWay } from "@slipway/domain/source/rules/PullState"
import { sandboxOf } from "@slipway/domain/source/schema/PullRequest"
import { noChecks, type PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Hints } from "@slipway/domain/store/Hints"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { creation, reach, type Scene } from "../../src/histories/Histories.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const by: Principal = {
  credential: { _tag: "Key", keyId: "k" },
  grantId: "g",
  organizationId: "o",
  userId: "u",
  scopes: new Set(),
  test: false
}
const id = SandboxId.make("c_aaaaaaaaaaaa")
const REPO = "acme/shop"

const updated = (data: object) => ({ type: "pull_request.updated", data })
const tag = <A, E extends { readonly _tag: string }>(result: Result.Result<A, E>) =>
  Result.isFailure(result) ? result.failure._tag : result.success
/** A sandbox that was told this of its repository. */
const having = (scene: Scene, data: { readonly action_state: "idle" | "publishing" | "updating" | "failed"; readonly number?: number }) => {
  const history = reach(scene)
  history.system({ _tag: "ReportPublication", data: { repo: REPO, ...data } })
  return history.sandbox
}

describe("the repository of a request", () => {
  const { sandbox } = reach("idle")
  const single = { ...sandbox, repos: [{ fullName: "acme/Shop" }] }

  it("need only be named when there are several", () => {
    assert.strictEqual(tag(selectRepo(single, undefined)), "acme/Shop")
    assert.strictEqual(tag(selectRepo(sandbox, undefined)), "RepoRequired")
    assert.strictEqual(tag(selectRepo({ ...sandbox, repos: [] }, undefined)), "RepoRequired")
  })

  it("is one of the sandbox's, in any case, and spelled as the sandbox spells it", () => {
    assert.strictEqual(tag(selectRepo(single, "ACME/shop")), "acme/Shop")
    assert.strictEqual(tag(selectRepo(sandbox, "acme/other")), "acme/other")
    assert.strictEqual(tag(selectRepo(sandbox, "acme/third")), "RepoNotFound")
  })

  it("that is invalid is refused with a sentence", () => {
    for (const error of [new RepoRequired(), new RepoNotFound()]) assert.match(error.message, /^[A-Z].*\.$/u)
  })
})

describe("a wish to publish", () => {
  const head_ref = `slipway/${creation.id}`

  it("publishes what has no pull request and updates what has one", () => {
    assert.deepStrictEqual<object>(
      request(reach("idle").sandbox, REPO),
      Result.succeed([updated({ repo: REPO, action_state: "publishing", head_ref })])
    )
    assert.deepStrictEqual<object>(
      request(having("idle", { action_state: "failed" }), REPO),
      Result.succeed([updated({ repo: REPO, action_state: "publishing", head_ref })])
    )
    assert.deepStrictEqual<object>(
      request(having("idle", { action_state: "idle", number: 7 }), REPO),
      Result.succeed([updated({ repo: REPO, action_state: "updating", head_ref })])
    )
  })

  it.each(["publishing", "updating"] as const)("joins the publication that is %s", (action_state) => {
    const sandbox = having("idle", { action_state })
    assert.isTrue(isUnderWay(publicationOf(sandbox, "ACME/shop")))
    assert.deepStrictEqual(request(sandbox, REPO), Result.succeed([]))
  })

  it.each<Scene>(["queued", "creating", "succeeded", "failed", "terminating", "terminated"])("is refused while %s", (scene) => {
    assert.strictEqual(tag(request(reach(scene).sandbox, REPO)), "SandboxNotRunning")
  })

  it("waits for 20 seconds, and commits as Slipway unless it is told otherwise", () => {
    assert.deepStrictEqual(WAIT, Duration.seconds(20))
    assert.deepStrictEqual(CommitAuthor.defaultValue(), { name: "Slipway", email: "slipway@localhost" })
    assert.strictEqual(CommitMessage.defaultValue(), "{title}")
  })

  it("commits with a message that names what it was told to", () => {
    const sandbox = { id, title: "Use {repo} and $&" }
    assert.strictEqual(commitMessage("{title}", sandbox, REPO), "Use {repo} and $&")
    assert.strictEqual(
      commitMessage("{title} {title}\n\nSandbox: {sandbox}\nRepo: {repo} {other}", sandbox, REPO),
      `Use {repo} and $& Use {repo} and $&\n\nSandbox: ${id}\nRepo: acme/shop {other}`
    )
  })
})

const pullRequest: PullRequest = {
  id: 1,
  nodeId: "n",
  number: 7,
  url: "https://h/7",
  title: "T",
  state: "open",
  draft: true,
  merged: false,
  baseRef: "main",
  headRef: "slipway/c",
  headSha: "abc",
  createdAt: at,
  updatedAt: at,
  additions: 1,
  deletions: 2,
  changedFiles: 3
}

describe("the end of a publication is told", () => {
  it("with its pull request when it went through", () => {
    assert.deepStrictEqual<object>(
      published(REPO, { ...pullRequest, headSha: "older" }, { sha: "abc", merges: [] }),
      updated({
        repo: REPO,
        action_state: "idle",
        number: 7,
        url: "https://h/7",
        state: "open",
        draft: true,
        merged: false,
        head_ref: "slipway/c",
        head_sha: "abc",
        pull_request: pullRequest
      })
    )
  })

  it("with its merges and submodules when it had any", () => {
    const merges = [{ onto: "base1", ancestor: null }]
    const { data } = published(REPO, pullRequest, { sha: "abc", merges, submodules: ["vendor"] })
    assert.deepInclude(data, { merges, submodules: ["vendor"] })
  })

  it("with the files that Git LFS does not take, and why", () => {
    const { data } = published(REPO, pullRequest, { sha: "abc", merges: [], lfs: ["a.bin"], lfsReason: "Too large." })
    assert.deepInclude(data, { lfs_left_out: ["a.bin"], lfs_reason: "Too large." })
  })

  const host = (retryAfter?: number) =>
    new SourceHostError({ operation: "push", detail: "no", retryable: true, ...(retryAfter === undefined ? {} : { retryAfter }) })
  const message = "source host could not push: no"
  it.each<readonly [Parameters<typeof failure>[1], object]>([
    [new NoChanges({ repo: REPO }), { action_state: "idle", error: { code: "invalid_request", message: "no sandbox changes to publish" } }],
    [new BranchMoved({ repo: REPO, branch: "slipway/c" }), {
      action_state: "failed",
      error: { code: "branch_moved", message: new BranchMoved({ repo: REPO, branch: "slipway/c" }).message }
    }],
    [new MergeConflict({ repo: REPO, files: ["a"] }), {
      action_state: "failed",
      error: { code: "merge_conflict", message: new MergeConflict({ repo: REPO, files: ["a"] }).message }
    }],
    [new RepoNotAccessible({ repo: REPO }), {
      action_state: "failed",
      error: { code: "repo_not_accessible", message: new RepoNotAccessible({ repo: REPO }).message }
    }],
    [new FileNotFound(), {
      action_state: "failed",
      error: { code: "agent_disconnected", message: "The sandbox's files are not available." }
    }],
    [new PushFailed({ repo: REPO, detail: "no", retryable: true }), {
      action_state: "failed",
      error: { code: "source_host_error", message: "could not push to acme/shop: no" }
    }],
    [host(), { action_state: "failed", error: { code: "source_host_error", message } }],
    [host(42), { action_state: "failed", error: { code: "unavailable", message, retry_after: 42 } }],
    [host(0), { action_state: "failed", error: { code: "unavailable", message, retry_after: 0 } }],
    [host(-1), { action_state: "failed", error: { code: "unavailable", message, retry_after: 0 } }]
  ])("with its trouble when it did not: $message", (trouble, data) => {
    assert.deepStrictEqual<object>(failure(REPO, trouble), updated({ repo: REPO, ...data }))
  })

  it("as nothing to publish by the sentence of docs/decisions/7", () => {
    const error = new NothingToPublish()
    assert.deepStrictEqual([error._tag, error.message], ["NothingToPublish", "no sandbox changes to publish"])
  })
})

/** A sandbox that runs, leased by a worker. */
const running = Effect.gen(function*() {
  const store = yield* SandboxStore
  const leases = yield* Leases
  const limits = yield* Policy
  yield* store.create({
    creation: {
      id,
      grantId: by.grantId,
      createdBy: by.userId,
      title: "title",
      repos: [{ fullName: REPO }],
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
  return { leased, report, store }
})

/** The result for the caller of a publication whose worker records this error. */
const told = (trouble: PushFailed | RepoNotAccessible | SourceHostError) =>
  Effect.gen(function*() {
    const publishing = yield* Publishing
    const { leased, store } = yield* running
    const changed = yield* Hints.use((hints) => hints.watch(id))
    const asked = yield* Effect.forkChild(Effect.flip(publishing.publish(by, id, undefined)))
    yield* changed
    const sandbox = yield* store.find({ grantId: by.grantId, id })
    assert.isTrue(isUnderWay(publicationOf(sandbox, REPO)))
    yield* store.change(id, leased.lease, () => Result.succeed([failure(REPO, trouble)]), at)
    return yield* Fiber.join(asked)
  }).pipe(
    Effect.scoped,
    Effect.provide(Publishing.layer.pipe(
      Layer.provideMerge(
        Layer.merge(SandboxStoreMemory.layer, Layer.mock(SourceHost, { names: ["test"], nameOf: () => Effect.succeed("test") }))
      ),
      Layer.provideMerge(HintsMemory.layer)
    ))
  )

describe("a publication that does not go through", () => {
  it.effect("tells its caller how long the source host asked to wait", () =>
    Effect.gen(function*() {
      const error = yield* told(
        new SourceHostError({ operation: "mint a token", detail: "too many requests", retryable: true, retryAfter: 42 })
      )
      assert(error._tag === "SourceHostError")
      assert.deepStrictEqual([error.retryAfter, error.retryable], [42, true])
    }))

  it.effect("names no time when the host did not", () =>
    Effect.gen(function*() {
      for (
        const trouble of [
          new SourceHostError({ operation: "mint a token", detail: "down", retryable: true }),
          new PushFailed({ repo: REPO, detail: "the connection was lost", retryable: true })
        ]
      ) {
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

describe("a branch of ours", () => {
  it("names its sandbox, and no other branch does", () => {
    assert.strictEqual(sandboxOf(`slipway/${id}`), id)
    for (const branch of ["", id, "main", `slipway/${id}x`, `x-slipway/${id}`, "slipway/", `refs/heads/slipway/${id}`]) {
      assert.isUndefined(sandboxOf(branch), branch)
    }
  })
})

describe("the pull requests of a sandbox, one after the other", () => {
  const { sandbox } = reach("idle")
  const first = { headRef: `slipway/${creation.id}`, pushed: null, merges: [] }
  const one = { onto: "base1", ancestor: null }
  const [two, three] = [1, 2].map((n) => ({ onto: `base${n + 1}`, ancestor: `tip${n}` })) as [MergeStep, MergeStep]

  it("begin with the sandbox's own branch, and go on from what was pushed last", () => {
    assert.deepStrictEqual(currentRound(sandbox, REPO), first)
    const history = reach("idle")
    const headRef = `${first.headRef}-2`
    history.system({ _tag: "ReportPublication", data: { repo: REPO, action_state: "publishing" } })
    history.system({
      _tag: "ReportPublication",
      data: published(REPO, { ...pullRequest, headRef }, { sha: "def", merges: [one] }).data
    })
    assert.deepStrictEqual(currentRound(history.sandbox, REPO), { headRef, pushed: "def", merges: [one] })
    assert.deepStrictEqual<object>(
      request(history.sandbox, REPO),
      Result.succeed([updated({ repo: REPO, action_state: "updating", head_ref: headRef })])
    )
  })

  const next = (before: Parameters<typeof nextRound>[1], facts: { isMerged?: boolean; published?: string | null; skip?: number } = {}) =>
    nextRound(sandbox, before, { isMerged: false, published: "tip", onto: "base", ...facts })

  it("get a branch with the next number each, past the names that are taken", () => {
    assert.strictEqual(next(first).headRef, `${first.headRef}-2`)
    assert.strictEqual(next(next(first)).headRef, `${first.headRef}-3`)
    assert.strictEqual(next(first, { skip: 3 }).headRef, `${first.headRef}-5`)
    assert.isNull(next({ ...first, pushed: "tip" }).pushed)
  })

  it("have the merged content in common with the base after a merge, and the content before it after a close", () => {
    const before = { ...first, merges: [one, two, three] }
    assert.deepStrictEqual(next(before, { isMerged: true }).merges, [one, two, three, { onto: "base", ancestor: "tip" }])
    for (const closed of [next(before), next(before, { isMerged: true, published: null })]) {
      assert.deepStrictEqual(closed.merges, [one, two, { onto: "base", ancestor: "tip2" }])
    }
    assert.deepStrictEqual(next(first).merges, [{ onto: "base", ancestor: null }])
  })
})

describe("what happens to a pull request on its host", () => {
  const open = { repo: REPO, action_state: "idle", number: 7, state: "open", draft: true, merged: false, head_sha: "abc" } as const
  const having = (...reports: ReadonlyArray<Extract<SystemCommand, { _tag: "ReportPublication" }>["data"]>) => {
    const history = reach("idle")
    for (const data of reports) history.system({ _tag: "ReportPublication", data })
    return history.sandbox
  }
  const merged: PullRequest = { ...pullRequest, state: "closed", draft: false, merged: true }

  it.each<Partial<PullRequest>>([{ state: "closed" }, { draft: false }, { merged: true }, { headSha: "def" }])(
    "is told when it differs: %o",
    (change) => {
      const seen = { ...pullRequest, ...change }
      assert.deepStrictEqual(observed(having(open), REPO, seen), [published(REPO, seen, { sha: seen.headSha, merges: [] })])
    }
  )

  it("is told once, and not while we publish to it", () => {
    assert.deepStrictEqual(observed(having(open), REPO, pullRequest), [])
    assert.deepStrictEqual(observed(having(open, { repo: REPO, action_state: "updating" }), REPO, merged), [])
    assert.deepStrictEqual(observed(having({ ...open, number: 6 }), REPO, merged), [])
    assert.deepStrictEqual(observed(reach("idle").sandbox, REPO, merged), [])
  })

  it("leaves it as it was that the last publication failed", () => {
    const error = { code: "source_host_error", message: "No." }
    const [event] = observed(having(open, { repo: REPO, action_state: "failed", error }), REPO, merged)
    assert.deepInclude(event?.data, { action_state: "failed", error, merged: true })
  })

  /** A host with one pull request of {@link REPO}, and how often it was asked. */
  const host = (pullRequest: PullRequest) => {
    const asked: Array<number> = []
    return {
      asked,
      ports: Layer.mergeAll(
        SandboxStoreMemory.layer,
        Layer.mock(SourceHost, {
          names: ["test"],
          nameOf: () => Effect.succeed("test"),
          pullRequestDetails: (_, number) =>
            Effect.sync(() => {
              asked.push(number)
              return { pullRequest, checks: noChecks, comments: [], pending: false }
            })
        })
      ).pipe(Layer.provideMerge(HintsMemory.layer))
    }
  }
  const updates = Effect.gen(function*() {
    const store = yield* SandboxStore
    return (yield* store.log(id, 0, 100)).filter(({ type }) => type === "pull_request.updated").length
  })

  for (
    const [how, look] of [
      ["somebody asks how it stands", (publishing: Publishing["Service"]) => Effect.asVoid(publishing.status(by, id, undefined))],
      ["the host says so", (publishing: Publishing["Service"]) => publishing.follow("ACME/Shop", `slipway/${id}`)]
    ] as const
  ) {
    it.effect(`is an event, once, when ${how}`, () => {
      const { asked, ports } = host(merged)
      return Effect.gen(function*() {
        const { report, store } = yield* running
        const publishing = yield* Publishing
        yield* report({ _tag: "ReportPublication", data: open })
        yield* look(publishing)
        yield* look(publishing)
        assert.strictEqual(yield* updates, 2)
        assert.deepStrictEqual(asked, [7, 7])
        assert.deepInclude((yield* store.find({ grantId: by.grantId, id })).publications[0], {
          state: "closed",
          draft: false,
          merged: true
        })
      }).pipe(Effect.provide(Publishing.layer.pipe(Layer.provideMerge(ports))))
    })
  }

  const byPeople: ReadonlyArray<readonly [what: string, seen: PullRequest]> = [
    ["merges it", merged],
    ["closes it", { ...pullRequest, state: "closed" }],
    ["ends its draft", { ...pullRequest, draft: false }]
  ]
  for (const [way, how] of [["sent", "a webhook"], ["polled", "polling"]] as const) {
    it.effect.each(byPeople)(`is an event, once, when a person %s and ${how} tells of it`, ([, seen]) => {
      const { ports } = host(seen)
      return Effect.gen(function*() {
        const { report, store } = yield* running
        const news = yield* HandleNews
        yield* report({ _tag: "ReportPublication", data: open })
        for (let times = 0; times < 2; times++) {
          yield* news[way]({ _tag: "Pull", repo: RepoName.make(REPO), branch: `slipway/${id}`, number: 7 })
        }
        assert.strictEqual(yield* updates, 2)
        const { draft, merged, state } = seen
        assert.deepInclude((yield* store.find({ grantId: by.grantId, id })).publications[0], { draft, merged, state })
      }).pipe(Effect.provide(HandleNews.layer.pipe(
        Layer.provideMerge(Publishing.layer),
        Layer.provideMerge(Layer.merge(ports, FollowedRepositoriesMemory.layer))
      )))
    })
  }

  it.effect("is answered to its publisher as the worker recorded it, without a question to the host", () => {
    const { asked, ports } = host(merged)
    return Effect.gen(function*() {
      const publishing = yield* Publishing
      const { leased, store } = yield* running
      const changed = yield* Hints.use((hints) => hints.watch(id))
      const publisher = yield* Effect.forkChild(publishing.publish(by, id, undefined))
      yield* changed
      const event = published(REPO, pullRequest, { sha: pullRequest.headSha, merges: [] })
      yield* store.change(id, leased.lease, () => Result.succeed([event]), at)
      assert.deepStrictEqual(yield* Fiber.join(publisher), {
        actionState: "idle",
        checks: noChecks,
        comments: [],
        pullRequest,
        repository: REPO,
        detailsPending: true
      })
      assert.deepStrictEqual(asked, [])
      assert.deepInclude(yield* publishing.status(by, id, undefined), { pullRequest: merged, detailsPending: false })
      assert.deepStrictEqual(asked, [7])
    }).pipe(Effect.scoped, Effect.provide(Publishing.layer.pipe(Layer.provideMerge(ports))))
  })

  it.effect("is an event when the host says so by the repository's new name", () => {
    const { asked, ports } = host(merged)
    const renamed = Layer.effect(
      SourceHost,
      Effect.map(
        SourceHost,
        (host) =>
          SourceHost.of({ ...host, repository: () => Effect.succeed({ fullName: RepoName.make("Acme/Renamed"), defaultBranch: "main" }) })
      )
    )
    return Effect.gen(function*() {
      const { report } = yield* running
      const publishing = yield* Publishing
      yield* report({ _tag: "ReportPublication", data: open })
      yield* publishing.follow(RepoName.make("acme/another"), `slipway/${id}`)
      assert.deepStrictEqual(asked, [])
      yield* publishing.follow(RepoName.make("acme/renamed"), `slipway/${id}`)
      assert.deepStrictEqual(asked, [7])
      assert.strictEqual(yield* updates, 2)
    }).pipe(Effect.provide(Publishing.layer.pipe(Layer.provideMerge(Layer.provideMerge(renamed, ports)))))
  })

  it.effect("is not ours on other branches, in other repositories, and before anything was published", () => {
    const { asked, ports } = host(merged)
    return Effect.gen(function*() {
      const publishing = yield* Publishing
      yield* running
      yield* publishing.follow(REPO, `slipway/${id}`)
      yield* publishing.follow(REPO, "main")
      yield* publishing.follow("acme/third", `slipway/${id}`)
      yield* publishing.follow(REPO, "slipway/c_bbbbbbbbbbbb")
      assert.deepStrictEqual(asked, [])
      assert.strictEqual(yield* updates, 0)
    }).pipe(Effect.provide(Publishing.layer.pipe(Layer.provideMerge(ports))))
  })
})
