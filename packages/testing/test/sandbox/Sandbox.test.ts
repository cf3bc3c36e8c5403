import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { evolve, hasTrees, initial, isSettled } from "@slipway/domain/sandbox/rules/Sandbox"
import { type Initiator, type SandboxEvent, sizeOf, type StatusReason } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { moveTo, type TransitionCause, transitions } from "@slipway/domain/sandbox/rules/Transition"
import { Publication, Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { SandboxStatus } from "@slipway/domain/sandbox/schema/SandboxEvent"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { createdAt, creation, History, limits, reach, recordCheckpoint, request, Scene } from "@slipway/testing/histories/Histories"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

/** Decisions 2.1, row by row. */
const table: ReadonlyArray<readonly [TransitionCause, ReadonlyArray<SandboxStatus>, SandboxStatus, StatusReason | null, Initiator]> = [
  ["leased", ["queued"], "creating", null, "system"],
  ["queue_timeout", ["queued"], "failed", "queue_timeout", "policy"],
  ["ready", ["creating"], "running", null, "system"],
  ["boot_timeout", ["creating"], "failed", "boot_timeout", "policy"],
  ["boot_failed", ["creating"], "failed", "boot_failed", "provider"],
  ["clone_failed", ["creating"], "failed", "clone_failed", "provider"],
  ["repo_not_accessible", ["creating"], "failed", "repo_not_accessible", "provider"],
  ["idle_timeout", ["running"], "succeeded", "idle_timeout", "policy"],
  ["last_turn_failed", ["running"], "failed", "last_turn_failed", "policy"],
  ["agent_lost", ["running"], "failed", "agent_lost", "provider"],
  ["host_lost", ["running"], "failed", "host_lost", "provider"],
  ["terminated", ["queued", "creating", "running", "succeeded", "failed"], "terminating", "terminated", "user"],
  ["max_lifetime", ["queued", "creating", "running"], "terminating", "max_lifetime", "policy"],
  ["grant_revoked", ["queued", "creating", "running"], "terminating", "grant_revoked", "policy"],
  ["released", ["terminating"], "terminated", "terminated", "user"],
  ["release_failed", ["terminating"], "failed", "release_failed", "provider"]
]

const sceneOf: Readonly<Record<SandboxStatus, Scene>> = {
  queued: "queued",
  creating: "creating",
  running: "idle",
  succeeded: "succeeded",
  failed: "failed",
  terminating: "terminating",
  terminated: "terminated"
}
const statuses = SandboxStatus.literals

describe("changes of status", () => {
  it("every cause is in the table", () => {
    assert.sameMembers(Object.keys(transitions), table.map(([cause]) => cause))
  })

  for (const [cause, from, to, reason, initiator] of table) {
    for (const status of statuses) {
      const { sandbox } = reach(sceneOf[status])
      if (from.includes(status)) {
        it(`${cause} takes a sandbox that is ${status} to ${to}`, () => {
          const events = Result.getOrThrow(moveTo(sandbox, cause))
          const [changed, ...after] = events.slice(events.findIndex(({ type }) => type === "sandbox.status"))
          assert.deepStrictEqual(changed, { type: "sandbox.status", data: { status: to, previous: status, reason, initiator } })
          // A queued sandbox has no data on any host, so it is released at once.
          assert.deepStrictEqual(
            after,
            status === "queued" && to === "terminating"
              ? [{ type: "sandbox.status", data: { status: "terminated", previous: to, reason, initiator } }]
              : []
          )
        })
      } else {
        it(`${cause} is refused while ${status}`, () => {
          const refused = Result.flip(moveTo(sandbox, cause))
          assert.isTrue(Result.isSuccess(refused) && refused.success._tag === "IllegalTransition")
        })
      }
    }
  }

  it("a released sandbox carries the reason and initiator that began its end", () => {
    const history = reach("working")
    history.system({ _tag: "RevokeGrant" })
    const { after, events } = history.system({ _tag: "Release" })
    assert.deepStrictEqual(events.at(-1)?.data, {
      status: "terminated",
      previous: "terminating",
      reason: "grant_revoked",
      initiator: "policy"
    })
    assert.deepStrictEqual([after.reason, after.initiator], ["grant_revoked", "policy"])
  })

  it("a new sandbox is queued by its user, at revision 1", () => {
    const { log, sandbox } = reach("queued")
    assert.deepStrictEqual(log, [{
      at: createdAt,
      event: { type: "sandbox.status", data: { status: "queued", previous: null, reason: null, initiator: "user" } }
    }])
    assert.deepStrictEqual([sandbox.status, sandbox.revision, sandbox.lastSeq, sandbox.turn], ["queued", 1, 1, null])
  })

  it("a fork begins with the checkpoint of another sandbox", () => {
    assert.deepStrictEqual(reach("forked").log[1]?.event, {
      type: "sandbox.forked",
      data: { sandbox_id: SandboxId.make("c_zyxwvutsrqpn"), checkpoint: 3 }
    })
  })

  it("only a running sandbox, and one with a checkpoint that succeeded or failed, have trees", () => {
    const withTrees = (checkpoint: number) => statuses.filter((status) => hasTrees({ status, checkpoint }))
    assert.deepStrictEqual(withTrees(0), ["running"])
    assert.deepStrictEqual(withTrees(1), ["running", "succeeded", "failed"])
  })

  it("only succeeded, failed and terminated are settled", () => {
    assert.deepStrictEqual(statuses.filter(isSettled), ["succeeded", "failed", "terminated"])
  })
})

describe("what the service does", () => {
  type Effect = SandboxStatus | "nothing" | "refused"
  const rows: ReadonlyArray<readonly [SystemCommand, Readonly<Record<SandboxStatus, Effect>>]> = [
    [{ _tag: "StartBoot" }, {
      queued: "creating",
      creating: "nothing",
      running: "refused",
      succeeded: "refused",
      failed: "refused",
      terminating: "refused",
      terminated: "refused"
    }],
    [{ _tag: "FinishBoot", turnId: "t" }, {
      queued: "refused",
      creating: "running",
      running: "refused",
      succeeded: "refused",
      failed: "refused",
      terminating: "refused",
      terminated: "refused"
    }],
    [{ _tag: "Fail", reason: "boot_failed", error: "E.", retryable: false }, {
      queued: "refused",
      creating: "failed",
      running: "refused",
      succeeded: "refused",
      failed: "refused",
      terminating: "refused",
      terminated: "refused"
    }],
    [{ _tag: "Fail", reason: "host_lost", error: "E.", retryable: false }, {
      queued: "refused",
      creating: "refused",
      running: "failed",
      succeeded: "refused",
      failed: "refused",
      terminating: "refused",
      terminated: "refused"
    }],
    [{ _tag: "RevokeGrant" }, {
      queued: "terminated",
      creating: "terminating",
      running: "terminating",
      succeeded: "nothing",
      failed: "nothing",
      terminating: "nothing",
      terminated: "nothing"
    }],
    [{ _tag: "Release" }, {
      queued: "refused",
      creating: "refused",
      running: "refused",
      succeeded: "refused",
      failed: "refused",
      terminating: "terminated",
      terminated: "nothing"
    }]
  ]
  for (const [command, effects] of rows) {
    it.each(statuses)(`${command._tag}${"reason" in command ? ` (${command.reason})` : ""} while %s`, (status) => {
      const { after, before, events, refused } = reach(sceneOf[status]).system(command)
      const effect = refused !== null ? "refused" : events.length === 0 ? "nothing" : after.status
      assert.strictEqual(effect, effects[status])
      if (events.length === 0) assert.strictEqual(after, before)
    })
  }

  it("a sandbox that becomes ready begins its first turn with the prompt", () => {
    const { after, events } = reach("creating").system({ _tag: "FinishBoot", turnId: "turn-1" })
    assert.deepStrictEqual(events, [
      { type: "sandbox.status", data: { status: "running", previous: "creating", reason: null, initiator: "system" } },
      {
        type: "turn.updated",
        turn_id: "turn-1",
        data: { state: "pending", previous: null, text: creation.prompt, author: { id: creation.createdBy } }
      }
    ])
    assert.deepStrictEqual(after.turn, {
      n: 1,
      id: "turn-1",
      prompt: creation.prompt,
      authorId: creation.createdBy,
      state: "pending",
      startedAt: null,
      interruptRequested: false,
      began: { seq: after.lastSeq - 1, bytes: after.logBytes - sizeOf(events[1] as SandboxEvent) }
    })
  })

  it("a failure says its sentence first, ends the turn, and then the sandbox", () => {
    const history = reach("asking")
    const { after, events } = history.system({ _tag: "Fail", reason: "agent_lost", error: "The agent is gone.", retryable: true })
    assert.deepStrictEqual(events, [
      { type: "sandbox.error", data: { code: "agent_lost", message: "The agent is gone.", retryable: true } },
      { type: "approval.resolved", turn_id: history.turn, data: { approval_id: "call-1", outcome: "denied", by: "turn_end" } },
      { type: "turn.completed", turn_id: history.turn, data: { state: "failed", reason: "agent_lost", initiator: "provider" } },
      { type: "sandbox.status", data: { status: "failed", previous: "running", reason: "agent_lost", initiator: "provider" } }
    ])
    assert.strictEqual(after.error, "The agent is gone.")
  })

  it("boot is reported while it lasts, and not later", () => {
    const data = { stage: "clone", ms: 1200, repo: "acme/shop" } as const
    const history = reach("creating")
    assert.deepStrictEqual(history.system({ _tag: "ReportBoot", data }).events, [{ type: "sandbox.boot", data }])
    for (const scene of ["queued", "pending", "terminating"] as const) {
      assert.strictEqual(reach(scene).system({ _tag: "ReportBoot", data }).refused, "IllegalTransition")
    }
  })

  it("setup is told of in a boot and wherever it runs again, and of no sandbox that is ending", () => {
    const data = { stage: "setup", ms: 1200, repo: "acme/shop", cache: "none" } as const
    const start = { _tag: "StartSetup", limit: Duration.minutes(90) } as const
    for (const scene of ["creating", "pending", "idle"] as const) {
      const history = reach(scene)
      // The time of all of them has a bound.
      assert.deepStrictEqual(history.system(start).events, [{ type: "setup.started", data: { limit_ms: 3_600_000 } }])
      assert.deepStrictEqual(history.system({ _tag: "ReportBoot", data }).events, [{ type: "sandbox.boot", data }])
    }
    const { events } = reach("idle").system({ _tag: "StartSetup", limit: Duration.millis(1.5) })
    assert.deepStrictEqual(events, [{ type: "setup.started", data: { limit_ms: 2 } }], "whole milliseconds")
    for (const scene of ["queued", "terminating", "failed"] as const) {
      assert.strictEqual(reach(scene).system(start).refused, "IllegalTransition")
      assert.strictEqual(reach(scene).system({ _tag: "ReportBoot", data }).refused, "IllegalTransition")
    }
  })

  it("the newest total of usage is the sandbox's, whatever it is doing", () => {
    const usage = { llmRequestCount: 2, costMicroUsd: 10, creditsChargedMicros: 0 }
    for (const scene of ["working", "terminated"] as const) {
      const { after, before } = reach(scene).system({ _tag: "ReportUsage", usage })
      assert.deepStrictEqual(after, {
        ...before,
        usage,
        lastSeq: before.lastSeq + 1,
        recordedAt: after.recordedAt,
        logBytes: after.logBytes
      })
    }
  })

  it("the newest total of tokens stays the sandbox's when usage is told without them", () => {
    const history = reach("working")
    const tokens = { input: 12_345, cachedInput: 9000, output: 678 }
    const usage = { llmRequestCount: 2, costMicroUsd: 10, creditsChargedMicros: 0 }
    assert.deepStrictEqual(history.system({ _tag: "ReportUsage", usage, tokens }).events, [{
      type: "usage.updated",
      data: { usage, tokens }
    }])
    assert.deepStrictEqual(history.sandbox.tokens, tokens)
    assert.deepStrictEqual(history.system({ _tag: "ReportUsage", usage }).events, [{ type: "usage.updated", data: { usage } }])
    assert.deepStrictEqual(history.sandbox.tokens, tokens)
  })

  it("a publication keeps what it knew of its repository, whatever the case of the name", () => {
    const history = reach("working")
    const report = (data: Extract<SystemCommand, { _tag: "ReportPublication" }>["data"]) =>
      history.system({ _tag: "ReportPublication", data }).after.publications
    report({ repo: "acme/Shop", action_state: "publishing" })
    report({ repo: "acme/other", action_state: "publishing" })
    const url = "https://h/7"
    const seen = { number: 7, url, headSha: "abc", state: "open", draft: true, merged: false } as const
    assert.deepStrictEqual(
      report({ repo: "ACME/shop", action_state: "idle", number: 7, url, head_sha: "abc", state: "open", draft: true, merged: false }),
      [
        { repo: "acme/Shop", actionState: "idle", ...seen, error: null },
        { repo: "acme/other", actionState: "publishing", number: null, headSha: null, state: null, draft: null, merged: null, error: null }
      ]
    )
    const error = { code: "source_host_error", message: "No." }
    assert.deepStrictEqual(report({ repo: "acme/shop", action_state: "failed", error })[0], {
      repo: "acme/Shop",
      actionState: "failed",
      ...seen,
      error
    })
    assert.deepInclude(report({ repo: "acme/shop", action_state: "idle", draft: false, merged: true, state: "closed" })[0], {
      ...seen,
      draft: false,
      merged: true,
      state: "closed"
    })
    assert.strictEqual(report({ repo: "acme/shop", action_state: "updating" })[0]?.error, null)
  })

  it("a publication remembers when its pull request was first seen as merged", () => {
    const history = reach("working")
    const begun = history.sandbox.recordedAt
    assert(begun !== null)
    const report = (merged?: boolean) => {
      const data = {
        repo: "acme/shop",
        action_state: "idle",
        number: 7,
        state: "open",
        ...(merged === undefined ? {} : { merged })
      } as const
      const [known] = history.wait("1 minute").system({ _tag: "ReportPublication", data }).after.publications
      return known?.mergedAt === undefined ? null : Math.round((known.mergedAt.epochMilliseconds - begun.epochMilliseconds) / 60_000)
    }
    assert.deepStrictEqual([report(), report(false), report(true), report(true), report(false), report()], [null, null, 3, 3, 3, 3])
  })

  it("a publication remembers its newest pull request, and the commit that it pushed itself", () => {
    const history = reach("idle")
    const report = (data: Omit<Extract<SystemCommand, { _tag: "ReportPublication" }>["data"], "repo">) => {
      const [known] = history.system({ _tag: "ReportPublication", data: { repo: "acme/shop", ...data } }).after.publications
      return [known?.pushed, known?.pullRequest?.title]
    }
    const pullRequest = (title: string): PullRequest => ({
      id: 1,
      nodeId: "PR_1",
      number: 7,
      url: "https://h/7",
      title,
      state: "open",
      draft: true,
      merged: false,
      baseRef: "main",
      headRef: "slipway/c",
      headSha: "abc",
      createdAt,
      updatedAt: createdAt,
      additions: 2,
      deletions: 3,
      changedFiles: 4
    })
    const commit = (sha: string) => ({ head_ref: "slipway/c", head_sha: sha })
    const error = { code: "source_host_error", message: "No." }
    assert.deepStrictEqual(report({ action_state: "idle", ...commit("a") }), [undefined, undefined])
    report({ action_state: "publishing" })
    assert.deepStrictEqual(report({ action_state: "updating", ...commit("b") }), [undefined, undefined])
    assert.deepStrictEqual(report({ action_state: "idle", ...commit("c"), error }), [undefined, undefined])
    report({ action_state: "updating" })
    const pushed = { headRef: "slipway/c", sha: "d", merges: [] }
    assert.deepStrictEqual(report({ action_state: "idle", ...commit("d"), pull_request: pullRequest("One") }), [pushed, "One"])
    assert.deepStrictEqual(report({ action_state: "idle", ...commit("e") }), [pushed, "One"])
    report({ action_state: "updating" })
    assert.deepStrictEqual(report({ action_state: "idle", head_sha: "f", pull_request: pullRequest("Two") }), [pushed, "Two"])
    report({ action_state: "updating" })
    const merges = [{ onto: "a", ancestor: null }]
    assert.deepStrictEqual(report({ action_state: "idle", ...commit("g"), merges })[0], { headRef: "slipway/c", sha: "g", merges })
  })

  it("another commit of a pull request owes a running sandbox a checkpoint", () => {
    const owes = (history: History, sha?: string, repo: RepoName = "acme/shop") =>
      history.system({
        _tag: "ReportPublication",
        data: { repo, action_state: "idle", ...(sha === undefined ? {} : { head_sha: sha }) }
      }).after.owesCheckpoint
    const history = reach("idle")
    assert.isTrue(owes(history))
    history.system(recordCheckpoint(1))
    assert.isFalse(owes(history))
    assert.isTrue(owes(history, "a"))
    history.system(recordCheckpoint(2))
    assert.isFalse(owes(history, "a"))
    assert.isFalse(owes(history))
    assert.isFalse(owes(history, undefined, "acme/other"))
    history.wait(limits.idle).system({ _tag: "Expire" })
    assert.isFalse(owes(history, "b"))
  })

  it("a sandbox is idle from the end of its last publication, and not while its agent works", () => {
    const history = reach("idle")
    const idleSince = (state: "idle" | "publishing" | "updating" | "failed") =>
      history.wait("1 minute").system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: state } }).after.idleSince
    const after = (minutes: number) => DateTime.add(createdAt, { minutes })
    const states = ["failed", "publishing", "updating", "failed", "idle", "updating", "idle"] as const
    assert.deepStrictEqual(states.map(idleSince), [0, 0, 0, 4, 4, 4, 7].map(after))
    idleSince("updating")
    history.person({ _tag: "Send", prompt: "And now?" })
    assert.isNull(idleSince("idle"))
  })

  it("the time of a boot's setups is counted from setup.started to their end, and gone with the boot", () => {
    const history = reach("creating")
    const boot = (stage: "clone" | "setup") =>
      history.wait("1 minute").system({ _tag: "ReportBoot", data: { stage, ms: 1 } }).after.setupTime
    assert.isNull(boot("setup"))
    history.system({ _tag: "StartSetup", limit: Duration.minutes(20) })
    const run = { since: DateTime.add(createdAt, { minutes: 1 }), limitMs: 1_200_000 }
    assert.deepStrictEqual(boot("clone"), { spentMs: 0, run })
    assert.deepStrictEqual(boot("setup"), { spentMs: 120_000, run: null })
    assert.isNull(history.system({ _tag: "FinishBoot", turnId: history.turn }).after.setupTime)
  })
})

describe("a history", () => {
  it("begins with nothing but the creation", () => {
    assert.deepStrictEqual(initial(creation), {
      ...creation,
      feedback: null,
      budgetMicroUsd: null,
      environment: {},
      status: "queued",
      reason: null,
      initiator: "user",
      statusAt: createdAt,
      startedAt: null,
      setupTime: null,
      completedAt: null,
      error: null,
      turn: null,
      waiting: [],
      waitingTexts: [],
      turnless: 0,
      idleSince: null,
      approvals: [],
      publications: [],
      tokens: { input: 0, cachedInput: 0, output: 0 },
      usage: { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 },
      checkpoint: 0,
      owesCheckpoint: false,
      pinned: false,
      restoring: null,
      syncing: false,
      syncs: 0,
      restores: 0,
      renames: 0,
      revision: 0,
      lastSeq: 0,
      recordedAt: null,
      logBytes: 0
    })
  })

  it("goes on without what an event of a turn leaves out", () => {
    const { sandbox } = reach("idle")
    const pending = { type: "turn.updated", data: { state: "pending", previous: null } } as const
    const { turn } = evolve(sandbox, { ...pending, turn_id: "next" }, createdAt)
    assert.deepStrictEqual([turn?.id, turn?.n, turn?.prompt, turn?.authorId], ["next", 2, "", ""])
    assert.strictEqual(evolve(sandbox, pending, createdAt).turn, sandbox.turn)
  })

  it("keeps that a turn was asked to end until the next one begins", () => {
    const { sandbox, turn } = reach("interrupting")
    const events = [
      { type: "turn.updated", turn_id: turn, data: { state: "running", previous: "running" } },
      { type: "turn.completed", turn_id: turn, data: { state: "succeeded" } }
    ] as const
    for (const event of events) assert.isTrue(evolve(sandbox, event, createdAt).turn?.interruptRequested, event.type)
    const next = { type: "turn.updated", turn_id: "next", data: { state: "pending", previous: null } } as const
    assert.isFalse(evolve(sandbox, next, createdAt).turn?.interruptRequested)
  })

  it("only counts a message that does not wait", () => {
    const { sandbox } = reach("working")
    const event = { type: "message.cancelled", data: { message_id: "another", reason: "command" } } as const
    assert.deepStrictEqual(evolve(sandbox, event, createdAt), {
      ...sandbox,
      revision: sandbox.revision + 1,
      lastSeq: sandbox.lastSeq + 1,
      logBytes: sandbox.logBytes + sizeOf(event)
    })
  })

  it("says that a turn was interrupted also where no agent had taken it", () => {
    assert.isTrue(reach("pending").person({ _tag: "Interrupt" }).after.turn?.interruptRequested)
    assert.isFalse(reach("idle").sandbox.turn?.interruptRequested)
  })

  it("owes a checkpoint after a turn that an agent took", () => {
    const owes = (scene: Scene) => {
      const history = reach(scene)
      if (scene === "idle") history.person({ _tag: "Send", prompt: "And now?" })
      return history.person({ _tag: "Interrupt" }).after.owesCheckpoint
    }
    assert.deepStrictEqual([owes("pending"), reach("idle").sandbox.owesCheckpoint, owes("idle")], [false, true, true])
  })

  it("has the kinds of calls that are approved for the rest of the turn", () => {
    const history = reach("asking")
    const approve = (n: number, more: { readonly scope?: "turn" }) =>
      history.person({ _tag: "Decide", approvalId: `call-${n}`, decision: "approve", ...more }).after.turn?.approvedKinds
    history.system(request(history.turn, "call-2", "command"))
    history.system(request(history.turn, "call-3", "network"))
    assert.isUndefined(approve(3, {}))
    assert.deepStrictEqual(approve(2, { scope: "turn" }), ["command"])
    assert.deepStrictEqual(approve(1, { scope: "turn" }), ["command", "edit"])
  })

  it.each<Scene>(["creating", "working"])("only counts an event of a turn that is not the latest (%s)", (scene) => {
    const { sandbox } = reach(scene)
    const counted = { ...sandbox, revision: sandbox.revision + 1, lastSeq: sandbox.lastSeq + 1 }
    for (const turn_id of ["another", undefined]) {
      const named = turn_id === undefined ? {} : { turn_id }
      const events = [
        { type: "turn.started", ...named, data: { prompt_id: "another", text: "", files: [], author: { id: "user-1" } } },
        { type: "turn.updated", ...named, data: { state: "awaiting_approval", previous: "running" } },
        { type: "turn.completed", ...named, data: { state: "failed" } }
      ] as const
      for (const event of events) {
        assert.deepStrictEqual(
          evolve(sandbox, event, sandbox.statusAt),
          { ...counted, recordedAt: sandbox.statusAt, logBytes: sandbox.logBytes + sizeOf(event) },
          event.type
        )
      }
    }
  })
})

describe("the text that an agent writes", () => {
  const says = (message_id: string, kind: "text" | "reasoning" = "text") =>
    ({ type: "message.updated", data: { part_id: `${message_id}:${kind}`, message_id, kind, text: "T" } }) as const
  const calls = (status: "pending" | "running") =>
    ({ type: "tool.updated", data: { part_id: "tool:c", message_id: "m", call_id: "c", tool: "t", status } }) as const
  const completed = (message_id: string) => ({ type: "message.completed", data: { message_id, finish: "end_turn" } }) as const
  const writing = () => {
    const history = reach("working")
    history.system({ _tag: "RecordWork", turnId: history.turn, events: [says("m")] })
    return history
  }

  it("is known by its message and its newest event", () => {
    const { sandbox } = writing()
    assert.deepInclude(sandbox.turn, { speaking: "m", spokeAt: sandbox.lastSeq })
    const other = evolve(sandbox, { ...says("n"), turn_id: "another" }, createdAt)
    assert.strictEqual(other.turn, sandbox.turn)
  })

  it.each<readonly [string, string | undefined, ReturnType<typeof says> | ReturnType<typeof calls> | ReturnType<typeof completed>]>([
    ["goes on with the next text", "n", says("n")],
    ["goes on while its own message thinks", "m", says("m", "reasoning")],
    ["ends when another message thinks", undefined, says("n", "reasoning")],
    ["ends with its message", undefined, completed("m")],
    ["goes on when another message ends", "m", completed("n")],
    ["ends when a call begins", undefined, calls("pending")],
    ["goes on when a call does", "m", calls("running")]
  ])("%s", (_, speaking, event) => {
    const history = writing()
    const { after } = history.system({ _tag: "RecordWork", turnId: history.turn, events: [event] })
    assert.strictEqual(after.turn?.speaking, speaking)
    assert.strictEqual(after.turn?.spokeAt !== undefined, speaking !== undefined)
  })

  it("ends when the agent takes a message, and not when one is taken back", () => {
    const history = writing()
    const [first = "", second = ""] = ["One", "Two"].map((prompt) => {
      history.person({ _tag: "Send", prompt, whenBusy: "steer" })
      return history.sandbox.waiting.at(-1)?.id
    })
    assert.strictEqual(history.person({ _tag: "Cancel", messageId: second }).after.turn?.speaking, "m")
    assert.isUndefined(history.system({ _tag: "RecordSteer", turnId: history.turn, messageId: first }).after.turn?.speaking)
  })
})

describe("what a sandbox remembers", () => {
  it("when its last turn ended, until the next one begins", () => {
    const history = reach("idle")
    assert.deepStrictEqual(history.sandbox.idleSince, createdAt)
    history.person({ _tag: "Send", prompt: "And now?" })
    assert.isNull(history.sandbox.idleSince)
  })

  it("is all stored, whatever it is doing", () => {
    for (const scene of Scene.literals) {
      const history = reach(scene)
      history.system({ _tag: "StartSetup", limit: Duration.minutes(1) })
      history.system({ _tag: "ReportUsage", usage: { llmRequestCount: 2, costMicroUsd: 10, creditsChargedMicros: 1 } })
      const error = { code: "unavailable", message: "Later.", retry_after: 3 }
      history.system({ _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "failed", number: 7, head_sha: "abc", error } })
      const stored = JSON.stringify(Schema.encodeSync(Sandbox)(history.sandbox))
      const { metadata, ...read } = Schema.decodeUnknownSync(Sandbox)(JSON.parse(stored))
      assert.deepStrictEqual({ ...read, metadata: { ...metadata } }, history.sandbox, scene)
    }
  })

  it("all of a publication", () => {
    const at = "2026-11-21T02:41:00.123Z"
    const publication = {
      repo: "acme/shop",
      actionState: "idle",
      number: 7,
      url: "https://h/7",
      pullRequest: {
        id: 1,
        nodeId: "PR_1",
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
        additions: 2,
        deletions: 3,
        changedFiles: 4
      },
      headSha: "abc",
      state: "open",
      draft: true,
      merged: false,
      pushed: { headRef: "slipway/c", sha: "abc", merges: [{ onto: "ab", ancestor: null }] },
      error: null
    }
    for (const state of ["open", "closed", null]) {
      const stored = { ...publication, state }
      assert.deepStrictEqual(Schema.encodeSync(Publication)(Schema.decodeUnknownSync(Publication)(stored)) as unknown, stored)
    }
  })

  it("no time of its newest event in a row of an earlier version", () => {
    const { recordedAt: _, ...row } = Schema.encodeSync(Sandbox)(reach("working").sandbox)
    assert.isNull(Schema.decodeUnknownSync(Sandbox)(row).recordedAt)
  })

  it("when it first ran and when it was first over, once each", () => {
    const history = new History()
    const times = () => [history.sandbox.startedAt, history.sandbox.completedAt]
    assert.deepStrictEqual(times(), [null, null])
    history.wait("1 minute").system({ _tag: "StartBoot" })
    assert.deepStrictEqual(times(), [null, null])
    history.wait("1 minute").system({ _tag: "FinishBoot", turnId: history.turn })
    const startedAt = DateTime.add(createdAt, { minutes: 2 })
    assert.deepStrictEqual(times(), [startedAt, null])
    history.wait("1 minute").system({ _tag: "Fail", reason: "host_lost", error: "E.", retryable: false })
    const completedAt = DateTime.add(createdAt, { minutes: 3 })
    assert.deepStrictEqual(times(), [startedAt, completedAt])
    history.wait("1 minute").person({ _tag: "Terminate" })
    history.wait("1 minute").system({ _tag: "Release" })
    assert.deepStrictEqual(times(), [startedAt, completedAt])
    assert.strictEqual(history.sandbox.status, "terminated")
  })

  it("a sandbox that never ran was never started, and is complete when it is terminated", () => {
    const history = reach("creating")
    history.person({ _tag: "Terminate" })
    assert.strictEqual(history.sandbox.completedAt, null)
    history.wait("1 minute").system({ _tag: "Release" })
    assert.deepStrictEqual(
      [history.sandbox.startedAt, history.sandbox.completedAt],
      [null, DateTime.add(createdAt, { minutes: 1 })]
    )
  })

  it("a sentence about why it failed, until it is terminated", () => {
    const history = reach("failed")
    assert.strictEqual(history.sandbox.error, "The image is gone.")
    history.person({ _tag: "Terminate" })
    assert.isNull(history.sandbox.error)
  })

  it.each<readonly [Scene, Duration.Duration]>([
    ["queued", limits.queue],
    ["creating", limits.boot],
    ["stuck", limits.idle],
    ["terminating", limits.release]
  ])("a sandbox that fails of a time limit while %s has a sentence too", (scene, limit) => {
    const { after } = reach(scene).wait(limit).system({ _tag: "Expire" })
    assert.strictEqual(after.status, "failed")
    assert.match(after.error ?? "", /^[A-Z].*\.$/u)
  })
})

describe("revision", () => {
  const turn = reach("working").turn
  const rows: ReadonlyArray<readonly [string, Scene, SystemCommand, number]> = [
    ["a change of status", "queued", { _tag: "StartBoot" }, 1],
    ["a change of status and of the turn", "creating", { _tag: "FinishBoot", turnId: turn }, 2],
    ["a turn's start", "pending", { _tag: "StartTurn", turnId: turn }, 1],
    ["a request for approval, which also changes the turn", "working", request(turn, "call-1"), 2],
    ["a second one", "asking", request(turn, "call-2"), 1],
    ["a turn's end with its approval", "asking", { _tag: "EndTurn", turnId: turn, state: "succeeded" }, 2],
    ["a pull request", "working", { _tag: "ReportPublication", data: { repo: "acme/shop", action_state: "idle" } }, 1],
    ["a step of boot", "creating", { _tag: "ReportBoot", data: { stage: "ready", ms: 1 } }, 0],
    ["usage", "working", { _tag: "ReportUsage", usage: { llmRequestCount: 1, costMicroUsd: 1, creditsChargedMicros: 1 } }, 0],
    ["text and tools", "working", {
      _tag: "RecordWork",
      turnId: turn,
      events: [
        { type: "message.updated", data: { part_id: "m:text", message_id: "m", kind: "text", text: "T" } },
        { type: "tool.updated", data: { part_id: "tool:c", message_id: "m", call_id: "c", tool: "t", status: "pending" } },
        { type: "message.completed", data: { message_id: "m", finish: "end_turn" } }
      ]
    }, 0],
    // The sentence does not count, the turn's end and the status do.
    ["a failure", "working", { _tag: "Fail", reason: "agent_lost", error: "E.", retryable: false }, 2]
  ]
  it.each(rows)("%s", (_, scene, command, counts) => {
    const { after, before, events } = reach(scene).system(command)
    assert.isAbove(events.length, 0)
    assert.strictEqual(after.revision - before.revision, counts)
    assert.strictEqual(after.lastSeq - before.lastSeq, events.length)
  })
})

it("decide takes its time from the command alone", () => {
  const { sandbox } = reach("working")
  const ask = (now: DateTime.Utc) => Result.getOrThrow(decide(sandbox, request(sandbox.turn?.id ?? "", "c"), { limits, now }))
  assert.deepStrictEqual(ask(createdAt), ask(createdAt))
  assert.notDeepEqual(ask(createdAt), ask(DateTime.add(createdAt, { seconds: 1 })))
})
