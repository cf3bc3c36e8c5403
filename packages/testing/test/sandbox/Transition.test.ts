import { assert, describe, it } from "@effect/vitest"
import { decide, type SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { closeRequests, moveTo, resolveApprovals, type TransitionCause } from "@slipway/domain/sandbox/rules/Transition"
import { createdAt, type History, limits, reach, type Scene } from "@slipway/testing/histories/Histories"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"

const turn = reach("working").turn
const report = (history: History, data: Extract<SystemCommand, { _tag: "ReportPublication" }>["data"]) =>
  history.system({ _tag: "ReportPublication", data })

describe("a refusal", () => {
  it("says what was refused, and of a sandbox in which state", () => {
    const said = (result: Result.Result<unknown, { readonly message: string }>) => Result.isFailure(result) ? result.failure.message : null
    const ask = (command: SystemCommand, scene: Scene) => said(decide(reach(scene).sandbox, command, { limits, now: createdAt }))
    assert.strictEqual(said(moveTo(reach("idle").sandbox, "leased")), "leased is not possible while running")
    assert.strictEqual(ask({ _tag: "StartTurn", turnId: turn }, "idle"), "StartTurn is not possible while running/succeeded")
    assert.strictEqual(
      ask({ _tag: "ReportBoot", data: { stage: "ready", ms: 1 } }, "queued"),
      "ReportBoot is not possible while queued/no turn"
    )
    assert.strictEqual(
      ask({ _tag: "RequestApproval", turnId: turn, approval: { approval_id: "c", tool: "t" } }, "pending"),
      "RequestApproval is not possible while running/pending"
    )
  })
})

describe("a turn that outlives its sandbox's end", () => {
  const ends: ReadonlyArray<readonly [string, (history: History) => unknown]> = [
    ["grant_revoked", (history) => history.system({ _tag: "RevokeGrant" })],
    ["max_lifetime", (history) => history.wait(limits.lifetime).system({ _tag: "Expire" })]
  ]
  for (const [reason, end] of ends) {
    it(`ends at the release with what began it (${reason})`, () => {
      for (const [scene, state] of [["working", "interrupted"], ["pending", "cancelled"]] as const) {
        const history = reach(scene)
        end(history)
        assert.deepStrictEqual<object | undefined>(history.system({ _tag: "Release" }).events[0], {
          type: "turn.completed",
          turn_id: turn,
          data: { state, reason, initiator: "policy" }
        })
      }
    })
  }
})

describe("an approval", () => {
  const { sandbox } = reach("asking")
  const resolved = { type: "approval.resolved", data: { approval_id: "call-1", outcome: "denied", by: "timeout" } } as const

  it("resolved for a turn that does not wait leaves the turn as it is", () => {
    assert(sandbox.turn !== null)
    const running = { ...sandbox, turn: { ...sandbox.turn, state: "running" as const } }
    assert.deepStrictEqual(resolveApprovals(running, [resolved.data]), [{ ...resolved, turn_id: turn }])
  })

  it("has its whole time from when it is recorded, also where its worker's clock is behind the newest event", () => {
    const { sandbox, turn } = reach("working")
    const newest = DateTime.add(createdAt, { hours: 1 })
    const decided = decide(
      { ...sandbox, recordedAt: newest },
      { _tag: "RequestApproval", turnId: turn, approval: { approval_id: "c", tool: "t" } },
      { limits, now: createdAt }
    )
    assert.deepStrictEqual(
      Result.getOrThrow(decided).flatMap((event) => event.type === "approval.requested" ? [event.data.expires_at] : []),
      [DateTime.addDuration(newest, limits.approval)]
    )
  })

  it("resolved outside a turn names none", () => {
    assert.deepStrictEqual(resolveApprovals({ ...sandbox, turn: null }, [resolved.data]), [resolved])
    assert.deepStrictEqual(closeRequests({ ...sandbox, turn: null }, "timeout"), [resolved])
  })
})

describe("a publication that no worker will execute any more", () => {
  const failed = (repo: string) => ({
    type: "pull_request.updated",
    data: { repo, action_state: "failed", error: { code: "sandbox_not_running", message: "The sandbox is not running." } }
  })

  it("fails when it is under way, and stays as it is otherwise", () => {
    const history = reach("idle")
    for (const state of ["publishing", "updating", "idle", "failed"] as const) {
      report(history, { repo: `acme/${state}`, action_state: state })
    }
    const changes = Result.getOrThrow(moveTo(history.sandbox, "idle_timeout")).filter(({ type }) => type === "pull_request.updated")
    assert.deepStrictEqual<ReadonlyArray<object>>(changes, [failed("acme/publishing"), failed("acme/updating")])
  })

  it("fails with every change of status but those on the way to running", () => {
    const failing = (scene: Scene, cause: TransitionCause) => {
      const history = reach(scene)
      report(history, { repo: "acme/shop", action_state: "publishing" })
      return Result.getOrThrow(moveTo(history.sandbox, cause)).filter(({ type }) => type === "pull_request.updated")
    }
    for (const [scene, cause] of [["queued", "leased"], ["creating", "ready"]] as const) assert.deepStrictEqual(failing(scene, cause), [])
    const ends = [["idle", "idle_timeout"], ["stuck", "last_turn_failed"], ["working", "host_lost"], ["working", "terminated"], [
      "terminating",
      "released"
    ]] as const
    for (const [scene, cause] of ends) assert.deepStrictEqual<ReadonlyArray<object>>(failing(scene, cause), [failed("acme/shop")], cause)
  })
})
