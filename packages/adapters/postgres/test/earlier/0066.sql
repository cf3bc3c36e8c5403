CREATE TABLE IF NOT EXISTS artifact_lists ( sandbox_id text PRIMARY KEY, artifacts jsonb NOT NULL CHECK (jsonb_array_length(artifacts) <= 50), left_out text );
CREATE TABLE IF NOT EXISTS artifact_pieces ( holder text PRIMARY KEY, sandbox_id text NOT NULL, grant_id text NOT NULL, sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'), size bigint NOT NULL CHECK (size >= 0), at timestamptz(3) NOT NULL, stored boolean NOT NULL DEFAULT false, used boolean NOT NULL DEFAULT false, UNIQUE (sandbox_id, sha256) );
CREATE INDEX IF NOT EXISTS artifact_pieces_unused ON artifact_pieces (at) WHERE NOT used;
INSERT INTO effect_sql_migrations (migration_id, name) VALUES (66, 'artifacts');
INSERT INTO artifact_lists (sandbox_id, artifacts, left_out) VALUES ('c_aaaaaaaaaaaa', '[]', NULL);
INSERT INTO artifact_pieces (holder, sandbox_id, grant_id, sha256, size, at, stored, used) VALUES ('c_aaaaaaaaaaaa 1', 'c_aaaaaaaaaaaa', '00000000-0000-0000-0000-000000000001', repeat('a', 64), 1, '2026-01-01T00:00:00Z', true, true);
