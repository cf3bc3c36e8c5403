/**
 * Records the transcripts that `npm test` replays: `SLIPWAY_DATA_DIR=… node test/agents/real/record.ts [agent or scenario…]`.
 * Worth repeating after a new version of an agent, and reading the difference.
 */
import { isFor, run, type Scenario, scenarios } from "@slipway/agents/testing/Scenarios"
import { fileOf, type Line, render } from "@slipway/agents/testing/Transcript"
import { AgentRuntime, type AgentSessionOptions } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Redacted, Stream } from "effect"
import { writeFileSync } from "node:fs"
import { sandbox, unisolated } from "./RealAgent.ts"

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A box whose processes are listened to. */
const recorded = (box: Box, lines: Array<Line>): Box => ({
  ...box,
  spawn: (command) =>
    Effect.map(box.spawn(command), (process) => {
      let rest = ""
      const hear = (dir: Line["dir"], text: string) => {
        const frame = parse(text)
        if (frame !== undefined) lines.push({ dir, frame })
      }
      const decoder = new TextDecoder()
      return {
        ...process,
        write: (bytes) =>
          Effect.suspend(() => {
            hear("out", typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes))
            return process.write(bytes)
          }),
        stdout: Stream.map(process.stdout, (bytes) => {
          const whole = (rest + decoder.decode(bytes, { stream: true })).split("\n")
          rest = whole.pop() ?? ""
          for (const line of whole) hear("in", line)
          return bytes
        })
      }
    })
})

const record = (runtime: string, scenario: Scenario) =>
  Effect.gen(function*() {
    const made = yield* sandbox(runtime)
    const options: AgentSessionOptions = {
      box: made.box,
      profile: runtime,
      model: `test/${runtime}`,
      access: made.access,
      reasoningEffort: null,
      toolApprovalMode: "auto",
      repositories: made.repositories,
      instructions: null,
      resume: null
    }
    const before = scenario.before
    const resume = before === undefined ? null : yield* Effect.scoped(Effect.gen(function*() {
      const session = yield* (yield* AgentRuntime).open(options)
      yield* session.prompt({ turnId: "turn-0", text: before, onEvent: () => Effect.void })
      return yield* session.sessionId
    }))
    const lines: Array<Line> = []
    const told = yield* run(scenario, { ...options, box: recorded(made.box, lines), resume })
    // Before the good-bye of the session.
    const text = render([...lines], [
      [made.box.home, "/sandbox/home"],
      [made.box.workspace, "/sandbox/ws"],
      [made.box.home.replace(/home$/u, "tmp"), "/sandbox/tmp"],
      [made.box.workspace.slice(1), "sandbox/ws"],
      [made.access.baseUrl, "http://127.0.0.1:1"],
      [made.access.baseUrl.replace("http://", ""), "127.0.0.1:1"],
      [Redacted.value(made.access.token), "token"]
    ])
    writeFileSync(fileOf(runtime, scenario.name), text)
    yield* Effect.log(runtime, scenario.name, text.length, told.turns.map(({ end }) => end.state))
  }).pipe(Effect.scoped)

const all = ["offline", "opencode", "codex", "claude", "grok"]
const chosen = process.argv.slice(2)
const agents = all.filter((name) => chosen.includes(name))
const runtimes = agents.length > 0 ? agents : all
const named = scenarios.filter(({ name }) => chosen.includes(name))
const wanted = named.length > 0 ? named : scenarios
await Effect.forEach(
  runtimes,
  (runtime) => Effect.forEach(wanted.filter((scenario) => isFor(runtime, scenario)), (scenario) => record(runtime, scenario))
).pipe(
  Effect.provide(unisolated.layer),
  Effect.runPromise
)
