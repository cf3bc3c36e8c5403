/** One SQLite file, its tables and its transactions. For one process: another process gets an error. */
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Context, Effect, Layer, Result } from "effect"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"

/**
 * Instants are milliseconds since 1970. What is asked for by a column is one; the rest of a sandbox is its JSON, as the domain's
 * schema writes it.
 */
const TABLES = `
  CREATE TABLE IF NOT EXISTS sandboxes (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    grant_id TEXT NOT NULL AS (state ->> '$.grantId') STORED,
    status TEXT NOT NULL AS (state ->> '$.status') STORED,
    created_at INTEGER NOT NULL,
    deadline_at INTEGER,
    -- What it needs a worker for, since when, and whether its machine alone has something of it.
    work TEXT CHECK (work IN ('boot', 'turn', 'errand')),
    work_since INTEGER CHECK ((work IS NULL) = (work_since IS NULL)),
    unsaved INTEGER NOT NULL DEFAULT 0,
    -- The newest lease, over or not.
    fence INTEGER NOT NULL DEFAULT 0,
    machine TEXT,
    lease_until INTEGER CHECK ((machine IS NULL) = (lease_until IS NULL)),
    drained INTEGER NOT NULL DEFAULT 0,
    -- From which machine it was taken, and why, until the new machine has everything.
    moved_from TEXT,
    moved TEXT CHECK (moved IN ('drained', 'lost')),
    agent_session TEXT,
    purged_seq INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE INDEX IF NOT EXISTS sandboxes_of_grants ON sandboxes (grant_id, created_at, id);
  CREATE INDEX IF NOT EXISTS sandboxes_with_work ON sandboxes (work_since) WHERE work IS NOT NULL;
  CREATE INDEX IF NOT EXISTS sandboxes_by_deadline ON sandboxes (deadline_at) WHERE deadline_at IS NOT NULL;
  CREATE INDEX IF NOT EXISTS sandboxes_of_machines ON sandboxes (machine);

  CREATE TABLE IF NOT EXISTS events (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    part TEXT,
    wire TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, seq)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS events_of_checkpoints ON events (sandbox_id, seq)
    WHERE type IN ('sandbox.checkpoint', 'sandbox.restored');
  CREATE INDEX IF NOT EXISTS events_of_parts ON events (sandbox_id, part, seq) WHERE part IS NOT NULL;

  CREATE TABLE IF NOT EXISTS messages (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (sandbox_id, seq)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS messages_by_id ON messages (sandbox_id, id);

  CREATE TABLE IF NOT EXISTS approvals (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes,
    approval_id TEXT NOT NULL,
    outcome TEXT,
    resolved_by TEXT,
    reason TEXT,
    PRIMARY KEY (sandbox_id, approval_id)
  ) STRICT;

  -- The receipts of commands.
  CREATE TABLE IF NOT EXISTS commands (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes,
    outcome TEXT NOT NULL,
    revision INTEGER NOT NULL,
    turn_id TEXT
  ) STRICT;

  CREATE INDEX IF NOT EXISTS commands_of_turns ON commands (turn_id) WHERE turn_id IS NOT NULL;

  -- What idempotency keys are bound to: of creations, of forks of a sandbox, and with a command of the messages to one.
  CREATE TABLE IF NOT EXISTS keys (
    grant_id TEXT NOT NULL,
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes,
    command_id TEXT REFERENCES commands,
    bound_at INTEGER NOT NULL,
    PRIMARY KEY (grant_id, route, key)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS keys_by_age ON keys (bound_at);

  -- Of the creation under the empty text.
  CREATE TABLE IF NOT EXISTS traces (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes,
    turn_id TEXT NOT NULL,
    traceparent TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, turn_id)
  ) STRICT;

  CREATE TABLE IF NOT EXISTS audit_log (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, entry TEXT NOT NULL) STRICT;

  -- Whose sandboxes are to end. The embedding service decides which grants there are.
  CREATE TABLE IF NOT EXISTS revoked_grants (grant_id TEXT PRIMARY KEY) STRICT;
`

type Row = Readonly<Record<string, SQLInputValue>>

/** Statements of one connection, each prepared once. Parameters are named: `:id` takes the `id` of what is given. */
export class Sql {
  readonly #connection: DatabaseSync
  readonly #prepared = new Map<string, StatementSync>()
  constructor(connection: DatabaseSync) {
    this.#connection = connection
  }
  #prepare(text: string) {
    const known = this.#prepared.get(text)
    if (known !== undefined) return known
    const statement = this.#connection.prepare(text)
    this.#prepared.set(text, statement)
    return statement
  }
  /** How many rows it changed. */
  run(text: string, parameters: Row = {}): number {
    return Number(this.#prepare(text).run(parameters).changes)
  }
  get(text: string, parameters: Row = {}): Row | undefined {
    return this.#prepare(text).get(parameters) as Row | undefined
  }
  all(text: string, parameters: Row = {}): ReadonlyArray<Row> {
    return this.#prepare(text).all(parameters) as ReadonlyArray<Row>
  }
  /** Reads a row when it is asked for. Its statement is its own: two of one text may be read at once. */
  iterate(text: string, parameters: Row = {}): Iterable<Row> {
    return this.#connection.prepare(text).iterate(parameters) as Iterable<Row>
  }
}

/** Busy, out of memory, a disk that fails or is full, a file that cannot be opened: https://www.sqlite.org/rescode.html */
const PASSING = [5, 7, 10, 13, 14]

const passes = (error: unknown): boolean => error instanceof Error && "errcode" in error && PASSING.includes(Number(error.errcode) & 0xff)

/** Trouble that passes is told to the caller; anything else is a bug of ours, and dies. */
const answered = <A, E>(body: () => Result.Result<A, E>): Effect.Effect<A, E | StoreUnavailable> =>
  Effect.suspend((): Effect.Effect<A, E | StoreUnavailable> => {
    try {
      return Effect.fromResult(body())
    } catch (error) {
      return passes(error) ? Effect.fail(new StoreUnavailable({ cause: error })) : Effect.die(error)
    }
  })

export class Database extends Context.Service<Database, {
  read<A>(body: (sql: Sql) => A): Effect.Effect<A, StoreUnavailable>
  /**
   * One transaction: all that `body` writes is on the disk when this succeeds, and nothing of it when it fails. Nothing else runs in
   * between, since `body` does not wait.
   */
  write<A, E = never>(body: (sql: Sql) => Result.Result<A, E>): Effect.Effect<A, E | StoreUnavailable>
}>()("@slipway-examples/sqlite-store/Database") {
  /** `open`: for tests, which have a connection of theirs fail. */
  static readonly layer = (file: string, open = (file: string) => new DatabaseSync(file)) =>
    Layer.effect(
      Database,
      Effect.gen(function*() {
        const connection = yield* Effect.acquireRelease(
          Effect.sync(() => open(file)),
          (connection) => Effect.sync(() => connection.isOpen && connection.close())
        )
        // A commit is on the disk before it is answered, also when the power fails.
        connection.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        connection.exec(TABLES)
        const sql = new Sql(connection)
        return Database.of({
          read: (body) => answered(() => Result.succeed(body(sql))),
          write: (body) =>
            answered(() => {
              sql.run("BEGIN IMMEDIATE")
              try {
                const result = body(sql)
                sql.run(Result.isSuccess(result) ? "COMMIT" : "ROLLBACK")
                return result
              } catch (error) {
                if (connection.isOpen && connection.isTransaction) sql.run("ROLLBACK")
                throw error
              }
            })
        })
      })
    )
}
