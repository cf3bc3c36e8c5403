/** One SQLite file, its tables and its transactions. For one process: another process gets an error. */
import { type Answer, attempt, type StatementError } from "@slipway/domain/sandbox/kit/StoreKit"
import { Effect, Exit, type Scope } from "effect"
import { PreventSchedulerYield } from "effect/Scheduler"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"

/** The columns have the names of the fields of the kit's rows, so that a row is its own parameters. */
const TABLES = `
  CREATE TABLE IF NOT EXISTS sandboxes (
    id TEXT PRIMARY KEY,
    grantId TEXT NOT NULL,
    status TEXT NOT NULL,
    createdAt INTEGER NOT NULL,
    endedAt INTEGER,
    repos TEXT NOT NULL,
    continues TEXT,
    deadlineAt INTEGER,
    limits TEXT NOT NULL,
    work TEXT,
    workSince INTEGER CHECK ((work IS NULL) = (workSince IS NULL)),
    unsaved INTEGER NOT NULL,
    approvals INTEGER NOT NULL,
    lastSeq INTEGER NOT NULL,
    purgedSeq INTEGER NOT NULL,
    deletedAt INTEGER,
    state TEXT NOT NULL,
    waitingTexts TEXT NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS sandboxes_of_grants ON sandboxes (grantId, createdAt, id);
  CREATE INDEX IF NOT EXISTS sandboxes_continuing ON sandboxes (continues) WHERE continues IS NOT NULL;
  CREATE INDEX IF NOT EXISTS sandboxes_with_work ON sandboxes (workSince) WHERE work IS NOT NULL;
  CREATE INDEX IF NOT EXISTS sandboxes_by_deadline ON sandboxes (deadlineAt, id) WHERE deadlineAt IS NOT NULL;
  CREATE INDEX IF NOT EXISTS sandboxes_by_limits ON sandboxes (limits) WHERE endedAt IS NULL;
  CREATE INDEX IF NOT EXISTS sandboxes_to_purge ON sandboxes (endedAt) WHERE purgedSeq < lastSeq;

  CREATE TABLE IF NOT EXISTS leases (
    id TEXT PRIMARY KEY REFERENCES sandboxes,
    fence INTEGER NOT NULL,
    machine TEXT,
    until INTEGER CHECK ((machine IS NULL) = (until IS NULL)),
    drained INTEGER NOT NULL,
    movedFrom TEXT,
    moved TEXT,
    agentSession TEXT
  ) STRICT;
  CREATE INDEX IF NOT EXISTS leases_of_machines ON leases (machine);

  CREATE TABLE IF NOT EXISTS events (
    sandboxId TEXT NOT NULL REFERENCES sandboxes,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    part TEXT,
    wire TEXT NOT NULL,
    PRIMARY KEY (sandboxId, seq)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS events_of_checkpoints ON events (sandboxId, seq)
    WHERE type IN ('sandbox.checkpoint', 'sandbox.restored');
  CREATE INDEX IF NOT EXISTS events_of_parts ON events (sandboxId, part, seq) WHERE part IS NOT NULL;

  CREATE TABLE IF NOT EXISTS messages (
    sandboxId TEXT NOT NULL REFERENCES sandboxes,
    seq INTEGER NOT NULL,
    id TEXT NOT NULL,
    turnId TEXT NOT NULL,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    createdAt INTEGER NOT NULL,
    PRIMARY KEY (sandboxId, seq)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS messages_by_id ON messages (sandboxId, id);

  CREATE TABLE IF NOT EXISTS approvals (
    sandboxId TEXT NOT NULL REFERENCES sandboxes,
    approvalId TEXT NOT NULL,
    approval TEXT NOT NULL,
    PRIMARY KEY (sandboxId, approvalId)
  ) STRICT;

  CREATE TABLE IF NOT EXISTS questions (
    sandboxId TEXT NOT NULL REFERENCES sandboxes,
    questionId TEXT NOT NULL,
    question TEXT NOT NULL,
    PRIMARY KEY (sandboxId, questionId)
  ) STRICT;

  CREATE TABLE IF NOT EXISTS receipts (
    commandId TEXT PRIMARY KEY,
    sandboxId TEXT NOT NULL REFERENCES sandboxes,
    outcome TEXT NOT NULL,
    revision INTEGER NOT NULL,
    turnId TEXT
  ) STRICT;
  CREATE INDEX IF NOT EXISTS receipts_of_turns ON receipts (turnId) WHERE turnId IS NOT NULL;

  CREATE TABLE IF NOT EXISTS keys (
    grantId TEXT NOT NULL,
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    sandboxId TEXT NOT NULL REFERENCES sandboxes,
    commandId TEXT REFERENCES receipts,
    boundAt INTEGER NOT NULL,
    PRIMARY KEY (grantId, route, key)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS keys_by_age ON keys (boundAt);

  CREATE TABLE IF NOT EXISTS traces (
    sandboxId TEXT NOT NULL REFERENCES sandboxes,
    turnId TEXT NOT NULL,
    traceparent TEXT NOT NULL,
    PRIMARY KEY (sandboxId, turnId)
  ) STRICT;

  CREATE TABLE IF NOT EXISTS contents (
    sandboxId TEXT NOT NULL REFERENCES sandboxes,
    put INTEGER NOT NULL,
    checkpoint INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    bytes INTEGER,
    recordedAt INTEGER,
    details TEXT,
    forks INTEGER NOT NULL,
    PRIMARY KEY (sandboxId, put)
  ) STRICT;

  CREATE TABLE IF NOT EXISTS pieces (
    sandboxId TEXT NOT NULL,
    put INTEGER NOT NULL,
    n INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (sandboxId, put, n),
    FOREIGN KEY (sandboxId, put) REFERENCES contents
  ) STRICT;

  CREATE TABLE IF NOT EXISTS prunes (sandboxId TEXT PRIMARY KEY REFERENCES sandboxes, dueAt INTEGER) STRICT;
  CREATE INDEX IF NOT EXISTS prunes_due ON prunes (dueAt) WHERE dueAt IS NOT NULL;

  CREATE TABLE IF NOT EXISTS setups (sandboxId TEXT PRIMARY KEY REFERENCES sandboxes, record TEXT NOT NULL) STRICT;

  CREATE TABLE IF NOT EXISTS pushes (
    sandboxId TEXT NOT NULL REFERENCES sandboxes,
    repo TEXT NOT NULL,
    sha TEXT NOT NULL,
    merged INTEGER NOT NULL,
    PRIMARY KEY (sandboxId, repo, sha)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS pushes_of_commits ON pushes (sha);

  CREATE TABLE IF NOT EXISTS audit (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, entry TEXT NOT NULL) STRICT;
`

/** A row, or the parameters of a statement: `:id` takes `id`. */
export type Row = Readonly<Record<string, SQLInputValue>>

/** Statements of one connection, each prepared once. */
export class Database {
  readonly #connection: DatabaseSync
  readonly #prepared = new Map<string, StatementSync>()
  private constructor(connection: DatabaseSync) {
    this.#connection = connection
  }

  /** `connect`: for tests, which have a connection of theirs fail. */
  static open(file: string, connect = (file: string) => new DatabaseSync(file)): Effect.Effect<Database, never, Scope.Scope> {
    return Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => connect(file)),
        (connection) => Effect.sync(() => connection.isOpen && connection.close())
      ),
      (connection) => {
        // A commit is on the disk before it is answered, also when the power fails.
        connection.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        connection.exec(TABLES)
        return new Database(connection)
      }
    )
  }

  #prepare(text: string) {
    const known = this.#prepared.get(text)
    if (known !== undefined) return known
    const statement = this.#connection.prepare(text)
    this.#prepared.set(text, statement)
    return statement
  }

  /** The number of changed rows. */
  run(text: string, parameters: Row = {}): Answer<number> {
    return attempt(() => Number(this.#prepare(text).run(parameters).changes))
  }

  /** `A`: the columns of the statement. */
  all<A>(text: string, parameters: Row): Answer<ReadonlyArray<A>> {
    return attempt(() => this.#prepare(text).all(parameters) as ReadonlyArray<unknown> as ReadonlyArray<A>)
  }

  /** Reads a row when it is taken. The statement is its own: two of one text may be read at once. */
  iterate<A>(text: string, parameters: Row = {}): Answer<Iterable<A>> {
    return attempt(() => this.#connection.prepare(text).iterate(parameters) as Iterable<unknown> as Iterable<A>)
  }

  /** One statement for each row, whose fields are columns. */
  save(table: string, rows: ReadonlyArray<object>): Answer<void> {
    return attempt(() => {
      for (const row of rows) {
        const columns = Object.keys(row)
        const text = `INSERT INTO ${table} (${columns}) VALUES (${columns.map((column) => `:${column}`)})
          ON CONFLICT DO UPDATE SET ${columns.map((column) => `${column} = excluded.${column}`)}`
        this.#prepare(text).run(row as Row)
      }
    })
  }

  /** No other fiber runs between the first statement and the last: they share the connection. */
  transaction<A, E, R>(body: Effect.Effect<A, E, R>): Effect.Effect<A, E | StatementError, R> {
    return Effect.gen({ self: this }, function*() {
      yield* this.run("BEGIN IMMEDIATE")
      const exit = yield* Effect.exit(body)
      if (Exit.isSuccess(exit)) yield* Effect.onError(this.run("COMMIT"), () => this.#rollback)
      else yield* this.#rollback
      return yield* exit
    }).pipe(Effect.uninterruptible, Effect.provideService(PreventSchedulerYield, true))
  }

  /** A full disk, or a connection that was closed, may have ended the transaction. */
  get #rollback() {
    return Effect.sync(() => this.#connection.isOpen && this.#connection.isTransaction && this.#connection.exec("ROLLBACK"))
  }
}
