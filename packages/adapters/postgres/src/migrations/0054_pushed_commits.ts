import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Every head that sandboxes pushed: a sandbox's row has the newest one alone. A trigger keeps it, so that what processes of the version
 * before publish is remembered too. `merged`: a person merged the pull request since.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE pushed_commits (
      repo       text    NOT NULL,
      sha        text    NOT NULL,
      sandbox_id text    NOT NULL,
      merged     boolean NOT NULL DEFAULT false,
      PRIMARY KEY (sha, repo, sandbox_id)
    )`
  yield* sql`CREATE INDEX pushed_commits_sandbox ON pushed_commits (sandbox_id, repo)`
  yield* sql`COMMENT ON COLUMN pushed_commits.repo IS 'In lower case.'`

  yield* sql`
    CREATE FUNCTION remember_pushed(of_sandbox text, of_publications jsonb) RETURNS void LANGUAGE sql AS $$
      INSERT INTO pushed_commits (repo, sha, sandbox_id)
      SELECT lower(p->>'repo'), p->>'headSha', of_sandbox FROM jsonb_array_elements(of_publications) p
      WHERE p->>'headSha' IS NOT NULL
      ON CONFLICT DO NOTHING;
      UPDATE pushed_commits SET merged = true
      FROM jsonb_array_elements(of_publications) p
      WHERE sandbox_id = of_sandbox AND pushed_commits.repo = lower(p->>'repo') AND p @> '{"merged": true}' AND NOT pushed_commits.merged
    $$`
  yield* sql`
    CREATE FUNCTION remember_pushed_of_row() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM remember_pushed(NEW.id, NEW.publications);
      RETURN NULL;
    END $$`
  yield* sql`
    CREATE TRIGGER sandboxes_pushed AFTER UPDATE OF publications ON sandboxes FOR EACH ROW
    WHEN (NEW.publications IS DISTINCT FROM OLD.publications) EXECUTE FUNCTION remember_pushed_of_row()`
  yield* sql`SELECT remember_pushed(id, publications) FROM sandboxes WHERE publications <> '[]'::jsonb`
})
