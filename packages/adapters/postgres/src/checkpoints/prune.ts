/** Forgetting checkpoints, and removing contents that no checkpoint has. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type DateTime, Effect } from "effect"
import { guard } from "../sql/SqlFailure.ts"
import type { Store } from "./put.ts"
import { forgetCheckpoints } from "./statements/checkpoints.ts"
import { deleteContent, leftoverRows, PAGE, postponeLeftover, sandboxesWithLeftovers } from "./statements/leftovers.ts"

/** `Checkpoints.prune`. Call once per store. */
export const makePrune = ({ contents, sql }: Store) => {
  const withLeftovers = sandboxesWithLeftovers(sql, contents)
  const leftovers = leftoverRows(sql, contents)

  /** A row goes after its bytes: everything stored is found by its row, also the bytes of a put that is killed late. */
  const remove = Effect.fnUntraced(function*(ids: ReadonlyArray<SandboxId>) {
    for (let found = PAGE; found === PAGE;) {
      const keys = yield* guard(leftovers(ids))
      for (const { mayReturn, place, ...key } of keys) {
        yield* contents.find((content) => content.place === place)?.remove(key) ?? Effect.void
        yield* guard(mayReturn ? postponeLeftover(sql, key) : deleteContent(sql, key))
      }
      found = keys.length
    }
  })

  return Effect.fn("Checkpoints.prune")(function*(endedBefore: DateTime.Utc, limit: number, own?: ReadonlyMap<string, DateTime.Utc>) {
    let found: ReadonlyArray<SandboxId> = yield* guard(forgetCheckpoints(sql, endedBefore, limit, own))
    const looked = new Set<SandboxId>()
    do {
      yield* remove(found)
      for (const id of found) looked.add(id)
      found = looked.size < limit ? yield* guard(withLeftovers(limit - looked.size)) : []
    } while (found.length > 0)
    return looked.size
  })
}
