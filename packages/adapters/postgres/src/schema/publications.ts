/** The commits that sandboxes pushed, the settings of repositories for pull requests, and their aliases. */
export const publications: ReadonlyArray<string> = [
  // Every head that a sandbox pushed: the sandbox's row has only the newest one. "merged": a person merged the pull request since.
  `CREATE TABLE IF NOT EXISTS pushed_commits (
    -- Lower case.
    repo       text    NOT NULL,
    sha        text    NOT NULL,
    sandbox_id text    NOT NULL,
    merged     boolean NOT NULL DEFAULT false,
    PRIMARY KEY (sha, repo, sandbox_id)
  )`,
  "CREATE INDEX IF NOT EXISTS pushed_commits_sandbox ON pushed_commits (sandbox_id, repo)",
  `CREATE OR REPLACE FUNCTION remember_pushed(of_sandbox text, of_publications jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO SCHEMA.pushed_commits (repo, sha, sandbox_id)
    SELECT lower(p->>'repo'), p->>'headSha', of_sandbox FROM jsonb_array_elements(of_publications) p
    WHERE p->>'headSha' IS NOT NULL
    ON CONFLICT DO NOTHING;
    UPDATE SCHEMA.pushed_commits c SET merged = true
    FROM jsonb_array_elements(of_publications) p
    WHERE c.sandbox_id = of_sandbox AND c.repo = lower(p->>'repo') AND p @> '{"merged": true}' AND NOT c.merged
  $$`,
  `CREATE OR REPLACE FUNCTION remember_pushed_of_row() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM SCHEMA.remember_pushed(NEW.id, NEW.publications);
    RETURN NULL;
  END $$`,
  `CREATE OR REPLACE TRIGGER sandboxes_pushed AFTER UPDATE OF publications ON sandboxes FOR EACH ROW
  WHEN (NEW.publications IS DISTINCT FROM OLD.publications) EXECUTE FUNCTION remember_pushed_of_row()`,
  `CREATE TABLE IF NOT EXISTS repository_settings (
    grant_id uuid           NOT NULL REFERENCES grants ON DELETE CASCADE,
    repo     text           NOT NULL,
    settings jsonb          NOT NULL,
    set_at   timestamptz(3) NOT NULL
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS repository_settings_key ON repository_settings (grant_id, lower(repo))",
  // Names of the operator for repositories of several source hosts.
  `CREATE TABLE IF NOT EXISTS repository_aliases (
    name   text           NOT NULL,
    host   text           NOT NULL,
    path   text           NOT NULL,
    set_at timestamptz(3) NOT NULL
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS repository_aliases_name ON repository_aliases (lower(name))",
  "CREATE UNIQUE INDEX IF NOT EXISTS repository_aliases_path ON repository_aliases (lower(host), lower(path))"
]
