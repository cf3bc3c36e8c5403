/** The offline agent's language, and a directive that calls any tool of the agent that asks: `[[call NAME {JSON}]]`. */
import * as Script from "../../src/offline/Script.ts"

/** `tool`: as the agent names it. */
interface CallStep {
  readonly kind: "call"
  readonly tool: string
  readonly arguments: object
}

export type Step = Script.Step | CallStep

/** Brackets in texts of arguments, by how many calls are around them: some agents decode escapes of JSON twice. */
const hidden = (text: string): string =>
  text.replaceAll(/[⟦⟧](\d)/gu, (found, depth: string) => `${found[0]}${Number(depth) + 1}`).replaceAll("[", "⟦0").replaceAll("]", "⟧0")
const shown = (text: string): string =>
  text.replaceAll(
    /([⟦⟧])(\d)/gu,
    (_, bracket: string, depth: string) => depth === "0" ? bracket === "⟦" ? "[" : "]" : `${bracket}${Number(depth) - 1}`
  )

const call = (body: string): Step => {
  const [, tool = "", json = ""] = /^(\S+)\s+(\{[^]*\})$/u.exec(body) ?? []
  try {
    return { kind: "call", tool, arguments: JSON.parse(json, (_, value) => typeof value === "string" ? shown(value) : value) }
  } catch {
    return { kind: "invalid", problem: "[[call]] needs a name and an object in JSON." }
  }
}

export const parse = (prompt: string): ReadonlyArray<Step> => Script.parse<Step>(prompt, { call })

/** Within a text of a step: the first match of the pattern in the results before it, or the text as it stands. */
export const fromResults = (pattern: string): string => `⟪${pattern}⟫`

/** Puts matches in the place of {@link fromResults}. */
export const filled = (text: string, results: ReadonlyArray<string>): string =>
  text.replaceAll(/⟪([^⟫]+)⟫/gu, (whole, pattern: string) => new RegExp(pattern, "u").exec(results.join("\n"))?.[0] ?? whole)

export const filledIn = (value: object, results: ReadonlyArray<string>): object =>
  JSON.parse(JSON.stringify(value, (_, one) => typeof one === "string" ? filled(one, results) : one))

/** A call as part of a prompt. Texts in `given` may have directives: they are for a conversation of their own. */
export const calling = (tool: string, given: object): string => {
  const json = JSON.stringify(given, (_, value) => typeof value === "string" ? hidden(value) : value)
  return `[[call ${tool} ${json.replaceAll("]", "] ")}]]`
}
