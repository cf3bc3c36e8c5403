import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** How much differs in what a checkpoint holds, by repository: what lists of sandboxes show. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE checkpoint_contents ADD COLUMN changes jsonb`
})
