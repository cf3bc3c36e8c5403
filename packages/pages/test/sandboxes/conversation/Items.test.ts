/** The items of a conversation as HTML. */
import { assert, describe, it } from "@effect/vitest"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { DateTime } from "effect"
import { html } from "../../../src/html/Html.ts"
import { Conversation } from "../../../src/sandboxes/conversation/Conversation.ts"
import * as Items from "../../../src/sandboxes/conversation/Items.ts"

type Update = Extract<SandboxEvent, { readonly type: "tool.updated" }>["data"]

const status = (status: "queued" | "creating" | "running" | "failed"): SandboxEvent => ({
  type: "sandbox.status",
  data: { status, previous: null, reason: status === "failed" ? "boot_failed" : null, initiator: "system" }
})
const stage = (stage: "provision" | "clone" | "setup" | "agent_start" | "ready", ms: number): SandboxEvent => ({
  type: "sandbox.boot",
  data: { stage, ms }
})
const prompt = (text: string): SandboxEvent => ({
  type: "turn.started",
  turn_id: "t",
  data: { prompt_id: "t", text, files: [], author: { id: "u" } }
})
const say = (text: string): SandboxEvent => ({
  type: "message.updated",
  turn_id: "t",
  data: { part_id: `${text}:text`, message_id: text, kind: "text", text }
})
const tool = (call: string, status: Update["status"], more: Partial<Update> = {}): SandboxEvent => ({
  type: "tool.updated",
  turn_id: "t",
  data: { part_id: `tool:${call}`, message_id: "tools", call_id: call, tool: call, status, ...more }
})
const ended: SandboxEvent = { type: "turn.completed", turn_id: "t", data: { state: "succeeded" } }

/** The events, one each second. */
const told = (...events: ReadonlyArray<SandboxEvent>): string => {
  const conversation = new Conversation()
  events.forEach((event, i) => conversation.add({ seq: i + 1, at: DateTime.makeUnsafe(i * 1000), event }))
  return html`${Items.render(conversation.items, "/s", { bytes: Infinity }, (shown) => html`${shown}`)}`.toString()
}

const keysOf = (text: string) => [...text.matchAll(/data-key="([^"]+)"/gu)].map(([, key]) => key)

describe("the items of a conversation", () => {
  it("say how many files of Git LFS have no content, with one of them and the reason", () => {
    const missing = [{ path: "a<b>.bin", reason: "The server is down." }]
    const text = told(
      status("queued"),
      status("creating"),
      {
        type: "sandbox.boot",
        data: { stage: "clone", ms: 1, lfs_pointers: 3, lfs_missing: missing }
      },
      stage("agent_start", 1),
      stage("ready", 1),
      status("running")
    )
    assert.include(text, "Files without content, as Git LFS stores it: 3 (a&lt;b&gt;.bin: The server is down.)")
  })

  it("fold three or more finished steps between two messages into one row with their files and time", () => {
    const steps = ["a", "b", "c"].flatMap((call) => [
      tool(call, "running", { detail: { paths: [call === "c" ? "x" : "y"] } }),
      tool(call, "completed")
    ])
    const text = told(say("first"), ...steps, say("second"))
    assert.match(text, /<li class="steps"><details><summary>3 steps · 2 files · 3\.0 s<\/summary>\n<ol>/u)
    assert.deepStrictEqual(keysOf(text), ["first:text", "tool:a", "tool:b", "tool:c", "second:text"])
    assert.notInclude(told(say("first"), ...steps), "class=\"steps\"", "nothing follows yet")
    assert.notInclude(told(...steps.slice(2), say("second")), "class=\"steps\"", "two are no run")
  })

  it("nest the calls of sub-agents below the calls that started them", () => {
    const text = told(
      tool("child", "running"),
      tool("ls", "completed", { parent_call_id: "child" }),
      tool("grandchild", "running", { parent_call_id: "child" }),
      tool("rm", "pending"),
      tool("rm", "running", { parent_call_id: "grandchild" }),
      tool("own", "running"),
      tool("of a forgotten one", "running", { parent_call_id: "forgotten" })
    )
    const depths = [...text.matchAll(/data-key="tool:([^"]+)"(?: data-depth="(\d)")?/gu)].map(([, key, depth = "0"]) => [key, depth])
    assert.deepStrictEqual(depths, [
      ["child", "0"],
      ["ls", "1"],
      ["grandchild", "1"],
      ["rm", "2"],
      ["own", "0"],
      ["of a forgotten one", "1"]
    ])
  })

  it("show one plan of a turn where it was told first, as it is now, with the state of each step in words", () => {
    const plan = (...entries: ReadonlyArray<readonly ["completed" | "in_progress" | "pending", string]>): SandboxEvent => ({
      type: "plan.updated",
      turn_id: "t",
      data: { part_id: "plan:t", entries: entries.map(([status, text]) => ({ status, text })) }
    })
    const text = told(plan(["in_progress", "Read"]), say("first"), plan(["completed", "<b>Read"], ["pending", "Fix"]))
    assert.deepStrictEqual(keysOf(text), ["plan:t", "first:text"])
    assert.include(text, "Plan: 1 of 2 done")
    assert.match(text, /<li class="completed">.*done: <\/span> &lt;b&gt;Read<\/li><li class="pending">.*to do: <\/span> Fix<\/li>/u)
    assert.include(told(plan(["pending", "Read"]), plan()), "The agent dropped its plan")
  })

  it("leave failing steps in sight, open", () => {
    const text = told(
      tool("a", "completed"),
      tool("b", "completed"),
      tool("bad", "error", { error: "It broke." }),
      tool("c", "completed"),
      say("so")
    )
    assert.notInclude(text, "class=\"steps\"")
    assert.match(text, /data-key="tool:bad">\n<details class="row" open>[^]*?<span class="unseen">failed<\/span>[^]*?It broke\./u)
  })

  it("open the step that runs, and close it when it is done", () => {
    const output = { detail: { command: "make", output: "one" } }
    assert.match(told(tool("build", "running", output)), /<details class="row" open>/u)
    assert.match(told(tool("build", "running", output), tool("build", "completed")), /<details class="row"><summary>[^]*?1\.0 s/u)
  })

  it("say once that a call was denied, and why", () => {
    const text = told(
      { type: "approval.requested", turn_id: "t", data: { approval_id: "c", tool: "rm", expires_at: DateTime.makeUnsafe(9e9) } },
      { type: "approval.resolved", turn_id: "t", data: { approval_id: "c", outcome: "denied", by: "user", reason: "Keep it" } },
      tool("c", "error", { tool: "rm", error: "denied", detail: { output: "Denied." } })
    )
    assert.match(text, /<span class="stands denied">✗ denied<\/span>/u)
    assert.include(text, ">\nDenied: Keep it</pre>")
  })

  it("show twelve lines of a long prompt, and all of it on demand", () => {
    const lines = Array.from({ length: 20 }, (_, i) => `line ${i + 1}.`)
    const text = told(prompt(lines.join("\n")))
    assert.include(text, `<div class="item-text">${lines.slice(0, 12).join("\n")} …</div>`)
    assert.include(text, `<summary>Show all</summary><div class="item-text">${lines.join("\n")}</div>`)
    assert.notInclude(told(prompt(lines.slice(0, 12).join("\n"))), "Show all")
    assert.include(told(prompt("x".repeat(2_000))), `<div class="item-text">${"x".repeat(1_080)} …</div>`)
  })

  it("keep the first prompt above the start, which shows its stages and then one line", () => {
    const boot = [status("queued"), status("creating"), stage("provision", 40), stage("clone", 344)]
    const starting = told(...boot)
    assert.deepStrictEqual(
      [...starting.matchAll(/<li class="(done|now|next)"[^>]*>(\w+)/gu)].map(([, state, name]) => `${name} ${state}`),
      [
        "Queue done",
        "Sandbox done",
        "Clone done",
        "Setup next",
        "Agent now"
      ]
    )
    const text = told(...boot, stage("agent_start", 5800), stage("ready", 6300), status("running"), prompt("Do it"), say("so"))
    assert.deepStrictEqual(keysOf(text), ["prompt:t", "boot", "so:text"])
    assert.match(text, /<span class="what">Started in 6\.3 s<\/span>/u)
    assert.match(text, /Agent <span class="took">5\.8 s<\/span>/u)
  })

  it("say that a sandbox did not start, and end its stages", () => {
    const text = told(status("queued"), status("creating"), stage("provision", 40), status("failed"))
    assert.include(text, "Did not start")
    assert.notInclude(text, "class=\"segments\"")
    assert.include(text, "Failed. Starting failed.")
  })

  it("end a turn with a line that says how long it took, followed by its checkpoint", () => {
    const text = told(prompt("Do it"), say("so"), ended, { type: "sandbox.checkpoint", data: { checkpoint: 3, turn_id: "t" } })
    assert.match(text, /<li class="item end" data-key="turn:t">\n<span class="item-text">Done<\/span><span class="took">2\.0 s<\/span>/u)
    assert.match(text, /<a class="restore" href="\/s\/restore\?checkpoint=3">Restore/u)
    assert.match(text, /<a href="\/s\/fork\?checkpoint=3">Fork/u)
  })
})
