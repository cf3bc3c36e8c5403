/** Real Postgres from npm for a Slipway that was named none: nothing to install, the same SQL as everywhere else. */
import { Context, Effect, Layer, Schedule } from "effect"
import * as PostgresServer from "./PostgresServer.ts"

export class EmbeddedPostgres extends Context.Service<EmbeddedPostgres, {
  readonly connection: PostgresServer.Connection
}>()("@slipway/embedded-postgres/EmbeddedPostgres") {
  /**
   * Runs the server for as long as the layer lives, and starts it again should it end. For the service itself: fails
   * with `InUse`, naming the process, when another one runs a server over the same data folder.
   */
  static readonly layer = (options: PostgresServer.Options) =>
    Layer.effect(EmbeddedPostgres, Effect.map(PostgresServer.start(options), (connection) => ({ connection })))

  /**
   * Uses the server that runs over the data folder, or runs one for as long as the layer lives. For commands, which
   * must work whether or not the service is up, several at once too. The service stops its server whoever uses it.
   */
  static readonly layerConnectOrStart = (options: PostgresServer.Options) =>
    Layer.effect(
      EmbeddedPostgres,
      Effect.gen(function*() {
        const connection = (yield* PostgresServer.join(options)) ?? (yield* PostgresServer.startForCommand(options))
        return { connection }
      }).pipe(
        // Somebody started one between our looking and our starting.
        Effect.retry({ while: (error) => error.reason === "InUse", schedule: Schedule.spaced("50 millis"), times: 100 })
      )
    )
}
