import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What models cost, by grant and by sandbox, in micro-USD (the rules are in `sandbox/Budget.ts` of the domain), and which of
 * them workers can run.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // The row's lock orders all reservations of a grant. "wanted": the reservation refused last.
  yield* sql`
    CREATE TABLE grant_spending (
      grant_id uuid    PRIMARY KEY REFERENCES grants,
      spent    bigint  NOT NULL DEFAULT 0 CHECK (spent >= 0),
      reserved bigint  NOT NULL DEFAULT 0 CHECK (reserved >= 0),
      wanted   bigint  NOT NULL DEFAULT 0 CHECK (wanted >= 0),
      -- Whether "budget" holds instead of what is configured; null is no limit.
      own      boolean NOT NULL DEFAULT false,
      budget   bigint  CHECK (budget >= 0)
    ) WITH (fillfactor = 70)`
  yield* sql`
    CREATE TABLE sandbox_spending (
      sandbox_id text   PRIMARY KEY REFERENCES sandboxes,
      grant_id   uuid   NOT NULL REFERENCES grant_spending,
      calls      bigint NOT NULL DEFAULT 0 CHECK (calls >= 0),
      spent      bigint NOT NULL DEFAULT 0 CHECK (spent >= 0),
      reserved   bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
      wanted     bigint NOT NULL DEFAULT 0 CHECK (wanted >= 0)
    ) WITH (fillfactor = 70)`
  // One request to a model. A row outlives its request so that a repeated charge is known; charged ones go after a day.
  yield* sql`
    CREATE TABLE model_calls (
      id         uuid           PRIMARY KEY,
      sandbox_id text           NOT NULL REFERENCES sandbox_spending,
      reserved   bigint         NOT NULL CHECK (reserved >= 0),
      state      text           NOT NULL CHECK (state IN ('open', 'released', 'charged')),
      at         timestamptz(3) NOT NULL DEFAULT now()
    )`
  yield* sql`CREATE INDEX model_calls_sandbox ON model_calls (sandbox_id)`

  // What each worker can run, for the processes that answer requests. Written again and again; it may be lost in a crash.
  yield* sql`
    CREATE UNLOGGED TABLE worker_offers (
      worker   text        PRIMARY KEY,
      usable   jsonb       NOT NULL,
      unusable jsonb       NOT NULL,
      seen_at  timestamptz NOT NULL DEFAULT now()
    )`
})
