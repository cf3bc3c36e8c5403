import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // What room each worker says it has. Written again and again; it may be lost in a crash.
  yield* sql`
    CREATE UNLOGGED TABLE worker_rooms (
      worker       text           PRIMARY KEY,
      machine      text           NOT NULL,
      slots        integer        NOT NULL CHECK (slots >= 0),
      slots_taken  integer        NOT NULL CHECK (slots_taken >= 0),
      agents       integer        NOT NULL CHECK (agents >= 0),
      agents_taken integer        NOT NULL CHECK (agents_taken >= 0),
      boots        integer        NOT NULL CHECK (boots >= 0),
      boots_taken  integer        NOT NULL CHECK (boots_taken >= 0),
      draining     boolean        NOT NULL,
      seen_at      timestamptz(3) NOT NULL DEFAULT now()
    ) WITH (fillfactor = 50)`
})
