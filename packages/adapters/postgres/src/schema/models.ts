/**
 * Accounts with providers of models, and the costs of models, by grant and by sandbox, in micro-USD. The rules are in
 * models/rules/ModelProviders.ts and models/rules/Budget.ts of the domain.
 */
export const models: ReadonlyArray<string> = [
  `CREATE TABLE IF NOT EXISTS model_providers (
    provider   text           PRIMARY KEY,
    -- The key, encrypted for this provider alone. Null: no key.
    sealed     text           CHECK (sealed LIKE 'sealed:%'),
    base_url   text,
    model      text,
    is_default boolean        NOT NULL,
    set_at     timestamptz(3) NOT NULL
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS model_providers_default ON model_providers (is_default) WHERE is_default",
  // The row's lock orders all reservations of a grant. "wanted": the reservation that was refused last.
  `CREATE TABLE IF NOT EXISTS grant_spending (
    grant_id uuid    PRIMARY KEY REFERENCES grants,
    spent    bigint  NOT NULL DEFAULT 0 CHECK (spent >= 0),
    reserved bigint  NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    wanted   bigint  NOT NULL DEFAULT 0 CHECK (wanted >= 0),
    -- Whether "budget" holds instead of the configured one; a null budget is no limit.
    own      boolean NOT NULL DEFAULT false,
    budget   bigint  CHECK (budget >= 0)
  ) WITH (fillfactor = 70)`,
  `CREATE TABLE IF NOT EXISTS sandbox_spending (
    sandbox_id          text   PRIMARY KEY REFERENCES sandboxes,
    grant_id            uuid   NOT NULL REFERENCES grant_spending,
    calls               bigint NOT NULL DEFAULT 0 CHECK (calls >= 0),
    spent               bigint NOT NULL DEFAULT 0 CHECK (spent >= 0),
    reserved            bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    wanted              bigint NOT NULL DEFAULT 0 CHECK (wanted >= 0),
    micros              bigint NOT NULL DEFAULT 0 CHECK (micros >= 0),
    input_tokens        bigint NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
    cached_input_tokens bigint NOT NULL DEFAULT 0 CHECK (cached_input_tokens >= 0),
    output_tokens       bigint NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
    -- The own budget of the sandbox, as its last reservation named it. Null: none.
    budget              bigint CHECK (budget >= 1)
  ) WITH (fillfactor = 70)`,

  // A request to a model. A row outlives its request, so that a repeated charge is recognized; charged rows go after a day.
  `CREATE TABLE IF NOT EXISTS model_calls (
    id         uuid           PRIMARY KEY,
    sandbox_id text           NOT NULL REFERENCES sandbox_spending,
    reserved   bigint         NOT NULL CHECK (reserved >= 0),
    state      text           NOT NULL CHECK (state IN ('open', 'released', 'charged')),
    at         timestamptz(3) NOT NULL DEFAULT now(),
    -- Credits that are still reserved for the request.
    micros     bigint         NOT NULL DEFAULT 0 CHECK (micros >= 0)
  )`,
  "CREATE INDEX IF NOT EXISTS model_calls_sandbox ON model_calls (sandbox_id)",
  // Sandboxes with a reservation, in the order in which they are looked through.
  `CREATE INDEX IF NOT EXISTS model_calls_open ON model_calls (sandbox_id COLLATE "C") WHERE state = 'open'`,
  // Calls without a reservation are deleted by age.
  "CREATE INDEX IF NOT EXISTS model_calls_over ON model_calls (at) WHERE state <> 'open' AND micros = 0"
]
