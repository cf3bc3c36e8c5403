/** Packs of a host's repository, to which every save and every publication adds one: git looks into all of them for each object. */
import { namesIn } from "@slipway/machine/node/IsThere"
import { Effect } from "effect"
import { chmod, readdir } from "node:fs/promises"
import { join } from "node:path"
import { type HostRepository, run } from "../tree/HostRepository.ts"

/** Far from what slows git down (some hundreds), and seldom enough to cost nothing. */
const MOST = 50
/** Where they could not be put together, it is tried again with every so many more. */
const AGAIN = 10

const OPTIONS = {
  timeout: "30 seconds",
  isLimited: true,
  config: ["pack.threads=1", "pack.windowMemory=64m", "core.bigFileThreshold=16m"]
} as const

const folderOf = ({ gitDir }: HostRepository): string => join(gitDir, "objects", "pack")

const count = async (repository: HostRepository): Promise<number> =>
  (await namesIn(folderOf(repository))).filter((name) => name.endsWith(".idx")).length

/**
 * Combines packs when there are many. It keeps unreferenced objects too: publications and comparisons name commits that no ref has. A
 * concurrent reader finds each object in its new pack.
 */
export const consolidate = Effect.fn("Packs.consolidate")(
  function*(repository: HostRepository) {
    const packs = yield* Effect.promise(() => count(repository))
    if (packs < MOST || (packs - MOST) % AGAIN > 1) return
    yield* run(repository, ["multi-pack-index", "write", "--no-progress"], OPTIONS)
    yield* run(repository, ["multi-pack-index", "repack", "--no-progress", "--batch-size=0"], OPTIONS)
    yield* run(repository, ["multi-pack-index", "expire", "--no-progress"], OPTIONS)
    // The box, which runs as another user, has to read them, whatever files of ours are like.
    yield* Effect.promise(async () => {
      const folder = folderOf(repository)
      for (const name of await readdir(folder)) await chmod(join(folder, name), 0o444)
    })
  },
  (self, { repo }) =>
    Effect.catch(self, (failure) => Effect.logWarning("packs could not be put together", { repo, failure: failure.message }))
)
