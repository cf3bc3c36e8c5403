/** A primary Postgres with a synchronous standby, behind an address that follows them. */
import { run } from "@slipway/embedded-postgres/SystemProcess"
import * as Postgres from "@slipway/embedded-postgres/testing/PostgresCluster"
import { Effect } from "effect"
import { appendFileSync, chmodSync, cpSync, writeFileSync } from "node:fs"
import path from "node:path"
import * as Line from "./Line.ts"

const SETTINGS = { wal_level: "replica", hot_standby: "on" }

export interface Replicas {
  /** The server that takes writes: the primary, from its failure on the standby. */
  readonly url: string
  /** The primary is killed, and its standby takes its place. */
  readonly failOver: Effect.Effect<void>
}

/** Ends both with the scope. */
export const make = Effect.gen(function*() {
  const home = yield* Postgres.home
  const [first, second] = [path.join(home.folder, "primary"), path.join(home.folder, "standby")]
  yield* Postgres.initialise(home, first)
  appendFileSync(path.join(first, "pg_hba.conf"), "host replication all 127.0.0.1/32 trust\n")
  // A copy of a server that never ran is one of its backups.
  cpSync(first, second, { recursive: true })
  chmodSync(second, 0o700)
  if (home.account !== null) yield* run("chown", ["-R", `${home.account.uid}:${home.account.gid}`, second])
  // Nothing is committed before the standby has it.
  const primary = yield* Postgres.cluster(home, first, { ...SETTINGS, synchronous_standby_names: "standby", synchronous_commit: "on" })
  const standby = yield* Postgres.cluster(home, second, {
    ...SETTINGS,
    primary_conninfo: `host=127.0.0.1 port=${primary.port} user=slipway application_name=standby`
  })
  writeFileSync(path.join(second, "standby.signal"), "")
  yield* primary.start
  yield* standby.start
  let port = primary.port
  const line = yield* Line.make(() => port)
  const replicas: Replicas = {
    url: `postgres://slipway@127.0.0.1:${line.port}/postgres`,
    failOver: Effect.gen(function*() {
      yield* primary.end("SIGKILL")
      // Does the same as `pg_ctl promote`.
      writeFileSync(path.join(second, "promote"), "")
      standby.process()?.kill("SIGUSR1")
      port = standby.port
    })
  }
  return replicas
})
