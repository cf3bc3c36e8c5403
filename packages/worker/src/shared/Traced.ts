/** The spans of a worker's work: whose trace they go on with, and what of an agent's turn they tell. */
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import type { AgentEvent } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import type { Turn } from "@slipway/domain/sandbox/rules/Turn"
import { Effect, Option, type Tracer } from "effect"
import type { LeasedSandbox } from "./LeasedSandbox.ts"

/** Calls and questions of one turn that are open at once, at most: others are not told of. */
const MAXIMUM_OPEN = 256

/** The traces of the requests for this sandbox and turn. A store that does not answer is not waited for. */
const traces = Effect.fnUntraced(function*(leased: LeasedSandbox, turnId: string | null) {
  const store = yield* SandboxStore
  const kept = yield* RootSpan.quiet(store.traces(leased.id, turnId)).pipe(
    Effect.catchTag("StoreUnavailable", () => Effect.succeed({ creation: null, turn: null }))
  )
  return { creation: RootSpan.fromTraceparent(kept.creation), turn: RootSpan.fromTraceparent(kept.turn) }
})

const linksTo = (...spans: ReadonlyArray<Option.Option<Tracer.AnySpan>>) => spans.flatMap(Option.toArray)

/** When this worker asked for sandboxes and was given this one, epoch milliseconds. */
export interface Claim {
  readonly asked: number
  readonly given: number
}

/**
 * A worker's session of a sandbox. It continues the trace of the request that made the work, or begins a new trace with a link to the
 * sandbox's creation.
 */
export const session = (leased: LeasedSandbox, { asked, given }: Claim) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const { sandbox } = yield* leased.view
    const work = workOf(sandbox)
    const collected = yield* RootSpan.Collected
    const { creation, turn } = collected
      ? yield* traces(leased, sandbox.turn?.id ?? null)
      : { creation: Option.none(), turn: Option.none() }
    const isFirst = work === "boot" || work === "turn" && sandbox.turn?.n === 1
    const parent = isFirst ? creation : work === "turn" ? turn : Option.none()
    const told = Effect.gen(function*() {
      if (work === "boot") yield* RootSpan.past("queue wait", { from: sandbox.createdAt.epochMilliseconds, to: asked, kind: "consumer" })
      yield* RootSpan.past("claim", { from: asked, to: given })
      return yield* Effect.provideService(self, RootSpan.CurrentActivity, new RootSpan.Activity())
    })
    return yield* RootSpan.traced("sandbox session", {
      parent,
      links: isFirst ? [] : linksTo(creation),
      kind: "consumer",
      attributes: {
        "slipway.sandbox.id": leased.id,
        "slipway.work": work ?? "none",
        "gen_ai.request.model": sandbox.model,
        "gen_ai.agent.name": sandbox.agentRuntime
      }
    })(told)
  })

/** Runs a turn. A follow-up's goes on with the trace of its message, and links to the session and to the sandbox's creation. */
export const turn =
  (leased: LeasedSandbox, { id, n }: Turn) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | SandboxStore> =>
    Effect.gen(function*() {
      if (!(yield* RootSpan.Collected)) return yield* self
      const { sandbox } = yield* leased.view
      const kept = yield* traces(leased, id)
      const own = Option.fromUndefinedOr(RootSpan.current(yield* Effect.context<never>()))
      // The session may have begun for this very message.
      const isOwn = n === 1 || Option.isSome(own) && Option.isSome(kept.turn) && own.value.traceId === kept.turn.value.traceId
      const activity = yield* RootSpan.CurrentActivity
      return yield* Effect.gen(function*() {
        activity.current = RootSpan.current(yield* Effect.context<never>()) ?? null
        return yield* Effect.tap(
          self,
          () =>
            Effect.flatMap(
              leased.view,
              // The next one may have begun.
              ({ sandbox: { turn: after } }) => after?.id === id ? RootSpan.annotate({ "slipway.turn.state": after.state }) : Effect.void
            )
        )
      }).pipe(
        Effect.ensuring(Effect.sync(() => {
          activity.current = null
        })),
        RootSpan.traced("turn", {
          parent: isOwn ? own : kept.turn,
          links: n === 1 ? [] : isOwn ? linksTo(kept.creation) : linksTo(kept.creation, own),
          attributes: {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": sandbox.agentRuntime,
            "gen_ai.request.model": sandbox.model,
            "gen_ai.conversation.id": leased.id,
            "slipway.sandbox.id": leased.id,
            "slipway.turn.id": id,
            "slipway.turn.number": n
          }
        })
      )
    })

/** Spans of what an agent does within the present one. Of tool calls no name or argument is told: an agent writes them as it likes. */
export const activity = Effect.gen(function*() {
  const collected = yield* RootSpan.Collected
  const calls = new Map<string, RootSpan.Open>()
  const asked = new Map<string, RootSpan.Open>()
  const questions = new Map<string, RootSpan.Open>()

  const begin = Effect.fnUntraced(
    function*(open: Map<string, RootSpan.Open>, id: string, name: string, attributes: Record<string, string>) {
      if (open.size >= MAXIMUM_OPEN || open.has(id)) return
      open.set(id, yield* RootSpan.open(name, attributes))
    }
  )
  const end = Effect.fnUntraced(function*(open: Map<string, RootSpan.Open>, id: string, attributes: Record<string, string>) {
    const span = open.get(id)
    if (span === undefined) return
    open.delete(id)
    for (const [key, value] of Object.entries(attributes)) span.attribute(key, value)
    yield* span.end
  })

  const on = (event: AgentEvent): Effect.Effect<void> => {
    if (!collected) return Effect.void
    if (event._tag === "ApprovalRequested") {
      return begin(asked, event.approvalId, "approval wait", event.kind === undefined ? {} : { "slipway.tool.kind": event.kind })
    }
    if (event._tag === "QuestionAsked") return begin(questions, event.questionId, "answer wait", {})
    if (event._tag !== "ToolUpdated") return Effect.void
    const { callId, status } = event
    if (status === "pending" || status === "running") {
      return begin(calls, callId, "execute_tool", { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.type": "function" })
    }
    return Effect.andThen(
      calls.has(callId) ? Effect.void : begin(calls, callId, "execute_tool", { "gen_ai.operation.name": "execute_tool" }),
      end(calls, callId, status === "error" ? { "error.type": "tool_error" } : {})
    )
  }
  return {
    on,
    decided: (approvalId: string, outcome: string) => end(asked, approvalId, { "slipway.approval.outcome": outcome }),
    answered: (questionId: string, by: string) => end(questions, questionId, { "slipway.question.by": by }),
    /** Ends what is open still. */
    ended: Effect.suspend(() =>
      Effect.forEach(
        [calls, asked, questions],
        (open) => Effect.forEach(Array.from(open.keys()), (id) => end(open, id, {}), { discard: true }),
        {
          discard: true
        }
      )
    )
  }
})
