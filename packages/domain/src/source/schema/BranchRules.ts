/** The branches that a grant may push to when a sandbox continues one (docs/decisions/24). */
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import { BRANCHES, isCommitId, isRefName } from "./Naming.ts"

/** Rules of one grant (our choice). */
export const MAX_BRANCH_RULES = 20
/** Stars of one rule (our choice). */
const MAX_STARS = 4

const problemOf = (rule: string): string | undefined => {
  if (rule.split("*").length - 1 > MAX_STARS) return `at most ${MAX_STARS} stars`
  // A star stands for any characters, so a letter in its place has to give a name.
  const name = rule.replaceAll("*", "x")
  return isRefName(name) && !isCommitId(name) ? undefined : "the name of a branch, or a pattern such as feature/*"
}

/** The short name of a branch, or a pattern of names: `*` stands for any characters, `/` included. */
export const BranchRule = text(1, 255).check(
  Schema.makeFilter((rule: string) => {
    const problem = problemOf(rule)
    return problem === undefined ? undefined : `Expected ${problem}`
  }, { toJsonSchema: () => [{}, true] })
)
export type BranchRule = typeof BranchRule.Type

/** The rules of one grant. An empty list lets it continue no branch. */
export const BranchRules = Schema.Array(BranchRule).check(
  Schema.isMaxLength(MAX_BRANCH_RULES),
  Schema.makeFilter((rules: ReadonlyArray<string>) => new Set(rules).size === rules.length, {
    expected: "rules that differ",
    toJsonSchema: () => [{}, true]
  })
)

/** The rules of a grant whose rules were never set: the branches of sandboxes alone. */
export const DEFAULT_BRANCH_RULES: ReadonlyArray<BranchRule> = [BranchRule.make(`${BRANCHES}*`)]

/** Whether the name matches the rule. Each part is searched once, from left to right, so the time is linear for hostile names too. */
export const matches = (rule: BranchRule, branch: string): boolean => {
  const [first = "", ...parts] = rule.split("*")
  const last = parts.pop()
  if (last === undefined) return rule === branch
  if (!branch.startsWith(first)) return false
  let at = first.length
  for (const part of parts) {
    const found = branch.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return branch.length - last.length >= at && branch.endsWith(last)
}

/** Whether a grant with these rules may push to the branch. The default branch and protected ones are refused elsewhere. */
export const mayPush = (rules: ReadonlyArray<BranchRule>, branch: string): boolean => rules.some((rule) => matches(rule, branch))

/**
 * Whether a grant with these rules may push to a branch that `listed` stands for: a name, or all names below a folder, such as
 * `release/*`.
 */
export const mayPushAny = (rules: ReadonlyArray<BranchRule>, listed: string): boolean => {
  if (!listed.endsWith("/*")) return mayPush(rules, listed)
  const folder = listed.slice(0, -1)
  return rules.some((rule) => {
    const [first = "", ...rest] = rule.split("*")
    if (first.startsWith(folder)) return rest.length > 0 || first.length > folder.length
    // A star of the rule can stand for the rest of the folder's name.
    return rest.length > 0 && folder.startsWith(first)
  })
}
