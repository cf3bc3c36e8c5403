/** The state that each worker reports again and again. A crash may lose it, so the tables are unlogged. */
export const workers: ReadonlyArray<string> = [
  // The models it can run, for the processes that answer requests.
  `CREATE UNLOGGED TABLE IF NOT EXISTS worker_offers (
    worker    text        PRIMARY KEY,
    usable    jsonb       NOT NULL,
    unusable  jsonb       NOT NULL,
    seen_at   timestamptz NOT NULL DEFAULT now(),
    -- Of its agents.
    isolation jsonb
  )`,
  // Where it serves the trees of its sandboxes.
  `CREATE UNLOGGED TABLE IF NOT EXISTS worker_links (
    worker  text        PRIMARY KEY,
    -- IP address and port, on loopback or a private network.
    address text        NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    -- As its leases name the machine.
    machine text
  )`,
  // Its capacity, and how much of it is taken.
  `CREATE UNLOGGED TABLE IF NOT EXISTS worker_rooms (
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
]
