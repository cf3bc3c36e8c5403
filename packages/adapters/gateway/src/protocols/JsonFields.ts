/** Reads and changes JSON of unknown form. */
import type { Json } from "./Protocol.ts"

export const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

export const objectAt = (json: Json, name: string): Json => {
  const value = json[name]
  return isObject(value) ? value : {}
}

/** A count of tokens; `undefined` if the field is missing or invalid. */
export const countAt = (json: Json, name: string): number | undefined => {
  const value = json[name]
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined
}

/** The fields of these names, in the order of `json`. */
export const only = (json: Json, names: ReadonlySet<string>): Json =>
  Object.fromEntries(Object.entries(json).filter(([name]) => names.has(name)))

/** The same object with the field changed, if it is present. `undefined` removes it. */
export const changed = (json: Json, name: string, change: (value: unknown) => unknown): Json => {
  if (!Object.hasOwn(json, name)) return json
  const { [name]: value, ...rest } = json
  const next = change(value)
  return next === undefined ? rest : { ...rest, [name]: next }
}

/**
 * The most tokens of the answer: the largest value of the named fields, at most `cap`. Invalid values such as -1 or a text give `cap`,
 * because some providers read them as numbers or as no limit.
 */
export const outputLimit = (json: Json, names: ReadonlyArray<string>, cap: number): number => {
  const named = names.filter((name) => (json[name] ?? null) !== null).map((name) => countAt(json, name) || cap)
  return Math.min(cap, named.length === 0 ? cap : Math.max(...named))
}

/** Keeps only tools that the agent runs itself, in its sandbox. Tools that a provider runs use its network and cost extra. */
export const ownTools = (json: Json, isOwn: (tool: Json) => boolean): Json => {
  if (!Object.hasOwn(json, "tools")) return json
  const { tool_choice: choice, tools, ...rest } = json
  const own = Array.isArray(tools) ? tools.filter((tool) => isObject(tool) && isOwn(tool)) : []
  if (own.length === 0) return rest
  return { ...rest, tools: own, ...(choice === undefined ? {} : { tool_choice: choice }) }
}
