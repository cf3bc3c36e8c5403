/** What the commands that administer a service share. They work whether or not the service is running. */
import { Acting } from "@slipway/domain/access/AuditLog"
import { Effect, type Layer } from "effect"
import { Flag } from "effect/cli"
import * as Services from "../service/Services.ts"
import * as Storage from "../service/Storage.ts"
import * as Settings from "../settings/Settings.ts"

export const json = Flag.Boolean("json").pipe(
  Flag.withDescription("Print one JSON value instead of a table"),
  Flag.withDefault(false)
)

/** Runs `use` against the stores of the service that the settings name. */
export const administration = <A, E, R>(use: Effect.Effect<A, E, R | Layer.Success<ReturnType<typeof Storage.layer>>>) =>
  Effect.flatMap(Effect.flatMap(Settings.load, Services.find), (settings) => Effect.provide(use, Storage.layer(settings, false))).pipe(
    Effect.provideService(Acting, { _tag: "Operator" })
  )
