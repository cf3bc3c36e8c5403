/** Real Postgres from npm for a Slipway without a configured database: no installation, the same SQL everywhere. */
import { Context, Effect, Layer, Schedule } from "effect"
import * as PostgresServer from "./PostgresServer.ts"

export class EmbeddedPostgres extends Context.Service<EmbeddedPostgres, {
  readonly connection: PostgresServer.Connection
}>()("@slipway/embedded-postgres/EmbeddedPostgres") {
  /**
   * Runs the server for the life of the layer, and restarts it if it ends. For the service itself: fails with `InUse`, naming the
   * process, if another process runs a server on the same data folder.
   */
  static readonly layer = (options: PostgresServer.Options) =>
    Layer.effect(EmbeddedPostgres, Effect.map(PostgresServer.start(options), (connection) => ({ connection })))

  /**
   * Uses the running server of the data folder, or runs one for the life of the layer. For commands, which must work with or without
   * the service, also several at once. The service stops its server even while commands use it.
   */
  static readonly layerConnectOrStart = (options: PostgresServer.Options) =>
    Layer.effect(
      EmbeddedPostgres,
      Effect.gen(function*() {
        const connection = (yield* PostgresServer.join(options)) ?? (yield* PostgresServer.startForCommand(options))
        return { connection }
      }).pipe(
        // Another process started a server between our check and our start.
        Effect.retry({ while: (error) => error.reason === "InUse", schedule: Schedule.spaced("50 millis"), times: 100 })
      )
    )
}
