/**
 * A Postgres server over one data folder: made, started, kept up and stopped.
 *
 * `<dataDir>/postgres` holds `cluster` (the database), `postgres.log` and, when needed, a copy of the binaries.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { codeOf } from "@slipway/domain/files/rules/SystemError"
import { Deferred, Effect, Schedule, Scope } from "effect"
import { createHash } from "node:crypto"
import { constants } from "node:fs"
import { chmod, chown, lstat, mkdir, mkdtemp, open, readdir, readFile, realpath, rename, rm, stat } from "node:fs/promises"
import path from "node:path"
import { EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import * as GuardedServer from "./GuardedServer.ts"
import { OptionNames } from "./options/OptionNames.ts"
import * as PostgresBinaries from "./PostgresBinaries.ts"
import * as ServerAccount from "./ServerAccount.ts"
import * as ServiceRole from "./ServiceRole.ts"
import { inspect, run } from "./SystemProcess.ts"

/** Settings for `PgClient.layer`. */
export interface Connection {
  /** The socket file. Reaching it is all it takes to be let in: the folder it lies in is private. */
  readonly path: string
  readonly username: string
  readonly database: string
}

export interface Options {
  /** The service's data folder. Made if missing. */
  readonly dataDir: string
  /** Name of the account the server of a new data folder runs as; looked at only when this process is root. */
  readonly account?: string | undefined
  /** False for throw-away data of tests: a power failure may destroy it, and everything is faster. */
  readonly durable?: boolean | undefined
  /** Completes when the server's process runs, which is some time before it answers. */
  readonly begun?: Deferred.Deferred<void> | undefined
}

const PORT = 5432
/** Bytes of a socket's path that fit `sockaddr_un` with its final NUL. */
const LONGEST_SOCKET_PATH = process.platform === "linux" ? 107 : 103
/** Begins the name of a folder in which a database is being made; the maker's process id comes next. */
const MAKING = "initdb-"
const LONGEST_LOG_BYTES = 10 * 1024 * 1024

const SETTINGS = {
  max_connections: "100",
  shared_buffers: "64MB",
  // One server, restored from its own files: nothing reads WAL but crash recovery.
  wal_level: "minimal",
  max_wal_senders: "0",
  // Fewer idle processes. Short indexed statements gain nothing from what these would do.
  io_method: "sync",
  max_logical_replication_workers: "0",
  max_parallel_workers_per_gather: "0",
  jit: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  listen_addresses: "",
  unix_socket_permissions: "0700"
}
const DURABLE = { fsync: "on", synchronous_commit: "on", full_page_writes: "on" }
const THROW_AWAY = { fsync: "off", synchronous_commit: "off", full_page_writes: "off", max_connections: "400" }

const failed = (detail: string, hint: string) => new EmbeddedPostgresError({ reason: "Failed", detail, hint })

/** A file operation whose failure the operator has to look into. */
const onDisk = <A>(operation: () => Promise<A>) =>
  Effect.flatMap(OptionNames, (nameOf) =>
    Effect.tryPromise({
      try: operation,
      catch: (cause) =>
        failed(
          `The database's files cannot be used: ${cause instanceof Error ? cause.message : String(cause)}.`,
          `Check the owner, the permissions and the free space of the data folder, or choose another with ${nameOf("dataDir")}.`
        )
    }))

const missing = (error: NodeJS.ErrnoException) => {
  if (error.code === "ENOENT") return null
  throw error
}

interface Place {
  readonly home: string
  readonly cluster: string
  readonly log: string
}

const placeOf = (dataDir: string) =>
  onDisk(async (): Promise<Place> => {
    await mkdir(dataDir, { recursive: true })
    // One name per folder, however it was reached: processes recognise each other's server by it.
    const home = path.join(await realpath(dataDir), "postgres")
    if (await mkdir(home, { recursive: true }) !== undefined) {
      await chmod(home, process.getuid?.() === 0 ? 0o711 : 0o700)
    }
    return { home, cluster: path.join(home, "cluster"), log: path.join(home, "postgres.log") }
  })

const accountFor = Effect.fnUntraced(function*(cluster: string, chosen: string | undefined) {
  if (process.getuid?.() !== 0) return null
  const existing = yield* onDisk(() => stat(cluster).catch(missing))
  // A cluster stays with the account that made it, whatever accounts the machine has gained since.
  return existing === null ? yield* ServerAccount.find(chosen) : { uid: existing.uid, gid: existing.gid }
})

/**
 * How the server itself spells the cluster's folder. For another account than ours, it may lie beneath folders that
 * account cannot pass, such as /root, and that are not ours to open. The folder is its own, and on Linux the working
 * directory it inherits leads straight there.
 */
const asSeenByServer = (cluster: string, account: ServerAccount.Account | null) =>
  account !== null && process.platform === "linux" ? "/proc/self/cwd" : cluster

/** initdb takes seconds: a folder of it that is older was left behind, whatever process has its maker's id now. */
const MAKING_MILLIS = 600_000

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === "EPERM"
  }
}

/** What processes that were killed while they made the database left behind. It costs disk alone: failing to remove it harms nobody. */
const removeLeftovers = (home: string) =>
  Effect.promise(async () => {
    for (const name of await readdir(home).catch(() => [])) {
      if (!name.startsWith(MAKING)) continue
      const folder = path.join(home, name)
      const age = Date.now() - await stat(folder).then(({ mtimeMs }) => mtimeMs, () => Date.now())
      const maker = Number(/^(\d+)-/u.exec(name.slice(MAKING.length))?.[1] ?? 0)
      const isMade = maker === process.pid || maker > 0 && isAlive(maker)
      if (isMade ? age > MAKING_MILLIS : maker > 0 || age > MAKING_MILLIS) {
        await rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(() => {})
      }
    }
  })

/** In one step, so that being killed half-way or racing with another process leaves a whole cluster or none. */
const initialise = (
  place: Place,
  account: ServerAccount.Account | null,
  initdb: string,
  durable: boolean,
  prepare: (cluster: string) => Effect.Effect<void, EmbeddedPostgresError>
) =>
  Effect.acquireUseRelease(
    onDisk(() => mkdtemp(path.join(place.home, `${MAKING}${process.pid}-`))),
    Effect.fnUntraced(function*(folder) {
      if (account !== null) yield* onDisk(() => chown(folder, account.uid, account.gid))
      const { complaint, succeeded } = yield* run(initdb, [
        "-D",
        asSeenByServer(folder, account),
        "-U",
        ServiceRole.SUPERUSER,
        "--auth-local=trust",
        "--auth-host=reject",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        ...(durable ? [] : ["--no-sync"])
      ], { account, cwd: folder })
      if (!succeeded && /could not look up effective user ID/u.test(complaint)) {
        return yield* failed(
          `The database in ${place.home} could not be made: the system does not know the user ${process.getuid?.()}.`,
          "Give it an entry in /etc/passwd, or use a Postgres of your own instead of this one."
        )
      }
      if (!succeeded) {
        return yield* failed(
          `The database in ${place.home} could not be made: ${complaint}`,
          "Check the free space of the data folder and, when running as root, that the server's account can reach it."
        )
      }
      yield* prepare(folder)
      yield* onDisk(async () => {
        await rename(folder, place.cluster).catch((error) => {
          // Another process was first.
          if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error
        })
        // Without this, a power failure could undo the renaming and with it hide every row committed since.
        for (const parent of [place.home, path.dirname(place.home)]) {
          const handle = await open(parent)
          await handle.sync().finally(() => handle.close())
        }
      })
    }),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
  )

interface Postmaster {
  readonly pid: number
  readonly socket: string
  /** Its parent. */
  readonly watchdog: number
  /** The process that started it. Null when that is gone: a leftover, on its way down or stuck. */
  readonly owner: number | null
}

/** The server running over this cluster, if there is one. */
const findPostmaster = Effect.fnUntraced(function*(cluster: string) {
  const file = path.join(cluster, "postmaster.pid")
  const [first, , , , folder] = ((yield* onDisk(() => readFile(file, "utf8").catch(missing))) ?? "").split("\n")
  const pid = Number(first)
  if (!(pid > 1)) return null
  const running = yield* inspect(pid)
  if (running === null) return null
  // The watchdog's command line holds the server's.
  const isServer = !running.command.startsWith("/bin/sh ")
  if (!isServer || !running.command.includes(` slipway.cluster=${cluster} `)) {
    // After a crash the id may belong to some other program. Postgres would take that for a server and never start.
    if (!running.command.includes("postgres")) yield* onDisk(() => rm(file, { force: true }))
    return null
  }
  // The owner is the watchdog's parent for as long as it lives, so a reused process id deceives nobody.
  const named = Number(/ slipway\.owner=(\d+) /u.exec(running.command)?.[1])
  const watchdog = yield* inspect(running.parent)
  const socketFolder = folder === undefined || folder === "" || folder === "/proc/self/cwd" ? cluster : folder
  return {
    pid,
    socket: path.join(socketFolder, `.s.PGSQL.${PORT}`),
    watchdog: running.parent,
    owner: watchdog?.parent === named ? named : null
  } satisfies Postmaster
})

/** The lock file of a server that starts is empty for a moment; that of one which crashed right then stays so. */
const untilLockIsWritten = (cluster: string) =>
  onDisk(() => readFile(path.join(cluster, "postmaster.pid"), "utf8").catch(missing)).pipe(
    Effect.repeat({ schedule: Schedule.spaced("10 millis"), until: (content) => content !== "" }),
    Effect.timeoutOption("5 seconds")
  )

/** Makes sure that no server runs over this cluster, without taking one away from a living process. */
const clear = Effect.fnUntraced(function*(cluster: string) {
  const postmaster = yield* findPostmaster(cluster)
  if (postmaster === null) return
  if (postmaster.owner !== null) {
    return yield* new EmbeddedPostgresError({
      reason: "InUse",
      detail: `The database in ${cluster} is in use by process ${postmaster.owner}.`,
      hint: `Stop that process first, or choose another data folder with ${(yield* OptionNames)("dataDir")}.`
    })
  }
  yield* onDisk(async () => process.kill(postmaster.pid, "SIGINT")).pipe(Effect.ignore)
  yield* findPostmaster(cluster).pipe(
    Effect.repeat({ schedule: Schedule.spaced("10 millis"), until: (left) => left?.pid !== postmaster.pid }),
    Effect.timeoutOrElse({
      duration: "30 seconds",
      orElse: () =>
        failed(
          `A server left over from an earlier run, process ${postmaster.pid}, does not stop.`,
          `Look into ${path.dirname(cluster)}/postgres.log and stop it by hand.`
        )
    })
  )
})

/** A private folder for the socket, short enough for its path. The cluster's own is preferred: it is there already. */
const socketFolderFor = (cluster: string, account: ServerAccount.Account | null) =>
  onDisk(async () => {
    const fits = Buffer.byteLength(path.join(cluster, `.s.PGSQL.${PORT}`)) <= LONGEST_SOCKET_PATH
    if (fits) return { folder: cluster, temporary: false }
    const folder = `/tmp/slipway-${createHash("sha256").update(cluster).digest("hex").slice(0, 16)}`
    await mkdir(folder, { mode: 0o700 }).catch((error) => {
      if (error.code !== "EEXIST") throw error
    })
    // /tmp is open to all: somebody else may have made this folder in order to catch our connections.
    const { gid, mode, uid } = await lstat(folder)
    const mine = [process.getuid?.(), account?.uid].includes(uid)
    if (!mine || (mode & constants.S_IFMT) !== constants.S_IFDIR || (mode & 0o077) !== 0) {
      throw new Error(`${folder} is not a private folder of ours`)
    }
    await chown(folder, account?.uid ?? uid, account?.gid ?? gid)
    return { folder, temporary: true }
  })

const openLog = (file: string, account: ServerAccount.Account | null) =>
  Effect.acquireRelease(
    onDisk(async () => {
      // Root does not follow a link that the folder's owner may have put there.
      const handle = await open(file, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
      if (account !== null) await handle.chown(account.uid, account.gid)
      if ((await handle.stat()).size > LONGEST_LOG_BYTES) await handle.truncate()
      return { handle, start: (await handle.stat()).size }
    }),
    ({ handle }) => Effect.promise(() => handle.close())
  )

/** What Postgres complained of since byte `start` of its log. */
const complaints = (file: string, start: number) =>
  Effect.map(onDisk(() => readFile(file)), (bytes) => {
    const lines = bytes.subarray(start).toString().split("\n").filter((line) => line !== "")
    const grave = lines.filter((line) => /\b(FATAL|PANIC|DETAIL|HINT):/u.test(line))
    return (grave.length > 0 ? grave : lines).slice(-4).join(" ")
  })

const ask = <A>(connection: Connection, question: (session: PgConnection.PgConnection) => Effect.Effect<A, unknown>) =>
  Effect.scoped(Effect.flatMap(PgConnection.make({ ...connection, connectTimeout: "5 seconds" }), question))

/** How the service reaches its database on the server that listens there. */
const through = (socket: string): Connection => ({ path: socket, username: ServiceRole.ROLE, database: ServiceRole.DATABASE })

/** The settings with which the processes of one server are started. */
interface Plan {
  readonly place: Place
  readonly account: ServerAccount.Account | null
  readonly binaries: Effect.Success<ReturnType<typeof PostgresBinaries.prepare>>
  readonly durable: boolean
  readonly patient: boolean
  readonly begun: Deferred.Deferred<void> | undefined
}

/** Makes the service's role and database in a cluster. Does nothing where they are there. */
const prepareRole = Effect.fnUntraced(function*({ account, binaries, durable, place }: Plan, cluster: string) {
  const complaint = yield* ServiceRole.prepare({
    postgres: binaries.postgres,
    own: asSeenByServer(cluster, account),
    cluster,
    account,
    throwAway: !durable
  }).pipe(
    // Another process does the same, or has just started the server.
    Effect.repeat({
      while: (complaint) => complaint?.includes("postmaster.pid") === true,
      schedule: Schedule.spaced("50 millis"),
      times: 100
    })
  )
  if (complaint !== null) {
    return yield* failed(`The database in ${place.home} could not be prepared: ${complaint}`, "Check the free space of the data folder.")
  }
})

/** Starts the process of a server. */
const launch = (
  { account, binaries, durable, patient, place }: Plan,
  { folder, temporary }: { readonly folder: string; readonly temporary: boolean },
  log: number
) => {
  const own = asSeenByServer(place.cluster, account)
  const settings = {
    ...SETTINGS,
    ...(durable ? DURABLE : THROW_AWAY),
    unix_socket_directories: temporary ? folder : own,
    // Read by `findPostmaster` from the command line.
    "slipway.cluster": place.cluster,
    "slipway.owner": String(process.pid)
  }
  return GuardedServer.start({
    command: [
      binaries.postgres,
      "-D",
      own,
      "-p",
      String(PORT),
      ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
    ],
    account,
    cwd: place.cluster,
    log,
    temporaryFolder: temporary ? folder : null,
    patient
  })
}

/** Waits until our server answers there, or fails with its complaints when it ends before. */
const untilAnswers = (
  place: Place,
  server: Effect.Success<ReturnType<typeof launch>>,
  connection: Connection,
  logStart: number
) => {
  // Somebody else's server may answer at the same place, when both were started at once.
  const ours = findPostmaster(place.cluster).pipe(
    Effect.repeat({ schedule: Schedule.spaced("10 millis"), until: (found) => found?.watchdog === server.pid })
  )
  return Effect.andThen(ours, Effect.retry(ask(connection, (session) => session.query("SELECT 1")), Schedule.spaced("10 millis"))).pipe(
    Effect.orDie,
    Effect.raceFirst(Effect.andThen(
      server.exited,
      Effect.gen(function*() {
        // Postgres refuses a second server: the one that made postmaster.pid first has won, and may still be writing it.
        yield* untilLockIsWritten(place.cluster)
        yield* clear(place.cluster)
        return yield* failed(
          `Postgres did not start: ${yield* complaints(place.log, logStart)}`,
          `See ${place.log}.`
        )
      })
    )),
    Effect.timeoutOrElse({
      duration: "60 seconds",
      orElse: () => failed("Postgres did not answer within 60 seconds.", `See ${place.log}.`)
    })
  )
}

/** From start to end of one server process. `up` is told where it listens. */
const life = Effect.fnUntraced(function*(plan: Plan, up: Deferred.Deferred<Connection, EmbeddedPostgresError>) {
  const { account, begun, place } = plan
  yield* clear(place.cluster)
  // A cluster of an earlier version.
  yield* prepareRole(plan, place.cluster)
  const socket = yield* socketFolderFor(place.cluster, account)
  const log = yield* openLog(place.log, account)
  const server = yield* launch(plan, socket, log.handle.fd)
  if (begun !== undefined) yield* Deferred.succeed(begun, undefined)
  const connection = through(path.join(socket.folder, `.s.PGSQL.${PORT}`))
  yield* untilAnswers(place, server, connection, log.start)
  yield* Deferred.succeed(up, connection)
  yield* server.exited
}, Effect.scoped)

/** Starts the server again whenever it ends by itself. Fails only when the first start does. */
const keepUp = Effect.fnUntraced(function*(plan: Plan, up: Deferred.Deferred<Connection, EmbeddedPostgresError>) {
  const { log } = plan.place
  yield* life(plan, up)
  while (true) {
    yield* Effect.logWarning("Postgres ended by itself and is started again", { log })
    // It may stay so for long: the same reason is said once.
    let said = ""
    yield* life(plan, up).pipe(
      Effect.tapError((error) => {
        if (error.message === said) return Effect.void
        said = error.message
        return Effect.logError("Postgres could not be started again", { error: said })
      }),
      Effect.retry(Schedule.spaced("250 millis"))
    )
  }
})

/**
 * Where a server of this process listens, and for as long as the scope lives, that server. `patient`: whether sessions
 * that are still open then may finish.
 */
export const start = Effect.fn("PostgresServer.start")(function*(options: Options, patient = true) {
  const durable = options.durable ?? true
  const place = yield* placeOf(options.dataDir)
  const account = yield* accountFor(place.cluster, options.account)
  const binaries = yield* PostgresBinaries.prepare({
    native: yield* PostgresBinaries.locate,
    account,
    copies: account === null ? place.home : "/var/cache/slipway"
  })
  const plan: Plan = { place, account, binaries, durable, patient, begun: options.begun }
  yield* removeLeftovers(place.home)
  if ((yield* onDisk(() => stat(place.cluster).catch(missing))) === null) {
    yield* initialise(place, account, binaries.initdb, durable, (cluster) => prepareRole(plan, cluster))
  }
  const up = yield* Deferred.make<Connection, EmbeddedPostgresError>()
  yield* keepUp(plan, up).pipe(Effect.onError((cause) => Deferred.failCause(up, cause)), Effect.forkScoped)
  return yield* Deferred.await(up)
})

/** Held shared by every process that joined a server, exclusively by a command that is about to stop its own. Any number will do. */
const IN_USE = 7_547_529

/**
 * Where the server listens that another living process runs over this data folder; null when none does. A command that
 * runs it does not stop it before the scope closes.
 */
export const join = Effect.fn("PostgresServer.join")(function*(options: Options) {
  const { cluster } = yield* placeOf(options.dataDir)
  const scope = yield* Effect.scope
  const look = Effect.gen(function*() {
    const postmaster = yield* findPostmaster(cluster)
    if (postmaster === null || postmaster.owner === null) return null
    const connection = through(postmaster.socket)
    // Not answering yet, or no longer: look again until it is the one or the other.
    const answers = yield* PgConnection.make({ ...connection, connectTimeout: "5 seconds" }).pipe(
      Effect.flatMap((session) => session.query(`SELECT pg_advisory_lock_shared(${IN_USE})`)),
      Scope.provide(scope),
      // Who stops it may lose the lock to us just before our own session ends: only a server that goes on takes another one.
      Effect.andThen(ask(connection, (session) => session.query("SELECT 1"))),
      Effect.isSuccess
    )
    return answers ? connection : undefined
  })
  const found = yield* look.pipe(
    Effect.repeat({ schedule: Schedule.spaced("20 millis"), until: (connection) => connection !== undefined }),
    Effect.timeoutOrElse({
      duration: "15 seconds",
      orElse: () =>
        failed(
          `The server over ${cluster} did not answer within 15 seconds.`,
          "Its service may be starting or stopping: try again. If that does not help, restart it; postgres.log beside it says why."
        )
    })
  )
  return found ?? null
})

/** A server as {@link start} runs it, which is not stopped while others that joined it go on. For 15 seconds at most. */
export const startForCommand = Effect.fn("PostgresServer.startForCommand")(function*(options: Options) {
  // Closed after the server has ended: nobody joins between the last one's leaving and the end.
  const last = yield* Scope.make()
  yield* Effect.addFinalizer((exit) => Scope.close(last, exit))
  const connection = yield* start(options, false)
  yield* Effect.addFinalizer(() =>
    PgConnection.make({ ...connection, connectTimeout: "5 seconds" }).pipe(
      Effect.flatMap((session) => session.query(`SELECT pg_advisory_lock(${IN_USE})`)),
      Scope.provide(last),
      Effect.timeoutOption("15 seconds"),
      Effect.ignore
    )
  )
  return connection
})
