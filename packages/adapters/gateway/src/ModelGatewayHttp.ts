/**
 * `ModelGateway` as a server on a loopback port and optionally a unix socket, which agents use like their provider. Requests are sent
 * with the operator's key and model, whatever the agent sends. Only what the protocol needs is passed in either direction. Every answer
 * is counted before the agent has all of it.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { ModelGateway, ModelGatewayError } from "@slipway/domain/models/ports/ModelGateway"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { authOf, isCloud } from "@slipway/domain/models/schema/CloudUpstream"
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { loopbackUrl } from "@slipway/machine/network/Loopback"
import { OutgoingAgent } from "@slipway/machine/network/OutgoingRequest"
import { Effect, FiberSet, Layer, Redacted } from "effect"
import { chmod, rm } from "node:fs/promises"
import { Agent as HttpAgent } from "node:http"
import type { AddressInfo } from "node:net"
import { CHARGE_WAIT } from "./accounting/Charge.ts"
import { LiveAccount } from "./accounting/LiveAccount.ts"
import type { Authorized, CloudCredentials, CredentialsUnavailable, ToAuthorize } from "./credentials/CloudCredentials.ts"
import { OptionNames } from "./options/OptionNames.ts"
import type { AddressRule } from "./preparation/Preparation.ts"
import * as Preparer from "./preparation/Preparer.ts"
import { protocols } from "./protocols/Protocol.ts"
import * as BedrockStream from "./providers/BedrockStream.ts"
import { destinationOf } from "./providers/Destinations.ts"
import { Admission, type Bounds } from "./server/Admission.ts"
import type { TimeLimits } from "./server/Exchange.ts"
import { IdleConnections } from "./server/IdleConnections.ts"
import * as Server from "./server/Server.ts"
import type { Gateway, Session } from "./server/Session.ts"

/** Keys of the operator's accounts, by their name in the catalogue (`keyVariable`). A map of constant keys is one. */
export interface Keys {
  /** The present key for the address; `undefined`: no key may be sent there. Asked before each request. */
  get(keyVariable: string, baseUrl: string): Redacted.Redacted | undefined
}

export interface Options {
  readonly keys: Keys
  /** The worker's identity at clouds. Without it, models with such an identity cannot be used. */
  readonly clouds?: CloudCredentials
  /** The path of an additional unix socket, readable by our user only. */
  readonly socket?: string
  /**
   * Whether requests may name images and documents by address. The provider fetches them, which is an egress from a box without a
   * network. Default `refuse`.
   */
  readonly addresses?: AddressRule
  readonly limits?: Partial<TimeLimits>
  /** Bytes of a request. Default 32 MiB, the limit of providers. */
  readonly maximumBytes?: number
  readonly bounds?: Partial<Bounds>
  /** Milliseconds from a request's head to the end of its body. Default 30 seconds: it comes from this machine. */
  readonly bodyMillis?: number
  /** Milliseconds that a request waits until others release their reservations. Default a minute. */
  readonly holdMillis?: number
}

const LIMITS: TimeLimits = { connectMillis: 10_000, firstByteMillis: 600_000, idleMillis: 300_000 }

/** An agent with sub-agents has about ten running requests, and their bodies are small compared to an image or two. */
const BOUNDS: Bounds = { requests: 32, bytes: 64 * 1024 * 1024, totalBytes: 256 * 1024 * 1024 }

/** Idle connections of one session. */
const IDLE_OF_SESSION = 64

/**
 * The cost of a session's refused requests, in bytes read in vain: per second, and at once. A session above it gets 429 before its
 * requests are read.
 */
const REFUSED = { perSecond: 4 * 1024 * 1024, atOnce: 16 * 1024 * 1024 }

const TOKEN_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
/** 62^43 is more than 2^256. */
const TOKEN_LENGTH = 43

type Opening = Parameters<ModelGateway["Service"]["open"]>[0]

interface Opened {
  readonly keys: Options["keys"]
  readonly clouds: Options["clouds"]
  readonly port: number
  readonly admission: Admission
  readonly sessions: Server.Sessions
}

/** How a session's requests are authorized; `null`: the service has no account with the provider. */
const authorizing = (upstream: Upstream, { clouds, keys }: Opened): Pick<Session, "authorize" | "credentialsRefused"> | null => {
  const { baseUrl, keyVariable, protocol } = upstream
  if (isCloud(upstream)) {
    return clouds === undefined ? null : {
      authorize: (request: ToAuthorize): Effect.Effect<Authorized, CredentialsUnavailable> => clouds.authorize(upstream, request),
      credentialsRefused: () => clouds.refused(authOf(upstream))
    }
  }
  const authorized = (): Authorized | null => {
    if (keyVariable === null) return { headers: {}, secrets: [] }
    const secret = keys.get(keyVariable, baseUrl)
    if (secret === undefined) return null
    const key = Redacted.value(secret)
    // Anthropic's protocol has the same header in Foundry.
    const isAzures = authOf(upstream) === "azure" && protocol !== "anthropic-messages"
    return { headers: isAzures ? { "api-key": key } : protocols[protocol].credentials(key), secrets: [key] }
  }
  return authorized() === null ? null : { authorize: () => Effect.sync(authorized), credentialsRefused: () => {} }
}

const open = Effect.fnUntraced(function*(
  { ids, spending }: Gateway,
  opened: Opened,
  { budget = null, grantId, sandboxId, upstream }: Opening
) {
  const { admission, port, sessions } = opened
  const authorization = authorizing(upstream, opened)
  if (authorization === null) {
    return yield* new ModelGatewayError({ detail: "The service has no account with the model's provider.", retryable: false })
  }
  const destination = destinationOf(upstream)
  const decoder = destination.decoder === null ? null : yield* Effect.promise(BedrockStream.load)
  const token = yield* ids.random(TOKEN_ALPHABET, TOKEN_LENGTH)
  const digest = ids.digest(token)
  const account = new LiveAccount(yield* spending.release(sandboxId), spending.creditMicros)
  const requests = yield* FiberSet.make<void>()
  const run = yield* FiberSet.runtime(requests)()
  const session: Session = {
    sandboxId,
    grantId,
    budget,
    upstream,
    protocol: protocols[upstream.protocol],
    destination,
    ...authorization,
    decoder,
    account,
    door: admission.open(),
    refusals: RateLimiter.allowance(REFUSED),
    idle: new IdleConnections(IDLE_OF_SESSION),
    activity: yield* RootSpan.CurrentActivity,
    run
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => sessions.set(digest, session)),
    // Comes before interrupting the requests, so that no new request starts.
    () =>
      Effect.sync(() => {
        sessions.delete(digest)
        session.door.close()
      })
  )
  return {
    access: {
      baseUrl: loopbackUrl(port),
      token: Redacted.make(token),
      model: upstream.model,
      contextTokens: upstream.contextTokens,
      outputTokens: upstream.outputTokens
    },
    account: Effect.sync(() => account.now),
    accounts: account.changes
  }
})

export const layer = (options: Options): Layer.Layer<ModelGateway, ModelGatewayError, Ids | Spending> =>
  Layer.effect(
    ModelGateway,
    Effect.gen(function*() {
      const { bodyMillis = 30_000, clouds, holdMillis = 60_000, keys, maximumBytes = 32 * 1024 * 1024, socket } = options
      const prepare = yield* Preparer.make(options.addresses ?? "refuse")
      const nameOf = yield* OptionNames
      const ids = yield* Ids
      const spending = yield* Spending
      const agents = {
        "http:": new HttpAgent({ keepAlive: true }),
        "https:": new OutgoingAgent({ keepAlive: true })
      }
      // Outlives sessions, because every cost must be recorded.
      const charging = yield* FiberSet.make<void>()
      const runCharge = yield* FiberSet.runtime(charging)()
      yield* Effect.addFinalizer(() => Effect.timeoutOption(FiberSet.awaitEmpty(charging), CHARGE_WAIT))

      const limits = { ...LIMITS, ...options.limits }
      const logged = new Set<string>()
      const gateway: Gateway = { ids, spending, prepare, nameOf, runCharge, agents, limits, maximumBytes, bodyMillis, holdMillis, logged }
      const sessions: Server.Sessions = new Map()
      const start = Server.make(gateway, sessions)
      const server = yield* start({ port: 0 })
      const { port } = server.address() as AddressInfo
      if (socket !== undefined) {
        yield* Effect.promise(() => rm(socket, { force: true }))
        yield* start({ socket })
        yield* Effect.promise(() => chmod(socket, 0o600))
      }
      yield* Effect.addFinalizer(() => Effect.sync(() => Object.values(agents).forEach((agent) => agent.destroy())))

      const opened: Opened = { keys, clouds, port, admission: new Admission({ ...BOUNDS, ...options.bounds }), sessions }
      return ModelGateway.of({
        open: Effect.fn("ModelGateway.open")((opening) => open(gateway, opened, opening)),
        forget: spending.release
      })
    })
  )
