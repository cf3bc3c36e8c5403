/** A repository on a source host, and the commit-ish a sandbox starts from. */
import * as Schema from "effect/Schema"
import { text } from "../Text.ts"

/** Names that mean something else as a path, an argument or a URL. Checked again where a name becomes one of these. */
const isSafeName = Schema.makeFilter((value: string) => {
  const [owner = "", name = ""] = value.split("/")
  const safe = [owner, name].every((part) => part !== "." && part !== ".." && !part.startsWith("-"))
  return safe && !owner.startsWith(".") && !name.toLowerCase().endsWith(".git")
}, { expected: "an owner and a repository name a source host accepts", toJsonSchema: () => [{}, true] })

/** `owner/name`, at most 201 characters. Compared without regard to case, kept as written. */
export const RepoName = Schema.String.check(
  Schema.isMaxLength(201),
  Schema.isPattern(/^[A-Za-z0-9._-]+\/[A-Za-z0-9._-]+$/u, { expected: "owner/name" }),
  isSafeName
)
export type RepoName = typeof RepoName.Type

const FULL_COMMIT = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/iu
// git-check-ref-format(1): no component starts with "." or ends with ".lock", and none of these anywhere.
// oxlint-disable-next-line no-control-regex -- control characters are what is refused
const FORBIDDEN_IN_REF = /[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.$|^@$|^-/u

/** Whether git accepts `ref` as a branch or tag short name, or it is a full commit id. */
export const isRefName = (ref: string): boolean =>
  FULL_COMMIT.test(ref) ||
  !FORBIDDEN_IN_REF.test(ref) && ref.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock"))

/** Branch or tag short name, or a full 40/64-hex commit id; 1 to 255 characters. */
export const Ref = text(1, 255).check(
  Schema.makeFilter(isRefName, { expected: "a branch, a tag or a full commit id", toJsonSchema: () => [{}, true] })
)

/** A repository a sandbox works on, and where in it to start (docs/interface.md 2.2). */
export const RepoRef = Schema.Struct({
  fullName: RepoName.annotateKey({ description: "`owner/name`, in any case of letters." }),
  ref: Schema.optionalKey(Ref).annotateKey({ description: "Branch, tag or full commit id to start from. Left out: the default branch." })
}).annotate({ identifier: "RepoRef" })
export type RepoRef = typeof RepoRef.Type

/** Source hosts name a repository without regard to case. */
export const sameRepo = (a: RepoName, b: RepoName): boolean => a.toLowerCase() === b.toLowerCase()

/** Whether `ref` can only be a commit: such a ref is no base for a pull request. */
export const isCommitId = (ref: string): boolean => FULL_COMMIT.test(ref)
