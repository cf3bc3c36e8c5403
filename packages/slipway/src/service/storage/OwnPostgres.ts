/** The embedded database server of a service without a configured database. */
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import { Deferred, Effect, Fiber, Layer } from "effect"
import type { Settings } from "../../settings/Settings.ts"

const optionsOf = ({ dataDir, postgresAccount }: Settings) => ({
  dataDir,
  ...(postgresAccount === null ? {} : { account: postgresAccount })
})

/** Fails with `InUse` if another process runs it. */
export const layer = (settings: Settings) => EmbeddedPostgres.layer(optionsOf(settings))

/** For a command: uses the running server, or runs one until the command ends. */
export const layerConnectOrStart = (settings: Settings) => EmbeddedPostgres.layerConnectOrStart(optionsOf(settings))

/**
 * Starts the server, and returns when its process runs, so that other modules can load meanwhile, which takes about as long. The layer
 * waits for the server and fails if it fails. The server ends with the scope.
 */
export const begin = Effect.fnUntraced(function*(settings: Settings) {
  if (settings.databaseUrl !== null) return layer(settings)
  const begun = yield* Deferred.make<void>()
  const server = yield* Effect.forkScoped(Layer.build(EmbeddedPostgres.layer({ ...optionsOf(settings), begun })))
  yield* Effect.raceFirst(Deferred.await(begun), Fiber.await(server))
  return Layer.effectContext(Fiber.join(server))
})
