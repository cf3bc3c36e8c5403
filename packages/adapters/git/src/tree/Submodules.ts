/** Submodules of a tree: Slipway leaves their folders empty and publishes nothing that is put into them, so it says where they are. */
import { Effect } from "effect"
import { eachField, line } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import { type HostRepository, run } from "./HostRepository.ts"

/** That are told of, and characters of the path of each. */
const MOST = 32
const MOST_CHARACTERS = 500

const MAXIMUM_NAMES_BYTES = 67_108_864

const SUBMODULE = "commit "

/** As events tell of them: the first of them, without those whose paths are too long to show. */
export const told = (paths: ReadonlyArray<Buffer>): ReadonlyArray<string> =>
  paths.map((path) => path.toString()).filter((path) => path.length <= MOST_CHARACTERS).slice(0, MOST)

/** Folders of submodules in the commit that the tree started from. */
export const inBase = Effect.fn("Submodules.inBase")(
  function*(repository: HostRepository) {
    const { baseSha } = repository
    const input = `${baseSha}:.gitmodules\n`
    if (line(yield* run(repository, ["cat-file", "--batch-check=%(objecttype)"], { input })) !== "blob") return []
    const entries = yield* run(repository, ["ls-tree", "-r", "-z", "--format=%(objecttype) %(path)", baseSha], {
      maximumBytes: MAXIMUM_NAMES_BYTES
    })
    const found: Array<Buffer> = []
    yield* inPieces(eachField(entries), (entry) => {
      if (entry.subarray(0, SUBMODULE.length).toString("latin1") === SUBMODULE) found.push(entry.subarray(SUBMODULE.length))
    })
    return told(found)
  },
  // The tree is made: a boot does not fail because of what is said of it.
  (self, repository) =>
    Effect.catchTag(
      self,
      "GitFailed",
      (failure) => Effect.as(Effect.logWarning("git could not list submodules", { repo: repository.repo, failure: failure.message }), [])
    )
)
