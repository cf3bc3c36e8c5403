/** Secrets of the service, of source hosts and of repositories. Those of a grant are deleted when it is revoked. */
export const secrets: ReadonlyArray<string> = [
  // Shared by all processes of one service, made on first use.
  `CREATE TABLE IF NOT EXISTS secrets (
    name  text PRIMARY KEY,
    value text NOT NULL
  )`,
  `CREATE TABLE IF NOT EXISTS repository_secrets (
    grant_id   uuid           NOT NULL REFERENCES grants ON DELETE CASCADE,
    repo       text           NOT NULL,
    name       text           NOT NULL CHECK (name ~ '^[A-Z_][A-Z0-9_]{0,63}$'),
    -- Encrypted for this grant, repository and name alone.
    sealed     text           NOT NULL CHECK (sealed LIKE 'sealed:%'),
    -- Length of the value in UTF-8, before it was encrypted.
    bytes      integer        NOT NULL CHECK (bytes BETWEEN 1 AND 65536),
    created_at timestamptz(3) NOT NULL,
    set_at     timestamptz(3) NOT NULL
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS repository_secrets_key ON repository_secrets (grant_id, lower(repo), name)",
  // Refs that owners listed: setups of commits on them get the repository's secrets.
  `CREATE TABLE IF NOT EXISTS trusted_refs (
    grant_id  uuid           NOT NULL REFERENCES grants ON DELETE CASCADE,
    repo      text           NOT NULL,
    ref       text           NOT NULL,
    listed_at timestamptz(3) NOT NULL
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS trusted_refs_key ON trusted_refs (grant_id, lower(repo), ref)",
  // The service's tokens at source hosts, encrypted for the host alone. Names are in lower case.
  `CREATE TABLE IF NOT EXISTS source_host_connections (
    host   text PRIMARY KEY,
    sealed text NOT NULL CHECK (sealed LIKE 'sealed:%')
  )`
]
