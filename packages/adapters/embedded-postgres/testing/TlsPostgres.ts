/** Two servers of Postgres over TCP, one with TLS and one without, and the certificates of a CA of the test. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { appendFileSync, chmodSync, chownSync, cpSync, writeFileSync } from "node:fs"
import path from "node:path"
import { promisify } from "node:util"
import { run } from "../src/SystemProcess.ts"
import * as PostgresCluster from "./PostgresCluster.ts"

/**
 * The name of a role says how it is admitted; `with_password` has no password until a test sets one. The superuser `slipway` is admitted
 * with and without TLS.
 */
const admission = (address: string) =>
  `hostssl all certified ${address} cert
hostnossl all certified ${address} reject
hostssl all tls_only ${address} trust
hostssl all plain_only ${address} reject
hostnossl all tls_only ${address} reject
host all with_password ${address} scram-sha-256
host all all ${address} trust
`
const ADMISSION = `local all all trust\n${admission("127.0.0.1/32")}${admission("::1/128")}`

const EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]

/**
 * `ca.pem` and what it signed: `server.pem` for the name localhost alone, `client.pem` for the role `certified`. `other-ca.pem`
 * signed neither.
 */
const certificates = async (folder: string) => {
  const openssl = (...args: ReadonlyArray<string>) => promisify(execFile)("openssl", [...args], { cwd: folder })
  for (const ca of ["ca", "other-ca"]) {
    await openssl("req", "-x509", ...EC, "-keyout", `${ca}.key`, "-out", `${ca}.pem`, "-subj", `/CN=${ca} of a test`)
  }
  writeFileSync(path.join(folder, "names"), "subjectAltName=DNS:localhost\n")
  for (const [name, subject, ...extensions] of [["server", "/CN=localhost", "-extfile", "names"], ["client", "/CN=certified"]] as const) {
    await openssl("req", ...EC, "-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", subject)
    const signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", ...extensions]
    await openssl("x509", "-req", "-in", `${name}.csr`, "-out", `${name}.pem`, ...signing)
  }
}

export interface TlsPostgres {
  /** The folder of the certificates and the socket files. Each server has a database `slipway` that belongs to `tls_only`. */
  readonly folder: string
  readonly ports: Readonly<Record<"tls" | "plain", number>>
}

/** Both end with the scope. */
export const make = Effect.gen(function*() {
  const home = yield* PostgresCluster.home
  const [tls, plain] = [path.join(home.folder, "tls"), path.join(home.folder, "plain")]
  yield* PostgresCluster.initialise(home, tls)
  yield* Effect.promise(() => certificates(home.folder))
  if (home.account !== null) chownSync(path.join(home.folder, "server.key"), home.account.uid, home.account.gid)
  chmodSync(path.join(home.folder, "server.key"), 0o600)
  writeFileSync(path.join(tls, "pg_hba.conf"), ADMISSION)
  const roles = ["certified", "tls_only", "plain_only", "with_password"].map((name) => `CREATE ROLE ${name} LOGIN\n`)
  const { postgres } = yield* PostgresCluster.binariesFor(home)
  yield* run(postgres, ["--single", "-D", tls, "postgres"], {
    account: home.account,
    cwd: tls,
    input: [...roles, "CREATE DATABASE slipway OWNER tls_only\n"].join("")
  })
  cpSync(tls, plain, { recursive: true })
  chmodSync(plain, 0o700)
  if (home.account !== null) yield* run("chown", ["-R", `${home.account.uid}:${home.account.gid}`, plain])
  const files = [["cert", "server.pem"], ["key", "server.key"], ["ca", "ca.pem"]] as const
  const named = files.map(([name, file]) => `ssl_${name}_file = '${path.join(home.folder, file)}'\n`)
  appendFileSync(path.join(tls, "postgresql.conf"), ["ssl = on\n", ...named].join(""))
  const settings = { unix_socket_directories: home.folder, listen_addresses: "127.0.0.1,::1" }
  const servers = { tls: yield* PostgresCluster.cluster(home, tls, settings), plain: yield* PostgresCluster.cluster(home, plain, settings) }
  yield* servers.tls.start
  yield* servers.plain.start
  const made: TlsPostgres = { folder: home.folder, ports: { tls: servers.tls.port, plain: servers.plain.port } }
  return made
})
