/** Anthropic Messages as clouds take them: the version and the chosen beta features stand in the body, the model in the address. */
import { changed, isObject } from "../protocols/JsonFields.ts"
import type { Json } from "../protocols/Protocol.ts"

/** The values of the header `anthropic-beta` that the cloud knows. It refuses requests with others. */
export const betasOf = (header: string | undefined, known: ReadonlySet<string>): ReadonlyArray<string> =>
  [...new Set((header ?? "").split(",").map((name) => name.trim()))].filter((name) => known.has(name))

const CONTEXT_MANAGEMENT = "context-management-2025-06-27"

/** Only Anthropic's own API shares caches between organizations' workspaces. */
const unscoped = (cache: unknown): unknown => isObject(cache) ? changed(cache, "scope", () => undefined) : cache

const block = (value: unknown): unknown => isObject(value) ? changed(changed(value, "cache_control", unscoped), "content", blocks) : value

const blocks = (value: unknown): unknown => Array.isArray(value) ? value.map(block) : value

/** The body without fields that clouds do not take, or only with a beta feature. */
export const claudeBody = (body: Json, betas: ReadonlyArray<string>): Json => {
  const cached = ["system", "messages", "tools"].reduce(
    (json, name) => changed(json, name, blocks),
    changed(body, "cache_control", unscoped)
  )
  return betas.includes(CONTEXT_MANAGEMENT) ? cached : changed(cached, "context_management", () => undefined)
}
