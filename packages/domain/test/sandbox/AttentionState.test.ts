import { assert, describe, it } from "@effect/vitest"
import { attentionStateOf, stateWords } from "@slipway/domain/sandbox/rules/AttentionState"
import type { Publication, Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { Turn, TurnState } from "@slipway/domain/sandbox/rules/Turn"
import { AttentionState } from "@slipway/domain/sandbox/schema/AttentionState"
import * as DateTime from "effect/DateTime"

const turn = (state: TurnState): Turn => ({
  n: 1,
  id: "t",
  prompt: "p",
  authorId: "u",
  state,
  startedAt: null,
  interruptRequested: false
})
const pull = (state: Publication["state"], actionState: Publication["actionState"] = "idle"): Publication => ({
  repo: "acme/shop",
  actionState,
  number: 7,
  headSha: null,
  state,
  draft: null,
  merged: null,
  error: null
})
const request = { approval_id: "c", tool: "write", expires_at: DateTime.makeUnsafe(0) }

type Facts = Parameters<typeof attentionStateOf>[0]
/** After a successful turn, without a pull request. */
const rested: Facts = { status: "running", turn: turn("succeeded"), approvals: [], publications: [], restoring: null }

describe("a sandbox", () => {
  it.each<readonly [state: AttentionState, when: string, facts: Partial<Sandbox>]>([
    ["starting", "before its boot", { status: "queued", turn: null }],
    ["starting", "while it boots", { status: "creating", turn: null }],
    ["asking", "while a tool call waits for a person", { turn: turn("awaiting_approval"), approvals: [request] }],
    ["working", "while its turn is active", { turn: turn("pending") }],
    ["working", "while it is restored", { restoring: 1 }],
    ["working", "while one of its repositories is published", { publications: [pull("open"), pull("open", "updating")] }],
    ["failed", "after a turn that failed, also with an open pull request", { turn: turn("failed"), publications: [pull("open")] }],
    ["ready", "after a successful turn, without a pull request", {}],
    ["ready", "after a successful turn, before its pull request is open", { publications: [pull(null)] }],
    ["idle", "after a successful turn, once a pull request is closed", { publications: [pull(null), pull("closed")] }],
    ["ready", "as long as one of its pull requests is open", { turn: turn("interrupted"), publications: [pull("closed"), pull("open")] }],
    ["idle", "after a turn that did nothing", { turn: turn("interrupted") }],
    ["idle", "without a turn", { turn: null }],
    ["failed", "after it failed", { status: "failed", publications: [pull("open")] }],
    ["ready", "after its end, while a pull request is open", { status: "succeeded", publications: [pull("closed"), pull("open")] }],
    ["ended", "after its end, without an open pull request", { status: "succeeded", publications: [pull("closed")] }],
    ["ended", "while it is terminated", { status: "terminating", publications: [pull("open")] }],
    ["ended", "after it was terminated", { status: "terminated", publications: [pull("open")] }]
  ])("is %s %s", (state, _, facts) => assert.strictEqual(attentionStateOf({ ...rested, ...facts }), state))

  it("has one of seven states, each of them one word for people", () =>
    assert.deepStrictEqual(AttentionState.literals.map((state) => stateWords[state]), [
      "Starting",
      "Working",
      "Needs you",
      "Ready",
      "Failed",
      "Idle",
      "Ended"
    ]))
})
