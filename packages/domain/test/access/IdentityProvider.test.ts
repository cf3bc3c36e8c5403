import { IdentityProvider } from "@slipway/domain/access/IdentityProvider"
import { Ids } from "@slipway/domain/Ids"
import { suite } from "@slipway/domain/testing/IdentityProviderContract"
import { Effect, Layer } from "effect"

const person = { subject: "583231", login: "ada-l", name: "Ada Lovelace", email: null }

suite("memory", IdentityProvider.layerMemory(person).pipe(Layer.provide(Ids.layerMemory)), { person, visit: Effect.succeed })
