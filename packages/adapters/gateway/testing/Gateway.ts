/** A gateway for tests, with a ledger in memory. */
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SpendingMemory from "@slipway/domain/memory/models/SpendingMemory"
import { ModelGateway } from "@slipway/domain/models/ports/ModelGateway"
import type { Spending } from "@slipway/domain/models/ports/Spending"
import type { Upstream, UpstreamProtocol } from "@slipway/domain/models/schema/ModelCatalogue"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { PRICES } from "@slipway/testing/contracts/models/ModelGatewayContract"
import { Effect, Exit, Layer, Redacted, Scope } from "effect"
import * as ModelGatewayHttp from "../src/ModelGatewayHttp.ts"

export const KEY = "sk-canary-5f0c1e9b7a3d4286"

export const upstreamOf = (protocol: UpstreamProtocol, baseUrl: string, more: Partial<Upstream> = {}): Upstream => ({
  protocol,
  baseUrl,
  model: "the-model",
  keyVariable: "PROVIDER_KEY",
  prices: PRICES,
  contextTokens: 10_000,
  outputTokens: 1000,
  ...more
})

/** With a ledger of the test's own. */
export const layerOn = <A>(ledger: Layer.Layer<Spending | A>, options: Partial<ModelGatewayHttp.Options> = {}) =>
  ModelGatewayHttp.layer({ keys: new Map([["PROVIDER_KEY", Redacted.make(KEY)]]), ...options }).pipe(
    Layer.provideMerge(ledger),
    Layer.provideMerge(IdsNode.layer)
  )

export const layer = (options: Partial<ModelGatewayHttp.Options> = {}) => layerOn(SpendingMemory.layer, options)

export const newSandbox = Effect.gen(function*() {
  const ids = yield* Ids
  return { sandboxId: SandboxId.make(`c_${yield* ids.random(ID_ALPHABET, 12)}`), grantId: yield* ids.uuid7 }
})

/** A session for a sandbox of its own. */
export const open = Effect.fnUntraced(function*(upstream: Upstream, where?: Effect.Success<typeof newSandbox>) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const of = where ?? (yield* newSandbox)
  const session = yield* (yield* ModelGateway).open({ ...of, upstream }).pipe(Scope.provide(scope))
  return { ...session, of, close: Scope.close(scope, Exit.void) }
})
