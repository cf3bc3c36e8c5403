/** A folder that is gone when the scope closes, whatever happened. */
import { Effect } from "effect"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"

export const make = (purpose: string) =>
  Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(tmpdir(), `slipway-${purpose}-`))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
  )
