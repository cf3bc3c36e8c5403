/** Reading and changing JSON of which nothing is known. */
import type { Json } from "./Protocol.ts"

export const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

export const objectAt = (json: Json, name: string): Json => {
  const value = json[name]
  return isObject(value) ? value : {}
}

/** A count of tokens; `undefined` when there is none. */
export const countAt = (json: Json, name: string): number | undefined => {
  const value = json[name]
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined
}

export const without = (json: Json, names: ReadonlyArray<string>): Json =>
  Object.fromEntries(Object.entries(json).filter(([name]) => !names.includes(name)))

/** Lowers the limits that the request names to `limit`. */
export const clamp = (json: Json, names: ReadonlyArray<string>, limit: number): Json =>
  Object.fromEntries(Object.entries(json).map(([name, value]) =>
    [name, names.includes(name) && typeof value === "number" ? Math.min(value, limit) : value]))

/** Tools that the provider itself would run: they reach the network from its side and cost extra. */
const HOSTED = /^(?:web_search|web_fetch|file_search|code_interpreter|code_execution|image_generation|computer_use_preview|mcp|x_search|live_search|collections_search)/u

/** Only tools that the agent runs itself, where its sandbox holds it. */
export const withoutHostedTools = (json: Json): Json => {
  const { tools } = json
  if (!Array.isArray(tools)) return json
  const own = tools.filter((tool) => !(isObject(tool) && typeof tool["type"] === "string" && HOSTED.test(tool["type"])))
  if (own.length === tools.length) return json
  return own.length === 0 ? without(json, ["tools", "tool_choice"]) : { ...json, tools: own }
}
