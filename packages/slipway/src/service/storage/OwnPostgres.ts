/** The database server of a service that was given none. */
import { EmbeddedPostgres } from "@slipway/embedded-postgres/EmbeddedPostgres"
import { Deferred, Effect, Fiber, Layer } from "effect"
import type { Settings } from "../../settings/Settings.ts"

const optionsOf = ({ dataDir, postgresAccount }: Settings) => ({
  dataDir,
  ...(postgresAccount === null ? {} : { account: postgresAccount })
})

/** Fails with `InUse` where another process runs it. */
export const layer = (settings: Settings) => EmbeddedPostgres.layer(optionsOf(settings))

/** For a command: the server that runs, or one for as long as it works. */
export const layerConnectOrStart = (settings: Settings) => EmbeddedPostgres.layerConnectOrStart(optionsOf(settings))

/**
 * Starts the server, and answers as soon as its process runs: what uses it can be loaded meanwhile, which takes about as long.
 * The layer waits for it, and fails as it does. It ends with the scope.
 */
export const begin = Effect.fnUntraced(function*(settings: Settings) {
  if (settings.databaseUrl !== null) return layer(settings)
  const begun = yield* Deferred.make<void>()
  const server = yield* Effect.forkScoped(Layer.build(EmbeddedPostgres.layer({ ...optionsOf(settings), begun })))
  yield* Effect.raceFirst(Deferred.await(begun), Fiber.await(server))
  return Layer.effectContext(Fiber.join(server))
})
