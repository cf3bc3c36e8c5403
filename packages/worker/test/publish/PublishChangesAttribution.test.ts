import { assert, describe, it } from "@effect/vitest"
import { NoChanges, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { pullRequestId } from "@slipway/domain/partner/rules/Attribution"
import { CommitAuthor, CommitMessage, request } from "@slipway/domain/publishing/rules/Publication"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { TaskOrganization } from "@slipway/domain/sandbox/ports/SandboxFacts"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { decide } from "@slipway/domain/sandbox/rules/SystemCommand"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { noChecks } from "@slipway/domain/source/schema/PullRequest"
import { creation } from "@slipway/testing/histories/Histories"
import { DateTime, Effect, Layer } from "effect"
import { publishChanges } from "../../src/publish/PublishChanges.ts"
import { draft } from "../PullRequests.ts"

const claimId = "0197f1a0-0000-7000-8000-000000000001"
const organizationId = "0197f1a0-0000-7000-8000-0000000000a1"
const at = DateTime.makeUnsafe("2026-11-22T00:00:00.000Z")
const REPO = creation.repos[0]?.fullName ?? ""
const lead = { claimId, leadId: "lead", variant: "a" }
const pull = draft(`slipway/${creation.id}`, "1".repeat(40))

/** Publishes a sandbox that started under a touch, as often as given, and says what its partner hears of it. */
const published = (times: number, changes = true) => {
  const ports = Layer.mergeAll(
    SandboxStoreMemory.layer,
    Layer.mock(WorkingTrees, {
      folder: () => "",
      branches: () => Effect.succeed({ head: null, isGone: false, root: null, tips: new Map([["main", "b".repeat(40)]]) }),
      snapshot: () =>
        changes
          ? Effect.succeed({ sha: pull.headSha, baseRef: "main", baseSha: pull.headSha })
          : Effect.fail(new NoChanges({ repo: REPO })),
      push: () => Effect.void
    }),
    Layer.mock(SourceHost, {
      names: ["memory"],
      nameOf: () => Effect.succeed("memory"),
      remote: () => Effect.succeed({ url: "/origin", authorization: null }),
      repository: () => Effect.succeed({ fullName: REPO, defaultBranch: "main" }),
      pullRequestDetails: () => Effect.succeed({ pullRequest: pull, checks: noChecks, comments: [], pending: false }),
      pullRequestPushed: () => Effect.succeed(pull),
      findOpenPullRequest: () => Effect.succeed(null),
      openDraftPullRequest: () => Effect.succeed(pull)
    })
  ).pipe(Layer.provideMerge(PartnerStoreMemory.layer), Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layer)))
  return Effect.gen(function*() {
    const partners = yield* PartnerStore
    const store = yield* SandboxStore
    const leases = yield* Leases
    const limits = yield* Policy
    yield* partners.createClaim({ ...lead, grantId: "g", creditAmount: 1 })
    yield* partners.claim(claimId, { recipientId: creation.createdBy, organizationId })
    const { sandbox: { id } } = yield* Effect.provideService(
      store.create({ creation, keyed: null }),
      TaskOrganization,
      organizationId
    )
    const [leased] = yield* leases.take({ worker: "w", machine: "m" }, { slots: 1, boots: 1, errands: 1 })
    assert(leased !== undefined)
    for (const command of [{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: "t" }] as const) {
      yield* store.change(id, leased.lease, (sandbox) => decide(sandbox, command, { limits, now: at }), at)
    }
    for (let i = 0; i < times; i++) {
      const { sandbox: wished } = yield* store.change(id, leased.lease, (sandbox) => request(sandbox, REPO), at)
      yield* publishChanges(leased.lease, wished, REPO)
    }
    const told = (yield* partners.feed("g", 2, 10)).map(({ data, type }) => ({ type, data }))
    return { told, id: pullRequestId(yield* Ids, { host: "memory", repo: REPO, number: 7 }) }
  }).pipe(Effect.provide(ports.pipe(
    Layer.provideMerge([Layer.succeed(CommitAuthor, { name: "A", email: "a@example.com" }), Layer.succeed(CommitMessage, "Publish")])
  )))
}

describe("publishing a sandbox that started under a touch", () => {
  it.effect("tells of its pull request once, however often it is published", () =>
    Effect.gen(function*() {
      for (const times of [1, 3]) {
        const { id, told } = yield* published(times)
        assert.deepStrictEqual(told.slice(1), [{
          type: "pull_request.opened",
          data: { ...lead, occurredAt: DateTime.makeUnsafe(0), pullRequestId: id, taskId: creation.id, projectId: null }
        }])
      }
    }))

  it.effect("tells of nothing where nothing was opened", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* published(1, false)).told.map(({ type }) => type), ["task.started"])
    }))
})
