import { assert, describe, it } from "@effect/vitest"
import { profileSteers } from "@slipway/domain/models/rules/Steering"
import { type AgentEvent, AgentRuntime, type AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { assertWellFormed } from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { Deferred, Effect, Redacted, Result, Stream } from "effect"
import * as AgentRuntimeProfiles from "../src/profiles/AgentRuntimeProfiles.ts"
import * as FakeProcess from "../testing/FakeProcess.ts"
import { isFor, run, type Scenario, scenarios, STEER_ID, type Told } from "../testing/Scenarios.ts"
import { type Line, read, render } from "../testing/Transcript.ts"

const runtimes = Object.keys(AgentRuntimeProfiles.profiles)

/** The profiles as they are, of programs that need not be there. */
const registry = Object.fromEntries(
  Object.entries(AgentRuntimeProfiles.profiles).map(([name, profile]) => [name, { ...profile, program: null }])
)

/** The replayed agent's output where the recorded one wrote `frame`: frames, or raw text. */
type Spoil = (frame: unknown) => ReadonlyArray<object | string>
const isAnswer = (frame: unknown): frame is object =>
  typeof frame === "object" && frame !== null && (("id" in frame && "result" in frame) || "response" in frame)
const asRecorded: Spoil = (frame) => [frame as object]

/** An agent that says what the recorded one said, each time it was told what that one was told. */
const replay = (lines: ReadonlyArray<Line>, spoil: Spoil = asRecorded) =>
  Effect.gen(function*() {
    let position = 0
    const mismatches: Array<{ readonly sent: unknown; readonly recorded: unknown }> = []
    const fake = yield* FakeProcess.make((sent) => {
      const recorded = lines[position]
      // The good-bye comes after the recording's end.
      if (recorded === undefined) return []
      try {
        assert.deepStrictEqual({ dir: "out", frame: sent as unknown }, recorded)
      } catch {
        mismatches.push({ sent, recorded: recorded.frame })
      }
      const from = ++position
      while (lines[position]?.dir === "in") position++
      return lines.slice(from, position).flatMap(({ frame }) => spoil(frame))
    })
    const spawned = yield* Deferred.make<Parameters<Box["spawn"]>[0]>()
    const box: Box = {
      ...FakeProcess.box,
      spawn: (command) => Effect.as(Deferred.succeed(spawned, command), fake.process)
    }
    return { fake, box, mismatches, left: () => lines.length - position }
  })

const optionsOf = (runtime: string, box: Box, { before }: Scenario, lines: ReadonlyArray<Line>): AgentSessionOptions => ({
  box,
  profile: runtime,
  model: `test/${runtime}`,
  access: {
    baseUrl: "http://127.0.0.1:1",
    token: Redacted.make("token"),
    model: runtime === "claude" ? "claude-opus-5-5" : "fake-model",
    contextTokens: 128_000,
    outputTokens: 8_192
  },
  reasoningEffort: null,
  toolApprovalMode: "auto",
  repositories: [{ name: RepoName.make("acme/slipway"), folder: "slipway" }],
  instructions: null,
  resume: before === undefined ? null : resumed(lines)
})

/** The session that a recording goes on with: named in what was sent, or in what began the turn. */
const resumed = (lines: ReadonlyArray<Line>): string => {
  const [found] = lines.flatMap(({ frame }) => {
    const { params = {}, session_id, subtype } = frame as {
      params?: { sessionId?: string; threadId?: string }
      session_id?: string
      subtype?: string
    }
    return params.sessionId ?? params.threadId ?? (subtype === "init" ? session_id : undefined) ?? []
  })
  return found ?? ""
}

const told = (runtime: string, scenario: Scenario, spoil?: Spoil) =>
  Effect.gen(function*() {
    const lines = read(runtime, scenario.name)
    const agent = yield* replay(lines, spoil)
    const outcome = yield* Effect.result(
      run(scenario, optionsOf(runtime, agent.box, scenario, lines)).pipe(
        Effect.provide(AgentRuntimeProfiles.layer({ registry })),
        Effect.timeout("10 seconds")
      )
    )
    return { ...agent, outcome, left: agent.left() }
  }).pipe(Effect.scoped)

const faithfully = (runtime: string, scenario: Scenario) =>
  Effect.gen(function*() {
    const { left, mismatches, outcome } = yield* told(runtime, scenario)
    assert.deepStrictEqual(mismatches, [])
    assert.strictEqual(left, 0, "all that was recorded was said")
    const session = yield* Effect.fromResult(outcome)
    for (const { events } of session.turns) assertWellFormed(events)
    return session
  })

const find = (name: string): Scenario => {
  const scenario = scenarios.find((scenario) => scenario.name === name)
  if (scenario === undefined) throw new Error(`there is no scenario ${name}`)
  return scenario
}

const kinds = (events: ReadonlyArray<AgentEvent>) => events.flatMap((event) => event._tag === "ApprovalRequested" ? [event] : [])
const ends = (events: ReadonlyArray<AgentEvent>) => {
  const last = new Map(events.flatMap((event) => event._tag === "ToolUpdated" ? [[event.callId, event]] : []))
  return [...last.values()].map(({ error, status }) => error ?? status)
}
const texts = (events: ReadonlyArray<AgentEvent>, kind: "text" | "reasoning") => {
  const last = new Map(
    events.flatMap((event) => event._tag === "MessageUpdated" && event.kind === kind ? [[event.messageId, event.text.trim()]] : [])
  )
  return [...last.values()]
}
const turn = ({ turns }: Told, i: number) => {
  const found = turns[i]
  if (found === undefined) throw new Error(`there was no turn ${i}`)
  return found
}

describe.each(runtimes)("the recorded %s", (runtime) => {
  const profile = AgentRuntimeProfiles.profiles[runtime]
  const goesOn = profile?.capabilities.afterDenial === "goes on"

  it.live("asks about an edit and a command, does both when approved, and says so", () =>
    Effect.gen(function*() {
      const { end, events } = turn(yield* faithfully(runtime, find("approve")), 0)
      assert.deepStrictEqual(end, { state: "succeeded" })
      assert.deepStrictEqual(texts(events, "reasoning"), ["let me see"])
      assert.deepStrictEqual(texts(events, "text"), ["hello", "done"])
      const [edit, command] = kinds(events)
      assert.deepStrictEqual([edit?.kind, edit?.paths], ["edit", ["slipway/f.txt"]])
      assert.strictEqual(command?.kind, "command")
      assert.include(command?.tool, "echo hi > s.txt")
      assert.deepStrictEqual(ends(events), ["completed", "completed"])
      assert.match(edit?.preview?.diff ?? "", /^\+\+\+ slipway\/f\.txt\n@@ .* @@\n\+hi\n$/mu, "what the edit would do")
      assert.include(command?.preview?.command, "echo hi > s.txt")
      assert.notMatch(command?.preview?.command ?? "", /\{/u, "the command itself, not the arguments it came in")
      const done = events.flatMap((event) => event._tag === "ToolUpdated" && event.status === "completed" ? [event.detail] : [])
      assert.deepStrictEqual(done[0]?.paths, ["slipway/f.txt"])
      assert.include(done[1]?.command, "echo hi > s.txt")
      const written = events.findLast((event) => event._tag === "ToolUpdated" && event.tool.includes("f.txt"))
      assert.match(written?._tag === "ToolUpdated" && written.status === "completed" ? written.tool : "", /^\w+ \S*f\.txt/u)
      const counted = events.flatMap((event) => event._tag === "UsageReported" ? event.llmRequestCount : [])
      if (profile?.capabilities.countsRequests === true) assert.strictEqual(counted.at(-1), 3)
    }))

  it.live("leaves what was denied, and takes the next prompt", () =>
    Effect.gen(function*() {
      const session = yield* faithfully(runtime, find("deny"))
      const { end, events } = turn(session, 0)
      assert.deepStrictEqual(end, { state: "succeeded" })
      assert.deepStrictEqual(ends(events), ["denied"])
      assert.strictEqual(texts(events, "text").includes("after"), goesOn)
      assert.deepStrictEqual(texts(turn(session, 1).events, "text"), ["still here"])
    }))

  it.live.each(["interrupt-approval", "interrupt-answer", "interrupt-command"])(
    "stops at once at an %s, and takes the next prompt",
    (name) =>
      Effect.gen(function*() {
        const session = yield* faithfully(runtime, find(name))
        const { end, events } = turn(session, 0)
        assert.deepStrictEqual(end, { state: "interrupted" })
        assert.deepStrictEqual(ends(events), name === "interrupt-answer" ? [] : ["interrupted"])
        assert.deepStrictEqual(texts(events, "text").filter((text) => text === "after"), [])
        assert.deepStrictEqual(turn(session, 1).end, { state: "succeeded" })
        assert.deepStrictEqual(texts(turn(session, 1).events, "text"), ["next"])
      })
  )

  it.live.each(["steer-approval", "steer-answer"].filter((name) => isFor(runtime, find(name))))(
    "takes at a %s what it is told",
    (name) =>
      Effect.gen(function*() {
        const session = yield* faithfully(runtime, find(name))
        const { end, events } = turn(session, 0)
        assert.deepStrictEqual(end, { state: "succeeded" })
        assert.deepStrictEqual(events.flatMap((event) => event._tag === "MessageSteered" ? event.messageId : []), [STEER_ID])
        const taken = events.findIndex(({ _tag }) => _tag === "MessageSteered")
        // First it does the work that it began before.
        assert.isAbove(taken, events.findIndex(({ _tag }) => _tag === scenarios.find((scenario) => scenario.name === name)?.steer?.at))
        assert.include(texts(events.slice(taken), "text"), "to the left")
        assert.include(texts(turn(session, 1).events, "text").join(), "to the left", "it is part of the conversation")
        const counted = events.flatMap((event) => event._tag === "UsageReported" ? event.llmRequestCount : [])
        if (runtime === "claude") assert.strictEqual(counted.at(-1), 2, "both answers count for the turn")
      })
  )

  it.live.each(["sub-agent"].filter((name) => isFor(runtime, find(name))))(
    "asks about what a %s does, and ends its turn after it",
    (name) =>
      Effect.gen(function*() {
        const { end, events } = turn(yield* faithfully(runtime, find(name)), 0)
        assert.deepStrictEqual(end, { state: "succeeded" })
        const asked = kinds(events)
        const edit = asked.find(({ kind }) => kind === "edit")
        assert.deepStrictEqual([edit?.paths, edit?.plain], [["slipway/f.txt"], true])
        assert.match(edit?.preview?.diff ?? "", /^\+hi\n$/mu)
        assert.include(asked.find(({ kind }) => kind === "command")?.preview?.command, "echo hi > s.txt")
        assert.isTrue(ends(events).every((one) => one === "completed"), ends(events).join())
        assert.deepStrictEqual(texts(events, "text"), ["done"], "of what it says, only its calls are told")
      })
  )

  it.live("can be steered exactly where its profile says so", () =>
    Effect.gen(function*() {
      const scenario = find("resume")
      const lines = read(runtime, scenario.name)
      const agent = yield* replay(lines)
      const session = yield* (yield* AgentRuntime).open(optionsOf(runtime, agent.box, scenario, lines))
      assert.strictEqual(session.steer !== undefined, profileSteers(runtime))
    }).pipe(Effect.scoped, Effect.provide(AgentRuntimeProfiles.layer({ registry }))))

  it.live("fails a turn whose model refuses, with the reason", () =>
    Effect.gen(function*() {
      const session = yield* faithfully(runtime, find("error"))
      assert.strictEqual(turn(session, 0).end.state, "failed")
      assert.include(turn(session, 0).end.reason, "401")
      assert.deepStrictEqual(turn(session, 1).end, { state: "succeeded" })
    }))

  it.live("goes on with a session", () =>
    Effect.gen(function*() {
      const session = yield* faithfully(runtime, find("resume"))
      assert.include(texts(turn(session, 0).events, "text").join(), "XYZZY")
      assert.strictEqual(session.sessionId, resumed(read(runtime, "resume")))
    }))

  it.live("is heard the same through noise: stray lines, unknown frames, answers that came before", () =>
    Effect.gen(function*() {
      const noise: Spoil = (frame) => [
        "not json\n",
        "\n",
        "[1]\n",
        { jsonrpc: "2.0", method: "something/new", params: { sessionId: "other", threadId: "other" } },
        { jsonrpc: "2.0", id: "unasked", result: {} },
        { jsonrpc: "2.0", id: 100_000, error: { code: 1, message: "unasked" } },
        { type: "something_new", session_id: "other" },
        { type: "control_response", response: { request_id: "unasked", subtype: "success", response: {} } },
        frame as object,
        // An answer is an answer once.
        ...(isAnswer(frame) ? [frame] : [])
      ]
      for (const scenario of [find("approve"), find("deny"), find("interrupt-approval")]) {
        const { mismatches, outcome } = yield* told(runtime, scenario, noise)
        assert.deepStrictEqual(mismatches, [])
        assert.deepStrictEqual(yield* Effect.fromResult(outcome), yield* faithfully(runtime, scenario))
      }
    }))

  it.live("fails retryably, with everything closed, wherever in a session it ends", () =>
    Effect.gen(function*() {
      const scenario = find("approve")
      const lines = read(runtime, scenario.name)
      const heard = lines.filter(({ dir }) => dir === "in").length
      for (let last = 0; last < heard - 1; last += 3) {
        const events: Array<AgentEvent> = []
        const outcome = yield* Effect.gen(function*() {
          let said = 0
          const agent = yield* replay(lines, (frame) => said++ < last ? [frame as object] : [])
          const box: Box = {
            ...agent.box,
            spawn: (command) =>
              Effect.map(agent.box.spawn(command), (process) => ({
                ...process,
                stdout: Stream.take(process.stdout, last),
                exited: Effect.succeed({ code: 1, signal: null })
              }))
          }
          const options = optionsOf(runtime, box, scenario, lines)
          return yield* Effect.result(run({ ...scenario, interruptAt: (event) => (events.push(event), false) }, options))
        }).pipe(Effect.scoped, Effect.provide(AgentRuntimeProfiles.layer({ registry })))
        if (Result.isSuccess(outcome)) continue
        assert.isTrue(outcome.failure.retryable, `after ${last} frames: ${outcome.failure.message}`)
        assert.include(outcome.failure.detail, "exited with code 1")
        assertWellFormed(events)
      }
    }))
})

describe("a recording", () => {
  it("names folders of the sandbox, and none of the machine it was made on", () => {
    const found = [["/tmp/box-1/ws", "/sandbox/ws"]] as const
    const frame = { path: "/tmp/box-1/ws/a", link: "file:%2Ftmp%2Fbox-1%2Fws", memory: "-tmp-box-1-ws" }
    assert.deepStrictEqual(JSON.parse(render([{ dir: "in", frame }], found)), {
      dir: "in",
      frame: { path: "/sandbox/ws/a", link: "file:%2Fsandbox%2Fws", memory: "-sandbox-ws" }
    })
  })
})
