/** The rules for every real agent in approval mode: which edits are plain, where commands run, sub-agents, questions. */
import { assert, type Vitest } from "@effect/vitest"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { calling } from "@slipway/agents/testing/fake-model/Directives"
import { subAgents, withoutSubAgents } from "@slipway/agents/testing/Scenarios"
import type { AgentEvent, AgentRuntime, AgentSession } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { assertWellFormed } from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { Effect, Fiber, type Scope } from "effect"
import { type Premises, sandbox } from "./RealAgent.ts"

type Made = Effect.Success<ReturnType<typeof sandbox>>
type Needs = AgentRuntime | SandboxHost | Premises | Scope.Scope

type Open = (made: Made, mode: "auto" | "prompt") => Effect.Effect<AgentSession, unknown, Needs>

/** One prompt, with all that it asks for decided so. `at`: the event at which it is interrupted. */
const converse = (session: AgentSession, text: string, decision: "approve" | "deny", at: (event: AgentEvent) => boolean = () => false) =>
  Effect.gen(function*() {
    const events: Array<AgentEvent> = []
    let interrupted = false
    const end = yield* session.prompt({
      turnId: "00000000-0000-5000-8000-000000000001",
      text,
      onEvent: (event) =>
        Effect.suspend(() => {
          events.push(event)
          if (!interrupted && at(event)) {
            interrupted = true
            return session.interrupt
          }
          return event._tag === "ApprovalRequested" ? session.decide(event.approvalId, decision) : Effect.void
        })
    })
    assertWellFormed(events)
    const last = new Map(events.flatMap((event) => event._tag === "ToolUpdated" ? [[event.callId, event]] : []))
    return {
      end,
      asked: events.flatMap((event) => event._tag === "ApprovalRequested" ? [event] : []),
      ends: [...last.values()].map(({ error, status }) => error ?? status)
    }
  })

/** Tools that ask the person, as agents call them. */
const QUESTIONS = ["AskUserQuestion", "ask_user_question", "question"]
const CANNOT = "you have no tool to ask one"
const question = { questions: [{ id: "q", header: "H", question: "Which?", options: [{ label: "A", description: "a" }] }] }

/** Registers the rules with the tests of one host. */
export const rules = (it: Vitest.MethodsNonLive<AgentRuntime | SandboxHost | Premises>, name: string, open: Open) => {
  const subAgent = subAgents[name]
  if (subAgent === undefined) throw new Error(`there is no sub-agent of ${name}`)
  const isWithout = withoutSubAgents.has(name)

  it.effect("says which edits are plain, and where a command runs", () =>
    Effect.gen(function*() {
      const made = yield* sandbox(name)
      const session = yield* open(made, "prompt")
      const paths = ["a.txt", ".git/hooks/pre-commit", ".env"]
      const { asked } = yield* converse(
        session,
        `${paths.map((path) => `[[write path=${path} content=x]]`).join(" ")} [[shell pwd > where.txt]] [[say done]]`,
        "approve"
      )
      const edits = asked.filter(({ kind }) => kind === "edit")
      assert.deepStrictEqual(edits.map(({ paths, plain = false }) => [...paths ?? [], plain]), [
        ["slipway/a.txt", true],
        ["slipway/.git/hooks/pre-commit", false],
        ["slipway/.env", false]
      ])
      const command = asked.find(({ kind }) => kind === "command")?.preview
      assert.include(command?.command, "pwd > where.txt")
      // The other agents are told to go there by the command itself.
      if (name === "codex") assert.strictEqual(command?.cwd, "slipway")
      assert.strictEqual(yield* made.read("where.txt"), `${made.box.workspace}/slipway\n`)
    }))

  it.effect(
    isWithout ? "has no sub-agents where it would ask" : "lets sub-agents ask as it does, and shows what became of their calls",
    () =>
      Effect.gen(function*() {
        const made = yield* sandbox(name)
        const session = yield* open(made, "prompt")
        const theirs = "[[write path=child.txt content=x]] [[shell sleep 1; echo hi > late.txt]] [[say theirs]]"
        const { asked, end, ends } = yield* converse(session, `${subAgent(theirs)} [[say done]]`, "approve")
        assert.deepStrictEqual(end, { state: "succeeded" })
        if (isWithout) {
          assert.isFalse(made.model.requests.some(({ call }) => call.tools.some((tool) => tool.name === "task")))
          return assert.deepStrictEqual([asked, yield* made.read("late.txt")], [[], null])
        }
        const edit = asked.find(({ kind }) => kind === "edit")
        assert.deepStrictEqual([edit?.paths, edit?.plain], [["slipway/child.txt"], true])
        // grok tells the arguments alone when a sub-agent edits.
        assert.include(edit?.preview?.diff ?? edit?.preview?.command ?? "", edit?.preview?.diff === undefined ? "x" : "+x")
        assert.include(asked.find(({ kind }) => kind === "command")?.preview?.command, "echo hi > late.txt")
        assert.isTrue(ends.every((one) => one === "completed"), ends.join())
        // The work of the sub-agents was done before the turn was over.
        assert.deepStrictEqual([yield* made.read("child.txt"), yield* made.read("late.txt")], ["x\n", "hi\n"])
      })
  )

  it.effect("ends its turn when its sub-agents have ended, where no approvals are asked for", () =>
    Effect.gen(function*() {
      const made = yield* sandbox(name)
      const session = yield* open(made, "auto")
      const { end } = yield* converse(session, `${subAgent("[[shell sleep 2; echo hi > late.txt]] [[say theirs]]")} [[say done]]`, "deny")
      assert.deepStrictEqual(end, { state: "succeeded" })
      assert.strictEqual(yield* made.read("late.txt"), "hi\n")
      // Nothing of it is left for the next turn.
      const next = yield* converse(session, "[[say next]]", "deny")
      assert.deepStrictEqual([next.end, next.ends], [{ state: "succeeded" }, []])
    }))

  it.effect("ends its sub-agents when it is interrupted", () =>
    Effect.gen(function*() {
      const made = yield* sandbox(name)
      const session = yield* open(made, "auto")
      const work = subAgent("[[shell touch begun.txt; sleep 1000; touch late.txt]] [[say theirs]]")
      const turn = yield* Effect.forkChild(converse(session, `${work} [[say done]]`, "deny"))
      while ((yield* made.read("begun.txt")) === null) yield* Effect.sleep("50 millis")
      yield* session.interrupt
      const { end } = yield* Fiber.join(turn)
      assert.deepStrictEqual(end, { state: "interrupted" })
      assert.deepStrictEqual((yield* converse(session, "[[say next]]", "deny")).end, { state: "succeeded" })
      assert.isNull(yield* made.read("late.txt"))
    }))

  if (!isWithout) {
    it.effect("leaves undone what a sub-agent was denied", () =>
      Effect.gen(function*() {
        const made = yield* sandbox(name)
        const session = yield* open(made, "prompt")
        // Whether the sub-agent may begin is asked first, by some.
        const decideEdits = (event: AgentEvent) =>
          event._tag !== "ApprovalRequested"
            ? Effect.void
            : session.decide(event.approvalId, event.kind === "edit" ? "deny" : "approve")
        const asked: Array<AgentEvent> = []
        const end = yield* session.prompt({
          turnId: "00000000-0000-5000-8000-000000000001",
          text: `${subAgent("[[write path=child.txt content=x]] [[say theirs]]")} [[say done]]`,
          onEvent: (event) => Effect.suspend(() => (asked.push(event), decideEdits(event)))
        })
        assert.deepStrictEqual(end, { state: "succeeded" })
        assert.isTrue(asked.some((event) => event._tag === "ApprovalRequested" && event.kind === "edit"))
        assert.isNull(yield* made.read("child.txt"))
      }))
  }

  if (name === "claude") {
    it.effect("lets sub-agents of sub-agents ask", () =>
      Effect.gen(function*() {
        const made = yield* sandbox(name)
        const session = yield* open(made, "prompt")
        const inner = `${subAgent("[[write path=grand.txt content=x]] [[say innermost]]")} [[say inner]]`
        const { asked, end, ends } = yield* converse(session, `${subAgent(inner)} [[say done]]`, "approve")
        assert.deepStrictEqual(end, { state: "succeeded" })
        assert.deepStrictEqual(asked.map(({ paths }) => paths), [["slipway/grand.txt"]])
        assert.isTrue(ends.every((one) => one === "completed"), ends.join())
        assert.strictEqual(yield* made.read("grand.txt"), "x\n")
      }))
  }

  if (profiles[name]?.capabilities.asksQuestions === true) return

  it.effect("is told that it cannot ask, and never has a question answered by an approval", () =>
    Effect.gen(function*() {
      const made = yield* sandbox(name)
      const session = yield* open(made, "prompt")
      const { asked } = yield* converse(session, `${calling("request_user_input", question)} [[say done]]`, "approve")
      assert.deepStrictEqual(asked, [])
      const requests = made.model.requests.filter(({ call }) => !call.hidden)
      assert.isNotEmpty(requests)
      for (const { body, call } of requests) {
        assert.include(JSON.stringify(body), CANNOT)
        assert.deepStrictEqual(call.tools.map((tool) => tool.name).filter((tool) => QUESTIONS.includes(tool)), [])
      }
    }))
}
