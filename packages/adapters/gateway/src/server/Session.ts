/** One sandbox's access to its model, and the services that all sessions share. */
import type { Ids } from "@slipway/domain/ids/Ids"
import type { ModelCall, Spending } from "@slipway/domain/models/ports/Spending"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import type * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { type Context, Effect, type Fiber, Tracer } from "effect"
import type { Agent as HttpAgent } from "node:http"
import type { LiveAccount } from "../accounting/LiveAccount.ts"
import type { Authorized, CredentialsUnavailable, ToAuthorize } from "../credentials/CloudCredentials.ts"
import type { OptionNames } from "../options/OptionNames.ts"
import type { Prepare } from "../preparation/Preparer.ts"
import type { Protocol } from "../protocols/Protocol.ts"
import type { BedrockStream } from "../providers/BedrockStream.ts"
import type { Destination } from "../providers/Destination.ts"
import type { Door } from "./Admission.ts"
import type { TimeLimits } from "./Exchange.ts"
import type { IdleConnections } from "./IdleConnections.ts"

export interface Session {
  readonly sandboxId: ModelCall["sandboxId"]
  readonly grantId: string
  /** The own budget of the sandbox; `null`: it has none. */
  readonly budget: number | null
  readonly upstream: Upstream
  readonly protocol: Protocol
  readonly destination: Destination
  /** Authorizes a request that is to be sent now; `null`: the account was removed or moved to another address. */
  readonly authorize: (request: ToAuthorize) => Effect.Effect<Authorized | null, CredentialsUnavailable>
  /** The provider refuses the credentials. */
  readonly credentialsRefused: () => void
  /** See `Outgoing.decoder`. */
  readonly decoder: (() => BedrockStream) | null
  readonly account: LiveAccount
  readonly door: Door
  /** The remaining cost of its refused requests. */
  readonly refusals: RateLimiter.Allowance
  /** The connections of its last requests. */
  readonly idle: IdleConnections
  /** The turn that its agent works on. */
  readonly activity: RootSpan.Activity
  readonly run: (request: Effect.Effect<void>) => void
}

/** The services and limits of a gateway. */
export interface Gateway {
  readonly ids: Ids["Service"]
  readonly spending: Spending["Service"]
  readonly prepare: Prepare
  readonly nameOf: typeof OptionNames["Service"]
  /** Runs work that must also finish after a session ends: charges and their log. */
  readonly runCharge: (work: Effect.Effect<void>) => Fiber.Fiber<void>
  readonly agents: { readonly "http:": HttpAgent; readonly "https:": HttpAgent }
  readonly limits: TimeLimits
  readonly maximumBytes: number
  readonly bodyMillis: number
  readonly holdMillis: number
  /** Kinds of provider errors already logged, by upstream, until the provider answers again. */
  readonly logged: Set<string>
}

/** Traces a request as part of the turn that its agent works on. */
export const inTrace = ({ activity, sandboxId, upstream }: Session) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(RootSpan.Collected, (isCollected) => {
    if (!isCollected) return self
    return Effect.contextWith((context: Context.Context<never>) => {
      const parent = activity.current ?? RootSpan.current(context)
      return Effect.useSpan(`chat ${upstream.model}`, {
        ...(parent === undefined || parent === null ? { root: true } : { parent }),
        kind: "client",
        attributes: {
          "gen_ai.operation.name": "chat",
          "gen_ai.request.model": upstream.model,
          "gen_ai.conversation.id": sandboxId,
          "server.address": new URL(upstream.baseUrl).hostname
        }
      }, (span) => Effect.provideService(self, Tracer.ParentSpan, span))
    })
  })
