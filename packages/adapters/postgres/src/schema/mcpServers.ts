/** MCP servers of repositories (docs/decisions/23). Those of a grant are deleted when it is revoked. */
export const mcpServers: ReadonlyArray<string> = [
  `CREATE TABLE IF NOT EXISTS mcp_servers (
    grant_id   uuid           NOT NULL REFERENCES grants ON DELETE CASCADE,
    repo       text           NOT NULL,
    name       text           NOT NULL CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'),
    -- In the domain's own encoding, without the credential.
    settings   jsonb          NOT NULL,
    -- The credential, encrypted for this grant, repository and name alone. Null: none.
    sealed     text           CHECK (sealed LIKE 'sealed:%'),
    created_at timestamptz(3) NOT NULL,
    set_at     timestamptz(3) NOT NULL,
    -- The tokens of a connection by OAuth, encrypted. Null: an owner has not connected the server.
    connection text           CHECK (connection LIKE 'sealed:%'),
    -- Grows with each change of the connection. A connection begins with the milliseconds of its time, so that no version is used twice.
    connection_version bigint NOT NULL DEFAULT 0,
    connected_at timestamptz(3),
    -- Why an owner has to connect it again, for people.
    connection_problem text,
    -- Until then one process alone renews the tokens.
    renewing_until timestamptz(3),
    -- A connection that an owner has begun: encrypted, the digest of what the browser comes back with, and its end.
    begun       text          CHECK (begun LIKE 'sealed:%'),
    begun_state text,
    begun_until timestamptz(3),
    CHECK ((connection IS NULL) = (connected_at IS NULL)),
    CHECK (connection IS NOT NULL OR (connection_problem IS NULL AND renewing_until IS NULL)),
    CHECK ((begun IS NULL) = (begun_state IS NULL) AND (begun IS NULL) = (begun_until IS NULL))
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS mcp_servers_key ON mcp_servers (grant_id, lower(repo), name)"
]
