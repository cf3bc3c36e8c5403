/** Executes one prompt step by step. All output goes through `Client` in ACP's format. */
import type { PermissionOptionKind, SessionUpdate, StopReason, ToolCallLocation, ToolCallUpdate, ToolKind } from "@agentclientprotocol/sdk"
import { join } from "node:path"
import * as Command from "./Command.ts"
import { type AskedQuestion, parse, type Step } from "./Script.ts"
import * as Trees from "./Trees.ts"

export interface Choice {
  readonly kind: PermissionOptionKind
  readonly reason: string | null
}

interface Client {
  update(update: SessionUpdate): void
  /** The person's choice with the reason, if any; `null`: the turn was cancelled. */
  ask(toolCall: ToolCallUpdate): Promise<Choice | null>
  /** A person's answers, each with what was chosen and written; `null`: no person answered. A text: the question may not be asked. */
  inquire(questions: ReadonlyArray<AskedQuestion>): Promise<ReadonlyArray<ReadonlyArray<string>> | string | null>
  /** Takes the oldest waiting steering text into this turn; `null`: none waits. */
  take(): string | null
  /** Resolves when a text waits, or when the turn is cancelled. */
  told(): Promise<void>
}

/** A call of a sub-agent that is at work. */
interface SubAgent {
  readonly toolCallId: string
  /** Names its own parent, if any. */
  readonly about: object
}

interface TurnOptions {
  readonly prompt: string
  /** Its images: type and size of each. */
  readonly images: ReadonlyArray<string>
  /** Earlier prompts of this session, oldest first. */
  readonly earlier: ReadonlyArray<string>
  readonly repositories: ReadonlyArray<Trees.Repository>
  readonly asks: boolean
  readonly client: Client
  readonly abort: AbortSignal
  /** The innermost last. */
  readonly subAgents: Array<SubAgent>
}

/** The turn fails with this message. */
class TurnFailed extends Error {}

/** A command did not succeed. */
class CommandFailed extends Error {
  readonly output: string
  constructor(message: string, output: string) {
    super(message)
    this.output = output
  }
}

/** Resolves after `millis`, or at once when the turn is cancelled. */
const pause = (millis: number, abort: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      abort.removeEventListener("abort", end)
      resolve()
    }
    const timer = millis === Infinity ? undefined : setTimeout(end, millis)
    abort.addEventListener("abort", end)
    if (abort.aborted) end()
  })

let sequence = 0
/** Unique within this process only, like the ids of other agents. */
const nextId = (prefix: string) => `${prefix}_${++sequence}`

interface Tool {
  readonly title: string
  readonly kind: ToolKind
  readonly locations: Array<ToolCallLocation>
  /** The tool's arguments and its change, for the person's decision. */
  readonly rawInput?: object
  readonly change?: { readonly path: string; readonly oldText: string | null; readonly newText: string }
  /** Does the work. An error fails the call, not the turn. The text is the output for the model. */
  readonly work: () => string | Promise<string>
}

const speak = (
  client: Client,
  text: string,
  sessionUpdate: "agent_message_chunk" | "agent_thought_chunk" = "agent_message_chunk",
  messageId = nextId("msg")
) => client.update({ sessionUpdate, messageId, content: { type: "text", text } })

/** Names the sub-agent's call that a call is of, if any. ACP has no field for it. */
const ofSubAgent = ({ subAgents }: TurnOptions): { readonly _meta?: { readonly [name: string]: unknown } } => {
  const parent = subAgents.at(-1)
  return parent === undefined ? {} : { _meta: { "slipway/parentToolCallId": parent.toolCallId } }
}

const delegate = (turn: TurnOptions, title: string) => {
  const { client, subAgents } = turn
  const [toolCallId, about] = [nextId("call"), ofSubAgent(turn)]
  client.update({ sessionUpdate: "tool_call", toolCallId, title, kind: "other", status: "pending", ...about })
  client.update({ sessionUpdate: "tool_call_update", toolCallId, status: "in_progress", ...about })
  subAgents.push({ toolCallId, about })
}

/** The innermost sub-agent ends. */
const back = ({ abort, client, subAgents }: TurnOptions) => {
  const ended = subAgents.pop()
  if (ended === undefined) return
  const { about, toolCallId } = ended
  client.update({ sessionUpdate: "tool_call_update", toolCallId, status: abort.aborted ? "failed" : "completed", ...about })
}

/** A tool call: asks for it if the session asks, does the work and reports its result. */
const call = async (turn: TurnOptions, { change, kind, locations, rawInput, title, work }: Tool): Promise<void> => {
  const { abort, asks, client } = turn
  const toolCallId = nextId("call")
  const about = {
    ...ofSubAgent(turn),
    toolCallId,
    title,
    kind,
    status: "pending" as const,
    locations,
    ...(rawInput === undefined ? {} : { rawInput }),
    ...(change === undefined ? {} : { content: [{ type: "diff" as const, ...change }] })
  }
  const progress = (status: "in_progress" | "completed" | "failed", text?: string) =>
    client.update({
      sessionUpdate: "tool_call_update",
      toolCallId,
      status,
      ...(text === undefined ? {} : { content: [{ type: "content", content: { type: "text", text } }] })
    })
  client.update({ sessionUpdate: "tool_call", ...about })
  if (asks) {
    const choice = await client.ask(about)
    if (choice === null || abort.aborted) return progress("failed", "Cancelled.")
    if (choice.kind !== "allow_once") {
      progress("failed", "Denied.")
      return speak(
        client,
        `I was not allowed to do this, so I left it: ${title}${choice.reason === null ? "" : `. I was told: ${choice.reason}`}`
      )
    }
  }
  progress("in_progress")
  try {
    const result = await work()
    if (abort.aborted) progress("failed", "Cancelled.")
    else progress("completed", result)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    progress("failed", error instanceof CommandFailed && error.output !== "" ? `${error.output.trimEnd()}\n${reason}` : reason)
    if (!abort.aborted) speak(client, `This did not work: ${title}. ${reason}`)
  }
}

const edit = (
  turn: TurnOptions,
  verb: "Write" | "Delete",
  { path, repo }: { readonly path: string; readonly repo: string | null },
  newText: (before: string | null) => string,
  change: (repository: Trees.Repository) => void
) => {
  const repository = Trees.find(turn.repositories, repo)
  const folder = repository?.folder
  const oldText = repository === undefined ? null : Trees.read(repository, path)
  return call(turn, {
    title: repo === null ? `${verb} ${path}` : `${verb} ${path} in ${repo}`,
    kind: verb === "Write" ? "edit" : "delete",
    locations: folder === undefined ? [] : [{ path: join(folder, path) }],
    ...(folder === undefined ? {} : { change: { path: join(folder, path), oldText, newText: newText(oldText) } }),
    work: () => {
      change(Trees.pick(turn.repositories, repo))
      return "Done."
    }
  })
}

const perform = async (turn: TurnOptions, step: Step): Promise<void> => {
  const { abort, client, earlier, images, repositories } = turn
  switch (step.kind) {
    case "say":
      return speak(client, step.text)
    case "think":
      return speak(client, step.text, "agent_thought_chunk")
    case "ask": {
      const answers = await client.inquire(step.questions)
      if (abort.aborted) return
      if (typeof answers === "string") return speak(client, `I could not ask: ${answers}`)
      return speak(
        client,
        step.questions.map(({ text }, index) => {
          const said = answers?.[index] ?? []
          return said.length === 0 ? `${text} No person answered.` : `${text} You said: ${said.join(", ")}.`
        }).join("\n")
      )
    }
    case "write":
      return edit(turn, "Write", step, () => `${step.content}\n`, (repository) => Trees.write(repository, step.path, `${step.content}\n`))
    case "delete":
      return edit(turn, "Delete", step, () => "", (repository) => Trees.remove(repository, step.path))
    case "shell":
      return call(turn, {
        title: step.text,
        kind: "execute",
        locations: [],
        rawInput: { command: step.text },
        work: async () => {
          const { code, output } = await Command.run(step.text, Trees.pick(repositories, null).folder, abort)
          if (code !== 0) throw new CommandFailed(code === null ? "It was killed." : `It exited with code ${code}.`, output)
          return output
        }
      })
    case "slow": {
      const message = nextId("msg")
      for (let word = 1; word <= step.words && !abort.aborted; word++) {
        speak(client, `word${word} `, "agent_message_chunk", message)
        await pause(step.millis, abort)
      }
      return
    }
    case "listen":
      if (!(await takeAll(turn))) {
        await client.told()
        await takeAll(turn)
      }
      return
    case "plan":
      return client.update({ sessionUpdate: "plan", entries: [...step.entries] })
    case "delegate":
      return delegate(turn, step.text)
    case "back":
      return back(turn)
    case "hang":
      return pause(Infinity, abort)
    case "error":
      throw new TurnFailed(step.text)
    case "crash":
      return process.exit(1)
    case "recall":
      return speak(
        client,
        earlier.length === 0
          ? "This is the first prompt of the session."
          : ["The prompts of this session so far:", ...earlier.map((text, i) => `${i + 1}. ${text}`)].join("\n")
      )
    case "images":
      return speak(client, images.length === 0 ? "I see no images." : `I see: ${images.join(", ")}.`)
    case "invalid":
      throw new TurnFailed(step.problem)
  }
}

/** Executes the steering texts before the next step of the turn: their steps, or an answer. Returns whether there were any. */
const takeAll = async (turn: TurnOptions): Promise<boolean> => {
  const { abort, client } = turn
  let took = false
  for (let text = client.take(); text !== null && !abort.aborted; text = client.take()) {
    took = true
    const steps = parse(text)
    if (steps.length === 0) speak(client, `I was told: ${text}`)
    for (const step of steps) {
      if (abort.aborted) break
      await perform(turn, step)
    }
  }
  return took
}

/** The steps for a prompt without directives: something for every view, including files. */
const takeNote = async (turn: TurnOptions) => {
  const { client, prompt } = turn
  let written = false
  await edit(turn, "Write", { path: "NOTES.md", repo: null }, (before) => `${before ?? ""}${prompt}\n`, (repository) => {
    Trees.append(repository, "NOTES.md", `${prompt}\n`)
    written = true
  })
  if (written) speak(client, "I am the offline agent: I follow scripts and have added your message to NOTES.md.")
}

export const run = async (turn: TurnOptions): Promise<StopReason> => {
  const { abort, prompt } = turn
  const steps = parse(prompt)
  if (steps.length === 0) await takeNote(turn)
  for (const step of steps) {
    if (abort.aborted) break
    await perform(turn, step)
    await takeAll(turn)
  }
  await takeAll(turn)
  while (turn.subAgents.length > 0) back(turn)
  return abort.aborted ? "cancelled" : "end_turn"
}
