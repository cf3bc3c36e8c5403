/** A repository on a source host, and the commit-ish a sandbox starts from. */
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import { isRefName } from "./Naming.ts"

/** Refuses names with another meaning as a path, an argument or a URL. Checked again where a name becomes one of these. */
const isSafeName = Schema.makeFilter((value: string) => {
  const [owner = "", name = ""] = value.split("/")
  const safe = [owner, name].every((part) => part !== "." && part !== ".." && !part.startsWith("-"))
  return safe && !owner.startsWith(".") && !name.toLowerCase().endsWith(".git")
}, { expected: "an owner and a repository name a source host accepts", toJsonSchema: () => [{}, true] })

/** `owner/name`, at most 201 characters. Comparisons ignore case; the spelling is kept. */
export const RepoName = Schema.String.check(
  Schema.isMaxLength(201),
  Schema.isPattern(/^[A-Za-z0-9._-]+\/[A-Za-z0-9._-]+$/u, { expected: "owner/name" }),
  isSafeName
)
export type RepoName = typeof RepoName.Type

/** Branch or tag short name, or a full 40/64-hex commit id; 1 to 255 characters. */
export const Ref = text(1, 255).check(
  Schema.makeFilter(isRefName, { expected: "a branch, a tag or a full commit id", toJsonSchema: () => [{}, true] })
)

/** A repository of a sandbox, and its starting ref (docs/interface.md 2.2). */
export const RepoRef = Schema.Struct({
  fullName: RepoName.annotateKey({ description: "`owner/name`, in any case of letters." }),
  ref: Schema.optionalKey(Ref).annotateKey({ description: "Branch, tag or full commit id to start from. Left out: the default branch." })
}).annotate({ identifier: "RepoRef" })
export type RepoRef = typeof RepoRef.Type
