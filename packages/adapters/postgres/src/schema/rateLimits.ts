/** Requests of the last minute, by key, user and grant (docs/decisions/10). */
export const rateLimits: ReadonlyArray<string> = [
  // The accepted requests of the last minute of each window: the times from which they count, ascending, and the total up to each
  // time. "forgotten" is the total before them. A crash that loses them costs a minute of limiting, so the table is unlogged.
  `CREATE UNLOGGED TABLE IF NOT EXISTS rate_windows (
    key_id    uuid     PRIMARY KEY,
    times     bigint[] NOT NULL DEFAULT '{}',
    counts    bigint[] NOT NULL DEFAULT '{}',
    forgotten bigint   NOT NULL DEFAULT 0
  )`,

  // A request counts in several windows at once: its key's, its user's, its grant's. It is accepted if all have room, else it counts in
  // none. At most "slots" are accepted in any 60 s. A refusal writes nothing. Callers name windows in the same order, key first: rows
  // are locked in that order. The clock is read under the locks, so times never decrease; if the clock was set back, remembered times
  // are clamped to now. Above 1000 slots a row would grow too large: then times have steps of 60 ms and count from the end of their
  // step, so a slot opens up to 60 ms late. All windows but the first have steps of 600 ms, so that their rows stay small whatever
  // number of callers shares them: with 900 times a row is kept out of line, and a slot costs 1.6 ms instead of 30 us (measured
  // 2026-11-22). "tightest": the window with the fewest slots left, 1 is the first; of equal ones the window that opens last.
  `CREATE OR REPLACE FUNCTION take_rate_slots(
    windows uuid[], slots integer[], OUT taken boolean, OUT remaining integer, OUT reset_ms bigint, OUT tightest integer
  )
  LANGUAGE plpgsql AS $$
  DECLARE
    rows    SCHEMA.rate_windows[];
    kept    SCHEMA.rate_windows;
    step    integer;
    now_ms  bigint;
    stamp   bigint;
    stamps  bigint[];
    last    integer;
    expired integer;
    total   bigint;
    totals  bigint[];
    live    integer;
    opens   bigint;
    room    integer;
    reset   bigint;
  BEGIN
    FOR i IN 1..cardinality(windows) LOOP
      LOOP
        SELECT * INTO kept FROM SCHEMA.rate_windows WHERE key_id = windows[i] FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO SCHEMA.rate_windows (key_id) VALUES (windows[i]) ON CONFLICT DO NOTHING;
      END LOOP;
      rows[i] := kept;
    END LOOP;
    now_ms := extract(epoch FROM clock_timestamp()) * 1000;
    taken := true;
    FOR i IN 1..cardinality(windows) LOOP
      kept := rows[i];
      step := CASE WHEN i > 1 THEN 600 WHEN slots[i] > 1000 THEN 60 ELSE 1 END;
      stamp := (now_ms + step - 1) / step * step;
      last := cardinality(kept.times);
      IF kept.times[last] > stamp THEN
        kept.times := ARRAY(SELECT least(t, stamp) FROM unnest(kept.times) AS t ORDER BY 1);
      END IF;
      total := coalesce(kept.counts[last], kept.forgotten);
      expired := CASE WHEN last = 0 THEN 0 ELSE width_bucket(now_ms - 60000, kept.times) END;
      IF expired > 0 THEN
        kept.forgotten := kept.counts[expired];
        kept.times := kept.times[expired + 1:];
        kept.counts := kept.counts[expired + 1:];
      END IF;
      rows[i] := kept;
      stamps[i] := stamp;
      totals[i] := total;
      taken := taken AND total - kept.forgotten < slots[i];
    END LOOP;
    FOR i IN 1..cardinality(windows) LOOP
      kept := rows[i];
      total := totals[i];
      IF taken THEN
        total := total + 1;
        last := cardinality(kept.times);
        IF kept.times[last] = stamps[i] THEN
          kept.counts[last] := total;
        ELSE
          kept.times := kept.times || stamps[i];
          kept.counts := kept.counts || total;
        END IF;
        UPDATE SCHEMA.rate_windows SET times = kept.times, counts = kept.counts, forgotten = kept.forgotten WHERE key_id = windows[i];
      END IF;
      live := total - kept.forgotten;
      room := greatest(slots[i] - live, 0);
      -- With a lower limit than before, a slot opens only when enough of the old ones have expired.
      opens := greatest(kept.forgotten, total - slots[i]);
      reset := CASE WHEN live = 0 THEN 0 ELSE kept.times[width_bucket(opens, kept.counts) + 1] + 60000 - now_ms END;
      IF tightest IS NULL OR room < remaining OR room = remaining AND reset > reset_ms THEN
        remaining := room;
        reset_ms := reset;
        tightest := i;
      END IF;
    END LOOP;
  END $$`
]
