/** The service that a command works on, for commands that load the settings: see {@link FindService}. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { mkdir, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import type { Settings } from "../settings/Settings.ts"
import * as FindService from "./FindService.ts"
import * as TemporaryFolder from "./storage/TemporaryFolder.ts"

/** No service was found, or more than one. Nothing was made. */
export class NoService extends Schema.TaggedError<NoService>()("NoService", { detail: Schema.String }) {
  readonly exitCode = 2
  override get message() {
    return this.detail
  }
}

/** Lets commands find this process until the scope closes. Without a writable home, they cannot find it. */
export const announce = ({ dataDir, databaseUrl, role }: Pick<Settings, "dataDir" | "databaseUrl" | "role">, publicUrl: string) =>
  Effect.acquireRelease(
    Effect.gen(function*() {
      yield* Effect.promise(FindService.running)
      const file = path.join(FindService.folder(), `${process.pid}.json`)
      yield* Effect.tryPromise(async () => {
        const began = await FindService.beginningOf(process.pid) ?? null
        const own: FindService.Running = {
          pid: process.pid,
          began,
          dataDir,
          publicUrl: role === "worker" ? null : publicUrl,
          embedded: databaseUrl === null
        }
        await mkdir(path.dirname(file), { recursive: true, mode: 0o700 })
        await writeFile(file, JSON.stringify(own), { mode: 0o600 })
      }).pipe(Effect.catch((error) => Effect.logDebug("commands will not find this service by themselves", { error })))
      return file
    }),
    (file) => Effect.promise(() => rm(file, { force: true }).catch(() => {}))
  )

/** The settings with the data folder of the service that a command means. */
export const find = Effect.fn("RunningServices.find")(function*(settings: Settings) {
  if (settings.databaseUrl !== null) return settings
  const found = yield* Effect.promise(() => FindService.findFolder(settings))
  return "problem" in found ? yield* new NoService({ detail: found.problem }) : { ...settings, dataDir: found.dataDir }
})

/** The address of the service that a command works on, if this user runs it; `null`: unknown. */
export const addressOf = (settings: Settings) =>
  settings.databaseUrl === null ? Effect.promise(() => FindService.addressOf(settings)) : Effect.succeed(null)

/** For commands without a database: the folder of the service, otherwise the configured one. */
export const findFolder = (settings: Settings): Effect.Effect<Settings> =>
  Effect.catchTag(find(settings), "NoService", () => Effect.succeed(settings))

/**
 * For commands that try out parts of the service. `tried` is the folder for that: in the service's data folder, or a temporary folder
 * if there is no service. `settings` are those of the service.
 */
export const findToTry = Effect.fnUntraced(function*(given: Settings) {
  const service = yield* Effect.option(find(given))
  if (Option.isSome(service)) return { settings: service.value, tried: service.value }
  return { settings: given, tried: { ...given, dataDir: yield* TemporaryFolder.make("try") } }
})
