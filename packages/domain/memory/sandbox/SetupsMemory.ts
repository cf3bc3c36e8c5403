/** `Setups` in memory, over the rows of `SandboxStoreMemory`. */
import * as Effect from "effect/Effect"
import { Setups } from "../../src/sandbox/ports/Setups.ts"
import { leased, type SandboxRows } from "./SandboxRows.ts"

/** `Setups` over these rows. */
export const make = (state: SandboxRows): Setups["Service"] =>
  Setups.of({
    save: (lease, record) =>
      Effect.map(leased(state, lease), (row) => {
        row.setup = record
      }),
    find: (id) => Effect.sync(() => state.rows.get(id)?.setup ?? null),
    wasPushedUnmerged: (repo, sha) =>
      Effect.sync(() =>
        [...state.rows.values(), ...state.deleted.values()].some(({ pushed }) =>
          pushed.some((one) => one.sha === sha && one.repo === repo.toLowerCase() && !one.merged)
        )
      )
  })
