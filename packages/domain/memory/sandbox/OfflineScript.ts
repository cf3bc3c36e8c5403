/** Scripts of the agent in memory (docs/decisions/14): directives such as `[[write path=a.txt content=…]]` in a prompt. */
import type { PlanEntry, PlanStatus } from "../../src/sandbox/rules/ToolCall.ts"

/** A directive of a script. */
export interface Step {
  readonly name: string
  readonly body: string
}

/** The directives of a prompt, in order. */
export const stepsOf = (text: string): Array<Step> =>
  Array.from(text.matchAll(DIRECTIVE), ([, name = "", body = ""]) => ({ name, body: body.trim() }))

const DIRECTIVE = /\[\[(say|think|write|delete|shell|slow|hang|listen|error|crash|recall|plan|delegate|back)(?:\s+([^]*?))?\]\]/gu

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
