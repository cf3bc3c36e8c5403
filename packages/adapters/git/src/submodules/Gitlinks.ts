/** The submodules of a commit: its gitlinks, with their addresses from `.gitmodules`. Both are read from objects, never from a tree. */
import { Effect } from "effect"
import { eachField, type GitFailed, line } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import { run } from "../tree/HostRepository.ts"

/** Bytes of the list of a commit's files. */
const MAXIMUM_NAMES_BYTES = 67_108_864
/** Bytes of the addresses in `.gitmodules`. */
const MAXIMUM_MODULES_BYTES = 262_144

const SUBMODULE = "160000 commit "
const TAB = 0x09
const LINE_FEED = 0x0a

/** A folder that is another repository. */
export interface Gitlink {
  /** From the top of the commit, as git names it. */
  readonly path: Buffer
  /** The commit that the folder is at. */
  readonly sha: string
  /** As `.gitmodules` has it; `null`: it has none. */
  readonly address: string | null
}

interface Repository {
  readonly gitDir: string
}

/** Exit code of `git config` without a match. */
const NONE = 1

/** Addresses by path, a character for each byte. A `.gitmodules` that git cannot read names none. */
export const addressesIn = Effect.fnUntraced(
  function*(repository: Repository, commit: string, ask: typeof run = run) {
    const said = yield* ask(repository, ["config", "--blob", `${commit}:.gitmodules`, "--null", "--get-regexp",
      "^submodule\\..*\\.(path|url)$"], { answers: [NONE], maximumBytes: MAXIMUM_MODULES_BYTES, isLimited: true })
    const named = new Map<string, { path?: string; url?: string }>()
    for (const entry of eachField(said)) {
      const end = entry.indexOf(LINE_FEED)
      if (end < 0) continue
      const [key, value] = [entry.subarray(0, end).toString("latin1"), entry.subarray(end + 1)]
      const dot = key.lastIndexOf(".")
      const name = key.slice(0, dot)
      // As git: the last one counts.
      named.set(name, {
        ...named.get(name),
        ...key.slice(dot + 1) === "path" ? { path: value.toString("latin1") } : { url: value.toString() }
      })
    }
    const addresses = new Map<string, string>()
    for (const { path, url } of named.values()) if (path !== undefined && url !== undefined) addresses.set(path, url)
    return addresses
  },
  Effect.catchTag("GitFailed", () => Effect.succeed<ReadonlyMap<string, string>>(new Map()))
)

/** All of a commit that has a `.gitmodules`, in the order of their paths. */
export const linksIn = Effect.fn("Gitlinks.linksIn")(
  function*(repository: Repository, commit: string): Effect.fn.Return<ReadonlyArray<Gitlink>, GitFailed> {
    const input = `${commit}:.gitmodules\n`
    if (line(yield* run(repository, ["cat-file", "--batch-check=%(objecttype)"], { input })) !== "blob") return []
    const entries = yield* run(repository, ["ls-tree", "-r", "-z", commit], { maximumBytes: MAXIMUM_NAMES_BYTES })
    const found: Array<{ readonly path: Buffer; readonly sha: string }> = []
    yield* inPieces(eachField(entries), (entry) => {
      if (entry.subarray(0, SUBMODULE.length).toString("latin1") !== SUBMODULE) return
      const tab = entry.indexOf(TAB)
      found.push({ path: entry.subarray(tab + 1), sha: entry.subarray(SUBMODULE.length, tab).toString("latin1") })
    })
    if (found.length === 0) return []
    const addresses = yield* addressesIn(repository, commit)
    return found.map((link) => ({ ...link, address: addresses.get(link.path.toString("latin1")) ?? null }))
  }
)
