/** Security events. */
export const auditLog: ReadonlyArray<string> = [
  // An entry is written in the transaction of what it reports.
  `CREATE TABLE IF NOT EXISTS audit_log (
    seq      bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz(3) NOT NULL,
    action   text           NOT NULL,
    subjects jsonb          NOT NULL,
    actor    jsonb          NOT NULL,
    -- The request that the entry came from. Null: no request.
    origin   jsonb
  )`,
  // Whatever bug we have, no entry is changed.
  `CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    RAISE EXCEPTION '% is append only', TG_TABLE_NAME;
  END $$`,
  `CREATE OR REPLACE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()`
]
