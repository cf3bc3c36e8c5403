/** Every connection that docs/operating/database.md lists. */
import { assert, layer } from "@effect/vitest"
import { freePort } from "@slipway/embedded-postgres/testing/FreePort"
import * as TlsPostgres from "@slipway/embedded-postgres/testing/TlsPostgres"
import { Context, Duration, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { networkInterfaces } from "node:os"
import path from "node:path"
import { getCACertificates, setDefaultCACertificates } from "node:tls"
import * as Database from "../src/Database.ts"
import { pooled, program } from "./PgBouncer.ts"
import { MATRIX, MODES, PASSWORD, type Row, ROWS } from "./TestedConnections.ts"

/** A server with TLS, whose CA this process trusts as `SLIPWAY_CA_FILE` has it. */
class Server extends Context.Service<Server, TlsPostgres.TlsPostgres>()("Server") {
  static readonly layer = Layer.effect(
    Server,
    Effect.gen(function*() {
      const made = yield* TlsPostgres.make
      // This process has made such a connection before.
      yield* Effect.ignore(Database.reach(Redacted.make("postgres://slipway@localhost:1/slipway?sslmode=verify-full"), Duration.zero, true))
      const before = getCACertificates("default")
      setDefaultCACertificates([...before, readFileSync(path.join(made.folder, "ca.pem"), "utf8")])
      process.env["PGPASSWORD"] = PASSWORD
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          setDefaultCACertificates(before)
          delete process.env["PGPASSWORD"]
        })
      )
      return made
    })
  )
}

const HAS = {
  IPv6: Object.values(networkInterfaces()).flatMap((all) => all ?? []).some(({ address }) => address === "::1"),
  pgbouncer: program !== undefined
}

const NEEDS = { IPv6: " (needs IPv6)", pgbouncer: " (needs pgbouncer: apt-get install pgbouncer)" }

/** The address with the values of the test in place of the words. */
const addressOf = Effect.fnUntraced(function*({ url }: Row) {
  const { folder, ports } = yield* Server
  const bouncer = /^BOUNCER_[A-Z]+/u.exec(url)?.[0]
  const rest = bouncer === undefined ? url : url.slice(bouncer.length)
  const pooler = {
    BOUNCER_SESSION: () => pooled("session", 20),
    BOUNCER_TRANSACTION: () => pooled("transaction", 20),
    BOUNCER_STATEMENT: () => pooled("statement", 20),
    BOUNCER_SMALL: () => pooled("session", 4),
    BOUNCER_TLS: () =>
      Effect.flatMap(
        freePort,
        (port) => pooled("session", 20, { cert: path.join(folder, "server.pem"), key: path.join(folder, "server.key"), port })
      )
  }[bouncer ?? ""]
  const start = pooler === undefined ? "" : Redacted.value(yield* pooler())
  return start + rest
    .replaceAll("ENCODED_FOLDER", encodeURIComponent(folder))
    .replaceAll("FOLDER", folder)
    .replaceAll("ENCODED_PASSWORD", encodeURIComponent(PASSWORD))
    .replaceAll("PORT", String(ports.tls))
})

const asked = (url: string, statement: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe<Record<string, unknown>>(statement)).pipe(
    Effect.provide(Database.layer({ url: Redacted.make(url) }))
  )

const setPassword = Effect.fnUntraced(function*(password: string) {
  const { folder, ports } = yield* Server
  const literal = `E'${password.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`
  yield* asked(`postgres://slipway@/slipway?host=${folder}&port=${ports.tls}`, `ALTER ROLE with_password PASSWORD ${literal}`)
})

const page = readFileSync(path.join(import.meta.dirname, "../../../../docs/operating/database.md"), "utf8")

/** The cells of a table's rows, below its head. */
const tableBelow = (heading: string): ReadonlyArray<ReadonlyArray<string>> => {
  const [, rest = ""] = page.split(`\n${heading}\n`)
  const [table = ""] = /(?:^\|.*\n)+/mu.exec(rest) ?? []
  return table.trim().split("\n").slice(2).map((line) => line.split(/(?<!\\)\|/u).slice(1, -1).map((cell) => cell.trim()))
}

layer(Server.layer, { excludeTestServices: true })("a connection to Postgres", (it) => {
  for (const row of ROWS) {
    const { needs, password = PASSWORD, result, what } = row
    const lacks = needs !== undefined && !HAS[needs]
    it.effect.skipIf(lacks)(`by ${what}: ${result}${lacks ? NEEDS[needs] : ""}`, () =>
      Effect.gen(function*() {
        yield* setPassword(password)
        const url = yield* addressOf(row)
        const reached = yield* Database.reach(Redacted.make(url), Duration.zero, true).pipe(
          Effect.as("works"),
          Effect.catchTag("DatabaseUnreachable", ({ message }) => Effect.succeed(message))
        )
        if (result !== "works") {
          assert.include(reached, result)
          assert.notInclude(reached, password)
          return
        }
        assert.strictEqual(reached, "works")
        const [answer] = yield* asked(url, "SELECT current_setting('TimeZone') AS zone, current_setting('search_path') AS path")
        assert.deepStrictEqual(answer, { zone: "UTC", path: "slipway" })
      }).pipe(Effect.scoped))
  }

  it("has these rows in the page, and no others", () => {
    const shown = (text: string) => `\`${text}\``
    assert.deepStrictEqual(
      tableBelow("### Addresses that were tried"),
      ROWS.map(({ result, url, what }) => [what, shown(url), result === "works" ? result : shown(result)])
    )
  })

  it("has the matrix of encryption in the page", () => {
    const words: Readonly<Record<string, string>> = { e: "encrypted", p: "plain", "-": "refused" }
    assert.deepStrictEqual(
      tableBelow("### Encryption that was tried"),
      MATRIX.map(([what, , , , outcomes]) => [what, ...outcomes.split(" ").map((letter) => words[letter] ?? letter)])
    )
    assert.strictEqual(MODES.length, 6)
  })
})
