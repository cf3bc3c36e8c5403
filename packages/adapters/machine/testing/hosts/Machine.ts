/** Operations on this machine for the contract suites, without the code under test. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect } from "effect"
import { readdirSync, readFileSync, realpathSync } from "node:fs"
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** A new folder, removed with the scope. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.promise(async () => mkdtemp(join(await realpath(tmpdir()), "slipway-box-test-"))),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
)

/** Where the trees of a sandbox are, for hosts of tests that are told nothing else. */
export const workspaceOf = (sandboxId: SandboxId): string =>
  join(realpathSync(tmpdir()), `slipway-workspaces-${process.getuid?.()}`, sandboxId, "workspace")

/** It, new and empty; removed with the scope. */
export const workspaceFor = (sandboxId: SandboxId) => {
  const workspace = workspaceOf(sandboxId)
  return Effect.acquireRelease(
    Effect.promise(() => mkdir(workspace, { recursive: true, mode: 0o700 }).then(() => workspace)),
    () => Effect.promise(() => rm(join(workspace, ".."), { recursive: true, force: true, maxRetries: 3 }))
  )
}

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
