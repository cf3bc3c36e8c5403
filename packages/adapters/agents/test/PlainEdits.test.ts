/** How each agent names the files of an edit, and which of its edits an approval for the rest of the turn covers. */
import { assert, describe, it } from "@effect/vitest"
import type { AgentSession } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, type Scope } from "effect"
import * as AcpSession from "../src/acp/AcpSession.ts"
import * as ClaudeSession from "../src/claude/ClaudeSession.ts"
import * as CodexSession from "../src/codex/CodexSession.ts"
import { type Frame, make } from "../testing/FakeProcess.ts"
import { approving, converse, options } from "../testing/Session.ts"

const settings = { ...options, repositories: [{ name: RepoName.make("acme/shop"), folder: "shop" }] }
const inside = (path: string) => `/sandbox/ws/${path}`

type Open = (asks: ReadonlyArray<object>) => Effect.Effect<AgentSession, unknown, Scope.Scope>

/** The agent says all of `frames` after the prompt and ends its turn once everything it asked is answered. */
const played = (frames: ReadonlyArray<object>, opening: (frame: Frame) => ReadonlyArray<object> | null, end: (prompt: Frame) => object) => {
  let prompt: Frame = {}
  let open = frames.filter((frame) => "id" in frame || "request_id" in frame).length
  return make((frame) => {
    const opened = opening(frame)
    if (opened !== null) return opened
    if ("result" in frame || "response" in frame) return --open === 0 ? [end(prompt)] : []
    prompt = frame
    return frames
  })
}

const acp: Open = (frames) =>
  Effect.gen(function*() {
    const fake = yield* played(
      frames,
      ({ id, method }) =>
        method === "initialize"
          ? [{ id, result: { protocolVersion: 1 } }]
          : method === "session/new"
          ? [{ id, result: { sessionId: "s1" } }]
          : null,
      ({ id }) => ({ id, result: { stopReason: "end_turn" } })
    )
    return yield* AcpSession.open(fake.process, settings)
  })
const acpAsk = (id: number, toolCall: object) => ({
  id,
  method: "session/request_permission",
  params: {
    sessionId: "s1",
    toolCall: { toolCallId: `c${id}`, kind: "edit", ...toolCall },
    options: [{ optionId: "1", kind: "allow_once" }]
  }
})

const codex: Open = (frames) =>
  Effect.gen(function*() {
    const fake = yield* played(
      frames,
      ({ id, method }) =>
        method === "initialize"
          ? [{ id, result: {} }]
          : method === "thread/start"
          ? [{ id, result: { thread: { id: "t1" } } }]
          : method === "initialized"
          ? []
          : method === "turn/start"
          ? [{ id, result: { turn: { id: "turn1" } } }, ...frames]
          : null,
      () => ({ method: "turn/completed", params: { threadId: "t1", turn: { id: "turn1", status: "completed" } } })
    )
    return yield* CodexSession.open(fake.process, settings)
  })
const codexEdit = (id: number, ...changes: ReadonlyArray<object>) => [
  { method: "item/started", params: { threadId: "t1", item: { type: "fileChange", id: `c${id}`, changes, status: "inProgress" } } },
  { id, method: "item/fileChange/requestApproval", params: { threadId: "t1", itemId: `c${id}`, grantRoot: null } }
]
const codexCommand = (id: number, command: string, cwd: string) => ({
  id,
  method: "item/commandExecution/requestApproval",
  params: { threadId: "t1", itemId: `c${id}`, command, cwd }
})

const claude: Open = (frames) =>
  Effect.gen(function*() {
    const fake = yield* played(
      frames,
      (frame) => {
        const { request, request_id } = frame as { request?: { subtype?: string }; request_id?: string }
        return request?.subtype === "initialize"
          ? [{ type: "control_response", response: { subtype: "success", request_id, response: {} } }]
          : null
      },
      () => ({ type: "result", subtype: "success", is_error: false, result: "" })
    )
    return yield* ClaudeSession.open(fake.process, settings)
  })
const claudeAsk = (id: number, tool_name: string, input: object) => ({
  type: "control_request",
  request_id: `r${id}`,
  request: { subtype: "can_use_tool", tool_name, input, tool_use_id: `c${id}` }
})

/** The subjects of the requests, in order. */
const requests = (open: Open, frames: ReadonlyArray<object>) =>
  Effect.gen(function*() {
    const session = yield* open(frames)
    const { events } = yield* converse(session, approving(session))
    return events.flatMap((event) => event._tag === "ApprovalRequested" ? [event] : [])
  }).pipe(Effect.scoped, Effect.timeout("5 seconds"))

const plainOf = (open: Open, frames: ReadonlyArray<object>) =>
  Effect.map(requests(open, frames), (all) => all.map(({ paths, plain = false }) => [paths?.join(" "), plain]))

describe("of the edits that are asked for, those of plain files alone are plain", () => {
  it.live("with codex, which names each file with what is done to it", () =>
    Effect.gen(function*() {
      const add = (path: string) => ({ path: inside(path), kind: { type: "add" }, diff: "x\n" })
      const update = (path: string, move_path: string | null = null) => ({
        path: inside(path),
        kind: { type: "update", move_path },
        diff: "@@ -1 +1 @@\n-x\n+y\n"
      })
      const found = yield* plainOf(codex, [
        ...codexEdit(1, add("shop/a.txt"), update("shop/src/b.txt")),
        ...codexEdit(2, add("shop/a.txt"), add("shop/.git/hooks/pre-commit")),
        ...codexEdit(3, { path: inside("shop/README.md"), kind: { type: "delete" }, diff: "x\n" }),
        ...codexEdit(4, add("shop/.env")),
        ...codexEdit(5, update("shop/a.txt", inside("shop/.git/config"))),
        ...codexEdit(6, update("shop/a.txt", inside("shop/b.txt"))),
        ...codexEdit(7, { path: "/sandbox/home/.bashrc", kind: { type: "add" }, diff: "x\n" }),
        ...codexEdit(8, { path: inside("shop/a.txt"), diff: "x\n" })
      ])
      assert.deepStrictEqual(found, [
        ["shop/a.txt shop/src/b.txt", true],
        ["shop/a.txt shop/.git/hooks/pre-commit", false],
        ["shop/README.md", false],
        ["shop/.env", false],
        ["shop/a.txt shop/.git/config", false],
        ["shop/a.txt shop/b.txt", false],
        ["/sandbox/home/.bashrc", false],
        ["shop/a.txt", false]
      ])
    }))

  it.live("with claude, which names one file and deletes none", () =>
    Effect.gen(function*() {
      const write = (id: number, file_path: string) => claudeAsk(id, "Write", { file_path, content: "x\n" })
      const found = yield* plainOf(claude, [
        write(1, inside("shop/a.txt")),
        claudeAsk(2, "Edit", { file_path: inside("shop/a.txt"), old_string: "x", new_string: "y" }),
        claudeAsk(3, "NotebookEdit", { notebook_path: inside("shop/a.ipynb"), new_source: "x" }),
        write(4, inside("shop/.git/hooks/pre-commit")),
        write(5, inside("shop/.env")),
        write(6, "/sandbox/home/.bashrc"),
        write(7, inside("shop/../../home/.bashrc")),
        write(8, inside("shop/\u200b.env"))
      ])
      assert.deepStrictEqual(found.map(([, plain]) => plain), [true, true, true, false, false, false, false, false])
    }))

  it.live("with opencode, whose patches list what is done to each file", () =>
    Effect.gen(function*() {
      const diff = (path: string, newText = "x\n") => ({ type: "diff", path: inside(path), oldText: "", newText })
      const file = (path: string, type: string, movePath?: string) => ({
        filePath: inside(path),
        type,
        patch: "",
        ...(movePath === undefined ? {} : { movePath: inside(movePath) })
      })
      const patch = (id: number, ...files: ReadonlyArray<{ readonly filePath: string }>) =>
        acpAsk(id, {
          title: "patch",
          locations: [],
          rawInput: { filepath: files.map(({ filePath }) => filePath).join(", "), diff: "", files },
          content: files.map(({ filePath }) => ({ type: "diff", path: filePath, oldText: "", newText: "x\n" }))
        })
      const found = yield* plainOf(acp, [
        acpAsk(1, {
          locations: [{ path: inside("shop/a.txt") }],
          rawInput: { filepath: inside("shop/a.txt") },
          content: [diff("shop/a.txt")]
        }),
        patch(2, file("shop/a.txt", "add"), file("shop/b.txt", "update")),
        patch(3, file("shop/b.txt", "add"), file("shop/README.md", "delete")),
        patch(4, file("shop/a.txt", "move", "shop/b.txt")),
        patch(5, file("shop/a.txt", "update"), file("shop/.env", "add")),
        acpAsk(6, { locations: [{ path: inside("shop/a.txt") }], content: [diff("shop/.git/hooks/pre-commit")] }),
        acpAsk(7, { locations: [{ path: inside("shop/a.txt") }], rawInput: { patchText: "*** Begin Patch\n*** Delete File: b\n" } })
      ])
      assert.deepStrictEqual(found, [
        ["shop/a.txt", true],
        ["shop/a.txt shop/b.txt", true],
        ["shop/b.txt shop/README.md", false],
        ["shop/a.txt shop/b.txt", false],
        ["shop/a.txt shop/.env", false],
        ["shop/a.txt shop/.git/hooks/pre-commit", false],
        ["shop/a.txt", false]
      ])
    }))

  it.live("with grok, whose arguments name the file", () =>
    Effect.gen(function*() {
      const write = (id: number, path: string, kind = "edit") =>
        acpAsk(id, { kind, title: `Write \`${path}\``, rawInput: { variant: "Write", file_path: path, content: "x\n" } })
      const found = yield* plainOf(acp, [
        write(1, inside("shop/a.txt")),
        write(2, inside("shop/.git/hooks/pre-commit")),
        write(3, inside("shop/.env")),
        write(4, "/sandbox/home/.bashrc"),
        write(5, inside("shop/README.md"), "delete"),
        write(6, inside("shop/README.md"), "move")
      ])
      assert.deepStrictEqual(found.map(([, plain]) => plain), [true, false, false, false, false, false])
    }))
})

describe("the folder of a command is shown where it is not the workspace", () => {
  it.live("with codex, whose system shells alone are left out of what it runs", () =>
    Effect.gen(function*() {
      const commands = [
        "/bin/bash -lc 'npm test'",
        "/usr/bin/zsh -lc 'npm test'",
        "/bin/sh -lc 'npm test'",
        "/workspace/shop/node_modules/.bin/bash -lc 'npm test'",
        "bash -lc 'npm test'",
        "/bin/../tmp/bash -lc 'npm test'",
        "/usr/bin/env bash -lc 'npm test'",
        "/usr/bin/bash2 -lc 'npm test'",
        "/bin/bash -lc 'npm test' 'rm -rf .'",
        "/bin/bash -lc 'echo '\\''a'\\'''",
        "/bin/bash -lc '",
        "/bin/bash -c 'npm test'"
      ]
      const found = yield* requests(codex, commands.map((command, i) => codexCommand(i + 1, command, "/sandbox/ws")))
      assert.deepStrictEqual(found.map(({ preview }) => preview), commands.map((command, i) => ({ command: i < 3 ? "npm test" : command })))
      assert.deepStrictEqual(found.map(({ tool }) => tool), commands.map((command, i) => i < 3 ? "npm test" : command))
      const cwds = ["/sandbox/ws/", "/sandbox/ws/shop/pkg", "/tmp", "/sandbox/ws-other", ""]
      const placed = yield* requests(codex, cwds.map((cwd, i) => codexCommand(i + 1, "ls", cwd)))
      assert.deepStrictEqual(placed.map(({ preview }) => preview?.cwd), [undefined, "shop/pkg", "/tmp", "/sandbox/ws-other", undefined])
    }))

  it.live("with agents that speak ACP, in either of their words for it", () =>
    Effect.gen(function*() {
      const given = [{ cwd: "/sandbox/ws" }, { cwd: "/sandbox/ws/shop" }, { workdir: "/tmp", cwd: "/sandbox/ws" }, {}]
      const found = yield* requests(acp, given.map((about, i) => acpAsk(i + 1, { kind: "execute", rawInput: { command: "ls", ...about } })))
      assert.deepStrictEqual(found.map(({ preview }) => preview?.cwd), [undefined, "shop", "/tmp", undefined])
    }))
})
