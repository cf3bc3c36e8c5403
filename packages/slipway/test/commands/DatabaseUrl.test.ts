import { assert, describe, it } from "@effect/vitest"
import * as TlsPostgres from "@slipway/embedded-postgres/testing/TlsPostgres"
import { Effect } from "effect"
import { folder, run, runHere, serve } from "./SlipwayProcess.ts"

const LONG = 300_000

describe("DATABASE_URL", () => {
  it.live("is encrypted as it says for the service, for commands and for doctor, which name what is wrong", () =>
    Effect.gen(function*() {
      const { folder: certificates, ports } = yield* TlsPostgres.make
      const data = yield* folder
      const at = (host: string, query: string) => ({
        DATABASE_URL: `postgres://tls_only@${host}:${ports.tls}/slipway?${query}`,
        SLIPWAY_ISOLATION: "none"
      })
      const verified = at("localhost", `sslmode=verify-full&sslrootcert=${certificates}/ca.pem`)
      yield* serve(data, verified)
      assert.strictEqual((yield* run(data, ["keys", "list"], verified)).code, 0)
      // A CA that the system trusts; the process is asked for it when it starts.
      const trusted = yield* run(data, ["doctor"], { ...at("localhost", "sslrootcert=system"), SSL_CERT_FILE: `${certificates}/ca.pem` })
      assert.match(trusted.stdout, /✓ +Postgres +18[^\n]* DATABASE_URL, schema slipway\n/u)

      const wrong: ReadonlyArray<readonly [host: string, query: string, problem: RegExp]> = [
        ["127.0.0.1", `sslmode=verify-full&sslrootcert=${certificates}/ca.pem`, /sslmode=verify-full asks for: Hostname/u],
        ["localhost", `sslmode=verify-ca&sslrootcert=${certificates}/other-ca.pem`, /sslmode=verify-ca asks for: self-signed/u],
        ["localhost", "sslmode=require&sslrootcert=/nowhere/ca.pem", /the file of sslrootcert cannot be read: ENOENT/u]
      ]
      for (const [host, query, problem] of wrong) {
        for (const args of [["serve"], ["keys", "list"]]) {
          const { code, stderr, stdout } = yield* runHere(data, args, at(host, query))
          assert.deepStrictEqual([code, stdout], [1, ""])
          assert.match(stderr, problem)
          assert.match(stderr, /^slipway: The database at [^\n]*check DATABASE_URL\.\n$/u)
        }
      }
      const examined = yield* runHere(data, ["doctor"], at("localhost", "sslrootcert=/nowhere/ca.pem"))
      assert.match(examined.stdout, /✗ +Postgres +[^\n]*sslrootcert cannot be read/u)
      for (const args of [["serve"], ["keys", "list"], ["doctor"], ["backup", `${data}/backup`], ["restore", `${data}/backup`]]) {
        const { code, stderr } = yield* runHere(data, args, at("localhost", "sslmod=require"))
        assert.deepStrictEqual([code, stderr], [
          1,
          "slipway: DATABASE_URL must be a postgres:// address: the parameter sslmod is not supported.\n"
        ])
      }
    }), LONG)
})
