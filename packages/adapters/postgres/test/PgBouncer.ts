/** A fresh database behind PgBouncer, where that is installed. */
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as SilentNetwork from "@slipway/machine/testing/SilentNetwork"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect, Layer, Redacted, Result } from "effect"
import { spawnSync } from "node:child_process"
import { chmodSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as ConnectionUrl from "../src/connection/ConnectionUrl.ts"

/** Its file; `undefined`: it is not installed. */
export const program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].find((file) => spawnSync(file, ["--version"]).status === 0)

/**
 * The address of a fresh database behind a pooler of this mode and size: by its socket file; with `tls`, the files of the pooler's
 * certificate and key, by TLS at localhost and `port`.
 */
export const pooled = (
  mode: "session" | "transaction" | "statement",
  size: number,
  tls?: { readonly cert: string; readonly key: string; readonly port: number }
) =>
  Effect.gen(function*() {
    // The server's socket is open to few users, and the pooler does not run as root.
    const { url } = yield* SilentNetwork.make(yield* TestPostgres.database(Layer.empty))
    const { database, host, password, port, username } = Result.getOrThrow(ConnectionUrl.parse(url))
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-pooler-"))),
      (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
    )
    const secret = password === null ? "" : ` password='${password}'`
    const encrypted = tls === undefined ? "" : "listen_addr = 127.0.0.1\nclient_tls_sslmode = require\n" +
      `client_tls_key_file = ${folder}/tls.key\nclient_tls_cert_file = ${folder}/tls.pem\n`
    if (tls !== undefined) {
      copyFileSync(tls.key, path.join(folder, "tls.key"))
      copyFileSync(tls.cert, path.join(folder, "tls.pem"))
      chmodSync(path.join(folder, "tls.key"), 0o644)
    }
    writeFileSync(
      path.join(folder, "pgbouncer.ini"),
      `[databases]\npooled = host=${host} port=${port} dbname=${database} user=${username}${secret}\n[pgbouncer]\n` +
        `unix_socket_dir = ${folder}\nlisten_port = ${tls?.port ?? 6432}\nauth_type = any\npool_mode = ${mode}\n` +
        `default_pool_size = ${size}\n${encrypted}`
    )
    chmodSync(folder, 0o777)
    const pooler = yield* SpawnedProgram.scoped(
      program ?? "",
      [path.join(folder, "pgbouncer.ini")],
      process.getuid?.() === 0 ? { uid: 65_534 } : {}
    )
    yield* Effect.promise(() => pooler.says((output) => /process up/u.exec(output)))
    return Redacted.make(
      tls === undefined
        ? `postgres://slipway@localhost:6432/pooled?host=${encodeURIComponent(folder)}`
        : `postgres://slipway@localhost:${tls.port}/pooled`
    )
  })
