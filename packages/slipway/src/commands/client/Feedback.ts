/** `slipway feedback`: what became of the comments and failing checks of a pull request, a request for changes, and the end of a pause. */
import type { ChangeRequest, StreamEvent } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { json, print } from "../terminal/Output.ts"
import * as Terminal from "../terminal/Terminal.ts"
import * as Server from "./server/Server.ts"

const { CommandFailed, ExitCode } = Server

/** Feedback, as the log of a sandbox tells it. */
export interface FeedbackReport {
  readonly sandboxId: string
  /** Messages that were made of feedback. */
  readonly messages: number
  /** Items in them. */
  readonly items: number
  /** Replies on pull requests. */
  readonly replies: number
  /** Whether a message was not answered yet. */
  readonly isUnderWay: boolean
  readonly isPaused: boolean
  /** Rounds without a person's word, as of the newest event. */
  readonly rounds: number
  /** Why no new sandbox may go on; `null`: the rounds are over, or nothing is paused. */
  readonly reason: string | null
  /** The sandbox that goes on with the pull request of this finished one. */
  readonly continuedBy: string | null
}

const NOTHING = { messages: 0, items: 0, replies: 0, isUnderWay: false, isPaused: false, rounds: 0, reason: null, continuedBy: null }

/** The report after one more event. */
export const after = (report: FeedbackReport, event: StreamEvent): FeedbackReport => {
  switch (event.type) {
    case "feedback.received": {
      const { count, round, sandbox_id } = event.data
      const heard = { ...report, items: report.items + count, rounds: round, isPaused: false, reason: null }
      return sandbox_id === undefined
        ? { ...heard, messages: report.messages + 1, isUnderWay: true }
        : { ...heard, continuedBy: sandbox_id }
    }
    case "feedback.replied":
      return { ...report, replies: report.replies + 1, isUnderWay: false }
    case "feedback.paused":
      return { ...report, isPaused: true, rounds: event.data.rounds, reason: event.data.reason ?? null }
    case "feedback.resumed":
      return { ...report, isPaused: false, rounds: 0, reason: null }
    default:
      return report
  }
}

/** The report of a sandbox without events. */
export const empty = (sandboxId: string): FeedbackReport => ({ sandboxId, ...NOTHING })

const many = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`

/** The report as text for a terminal. */
export const described = (
  { continuedBy, isPaused, isUnderWay, items, messages, reason, replies, rounds, sandboxId }: FeedbackReport
): string => {
  const soFar = messages + items === 0
    ? "No feedback so far."
    : `${many(messages, "message")} with ${many(items, "item")} of feedback, ${many(replies, "reply").replace("replys", "replies")}.`
  const state = continuedBy !== null
    ? `The sandbox has finished. ${continuedBy} goes on: slipway feedback ${continuedBy}`
    : isPaused && reason !== null
    ? `Feedback is paused: ${reason.replaceAll(/\s+/gu, " ")} The service tries again each hour.`
    : isPaused
    ? `Feedback is paused after ${many(rounds, "round")} without a person's word. Continue: slipway feedback ${sandboxId} --resume`
    : isUnderWay
    ? "The agent has the newest feedback and no reply is written yet."
    : "Feedback is not paused."
  return visible(`${soFar}\n${state}`)
}

/** A comment on a line: `FILE:LINE: TEXT`. `null`: the text has another form. */
export const lineComment = (given: string): NonNullable<ChangeRequest["comments"]>[number] | null => {
  const { line = "", path = "", text = "" } = /^(?<path>[^\n]+?):(?<line>[1-9]\d{0,8}):(?<text>[^]*)$/u.exec(given)?.groups ?? {}
  return path === "" || text.trim() === "" ? null : { path, line: Number(line), text: text.trim() }
}

/** Reads the log up to now. */
const reportOf = Effect.fnUntraced(function*(server: Server.Server, id: string) {
  yield* server.call((signal) => server.client.getSandbox(id, { signal }))
  const reading = new AbortController()
  yield* Effect.addFinalizer(() => Effect.sync(() => reading.abort()))
  const events = server.client.streamEvents(id, { since: 0, signal: reading.signal })
  let report = empty(id)
  for (;;) {
    const next = yield* server.next(events)
    // The service sends a status without the former one after everything in the log.
    if (next.done === true || next.value.type === "sandbox.status" && !("previous" in next.value.data)) return report
    report = after(report, next.value)
  }
}, Effect.scoped)

const unclear = (detail: string) => new CommandFailed({ detail, exitCode: ExitCode.unclear })

export const feedback = Command.make(
  "feedback",
  {
    id: Server.id,
    text: Argument.String("text").pipe(
      Argument.withDescription("What should be different; -: standard input; omitted: show the state of feedback"),
      Argument.optional
    ),
    on: Flag.String("on").pipe(
      Flag.withDescription("A comment on a line, as FILE:LINE: TEXT; repeatable"),
      Flag.atLeast(0)
    ),
    checks: Flag.Boolean("checks").pipe(Flag.withDescription("Have the failing checks fixed"), Flag.withDefault(false)),
    resume: Flag.Boolean("resume").pipe(Flag.withDescription("Continue feedback after a pause"), Flag.withDefault(false)),
    repo: Flag.String("repo").pipe(
      Flag.withDescription("Which of the sandbox's repositories, as owner/name; may be left out when there is one"),
      Flag.optional
    ),
    json,
    url: Server.url
  },
  ({ checks, id: given, json, on, repo, resume, text, url }) =>
    Server.interruptible(Effect.gen(function*() {
      const comments = on.map(lineComment)
      if (comments.includes(null)) return yield* unclear("--on is FILE:LINE: TEXT, such as 'src/cart.ts:12: Keep the rounding.'")
      const isRequest = Option.isSome(text) || on.length > 0 || checks
      if (resume && isRequest) {
        return yield* unclear("--resume takes no text, --on or --checks: a request for changes ends the pause itself.")
      }
      if (Option.isSome(repo) && !isRequest) return yield* unclear("--repo goes with a request for changes.")
      const server = yield* Server.connect(url)
      const { call, client } = server
      const id = yield* Server.sandboxOf(server, given)
      if (resume) {
        const result = yield* call((signal) => client.resumeFeedback(id, { signal }))
        return yield* print(json, result, () => "Feedback is not paused now.")
      }
      if (!isRequest) {
        const report = yield* reportOf(server, id)
        return yield* print(json, report, () => described(report))
      }
      const wanted = Option.isSome(text) && text.value === "-" ? yield* Terminal.readPrompt : Option.getOrNull(text)
      if (Option.isSome(text) && (wanted ?? "").trim() === "") return yield* unclear("there is no text: what should be different?")
      const result = yield* call((signal) =>
        client.requestChanges(id, {
          ...(Option.isSome(repo) ? { repo: repo.value } : {}),
          ...(wanted === null ? {} : { text: wanted }),
          ...(comments.length === 0 ? {} : { comments: comments.filter((comment) => comment !== null) }),
          ...(checks ? { checks } : {})
        }, { signal })
      )
      yield* print(json, result, () =>
        result.sandboxId === id
          ? `Requested. Follow it with: slipway attach ${id}`
          : `${id} has finished. ${result.sandboxId} goes on with its pull request: slipway attach ${result.sandboxId}`)
    }))
).pipe(
  Command.withDescription(
    `Show what became of the feedback on a sandbox's pull request, request changes, or continue after a pause.\n\n${Server.exitCodesText}`
  ),
  Command.withShortDescription("Feedback on the pull request: show, request changes, continue"),
  Command.withExamples([
    { command: "slipway feedback c_abcdefgh2345", description: "Messages, replies, and whether it is paused" },
    { command: "slipway feedback c_abcdefgh2345 'Two, please.' --on 'cart.txt:1: Not one.'", description: "Request changes" },
    { command: "slipway feedback c_abcdefgh2345 --checks", description: "Have the failing checks fixed" },
    { command: "slipway feedback c_abcdefgh2345 --resume", description: "After a pause" }
  ])
)
