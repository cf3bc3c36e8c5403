import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What models took of the credits that claims brought (the rules are in `partner/Credits.ts` of the domain). Amounts are in
 * micros, millionths of a credit. `credit_balances` stays what was brought; what is left is that less `spent`.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // The row's lock orders all reservations of an organization. Not in "credit_balances": a claim waits for no request.
  yield* sql`
    CREATE TABLE credit_spending (
      organization_id uuid   PRIMARY KEY REFERENCES organizations,
      spent           bigint NOT NULL DEFAULT 0 CHECK (spent >= 0),
      reserved        bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
      wanted          bigint NOT NULL DEFAULT 0 CHECK (wanted >= 0)
    ) WITH (fillfactor = 70)`
  yield* sql`ALTER TABLE sandbox_spending ADD COLUMN micros bigint NOT NULL DEFAULT 0 CHECK (micros >= 0)`
  // Of the credits, what is still reserved for the request.
  yield* sql`ALTER TABLE model_calls ADD COLUMN micros bigint NOT NULL DEFAULT 0 CHECK (micros >= 0)`

  // A movement for each request that took something, only added to, like "credit_ledger" for those that brought something:
  // one for each sandbox would have to be changed, and what was charged twice could not be seen.
  yield* sql`
    CREATE TABLE credit_charges (
      call_id         uuid           PRIMARY KEY,
      organization_id uuid           NOT NULL REFERENCES credit_spending,
      sandbox_id      text           NOT NULL REFERENCES sandbox_spending,
      micros          bigint         NOT NULL CHECK (micros > 0),
      at              timestamptz(3) NOT NULL DEFAULT now()
    )`
  yield* sql`CREATE INDEX credit_charges_organization ON credit_charges (organization_id, sandbox_id)`
})
