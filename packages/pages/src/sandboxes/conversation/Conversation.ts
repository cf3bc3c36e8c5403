/** The conversation of a sandbox: one item for each part, in the order in which the parts began. `Items.ts` renders them. */
import type { Question } from "@slipway/domain/sandbox/rules/Question"
import type { RecordedEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { completedSteps, type PlanEntry } from "@slipway/domain/sandbox/rules/ToolCall"
import type { TurnOutcome } from "@slipway/domain/sandbox/rules/Turn"
import type { DateTime } from "effect"
import { duration } from "../../html/Moments.ts"
import { labels } from "../../shared/SandboxLabels.ts"

/** The stages of a start, in their order. */
export const STAGES = ["queue", "sandbox", "clone", "setup", "agent"] as const
export type Stage = typeof STAGES[number]

/** How far a sandbox is with its start. */
export interface Boot {
  /** Milliseconds of the stages that are done. */
  readonly done: Readonly<Partial<Record<Stage, number>>>
  /** The stage that goes on; `null`: none does any more. */
  readonly stage: Stage | null
  /** When it left the queue or, until then, was created. */
  readonly since: DateTime.Utc
  /** All of it, once it is ready. */
  readonly ms: number | null
}

/** The state and the files of a tool call, which its row shows beside its text. */
export interface Call {
  readonly state: "waits" | "runs" | "asks" | "done" | "failed" | "denied"
  /** The files that it names. */
  readonly paths: ReadonlyArray<string>
  readonly isCommand: boolean
  /** How deep it is nested below the agent's own calls: a sub-agent's call is 1. */
  readonly depth: number
}

/** Kinds of items. `Items.ts` has what each looks like. */
export type Kind = "prompt" | "text" | "reasoning" | "tool" | "plan" | "boot" | "end" | "checkpoint" | "note" | "problem"

export interface Item {
  /** Items of one key replace each other. */
  readonly key: string
  readonly kind: Kind
  /** The text; for a tool call its title in the first line, then its command, decision and output. */
  readonly text: string
  readonly at: DateTime.Utc
  /** The event that told it last; 0: none did. */
  readonly seq: number
  /** How long it took; left out where that is unknown. */
  readonly ms?: number
  /** Names of the files of a prompt. */
  readonly files?: ReadonlyArray<string>
  readonly call?: Call
  readonly boot?: Boot
  readonly plan?: ReadonlyArray<PlanEntry>
  /** The checkpoint that it is about. */
  readonly checkpoint?: number
  /** The rest is the output of the setup. */
  readonly isOfSetup?: boolean
}

/** One tool call, from its events. */
interface ToolCall {
  readonly tool: string
  readonly status: "pending" | "running" | "completed" | "error"
  readonly isAsking: boolean
  readonly decision: string
  readonly error: string
  /** The whole command, if the name does not say it. */
  readonly command: string
  readonly output: string
  readonly paths: ReadonlyArray<string>
  /** When it began to run. */
  readonly since: DateTime.Utc | null
  readonly ms: number | null
  readonly depth: number
}

const unknown: ToolCall = {
  tool: "A tool call",
  status: "pending",
  isAsking: false,
  decision: "",
  error: "",
  command: "",
  output: "",
  paths: [],
  since: null,
  ms: null,
  depth: 0
}

/** The state that later events add to. */
interface Known {
  readonly calls: Map<string, ToolCall>
  /** Questions that wait for an answer, by the id of their request. */
  readonly questions: Map<string, ReadonlyArray<Pick<Question, "id" | "text">>>
  boot: Boot | null
  turn: { readonly id: string; readonly since: DateTime.Utc } | null
  thought: { readonly id: string; readonly since: DateTime.Utc } | null
  /** Folders of submodules that are empty, with the reason of each if it is known. */
  submodules: ReadonlyArray<string>
  /** Files without content, because Git LFS stores it. */
  pointers: number
  /** One of them, and why. */
  missing: string
}

const between = (from: DateTime.Utc, to: DateTime.Utc): number => Math.max(0, to.epochMilliseconds - from.epochMilliseconds)

const STAGE_OF = { provision: "sandbox", clone: "clone", setup: "setup", mcp: "agent", agent_start: "agent", ready: "agent" } as const
/** The next stage, unless events say otherwise. */
const NEXT = { sandbox: "clone", clone: "agent", setup: "agent", agent: "agent" } as const

const isDenial = (text: string) => /^\s*denied\W*$/iu.test(text)

const callState = ({ decision, isAsking, status }: ToolCall): Call["state"] => {
  if (isAsking) return "asks"
  switch (status) {
    case "pending":
      return "waits"
    case "running":
      return "runs"
    case "completed":
      return "done"
    case "error":
      return decision.startsWith(labels.approval.denied) ? "denied" : "failed"
  }
}

const textOf = ({ command, decision, error, output, tool }: ToolCall): string => {
  // An agent that repeats that it was denied says nothing new.
  const isNew = (line: string) => line !== "" && !(decision.startsWith(labels.approval.denied) && isDenial(line)) && line !== decision
  return [tool, command === tool ? "" : command, decision, ...[error, output.replace(/(?<!\n)\n+$/u, "")].filter(isNew)]
    .filter((line) => line !== "").join("\n")
}

/** How a turn ended, and why. */
const because = (state: TurnOutcome, reason: string | undefined): string => {
  const said = reason === undefined ? "" : labels.turnReason[reason] ?? reason
  return said === "" || state === "succeeded" ? labels.turn[state] : `${labels.turn[state]}: ${said}`
}

/** A stage of the start is done, or goes on. */
const booting = (known: Known, at: DateTime.Utc, { done, ms = null, stage }: {
  readonly done?: Boot["done"]
  readonly stage: Stage | null
  readonly ms?: number | null
}): Boot => {
  const before = known.boot ?? { done: {}, stage: null, since: at, ms: null }
  return known.boot = { ...before, done: { ...before.done, ...done }, stage, ms }
}

/** A new item of an event. */
/** The files of a prompt, if it has any. */
const filesOf = ({ files = [] }: { readonly files?: ReadonlyArray<{ readonly name: string }> }): Partial<Item> =>
  files.length === 0 ? {} : { files: files.map(({ name }) => name) }

const newItem = ({ at, seq }: RecordedEvent, key: string, kind: Kind, text: string, more: Partial<Item> = {}): Item => ({
  key,
  kind,
  text,
  at,
  seq,
  ...more
})

/** The item of the start, as of an event. */
const startItem = (recorded: RecordedEvent, { boot, missing, pointers, submodules }: Known): Item => {
  const text = [
    ...submodules.length === 0 ? [] : [`Submodules are empty: ${submodules.join(", ")}`],
    ...pointers === 0 ? [] : [`Files without content, as Git LFS stores it: ${pointers}${missing}`]
  ].join(". ")
  return newItem(recorded, "boot", "boot", text, boot === null ? {} : { boot })
}

type Of<T extends RecordedEvent["event"]["type"]> = Extract<RecordedEvent["event"], { readonly type: T }>

/** The start and the end of a sandbox. */
const lifeItem = (
  recorded: RecordedEvent,
  event: Of<"sandbox.status" | "setup.started" | "sandbox.boot">,
  known: Known
): Item | null => {
  const { at, seq } = recorded
  const item = (kind: Kind, text: string, more: Partial<Item> = {}) => newItem(recorded, `event:${seq}`, kind, text, more)
  const { data, type } = event
  switch (type) {
    case "sandbox.status": {
      if (data.status === "queued") {
        booting(known, at, { stage: "queue" })
        return startItem(recorded, known)
      }
      if (data.status === "creating") {
        const waited = known.boot === null ? {} : { queue: between(known.boot.since, at) }
        known.boot = { done: waited, stage: "sandbox", since: at, ms: null }
        return startItem(recorded, known)
      }
      if (data.status === "running") {
        if (known.boot?.ms === null) booting(known, at, { stage: null, ms: between(known.boot.since, at) })
        return null
      }
      known.boot = known.boot === null ? null : { ...known.boot, stage: null }
      return item(
        data.status === "failed" ? "problem" : "note",
        data.reason === null ? labels.status[data.status] : `${labels.status[data.status]}. ${labels.reason[data.reason]}`
      )
    }
    case "setup.started":
      if (known.boot?.ms !== null) return item("note", `Running setup (up to ${Math.ceil(data.limit_ms / 60_000)} min)`)
      booting(known, at, { stage: "setup" })
      return startItem(recorded, known)
    case "sandbox.boot": {
      // One MCP server, beside the start of the agent.
      if (data.stage === "mcp") {
        return data.error === undefined ? null : item("note", `MCP server ${data.server ?? ""} is missing. ${data.error}`)
      }
      if (data.error !== undefined) {
        if (known.boot?.ms === null) booting(known, at, { done: { setup: data.ms }, stage: "agent" })
        const text = `Setup${data.repo === undefined ? "" : ` of ${data.repo}`} failed. ${data.error}`
        return item("problem", text, { isOfSetup: true })
      }
      const empty = data.empty_submodules?.map(({ path, reason }) => `${path} (${reason})`) ?? data.submodules
      if (empty !== undefined) known.submodules = [...known.submodules, ...empty]
      known.pointers += data.lfs_pointers ?? 0
      const missing = data.lfs_missing?.[0]
      if (missing !== undefined) known.missing = ` (${missing.path}: ${missing.reason})`
      const stage = STAGE_OF[data.stage]
      // After the start: trees were made again.
      if (known.boot?.ms !== null) return stage === "setup" ? item("note", `Setup ran again (${duration(data.ms)})`) : null
      const earlier = known.boot.done[stage] ?? 0
      booting(
        known,
        at,
        data.stage === "ready" ? { stage: null, ms: data.ms } : { done: { [stage]: earlier + data.ms }, stage: NEXT[stage] }
      )
      return startItem(recorded, known)
    }
  }
}

/** Checkpoints, and what is made of them. */
const checkpointItem = (
  recorded: RecordedEvent,
  { data, type }: Of<
    | "sandbox.checkpoint"
    | "sandbox.continued"
    | "sandbox.forked"
    | "sandbox.restored"
    | "sandbox.restoring"
    | "sandbox.synced"
    | "sandbox.syncing"
  >
): Item | null => {
  const item = (kind: Kind, text: string) => newItem(recorded, `event:${recorded.seq}`, kind, text)
  switch (type) {
    case "sandbox.forked":
      return item("note", `Forked from checkpoint ${data.checkpoint} of ${data.sandbox_id}`)
    case "sandbox.continued":
      return item(
        "note",
        `Continues ${data.pull_request === undefined ? "" : `pull request #${data.pull_request}, `}branch ${data.branch} of ${data.repo}`
      )
    case "sandbox.syncing":
      return null
    case "sandbox.synced":
      return data.error === undefined
        ? item("note", `Newest commits: ${data.branches.map(({ branch, sha }) => `origin/${branch} ${sha.slice(0, 7)}`).join(", ")}`)
        : item("problem", `The newest commits are missing. ${data.error}`)
    case "sandbox.checkpoint":
      return data.error !== undefined
        ? item("problem", `No checkpoint: ${data.error}`)
        : data.checkpoint === undefined
        ? null
        : newItem(recorded, `checkpoint:${data.checkpoint}`, "checkpoint", `Checkpoint ${data.checkpoint}`, { checkpoint: data.checkpoint })
    case "sandbox.restoring":
      return item("note", `Restoring checkpoint ${data.checkpoint}`)
    case "sandbox.restored":
      return data.checkpoint === undefined
        ? item("problem", `Restore failed; nothing changed. ${data.error}`)
        : item(
          data.lost_turn === undefined ? "note" : "problem",
          `${labels.restored[data.cause]} Files and conversation are those of checkpoint ${data.checkpoint}.`
        )
  }
}

/** Feedback on pull requests. The message with its texts is the prompt of a turn. */
const feedbackItem = (
  recorded: RecordedEvent,
  { data, type }: Of<"feedback.received" | "feedback.replied" | "feedback.paused" | "feedback.resumed">
): Item => {
  const item = (kind: Kind, text: string) => newItem(recorded, `event:${recorded.seq}`, kind, text)
  switch (type) {
    case "feedback.received":
      return item("note", labels.feedback(data))
    case "feedback.replied":
      return data.url === undefined
        ? item("problem", `No reply could be written on the pull request of ${data.repo}`)
        : item("note", `Replied on the pull request of ${data.repo}`)
    case "feedback.paused":
      return item("problem", labels.paused(data))
    case "feedback.resumed":
      return item("note", "Feedback continues")
  }
}

/** The item of a tool call, as of an event of it. */
const callItem = (recorded: RecordedEvent, known: Known, id: string, more: Partial<ToolCall>): Item => {
  const { at } = recorded
  const before = known.calls.get(id) ?? unknown
  const now = { ...before, ...more }
  const since = now.status === "running" && before.status !== "running" ? at : before.since
  const isOver = now.status === "completed" || now.status === "error"
  const ms = isOver && before.ms === null && since !== null ? between(since, at) : before.ms
  const told = { ...now, since, ms }
  known.calls.set(id, told)
  return newItem(recorded, `tool:${id}`, "tool", textOf(told), {
    call: { state: callState(told), paths: told.paths, isCommand: told.command !== "", depth: told.depth },
    ...(ms === null ? {} : { ms })
  })
}

/** Deeper calls are not indented further. */
const MAX_DEPTH = 4

/** The depth of a call of the sub-agent that the call `parent` started. A parent that is forgotten is the agent's own. */
const depthBelow = ({ calls }: Known, parent: string): number => Math.min((calls.get(parent)?.depth ?? 0) + 1, MAX_DEPTH)

/** The agent's plan of a turn; it has one item, which changes. */
const planItem = (recorded: RecordedEvent, { data: { entries, part_id } }: Of<"plan.updated">): Item => {
  const lines = entries.map(({ status, text }) => `${{ completed: "✓", in_progress: "▸", pending: "○" }[status]} ${text}`)
  const head = entries.length === 0 ? "The agent dropped its plan" : `Plan: ${completedSteps(entries)} of ${entries.length} done`
  return newItem(recorded, part_id, "plan", [head, ...lines].join("\n"), { plan: entries })
}

/** Tool calls and the approvals that they need. */
const toolItem = (
  recorded: RecordedEvent,
  { data, type }: Of<"tool.updated" | "approval.requested" | "approval.resolved">,
  known: Known
): Item => {
  const call = (id: string, more: Partial<ToolCall>) => callItem(recorded, known, id, more)
  switch (type) {
    case "tool.updated":
      return call(data.call_id, {
        tool: data.tool,
        status: data.status,
        error: data.error ?? "",
        ...(data.parent_call_id === undefined ? {} : { depth: depthBelow(known, data.parent_call_id) }),
        ...(data.detail?.command === undefined ? {} : { command: data.detail.command }),
        ...(data.detail?.arguments === undefined ? {} : { command: data.detail.arguments }),
        ...(data.detail?.paths === undefined ? {} : { paths: data.detail.paths }),
        ...(data.detail?.output === undefined ? {} : { output: data.detail.output })
      })
    case "approval.requested":
      return call(data.approval_id, {
        tool: data.tool,
        isAsking: true,
        ...(data.preview?.command === undefined ? {} : { command: data.preview.command }),
        ...(data.preview?.arguments === undefined ? {} : { command: data.preview.arguments })
      })
    case "approval.resolved": {
      const more = data.reason ?? (data.scope === undefined ? labels.approvalBy[data.by] : labels.approvedForTurn)
      return call(data.approval_id, {
        isAsking: false,
        decision: more === "" ? labels.approval[data.outcome] : `${labels.approval[data.outcome]}: ${more}`
      })
    }
  }
}

/** The agent's question, and the answer once there is one. */
const questionItem = (recorded: RecordedEvent, { data, type }: Of<"question.asked" | "question.answered">, known: Known): Item => {
  const asked = type === "question.asked" ? data.questions : known.questions.get(data.question_id) ?? []
  if (type === "question.asked") known.questions.set(data.question_id, asked)
  else known.questions.delete(data.question_id)
  const texts = asked.map(({ text }) => text)
  const answer = type === "question.asked" ? [] : [
    data.answers === undefined ? labels.unanswered[data.by] : `Answered: ${labels.answers(data.answers, asked)}`
  ]
  return newItem(recorded, `question:${data.question_id}`, "note", [...texts, ...answer].join("\n"))
}

/** The pull request of a repository, or why publishing failed. */
const pullRequestItem = (recorded: RecordedEvent, { data }: Of<"pull_request.updated">): Item =>
  newItem(
    recorded,
    `event:${recorded.seq}`,
    data.error === undefined ? "note" : "problem",
    [
      `Pull request of ${data.repo}`,
      data.number === undefined ? "" : ` #${data.number}`,
      data.error === undefined
        ? labels.action[data.action_state] === "" ? "" : `: ${labels.action[data.action_state]}`
        : `: ${data.error.message}`,
      data.submodules === undefined ? "" : `. Not published, as it is in submodules: work in ${data.submodules.join(", ")}`,
      data.lfs_left_out === undefined ? "" : `. Not published, as Git LFS is to store it: ${data.lfs_left_out.join(", ")}`,
      data.lfs_reason === undefined ? "" : ` (${data.lfs_reason})`,
      data.left_out === undefined ? "" : `. The source host did not take ${data.left_out.join(", ")}`
    ].join("")
  )

/** `null`: nothing to show. */
const itemOf = (recorded: RecordedEvent, known: Known): Item | null => {
  const { at, event, seq } = recorded
  const item = (key: string, kind: Kind, text: string, more: Partial<Item> = {}) => newItem(recorded, key, kind, text, more)
  const { data, type } = event
  switch (type) {
    case "sandbox.status":
    case "setup.started":
    case "sandbox.boot":
      return lifeItem(recorded, event, known)
    case "sandbox.continued":
    case "sandbox.forked":
    case "sandbox.checkpoint":
    case "sandbox.restoring":
    case "sandbox.restored":
    case "sandbox.syncing":
    case "sandbox.synced":
      return checkpointItem(recorded, event)
    case "feedback.received":
    case "feedback.replied":
    case "feedback.paused":
    case "feedback.resumed":
      return feedbackItem(recorded, event)
    case "sandbox.renamed":
      return item(`event:${seq}`, "note", `Renamed: ${data.title}`)
    case "sandbox.error":
      return item(`event:${seq}`, "problem", data.message)
    // A queued message is not part of the conversation yet.
    case "message.queued":
    case "message.cancelled":
      return null
    case "message.steered":
      return item(`prompt:${data.message_id}`, "prompt", data.text, filesOf(data))
    case "turn.started":
      known.turn = { id: event.turn_id ?? "", since: at }
      return item(`prompt:${event.turn_id}`, "prompt", data.text, filesOf(data))
    case "turn.updated":
      return data.text !== undefined
        ? item(`prompt:${event.turn_id}`, "prompt", data.text, filesOf(data))
        : data.reason === "interrupt"
        ? item(`interrupt:${event.turn_id}`, "note", "Stopping…")
        : null
    case "turn.completed":
      return item(
        `turn:${event.turn_id}`,
        data.state === "failed" ? "problem" : "end",
        because(data.state, data.reason),
        known.turn !== null && known.turn.id === event.turn_id ? { ms: between(known.turn.since, at) } : {}
      )
    case "message.updated": {
      if (data.kind === "text") return item(data.part_id, "text", data.text)
      if (known.thought?.id !== data.part_id) known.thought = { id: data.part_id, since: at }
      return item(data.part_id, "reasoning", data.text, { ms: between(known.thought.since, at) })
    }
    case "message.completed":
      return data.finish === "end_turn" ? null : item(`finish:${data.message_id}`, "note", labels.finish[data.finish])
    case "tool.updated":
    case "approval.requested":
    case "approval.resolved":
      return toolItem(recorded, event, known)
    case "question.asked":
    case "question.answered":
      return questionItem(recorded, event, known)
    case "plan.updated":
      return planItem(recorded, event)
    case "pull_request.updated":
      return pullRequestItem(recorded, event)
    case "usage.updated":
      return null
  }
}

/** Tool calls that are remembered between two takes; beyond it, finished ones are forgotten. */
const KEPT_CALLS = 50

/** Takes events in their order. Each event of a message has all of its text so far: only the last one is kept. */
export class Conversation {
  #items = new Map<string, Item>()
  readonly #known: Known = {
    calls: new Map(),
    questions: new Map(),
    boot: null,
    turn: null,
    thought: null,
    submodules: [],
    pointers: 0,
    missing: ""
  }
  /** By key: the first event of each item. */
  readonly #began = new Map<string, number>()

  add(event: RecordedEvent): void {
    const before = this.#known.boot
    const item = itemOf(event, this.#known)
    const { boot } = this.#known
    // The start goes on or ends with an event that is an item of its own.
    if (boot !== null && boot !== before && item?.kind !== "boot") {
      this.#put(startItem(event, this.#known))
    }
    if (item !== null) this.#put(item)
  }

  #put(item: Item): void {
    if (!this.#items.has(item.key)) this.#began.set(item.key, item.seq)
    this.#items.set(item.key, item)
  }

  /** The first event that told it. */
  beganAt({ key, seq }: Item): number {
    return this.#began.get(key) ?? seq
  }

  get items(): ReadonlyArray<Item> {
    return [...this.#items.values()]
  }

  /** The items that are new or changed since the last time. What later events tell of the same tool calls still adds to what is known. */
  take(): ReadonlyArray<Item> {
    const { items } = this
    this.#items = new Map()
    this.#began.clear()
    const { calls } = this.#known
    for (const [id, { ms }] of calls) {
      if (calls.size <= KEPT_CALLS) break
      if (ms !== null) calls.delete(id)
    }
    return items
  }
}
