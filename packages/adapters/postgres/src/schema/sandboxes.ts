/** Sandboxes: the state of each, the lease on it, and what a worker looks for. */
export const sandboxes: ReadonlyArray<string> = [
  // One row has the current state of a sandbox and the lease of its worker: a read is one row, never a fold over events. fillfactor
  // leaves room on the page, so that most updates write no index.
  `CREATE TABLE IF NOT EXISTS sandboxes (
    id                 text           PRIMARY KEY CHECK (id ~ '^c_[a-z2-9]{12}$'),
    grant_id           uuid           NOT NULL REFERENCES grants,
    created_by         text           NOT NULL,
    created_at         timestamptz(3) NOT NULL,
    title              text           NOT NULL,
    repos              jsonb          NOT NULL,
    -- Lower case, for the list's filter.
    repo_names         text[]         NOT NULL,
    prompt             text           NOT NULL,
    model              text           NOT NULL,
    agent_runtime      text           NOT NULL,
    reasoning_effort   text,
    tool_approval_mode text           NOT NULL,
    metadata           jsonb          NOT NULL,

    status             text           NOT NULL CHECK (status IN
      ('queued', 'creating', 'running', 'succeeded', 'failed', 'terminating', 'terminated')),
    reason             text,
    initiator          text           NOT NULL,
    status_at          timestamptz(3) NOT NULL,
    started_at         timestamptz(3),
    completed_at       timestamptz(3),
    error              text,
    turn               jsonb,
    idle_since         timestamptz(3),
    approvals          jsonb          NOT NULL,
    publications       jsonb          NOT NULL,
    usage              jsonb          NOT NULL,
    revision           bigint         NOT NULL CHECK (revision >= 1),
    last_seq           bigint         NOT NULL CHECK (last_seq >= 1),
    -- The first time limit that ends something, by the limits of the process that wrote the row. Version 0.1.0 reads it.
    deadline_at        timestamptz(3),

    -- A higher fence is a newer lease; every write of a worker names its own.
    fence              bigint         NOT NULL DEFAULT 0,
    worker             text,
    -- The machine whose disk has the working trees.
    machine            text,
    lease_until        timestamptz(3),
    agent_session      text,

    -- The newest event that is no longer kept.
    purged_seq         bigint         NOT NULL DEFAULT 0 CHECK (purged_seq >= 0 AND purged_seq <= last_seq),
    -- The end of life at the last purge: a sandbox that is terminated afterwards ends again, later, and is purged again. Ordinary
    -- writes change neither of the two columns, nor any other of the index sandboxes_purge, so they stay HOT.
    purged_before      timestamptz(3),
    log_bytes          bigint         NOT NULL DEFAULT 0 CHECK (log_bytes >= 0),

    checkpoint         integer        NOT NULL DEFAULT 0,
    owes_checkpoint    boolean        NOT NULL DEFAULT false,
    restoring          integer,
    restores           integer        NOT NULL DEFAULT 0,
    origin             jsonb,

    -- What the sandbox needs a worker for (docs/decisions/15). Null: it is at rest, and workers pass it over.
    work               text           CHECK (work IN ('boot', 'turn', 'errand')),
    work_since         timestamptz,
    -- last_seq when work was written: a process that does not know the column leaves it behind.
    work_seq           bigint,
    drained            boolean        NOT NULL DEFAULT false,
    -- The newest attempt at a checkpoint failed (docs/decisions/16): only its machine has everything, so a drain does not move it.
    pinned             boolean        NOT NULL DEFAULT false,
    -- The reason why the sandbox left the machine moved_from, until the next machine has everything (docs/decisions/15).
    moved              text           CHECK (moved IN ('drained', 'lost')),
    moved_from         text,
    -- The fence of the lease that moved it: a process that does not know the column leaves it behind.
    moved_fence        bigint,
    -- The part of the boot that setups took (docs/decisions/17).
    setup_time         jsonb,

    -- Messages that wait while a turn is active (docs/decisions/18).
    waiting            jsonb          NOT NULL DEFAULT '[]' CHECK (jsonb_array_length(waiting) <= 10),
    -- A column of its own, which is stored on other pages: lists do not read it.
    waiting_texts      jsonb          NOT NULL DEFAULT '[]',
    turnless           bigint         NOT NULL DEFAULT 0,
    -- In the domain's own encoding, as "usage".
    tokens             jsonb          NOT NULL DEFAULT '{"input":0,"cachedInput":0,"output":0}',
    -- When the newest event was recorded: no later event has an earlier time.
    recorded_at        timestamptz,
    -- New titles since the creation.
    renames            integer        NOT NULL DEFAULT 0,
    -- The feedback on its pull requests (docs/decisions/24). Null: none is asked for.
    feedback           jsonb,
    -- Hidden from lists for people (docs/decisions/29).
    archived_at        timestamptz(3),
    -- Set: a tombstone. Every other text and document of the row is empty, and no reader may see the row.
    deleted_at         timestamptz(3),
    -- The branch that it continues, in the domain's own encoding (docs/decisions/24).
    continues          jsonb,
    syncing            boolean        NOT NULL DEFAULT false,
    syncs              integer        NOT NULL DEFAULT 0,
    -- Its own limit of model costs. Null: the operator's alone.
    budget_micro_usd   bigint         CHECK (budget_micro_usd >= 1),
    -- Plain variables by name. Null: none.
    environment        jsonb,
    -- The names of the MCP servers that its creation chose (docs/decisions/23). Null: those that are on by default.
    mcp_servers        jsonb,

    CHECK ((work IS NULL) = (work_since IS NULL)),
    CHECK ((moved IS NULL) = (moved_from IS NULL) AND (moved IS NULL) = (moved_fence IS NULL)),
    CHECK (jsonb_array_length(waiting) = jsonb_array_length(waiting_texts))
  ) WITH (fillfactor = 80)`,

  "CREATE INDEX IF NOT EXISTS sandboxes_list ON sandboxes (grant_id, created_at DESC, id DESC)",
  "CREATE INDEX IF NOT EXISTS sandboxes_due ON sandboxes (deadline_at) WHERE deadline_at IS NOT NULL",
  `CREATE INDEX IF NOT EXISTS sandboxes_purge ON sandboxes (status_at)
  WHERE status IN ('succeeded', 'failed', 'terminated') AND (purged_before IS NULL OR purged_before < status_at)`,
  // Deletions that are not finished: long logs go in parts.
  `CREATE INDEX IF NOT EXISTS sandboxes_deleting ON sandboxes (id) WHERE deleted_at IS NOT NULL AND purged_seq < last_seq`,
  // Workers choose from these.
  "CREATE INDEX IF NOT EXISTS sandboxes_work ON sandboxes (work, work_since, created_at, id) WHERE work IS NOT NULL",
  "CREATE INDEX IF NOT EXISTS sandboxes_at_rest ON sandboxes (machine) WHERE status = 'running' AND work IS NULL",
  // Sandboxes with a lease, expired ones included: a worker that gives a lease back clears its name.
  `CREATE INDEX IF NOT EXISTS sandboxes_held ON sandboxes (machine)
  WHERE worker IS NOT NULL AND status IN ('queued', 'creating', 'running', 'terminating')`,
  "CREATE INDEX IF NOT EXISTS sandboxes_drained ON sandboxes (machine) WHERE drained",
  // The active ones of a grant, and what ends with the grant.
  `CREATE INDEX IF NOT EXISTS sandboxes_active ON sandboxes (grant_id)
  WHERE status IN ('queued', 'creating', 'running', 'terminating')`,
  "CREATE INDEX IF NOT EXISTS sandboxes_origin ON sandboxes ((origin ->> 'sandboxId')) WHERE origin IS NOT NULL",
  `CREATE INDEX IF NOT EXISTS sandboxes_continues ON sandboxes (lower(continues ->> 'repo'), (continues ->> 'branch'), created_at DESC)
  WHERE continues IS NOT NULL`,
  // Leases on ended sandboxes that are still being published: few.
  `CREATE INDEX IF NOT EXISTS sandboxes_held_over ON sandboxes (machine)
  WHERE worker IS NOT NULL AND status IN ('succeeded', 'failed')`,
  // Time limits compare when each state began, so that a changed limit holds at once (docs/decisions/2.1).
  `CREATE INDEX IF NOT EXISTS sandboxes_by_age ON sandboxes (created_at)
  WHERE status IN ('queued', 'creating', 'running')`,
  "CREATE INDEX IF NOT EXISTS sandboxes_queued_since ON sandboxes (created_at) WHERE status = 'queued'",
  `CREATE INDEX IF NOT EXISTS sandboxes_under_way_since ON sandboxes (status, status_at)
  WHERE status IN ('creating', 'terminating')`,
  `CREATE INDEX IF NOT EXISTS sandboxes_idle_since ON sandboxes (coalesce(idle_since, status_at))
  WHERE status = 'running' AND work IS DISTINCT FROM 'turn'`,

  // Machines that gave up all their sandboxes: a sandbox that was not leased since may move at once. One row instead of an update of each.
  `CREATE TABLE IF NOT EXISTS drained_machines (
    machine text        PRIMARY KEY,
    at      timestamptz NOT NULL
  )`,

  // The sandboxes that each person pinned in a grant.
  `CREATE TABLE IF NOT EXISTS sandbox_pins (
    grant_id   uuid NOT NULL REFERENCES grants,
    user_id    text NOT NULL,
    sandbox_id text NOT NULL REFERENCES sandboxes,
    PRIMARY KEY (grant_id, user_id, sandbox_id)
  )`,

  // Pull requests of sandboxes with feedback, kept by triggers (docs/decisions/24). look_at: null until something changes.
  `CREATE TABLE IF NOT EXISTS feedback_watches (
    sandbox_id    text        NOT NULL REFERENCES sandboxes ON DELETE CASCADE,
    repo          text        NOT NULL,
    branch        text        NOT NULL,
    look_at       timestamptz,
    -- Counts changes and notices, so that one during a look is not lost.
    noticed       bigint      NOT NULL,
    failures      integer     NOT NULL DEFAULT 0,
    fence         bigint      NOT NULL DEFAULT 0,
    claimed_until timestamptz,
    PRIMARY KEY (sandbox_id, repo)
  )`,
  "CREATE INDEX IF NOT EXISTS feedback_watches_due ON feedback_watches (look_at) WHERE look_at IS NOT NULL",
  "CREATE INDEX IF NOT EXISTS feedback_watches_branch ON feedback_watches (lower(repo), branch)",

  // Running sandboxes without work, kept by triggers. They are counted here: the table is narrow, so their own rows are not read.
  "CREATE TABLE IF NOT EXISTS resting_sandboxes (sandbox_id text PRIMARY KEY)"
]
