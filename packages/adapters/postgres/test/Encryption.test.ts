import { assert, layer } from "@effect/vitest"
import * as TlsPostgres from "@slipway/embedded-postgres/testing/TlsPostgres"
import { Console, Context, Duration, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { execFile } from "node:child_process"
import { copyFileSync, mkdirSync, rmSync } from "node:fs"
import path from "node:path"
import * as Database from "../src/Database.ts"
import { MATRIX, MODES } from "./TestedConnections.ts"

/** The home of libpq, and of ours, is a folder of the test: what its user has in ~/.postgresql would count. */
class Servers extends Context.Service<Servers, TlsPostgres.TlsPostgres>()("Servers") {
  static readonly layer = Layer.effect(
    Servers,
    Effect.gen(function*() {
      const made = yield* TlsPostgres.make
      const home = process.env["HOME"]
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          if (home === undefined) delete process.env["HOME"]
          else process.env["HOME"] = home
        })
      )
      process.env["HOME"] = made.folder
      return made
    })
  )
}

type Outcome = "encrypted" | "plain" | "refused"

const STATE = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"

/** The state of a connection of each of our pools and of our migrations. */
const ours = Effect.fnUntraced(function*(url: string) {
  const location = { url: Redacted.make(url) }
  const state = (sql: SqlClient.SqlClient) =>
    Effect.map(sql.unsafe<{ readonly ssl: boolean }>(STATE), ([row]): Outcome => row?.ssl === true ? "encrypted" : "plain")
  yield* Database.reach(location.url, Duration.zero)
  const migrating = yield* Effect.provide(Effect.flatMap(SqlClient.SqlClient, state), Database.layerMigrating(location))
  const pooled = yield* Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const clients = [sql, (yield* Database.Reads) ?? sql, (yield* Database.Renewals) ?? sql]
    return yield* Effect.forEach(clients, state, { concurrency: "unbounded" })
  }).pipe(Effect.provide(Database.layer(location)))
  return [...new Set([migrating, ...pooled])].join(" and ")
}, Effect.catch(() => Effect.succeed("refused")))

/** The result of libpq, where it is installed. */
const libpqs = (url: string, folder: string) =>
  Effect.callback<string>((resume) => {
    execFile("psql", [url, "-XAtc", STATE], { env: { PATH: process.env["PATH"], HOME: folder, USER: "slipway" } }, (error, stdout) => {
      if (error?.code === "ENOENT") resume(Effect.succeed("no psql"))
      else resume(Effect.succeed(error !== null ? "refused" : stdout.trim() === "t" ? "encrypted" : "plain"))
    })
  })

const LETTERS: Readonly<Record<string, string>> = { encrypted: "e", plain: "p", refused: "-" }

/** An hour's patience, and a test that does not have it: nothing is waited for that will not come. */
const complaintOf = (url: string) =>
  Database.reach(Redacted.make(url), Duration.hours(1)).pipe(Effect.flip, Effect.map(({ message }) => message), Effect.orDie)

layer(Servers.layer, { excludeTestServices: true })("the encryption of connections to Postgres", (it) => {
  it.effect("has libpq's meaning for every sslmode and sslrootcert", () =>
    Effect.gen(function*() {
      const { folder, ports } = yield* Servers
      const rows = (ask: (url: string) => Effect.Effect<string>) =>
        Effect.forEach(MATRIX, ([what, server, who, parameters]) => {
          const url = `postgres://${who}:${ports[server]}/postgres?connect_timeout=10${parameters}`.replaceAll("FOLDER", folder)
          return Effect.map(
            Effect.forEach(MODES, (mode) => ask(`${url}&sslmode=${mode}`), { concurrency: 2 }),
            (outcomes) => `${what}: ${outcomes.map((outcome) => LETTERS[outcome] ?? outcome).join(" ")}`
          )
        })
      const expected = MATRIX.map(([what, , , , outcomes]) => `${what}: ${outcomes}`)
      assert.deepStrictEqual(yield* rows(ours), expected)
      if ((yield* libpqs("", folder)) === "no psql") yield* Console.log("psql is not installed: libpq itself was not asked")
      else assert.deepStrictEqual(yield* rows((url) => libpqs(url, folder)), expected)
    }))

  it.effect("is preferred unless the URL says something else, and is not there through a socket file", () =>
    Effect.gen(function*() {
      const { folder, ports } = yield* Servers
      const at = `${ports.tls}/postgres`
      assert.deepStrictEqual(
        yield* Effect.forEach([
          `postgres://slipway@127.0.0.1:${at}`,
          `postgres://slipway@127.0.0.1:${at}?ssl=true`,
          `postgres://slipway@127.0.0.1:${ports.plain}/postgres?ssl=true`,
          `postgres://slipway@localhost:${at}?sslrootcert=system`,
          `postgres://slipway@:${at}?host=${folder}&sslmode=verify-full`,
          `postgres://slipway@/postgres?host=${folder}&port=${ports.tls}`,
          `postgresql:///postgres?user=slipway&host=${encodeURIComponent(folder)}&port=${ports.tls}`,
          `postgres://slipway@${encodeURIComponent(folder)}:${at}`
        ], ours),
        ["encrypted", "encrypted", "refused", "refused", "plain", "plain", "plain", "plain"]
      )
    }))

  it.effect("is verified by ~/.postgresql/root.crt where the URL names no CA, and has the certificate beside it", () =>
    Effect.gen(function*() {
      const { folder, ports } = yield* Servers
      const standard = path.join(folder, ".postgresql")
      mkdirSync(standard)
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(standard, { recursive: true })))
      const url = (who: string) => `postgres://${who}:${ports.tls}/postgres?sslmode=require`
      copyFileSync(path.join(folder, "other-ca.pem"), path.join(standard, "root.crt"))
      assert.strictEqual(yield* ours(url("slipway@localhost")), "refused")
      copyFileSync(path.join(folder, "ca.pem"), path.join(standard, "root.crt"))
      assert.strictEqual(yield* ours(url("slipway@127.0.0.1")), "encrypted")
      assert.strictEqual(yield* ours(url("certified@localhost")), "refused")
      copyFileSync(path.join(folder, "client.pem"), path.join(standard, "postgresql.crt"))
      copyFileSync(path.join(folder, "client.key"), path.join(standard, "postgresql.key"))
      assert.strictEqual(yield* ours(url("certified@localhost")), "encrypted")
    }))

  it.effect("is what an error is about that names the parameter, at once", () =>
    Effect.gen(function*() {
      const { folder, ports } = yield* Servers
      const complaints = yield* Effect.forEach(
        [
          ["tls", "localhost", "sslmode=require&sslrootcert=/nowhere/ca.pem"],
          // The requested file is missing, whether or not it would be used.
          ["plain", "localhost", "sslmode=prefer&sslrootcert=/nowhere/ca.pem"],
          ["tls", "localhost", `sslrootcert=${folder}/server.key`],
          ["tls", "localhost", `sslcert=${folder}/client.pem`],
          ["tls", "localhost", "sslmode=verify-ca"],
          ["tls", "localhost", `sslmode=verify-ca&sslrootcert=${folder}/other-ca.pem`],
          ["tls", "127.0.0.1", `sslmode=verify-full&sslrootcert=${folder}/ca.pem`],
          ["plain", "localhost", "sslmode=require"]
        ] as const,
        ([server, host, query]) => complaintOf(`postgres://slipway@${host}:${ports[server]}/postgres?${query}`)
      )
      const said = complaints.map((text) => /cannot be used: (.*)\. Start it, or check/su.exec(text)?.[1]?.replaceAll(folder, "FOLDER"))
      const missing = "the file of sslrootcert cannot be read: ENOENT: no such file or directory, open '/nowhere/ca.pem'"
      const cannot = (mode: string) => `the connection cannot be encrypted as sslmode=${mode} asks for: `
      assert.deepStrictEqual(said.slice(0, 2), [missing, missing])
      assert.match(said[2] ?? "", /^the file of sslrootcert has no certificate in PEM: /u)
      assert.deepStrictEqual(said.slice(3), [
        "sslcert needs its key: name the file as sslkey",
        "sslmode=verify-ca needs a CA: name the file with its certificate as sslrootcert",
        `${cannot("verify-ca")}self-signed certificate in certificate chain (sslrootcert names the file with its CA)`,
        `${cannot("verify-full")}Hostname/IP does not match certificate's altnames: IP: 127.0.0.1 is not in the cert's list`,
        `${cannot("require")}the server does not offer TLS`
      ])
    }))
})
