/** A process that is nothing but a model gateway with two sessions, for what is done to it: tells its address and their tokens. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SpendingMemory from "@slipway/domain/memory/models/SpendingMemory"
import { ModelGateway } from "@slipway/domain/models/ports/ModelGateway"
import * as ModelGatewayHttp from "@slipway/gateway/ModelGatewayHttp"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { Effect, Layer, Redacted } from "effect"

const gateway = ModelGatewayHttp.layer({ keys: new Map([["PROVIDER_KEY", Redacted.make("sk-test")]]) }).pipe(
  Layer.provideMerge(SpendingMemory.layer),
  Layer.provideMerge(IdsNode.layer)
)

const upstream = {
  protocol: "openai-chat" as const,
  baseUrl: "http://127.0.0.1:9",
  model: "the-model",
  keyVariable: "PROVIDER_KEY",
  prices: { input: 1, cachedInput: 1, cacheWrite: 1, output: 1 },
  contextTokens: 10_000,
  outputTokens: 1000
}

Effect.runFork(
  Effect.gen(function*() {
    const { open } = yield* ModelGateway
    const session = yield* open({ sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), grantId: "grant", upstream })
    const other = yield* open({ sandboxId: SandboxId.make("c_bbbbbbbbbbbb"), grantId: "other", upstream })
    const told = {
      address: session.access.baseUrl,
      token: Redacted.value(session.access.token),
      other: Redacted.value(other.access.token)
    }
    yield* Effect.sync(() => process.stdout.write(`${JSON.stringify(told)}\n`))
    return yield* Effect.never
  }).pipe(Effect.scoped, Effect.provide(gateway), Effect.orDie)
)
