/** The tool that waits until a sandbox needs something, with its events as progress. */
import type { Message, Snapshot, StreamEvent } from "@slipway/client"
import { Schema } from "effect"
import { cut, sandboxId, SandboxState, stateOf } from "./Shapes.ts"
import { type Call, reads, tool } from "./Tool.ts"

const MAX_SECONDS = 600
/** Below the time limit that many clients have for a call, which is a minute. */
const DEFAULT_SECONDS = 50

/** Some clients take progress as a sign that the call is alive. */
const SIGN_OF_LIFE_MILLIS = 15_000

/** How long a stream may be without an event before the wait fails. */
const GIVE_UP_MILLIS = 30_000

/** Characters of the agent's newest text in the result. */
const MAX_REPLY = 8_000

type Reason = "approval" | "question" | "turn_ended" | "finished" | "timeout" | "restarting"

const NEXT: Record<Reason, string> = {
  approval: "The agent waits for a decision about a tool call: call decide_approval.",
  question: "The agent waits for an answer: call answer_question.",
  turn_ended: "The turn has ended. Look at get_diff, then send_message or publish_pull_request.",
  finished: "The sandbox has ended and takes no more messages.",
  timeout: "Nothing needs you yet: call wait_for_sandbox again.",
  restarting: "The service restarts; the sandbox continues. Call wait_for_sandbox again in a few seconds."
}

const FINISHED: ReadonlySet<string> = new Set(["succeeded", "failed", "terminating", "terminated"])
const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "interrupted", "cancelled"])

/** Why the wait is over; `null`: it goes on. */
const reasonOf = (
  { pending_approvals, pending_questions, sandbox, turn, waiting_messages }: Snapshot
): Exclude<Reason, "timeout" | "restarting"> | null => {
  if (FINISHED.has(sandbox.status)) return "finished"
  if (pending_approvals.length > 0) return "approval"
  if (pending_questions.length > 0) return "question"
  const isIdle = sandbox.status === "running" && turn !== null && ENDED.has(turn.state) && waiting_messages.length === 0
  return isIdle ? "turn_ended" : null
}

/** Events after which the wait may be over. */
const DECISIVE: ReadonlySet<string> = new Set(["sandbox.status", "turn.completed", "approval.requested", "question.asked"])

/** The event as one line for people; `null`: it is not worth a line. */
const lineOf = (event: StreamEvent): string | null => {
  switch (event.type) {
    case "sandbox.status":
      return `The sandbox is ${event.data.status}.`
    case "sandbox.boot":
      return `Boot: ${event.data.stage} is done.`
    case "turn.started":
      return "A turn starts."
    case "turn.completed":
      return `The turn ended: ${event.data.state}.`
    case "tool.updated":
      return event.data.status === "pending" ? null : `Tool ${event.data.status}: ${event.data.tool}`
    case "message.completed":
      return "The agent wrote a message."
    case "plan.updated":
      return `Plan: ${event.data.entries.find(({ status }) => status === "in_progress")?.text ?? `${event.data.entries.length} steps`}`
    case "approval.requested":
      return `The agent asks for approval: ${event.data.tool}`
    case "question.asked":
      return "The agent asks a question."
    case "pull_request.updated":
      return `Pull request: ${event.data.action_state}.`
    case "sandbox.error":
      return `Error: ${event.data.message}`
    default:
      return null
  }
}

/** The newest snapshot of a wait; `null`: none has come yet. */
interface Seen {
  snapshot: Snapshot | null
}

/** Reads one stream: up to the end of the wait, or `again` where only a new snapshot can tell. */
const follow = async (id: string, { client, progress }: Call, signal: AbortSignal, seen: Seen) => {
  const onLost = (error: Error) => {
    // A refusal of the first stream is the answer, such as too many streams; a stream that is lost later is opened again.
    if (seen.snapshot === null) throw error
  }
  for await (const event of client.streamEvents(id, { signal, giveUpMillis: GIVE_UP_MILLIS, onLost })) {
    if (event.type === "snapshot") {
      seen.snapshot = event.data
      const reason = reasonOf(event.data)
      if (reason !== null) return reason
      progress(`Waiting: the sandbox is ${event.data.sandbox.status}.`)
      continue
    }
    if (event.type === "stream.resync") return "restarting"
    // A status of a stream that has caught up is not an event of the log.
    if (!("id" in event)) continue
    const line = lineOf(event)
    if (line !== null) progress(line)
    if (DECISIVE.has(event.type)) return "again"
  }
  return "again"
}

/** Waits at most `millis`. `snapshot`: `null` where none came in that time. */
const wait = async (id: string, call: Call, millis: number): Promise<Seen & { readonly reason: Reason }> => {
  const end = AbortSignal.timeout(millis)
  const signal = AbortSignal.any([call.signal, end])
  const seen: Seen = { snapshot: null }
  const alive = setInterval(
    () => call.progress(`Waiting: the sandbox is ${seen.snapshot?.sandbox.status ?? "asked"}.`),
    SIGN_OF_LIFE_MILLIS
  )
  try {
    for (;;) {
      const found = await follow(id, call, signal, seen)
      call.signal.throwIfAborted()
      if (end.aborted) return { ...seen, reason: "timeout" }
      if (found !== "again") return { ...seen, reason: found }
    }
  } finally {
    clearInterval(alive)
  }
}

/** The agent's newest text, of the newest page of messages. */
const replyOf = (messages: ReadonlyArray<Message>, turnId: string | undefined): string | null =>
  messages.findLast(({ role, turnId: of }) => role === "assistant" && of === turnId)?.text ?? null

/** Pages of 100 messages that are read for the agent's newest text. */
const MAX_PAGES = 5

const newestReply = async (id: string, turnId: string | undefined, { client, signal }: Call): Promise<string | null> => {
  let after: string | null = null
  let reply: string | null = null
  for (let read = 0; read < MAX_PAGES; read++) {
    const { data, nextCursor } = await client.listMessages(id, after === null ? {} : { after }, { signal })
    reply = replyOf(data, turnId) ?? reply
    if (nextCursor === null) break
    after = nextCursor
  }
  return reply
}

export const waitForSandbox = tool({
  name: "wait_for_sandbox",
  title: "Wait for a sandbox",
  description:
    "Waits until the turn of a sandbox ends, the agent asks for an approval or an answer, or the sandbox ends, and says which. " +
    "Its events come as progress notifications meanwhile. After timeoutSeconds it answers with reason timeout: call it again. Waiting " +
    "changes nothing and costs nothing; cancelling it ends only the wait.",
  ...reads,
  input: Schema.Struct({
    sandboxId,
    timeoutSeconds: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_SECONDS }))).annotateKey({
      description: `1 to ${MAX_SECONDS}; default ${DEFAULT_SECONDS}, because many clients end a call after a minute.`
    })
  }),
  output: Schema.Struct({
    ...SandboxState.fields,
    reason: Schema.Literals(["approval", "question", "turn_ended", "finished", "timeout", "restarting"]),
    next: Schema.String.annotateKey({ description: "What to do now." }),
    reply: Schema.NullOr(Schema.String).annotateKey({ description: "The agent's newest text of the turn." })
  }),
  run: async ({ sandboxId, timeoutSeconds = DEFAULT_SECONDS }, call) => {
    const { reason, snapshot: seen } = await wait(sandboxId, call, timeoutSeconds * 1000)
    const snapshot = seen ?? await call.client.snapshot(sandboxId, { signal: call.signal })
    const reply = reason === "turn_ended" || reason === "finished" ? await newestReply(sandboxId, snapshot.turn?.id, call) : null
    return { ...stateOf(snapshot), reason, next: NEXT[reason], reply: cut(reply, MAX_REPLY) as string | null }
  }
})
