/** The form of a rule, and the areas of rules. */
import type { Need, World } from "../world/World.ts"

/** In the order of checking. Rates come last, so that every other 429 is known. */
export const areas = [
  "wire",
  "authentication",
  "creation",
  "limits",
  "idempotency",
  "list",
  "lifecycle",
  "commands",
  "events",
  "stream",
  "files",
  "uploads",
  "pull-request",
  "messages",
  "checkpoints",
  "branches",
  "feedback",
  "automations",
  "feed",
  "ownership",
  "documents",
  "rates"
] as const
/** The part of the contract that a rule belongs to. */
export type Area = typeof areas[number]

/** One sentence of the contract, and how to test it. */
export interface Rule {
  /** `area.name`, unique. */
  readonly id: string
  readonly area: Area
  /** The rule in one sentence. */
  readonly rule: string
  /** Its place in the docs: `docs/interface.md 4.2`, `docs/decisions/4`. */
  readonly source: string
  readonly needs: ReadonlyArray<Need>
  /** Why it can never be checked from outside. */
  readonly untestable: string | null
  /** Throws a `Miss` if the server breaks the rule, a `Skip` if that cannot be decided. */
  readonly check: (world: World) => Promise<void>
}

/** Makes the rules of one area. */
export const rulesOf = (area: Area, source: string) =>
(
  name: string,
  rule: string,
  check: (world: World) => Promise<void>,
  more: Partial<Pick<Rule, "needs" | "source">> = {}
): Rule => ({
  id: `${area}.${name}`,
  area,
  rule,
  source,
  needs: [],
  untestable: null,
  check,
  ...more
})
