/** Decides which commits are trusted: their setups get secrets and may fill caches (docs/decisions/17). */
import * as Schema from "effect/Schema"
import { type BranchRule, mayPushAny } from "../../source/schema/BranchRules.ts"
import { BRANCHES, isCommitId, isRefName } from "../../source/schema/Naming.ts"
import { text } from "../../text/Text.ts"

/** Refs that the owners of one grant list for one repository (our choice). */
export const MAX_TRUSTED_REFS = 50

const HEADS = "refs/heads/"

/** Whether the name is that of a branch that sandboxes push to. */
export const isPushed = (ref: string): boolean => (ref.startsWith(HEADS) ? ref.slice(HEADS.length) : ref).startsWith(BRANCHES)

/** The part of a pattern before its star; `null`: not a pattern. */
const stemOf = (listed: string): string | null => listed.endsWith("/*") ? listed.slice(0, -1) : null

/** Whether `listed` matches `ref`: the same name, or a pattern such as `release/*`. */
export const names = (listed: string, ref: string): boolean => {
  const stem = stemOf(listed)
  return stem === null ? listed === ref : ref.length > stem.length && ref.startsWith(stem)
}

const problemOf = (ref: string): string | undefined => {
  if (isPushed(ref)) return "another branch than those that sandboxes push to"
  if (isCommitId(ref)) return "a branch or a tag, not a commit"
  const name = stemOf(ref)?.slice(0, -1) ?? ref
  return name !== "" && isRefName(name) ? undefined : "a branch, a tag, or a pattern such as release/*"
}

/** A ref that an owner may list: the short name of a branch or tag, or a folder of them, such as `release/*`. */
export const TrustedRef = text(1, 255).check(
  Schema.makeFilter((ref: string) => {
    const problem = problemOf(ref)
    return problem === undefined ? undefined : `Expected ${problem}`
  }, { toJsonSchema: () => [{}, true] })
)
export type TrustedRef = typeof TrustedRef.Type

/** Facts about the commit that a tree started from. */
export interface StartingPoint {
  /** The ref that was asked for; `undefined`: the default branch. */
  readonly ref: string | undefined
  readonly defaultBranch: string
  /** The refs that owners listed. */
  readonly listed: ReadonlyArray<string>
  /** The first of {@link refsToAsk} whose history at the source contains the commit; `null`: no such ref. */
  readonly on: string | null
  /** A sandbox pushed the commit, and no person merged its pull request. */
  readonly isPushedUnmerged: boolean
  /** The branches that some grant may push to: nothing on them is trusted, except on the default branch. */
  readonly rules: ReadonlyArray<BranchRule>
}

/** The refs whose history the source has to search for the commit, in this order. Empty if the answer would change nothing. */
export const refsToAsk = (
  { defaultBranch, listed, ref, rules }: Pick<StartingPoint, "defaultBranch" | "listed" | "ref" | "rules">
): ReadonlyArray<string> =>
  ref !== undefined && (isPushed(ref) || isPushable({ defaultBranch, rules }, ref))
    ? []
    : [defaultBranch, ...listed].filter((name, i, all) =>
      !isPushed(name) && !isPushable({ defaultBranch, rules }, name) && all.indexOf(name) === i
    )

/** Whether a grant may push to the branch, or to one of the folder. A tag of such a name counts too. */
const isPushable = ({ defaultBranch, rules }: Pick<StartingPoint, "defaultBranch" | "rules">, ref: string): boolean => {
  const name = ref.startsWith(HEADS) ? ref.slice(HEADS.length) : ref
  return name !== defaultBranch && mayPushAny(rules, name)
}

/** Why the commit is not trusted, as a sentence for people; `null`: it is trusted. */
export const distrust = ({ defaultBranch, isPushedUnmerged, listed, on, ref, rules }: StartingPoint): string | null => {
  if (ref !== undefined && isPushed(ref)) return `It starts from ${ref}, a branch that a sandbox pushed.`
  if (ref !== undefined && isPushable({ defaultBranch, rules }, ref)) {
    return `It starts from ${ref}, a branch that an access grant may push to.`
  }
  if (on === defaultBranch && !isPushed(on)) return null
  if (on !== null && listed.includes(on) && !isPushed(on) && !isPushable({ defaultBranch, rules }, on)) {
    return isPushedUnmerged ? "A sandbox pushed the commit that it starts from, and no person merged its pull request." : null
  }
  return "The commit that it starts from is neither on the default branch nor on a ref that an owner listed."
}
