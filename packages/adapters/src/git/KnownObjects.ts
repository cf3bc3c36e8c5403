/** What the repository of a tree has beyond the mirror: what was saved of it, the agent's own commits, what was published. */
import { Effect } from "effect"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { line } from "./Git.ts"
import { type HostRepository, run } from "./HostRepository.ts"

/** The tree that was saved last, with all it holds in the repository. */
export const savedFile = (repository: Pick<HostRepository, "gitDir">): string => join(repository.gitDir, "saved")

/** Of each name its id and kind, `undefined` for what is not in the repository. */
const objectsOf = Effect.fnUntraced(function*(repository: HostRepository, names: ReadonlyArray<string>) {
  const said = yield* run(repository, ["cat-file", "--batch-check=%(objectname) %(objecttype)"], {
    input: names.map((name) => `${name}\n`).join("")
  })
  return line(said).split("\n").map((entry) => {
    const [id = "", kind = ""] = entry.split(" ")
    return ["commit", "tree"].includes(kind) ? { id, kind } : undefined
  })
})

/** What the repository has, of what was saved or published before. */
export const known = Effect.fnUntraced(function*(repository: HostRepository, taken?: string, pushed?: string | null) {
  const { baseSha } = repository
  const last = yield* Effect.promise(() => readFile(savedFile(repository), "utf8").catch(() => ""))
  const baseTree = `${baseSha}^{tree}`
  const own = taken ?? baseSha
  const found = yield* objectsOf(repository, [baseTree, last === "" ? baseTree : last, `${own}^{tree}`, own, pushed ?? baseSha])
  const [base, lastTree, ownTree, ownCommit, published] = found
  return {
    baseTree: base?.id,
    lastTree: lastTree?.id,
    ownTree: ownTree?.id,
    /** The agent's newest commit. */
    own: taken !== undefined && ownCommit?.kind === "commit" ? taken : undefined,
    // After a power failure it may be gone.
    published: published?.kind === "commit" ? pushed ?? null : null
  }
})
export type Known = Effect.Success<ReturnType<typeof known>>

export const idsIn = ({ lastTree, ownTree }: Known): ReadonlyArray<string> =>
  [lastTree, ownTree].flatMap((id) => id === undefined ? [] : [id])
