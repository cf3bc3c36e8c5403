/** The common parts of commands that administer a service, running or stopped. */
import { Acting } from "@slipway/domain/access/ports/AuditLog"
import { Duration, Effect, Fiber, Layer, Schema, Scope } from "effect"
import * as RunningServices from "../../service/RunningServices.ts"
import * as Storage from "../../service/storage/Storage.ts"
import * as Settings from "../../settings/Settings.ts"
import { settings as storage } from "../../settings/Storage.ts"

/** How long a command waits for its database, and for the cleanup at its end. */
const PATIENCE = Duration.seconds(20)

/** The database did not answer in time; the command did nothing. */
class Unanswered extends Schema.TaggedError<Unanswered>()("Unanswered", { database: Schema.String }) {
  override get message() {
    return `${this.database} is not ready after ${Duration.format(PATIENCE)}, and the command did nothing. ` +
      "Its service may be starting, stopping or being upgraded: try again. If that does not help, restart the service and look at its logs."
  }
}

/** Continues with `otherwise` after `PATIENCE`, even if `self` cannot be interrupted. */
const patient = <A, E, R, A2, E2, R2>(self: Effect.Effect<A, E, R>, otherwise: Effect.Effect<A2, E2, R2>) =>
  Effect.flatMap(Effect.forkDetach(self), (fiber) =>
    Effect.interruptible(Fiber.join(fiber)).pipe(
      Effect.onInterrupt(() => Effect.forkDetach(Fiber.interrupt(fiber))),
      Effect.timeoutOrElse({ duration: PATIENCE, orElse: () => otherwise })
    ))

/** The stores of the service for a command. Fails if they are not ready in time. */
export const stores = (settings: Settings.Settings) =>
  Layer.effectContext(Effect.gen(function*() {
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer((exit) => patient(Scope.close(scope, exit), Effect.void))
    const { dataDir, databaseUrl } = settings
    const database = databaseUrl === null ? `the database in ${dataDir}` : `the database that ${storage.databaseUrl.name} names`
    return yield* patient(Layer.buildWithScope(Storage.layer(settings, false), scope), new Unanswered({ database }))
  }))

/** Runs `use` with the stores of the service in the settings. */
export const administration = <A, E, R>(use: Effect.Effect<A, E, R | Layer.Success<ReturnType<typeof Storage.layer>>>) =>
  Effect.flatMap(Effect.flatMap(Settings.load, RunningServices.find), (settings) => Effect.provide(use, stores(settings))).pipe(
    Effect.provideService(Acting, { _tag: "Operator" })
  )
