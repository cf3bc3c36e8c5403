import { assert, describe, it } from "@effect/vitest"
import { changesRevision, partOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { fromWire, Initiator, SandboxEvent, StatusReason, toWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { createdAt, creation, hostile, play, thorough } from "@slipway/testing/histories/Histories"
import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"

const { id } = creation
const wire = (event: SandboxEvent, seq = 7) => JSON.parse(toWire(id, { seq, at: createdAt, event }))

const pullRequest: PullRequest = {
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
  createdAt,
  updatedAt: createdAt,
  additions: 2,
  deletions: 3,
  changedFiles: 4
}
const preview = { command: "npm ci", diff: "+a\n", cwd: "shop", url: "https://example.com" }
const detail = { command: "npm ci", paths: ["a"], output: "ok" }
const failure = { code: "unavailable", message: "Later.", retry_after: 3 }
const question = {
  id: "one",
  text: "Which colour?",
  header: "Colour",
  options: [{ label: "Blue", description: "As before." }],
  multiple: false,
  allows_text: true
}
const merges = [{ onto: "ab", ancestor: "cd" }, { onto: "ef", ancestor: null }]

/** One event of every type with all of its fields, and their names on the wire (docs/decisions/5). */
const samples: ReadonlyArray<readonly [SandboxEvent, object]> = [
  [{ type: "sandbox.status", data: { status: "failed", previous: "running", reason: "agent_lost", initiator: "provider" } }, {
    status: "failed",
    previous: "running",
    reason: "agent_lost",
    initiator: "provider"
  }],
  [{ type: "sandbox.boot", data: { stage: "clone", ms: 1200, repo: "acme/shop" } }, { stage: "clone", ms: 1200, repo: "acme/shop" }],
  [
    { type: "sandbox.boot", data: { stage: "setup", ms: 1, cache: "hit", ignored: ["features"], egress_refused: ["a:443"], error: "No." } },
    { stage: "setup", ms: 1, cache: "hit", ignored: ["features"], egress_refused: ["a:443"], error: "No." }
  ],
  [
    { type: "sandbox.boot", data: { stage: "setup", ms: 1, submodules: ["lib"], image_refused: "node:24", secrets_withheld: "No." } },
    { stage: "setup", ms: 1, submodules: ["lib"], image_refused: "node:24", secrets_withheld: "No." }
  ],
  [{ type: "setup.started", data: { limit_ms: 600_000 } }, { limit_ms: 600_000 }],
  [{ type: "sandbox.forked", data: { sandbox_id: id, checkpoint: 2 } }, {
    sandbox_id: "c_abcdefgh2345",
    checkpoint: 2
  }],
  [
    {
      type: "sandbox.checkpoint",
      data: { checkpoint: 3, turn_id: "t", bytes: 5, ms: 6, repos: [{ repo: "acme/shop", sha: "ab" }] }
    },
    { checkpoint: 3, turn_id: "t", bytes: 5, ms: 6, repos: [{ repo: "acme/shop", sha: "ab" }] }
  ],
  [{ type: "sandbox.checkpoint", data: { error: "It is too large." } }, { error: "It is too large." }],
  [{ type: "sandbox.restoring", data: { checkpoint: 3 } }, { checkpoint: 3 }],
  [{ type: "sandbox.continued", data: { repo: "acme/shop", branch: "feature/x", pull_request: 12 } }, {
    repo: "acme/shop",
    branch: "feature/x",
    pull_request: 12
  }],
  [{ type: "sandbox.syncing", data: { repos: ["acme/shop"] } }, { repos: ["acme/shop"] }],
  [{ type: "sandbox.synced", data: { branches: [{ repo: "acme/shop", branch: "main", sha: "1" }] } }, {
    branches: [{ repo: "acme/shop", branch: "main", sha: "1" }]
  }],
  [{ type: "sandbox.restored", data: { checkpoint: 2, cause: "machine_lost", lost_turn: "t", damaged: [3] } }, {
    checkpoint: 2,
    cause: "machine_lost",
    lost_turn: "t",
    damaged: [3]
  }],
  [{ type: "sandbox.restored", data: { cause: "command", damaged: [2, 1], error: "It is cut." } }, {
    cause: "command",
    damaged: [2, 1],
    error: "It is cut."
  }],
  [{ type: "sandbox.renamed", data: { title: "Prices" } }, { title: "Prices" }],
  [
    {
      type: "feedback.received",
      data: {
        repo: "acme/shop",
        kind: "review",
        url: "https://host/12",
        authors: ["maria"],
        count: 1,
        items: ["comment:1"],
        until: DateTime.makeUnsafe("2026-11-21T02:41:00.123Z"),
        round: 0
      }
    },
    {
      repo: "acme/shop",
      kind: "review",
      url: "https://host/12",
      authors: ["maria"],
      count: 1,
      items: ["comment:1"],
      until: "2026-11-21T02:41:00.123Z",
      round: 0
    }
  ],
  [{ type: "feedback.replied", data: { repo: "acme/shop", url: "https://host/13" } }, { repo: "acme/shop", url: "https://host/13" }],
  [{ type: "feedback.paused", data: { repo: "acme/shop", rounds: 3 } }, { repo: "acme/shop", rounds: 3 }],
  [{ type: "feedback.resumed", data: { author: { id: "user-1" } } }, { author: { id: "user-1" } }],
  [{ type: "sandbox.error", data: { code: "agent_lost", message: "M.", retryable: true } }, {
    code: "agent_lost",
    message: "M.",
    retryable: true
  }],
  [{ type: "message.queued", data: { message_id: "t2", position: 1, text: "T", author: { id: "user-1" }, steers: true } }, {
    message_id: "t2",
    position: 1,
    text: "T",
    author: { id: "user-1" },
    steers: true
  }],
  [{ type: "message.steered", turn_id: "t", data: { message_id: "t2", text: "T", author: { id: "user-1" } } }, {
    message_id: "t2",
    text: "T",
    author: { id: "user-1" }
  }],
  [{ type: "message.cancelled", data: { message_id: "t2", reason: "command" } }, { message_id: "t2", reason: "command" }],
  [{ type: "turn.started", turn_id: "t", data: { prompt_id: "t", text: "T", files: [], author: { id: "user-1" } } }, {
    prompt_id: "t",
    text: "T",
    files: [],
    author: { id: "user-1" }
  }],
  [{ type: "turn.updated", turn_id: "t", data: { state: "pending", previous: null, text: "T", author: { id: "user-1" } } }, {
    state: "pending",
    previous: null,
    text: "T",
    author: { id: "user-1" }
  }],
  [{ type: "turn.updated", turn_id: "t", data: { state: "running", previous: "running", reason: "interrupt", initiator: "user" } }, {
    state: "running",
    previous: "running",
    reason: "interrupt",
    initiator: "user"
  }],
  [{ type: "turn.completed", turn_id: "t", data: { state: "failed", reason: "R.", initiator: "provider" } }, {
    state: "failed",
    reason: "R.",
    initiator: "provider"
  }],
  [{ type: "message.updated", turn_id: "t", data: { part_id: "m:text", message_id: "m", kind: "text", text: "T" } }, {
    part_id: "m:text",
    message_id: "m",
    kind: "text",
    text: "T"
  }],
  [{ type: "message.completed", turn_id: "t", data: { message_id: "m", finish: "end_turn" } }, { message_id: "m", finish: "end_turn" }],
  [{
    type: "tool.updated",
    turn_id: "t",
    data: { part_id: "tool:c", message_id: "turn-tools:t", call_id: "c", tool: "write", status: "error", error: "E.", detail }
  }, { part_id: "tool:c", message_id: "turn-tools:t", call_id: "c", tool: "write", status: "error", error: "E.", detail }],
  [{
    type: "approval.requested",
    turn_id: "t",
    data: { approval_id: "c", tool: "write", kind: "edit", paths: ["a"], plain: true, preview, expires_at: createdAt }
  }, { approval_id: "c", tool: "write", kind: "edit", paths: ["a"], plain: true, preview, expires_at: "2026-11-21T02:41:00.123Z" }],
  [{ type: "approval.resolved", turn_id: "t", data: { approval_id: "c", outcome: "denied", by: "timeout" } }, {
    approval_id: "c",
    outcome: "denied",
    by: "timeout"
  }],
  [
    { type: "approval.resolved", turn_id: "t", data: { approval_id: "c", outcome: "approved", by: "user", scope: "turn", reason: "R." } },
    { approval_id: "c", outcome: "approved", by: "user", scope: "turn", reason: "R." }
  ],
  [
    { type: "question.asked", turn_id: "t", data: { question_id: "q", questions: [question], expires_at: createdAt } },
    { question_id: "q", questions: [question], expires_at: "2026-11-21T02:41:00.123Z" }
  ],
  [
    {
      type: "question.answered",
      turn_id: "t",
      data: { question_id: "q", by: "user", answers: { one: { labels: ["Blue"], text: "Dark." } } }
    },
    { question_id: "q", by: "user", answers: { one: { labels: ["Blue"], text: "Dark." } } }
  ],
  [
    { type: "plan.updated", turn_id: "t", data: { part_id: "plan:t", entries: [{ text: "Write it", status: "in_progress" }] } },
    { part_id: "plan:t", entries: [{ text: "Write it", status: "in_progress" }] }
  ],
  [{
    type: "pull_request.updated",
    data: {
      repo: "acme/shop",
      action_state: "idle",
      number: 7,
      url: "https://h/7",
      state: "open",
      draft: true,
      merged: false,
      head_ref: "slipway/c",
      head_sha: "abc",
      merges,
      submodules: ["lib"],
      pull_request: pullRequest,
      error: failure
    }
  }, {
    repo: "acme/shop",
    action_state: "idle",
    number: 7,
    url: "https://h/7",
    state: "open",
    draft: true,
    merged: false,
    head_ref: "slipway/c",
    head_sha: "abc",
    merges,
    submodules: ["lib"],
    pull_request: { ...pullRequest, createdAt: "2026-11-21T02:41:00.123Z", updatedAt: "2026-11-21T02:41:00.123Z" },
    error: failure
  }],
  [{ type: "usage.updated", data: { usage: { llmRequestCount: 1, costMicroUsd: 2, creditsChargedMicros: 3 } } }, {
    usage: { llmRequestCount: 1, costMicroUsd: 2, creditsChargedMicros: 3 }
  }],
  [{
    type: "usage.updated",
    data: { usage: { llmRequestCount: 1, costMicroUsd: 2, creditsChargedMicros: 3 }, tokens: { input: 30, cachedInput: 20, output: 4 } }
  }, {
    usage: { llmRequestCount: 1, costMicroUsd: 2, creditsChargedMicros: 3 },
    tokens: { input: 30, cachedInput: 20, output: 4 }
  }]
]

describe("the envelope", () => {
  it("is that of docs/decisions/5: ids are digits, times have three digits of seconds", () => {
    assert.deepStrictEqual(wire({ type: "turn.completed", turn_id: "turn-1", data: { state: "succeeded" } }), {
      object: "sandbox.event",
      version: "v1",
      id: "7",
      ts: "2026-11-21T02:41:00.123Z",
      sandbox_id: id,
      type: "turn.completed",
      data: { state: "succeeded" },
      turn_id: "turn-1"
    })
    const full = toWire(id, {
      seq: 1,
      at: DateTime.makeUnsafe("2026-11-21T02:41:00Z"),
      event: { type: "sandbox.boot", data: { stage: "ready", ms: 0 } }
    })
    assert.strictEqual(JSON.parse(full).ts, "2026-11-21T02:41:00.000Z")
  })

  it("leaves out turn_id outside a turn", () => {
    const event: SandboxEvent = { type: "sandbox.status", data: { status: "queued", previous: null, reason: null, initiator: "user" } }
    assert.deepStrictEqual(Object.keys(wire(event)).sort(), ["data", "id", "object", "sandbox_id", "ts", "type", "version"])
  })

  it("writes large ids as digits, never as an exponent", () => {
    assert.strictEqual(wire({ type: "sandbox.boot", data: { stage: "ready", ms: 0 } }, Number.MAX_SAFE_INTEGER).id, "9007199254740991")
  })

  it("is one line, whatever the text", () => {
    const text = "a\nb\r\nc\u2028d"
    const line = toWire(id, {
      seq: 1,
      at: createdAt,
      event: { type: "sandbox.error", data: { code: "c", message: text, retryable: false } }
    })
    assert.notMatch(line, /[\r\n]/u)
    assert.strictEqual(JSON.parse(line).data.message, text)
  })
})

describe("the data", () => {
  it("every type has a sample here", () => {
    assert.sameMembers([...new Set(samples.map(([{ type }]) => type))], Object.keys(changesRevision))
  })

  it("has the words of docs/decisions/2.1", () => {
    assert.deepStrictEqual(Initiator.literals, ["user", "policy", "provider", "system"])
    assert.deepStrictEqual(StatusReason.literals, [
      "queue_timeout",
      "boot_timeout",
      "boot_failed",
      "clone_failed",
      "repo_not_accessible",
      "idle_timeout",
      "last_turn_failed",
      "agent_lost",
      "host_lost",
      "terminated",
      "max_lifetime",
      "grant_revoked",
      "release_failed"
    ])
  })

  it.each(samples)("of $type", (event, data) => {
    assert.deepStrictEqual(wire(event).data, data)
    assert.deepStrictEqual(fromWire(toWire(id, { seq: 7, at: createdAt, event })), { seq: 7, at: createdAt, event })
  })

  it.each([
    ["sandbox.status", "status", ["queued", "creating", "running", "succeeded", "failed", "terminating", "terminated"]],
    ["sandbox.boot", "stage", ["provision", "clone", "setup", "mcp", "agent_start", "ready"]],
    ["sandbox.boot", "cache", ["hit", "miss", "none"]],
    ["sandbox.restored", "cause", ["machine_lost", "machine_drained", "command", "fork"]],
    ["message.updated", "kind", ["text", "reasoning"]],
    ["message.cancelled", "reason", ["command", "sandbox_ended", "output_limit", "budget_exceeded", "no_credits"]],
    ["tool.updated", "status", ["pending", "running", "completed", "error"]],
    ["approval.resolved", "outcome", ["approved", "denied"]],
    ["approval.resolved", "by", ["user", "policy", "timeout", "interrupt", "terminate", "turn_end"]],
    ["approval.resolved", "scope", ["turn"]],
    ["question.answered", "by", ["user", "timeout", "interrupt", "terminate", "turn_end"]],
    ["pull_request.updated", "state", ["open", "closed"]]
  ])("of %s has as %s each of %j", (type, field, words) => {
    const [sample] = samples.find(([event]) => event.type === type)!
    const { data, ...rest } = wire(sample)
    for (const word of words) {
      assert.propertyVal(fromWire(JSON.stringify({ ...rest, data: { ...data, [field]: word } })).event.data, field, word)
    }
  })

  it.prop("is read back as it was written", [Arbitrary.schema(SandboxEvent), Schema.Int.check(Schema.isGreaterThan(0))], ([event, seq]) => {
    const recorded = { seq, at: createdAt, event }
    assert.deepStrictEqual(fromWire(toWire(id, recorded)), recorded)
  })

  it.each([
    ["setup.started", {}],
    ["sandbox.restoring", {}],
    ["message.steered", { message_id: "t2", text: "T", author: {} }]
  ])("of %s is not %j", (type, data) => {
    const [sample] = samples.find(([event]) => event.type === type)!
    assert.throws(() => fromWire(JSON.stringify({ ...wire(sample), data })), /Missing key/u)
  })

  it("of the future is read by what it has today", () => {
    const future = JSON.stringify({ ...wire(samples[0]![0]), extra: 1, data: { ...samples[0]![1], more: true } })
    assert.deepStrictEqual(fromWire(future).event, samples[0]![0])
  })
})

describe("events", () => {
  it("only those of sandbox, title, turn, approval, question, pull request and what waits change the revision", () => {
    const counted = Object.entries(changesRevision).filter(([, counts]) => counts).map(([type]) => type)
    assert.sameMembers(counted, [
      "sandbox.status",
      "turn.started",
      "turn.updated",
      "turn.completed",
      "message.queued",
      "message.steered",
      "message.cancelled",
      "approval.requested",
      "approval.resolved",
      "question.asked",
      "question.answered",
      "pull_request.updated",
      "sandbox.restoring",
      "sandbox.syncing",
      "sandbox.synced",
      "sandbox.restored",
      "sandbox.renamed",
      "feedback.received",
      "feedback.replied",
      "feedback.paused",
      "feedback.resumed"
    ])
  })

  it("only text, tools, plans and usage may be compacted, by part", () => {
    const parts = samples.map(([event]) => [event.type, partOf(event)]).filter(([, part]) => part !== null)
    assert.deepStrictEqual(parts, [
      ["message.updated", "m:text"],
      ["tool.updated", "tool:c"],
      ["plan.updated", "plan:t"],
      ["usage.updated", "usage"],
      ["usage.updated", "usage"]
    ])
  })

  it.prop("inside a turn carry its id, and no others do", [hostile], ([plan]) => {
    for (const { event } of play(plan).log) {
      const inside = /^(?:turn|tool|plan|approval|question)\.|^message\.(?:updated|completed|steered)$/u.test(event.type) ||
        event.type === "sandbox.error" && ["output_limit", "out_of_memory", "too_many_processes"].includes(event.data.code)
      assert.strictEqual(event.turn_id !== undefined, inside)
    }
  }, thorough)
})
