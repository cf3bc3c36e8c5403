/** Follows a turn live: shows events, and asks for approvals if a person is at the terminal. */
import type {
  ApprovalRequest,
  QuestionAnswer,
  QuestionRequest,
  SandboxStatus,
  SlipwayError,
  StreamEvent,
  TokenCounts,
  TurnState
} from "@slipway/client"
import { coveredKind } from "@slipway/domain/sandbox/rules/Approval"
import { Effect, Queue } from "effect"
import * as Answer from "../terminal/Answer.ts"
import * as EventText from "../terminal/EventText.ts"
import { jsonLine, shellWord } from "../terminal/Output.ts"
import * as Terminal from "../terminal/Terminal.ts"
import * as TypedAnswer from "../terminal/TypedAnswer.ts"
import * as Server from "./server/Server.ts"

type Input =
  | { readonly _tag: "Event"; readonly event: StreamEvent }
  | { readonly _tag: "Line"; readonly line: string | null }
  | { readonly _tag: "Lost"; readonly seconds: number }
  | { readonly _tag: "Tick" }
  | { readonly _tag: "Over" }

/** Why following ended: the turn ended, there is no turn, or the sandbox ended with it. */
export type Outcome =
  | { readonly _tag: "TurnEnded"; readonly state: TurnState }
  | { readonly _tag: "NoTurn"; readonly state: TurnState | null; readonly status: SandboxStatus }
  | { readonly _tag: "SandboxEnded"; readonly status: SandboxStatus | undefined }

const ACTIVE: ReadonlySet<TurnState> = new Set(["pending", "running", "awaiting_approval", "awaiting_answer"])
const FINISHED: ReadonlySet<SandboxStatus> = new Set(["succeeded", "failed", "terminated"])

/** Inputs that wait to be shown. With more, the stream is read more slowly. */
const AHEAD = 100

interface Options {
  readonly server: Server.Server
  readonly id: string
  /** `start`: from the beginning of the log to the end of the first turn. `now`: from now to the end of the active turn. */
  readonly from: "start" | "now"
  readonly json: boolean
  /** How long the server may be unavailable, or a connection without events. */
  readonly giveUpMillis: number
  /** Whether the prompt came from standard input. */
  readonly takesPrompt: boolean
}

/** A request for answers, and the answers typed so far, in the order of its questions. */
interface Inquiry {
  readonly request: QuestionRequest
  readonly answers: Array<QuestionAnswer>
}

/** A followed turn. */
interface Following extends Pick<Options, "server" | "id" | "json"> {
  readonly textOf: EventText.EventText
  /** Whether the line with the boot is on the screen, below all other text. */
  isBootShown: boolean
  /** Approvals that need a decision. */
  readonly waiting: Map<string, ApprovalRequest>
  /** The kinds that were approved for the rest of the turn. */
  readonly covered: Set<ApprovalRequest["kind"]>
  asked: ApprovalRequest | undefined
  /** Requests for answers that need one, with the answers typed so far. */
  readonly questions: Map<string, Inquiry>
  /** The request of the question that is shown. */
  inquiry: Inquiry | undefined
  isQuestionShown: boolean
  /** The approval that was last shown in full. */
  lastShown: string | undefined
  canAnswer: boolean
  approvesAll: boolean
  turn: string | undefined
  cursor: string
  status: SandboxStatus | undefined
  tokens: TokenCounts | null
}

const ERASE_LINE = "\r\u001b[2K"
/** Milliseconds between two drawings of the boot. */
const TICK = 250
const SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

/** Draws the boot again, with the time that it has taken so far. */
const drawBoot = (following: Following) => {
  const now = Date.now()
  const boot = following.textOf.booting(now)
  if (boot === null) return Effect.void
  following.isBootShown = true
  // A line that wraps cannot be erased.
  const room = Math.max(20, (process.stdout.columns || 80) - 3)
  const mark = Terminal.paint("cyan", SPINNER.charAt(Math.floor(now / TICK) % SPINNER.length))
  return Terminal.write(`${ERASE_LINE}${mark} ${Terminal.paint("dim", boot.slice(0, room))}`)
}

const show = (following: Following, text: string) => {
  if (text === "") return Effect.void
  const before = following.isBootShown ? ERASE_LINE : following.isQuestionShown ? "\n" : ""
  following.isBootShown = false
  following.isQuestionShown = false
  return Terminal.write(before + text)
}

const note = (following: Following, text: string) => show(following, `${Terminal.paint("dim", `· ${text}`)}\n`)

const elsewhere = (following: Following, approvalId: string) =>
  note(following, `decide with: slipway approve ${following.id} ${shellWord(approvalId)}`)

const isCovered = ({ covered }: Following, approval: ApprovalRequest) => covered.has(coveredKind(approval) ?? undefined)

/** Removes the questions about calls that the service approves itself from now on. */
const cover = (following: Following, approval: ApprovalRequest) => {
  const { covered, waiting } = following
  const kind = coveredKind(approval)
  if (kind === null) return
  covered.add(kind)
  for (const [id, other] of waiting) if (isCovered(following, other)) waiting.delete(id)
}

const decide = (
  following: Following,
  approval: ApprovalRequest,
  answer: Exclude<Answer.Answer, { readonly decision: "none" }>
) => {
  const { id, server: { call, client }, waiting } = following
  return Effect.matchEffect(
    call((signal) =>
      answer.decision === "deny"
        ? client.deny(id, approval.approval_id, { signal, ...(answer.reason === undefined ? {} : { reason: answer.reason }) })
        : client.approve(id, approval.approval_id, { signal, ...(answer.covers === "kind" ? { scope: "turn" } : {}) })
    ),
    {
      onSuccess: ({ outcome, rejection }) => {
        if (answer.decision === "approve" && answer.covers === "kind" && outcome === "applied") cover(following, approval)
        waiting.delete(approval.approval_id)
        return outcome === "rejected" ? note(following, EventText.rejection(rejection)) : Effect.void
      },
      // Ask again.
      onFailure: (error) => {
        following.approvesAll = false
        return note(following, error.message)
      }
    }
  )
}

const reply = (following: Following, { answers, request: { question_id, questions } }: Inquiry, isDismissed: boolean) => {
  const { id, server: { call, client } } = following
  const given = Object.fromEntries(answers.flatMap((answer, index) => {
    const question = questions[index]
    return question === undefined ? [] : [[question.id, answer]]
  }))
  return Effect.matchEffect(
    call((signal) => client.answerQuestion(id, question_id, isDismissed ? { dismiss: true } : { answers: given }, { signal })),
    {
      onSuccess: ({ outcome, rejection }) => {
        following.questions.delete(question_id)
        return outcome === "rejected" ? note(following, EventText.rejection(rejection)) : Effect.void
      },
      // Ask again.
      onFailure: (error) => {
        answers.length = 0
        return note(following, error.message)
      }
    }
  )
}

/** Shows the next question of the oldest request for answers. */
const inquire = (following: Following): Effect.Effect<void> => {
  const [next] = following.questions.values()
  following.inquiry = next
  const question = next?.request.questions[next.answers.length]
  if (next === undefined || question === undefined || !following.canAnswer || following.isQuestionShown) return Effect.void
  const key = `${next.request.question_id} ${next.answers.length}`
  // A request with one question is right above its prompt.
  const about = following.lastShown === key ? "" : EventText.question(Terminal.paint, question)
  following.lastShown = key
  const text = Terminal.paint("yellow", TypedAnswer.prompt(question))
  return Effect.andThen(show(following, about + text), Effect.sync(() => following.isQuestionShown = true))
}

/** Handles a line that answers the shown question. */
const replied = (following: Following, inquiry: Inquiry, line: string): Effect.Effect<void> => {
  const { answers, request: { questions } } = inquiry
  const question = questions[answers.length]
  if (question === undefined) return Effect.void
  const typed = TypedAnswer.read(question, line)
  if ("problem" in typed) return typed.problem === "" ? Effect.void : note(following, typed.problem)
  if ("dismiss" in typed) return reply(following, inquiry, true)
  answers.push(typed.answer)
  return answers.length < questions.length ? Effect.void : reply(following, inquiry, false)
}

/** Shows the next approval to decide or, without one, the next question. */
const ask = (following: Following): Effect.Effect<void> =>
  Effect.suspend(() => {
    const [next] = following.waiting.values()
    following.asked = next
    following.inquiry = undefined
    if (next === undefined) return inquire(following)
    // Calls that cannot be approved for the rest of a turn need a question each.
    if (following.approvesAll && coveredKind(next) !== null) {
      return Effect.andThen(decide(following, next, { decision: "approve", covers: "turn" }), ask(following))
    }
    if (!following.canAnswer || following.isQuestionShown) return Effect.void
    // The full approval is right above its question.
    const about = following.lastShown === next.approval_id ? "" : EventText.approval(Terminal.paint, next)
    following.lastShown = next.approval_id
    const question = Terminal.paint("yellow", Answer.question(EventText.title(next), coveredKind(next) !== null))
    return Effect.andThen(show(following, about + question), Effect.sync(() => following.isQuestionShown = true))
  })

const requested = Effect.fnUntraced(function*(following: Following, approval: ApprovalRequest) {
  const { canAnswer, json, waiting } = following
  if (isCovered(following, approval)) return
  waiting.set(approval.approval_id, approval)
  following.lastShown = approval.approval_id
  if (!canAnswer && !json) yield* elsewhere(following, approval.approval_id)
})

const asked = Effect.fnUntraced(function*(following: Following, request: QuestionRequest) {
  const { canAnswer, id, json, questions } = following
  questions.set(request.question_id, { request, answers: [] })
  if (request.questions.length === 1) following.lastShown = `${request.question_id} 0`
  if (!canAnswer && !json) yield* note(following, `answer with: slipway answer ${id} --question ${shellWord(request.question_id)} ANSWER`)
})

/** Handles an event. Returns the outcome if following ends with it. */
const heard = Effect.fnUntraced(function*(following: Following, event: StreamEvent) {
  const { json, waiting } = following
  if ("id" in event) following.cursor = event.id
  if (event.type === "usage.updated" || event.type === "snapshot") following.tokens = event.data.tokens ?? following.tokens
  if (event.type === "snapshot") {
    const { pending_approvals, pending_questions = [], resume_cursor, sandbox: { status }, turn: newest } = event.data
    following.cursor = resume_cursor
    following.status = status
    if (newest !== null && ACTIVE.has(newest.state)) following.turn = newest.id
    else if (status === "running" || FINISHED.has(status)) return { _tag: "NoTurn", state: newest?.state ?? null, status } as const
    for (const approval of pending_approvals) {
      if (!json) yield* show(following, EventText.approval(Terminal.paint, approval))
      yield* requested(following, approval)
    }
    for (const request of pending_questions) {
      if (!json) yield* show(following, EventText.questions(Terminal.paint, request))
      yield* asked(following, request)
    }
  }
  if (event.type === "approval.requested") yield* requested(following, event.data)
  if (event.type === "approval.resolved") {
    const resolved = waiting.get(event.data.approval_id)
    if (event.data.scope === "turn" && resolved !== undefined) cover(following, resolved)
    waiting.delete(event.data.approval_id)
  }
  if (event.type === "question.asked") yield* asked(following, event.data)
  if (event.type === "question.answered") following.questions.delete(event.data.question_id)
  if (event.type === "sandbox.status") following.status = event.data.status
  if (event.type === "turn.completed" && (following.turn === undefined || event.turn_id === following.turn)) {
    return { _tag: "TurnEnded", state: event.data.state } as const
  }
  return undefined
})

/** Handles a line of standard input. Returns whether it answered a question. */
const answered = Effect.fnUntraced(function*(following: Following, line: string | null) {
  following.canAnswer &&= line !== null
  const { asked, inquiry } = following
  // A line typed before the question does not answer it.
  if (asked === undefined && inquiry === undefined || !following.isQuestionShown) return false
  following.isQuestionShown = false
  if (asked === undefined) {
    if (line === null || inquiry === undefined) return false
    yield* replied(following, inquiry, line)
    return true
  }
  if (line === null) {
    yield* show(following, "\n")
    yield* elsewhere(following, asked.approval_id)
    return false
  }
  const answer = Answer.read(line)
  if (answer.decision === "approve") following.approvesAll ||= answer.covers === "turn"
  if (answer.decision !== "none") yield* decide(following, asked, answer)
  return true
})

const consume = Effect.fnUntraced(function*({ canAsk, canDraw, id, inputs, json, server }:
  & Pick<Options, "server" | "id" | "json">
  & { readonly canAsk: boolean; readonly canDraw: boolean; readonly inputs: Queue.Dequeue<Input> })
{
  const following: Following = {
    server,
    id,
    json,
    textOf: EventText.make(Terminal.paint, { isLive: canDraw, isRendered: Terminal.isStyled() }),
    isBootShown: false,
    waiting: new Map(),
    covered: new Set(),
    asked: undefined,
    questions: new Map(),
    inquiry: undefined,
    isQuestionShown: false,
    lastShown: undefined,
    canAnswer: canAsk,
    approvesAll: false,
    turn: undefined,
    cursor: "0",
    status: undefined,
    tokens: null
  }
  for (;;) {
    const input = yield* Queue.take(inputs)
    if (input._tag === "Over") {
      const { cursor, status, tokens } = following
      return { outcome: { _tag: "SandboxEnded", status } as Outcome, cursor, tokens }
    }
    if (input._tag === "Tick") {
      yield* drawBoot(following)
      continue
    }
    if (input._tag === "Lost") {
      if (following.isQuestionShown || following.isBootShown) yield* show(following, "\n")
      yield* Terminal.say(`slipway: the connection to ${server.url} is lost; trying again in ${input.seconds} s.`)
    } else if (input._tag === "Line") {
      if (!(yield* answered(following, input.line))) continue
    } else {
      yield* show(following, json ? `${jsonLine(input.event)}\n` : following.textOf(input.event))
      const outcome: Outcome | undefined = yield* heard(following, input.event)
      if (outcome !== undefined) return { outcome, cursor: following.cursor, tokens: following.tokens }
    }
    yield* ask(following)
  }
})

/** Shows the turn until it ends. Also returns the cursor after the last event, for callers that continue reading. */
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
  const canDraw = !json && Terminal.isStyled()
  const tick = Effect.forever(Effect.andThen(Effect.sleep(TICK), Effect.sync(() => Queue.offerUnsafe(inputs, { _tag: "Tick" }))))
  if (canDraw) yield* Effect.forkScoped(tick)
  return yield* Effect.raceFirst(produce, consume({ server, id, json, canAsk, canDraw, inputs }))
}, Effect.scoped)
