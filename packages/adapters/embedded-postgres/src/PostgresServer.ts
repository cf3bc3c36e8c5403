/**
 * A Postgres server on one data folder: made, started, restarted and stopped.
 *
 * `<dataDir>/postgres` holds `cluster` (the database), `postgres.log` and, if needed, a copy of the binaries.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import { codeOf, ifAbsent, ifCode } from "@slipway/domain/files/rules/SystemError"
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
  /** The socket file. Every process that can reach it is admitted, because its folder is private. */
  readonly path: string
  readonly username: string
  readonly database: string
}

export interface Options {
  /** The service's data folder. Made if missing. */
  readonly dataDir: string
  /** The account that runs the server of a new data folder. Used only if this process is root. */
  readonly account?: string | undefined
  /** False for temporary data of tests: faster, but a power failure may destroy it. */
  readonly durable?: boolean | undefined
  /** Completes when the server's process runs, some time before it answers. */
  readonly begun?: Deferred.Deferred<void> | undefined
}

const PORT = 5432
/** Bytes of a socket's path that fit `sockaddr_un` with its final NUL. */
const LONGEST_SOCKET_PATH = process.platform === "linux" ? 107 : 103
/** The beginning of the name of a folder with an unfinished database, followed by the maker's process id. */
const MAKING = "initdb-"
const LONGEST_LOG_BYTES = 10 * 1024 * 1024

const SETTINGS = {
  max_connections: "100",
  shared_buffers: "64MB",
  // One server, restored from its own files: only crash recovery reads WAL.
  wal_level: "minimal",
  max_wal_senders: "0",
  // Fewer idle processes. Short indexed statements would not benefit from them.
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

/** A file operation whose failure the operator has to examine. */
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

interface Place {
  readonly home: string
  readonly cluster: string
  readonly log: string
}

const placeOf = (dataDir: string) =>
  onDisk(async (): Promise<Place> => {
    await mkdir(dataDir, { recursive: true })
    // One canonical name per folder, by which processes recognise each other's server.
    const home = path.join(await realpath(dataDir), "postgres")
    if (await mkdir(home, { recursive: true }) !== undefined) {
      await chmod(home, process.getuid?.() === 0 ? 0o711 : 0o700)
    }
    return { home, cluster: path.join(home, "cluster"), log: path.join(home, "postgres.log") }
  })

const accountFor = Effect.fnUntraced(function*(cluster: string, chosen: string | undefined) {
  if (process.getuid?.() !== 0) return null
  const existing = yield* onDisk(() => stat(cluster).catch(ifAbsent(null)))
  // A cluster stays with the account that made it, even if the machine has new accounts.
  return existing === null ? yield* ServerAccount.find(chosen) : { uid: existing.uid, gid: existing.gid }
})

/**
 * The cluster's folder as the server spells it. Another account may not be able to enter parent folders such as /root, whose
 * permissions we must not change. The folder itself is the account's own, and on Linux the inherited working directory leads directly
 * there.
 */
const asSeenByServer = (cluster: string, account: ServerAccount.Account | null) =>
  account !== null && process.platform === "linux" ? "/proc/self/cwd" : cluster

/** initdb takes seconds, so an older folder was abandoned, whatever process has its maker's id now. */
const MAKING_MILLIS = 600_000

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return codeOf(error) === "EPERM"
  }
}

/** Removes databases that killed processes did not finish. They only take disk space, so a failure to remove them is harmless. */
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

/** Makes the cluster in one step: a kill or a race with another process leaves a complete cluster or none. */
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
        await rename(folder, place.cluster).catch(
          // Another process was first.
          ifCode(["ENOTEMPTY", "EEXIST"], undefined)
        )
        // Without this, a power failure could undo the renaming, and with it hide every row committed since.
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
  /** The process that started it. Null if that has ended: the server is shutting down or stuck. */
  readonly owner: number | null
}

/** The server running on this cluster, if any. */
const findPostmaster = Effect.fnUntraced(function*(cluster: string) {
  const file = path.join(cluster, "postmaster.pid")
  const [first, , , , folder] = ((yield* onDisk(() => readFile(file, "utf8").catch(ifAbsent(null)))) ?? "").split("\n")
  const pid = Number(first)
  if (!(pid > 1)) return null
  const running = yield* inspect(pid)
  if (running === null) return null
  // The watchdog's command line holds the server's.
  const isServer = !running.command.startsWith("/bin/sh ")
  if (!isServer || !running.command.includes(` slipway.cluster=${cluster} `)) {
    // After a crash another program may have the id. Postgres would take it for a server and never start.
    if (!running.command.includes("postgres")) yield* onDisk(() => rm(file, { force: true }))
    return null
  }
  // The owner is the watchdog's parent while it lives, so a reused process id cannot mislead.
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

/** A starting server's lock file is empty for a moment. After a crash at that moment it stays empty. */
const untilLockIsWritten = (cluster: string) =>
  onDisk(() => readFile(path.join(cluster, "postmaster.pid"), "utf8").catch(ifAbsent(null))).pipe(
    Effect.repeat({ schedule: Schedule.spaced("10 millis"), until: (content) => content !== "" }),
    Effect.timeoutOption("5 seconds")
  )

/** Makes sure that no server runs on this cluster. Fails if a living process owns one. */
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

/** A private folder for the socket, with a short enough path. The cluster's own folder is preferred. */
const socketFolderFor = (cluster: string, account: ServerAccount.Account | null) =>
  onDisk(async () => {
    const fits = Buffer.byteLength(path.join(cluster, `.s.PGSQL.${PORT}`)) <= LONGEST_SOCKET_PATH
    if (fits) return { folder: cluster, temporary: false }
    const folder = `/tmp/slipway-${createHash("sha256").update(cluster).digest("hex").slice(0, 16)}`
    await mkdir(folder, { mode: 0o700 }).catch(ifCode(["EEXIST"], undefined))
    // Another user may have made this folder in /tmp to intercept our connections.
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
      // Root must not follow a link that the folder's owner may have made.
      const handle = await open(file, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
      if (account !== null) await handle.chown(account.uid, account.gid)
      if ((await handle.stat()).size > LONGEST_LOG_BYTES) await handle.truncate()
      return { handle, start: (await handle.stat()).size }
    }),
    ({ handle }) => Effect.promise(() => handle.close())
  )

/** Postgres' errors in its log from byte `start` on. */
const complaints = (file: string, start: number) =>
  Effect.map(onDisk(() => readFile(file)), (bytes) => {
    const lines = bytes.subarray(start).toString().split("\n").filter((line) => line !== "")
    const grave = lines.filter((line) => /\b(FATAL|PANIC|DETAIL|HINT):/u.test(line))
    return (grave.length > 0 ? grave : lines).slice(-4).join(" ")
  })

const ask = <A>(connection: Connection, question: (session: PgConnection.PgConnection) => Effect.Effect<A, unknown>) =>
  Effect.scoped(Effect.flatMap(PgConnection.make({ ...connection, connectTimeout: "5 seconds" }), question))

/** The service's connection to its database on the server with this socket. */
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

/** Makes the service's role and database in a cluster, if they are missing. */
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

/** Waits until our server answers. Fails with its errors if it ends first. */
const untilAnswers = (
  place: Place,
  server: Effect.Success<ReturnType<typeof launch>>,
  connection: Connection,
  logStart: number
) => {
  // Another server may answer on the same socket, if both were started at once.
  const ours = findPostmaster(place.cluster).pipe(
    Effect.repeat({ schedule: Schedule.spaced("10 millis"), until: (found) => found?.watchdog === server.pid })
  )
  return Effect.andThen(ours, Effect.retry(ask(connection, (session) => session.query("SELECT 1")), Schedule.spaced("10 millis"))).pipe(
    Effect.orDie,
    Effect.raceFirst(Effect.andThen(
      server.exited,
      Effect.gen(function*() {
        // Postgres allows one server. The server that made postmaster.pid first has won, and may still be writing the file.
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

/** The life of one server process. `up` gets its connection. */
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
    // The failure may last long, so each reason is logged once.
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
 * Runs a server of this process until the scope closes, and returns its connection. `patient`: whether open sessions may finish at the
 * end.
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
  if ((yield* onDisk(() => stat(place.cluster).catch(ifAbsent(null)))) === null) {
    yield* initialise(place, account, binaries.initdb, durable, (cluster) => prepareRole(plan, cluster))
  }
  const up = yield* Deferred.make<Connection, EmbeddedPostgresError>()
  yield* keepUp(plan, up).pipe(Effect.onError((cause) => Deferred.failCause(up, cause)), Effect.forkScoped)
  return yield* Deferred.await(up)
})

/** A shared lock of every process that uses another's server; exclusive for a command that stops its own. Any constant works. */
const IN_USE = 7_547_529

/**
 * The connection to the server of another living process on this data folder; null if there is none. A command that runs the server
 * does not stop it before the scope closes.
 */
export const join = Effect.fn("PostgresServer.join")(function*(options: Options) {
  const { cluster } = yield* placeOf(options.dataDir)
  const scope = yield* Effect.scope
  const look = Effect.gen(function*() {
    const postmaster = yield* findPostmaster(cluster)
    if (postmaster === null || postmaster.owner === null) return null
    const connection = through(postmaster.socket)
    // The server is starting or stopping: look again until one of both has finished.
    const answers = yield* PgConnection.make({ ...connection, connectTimeout: "5 seconds" }).pipe(
      Effect.flatMap((session) => session.query(`SELECT pg_advisory_lock_shared(${IN_USE})`)),
      Scope.provide(scope),
      // The stopping process may take the lock just before our session ends. Only a server that keeps running accepts another
      // statement.
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

/** A server like {@link start}'s, which waits at its end for other processes that use it, for at most 15 seconds. */
export const startForCommand = Effect.fn("PostgresServer.startForCommand")(function*(options: Options) {
  // Closed after the server has ended, so that no other process can join in between.
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
