/** What this application keeps in its database: how far it read, what it has processed, and what came of it. */
import pg from "pg"
import type { Page, PartnerEvent } from "./Feed.ts"

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS slipway_cursor (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    cursor   bigint  NOT NULL
  );
  INSERT INTO slipway_cursor (cursor) VALUES (0) ON CONFLICT DO NOTHING;
  -- "place" is the order in which they were processed.
  CREATE TABLE IF NOT EXISTS slipway_events (
    id           uuid        PRIMARY KEY,
    sequence     bigint      NOT NULL,
    type         text        NOT NULL,
    place        bigint      GENERATED ALWAYS AS IDENTITY,
    processed_at timestamptz NOT NULL DEFAULT now()
  );
  -- What we make of the events: replace it by your own.
  CREATE TABLE IF NOT EXISTS leads (
    lead_id       text    PRIMARY KEY,
    credits       bigint  NOT NULL DEFAULT 0,
    tasks         integer NOT NULL DEFAULT 0,
    pull_requests integer NOT NULL DEFAULT 0,
    converted     boolean NOT NULL DEFAULT false
  )`

export interface Ledger {
  /** The last `nextCursor` that was saved; 0 at first. */
  cursor(): Promise<number>
  /** Processes a page and saves its cursor: all of it, or nothing when it rejects. Safe to repeat. */
  process(page: Page): Promise<void>
  close(): Promise<void>
}

/** What one event does. Adding twice would be wrong; {@link makeLedger} sees to it that it happens once. */
const apply = async (client: pg.PoolClient, { data, type }: PartnerEvent): Promise<void> => {
  await client.query("INSERT INTO leads (lead_id) VALUES ($1) ON CONFLICT DO NOTHING", [data.leadId])
  switch (type) {
    case "credit_claim.claimed":
      await client.query("UPDATE leads SET credits = credits + $2 WHERE lead_id = $1", [data.leadId, data.creditAmount])
      break
    case "task.started":
      await client.query("UPDATE leads SET tasks = tasks + 1 WHERE lead_id = $1", [data.leadId])
      break
    case "pull_request.opened":
      await client.query("UPDATE leads SET pull_requests = pull_requests + 1 WHERE lead_id = $1", [data.leadId])
      break
    case "conversion.paid":
      await client.query("UPDATE leads SET converted = true WHERE lead_id = $1", [data.leadId])
      break
  }
}

/** Makes the tables if they are not there. Rejects when the database is away; the supervisor of the process starts it again. */
export const makeLedger = async (databaseUrl: string, log: (line: string) => void): Promise<Ledger> => {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 })
  // An idle connection failed. The next query opens another one.
  pool.on("error", (error) => log(`lost a database connection: ${error.message}`))

  const transaction = async (work: (client: pg.PoolClient) => Promise<void>): Promise<void> => {
    const client = await pool.connect()
    try {
      await client.query("BEGIN")
      await work(client)
      await client.query("COMMIT")
      client.release()
    } catch (error) {
      // Closing the connection is the rollback that also works when it broke.
      client.release(true)
      throw error
    }
  }

  await transaction(async (client) => {
    // Tables made "if not exists" by two processes at once can fail.
    await client.query("SELECT pg_advisory_xact_lock(hashtext('slipway consumer'))")
    await client.query(SCHEMA)
  })

  return {
    cursor: async () => {
      const { rows: [row] } = await pool.query<{ cursor: string }>("SELECT cursor FROM slipway_cursor")
      return Number(row?.cursor ?? 0)
    },
    process: ({ data, nextCursor }) =>
      transaction(async (client) => {
        // Waits for a second consumer, or for the last commit of a killed one.
        await client.query("SELECT FROM slipway_cursor FOR UPDATE")
        for (const event of data) {
          const { rowCount } = await client.query(
            "INSERT INTO slipway_events (id, sequence, type) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING",
            [event.id, event.sequence, event.type]
          )
          if (rowCount === 1) await apply(client, event)
        }
        // A page that comes late or twice does not take us back.
        await client.query("UPDATE slipway_cursor SET cursor = greatest(cursor, $1)", [nextCursor])
      }),
    close: () => pool.end()
  }
}
