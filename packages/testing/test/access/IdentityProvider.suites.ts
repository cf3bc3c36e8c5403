import { AS_INVITED } from "@slipway/domain/access/rules/Entry"
import * as IdentityProviderMemory from "@slipway/domain/memory/access/IdentityProviderMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import { suite } from "@slipway/testing/contracts/access/IdentityProviderContract"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const person = { provider: "github" as const, entry: AS_INVITED, subject: "583231", login: "ada-l", name: "Ada Lovelace", email: null }
const layer = IdentityProviderMemory.layer(person).pipe(Layer.provide(IdsMemory.layer))

export const suites = () => [suite("memory", layer, { person, visit: Effect.succeed })]
