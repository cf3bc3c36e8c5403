/** Every schema change, in order. Append only: a migration that was released is never edited. */
import { Effect, Layer } from "effect"
import { Migrator } from "effect/sql"
import sandboxes from "./migrations/0001_sandboxes.ts"

const run = Migrator.make({})

/** Brings the database up to date when the layer is built, in one transaction under a lock. */
export const layer = Layer.effectDiscard(
  run({ loader: Migrator.fromRecord({ "0001_sandboxes": sandboxes }) }).pipe(
    Effect.tap((applied) => applied.length === 0 ? Effect.void : Effect.logInfo("migrations applied", { count: applied.length }))
  )
)
