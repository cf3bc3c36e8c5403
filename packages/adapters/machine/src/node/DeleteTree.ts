import { Effect } from "effect"
import { removeTree } from "./RemoveTree.ts"
import { Spawn } from "./spawner/Spawn.ts"

/** {@link removeTree} by whatever starts the programs of this process. */
export const deleteTree = (path: string): Effect.Effect<void> =>
  Effect.flatMap(Spawn, (spawn) => Effect.promise(() => removeTree(spawn, path)))
