/**
 * A server as one writes it by hand: starts the Postgres of a data folder, connects, and answers whether it can serve. It checks
 * nothing that a service checks before it takes work: no key, no schema, no boxes, no git, no server left by a killed process.
 */
import { spawn } from "node:child_process"
import { createServer } from "node:http"
import { enableCompileCache } from "node:module"
import { setTimeout as sleep } from "node:timers/promises"

interface Settings {
  readonly cacheDirectory: string
  /** Program and arguments of Postgres. */
  readonly postgres: ReadonlyArray<string>
  readonly cluster: string
  /** Whose the cluster is; `null`: ours. */
  readonly account: { readonly uid: number; readonly gid: number } | null
  readonly user: string
  readonly database: string
  readonly port: number
}

const settings = JSON.parse(process.argv[2] ?? "") as Settings
enableCompileCache(settings.cacheDirectory)
const [program = "", ...args] = settings.postgres
const postgres = spawn(program, args, { cwd: settings.cluster, stdio: ["ignore", "ignore", "inherit"], ...settings.account ?? {} })
// While it starts.
const { default: { Pool } } = await import("pg")
const pool = new Pool({ host: settings.cluster, user: settings.user, database: settings.database, max: 10 })
pool.on("error", () => {})
for (;;) {
  try {
    await pool.query("SELECT 1")
    break
  } catch {
    if (postgres.exitCode !== null) throw new Error("Postgres ended")
    await sleep(5)
  }
}
const server = createServer((_, response) => {
  void pool.query("SELECT 1").then(
    () => response.writeHead(200, { "content-type": "application/json" }).end(`{"status":"ok"}`),
    () => response.writeHead(503).end()
  )
})
server.listen(settings.port, "127.0.0.1")
process.once("SIGTERM", () => {
  server.close()
  server.closeAllConnections()
  postgres.once("exit", () => process.exit(0))
  void pool.end().then(() => postgres.kill("SIGINT"))
})
