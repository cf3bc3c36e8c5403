/**
 * The visible form of an agent's plan (docs/decisions/5). Its texts are untrusted: they are limited, and invisible characters are shown.
 */
import { visible } from "../../text/EscapeInvisible.ts"
import { inOneLine } from "../../text/Lines.ts"
import type { PlanEntry } from "../schema/Plan.ts"

export type { PlanEntry, PlanStatus } from "../schema/Plan.ts"

/** Steps of a plan. Later ones are left out. */
export const PLAN_ENTRIES = 100
/** Characters of a step. */
export const PLAN_TEXT = 500

const shown = (text: string): string => {
  const line = visible(inOneLine(text.slice(0, 2 * PLAN_TEXT).toWellFormed()))
  return line.length <= PLAN_TEXT ? line : `${line.slice(0, PLAN_TEXT - 1).replace(/[\ud800-\udbff]$/u, "")}…`
}

/** The first steps in visible form. A step without a text is left out. */
export const shownPlan = (entries: ReadonlyArray<PlanEntry>): ReadonlyArray<PlanEntry> =>
  entries.flatMap(({ status, text }) => text.trim() === "" ? [] : [{ text: shown(text.trim()), status }]).slice(0, PLAN_ENTRIES)

/** Steps that are completed. */
export const completed = (entries: ReadonlyArray<PlanEntry>): number => entries.filter(({ status }) => status === "completed").length
