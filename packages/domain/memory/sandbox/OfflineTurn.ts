/** A turn of the agent in memory: executes the steps of its prompt, and of steering messages. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Result from "effect/Result"
import type { AgentSession, AgentSessionOptions, PromptImage, TurnEnd } from "../../src/sandbox/ports/AgentRuntime.ts"
import type { BoxProcess } from "../../src/sandbox/ports/SandboxHost.ts"
import { isPlainEdit } from "../../src/sandbox/rules/Approval.ts"
import { refusalOf } from "../../src/sandbox/rules/Question.ts"
import * as ToolCall from "../../src/sandbox/rules/ToolCall.ts"
import type { ToolKind } from "../../src/sandbox/rules/ToolCall.ts"
import type { Answers } from "../../src/sandbox/schema/Question.ts"
import { normalizePath } from "../../src/source/rules/FileRules.ts"
import { answersSaid, contentOf, type EditedFile, fileOf, planOf, questionsOf, type Step, stepsOf } from "./OfflineScript.ts"

/** The session of the turn. */
export interface Session extends Pick<AgentSessionOptions, "box" | "repositories" | "toolApprovalMode"> {
  readonly files: Map<string, string>
  readonly process: BoxProcess
  /** Prompts of the session so far, oldest first. */
  readonly earlier: ReadonlyArray<string>
  remember(prompt: string): void
  /** An unused number of the runtime. */
  nextNumber(): number
  /** From here on the turn takes no messages. */
  finish(turn: Running): void
}

/** A decision about a tool call. */
export interface Decided {
  readonly decision: "approve" | "deny"
  /** The person's reason, if any. */
  readonly reason: string | undefined
}

/** The state of an active turn for its session. */
export interface Running {
  ended: "interrupted" | "died" | null
  readonly stopped: Latch.Latch
  readonly approvals: Map<string, Deferred.Deferred<Decided>>
  readonly questions: Map<string, Deferred.Deferred<Answers | null>>
  /** Steering messages that were not taken yet. */
  readonly steers: Array<{ readonly id: string; readonly text: string }>
  /** Ids of all messages that the turn was given. */
  readonly handed: Set<string>
  /** Opened when the turn is given a message. */
  readonly told: Latch.Latch
}

/** The state of a new turn. */
export const begin = (): Running => ({
  ended: null,
  stopped: Latch.makeUnsafe(false),
  approvals: new Map(),
  questions: new Map(),
  steers: [],
  handed: new Set(),
  told: Latch.makeUnsafe(false)
})

/** A turn while its steps are executed. */
interface Performance {
  readonly session: Session
  readonly turn: Running
  readonly turnId: string
  readonly onEvent: Parameters<AgentSession["prompt"]>[0]["onEvent"]
  readonly images: ReadonlyArray<PromptImage>
  /** Prompts of the session before this one. */
  readonly before: ReadonlyArray<string>
  /** The message whose thought was sent and whose text was not. */
  thought: string | null
  /** Calls of sub-agents that are at work, the innermost last. */
  readonly subAgents: Array<{ readonly callId: string; readonly tool: string; readonly parent: Parent }>
}

/** The call that a call is of; empty: it is the agent's own. */
interface Parent {
  readonly parentCallId?: string
}

const parentOf = ({ subAgents }: Performance): Parent => {
  const parent = subAgents.at(-1)
  return parent === undefined ? {} : { parentCallId: parent.callId }
}

/** A sub-agent begins. It needs no approval; its calls do. */
const delegate = Effect.fnUntraced(function*(performance: Performance, title: string) {
  performance.thought = null
  const about = { callId: nextId(performance, "call"), tool: ToolCall.shownTitle(title), parent: parentOf(performance) }
  const { callId, parent, tool } = about
  for (const status of ["pending", "running"] as const) {
    yield* performance.onEvent({ _tag: "ToolUpdated", callId, tool, status, ...parent })
  }
  performance.subAgents.push(about)
})

/** The innermost sub-agent ends. */
const back = Effect.fnUntraced(function*({ onEvent, subAgents, turn }: Performance) {
  const ended = subAgents.pop()
  if (ended === undefined) return
  const { callId, parent, tool } = ended
  const end = turn.ended === null ? { status: "completed" as const } : { status: "error" as const, error: "Cancelled." }
  yield* onEvent({ _tag: "ToolUpdated", callId, tool, ...end, ...parent })
})

/** The id includes the turn, because another machine may have run earlier turns. */
const nextId = ({ session, turnId }: Performance, prefix: string) => `${prefix}_${turnId}_${session.nextNumber()}`

const pause = <A>({ turn }: Performance, self: Effect.Effect<A>) => Effect.raceFirst(self, turn.stopped.await)

const speak = (performance: Performance, said: string, kind: "text" | "reasoning" = "text") => {
  const { onEvent, thought } = performance
  const messageId: string = kind === "text" && thought !== null ? thought : nextId(performance, "msg")
  performance.thought = kind === "text" ? null : messageId
  return onEvent({ _tag: "MessageUpdated", messageId, kind, text: said })
}

type CallOptions = Pick<ToolCall.ToolCall, "command" | "diff"> & { readonly kind: ToolKind; readonly paths: ReadonlyArray<string> }

const call = Effect.fnUntraced(function*(performance: Performance, about: CallOptions, title: string, work: () => string | null) {
  const { onEvent, session: { toolApprovalMode }, turn } = performance
  performance.thought = null
  const callId = nextId(performance, "call")
  const { kind, paths } = about
  const tool = ToolCall.shownTitle(title)
  const detail = ToolCall.detail(about)
  const more = { ...parentOf(performance), ...(detail === undefined ? {} : { detail }) }
  const updated = (status: "pending" | "running" | "completed") => onEvent({ _tag: "ToolUpdated", callId, tool, status, ...more })
  const failed = (error: string) => onEvent({ _tag: "ToolUpdated", callId, tool, status: "error", error, ...more })
  yield* updated("pending")
  if (toolApprovalMode === "prompt") {
    const preview = ToolCall.preview(about)
    if (Result.isFailure(preview)) {
      yield* failed(`denied: ${preview.failure}`)
      return yield* speak(performance, `I was not allowed to do this, so I left it: ${tool}`)
    }
    const decision = yield* Deferred.make<Decided>()
    turn.approvals.set(callId, decision)
    // A script names files below the folders of its trees.
    const isPlain = isPlainEdit({ ...about, removes: false }, paths.flatMap((path) => path.split("/").slice(0, 1)))
    const plain = isPlain ? { plain: true as const } : {}
    yield* onEvent({ _tag: "ApprovalRequested", approvalId: callId, tool, kind, paths, ...plain, preview: preview.success })
    const decided = yield* pause(performance, Deferred.await(decision))
    turn.approvals.delete(callId)
    if (turn.ended !== null || decided === undefined) return yield* failed("Cancelled.")
    if (decided.decision !== "approve") {
      yield* failed("Denied.")
      const told = decided.reason === undefined ? "" : `. I was told: ${decided.reason}`
      return yield* speak(performance, `I was not allowed to do this, so I left it: ${tool}${told}`)
    }
  }
  yield* updated("running")
  if (turn.ended !== null) return yield* failed("Cancelled.")
  const problem = work()
  if (problem === null) return yield* updated("completed")
  yield* failed(problem)
  yield* speak(performance, `This did not work: ${tool}. ${problem}`)
})

/** Asks a person, and says the answers. */
const ask = Effect.fnUntraced(function*(performance: Performance, body: string) {
  const { onEvent, turn } = performance
  performance.thought = null
  const questions = questionsOf(body)
  const refused = refusalOf(questions)
  if (refused !== null) return yield* speak(performance, `I could not ask: ${refused}`)
  const questionId = nextId(performance, "ask")
  const answered = yield* Deferred.make<Answers | null>()
  turn.questions.set(questionId, answered)
  yield* onEvent({ _tag: "QuestionAsked", questionId, questions })
  const answers = yield* pause(performance, Deferred.await(answered))
  turn.questions.delete(questionId)
  if (turn.ended === null) yield* speak(performance, answersSaid(questions, answers ?? null))
})

const edit = (
  performance: Performance,
  verb: "Write" | "Delete",
  { path, repo }: EditedFile,
  content: (before: string | undefined) => string | null
) => {
  const { box, files, repositories } = performance.session
  const folder = repositories.find(({ name }) => repo === null || name.toLowerCase() === repo.toLowerCase())?.folder
  const normal = Result.getOrElse(normalizePath(path), () => "")
  const file = folder === undefined || normal === "" ? undefined : `${box.workspace}/${folder}/${normal}`
  const before = file === undefined ? undefined : files.get(file)
  const paths = folder === undefined ? [] : [`${folder}/${normal}`]
  const diff = ToolCall.unifiedDiff(paths[0] ?? path, before ?? null, content(before))
  return call(performance, { kind: "edit", paths, diff }, `${verb} ${path}`, () => {
    if (folder === undefined) return "The sandbox has no such repository."
    if (file === undefined) return "The path must be inside the repository."
    const text = content(files.get(file))
    if (text === null && !files.delete(file)) return "There is no such file."
    if (text !== null) files.set(file, text)
    return null
  })
}

/** Says words with a pause after each. */
const speakSlowly = Effect.fnUntraced(function*(performance: Performance, body: string) {
  const { onEvent, turn } = performance
  const [words = 0, millis = 0] = body.split(/\s+/u).map(Number)
  const messageId: string = performance.thought ?? nextId(performance, "msg")
  performance.thought = null
  let said = ""
  for (let word = 1; word <= words && turn.ended === null; word++) {
    said += `word${word} `
    yield* onEvent({ _tag: "MessageUpdated", messageId, kind: "text", text: said })
    yield* pause(performance, Effect.sleep(millis))
  }
})

/** `null`: the turn continues. */
const perform = Effect.fnUntraced(function*(performance: Performance, { body, name }: Step): Effect.fn.Return<TurnEnd | null> {
  const { before, session, turn } = performance
  switch (name) {
    case "say":
    case "think":
      yield* speak(performance, body, name === "say" ? "text" : "reasoning")
      break
    case "ask":
      yield* ask(performance, body)
      break
    case "write":
    case "delete": {
      const file = fileOf(body)
      const content = contentOf(body)
      if (file === null || name === "write" && content === undefined) {
        return { state: "failed", reason: `[[${name}]] is not complete.` }
      }
      yield* edit(performance, name === "write" ? "Write" : "Delete", file, () => content === undefined ? null : `${content}\n`)
      break
    }
    case "plan": {
      const entries = planOf(body)
      if (entries === null) return { state: "failed", reason: "[[plan]] needs +, > or - before each step." }
      yield* performance.onEvent({ _tag: "PlanUpdated", entries: ToolCall.shownPlan(entries) })
      break
    }
    case "delegate":
      yield* delegate(performance, body)
      break
    case "back":
      yield* back(performance)
      break
    case "listen":
      if (turn.steers.length === 0) yield* pause(performance, turn.told.await)
      break
    case "shell":
      yield* call(performance, { kind: "command", command: body, paths: [] }, body, () => "This agent runs no commands.")
      break
    case "slow":
      yield* speakSlowly(performance, body)
      break
    case "hang":
      yield* pause(performance, Effect.never)
      break
    case "crash":
      yield* session.process.endInput
      yield* pause(performance, Effect.never)
      break
    case "error":
      return { state: "failed", reason: body }
    case "images":
      yield* speak(performance, seen(performance.images))
      break
    case "recall":
      yield* speak(performance, before.length === 0 ? "This is the first prompt of the session." : before.join("\n"))
      break
  }
  return null
})

/** As the offline agent says it. */
const seen = (images: ReadonlyArray<PromptImage>): string =>
  images.length === 0
    ? "I see no images."
    : `I see: ${images.map(({ data, mediaType }) => `${mediaType} of ${data.length} bytes`).join(", ")}.`

const isOver = (turn: Running): boolean => turn.ended !== null

/** Runs a turn to its end. */
export const run = Effect.fnUntraced(function*(
  session: Session,
  turn: Running,
  { images = [], onEvent, text, turnId }: Parameters<AgentSession["prompt"]>[0]
) {
  const performance: Performance = { session, turn, turnId, onEvent, images, before: [...session.earlier], thought: null, subAgents: [] }
  session.remember(text)
  const steps = stepsOf(text)
  if (steps.length === 0) {
    yield* edit(performance, "Write", { path: "NOTES.md", repo: null }, (notes = "") => `${notes}${text}\n`)
    yield* speak(performance, "I have added your message to NOTES.md.")
  }
  // Steering messages come before the remaining steps.
  for (;;) {
    if (turn.ended !== null) break
    const steer = turn.steers.shift()
    if (steer !== undefined) {
      session.remember(steer.text)
      yield* onEvent({ _tag: "MessageSteered", messageId: steer.id })
      const told = stepsOf(steer.text)
      if (told.length === 0) yield* speak(performance, `I was told: ${steer.text}`)
      steps.unshift(...told)
      continue
    }
    turn.told.closeUnsafe()
    const step = steps.shift()
    if (step === undefined) break
    const end = yield* perform(performance, step)
    if (end === null) continue
    while (performance.subAgents.length > 0) yield* back(performance)
    return end
  }
  while (performance.subAgents.length > 0) yield* back(performance)
  session.finish(turn)
  return { state: isOver(turn) ? "interrupted" : "succeeded" }
}) satisfies (...args: never) => Effect.Effect<TurnEnd>
