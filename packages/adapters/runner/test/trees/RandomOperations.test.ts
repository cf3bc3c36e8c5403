/**
 * The files on the disk are the same as those shown, published, saved, restored and forked, after any operations (`random/Sequences.ts`).
 */
import { it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { temporaryFolder } from "@slipway/git/testing/Repositories"
import { Context, Effect, Layer } from "effect"
import { describe } from "vitest"
import { kinds } from "./Kinds.ts"
import * as Sequences from "./random/Sequences.ts"

describe.for(kinds)("random operations on trees $name", ({ layer, workspaceIn }) => {
  it.live("are shown, published, saved, restored and forked as they are on the disk", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryFolder
      const trees = Context.get(yield* Layer.build(layer({ directory })), WorkingTrees)
      const world = { trees, provision: () => Effect.void, stop: undefined, workspaceOf: workspaceIn(directory) }
      yield* Sequences.run(world, directory, 2)
    }), { timeout: 24 * 3_600_000 })
})
