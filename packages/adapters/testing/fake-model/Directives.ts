/** The offline agent's language, and a directive that calls any tool of the agent that asks: `[[call NAME {JSON}]]`. */
import * as Script from "../../src/agents/offline/Script.ts"

/** `tool`: as the agent names it. */
interface CallStep {
  readonly kind: "call"
  readonly tool: string
  readonly arguments: object
}

export type Step = Script.Step | CallStep

const call = (body: string): Step => {
  const [, tool = "", json = ""] = /^(\S+)\s+(\{[^]*\})$/u.exec(body) ?? []
  try {
    return { kind: "call", tool, arguments: JSON.parse(json) }
  } catch {
    return { kind: "invalid", problem: "[[call]] needs a name and an object in JSON." }
  }
}

export const parse = (prompt: string): ReadonlyArray<Step> => Script.parse<Step>(prompt, { call })

const codes: Readonly<Record<string, string>> = { "[": "\\u005b", "]": "\\u005d" }

/** A call as part of a prompt. Texts in `given` may have directives: they are for a conversation of their own. */
export const calling = (tool: string, given: object): string => {
  const json = JSON.stringify(given).replaceAll(
    /"(?:[^"\\]|\\.)*"/gu,
    (text) => text.replaceAll(/[[\]]/gu, (bracket) => codes[bracket] ?? "")
  )
  return `[[call ${tool} ${json.replaceAll("]", "] ")}]]`
}
