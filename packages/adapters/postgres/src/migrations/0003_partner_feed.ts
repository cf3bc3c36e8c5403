import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What partners read: one ordered feed for each grant. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  // The row's lock orders a feed: it is held from the number to the commit, so numbers become visible in their order.
  yield* sql`
    CREATE TABLE partner_feeds (
      grant_id      uuid   PRIMARY KEY REFERENCES grants,
      -- The number given last.
      last_sequence bigint NOT NULL DEFAULT 0 CHECK (last_sequence >= 0)
    )`
  yield* sql`
    CREATE TABLE partner_events (
      grant_id   uuid           NOT NULL REFERENCES partner_feeds,
      sequence   bigint         NOT NULL CHECK (sequence >= 1),
      id         uuid           NOT NULL UNIQUE,
      type       text           NOT NULL,
      natural_id text           NOT NULL,
      data       jsonb          NOT NULL,
      created_at timestamptz(3) NOT NULL,
      PRIMARY KEY (grant_id, sequence),
      UNIQUE (grant_id, type, natural_id)
    )`

  // One round trip while a feed is locked. Called as the last statement of a transaction. Feeds are locked in the order
  // of their ids, so that two transactions never wait for each other. "tellings": in order, {grant_id, id, type,
  // natural_id, data}; what a feed has told before is left out and takes no number.
  yield* sql`
    CREATE FUNCTION tell_partners(tellings jsonb, at timestamptz) RETURNS void
    LANGUAGE plpgsql AS $$
    DECLARE
      feed uuid;
    BEGIN
      FOR feed IN SELECT DISTINCT (t ->> 'grant_id')::uuid FROM jsonb_array_elements(tellings) AS t ORDER BY 1 LOOP
        INSERT INTO partner_feeds (grant_id) VALUES (feed) ON CONFLICT DO NOTHING;
        PERFORM FROM partner_feeds WHERE grant_id = feed FOR UPDATE;
        -- A statement of its own: it must see what was committed while the lock was waited for.
        WITH added AS (
          INSERT INTO partner_events (grant_id, sequence, id, type, natural_id, data, created_at)
          SELECT feed, f.last_sequence + row_number() OVER (ORDER BY t.n), t.id, t.type, t.natural_id, t.data, at
          FROM partner_feeds f, (
            SELECT DISTINCT ON (e ->> 'type', e ->> 'natural_id')
              n, (e ->> 'id')::uuid AS id, e ->> 'type' AS type, e ->> 'natural_id' AS natural_id, e -> 'data' AS data
            FROM jsonb_array_elements(tellings) WITH ORDINALITY AS x(e, n)
            WHERE (e ->> 'grant_id')::uuid = feed
            ORDER BY e ->> 'type', e ->> 'natural_id', n
          ) t
          WHERE f.grant_id = feed AND NOT EXISTS (
            SELECT FROM partner_events p WHERE p.grant_id = feed AND p.type = t.type AND p.natural_id = t.natural_id)
          RETURNING 1
        )
        UPDATE partner_feeds SET last_sequence = last_sequence + (SELECT count(*) FROM added) WHERE grant_id = feed;
      END LOOP;
    END $$`
})
