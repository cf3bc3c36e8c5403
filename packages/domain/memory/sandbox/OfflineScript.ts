/** Scripts of the agent in memory (docs/decisions/14): directives such as `[[write path=a.txt content=…]]` in a prompt. */
import type { PlanEntry, PlanStatus } from "../../src/sandbox/rules/ToolCall.ts"

import type { Answers, Question } from "../../src/sandbox/schema/Question.ts"
/** A directive of a script. */
export interface Step {
  readonly name: string
  readonly body: string
}

/** The directives of a prompt, in order. */
export const stepsOf = (text: string): Array<Step> =>
  Array.from(text.matchAll(DIRECTIVE), ([, name = "", body = ""]) => ({ name, body: body.trim() }))

const DIRECTIVE =
  /\[\[(say|think|ask|write|delete|shell|slow|hang|listen|error|crash|recall|images|plan|delegate|back)(?:\s+([^]*?))?\]\]/gu

/** The questions of an asking step: `Which one? | first | second || multiple=true text=false Which others? | third | fourth`. */
export const questionsOf = (body: string): Array<Question> =>
  body.split("||").map((part, index) => {
    const [first = "", ...options] = part.split("|").map((one) => one.trim())
    const [, flags = "", text = ""] = /^((?:(?:multiple|text)=\S+\s+)*)([^]*)$/u.exec(first) ?? []
    return {
      id: String(index + 1),
      text,
      options: options.map((label) => ({ label })),
      multiple: /multiple=true/u.test(flags),
      allows_text: !/text=false/u.test(flags)
    }
  })

/** The agent's words about the answers. */
export const answersSaid = (questions: ReadonlyArray<Question>, answers: Answers | null): string =>
  questions.map(({ id, text }) => {
    const { labels = [], text: own } = answers?.[id] ?? {}
    const said = [...labels, ...(own === undefined ? [] : [own])]
    return said.length === 0 ? `${text} No person answered.` : `${text} You said: ${said.join(", ")}.`
  }).join("\n")

const STATUSES: Readonly<Record<string, PlanStatus>> = { "+": "completed", ">": "in_progress", "-": "pending" }

/** The steps of `+ done; > under way; - to do`; `null`: one of them has no such sign. */
export const planOf = (body: string): ReadonlyArray<PlanEntry> | null => {
  const entries = body.split(";").map((step) => step.trim()).filter((step) => step !== "").map((step) => ({
    text: step.slice(1).trim(),
    status: STATUSES[step[0] ?? ""]
  }))
  return entries.flatMap(({ status, text }) => status === undefined ? [] : [{ text, status }]).length < entries.length
    ? null
    : entries.map(({ status = "pending", text }) => ({ text, status }))
}

/** A file of an editing step. `repo`: `null` means the first repository. */
export interface EditedFile {
  readonly path: string
  readonly repo: string | null
}

/** `null`: the step names no path. */
export const fileOf = (body: string): EditedFile | null => {
  const options = body.replace(/(?:^|\s)content=[^]*$/u, "")
  const path = /(?:^|\s)path=(\S+)/u.exec(options)?.[1]
  return path === undefined ? null : { path, repo: /(?:^|\s)repo=(\S+)/u.exec(options)?.[1] ?? null }
}

/** The content of a step; `undefined`: it has none. */
export const contentOf = (body: string): string | undefined => /(?:^|\s)content=([^]*)$/u.exec(body)?.[1]
