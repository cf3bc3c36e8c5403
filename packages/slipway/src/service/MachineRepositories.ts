/** The repositories of this machine for the pages of a process whose source host is the machine: what `slipway repos` does. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as LocalFiles from "@slipway/local-source/LocalFiles"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import { MachineRepositories, UnusableFolder } from "@slipway/pages/repositories/MachineRepositories"
import { guard } from "@slipway/postgres/sql/SqlFailure"
import { DateTime, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { realpath } from "node:fs/promises"
import path from "node:path"
import type { Settings } from "../settings/Settings.ts"
import * as SourceHosts from "./hosts/SourceHosts.ts"
import * as SampleRepository from "./SampleRepository.ts"

const isWithin = (folder: string, of: string): boolean => {
  const way = path.relative(of, folder)
  return way === "" || way !== ".." && !way.startsWith(`..${path.sep}`)
}

/** The folder without links. A missing or unreadable folder stays as it is, and is refused later. */
const realOf = (folder: string) => Effect.orElseSucceed(Effect.tryPromise(() => realpath(folder)), () => folder)

/** The data folder has clones and trees of all organizations: an owner at a page must not make one of them a repository. */
const outside = Effect.fnUntraced(function*(dataDir: string, folder: string) {
  const [real, data] = yield* Effect.all([realOf(folder), realOf(path.resolve(dataDir))])
  if (isWithin(real, data)) {
    return yield* new UnusableFolder({ text: `${folder} is in the data folder of the service. Choose another folder.` })
  }
})

/** `dataDir`: the data folder, whose repositories are refused. */
export const layerOutside = (dataDir: string) =>
  Layer.effect(
    MachineRepositories,
    Effect.gen(function*() {
      const repositories = yield* LocalRepositories
      const audit = yield* AuditLog
      const sql = yield* SqlClient.SqlClient
      const told = Effect.fnUntraced(function*(action: "repository.added" | "repository.removed", repository: RepoName) {
        yield* audit.append([{ action, at: yield* DateTime.now, subjects: { repository } }])
      })
      const register = Effect.fnUntraced(function*(name: RepoName, folder: string) {
        yield* repositories.register(name, folder)
        yield* told("repository.added", name)
      }, (self) => guard(sql.withTransaction(self)))
      return {
        list: repositories.list,
        add: Effect.fnUntraced(function*(name, folder) {
          yield* outside(dataDir, folder)
          yield* register(name, folder)
        }, Effect.catchTag("UnusableRepository", ({ message }) => Effect.fail(new UnusableFolder({ text: message })))),
        addSample: Effect.flatMap(SampleRepository.inFolder(dataDir), (folder) => register(SampleRepository.NAME, folder)).pipe(
          Effect.catchTag("UnusableRepository", Effect.die)
        ),
        names: Effect.fnUntraced(function*(name, ref, folder) {
          const repository = Option.getOrNull(yield* repositories.find(name))
          return repository === null ? [] : yield* LocalFiles.names(repository.path, ref, folder)
        }),
        remove: Effect.fnUntraced(function*(name) {
          const removed = yield* repositories.remove(name)
          if (removed) yield* told("repository.removed", name)
          return removed
        }, (self) => guard(sql.withTransaction(self)))
      }
    })
  )

/** For the pages of a process whose repositories are those of its machine. */
export const layer = ({ dataDir, role, ...settings }: Pick<Settings, "dataDir" | "role" | "sourceHosts">) =>
  !SourceHosts.hasLocal(settings) || role !== "all" ? Layer.empty : layerOutside(dataDir)
