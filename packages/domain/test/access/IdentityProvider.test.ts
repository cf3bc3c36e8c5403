import * as IdentityProviderMemory from "@slipway/domain/memory/IdentityProviderMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import { suite } from "@slipway/domain/testing/IdentityProviderContract"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const person = { subject: "583231", login: "ada-l", name: "Ada Lovelace", email: null }

register(suite("memory", IdentityProviderMemory.layer(person).pipe(Layer.provide(IdsMemory.layer)), { person, visit: Effect.succeed }))
