/** Following a turn live: showing what happens, and asking for its approvals where somebody sits at the terminal. */
import type { ApprovalRequest, SandboxStatus, SlipwayError, StreamEvent, TokenCounts, TurnState } from "@slipway/client"
import { coveredKind } from "@slipway/domain/sandbox/rules/Approval"
import { Effect, Queue } from "effect"
import * as Answer from "../terminal/Answer.ts"
import * as EventText from "../terminal/EventText.ts"
import { jsonLine, shellWord } from "../terminal/Output.ts"
import * as Terminal from "../terminal/Terminal.ts"
import * as Server from "./Server.ts"

type Input =
  | { readonly _tag: "Event"; readonly event: StreamEvent }
  | { readonly _tag: "Line"; readonly line: string | null }
  | { readonly _tag: "Lost"; readonly seconds: number }
  | { readonly _tag: "Over" }

/** Why following ended: the turn did, or there is none, or the sandbox ended with it. */
export type Outcome =
  | { readonly _tag: "TurnEnded"; readonly state: TurnState }
  | { readonly _tag: "NoTurn"; readonly state: TurnState | null; readonly status: SandboxStatus }
  | { readonly _tag: "SandboxEnded"; readonly status: SandboxStatus | undefined }

const ACTIVE: ReadonlySet<TurnState> = new Set(["pending", "running", "awaiting_approval"])
const FINISHED: ReadonlySet<SandboxStatus> = new Set(["succeeded", "failed", "terminated"])

/** Inputs that wait to be shown; a stream is read as fast as that. */
const AHEAD = 100

export interface Options {
  readonly server: Server.Server
  readonly id: string
  /** From the beginning of the log up to the end of the first turn, or from now up to the end of the turn that is active. */
  readonly from: "start" | "now"
  readonly json: boolean
  /** How long the server may be away, or bring no event at a connection. */
  readonly giveUpMillis: number
  /** Whether standard input was the prompt. */
  readonly takesPrompt: boolean
}

/** Shows the turn until it ends. The cursor after the last event comes with the outcome, for who reads on. */
export const follow = Effect.fnUntraced(function*({ from, giveUpMillis, id, json, server, takesPrompt }: Options) {
  const { client } = server
  const inputs = yield* Queue.bounded<Input>(AHEAD)
  const reading = new AbortController()
  yield* Effect.addFinalizer(() => Effect.sync(() => reading.abort()))
  const onLost = (_: SlipwayError, wait: number) => void Queue.offerUnsafe(inputs, { _tag: "Lost", seconds: Math.ceil(wait / 1000) })
  const events = client.streamEvents(id, { since: from === "start" ? 0 : undefined, signal: reading.signal, onLost, giveUpMillis })
  const produce = Server.resumable(
    `slipway attach ${id}`,
    Effect.gen(function*() {
      for (;;) {
        const next = yield* server.next(events)
        yield* Queue.offer(inputs, next.done === true ? { _tag: "Over" } : { _tag: "Event", event: next.value })
        if (next.done === true) return yield* Effect.never
      }
    })
  )
  const canAsk = json ? false : yield* Terminal.listen((line) => void Queue.offerUnsafe(inputs, { _tag: "Line", line }), takesPrompt)
  return yield* Effect.raceFirst(produce, consume({ server, id, json, canAsk, inputs }))
}, Effect.scoped)

const consume = Effect.fnUntraced(function*({ canAsk, id, inputs, json, server: { call, client, url } }:
  & Pick<Options, "server" | "id" | "json">
  & { readonly canAsk: boolean; readonly inputs: Queue.Dequeue<Input> })
{
  const textOf = EventText.make(Terminal.paint)
  const waiting = new Map<string, ApprovalRequest>()
  let asked: ApprovalRequest | undefined
  let isQuestionShown = false
  /** The approval that was shown whole last. */
  let lastShown: string | undefined
  let canAnswer = canAsk
  let approvesAll = false
  /** Kinds that were approved for the rest of the turn. */
  const covered = new Set<ApprovalRequest["kind"]>()
  const isCovered = (approval: ApprovalRequest) => covered.has(coveredKind(approval) ?? undefined)
  let turn: string | undefined
  let cursor = "0"
  let status: SandboxStatus | undefined
  let tokens: TokenCounts | null = null

  const show = (text: string) => {
    if (text === "") return Effect.void
    const before = isQuestionShown ? "\n" : ""
    isQuestionShown = false
    return Terminal.write(before + text)
  }
  const note = (text: string) => show(`${Terminal.paint("dim", `· ${text}`)}\n`)
  const elsewhere = (approvalId: string) => note(`decide with: slipway approve ${id} ${shellWord(approvalId)}`)

  /** Nobody is asked about what the service approves by itself from now on. */
  const cover = (approval: ApprovalRequest) => {
    const kind = coveredKind(approval)
    if (kind === null) return
    covered.add(kind)
    for (const [id, other] of waiting) if (isCovered(other)) waiting.delete(id)
  }

  const decide = (approval: ApprovalRequest, answer: Exclude<Answer.Answer, { readonly decision: "none" }>) =>
    Effect.matchEffect(
      call((signal) =>
        answer.decision === "deny"
          ? client.deny(id, approval.approval_id, { signal, ...(answer.reason === undefined ? {} : { reason: answer.reason }) })
          : client.approve(id, approval.approval_id, { signal, ...(answer.covers === "kind" ? { scope: "turn" } : {}) })
      ),
      {
        onSuccess: ({ outcome, rejection }) => {
          if (answer.decision === "approve" && answer.covers === "kind" && outcome === "applied") cover(approval)
          waiting.delete(approval.approval_id)
          return outcome === "rejected" ? note(EventText.rejection(rejection)) : Effect.void
        },
        // It is asked again.
        onFailure: (error) => {
          approvesAll = false
          return note(error.message)
        }
      }
    )

  /** Brings up what is asked next. */
  const ask: Effect.Effect<void> = Effect.suspend(() => {
    const [next] = waiting.values()
    asked = next
    if (next === undefined) return Effect.void
    // What cannot be approved for the rest of a turn is asked for one by one.
    if (approvesAll && coveredKind(next) !== null) return Effect.andThen(decide(next, { decision: "approve", covers: "turn" }), ask)
    if (!canAnswer || isQuestionShown) return Effect.void
    // Right above a question stands what it is about, whole.
    const about = lastShown === next.approval_id ? "" : EventText.approval(Terminal.paint, next)
    lastShown = next.approval_id
    const question = Terminal.paint("yellow", Answer.question(EventText.title(next), coveredKind(next) !== null))
    return Effect.andThen(show(about + question), Effect.sync(() => isQuestionShown = true))
  })

  const requested = Effect.fnUntraced(function*(approval: ApprovalRequest) {
    if (isCovered(approval)) return
    waiting.set(approval.approval_id, approval)
    lastShown = approval.approval_id
    if (!canAnswer && !json) yield* elsewhere(approval.approval_id)
  })

  const heard = Effect.fnUntraced(function*(event: StreamEvent) {
    if ("id" in event) cursor = event.id
    if (event.type === "usage.updated" || event.type === "snapshot") tokens = event.data.tokens ?? tokens
    if (event.type === "snapshot") {
      const { pending_approvals, resume_cursor, sandbox, turn: newest } = event.data
      cursor = resume_cursor
      status = sandbox.status
      if (newest !== null && ACTIVE.has(newest.state)) turn = newest.id
      else if (status === "running" || FINISHED.has(status)) return { _tag: "NoTurn", state: newest?.state ?? null, status } as const
      for (const approval of pending_approvals) {
        if (!json) yield* show(EventText.approval(Terminal.paint, approval))
        yield* requested(approval)
      }
    }
    if (event.type === "approval.requested") yield* requested(event.data)
    if (event.type === "approval.resolved") {
      const resolved = waiting.get(event.data.approval_id)
      if (event.data.scope === "turn" && resolved !== undefined) cover(resolved)
      waiting.delete(event.data.approval_id)
    }
    if (event.type === "sandbox.status") status = event.data.status
    if (event.type === "turn.completed" && (turn === undefined || event.turn_id === turn)) {
      return { _tag: "TurnEnded", state: event.data.state } as const
    }
    return undefined
  })

  for (;;) {
    const input = yield* Queue.take(inputs)
    if (input._tag === "Over") return { outcome: { _tag: "SandboxEnded", status } as Outcome, cursor, tokens }
    if (input._tag === "Lost") {
      if (isQuestionShown) yield* show("\n")
      yield* Terminal.say(`slipway: the connection to ${url} is lost; trying again in ${input.seconds} s.`)
    } else if (input._tag === "Line") {
      canAnswer &&= input.line !== null
      // What was typed before there was a question does not answer it.
      if (asked === undefined || !isQuestionShown) continue
      isQuestionShown = false
      if (input.line === null) {
        yield* show("\n")
        yield* elsewhere(asked.approval_id)
        continue
      }
      const answer = Answer.read(input.line)
      if (answer.decision === "approve") approvesAll ||= answer.covers === "turn"
      if (answer.decision !== "none") yield* decide(asked, answer)
    } else {
      yield* show(json ? `${jsonLine(input.event)}\n` : textOf(input.event))
      const ended: Outcome | undefined = yield* heard(input.event)
      if (ended !== undefined) return { outcome: ended, cursor, tokens }
    }
    yield* ask
  }
})
