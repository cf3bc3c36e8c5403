import * as PgConnection from "@effect/sql-pg/PgConnection"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Schedule, Scope } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { appendFile, chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, utimes, writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { EmbeddedPostgres } from "../src/EmbeddedPostgres.ts"
import * as PostgresBinaries from "../src/PostgresBinaries.ts"
import * as ServerAccount from "../src/ServerAccount.ts"
import { inspect, run } from "../src/SystemProcess.ts"

const isRoot = process.getuid?.() === 0

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-embedded-"))),
  // The server of a killed owner may still be writing its last files.
  (made) => Effect.promise(() => rm(made, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }))
)

let made: string
beforeAll(async () => {
  made = await mkdtemp(path.join(os.tmpdir(), "slipway-embedded-"))
  await Effect.runPromise(Effect.provide(Effect.void, EmbeddedPostgres.layer({ dataDir: made })))
})
afterAll(() => rm(made, { recursive: true, force: true }))

/** A data folder of an earlier run, for tests in which making one is not the point: it takes a second. */
const usedFolder = Effect.tap(folder, (copy) => Effect.sync(() => execFileSync("cp", ["-a", `${made}/.`, copy])))

/** The layer's server, until the returned effect stops it or the test ends. */
const running = (layer: typeof EmbeddedPostgres.layer, dataDir: string) =>
  Effect.gen(function*() {
    const scope = yield* Scope.fork(yield* Effect.scope)
    const context = yield* Layer.buildWithScope(layer({ dataDir }), scope)
    const { connection } = yield* Effect.provide(EmbeddedPostgres, context)
    return { connection, stop: Scope.close(scope, Exit.void) }
  })
const serve = (dataDir: string) => running(EmbeddedPostgres.layer, dataDir)
const command = (dataDir: string) => running(EmbeddedPostgres.layerConnectOrStart, dataDir)

const query = (connection: PgConnection.Config, sql: string) =>
  Effect.scoped(Effect.flatMap(PgConnection.make(connection), (session) => session.query(sql))).pipe(
    Effect.map(({ rows }) => rows)
  )

/** Waits for something that is to become true, at most `seconds`. */
const eventually = <E>(condition: Effect.Effect<boolean, E>, seconds = 10) =>
  condition.pipe(
    Effect.orElseSucceed(() => false),
    Effect.repeat({ schedule: Schedule.spaced("10 millis"), until: (holds) => holds }),
    Effect.timeout(`${seconds} seconds`)
  )

const pidFile = (dataDir: string) => path.join(dataDir, "postgres/cluster/postmaster.pid")
const postmaster = (dataDir: string) =>
  Effect.map(Effect.promise(() => readFile(pidFile(dataDir), "utf8")), (text) => Number(text.split("\n")[0]))
const gone = (pid: number) => Effect.map(inspect(pid), (process) => process === null || process.command === "")

/** Another process that owns the server and commits rows, once it has said `lines` lines. */
const ownerProcess = (dataDir: string, lines: number) =>
  Effect.gen(function*() {
    const said: Array<string> = []
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [fileURLToPath(new URL("OwnerProcess.ts", import.meta.url)), dataDir], {
          stdio: ["ignore", "pipe", "inherit"]
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    let rest = ""
    child.stdout.on("data", (bytes) => {
      const parts = `${rest}${bytes}`.split("\n")
      rest = parts.pop() ?? ""
      said.push(...parts)
    })
    const kill = Effect.promise(async () => {
      child.kill("SIGKILL")
      await once(child, "close")
    })
    yield* eventually(Effect.sync(() => said.length >= lines), 30)
    return { pid: child.pid ?? 0, said, kill }
  })

/** The rights of the role that would lead out of its database, and its objects. */
const rightsOf = (connection: PgConnection.Config) =>
  Effect.all({
    role: query(connection, "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles WHERE rolname = current_user"),
    roles: query(connection, "SELECT count(*)::int AS roles FROM pg_auth_members WHERE member = current_user::regrole"),
    file: Effect.exit(query(connection, "SELECT pg_read_file('PG_VERSION')")),
    program: Effect.exit(query(connection, "COPY (SELECT 1) TO PROGRAM 'true'")),
    superuser: Effect.exit(query({ ...connection, username: "slipway" }, "SELECT 1")),
    otherDatabase: Effect.exit(query({ ...connection, database: "postgres" }, "SELECT 1"))
  })
const confined = ({ file, otherDatabase, program, role, roles, superuser }: Effect.Success<ReturnType<typeof rightsOf>>) => {
  assert.deepStrictEqual(role, [{ rolsuper: false, rolcreaterole: false, rolcreatedb: false, rolreplication: false }])
  assert.deepStrictEqual(roles, [{ roles: 0 }])
  for (const exit of [file, program, superuser, otherDatabase]) assert.isTrue(Exit.isFailure(exit))
}

describe("the service's role", () => {
  it.live("owns its schema and can do nothing else; the superuser cannot log in", () =>
    Effect.gen(function*() {
      const { connection } = yield* serve(yield* usedFolder)
      confined(yield* rightsOf(connection))
      yield* query(connection, "CREATE TABLE mine (id serial PRIMARY KEY)")
    }))

  it.live("takes over the tables of a cluster in which the service was the superuser", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      const first = yield* serve(dataDir)
      yield* query(first.connection, "CREATE TABLE kept (id serial PRIMARY KEY, at int GENERATED ALWAYS AS IDENTITY)")
      yield* query(first.connection, "INSERT INTO kept DEFAULT VALUES")
      yield* query(first.connection, "CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'")
      yield* first.stop
      // As an earlier version left it: everything is the superuser's, whom everybody may be.
      const cluster = path.join(dataDir, "postgres/cluster")
      const { gid, uid } = yield* Effect.promise(() => stat(cluster))
      const { postgres } = yield* PostgresBinaries.prepare({
        native: yield* PostgresBinaries.locate,
        account: { uid, gid },
        copies: "/var/cache/slipway"
      })
      const before = "ALTER DATABASE slipway OWNER TO slipway\nALTER SCHEMA public OWNER TO slipway\n" +
        "REASSIGN OWNED BY slipway_service TO slipway\nDROP ROLE slipway_service\n"
      const { complaint } = yield* run(postgres, ["--single", "-D", cluster, "slipway"], {
        account: isRoot ? { uid, gid } : null,
        cwd: cluster,
        input: before
      })
      assert.notMatch(complaint, /ERROR|FATAL/u)
      yield* Effect.promise(() => writeFile(path.join(cluster, "pg_hba.conf"), "local all all trust\n"))

      const { connection } = yield* serve(dataDir)
      confined(yield* rightsOf(connection))
      yield* query(connection, "ALTER TABLE kept ADD COLUMN more int")
      yield* query(connection, "INSERT INTO kept DEFAULT VALUES")
      yield* query(connection, "CREATE OR REPLACE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 11'")
      assert.deepStrictEqual(yield* query(connection, "SELECT id, at, one() FROM kept ORDER BY id"), [{ id: 1, at: 1, one: 11 }, {
        id: 2,
        at: 2,
        one: 11
      }])
    }))
})

describe("a server of the data folder", () => {
  it.live("keeps what was committed, durable and in UTF-8, reachable by its socket alone", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const first = yield* serve(dataDir)
      yield* query(first.connection, "CREATE TABLE boats AS SELECT 'Fjällbåt' AS name")
      yield* first.stop

      const second = yield* serve(dataDir)
      assert.deepStrictEqual(yield* query(second.connection, "SELECT name FROM boats"), [{ name: "Fjällbåt" }])
      assert.deepStrictEqual(
        yield* query(
          second.connection,
          `SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit,
            current_setting('full_page_writes') AS full_page_writes, current_setting('listen_addresses') AS addresses,
            datlocprovider::text || datlocale AS locale, pg_encoding_to_char(encoding) AS encoding
          FROM pg_database WHERE datname = current_database()`
        ),
        [{
          fsync: "on",
          synchronous_commit: "on",
          full_page_writes: "on",
          addresses: "",
          locale: "bC.UTF-8",
          encoding: "UTF8"
        }]
      )
      const { mode } = yield* Effect.promise(() => stat(path.dirname(second.connection.path)))
      assert.strictEqual(mode & 0o777, 0o700)
    }))

  it.live("goes when its owner is killed, and nothing acknowledged is lost", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      const owner = yield* ownerProcess(dataDir, 200)
      const server = yield* postmaster(dataDir)
      yield* owner.kill
      yield* eventually(gone(server), 5)

      const { connection } = yield* serve(dataDir)
      const rows = yield* query(connection, "SELECT n FROM rows ORDER BY n")
      assert.deepStrictEqual(rows.slice(0, owner.said.length).map(({ n }) => String(n)), owner.said)
    }))

  it.live("is refused to a second owner also while the first is still writing its lock file", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      yield* ownerProcess(dataDir, 1)
      const lock = pidFile(dataDir)
      const written = yield* Effect.promise(() => readFile(lock, "utf8"))
      yield* Effect.promise(() => writeFile(lock, ""))
      const second = yield* Effect.forkChild(Effect.flip(serve(dataDir)))
      const log = path.join(dataDir, "postgres/postgres.log")
      yield* eventually(Effect.promise(async () => (await readFile(log, "utf8")).includes("is empty")))
      yield* Effect.promise(() => writeFile(lock, written))
      assert.strictEqual((yield* Fiber.join(second)).reason, "InUse")
    }))

  it.live("is refused to a second owner, who is told of the first", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      const owner = yield* ownerProcess(dataDir, 1)
      const error = yield* Effect.flip(serve(dataDir))
      assert.strictEqual(error.reason, "InUse")
      assert.include(error.message, `is in use by process ${owner.pid}.`)
    }))

  it.live("has one owner when many processes start at once", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const owners = yield* Effect.all(Array.from({ length: 4 }, () => ownerProcess(dataDir, 1)), {
        concurrency: "unbounded"
      })
      const refused = owners.filter(({ said }) => said[0]?.includes("is in use by process"))
      assert.strictEqual(refused.length, 3)
    }))

  it.live("left over from an earlier run is stopped first", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      const owner = yield* ownerProcess(dataDir, 1)
      const server = yield* postmaster(dataDir)
      const watchdog = (yield* inspect(server))?.parent ?? 0
      const children = yield* Effect.promise(() => readFile(`/proc/${watchdog}/task/${watchdog}/children`, "utf8"))
      // Without its listener the watchdog does not notice that we are gone.
      const [listener] = children.trim().split(" ").map(Number).filter((pid) => pid !== server)
      process.kill(listener ?? 0, "SIGKILL")
      yield* owner.kill
      assert.isFalse(yield* gone(server))

      const { connection } = yield* serve(dataDir)
      assert.isTrue(yield* gone(server))
      const [{ count } = { count: 0 }] = yield* query(connection, "SELECT count(*)::int AS count FROM rows")
      assert.isAtLeast(Number(count), owner.said.length)
    }))

  it.live("starts although, after a crash, its process id belongs to another program", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      const first = yield* serve(dataDir)
      const record = yield* Effect.promise(() => readFile(pidFile(dataDir), "utf8"))
      yield* first.stop
      const { gid, uid } = yield* Effect.promise(() => stat(path.join(dataDir, "postgres/cluster")))
      const sleeper = yield* Effect.acquireRelease(
        Effect.sync(() => spawn("sleep", ["60"], isRoot ? { uid, gid } : {})),
        (child) => Effect.sync(() => child.kill())
      )
      yield* Effect.promise(() => writeFile(pidFile(dataDir), record.replace(/^\d+/u, String(sleeper.pid))))
      const second = yield* serve(dataDir)
      assert.lengthOf(yield* query(second.connection, "SELECT 1"), 1)
      assert.isNull(sleeper.exitCode)
    }))

  it.live(
    "leaves nothing behind of a killed initialization once another start was through; a running one is left alone",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const home = path.join(data, "postgres")
        const making = Effect.map(
          Effect.promise(() => readdir(home).catch(() => [])),
          (names) => names.filter((name) => name.startsWith("initdb-"))
        )
        const owner = yield* ownerProcess(data, 0)
        yield* eventually(Effect.map(making, (names) => names.length > 0), 60)
        yield* owner.kill
        assert.lengthOf(yield* making, 1)
        // Leftovers of a live process, and of an earlier version, which named no process, long ago.
        const others = [`initdb-${process.ppid}-abcdef`, "initdb-abcdef"].map((name) => path.join(home, name))
        for (const other of others) yield* Effect.promise(() => mkdir(other))
        yield* Effect.promise(() => utimes(others[1] ?? "", 0, 0))
        const { connection, stop } = yield* serve(data)
        assert.lengthOf(yield* query(connection, "SELECT 1"), 1)
        yield* stop
        assert.deepStrictEqual(yield* making, [path.basename(others[0] ?? "")])
      }).pipe(Effect.scoped)
  )

  it.live("is started again when it ends by itself", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      const { connection } = yield* serve(dataDir)
      yield* query(connection, "CREATE TABLE boats AS SELECT 'Fram' AS name")
      const server = yield* postmaster(dataDir)
      process.kill(server, "SIGKILL")
      yield* eventually(gone(server))
      yield* eventually(Effect.map(query(connection, "SELECT name FROM boats"), (rows) => rows[0]?.["name"] === "Fram"))
    }))

  it.live("has its socket in a short private folder when the data folder is deep", () =>
    Effect.gen(function*() {
      const dataDir = path.join(yield* folder, "deep".repeat(30))
      const { connection, stop } = yield* serve(dataDir)
      assert.lengthOf(yield* query(connection, "SELECT 1"), 1)
      assert.isAtMost(Buffer.byteLength(connection.path), 103)
      const { mode } = yield* Effect.promise(() => stat(path.dirname(connection.path)))
      assert.strictEqual(mode & 0o777, 0o700)

      const joined = yield* command(dataDir)
      assert.deepStrictEqual(joined.connection, connection)
      yield* stop
      assert.isTrue(yield* Effect.promise(() => stat(path.dirname(connection.path)).then(() => false, () => true)))
    }))

  it.live("says in one sentence why Postgres does not start", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      const { stop } = yield* serve(dataDir)
      yield* stop
      yield* Effect.promise(() => writeFile(path.join(dataDir, "postgres/cluster/PG_VERSION"), "12\n"))
      const error = yield* Effect.flip(serve(dataDir))
      assert.include(error.message, "was initialized by PostgreSQL version 12")
    }))

  it.live("logs to a file that does not grow for ever", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      const log = path.join(dataDir, "postgres/postgres.log")
      const first = yield* serve(dataDir)
      yield* first.stop
      assert.include(yield* Effect.promise(() => readFile(log, "utf8")), "ready to accept connections")
      yield* Effect.promise(() => truncate(log, 11 * 1024 * 1024).then(() => appendFile(log, "end")))
      const second = yield* serve(dataDir)
      yield* second.stop
      assert.isBelow((yield* Effect.promise(() => stat(log))).size, 1024 * 1024)
    }))
})

describe("a command", () => {
  it.live("uses the server of a running service and leaves it running", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      yield* ownerProcess(dataDir, 1)
      const server = yield* postmaster(dataDir)
      const { connection, stop } = yield* command(dataDir)
      assert.isAtLeast((yield* query(connection, "SELECT n FROM rows")).length, 1)
      yield* stop
      assert.isFalse(yield* gone(server))
    }))

  it.live("runs a server of its own when there is none, and stops it", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const { connection, stop } = yield* command(dataDir)
      assert.lengthOf(yield* query(connection, "SELECT 1"), 1)
      const server = yield* postmaster(dataDir)
      yield* stop
      assert.isTrue(yield* gone(server))
    }))

  it.live("is not cut off when another that started the server ends first", () =>
    Effect.gen(function*() {
      const dataDir = yield* usedFolder
      const first = yield* command(dataDir)
      const second = yield* command(dataDir)
      yield* Effect.scoped(Effect.gen(function*() {
        const session = yield* PgConnection.make(second.connection)
        const stopping = yield* Effect.forkChild(first.stop)
        const { rows } = yield* session.query("SELECT 1 FROM pg_sleep(0.5)")
        assert.lengthOf(rows, 1)
        return stopping
      }))
    }))

  it.live("works beside others that start at the same moment", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const one = Effect.scoped(Effect.flatMap(command(dataDir), ({ connection }) => query(connection, "SELECT 1")))
      const answers = yield* Effect.all(Array.from({ length: 5 }, () => one), { concurrency: "unbounded" })
      assert.lengthOf(answers.flat(), 5)
    }))
})

describe.runIf(isRoot)("for root", () => {
  it.live("the server runs as another account, beneath folders that stay closed to it", () =>
    Effect.gen(function*() {
      const home = yield* folder
      yield* Effect.promise(() => chmod(home, 0o700))
      const dataDir = path.join(home, "project/.slipway")
      yield* Effect.promise(() => mkdir(dataDir, { recursive: true }))
      const { connection } = yield* serve(dataDir)
      assert.lengthOf(yield* query(connection, "SELECT 1"), 1)

      const server = yield* postmaster(dataDir)
      const status = yield* Effect.promise(() => readFile(`/proc/${server}/status`, "utf8"))
      assert.match(status, /^Uid:\t[1-9]/mu)
      assert.match(status, /^Groups:\s*$/mu)
      assert.strictEqual((yield* Effect.promise(() => stat(home))).mode & 0o777, 0o700)
    }))

  it.live("there is no server without an account to run it as", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const error = yield* Effect.flip(serve(dataDir)).pipe(
        Effect.provideService(ServerAccount.Accounts, {
          lookup: () => Effect.succeed(null),
          create: () => Effect.void
        })
      )
      assert.strictEqual(error.reason, "NoAccount")
      assert.include(error.hint, "the option databaseUrl")
    }))
})
