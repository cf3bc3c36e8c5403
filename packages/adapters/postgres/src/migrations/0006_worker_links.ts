import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Where each worker serves the trees of its sandboxes. Written again and again; it may be lost in a crash. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE UNLOGGED TABLE worker_links (
      worker  text        PRIMARY KEY,
      -- IP address and port, on loopback or a private network.
      address text        NOT NULL,
      seen_at timestamptz NOT NULL DEFAULT now()
    )`
})
