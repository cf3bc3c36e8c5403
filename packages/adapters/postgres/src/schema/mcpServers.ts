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
    set_at     timestamptz(3) NOT NULL
  )`,
  "CREATE UNIQUE INDEX IF NOT EXISTS mcp_servers_key ON mcp_servers (grant_id, lower(repo), name)"
]
