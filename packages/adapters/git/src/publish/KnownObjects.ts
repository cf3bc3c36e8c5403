/** Objects that the repository of a tree has and its mirror has not: saved trees, the agent's own commits, published commits. */
import { LruCache } from "@slipway/domain/store/LruCache"
import { textIn } from "@slipway/machine/node/IsThere"
import { Effect } from "effect"
import { join } from "node:path"
import { line } from "../Git.ts"
import { type HostRepository, identity, run } from "../tree/HostRepository.ts"

/** The tree that was saved last, with all it holds in the repository. */
export const savedFile = (repository: Pick<HostRepository, "gitDir">): string => join(repository.gitDir, "saved")

interface Named {
  readonly id: string
  readonly kind: string
}

/** By repository and name. They stay as long as it does: only a power failure takes some back, and this process with them. */
const found = new LruCache<string, Named>(10_000)
/** Trees of the commits that trees started from, which every repository has that started there. */
const bases = new LruCache<string, string>(1_000)

/** Takes note of an object that was written into the repository. */
export const note = (repository: Pick<HostRepository, "gitDir">, id: string, kind: "commit" | "tree"): Effect.Effect<void> =>
  Effect.map(identity(repository), (place) => found.set(`${place} ${id}`, { id, kind }))

/** The id and kind of each name; `undefined`: the repository does not have it. */
const objectsOf = Effect.fnUntraced(function*(repository: HostRepository, names: ReadonlyArray<string>) {
  const { baseSha } = repository
  const place = yield* identity(repository)
  const nameOf = (name: string) => `${place} ${name}`
  const base = bases.get(baseSha)
  if (base !== undefined) {
    found.set(nameOf(baseSha), { id: baseSha, kind: "commit" })
    found.set(nameOf(`${baseSha}^{tree}`), { id: base, kind: "tree" })
  }
  const asked = [...new Set(names)].filter((name) => found.get(nameOf(name)) === undefined)
  if (asked.length > 0) {
    const said = yield* run(repository, ["cat-file", "--batch-check=%(objectname) %(objecttype)"], {
      input: asked.map((name) => `${name}\n`).join("")
    })
    for (const [i, entry] of line(said).split("\n").entries()) {
      const [id = "", kind = ""] = entry.split(" ")
      if (["commit", "tree"].includes(kind)) found.set(nameOf(asked[i] ?? ""), { id, kind })
    }
    const tree = found.get(nameOf(`${baseSha}^{tree}`))
    if (tree !== undefined) bases.set(baseSha, tree.id)
  }
  return names.map((name) => found.get(nameOf(name)))
})

/** The saved and published objects that the repository still has. */
export const known = Effect.fnUntraced(function*(repository: HostRepository, taken?: string, pushed?: string | null) {
  const { baseSha } = repository
  const last = yield* Effect.promise(() => textIn(savedFile(repository), ""))
  const baseTree = `${baseSha}^{tree}`
  const own = taken ?? baseSha
  const [base, lastTree, ownTree, ownCommit, published] = yield* objectsOf(
    repository,
    [baseTree, last === "" ? baseTree : last, `${own}^{tree}`, own, pushed ?? baseSha]
  )
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
