import { assert, describe, it } from "@effect/vitest"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { AgentRuntime, type AgentEvent, type AgentSession, type AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { processes, running, temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import * as AgentRuntimeContract from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { eventually } from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Context, Effect, Layer, Result, Schema } from "effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import * as AgentRuntimeProfiles from "../src/profiles/AgentRuntimeProfiles.ts"
import { offline } from "../src/profiles/offline.ts"
import * as JsonLines from "../src/stdio/JsonLines.ts"

const Frame = Schema.Struct({
  id: Schema.optionalKey(Schema.Finite),
  method: Schema.optionalKey(Schema.String),
  result: Schema.optionalKey(Schema.Unknown),
  params: Schema.optionalKey(Schema.Struct({
    update: Schema.optionalKey(Schema.Struct({ sessionUpdate: Schema.String, status: Schema.optionalKey(Schema.String) }))
  }))
})
const SessionOpened = Schema.Struct({ result: Schema.Struct({ sessionId: Schema.String }) })

const TestLayer = Layer.mergeAll(
  AgentRuntimeProfiles.layer(),
  Layer.unwrap(Effect.map(temporaryFolder, (directory) => SandboxHostNone.layer({ directory, workspaceOf: workspacesIn(directory) })))
)

const repositories = [
  { name: RepoName.make("acme/slipway"), folder: "slipway" },
  { name: RepoName.make("acme/docs"), folder: "docs" }
]

const freshId = () =>
  SandboxId.make(
    `c_${Array.from({ length: 12 }, () => ID_ALPHABET[Math.floor(Math.random() * ID_ALPHABET.length)]).join("")}`
  )

const makeSandboxOf = Effect.fnUntraced(function*(sandboxId: SandboxId) {
  const host = yield* SandboxHost
  const box = yield* Effect.acquireRelease(
    host.provision({ sandboxId, fence: 1 }),
    ({ sandboxId }) => Effect.orDie(host.stop(sandboxId))
  )
  const { workspace } = box
  for (const { folder } of repositories) yield* Effect.promise(() => mkdir(join(workspace, folder)))
  const home = dirname(box.home)
  return {
    box,
    repositories,
    read: (path: string) => Effect.promise(() => readFile(join(workspace, "slipway", path), "utf8").catch(() => null)),
    running,
    killAgent: Effect.gen(function*() {
      for (const pid of yield* processes("agents/src/offline/OfflineAgent.main.ts")) {
        // Other test files run agents of their own at the same time.
        if (readFileSync(`/proc/${pid}/environ`, "utf8").includes(home)) process.kill(pid, "SIGKILL")
      }
    })
  }
})

const makeSandbox = Effect.suspend(() => makeSandboxOf(freshId()))

register(AgentRuntimeContract.suite("offline agent on the none host", TestLayer, {
  profile: "offline",
  model: "offline/demo",
  sandbox: makeSandbox,
  moved: Effect.fnUntraced(function*({ box: { sandboxId } }, paths) {
    const here = yield* SandboxHost
    const there = yield* Layer.build(Layer.fresh(TestLayer))
    yield* Context.get(there, SandboxHost).writeHome(sandboxId, here.readHome(sandboxId, paths, { maximumBytes: 1_000_000 }))
    return { sandbox: yield* Effect.provide(makeSandboxOf(sandboxId), there), runtime: Context.get(there, AgentRuntime) }
  })
}))

const open = Effect.fnUntraced(function*(options: Partial<AgentSessionOptions> = {}) {
  const sandbox = yield* makeSandbox
  const session = yield* (yield* AgentRuntime).open({
    box: sandbox.box,
    repositories,
    profile: "offline",
    model: "offline/demo",
    access: null,
    instructions: null,
    reasoningEffort: null,
    toolApprovalMode: "auto",
    resume: null,
    ...options
  })
  return { sandbox, session, workspace: sandbox.box.workspace }
})

let turns = 0
const prompt = Effect.fnUntraced(function*(
  session: AgentSession,
  text: string,
  decision: "approve" | "deny" = "approve"
) {
  const events: Array<AgentEvent> = []
  const end = yield* session.prompt({
    turnId: `turn-${++turns}`,
    text,
    onEvent: (event) =>
      Effect.suspend(() => {
        events.push(event)
        return event._tag === "ApprovalRequested" ? session.decide(event.approvalId, decision) : Effect.void
      })
  })
  AgentRuntimeContract.assertWellFormed(events)
  const said = new Map(
    events.flatMap((event) => (event._tag === "MessageUpdated" ? [[event.messageId, event.text] as const] : []))
  )
  return { end, events, said: [...said.values()] }
})

/** The agent's process with a session, without what Slipway's side of the protocol adds. */
const bare = Effect.fnUntraced(function*(toolApprovalMode: AgentSessionOptions["toolApprovalMode"]) {
  const { box } = yield* makeSandbox
  const process = yield* box.spawn(
    offline.launch({
      box,
      repositories,
      profile: "offline",
      model: "offline/demo",
      access: null,
      instructions: null,
      reasoningEffort: null,
      toolApprovalMode,
      resume: null
    }, globalThis.process.execPath)
  )
  const lines = yield* JsonLines.make(process)
  yield* lines.send({ jsonrpc: "2.0", id: 1, method: "session/new", params: { cwd: box.workspace } })
  const { result } = yield* Effect.flatMap(lines.receive, Schema.decodeUnknownEffect(SessionOpened))
  return { lines, process, sessionId: result.sessionId }
})

/** Runs a prompt that is steered as soon as it says that it is ready. */
const steered = Effect.fnUntraced(function*(session: AgentSession, script: string, text: string) {
  const events: Array<AgentEvent> = []
  const end = yield* session.prompt({
    turnId: `turn-${++turns}`,
    text: script,
    onEvent: (event) =>
      Effect.suspend(() => {
        events.push(event)
        return event._tag === "MessageUpdated" && event.text === "ready" ? session.steer?.({ id: "s1", text }) ?? Effect.void : Effect.void
      })
  })
  return {
    end,
    told: events.flatMap((event) => event._tag === "MessageUpdated" ? event.text : event._tag === "MessageSteered" ? "taken" : [])
  }
})

describe("offline agent", () => {
  it.live("listens until it is steered, says what it was told, and goes on with its script", () =>
    Effect.gen(function*() {
      const { session } = yield* open()
      const script = "[[say ready]] [[listen]] [[say after]]"
      const { end, told } = yield* steered(session, script, "to the left")
      assert.deepStrictEqual(end, { state: "succeeded" })
      assert.deepStrictEqual(told, ["ready", "taken", "I was told: to the left", "after"])
      assert.deepStrictEqual((yield* steered(session, script, "now [[say right]]")).told, ["ready", "taken", "right", "after"])
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("listens no longer when it is interrupted", () =>
    Effect.gen(function*() {
      const { session } = yield* open()
      const said: Array<string> = []
      const end = yield* session.prompt({
        turnId: `turn-${++turns}`,
        text: "[[say ready]] [[listen]] [[say after]]",
        onEvent: (event) =>
          Effect.suspend(() => {
            if (event._tag === "MessageUpdated") said.push(event.text)
            return session.interrupt
          })
      })
      assert.deepStrictEqual([end, said], [{ state: "interrupted" }, ["ready"]])
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("is interrupted as soon as its question is left undecided, and takes no waiting message", () =>
    Effect.gen(function*() {
      const { lines, sessionId } = yield* bare("prompt")
      const receive = Effect.flatMap(lines.receive, Schema.decodeUnknownEffect(Frame))
      const prompt = [{ type: "text", text: "[[write path=a.txt content=one]] [[say after]]" }]
      yield* lines.send({ jsonrpc: "2.0", id: 2, method: "session/prompt", params: { sessionId, prompt } })
      let asked = yield* receive
      while (asked.method !== "session/request_permission") asked = yield* receive
      const steer = { sessionId, messageId: "s1", text: "[[say to the left]]" }
      yield* lines.send({ jsonrpc: "2.0", method: "_slipway/steer", params: steer })
      // The `session/cancel` that comes with it can be late.
      yield* lines.send({ jsonrpc: "2.0", id: asked.id, result: { outcome: { outcome: "cancelled" } } })
      const told = [yield* receive]
      while (told.at(-1)?.id !== 2) told.push(yield* receive)
      assert.deepStrictEqual(told.map(({ method, params, result }) => result ?? [method, params?.update?.status]), [
        ["session/update", "failed"],
        { stopReason: "cancelled" }
      ])
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("answers in one sentence and notes the prompt when there is no directive", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* open()
      const first = yield* prompt(session, "Please add a login page")
      assert.deepStrictEqual(first.said, [
        "I am the offline agent: I follow scripts and have added your message to NOTES.md."
      ])
      yield* prompt(session, "and [[nothing]] else")
      assert.strictEqual(yield* sandbox.read("NOTES.md"), "Please add a login page\nand [[nothing]] else\n")
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("asks before it notes the prompt, and says that it was denied", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* open({ toolApprovalMode: "prompt" })
      const { end, said } = yield* prompt(session, "Please", "deny")
      assert.deepStrictEqual(said, ["I was not allowed to do this, so I left it: Write NOTES.md"])
      assert.deepStrictEqual(end, { state: "succeeded" })
      assert.isNull(yield* sandbox.read("NOTES.md"))
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("says so and goes on after a denial", () =>
    Effect.gen(function*() {
      const { session } = yield* open({ toolApprovalMode: "prompt" })
      const { said } = yield* prompt(session, "[[shell rm -rf .]] [[say next]]", "deny")
      assert.deepStrictEqual(said, ["I was not allowed to do this, so I left it: rm -rf .", "next"])
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("edits the repository a directive names, in any case, and deletes files", () =>
    Effect.gen(function*() {
      const { sandbox, session, workspace } = yield* open()
      yield* prompt(session, "[[write repo=Acme/Docs path=a/b.md content=hello\nworld]] [[write path=c.txt content=x]]")
      assert.strictEqual(readFileSync(join(workspace, "docs/a/b.md"), "utf8"), "hello\nworld\n")
      const { events } = yield* prompt(session, "[[delete path=c.txt]] [[delete path=c.txt]]")
      assert.isNull(yield* sandbox.read("c.txt"))
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "ToolUpdated" ? event.status : [])),
        ["pending", "running", "completed", "pending", "running", "error"]
      )
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("runs commands in the first repository and reports that one failed", () =>
    Effect.gen(function*() {
      const { sandbox, session } = yield* open()
      const { said } = yield* prompt(session, "[[shell pwd > where; exit 3]]")
      assert.deepStrictEqual(said, ["This did not work: pwd > where; exit 3. It exited with code 3."])
      assert.match((yield* sandbox.read("where")) ?? "", /\/slipway\n$/u)
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("does not leave the repository, by dots, by root or through a link", () =>
    Effect.gen(function*() {
      const { session, workspace } = yield* open()
      const outside = yield* temporaryFolder
      yield* Effect.promise(async () => {
        await symlink(outside, join(workspace, "slipway/linked"))
        await symlink(join(outside, "new.txt"), join(workspace, "slipway/file"))
        await writeFile(join(outside, "kept.txt"), "kept")
      })
      for (const path of ["../out.txt", "a/../../out.txt", `${outside}/out.txt`, "linked/out.txt", "file", "."]) {
        const { end, events } = yield* prompt(session, `[[write path=${path} content=x]]`)
        assert.deepStrictEqual(end, { state: "succeeded" }, path)
        assert.strictEqual(events.findLast((event) => event._tag === "ToolUpdated")?.status, "error", path)
      }
      yield* prompt(session, "[[delete path=linked/kept.txt]]")
      assert.deepStrictEqual(readdirSync(outside), ["kept.txt"])
      assert.isFalse(existsSync(join(workspace, "out.txt")))
      yield* prompt(session, "[[write repo=acme/other path=x content=x]]")
      assert.isFalse(existsSync(join(workspace, "slipway/x")))
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("fails the turn with the words of [[error]], and of a directive it cannot read", () =>
    Effect.gen(function*() {
      const { session } = yield* open()
      assert.deepStrictEqual((yield* prompt(session, "[[error out of luck]]")).end, {
        state: "failed",
        reason: "out of luck"
      })
      assert.deepStrictEqual((yield* prompt(session, "[[delete]]")).end, {
        state: "failed",
        reason: "[[delete]] needs a path, as in [[delete path=docs/a.txt]]."
      })
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("exits 1 on [[crash]]", () =>
    Effect.gen(function*() {
      const { session } = yield* open()
      const outcome = yield* Effect.result(prompt(session, "[[say before]] [[crash]]"))
      assert.isTrue(Result.isFailure(outcome) && outcome.failure.retryable)
      assert.strictEqual(yield* session.exited, "the agent exited with code 1")
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("recalls the prompts before this one, over processes and crashes", () =>
    Effect.gen(function*() {
      const runtime = yield* AgentRuntime
      const { sandbox, session } = yield* open()
      assert.deepStrictEqual((yield* prompt(session, "[[recall]]")).said, ["This is the first prompt of the session."])
      yield* Effect.result(prompt(session, "line one\nline two [[crash]]"))
      const resumed = yield* runtime.open({
        box: sandbox.box,
        repositories,
        profile: "offline",
        model: "offline/demo",
        access: null,
        instructions: null,
        reasoningEffort: null,
        toolApprovalMode: "auto",
        resume: yield* session.sessionId
      })
      assert.deepStrictEqual((yield* prompt(resumed, "[[recall]]")).said, [
        "The prompts of this session so far:\n1. [[recall]]\n2. line one\nline two [[crash]]"
      ])
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))

  it.live("exits 0 by itself when its input ends, and takes a running command with it", () =>
    Effect.gen(function*() {
      const { lines, process, sessionId } = yield* bare("auto")
      const seconds = `16180.${Math.floor(Math.random() * 1e9)}1`
      yield* lines.send({
        jsonrpc: "2.0",
        id: 2,
        method: "session/prompt",
        params: {
          sessionId,
          prompt: [{ type: "text", text: `[[shell setsid sleep ${seconds} & wait]]` }]
        }
      })
      yield* eventually(running(seconds), (count) => count >= 2)
      yield* process.endInput
      assert.deepStrictEqual(yield* process.exited, { code: 0, signal: null })
      yield* eventually(running(seconds), (count) => count === 0)
    }).pipe(Effect.scoped, Effect.provide(TestLayer)))
})
