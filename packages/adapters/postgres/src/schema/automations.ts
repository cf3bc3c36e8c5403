/** Automations, and the log of their runs. */
export const automations: ReadonlyArray<string> = [
  `CREATE TABLE IF NOT EXISTS automations (
    id            uuid           PRIMARY KEY,
    grant_id      uuid           NOT NULL REFERENCES grants,
    created_by    text           NOT NULL,
    test          boolean        NOT NULL,
    created_at    timestamptz(3) NOT NULL,
    settings      jsonb          NOT NULL,
    -- Of the settings: the type of the trigger, and the repositories in lower case.
    kind          text           NOT NULL,
    repos         text[]         NOT NULL,
    -- Of webhooks: [{value, until}], encrypted, the current one first.
    secrets       jsonb,
    failures      integer        NOT NULL CHECK (failures >= 0),
    paused_at     timestamptz(3),
    paused_reason text           CHECK (paused_reason IN ('paused', 'failures')),
    due_at        timestamptz(3),
    CHECK (num_nulls(paused_at, paused_reason) IN (0, 2))
  )`,
  "CREATE INDEX IF NOT EXISTS automations_list ON automations (grant_id, created_at, id)",
  "CREATE INDEX IF NOT EXISTS automations_due ON automations (due_at) WHERE paused_at IS NULL",
  "CREATE INDEX IF NOT EXISTS automations_following ON automations USING gin (repos)",

  `CREATE TABLE IF NOT EXISTS automation_runs (
    position      bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Of automation and trigger: a repeated event has the same.
    id            uuid           NOT NULL UNIQUE,
    automation_id uuid           NOT NULL REFERENCES automations ON DELETE CASCADE,
    trigger_id    text           NOT NULL,
    at            timestamptz(3) NOT NULL,
    outcome       text           NOT NULL CHECK (outcome IN ('starting', 'started', 'refused', 'skipped')),
    sandbox_id    text,
    -- Why it was refused, or the limit that it met.
    code          text,
    message       text,
    -- The creation, while it is starting.
    request       jsonb,
    -- The caller with this fence may start it, until claimed_until.
    fence         bigint         NOT NULL DEFAULT 0,
    claimed_until timestamptz,
    -- It started, and its sandbox boots as far as is known.
    boots         boolean        NOT NULL DEFAULT false,
    CHECK ((outcome = 'starting') = (request IS NOT NULL)),
    CHECK ((outcome = 'started') = (sandbox_id IS NOT NULL)),
    CHECK ((outcome = 'refused') = (message IS NOT NULL)),
    CHECK ((outcome IN ('refused', 'skipped')) = (code IS NOT NULL))
  )`,
  "CREATE INDEX IF NOT EXISTS automation_runs_log ON automation_runs (automation_id, position DESC)",
  "CREATE INDEX IF NOT EXISTS automation_runs_age ON automation_runs (at)",
  "CREATE INDEX IF NOT EXISTS automation_runs_starting ON automation_runs (position) WHERE outcome = 'starting'",
  "CREATE INDEX IF NOT EXISTS automation_runs_boots ON automation_runs (position) WHERE boots"
]
