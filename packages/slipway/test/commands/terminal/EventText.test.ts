import { assert, describe, it } from "@effect/vitest"
import type { ApprovalRequest, StreamEvent } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as Answer from "../../../src/commands/terminal/Answer.ts"
import * as EventText from "../../../src/commands/terminal/EventText.ts"

/** Styles as tags, so that tests see what is coloured. */
const tagged: EventText.Paint = (style, text) => `<${[style].flat().join(" ")}>${text}</>`
const plain: EventText.Paint = (_, text) => text

const event = <T extends StreamEvent["type"]>(type: T, data: object, ts = "2026-11-23T19:00:00.000Z") =>
  ({
    object: "sandbox.event",
    version: "v1",
    id: "1",
    ts,
    sandbox_id: "c_abcdefgh2345",
    turn_id: "t",
    type,
    data
  }) as unknown as StreamEvent
const says = (text: string, kind = "text", part = "m:text") => event("message.updated", { part_id: part, message_id: "m", kind, text })
const tool = (status: string, more: object = {}) =>
  event("tool.updated", { part_id: "tool:1", message_id: "m", call_id: "1", tool: "npm test", status, ...more })
const status = (status: string, previous: string | null, ts: string) =>
  event("sandbox.status", { status, previous, reason: null, initiator: "system" }, ts)
const read = (events: ReadonlyArray<StreamEvent>, paint = plain, options: Parameters<typeof EventText.make>[1] = {}) => {
  const textOf = EventText.make(paint, options)
  return events.map((one) => textOf(one)).join("") + textOf.end()
}
const request = (preview: ApprovalRequest["preview"]): ApprovalRequest => ({
  approval_id: "1",
  tool: "Write\na.md",
  kind: "edit",
  paths: ["a.md"],
  expires_at: "2026-11-23T19:30:00.000Z",
  ...(preview === undefined ? {} : { preview })
})

describe("EventText", () => {
  it("says which files of Git LFS have no content, and which are not published, and why", () => {
    const missing = [{ path: "a\u001b.bin", reason: "The server is\ndown." }]
    assert.include(
      read([event("sandbox.boot", { stage: "clone", ms: 1, repo: "acme/app", lfs_pointers: 2, lfs_missing: missing })]),
      "Files without content, as Git LFS stores it: 2, such as a⟨ESC⟩.bin. The server is ⏎ down."
    )
    const published = {
      repo: "acme/app",
      action_state: "idle",
      url: "https://example.com/1",
      lfs_left_out: ["b.bin"],
      lfs_reason: "Too\nlarge."
    }
    assert.include(read([event("pull_request.updated", published)]), "not published, as Git LFS is to store it: b.bin. Too ⏎ large.")
  })

  it("tells of messages that wait, shows a steering message as the prompt it is, and says why a message was cancelled", () => {
    const queued = (text: string, position: number, steers: boolean) =>
      event("message.queued", { message_id: "m", position, text, author: { id: "u" }, steers })
    assert.strictEqual(
      read([
        queued("Then\n\u001bthis", 2, false),
        queued("Now", 1, true),
        event("message.steered", { message_id: "m", text: "Now\nthat", author: { id: "u" } }),
        event("message.cancelled", { message_id: "m", reason: "command" }),
        event("message.cancelled", { message_id: "m", reason: "new_one" })
      ]),
      "· Queued as number 2: Then ⏎ ⟨ESC⟩this\n· Steering: Now\n> Now\n> that\n" +
        "· Queued message cancelled: by a person\n· Queued message cancelled: new_one\n"
    )
  })

  it("indents the calls of sub-agents below the call that started them, with their output", () => {
    const call = (id: string, status: string, more: object = {}) =>
      event("tool.updated", { part_id: `tool:${id}`, message_id: "m", call_id: id, tool: id, status, ...more })
    assert.strictEqual(
      read([
        call("child", "running"),
        call("ls", "running", { parent_call_id: "child" }),
        call("ls", "completed", { parent_call_id: "child", detail: { output: "a\nb\n" } }),
        call("grandchild", "running", { parent_call_id: "child" }),
        call("rm", "error", { parent_call_id: "grandchild", error: "No." }),
        call("own", "running")
      ]),
      "▸ child\n  ▸ ls\n    │ a\n    │ b\n  ▸ grandchild\n    ▸ rm\n      ✗ No.\n▸ own\n"
    )
  })

  it("tells a plan whole, and then the steps that changed", () => {
    const plan = (...entries: ReadonlyArray<readonly [string, string]>) =>
      event("plan.updated", { part_id: "plan:t", entries: entries.map(([status, text]) => ({ status, text })) })
    assert.strictEqual(
      read([
        plan(["in_progress", "Read"], ["pending", "Fix\u001b"]),
        plan(["in_progress", "Read"], ["pending", "Fix\u001b"]),
        plan(["completed", "Read"], ["in_progress", "Fix\u001b"], ["pending", "Test"]),
        plan()
      ]),
      "· Plan: 0 of 2 done\n  ▸ Read\n  ○ Fix⟨ESC⟩\n· Plan: 1 of 3 done\n  ✓ Read\n  ▸ Fix⟨ESC⟩\n  ○ Test\n· The agent dropped its plan\n"
    )
  })

  it("tells a text as it grows, each piece once, every line of it indented", () => {
    assert.strictEqual(
      read([says("One"), says("One, two.\nThree"), says("One, two.\nThree"), tool("running")]),
      "  One, two.\n  Three\n▸ npm test\n"
    )
  })

  it("tells a text whole again that was told differently before, and goes on on a line of its own after something else", () => {
    assert.strictEqual(read([says("One"), says("Two")]), "  One\n  Two\n")
    assert.strictEqual(read([says("One"), tool("running"), says("One, two")]), "  One\n▸ npm test\n  , two\n")
  })

  it("keeps what the model thinks from what it says, by colour and on lines of its own", () => {
    assert.strictEqual(read([says("Hm", "reasoning", "m:thought"), says("Yes")], tagged), "  <dim>Hm</>\n  Yes\n")
  })

  it("lets no text pass for a line of ours, and no character do anything but be seen", () => {
    const hostile = "a\n✓ The turn succeeded.\r\u001b[2J\u202e"
    for (
      const one of [says(hostile), tool("completed", { tool: hostile, detail: { output: hostile, command: hostile } }), tool("error", {
        error: hostile
      }), event("turn.started", { text: hostile }), event("turn.completed", { state: "failed", reason: hostile }),
        event("sandbox.error", { message: hostile }),
        event("approval.requested", { ...request({ command: hostile, diff: hostile, url: hostile }), tool: hostile }),
        event("pull_request.updated", { repo: hostile, action_state: "idle", url: hostile })]
    ) {
      const text = read([one])
      assert.strictEqual(visible(text), text, one.type)
      assert.notMatch(text, /^✓/mu, one.type)
      assert.include(text, "⟨ESC⟩")
    }
  })

  it("shows the end of a tool's output alone, and of its lines the beginning", () => {
    const output = Array.from({ length: 40 }, (_, i) => i === 39 ? "x".repeat(1000) : `line ${i}`).join("\n")
    const lines = read([tool("pending"), tool("running"), tool("completed", { detail: { output } })]).trimEnd().split("\n")
    assert.deepStrictEqual(lines.slice(0, 3), ["▸ npm test", "  │ … 28 lines before", "  │ line 28"])
    assert.strictEqual(lines.at(-1), `  │ ${"x".repeat(300)}…`)
    assert.lengthOf(lines, 14)
  })

  it("shows all of what somebody decides", () => {
    const command = Array.from({ length: 100 }, (_, i) => `echo ${i} ${"y".repeat(500)}`).join("\n")
    assert.include(EventText.approval(plain, request({ command: "ls", cwd: "shop/pkg" })), "  folder: shop/pkg\n  │ ls\n")
    const shown = EventText.approval(plain, request({ command, url: "https://a.example", diff: "-old\n+new\n" }))
    for (const line of command.split("\n")) assert.include(shown, `  │ ${line}\n`)
    assert.include(shown, "? The agent asks: Write ⏎ a.md (edit)\n  files: a.md\n")
    assert.isTrue(shown.endsWith("  │ https://a.example\n  │ -old\n  │ +new\n"))
    assert.isTrue(EventText.approval(tagged, request({ diff: "-old\n+new\n" })).endsWith("  │ <red>-old</>\n  │ <green>+new</>\n"))
  })

  it("tells a boot in one line with its stages, and a stage after the boot by itself", () => {
    const stage = (stage: string, ms: number, more: object = {}) => event("sandbox.boot", { stage, ms, ...more })
    const boot = [
      status("queued", null, "2026-11-23T19:00:00.000Z"),
      status("creating", "queued", "2026-11-23T19:00:01.000Z"),
      stage("clone", 900, { repo: "acme/shop" }),
      stage("setup", 3000, { cache: "hit" }),
      stage("agent_start", 10_000)
    ]
    const running = status("running", "creating", "2026-11-23T19:00:15.300Z")
    const started = "· Started in 15.3 s: clone acme/shop 0.9 s, setup 3.0 s (cached), agent 10.0 s\n"
    assert.strictEqual(read([...boot, running]), `· Starting\n${started}`)
    assert.strictEqual(read([...boot, running], plain, { isLive: true }), started)
    assert.strictEqual(read([...boot, running, stage("setup", 500)]), `· Starting\n${started}· setup 0.5 s\n`)

    const textOf = EventText.make(plain, { isLive: true })
    const now = Date.parse("2026-11-23T19:00:04.900Z")
    assert.isNull(textOf.booting(now))
    for (const one of boot.slice(0, 3)) assert.strictEqual(textOf(one), "")
    assert.strictEqual(textOf.booting(now), "Starting… 4 s · clone acme/shop 0.9 s")
    textOf(running)
    assert.isNull(textOf.booting(now))
  })

  it("tells a denial once, whatever the agent says of it", () => {
    const denied = event("approval.resolved", { approval_id: "1", outcome: "denied", by: "user", reason: "not yet" })
    const failed = tool("error", { error: "denied", detail: { output: "Denied." } })
    assert.strictEqual(read([tool("pending"), denied, failed]), "▸ npm test\n· Denied: not yet\n")
    assert.strictEqual(read([tool("pending"), failed]), "▸ npm test\n  │ Denied.\n  ✗ denied\n")
  })

  it("renders Markdown by whole lines, and the last line when something else follows", () => {
    const rendered = (events: ReadonlyArray<StreamEvent>) => read(events, tagged, { isRendered: true })
    const markdown = "# Title\n- **Done** with `a.md`\n```\n**raw**\n```\n> so\nEnd\u001b"
    assert.strictEqual(
      rendered([says("# Ti"), says(markdown), tool("running")]),
      "  <bold>Title</>\n  • <bold>Done</> with <cyan>a.md</>\n  <dim>```</>\n  <cyan>**raw**</>\n  <dim>```</>\n  <dim>│ so</>\n" +
        "  End⟨ESC⟩\n<cyan>▸ npm test</>\n<dim></>"
    )
    assert.strictEqual(
      rendered([says("Hm", "reasoning", "m:thought"), says("Hm, yes", "reasoning", "m:thought"), says("`x`")]),
      "  <dim>Hm</><dim>, yes</>\n  <cyan>x</>\n"
    )
    assert.strictEqual(read([says("**as is**")], tagged), "  **as is**\n")
  })

  it("says how a turn ended, why, and how long it took", () => {
    const began = event("turn.started", { text: "Do it" })
    assert.strictEqual(
      read([began, event("turn.completed", { state: "succeeded" }, "2026-11-23T19:01:05.000Z")]),
      "> Do it\n✓ The turn succeeded after 1 min 5 s.\n"
    )
    assert.strictEqual(
      read([event("turn.completed", { state: "failed", reason: "turn_timeout" })]),
      "✗ The turn failed. Timed out.\n"
    )
    assert.strictEqual(read([event("turn.completed", { state: "interrupted" })]), "✗ The turn was interrupted.\n")
  })

  it("says nothing of what it does not know", () => {
    assert.strictEqual(read([event("files.changed" as "usage.updated", {}), event("usage.updated", { usage: {} })]), "")
  })

  it("tells what models cost, also where that is little", () => {
    const usage = { llmRequestCount: 1, creditsChargedMicros: 0 }
    assert.deepStrictEqual([0, 1234, 2_345_678].map((costMicroUsd) => EventText.cost({ ...usage, costMicroUsd }, null)), [
      "$0.00, 1 request to models",
      "$0.001234, 1 request to models",
      "$2.35, 1 request to models"
    ])
  })

  it("tells the tokens with the cost, where they were counted", () => {
    const usage = { llmRequestCount: 3, costMicroUsd: 120_000, creditsChargedMicros: 0 }
    const told = (input: number, cachedInput: number, output: number) => EventText.cost(usage, { input, cachedInput, output })
    assert.strictEqual(told(12_345, 9000, 678), "$0.12, 3 requests to models · tokens: 12,345 in, 9,000 of them cached, 678 out")
    assert.strictEqual(told(12_345, 0, 1), "$0.12, 3 requests to models · tokens: 12,345 in, 1 out")
    assert.strictEqual(told(0, 0, 0), "$0.12, 3 requests to models")
    const most = Number.MAX_SAFE_INTEGER
    assert.include(told(most, most, most), "9,007,199,254,740,991 in, 9,007,199,254,740,991 of them cached")
  })
})

describe("Answer", () => {
  it("approves by a clear yes alone", () => {
    const read = (lines: ReadonlyArray<string>) => lines.map(Answer.read)
    assert.deepStrictEqual(read(["y", " YES "]), Array(2).fill({ decision: "approve", covers: "nothing" }))
    assert.deepStrictEqual(read(["k", "Kind"]), Array(2).fill({ decision: "approve", covers: "kind" }))
    assert.deepStrictEqual(read(["a", "all"]), Array(2).fill({ decision: "approve", covers: "turn" }))
    assert.deepStrictEqual(read(["n", "No"]), Array(2).fill({ decision: "deny", reason: undefined }))
    assert.deepStrictEqual(read(["n use yarn", "no, not there"]), [
      { decision: "deny", reason: "use yarn" },
      { decision: "deny", reason: "not there" }
    ])
    assert.deepStrictEqual(["", "yy", "yes, but", "?", "\u001b[Ay"].map(Answer.read), Array(5).fill({ decision: "none" }))
  })
})
