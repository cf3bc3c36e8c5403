/** What the contract suites ask of this machine, found without the code under test. */
import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { mkdtemp, realpath, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A new folder, removed with the scope. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.promise(async () => mkdtemp(join(await realpath(tmpdir()), "slipway-box-test-"))),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
)

/** Ids of the running processes whose command line contains `text`. Zombies have none. */
export const processes = (text: string): Effect.Effect<ReadonlyArray<number>> =>
  Effect.sync(() =>
    readdirSync("/proc")
      .filter((name) => /^\d+$/u.test(name))
      .flatMap((name) => {
        try {
          return readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").includes(text) ? Number(name) : []
        } catch {
          return []
        }
      })
  )

export const running = (text: string): Effect.Effect<number> => Effect.map(processes(text), (found) => found.length)
