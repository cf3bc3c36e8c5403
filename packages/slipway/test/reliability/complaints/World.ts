/** A service as these tests have it: real processes, a database of its own, one repository. */
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import pg from "pg"
import { folder, repository, run, serve } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

const isRoot = process.getuid?.() === 0

/** Whether the program is there and this is root; else what is left out for it is said. */
export const rootWith = (program: string, args: ReadonlyArray<string>, about: string): boolean => {
  const isThere = isRoot && spawnSync(program, args).status === 0
  if (!isThere) process.stderr.write(`NOT TESTED: ${about}; it takes root and ${program}\n`)
  return isThere
}

/** Where boxes have users and limits of their own. */
export const hasBoxes = rootWith("bwrap", ["--version"], "what takes boxes with limits")

/** One statement on the service's database. */
export const query = (databaseUrl: string, text: string, values: ReadonlyArray<unknown> = []) =>
  Effect.promise(async (): Promise<ReadonlyArray<Record<string, any>>> => {
    const client = new pg.Client({ connectionString: databaseUrl })
    await client.connect()
    try {
      return (await client.query(text, [...values])).rows
    } finally {
      await client.end()
    }
  })

/** A folder, a database and a repository `acme/shop` in them. */
export const place = Effect.gen(function*() {
  const data = yield* folder
  const databaseUrl = yield* TestPostgres.database(Migrations.layer)
  const shop = repository(data)
  yield* run(data, ["repos", "add", "acme/shop", shop], { DATABASE_URL: databaseUrl })
  return { data, databaseUrl, shop }
})

/** A process that does everything, in a place of its own. */
export const service = Effect.fnUntraced(function*(settings: Readonly<Record<string, string>> = {}) {
  const made = yield* place
  const server = yield* serve(made.data, { DATABASE_URL: made.databaseUrl, ...settings })
  return { ...made, server, api: Api.make(server) }
})

export const statuses = (events: ReadonlyArray<Api.Told>) => events.filter(({ type }) => type === "sandbox.status").map(({ data }) => data)

export const ofType = (events: ReadonlyArray<Api.Told>, type: string) =>
  events.filter((event) => event.type === type).map(({ data }) => data)

/** The process with all that descend from it; those that ended meanwhile are left out. */
export const treeOf = (root: number): ReadonlyArray<number> => {
  const parents = readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "latin1")
      return [{ pid: Number(name), parent: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) }]
    } catch {
      return []
    }
  })
  const tree = [root]
  for (const pid of tree) tree.push(...parents.filter(({ parent }) => parent === pid).map((found) => found.pid))
  return tree
}

/** The command line of a process; empty where there is none. */
export const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ")
  } catch {
    return ""
  }
}
