/** The account that runs Postgres. Postgres refuses root, so a root process has to choose another one. */
import { Context, Effect } from "effect"
import { EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import { OptionNames } from "./options/OptionNames.ts"
import { run } from "./SystemProcess.ts"

export interface Account {
  readonly uid: number
  readonly gid: number
}

/** The accounts of this machine. */
export const Accounts = Context.Reference<{
  lookup(name: string): Effect.Effect<Account | null>
  /** Adds a system account without home and password. `lookup` shows whether it succeeded. */
  create(name: string): Effect.Effect<void>
}>("@slipway/embedded-postgres/Accounts", {
  defaultValue: () => ({
    // Uses `id` because /etc/passwd does not list accounts of a directory service.
    lookup: (name) =>
      Effect.all([run("id", ["-u", name]), run("id", ["-g", name])]).pipe(
        Effect.map(([uid, gid]) => uid.succeeded && gid.succeeded ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : null)
      ),
    create: (name) => Effect.asVoid(run("useradd", ["--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name]))
  })
})

const noAccount = Effect.fnUntraced(function*(detail: string) {
  const nameOf = yield* OptionNames
  return yield* new EmbeddedPostgresError({
    reason: "NoAccount",
    detail,
    hint: `Create an account for it (useradd --system --no-create-home slipway) and name it with ${nameOf("account")}, ` +
      `run Slipway as an ordinary user, or name a Postgres of your own with ${nameOf("databaseUrl")}.`
  })
})

/** `chosen` if given, otherwise the existing `slipway` or `postgres`, otherwise a new `slipway`. Never root. */
export const find = Effect.fn("ServerAccount.find")(function*(chosen?: string) {
  const accounts = yield* Accounts
  for (const name of chosen === undefined ? ["slipway", "postgres"] : [chosen]) {
    const account = yield* accounts.lookup(name)
    if (account !== null && account.uid !== 0) return account
  }
  if (chosen !== undefined) return yield* noAccount(`Postgres cannot run as "${chosen}": no such account, or it is root.`)
  yield* accounts.create("slipway")
  const created = yield* accounts.lookup("slipway")
  if (created === null) {
    return yield* noAccount("Postgres refuses to run as root, and no account could be made for it.")
  }
  return created
})
