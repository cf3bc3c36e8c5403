/** The submodules of a commit: its gitlinks, with their addresses from `.gitmodules`. Both are read from objects, never from a tree. */
import { Effect } from "effect"
import { eachField, type GitFailed } from "../Git.ts"
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

/** All of a commit, in the order of their paths. */
export const linksIn = Effect.fn("Gitlinks.linksIn")(
  function*(repository: Repository, commit: string): Effect.fn.Return<ReadonlyArray<Gitlink>, GitFailed> {
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

/** Bytes of both files. */
const MAXIMUM_TOP_BYTES = 4_194_304

/** Whether the top folder of a commit names submodules, and its attributes. Takes one process. */
export const topOf = Effect.fn("Gitlinks.topOf")(
  function*(repository: Repository, commit: string) {
    const said = yield* run(repository, ["cat-file", "--batch"], {
      input: `${commit}:.gitmodules\n${commit}:.gitattributes\n`,
      maximumBytes: MAXIMUM_TOP_BYTES
    })
    let at = 0
    const next = (): Buffer | null => {
      const end = said.indexOf(LINE_FEED, at)
      const [, kind, size] = said.subarray(at, end).toString("latin1").split(" ")
      at = end + 1
      // `<name> missing`
      if (size === undefined) return null
      const content = said.subarray(at, at + Number(size))
      at += Number(size) + 1
      return kind === "blob" ? content : null
    }
    const [modules, attributes] = [next(), next()]
    return { hasModules: modules !== null, attributes: attributes?.toString("latin1") ?? "" }
  },
  (self) =>
    Effect.catchIf(
      self,
      ({ reason }) => reason === "output",
      // They are larger than anybody makes them.
      () => Effect.succeed({ hasModules: true, attributes: "" })
    )
)
