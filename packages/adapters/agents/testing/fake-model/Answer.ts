/** The fake model's answer to one request: the next part of the conversation's script. */
import type { Call } from "./Call.ts"
import * as Directives from "./Directives.ts"
import * as Tools from "./Tools.ts"

/** `input` includes `cached`, `output` includes `reasoning`: the counting of Slipway and of OpenAI. */
export interface Usage {
  readonly input: number
  readonly cached: number
  readonly output: number
  readonly reasoning: number
}

export interface Answer {
  readonly reasoning: string
  readonly text: string
  /** Between two words of `text`. */
  readonly pauseMillis: number
  /** After `text`, nothing more comes. */
  readonly hangs: boolean
  readonly tools: ReadonlyArray<Tools.ToolUse>
  readonly usage: Usage
}

export interface Refusal {
  readonly status: number
  readonly message: string
  /** Seconds. */
  readonly retryAfter?: number
}

/** Words as a stream sends them, each with the space after it. */
export const words = (text: string): ReadonlyArray<string> => text.match(/\s*\S+\s*/gu) ?? []

const TITLE: Answer = {
  reasoning: "",
  text: "Fake title",
  pauseMillis: 0,
  hangs: false,
  tools: [],
  usage: { input: 11, cached: 0, output: 3, reasoning: 0 }
}

/** Different from call to call, so that sums that leave one out are wrong. */
const defaultUsage = (round: number): Usage => ({ input: 1000 + round, cached: 200, output: 50 + round, reasoning: 7 })

/** `[[usage input=1 cached=2 output=3 reasoning=4]]`: what each answer to this prompt reports; absent is 0. */
const scriptedUsage = (prompt: string): Usage | null => {
  const directive = /\[\[usage\s([^\]]*)\]\]/u.exec(prompt)?.[1]
  if (directive === undefined) return null
  const count = (name: string) => Number(new RegExp(`\\b${name}=(\\d+)`, "u").exec(directive)?.[1] ?? 0)
  return { input: count("input"), cached: count("cached"), output: count("output"), reasoning: count("reasoning") }
}

type Step = Directives.Step | { readonly kind: "answered" }

/** Writes, deletions, commands, questions and other calls each end one answer: the agent comes back with what became of them. */
const roundOf = (prompt: string, round: number): ReadonlyArray<Step> => {
  const rounds: Array<Array<Step>> = [[]]
  for (const step of Directives.parse(prompt)) {
    rounds.at(-1)?.push(step)
    if (["ask", "call", "delete", "shell", "write"].includes(step.kind)) rounds.push([])
    // Says what it was answered, as the offline agent does.
    if (step.kind === "ask") rounds.at(-1)?.push({ kind: "answered" })
  }
  return rounds[Math.min(round, rounds.length - 1)] ?? []
}

/** `401`, `429 Too fast`; a text without a number is a 500. */
const refusal = (text: string): Refusal => {
  const [, status = "500", message = ""] = /^(?:(\d{3})\b)?\s*([^]*)$/u.exec(text) ?? []
  return { status: Number(status), message: message === "" ? `fake ${status}` : message }
}

export const answer = (call: Call, workspace: Tools.Workspace, usage: Usage | undefined): Answer | Refusal => {
  if (call.hidden) return TITLE
  const prompt = call.prompts.at(-1) ?? ""
  const round = call.results.length
  const said: Array<string> = []
  const thought: Array<string> = []
  const tools: Array<Tools.ToolUse> = []
  let pauseMillis = 0
  let hangs = false
  const work = (wish: Tools.Wish) => {
    const use = Tools.use(call, wish, workspace)
    if (use === null) said.push(`There is no tool for ${wish.kind} among ${call.tools.map(({ name }) => name).join(", ")}.`)
    else tools.push(use)
  }
  for (const step of roundOf(prompt, round)) {
    switch (step.kind) {
      case "say":
        said.push(Directives.filled(step.text, call.results))
        break
      case "think":
        thought.push(step.text)
        break
      case "slow":
        said.push(Array.from({ length: step.words }, (_, i) => `word${i + 1}`).join(" "))
        pauseMillis = step.millis
        break
      case "hang":
        hangs = true
        break
      case "error":
        return refusal(step.text)
      case "invalid":
        return { status: 400, message: step.problem }
      case "recall":
        said.push(call.prompts.length === 1 ? "This is the first prompt of the session." : call.prompts.slice(0, -1).join("\n"))
        break
      case "answered":
        said.push(call.results.at(-1) ?? "")
        break
      case "call":
        work({ ...step, arguments: Directives.filledIn(step.arguments, call.results) })
        break
      case "ask":
      case "write":
      case "delete":
        work(step)
        break
      case "shell":
        work({ kind: "shell", text: step.text })
        break
      case "crash":
      // Its agent's steering message reaches a model with the next request.
      case "listen":
        break
    }
    if (hangs) break
  }
  const text = said.join(" ")
  return {
    reasoning: thought.join(" "),
    text: text === "" && tools.length === 0 && !hangs ? `Done after ${round} results.` : text,
    pauseMillis,
    hangs,
    tools,
    usage: scriptedUsage(prompt) ?? usage ?? defaultUsage(round)
  }
}
