CREATE TABLE IF NOT EXISTS repository_aliases ( name text NOT NULL, host text NOT NULL, path text NOT NULL, set_at timestamptz(3) NOT NULL );
CREATE UNIQUE INDEX IF NOT EXISTS repository_aliases_name ON repository_aliases (lower(name));
CREATE UNIQUE INDEX IF NOT EXISTS repository_aliases_path ON repository_aliases (lower(host), lower(path));
CREATE TABLE IF NOT EXISTS source_host_connections ( host text PRIMARY KEY, sealed text NOT NULL CHECK (sealed LIKE 'sealed:%') );
INSERT INTO effect_sql_migrations (migration_id, name) VALUES (65, 'several_hosts');
INSERT INTO repository_aliases (name, host, path, set_at) VALUES ('shop/web', 'forge', 'acme/web', '2026-01-01T00:00:00Z');
