/** A primary Postgres with a synchronous standby, from the binaries of the embedded one, behind an address that follows them. */
import * as PostgresBinaries from "@slipway/adapters/internal/embedded-postgres/PostgresBinaries"
import * as ServerAccount from "@slipway/adapters/internal/embedded-postgres/ServerAccount"
import { environment, run } from "@slipway/adapters/internal/embedded-postgres/SystemProcess"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { appendFile, chmod, chown, cp, mkdtemp, rm, writeFile } from "node:fs/promises"
import { connect, createServer, type Socket } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"

const freePort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

export interface Replicas {
  /** Of the one that takes writes: the primary, from its failure on the standby. */
  readonly url: string
  /** The primary is killed, and its standby takes its place. */
  readonly failOver: Effect.Effect<void>
}

/** Ends both with the scope. */
export const make = Effect.gen(function*() {
  const account = process.getuid?.() === 0 ? yield* ServerAccount.find() : null
  const home = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(tmpdir(), "slipway-replicas-"))),
    (made) => Effect.promise(() => rm(made, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 }))
  )
  yield* Effect.promise(async () => {
    await chmod(home, 0o755)
    if (account !== null) await chown(home, account.uid, account.gid)
  })
  const binaries = yield* PostgresBinaries.prepare({ native: yield* PostgresBinaries.locate, account, copies: home })
  const identity = account === null ? {} : { uid: account.uid, gid: account.gid }

  const start = (cluster: string, port: number, settings: ReadonlyArray<string>) =>
    Effect.sync(() => {
      const child = spawn(binaries.postgres, ["-D", cluster, "-p", String(port), ...settings.flatMap((setting) => ["-c", setting])], {
        ...identity,
        cwd: cluster,
        env: environment,
        stdio: "ignore"
      })
      const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()))
      /** All its processes end with the server. */
      const kill = Effect.promise(() => {
        child.kill("SIGKILL")
        return exited
      })
      return {
        kill,
        /** What `pg_ctl promote` does. */
        promote: Effect.promise(async () => {
          await writeFile(path.join(cluster, "promote"), "")
          child.kill("SIGUSR1")
        })
      }
    })
  const settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "wal_level=replica", "hot_standby=on", "max_connections=200"]
  const accepts = (port: number) =>
    Effect.callback<void, string>((resume) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.destroy()
        resume(Effect.void)
      })
      socket.on("error", (error) => resume(Effect.fail(error.message)))
    }).pipe(Effect.eventually)

  const [first, second] = [path.join(home, "primary"), path.join(home, "standby")]
  const [firstPort, secondPort] = [yield* freePort, yield* freePort]
  const made = yield* run(binaries.initdb, ["-D", first, "-U", "slipway", "--auth=trust", "--encoding=UTF8", "--locale=C"], {
    account,
    cwd: home
  })
  if (!made.succeeded) return yield* Effect.die(new Error(made.complaint))
  yield* Effect.promise(async () => {
    await appendFile(path.join(first, "pg_hba.conf"), "host replication all 127.0.0.1/32 trust\n")
    // A copy of a server that never ran is one of its backups.
    await cp(first, second, { recursive: true })
    await chmod(second, 0o700)
    await writeFile(path.join(second, "standby.signal"), "")
    await appendFile(
      path.join(second, "postgresql.auto.conf"),
      `primary_conninfo = 'host=127.0.0.1 port=${firstPort} user=slipway application_name=standby'\n`
    )
  })
  if (account !== null) yield* run("chown", ["-R", `${account.uid}:${account.gid}`, second])
  const primary = yield* Effect.acquireRelease(
    // Nothing is committed before the standby has it.
    start(first, firstPort, [...settings, "synchronous_standby_names=standby", "synchronous_commit=on"]),
    ({ kill }) => kill
  )
  yield* accepts(firstPort)
  const standby = yield* Effect.acquireRelease(start(second, secondPort, settings), ({ kill }) => kill)
  yield* accepts(secondPort)

  let target = firstPort
  const open = new Set<Socket>()
  const here = yield* Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
      const server = createServer((client) => {
        const upstream = connect(target, "127.0.0.1")
        open.add(client)
        client.pipe(upstream).pipe(client)
        for (const [one, other] of [[client, upstream], [upstream, client]] as const) {
          one.on("error", () => {})
          one.on("close", () => {
            open.delete(client)
            other.destroy()
          })
        }
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed({ port: typeof address === "object" && address !== null ? address.port : 0, close: () => server.close() }))
      })
    }),
    ({ close }) =>
      Effect.sync(() => {
        close()
        open.forEach((client) => client.destroy())
      })
  )
  return {
    url: `postgres://slipway@127.0.0.1:${here.port}/postgres`,
    failOver: Effect.gen(function*() {
      yield* primary.kill
      yield* standby.promote
      target = secondPort
    })
  }
})
