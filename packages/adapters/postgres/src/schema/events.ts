import { SEARCHED_CHARACTERS, WORD } from "@slipway/domain/text/SearchText"

/** ASCII punctuation, each replaced by a space: the parser of Postgres would take an address or a path for one word. */
const SEPARATORS = "'!\"#$%&''()*+,-./:;<=>?@[\\]^_`{|}~', repeat(' ', 32)"

/** The log of sandboxes, and what was said, asked and decided in them. */
export const events: ReadonlyArray<string> = [
  // The public log. seq is assigned under the lock of the sandbox's row, so a reader misses no event. wire is the event's JSON for every
  // reader, encoded once; events of one part replace each other.
  `CREATE TABLE IF NOT EXISTS sandbox_events (
    sandbox_id text           NOT NULL REFERENCES sandboxes,
    seq        bigint         NOT NULL CHECK (seq >= 1),
    at         timestamptz(3) NOT NULL,
    type       text           NOT NULL,
    part_id    text,
    wire       text           NOT NULL,
    PRIMARY KEY (sandbox_id, seq)
  )`,
  "CREATE INDEX IF NOT EXISTS sandbox_events_part ON sandbox_events (sandbox_id, part_id, seq DESC) WHERE part_id IS NOT NULL",
  // A log has up to 512 MiB: its checkpoints are found without reading it.
  `CREATE INDEX IF NOT EXISTS sandbox_events_checkpoints ON sandbox_events (sandbox_id, seq)
  WHERE type IN ('sandbox.checkpoint', 'sandbox.restored')`,

  // The full text of what people and agents said.
  `CREATE TABLE IF NOT EXISTS messages (
    sandbox_id text           NOT NULL REFERENCES sandboxes,
    seq        bigint         NOT NULL,
    id         text           NOT NULL,
    turn_id    text           NOT NULL,
    role       text           NOT NULL CHECK (role IN ('user', 'assistant')),
    text       text           NOT NULL,
    created_at timestamptz(3) NOT NULL,
    -- Of a prompt with files, in the domain's own encoding.
    files      jsonb,
    PRIMARY KEY (sandbox_id, seq)
  )`,
  // A message of the agent that goes on after it was listed is found again by its id: without the index, a turn of 50,000 short
  // messages takes 48 s instead of 4 s.
  "CREATE INDEX IF NOT EXISTS messages_id ON messages (sandbox_id, id)",

  // The words of a prompt (seq 0) and of messages, by which the list of sandboxes finds them. The rows of a sandbox, the words of a row and
  // the length of a word are bounded. Words begin with a part of their grant's id, so that a search reads those of its grant alone.
  `CREATE TABLE IF NOT EXISTS search_texts (
    sandbox_id text     NOT NULL REFERENCES sandboxes,
    seq        bigint   NOT NULL,
    words      tsvector NOT NULL,
    PRIMARY KEY (sandbox_id, seq)
  )`,
  "CREATE INDEX IF NOT EXISTS search_texts_words ON search_texts USING gin (words) WITH (gin_pending_list_limit = 256)",
  // In plpgsql, which keeps its plan: in SQL a call takes several times as long.
  `CREATE OR REPLACE FUNCTION search_words(of_grant uuid, said text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
  BEGIN
    RETURN (SELECT coalesce(array_agg(right(of_grant::text, 8) || word), '{}') FROM unnest(tsvector_to_array(
      to_tsvector('simple'::regconfig, translate(left(said, ${SEARCHED_CHARACTERS}), ${SEPARATORS}))
    )) AS word WHERE length(word) <= ${WORD});
  END $$`,
  // Null: no words. A word has no character with a meaning in a query.
  `CREATE OR REPLACE FUNCTION search_query(of_grant uuid, typed text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg('''' || word || ''':*', ' & ')::tsquery FROM unnest(SCHEMA.search_words(of_grant, typed)) AS word
  $$`,

  // Every command that was accepted or rejected. Its id is derived from what it asks for, so a repeated command is recognized.
  `CREATE TABLE IF NOT EXISTS commands (
    id         uuid           PRIMARY KEY,
    sandbox_id text           NOT NULL REFERENCES sandboxes,
    outcome    text           NOT NULL CHECK (outcome IN ('applied', 'rejected')),
    revision   bigint         NOT NULL,
    at         timestamptz(3) NOT NULL,
    -- The turn that a message started: the answer to its repetition.
    turn_id    text
  )`,
  "CREATE INDEX IF NOT EXISTS commands_turn ON commands (turn_id) WHERE turn_id IS NOT NULL",

  // Outcome and resolver are both null while an approval is pending.
  `CREATE TABLE IF NOT EXISTS approvals (
    sandbox_id  text NOT NULL REFERENCES sandboxes,
    approval_id text NOT NULL,
    outcome     text CHECK (outcome IN ('approved', 'denied')),
    resolved_by text,
    -- Why a person denied it: the worker tells the agent (docs/decisions/3).
    reason      text,
    PRIMARY KEY (sandbox_id, approval_id),
    CHECK ((outcome IS NULL) = (resolved_by IS NULL)),
    CHECK (reason IS NULL OR outcome = 'denied' AND length(reason) BETWEEN 1 AND 2000)
  )`,

  // Questions of agents to people. Resolver and answers are null while it is pending; answers are the person's own.
  `CREATE TABLE IF NOT EXISTS questions (
    sandbox_id  text NOT NULL REFERENCES sandboxes,
    question_id text NOT NULL,
    resolved_by text,
    answers     jsonb,
    PRIMARY KEY (sandbox_id, question_id),
    CHECK (answers IS NULL OR resolved_by = 'user')
  )`,

  // Written in the transaction of what the key stands for: there is no state "in progress".
  `CREATE TABLE IF NOT EXISTS idempotency_keys (
    grant_id    uuid           NOT NULL REFERENCES grants,
    route       text           NOT NULL,
    key         text           NOT NULL,
    fingerprint text           NOT NULL,
    sandbox_id  text           NOT NULL,
    -- Of a message.
    command_id  uuid,
    created_at  timestamptz(3) NOT NULL DEFAULT now(),
    PRIMARY KEY (grant_id, route, key)
  )`,
  "CREATE INDEX IF NOT EXISTS idempotency_keys_age ON idempotency_keys (created_at)",

  // The trace that a sandbox (the empty turn) or a turn of it continues. Only requests that were traced have a row.
  `CREATE TABLE IF NOT EXISTS traces (
    sandbox_id  text NOT NULL REFERENCES sandboxes,
    turn_id     text NOT NULL,
    traceparent text NOT NULL CHECK (length(traceparent) = 55),
    PRIMARY KEY (sandbox_id, turn_id)
  )`,

  // The newest setup of each sandbox, deleted with the sandbox's events.
  `CREATE TABLE IF NOT EXISTS sandbox_setups (
    sandbox_id text        PRIMARY KEY REFERENCES sandboxes,
    state      text        NOT NULL CHECK (state IN ('running', 'succeeded', 'failed')),
    started_at timestamptz NOT NULL,
    ms         bigint,
    cache      text        NOT NULL CHECK (cache IN ('hit', 'miss', 'none')),
    exit_code  integer,
    -- The last MiB, without the values of secrets.
    output     text        NOT NULL,
    -- What agents are told of the setup.
    told       text
  )`
]
