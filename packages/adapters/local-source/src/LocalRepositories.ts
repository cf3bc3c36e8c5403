/** The repositories of this machine that sandboxes may start from, as `slipway repos` manages them. */
import type { RepositoryQuery } from "@slipway/domain/source/ports/SourceHost"
import { sameRepo } from "@slipway/domain/source/schema/Naming"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Reads } from "@slipway/postgres/Database"
import * as Batches from "@slipway/postgres/sql/Batches"
import { guard } from "@slipway/postgres/sql/SqlFailure"
import { textArray } from "@slipway/postgres/sql/TextArray"
import { Context, DateTime, Effect, Exit, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { access, constants, realpath, stat } from "node:fs/promises"
import { resolve } from "node:path"
import * as LocalGit from "./LocalGit.ts"

export const LocalRepository = Schema.Struct({
  fullName: RepoName,
  /** An absolute path without links: a bare repository or the top folder of a checkout. */
  path: Schema.String
})
export type LocalRepository = typeof LocalRepository.Type

/** The path is not a usable repository. The message says what to do. */
export class UnusableRepository extends Schema.TaggedError<UnusableRepository>()("UnusableRepository", {
  path: Schema.String,
  reason: Schema.Literals(["missing", "unreadable", "not a repository", "empty", "shallow", "sha256"])
}) {
  override get message() {
    switch (this.reason) {
      case "missing":
        return `${this.path} does not exist, or is no folder.`
      case "unreadable":
        return `${this.path} may not be read by the user that Slipway runs as.`
      case "not a repository":
        return `${this.path} is no git repository. Name the top folder of a checkout (the one with .git in it) or a bare repository.`
      case "empty":
        return `${this.path} has no commit on any branch yet. Make one first.`
      case "shallow":
        return `${this.path} is a shallow clone. Run "git fetch --unshallow" in it first.`
      case "sha256":
        return `${this.path} uses SHA-256 object names, which Slipway does not support yet.`
    }
  }
}

export class LocalRepositories extends Context.Service<LocalRepositories, {
  /** Adds a repository, or changes the path of its name (case is ignored). Safe to repeat. */
  register(fullName: RepoName, path: string): Effect.Effect<LocalRepository, UnusableRepository | StoreUnavailable>
  /** By name. */
  readonly list: Effect.Effect<ReadonlyArray<LocalRepository>, StoreUnavailable>
  /** A page of names, in the order of their lower case. */
  page(query: Omit<RepositoryQuery, "owners">): Effect.Effect<ReadonlyArray<RepoName>, StoreUnavailable>
  /** The names without a repository. */
  missing(fullNames: ReadonlyArray<RepoName>): Effect.Effect<ReadonlyArray<RepoName>, StoreUnavailable>
  find(fullName: RepoName): Effect.Effect<Option.Option<LocalRepository>, StoreUnavailable>
  /** The repository with this absolute path; the first by name, if several have it. */
  at(path: string): Effect.Effect<Option.Option<LocalRepository>, StoreUnavailable>
  /** Removes a repository from the list and does not touch its files. `false`: unknown name. */
  remove(fullName: RepoName): Effect.Effect<boolean, StoreUnavailable>
}>()("@slipway/local-source/LocalRepositories") {
  static readonly layer = Layer.effect(
    LocalRepositories,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const reads = (yield* Reads) ?? sql
      const columns = sql.literal(`full_name AS "fullName", path`)

      const upsert = SqlSchema.findOne({
        Request: Schema.Struct({ ...LocalRepository.fields, at: Schema.DateTimeUtcFromDate }),
        Result: LocalRepository,
        execute: ({ at, fullName, path }) =>
          sql`
          INSERT INTO local_repositories (full_name, path, created_at) VALUES (${fullName}, ${path}, ${at})
          ON CONFLICT (lower(full_name)) DO UPDATE SET full_name = excluded.full_name, path = excluded.path, removed_at = NULL
          RETURNING ${columns}`
      })
      const select = SqlSchema.findOneOption({
        Request: RepoName,
        Result: LocalRepository,
        execute: (fullName) =>
          sql`
          SELECT ${columns} FROM local_repositories WHERE lower(full_name) = lower(${fullName}) AND removed_at IS NULL`
      })
      const selectAt = SqlSchema.findOneOption({
        Request: Schema.String,
        Result: LocalRepository,
        execute: (path) =>
          sql`
          SELECT ${columns} FROM local_repositories WHERE path = ${path} AND removed_at IS NULL ORDER BY lower(full_name) LIMIT 1`
      })
      const decodeName = Schema.decodeUnknownSync(RepoName)
      /** Finds the known names, in one query for concurrent callers. */
      const known = Batches.make({
        client: reads,
        run: (asked: ReadonlyArray<ReadonlyArray<RepoName>>) =>
          Effect.map(
            reads`
            SELECT full_name AS "fullName" FROM local_repositories
            WHERE lower(full_name) = ANY(${textArray([...new Set(asked.flat().map((fullName) => fullName.toLowerCase()))])}::text[])
              AND removed_at IS NULL`,
            (rows) => {
              const names = rows.map(({ fullName }) => decodeName(fullName))
              return asked.map(() => Exit.succeed(names))
            }
          ),
        most: 32,
        underWay: 2
      })
      const selectAll = SqlSchema.findAll({
        Request: Schema.Void,
        Result: LocalRepository,
        execute: () => sql`SELECT ${columns} FROM local_repositories WHERE removed_at IS NULL ORDER BY lower(full_name)`
      })

      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({ after: Schema.String, search: Schema.String, limit: Schema.Int }),
        Result: Schema.Struct({ fullName: RepoName }),
        execute: ({ after, limit, search }) =>
          sql`
          SELECT full_name AS "fullName" FROM local_repositories
          WHERE removed_at IS NULL AND lower(full_name) COLLATE "C" > ${after} AND strpos(lower(full_name), ${search}) > 0
          ORDER BY lower(full_name) COLLATE "C" LIMIT ${limit}`
      })

      return LocalRepositories.of({
        register: Effect.fn("LocalRepositories.register")(function*(fullName: RepoName, path: string) {
          const real = yield* inspect(resolve(path))
          return yield* upsert({ fullName, path: real, at: yield* DateTime.now }).pipe(
            Effect.catchTag("NoSuchElementError", Effect.die),
            guard
          )
        }),
        list: guard(selectAll()),
        page: Effect.fn("LocalRepositories.page")(({ after, limit, search }: Omit<RepositoryQuery, "owners">) =>
          Effect.map(
            guard(selectPage({ after: after?.toLowerCase() ?? "", search: search.toLowerCase(), limit })),
            (rows) => rows.map(({ fullName }) => fullName)
          )
        ),
        missing: Effect.fn("LocalRepositories.missing")(function*(fullNames: ReadonlyArray<RepoName>) {
          const found = yield* known(fullNames)
          return fullNames.filter((fullName) => !found.some((one) => sameRepo(one, fullName)))
        }),
        at: Effect.fn("LocalRepositories.at")((path: string) => guard(selectAt(path))),
        find: Effect.fn("LocalRepositories.find")((fullName: RepoName) => guard(select(fullName))),
        remove: Effect.fn("LocalRepositories.remove")(function*(fullName: RepoName) {
          const at = DateTime.formatIso(yield* DateTime.now)
          const removed = yield* guard(sql`
            UPDATE local_repositories SET removed_at = ${at}
            WHERE lower(full_name) = lower(${fullName}) AND removed_at IS NULL RETURNING id`)
          return removed.length > 0
        })
      })
    })
  )
}

/** The real path of a repository that sandboxes can start from. */
const inspect = Effect.fnUntraced(function*(path: string) {
  const refuse = (reason: UnusableRepository["reason"]) => new UnusableRepository({ path, reason })
  const real = yield* Effect.tryPromise({ try: () => realpath(path), catch: () => refuse("missing") })
  if (!(yield* Effect.promise(() => stat(real))).isDirectory()) return yield* refuse("missing")
  yield* Effect.tryPromise({ try: () => access(real, constants.R_OK | constants.X_OK), catch: () => refuse("unreadable") })
  const shape = yield* LocalGit.run(real, ["rev-parse", "--is-shallow-repository", "--show-object-format"]).pipe(
    Effect.mapError(({ stderr }) => refuse(/ermission denied/u.test(stderr) ? "unreadable" : "not a repository"))
  )
  const [shallow, format] = shape.split("\n")
  if (shallow === "true") return yield* refuse("shallow")
  if (format !== "sha1") return yield* refuse("sha256")
  const branch = yield* LocalGit.run(real, ["for-each-ref", "--count=1", "refs/heads"]).pipe(
    Effect.mapError(() => refuse("not a repository"))
  )
  if (branch === "") return yield* refuse("empty")
  return real
})
