/**
 * The role of the service in its embedded database. It owns only the service's schema, so an injected statement can neither read files
 * of the server's account nor start programs. The superuser that made the cluster can no longer log in.
 */
import { Effect } from "effect"
import { constants } from "node:fs"
import { open, readFile, rename } from "node:fs/promises"
import path from "node:path"
import type { Account } from "./ServerAccount.ts"
import { run } from "./SystemProcess.ts"

export const SUPERUSER = "slipway"
export const ROLE = "slipway_service"
export const DATABASE = "slipway"

/** Admits a role over the socket in its private folder. All other logins are refused. */
const admission = (who: string) => `# Written by Slipway.\nlocal ${who} trust\n`

// Each line is a statement. If one fails because it was done before, the next one still runs.
const makeRole = (attributes: string) =>
  `CREATE ROLE ${ROLE} LOGIN NOSUPERUSER ${attributes}
CREATE DATABASE ${DATABASE} OWNER ${ROLE}
ALTER DATABASE ${DATABASE} OWNER TO ${ROLE}
`

/** Statements that give the whole schema to the role. Sequences of columns belong to their tables. */
const ownings = [
  `SELECT format('ALTER TABLE %s OWNER TO ${ROLE}', c.oid::regclass) FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace` +
  " AND c.relkind IN ('r', 'p', 'v', 'm', 'S')" +
  " AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i') AND c.relkind = 'S')",
  `SELECT format('ALTER ROUTINE %s OWNER TO ${ROLE}', p.oid::regprocedure) FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace`,
  `SELECT format('ALTER TYPE %s OWNER TO ${ROLE}', t.oid::regtype) FROM pg_type t WHERE t.typnamespace = 'public'::regnamespace` +
  " AND t.typtype IN ('e', 'd')"
].join(" UNION ALL ")

/** In a cluster of an earlier version, the superuser owns the tables. */
const handOver = `ALTER SCHEMA public OWNER TO ${ROLE}
DO $$ DECLARE own text; BEGIN FOR own IN ${ownings} LOOP EXECUTE own; END LOOP; END $$
`

/**
 * Makes the role, its database, and the login rules, unless they exist. `throwAway`: for tests, which make databases and roles
 * themselves. The server must not run. Safe to repeat after a kill at any point. Returns Postgres' error, or `null`.
 */
export const prepare = Effect.fn("ServiceRole.prepare")(function*(options: {
  readonly postgres: string
  /** The folder as we spell it, besides the server's spelling. */
  readonly own: string
  readonly cluster: string
  readonly account: Account | null
  readonly throwAway: boolean
}) {
  const { account, cluster, own, postgres, throwAway } = options
  const file = path.join(cluster, "pg_hba.conf")
  const wanted = admission(throwAway ? "all all" : `${DATABASE} ${ROLE}`)
  if ((yield* Effect.promise(() => readFile(file, "utf8"))) === wanted) return null

  const alone = (database: string, input: string) => run(postgres, ["--single", "-D", own, database], { account, cwd: cluster, input })
  const made = yield* alone("postgres", makeRole(throwAway ? "CREATEDB CREATEROLE" : "NOCREATEDB NOCREATEROLE"))
  if (!made.succeeded) return made.complaint
  const handed = yield* alone(DATABASE, handOver)
  if (!handed.succeeded) return handed.complaint

  // Last, because it marks the rest as done.
  yield* Effect.promise(async () => {
    const handle = await open(`${file}.new`, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW, 0o600)
    try {
      if (account !== null) await handle.chown(account.uid, account.gid)
      await handle.writeFile(wanted)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(`${file}.new`, file)
  })
  return null
})
