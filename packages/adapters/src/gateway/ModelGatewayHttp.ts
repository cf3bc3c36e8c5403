/**
 * `ModelGateway` as a server on a loopback port, and on a unix socket where one is asked for: agents talk to it as to their
 * provider. Requests go out with the operator's key and model, whatever the agent says; only what the protocol needs is let
 * through, either way. Every answer is counted before the agent has all of it.
 */
import { chmod, rm } from "node:fs/promises"
import { Agent as HttpAgent, createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { Agent as HttpsAgent } from "node:https"
import type { AddressInfo } from "node:net"
import { Cause, Effect, Exit, Fiber, FiberSet, Layer, Queue, Redacted, Schedule, Stream } from "effect"
import { costOf, noTokens } from "@slipway/domain/sandbox/Budget"
import type { Upstream } from "@slipway/domain/sandbox/ModelCatalogue"
import { type ModelAccount, ModelGateway, ModelGatewayError } from "@slipway/domain/sandbox/ModelGateway"
import { codeOf, type ModelCall, Spending, type SpendingRefused } from "@slipway/domain/sandbox/Spending"
import { addUsage, type Usage } from "@slipway/domain/sandbox/Usage"
import { Ids } from "@slipway/domain/Ids"
import { ofCutOff, upperBound } from "./Estimate.ts"
import { exchange, type Outcome, type Outgoing, refuse, type TimeLimits } from "./Exchange.ts"
import { isObject } from "./JsonFields.ts"
import { type Protocol, protocols } from "./Protocol.ts"
import { UsageMeter } from "./UsageMeter.ts"

export interface Options {
  /** Keys of the operator's accounts, by the name the catalogue gives them (`keyVariable`). */
  readonly keys: ReadonlyMap<string, Redacted.Redacted>
  /** Path of a unix socket to listen on beside the port; readable by our user alone. */
  readonly socket?: string
  readonly limits?: Partial<TimeLimits>
  /** Of a request. Default 32 MiB, which is what providers take. */
  readonly maximumBytes?: number
  /** How long a request waits for others to give back what they have reserved. Default a minute. */
  readonly holdMillis?: number
}

const LIMITS: TimeLimits = { connectMillis: 10_000, firstByteMillis: 600_000, idleMillis: 300_000 }

/** How long the end of a session waits for the ledger; charging goes on after it. */
const CHARGE_WAIT = "5 seconds"

const TOKEN_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
/** 62^43 is more than 2^256. */
const TOKEN_LENGTH = 43

/** One sandbox's way to its model. */
interface Session {
  readonly sandboxId: ModelCall["sandboxId"]
  readonly grantId: string
  readonly upstream: Upstream
  readonly protocol: Protocol
  readonly key: string | null
  readonly account: LiveAccount
  readonly run: (request: Effect.Effect<void>) => void
}

/** A model account that callbacks change, and those who listen to it. */
class LiveAccount {
  /** Of requests that are over, here and in earlier sessions. */
  #settled: Usage
  #refusals = 0
  #refusedFor: ModelAccount["refusedFor"] = null
  /** Costs of the requests under way, as far as they are known. */
  readonly #open = new Map<string, number>()
  readonly #listeners = new Set<() => void>()
  readonly #creditMicros: (microUsd: number) => number

  constructor(usage: Usage, creditMicros: (microUsd: number) => number) {
    this.#settled = usage
    this.#creditMicros = creditMicros
  }

  get now(): ModelAccount {
    const usage = Array.from(this.#open.values()).reduce((sum, cost) => this.#with(sum, cost), this.#settled)
    return { usage, refusals: this.#refusals, refusedFor: this.#refusedFor }
  }

  readonly changes = Stream.callback<ModelAccount>((queue) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        const tell = () => {
          Queue.offerUnsafe(queue, this.now)
        }
        this.#listeners.add(tell)
        tell()
        return tell
      }),
      (tell) => Effect.sync(() => this.#listeners.delete(tell))
    ), { bufferSize: 1, strategy: "sliding" })

  counting(id: string, cost: number): void {
    this.#open.set(id, cost)
    this.#tell()
  }

  /** `null`: the request did not count. */
  settle(id: string, cost: number | null): void {
    this.#open.delete(id)
    if (cost !== null) this.#settled = this.#with(this.#settled, cost)
    this.#tell()
  }

  #with(usage: Usage, cost: number): Usage {
    return addUsage(usage, { llmRequestCount: 1, costMicroUsd: cost, creditsChargedMicros: this.#creditMicros(cost) })
  }

  refused(reason: "budget_exceeded" | "no_credits"): void {
    this.#refusals++
    this.#refusedFor = reason
    this.#tell()
  }

  #tell(): void {
    for (const tell of this.#listeners) tell()
  }
}

const tokenOf = ({ headers }: IncomingMessage): string => {
  const key = headers["x-api-key"]
  if (typeof key === "string") return key
  return /^Bearer +(\S+)$/iu.exec(headers.authorization ?? "")?.[1] ?? ""
}

/** Whose errors a client understands that is not known to us. */
const protocolOf = (path: string): Protocol => path.startsWith(protocols["anthropic-messages"].route) ? protocols["anthropic-messages"] : protocols["openai-chat"]

const listen = (server: Server, where: { readonly port: 0 } | { readonly socket: string }) =>
  Effect.callback<void, ModelGatewayError>((resume) => {
    const failed = (cause: Error) =>
      resume(Effect.fail(new ModelGatewayError({ detail: `The model gateway cannot listen: ${cause.message}`, retryable: false })))
    server.once("error", failed)
    server.listen("socket" in where ? { path: where.socket } : { host: "127.0.0.1", port: where.port }, () => {
      server.off("error", failed)
      resume(Effect.void)
    })
  })

export const layer = (options: Options): Layer.Layer<ModelGateway, ModelGatewayError, Ids | Spending> =>
  Layer.effect(
    ModelGateway,
    Effect.gen(function*() {
      const { holdMillis = 60_000, keys, maximumBytes = 32 * 1024 * 1024, socket } = options
      const limits = { ...LIMITS, ...options.limits }
      const ids = yield* Ids
      const spending = yield* Spending
      // By the digest of their tokens: how long a look-up takes says nothing of a token.
      const sessions = new Map<string, Session>()
      const agents = {
        "http:": new HttpAgent({ keepAlive: true }),
        "https:": new HttpsAgent({ keepAlive: true })
      }

      // Runs on when a session ends: what was spent must be known.
      const charging = yield* FiberSet.make<void>()
      const runCharge = yield* FiberSet.runtime(charging)()
      yield* Effect.addFinalizer(() => Effect.timeoutOption(FiberSet.awaitEmpty(charging), CHARGE_WAIT))

      const charge = (call: ModelCall, cost: number | null) =>
        spending.charge(call, cost).pipe(
          Effect.retry(Schedule.upTo(Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("10 seconds")]), { duration: "10 minutes" })),
          Effect.tapCause((cause) =>
            Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logError("what a request to a model cost could not be recorded", { ...call, microUsd: cost }, cause)),
          Effect.ignoreCause
        )

      const read = (request: IncomingMessage) =>
        Effect.callback<Buffer | "too large" | "gone">((resume) => {
          const chunks: Array<Buffer> = []
          let length = 0
          request.on("data", (chunk: Buffer) => {
            length += chunk.length
            if (length <= maximumBytes) chunks.push(chunk)
            // The rest is read and dropped: an agent that still writes would not see the answer.
            else resume(Effect.succeed("too large"))
          })
          request.once("end", () => resume(Effect.succeed(Buffer.concat(chunks))))
          request.once("close", () => resume(Effect.succeed("gone")))
        })

      /** Waits while others hold what is left of the budget or the credits. */
      const reserve = (call: ModelCall, microUsd: number) => {
        const attempts = Math.max(1, Math.ceil(holdMillis / 250))
        return spending.reserve(call, microUsd).pipe(
          Effect.retry({
            while: (error) => error._tag !== "StoreUnavailable" && error.held,
            schedule: Schedule.spaced("250 millis"),
            times: attempts
          })
        )
      }

      const serve = Effect.fnUntraced(function*(session: Session, request: IncomingMessage, response: ServerResponse, path: string, free: boolean) {
        const { account, grantId, key, protocol, sandboxId, upstream } = session
        const refused = (status: number, code: string, message: string, headers?: Record<string, string>) =>
          Effect.sync(() => refuse(response, protocol, { status, code, message }, headers))

        const encoding = request.headers["content-encoding"] ?? "identity"
        if (encoding !== "identity") return yield* refused(415, "unsupported_encoding", "The model gateway takes no compressed requests.")
        const bytes = yield* read(request)
        if (bytes === "gone") return
        if (bytes === "too large") {
          return yield* refused(413, "request_too_large", `A request may have ${maximumBytes} bytes.`)
        }
        const asked = yield* Effect.sync(() => {
          try {
            const value: unknown = JSON.parse(bytes.toString("utf8"))
            return isObject(value) ? value : null
          } catch {
            return null
          }
        })
        if (asked === null) return yield* refused(400, "invalid_request", "The request is not a JSON object.")

        const prepared = protocol.prepare(asked, upstream)
        const body = JSON.stringify(prepared)
        const call: ModelCall = { id: yield* ids.uuid7, sandboxId, grantId }
        let meter: UsageMeter | null = null
        let outcome: Outcome = "unsent"

        const settle = Effect.suspend(() => {
          const { final, tokens } = meter?.counted ?? { final: false, tokens: noTokens }
          const took = outcome === "refused" ? noTokens : final ? tokens : ofCutOff(upstream, tokens, bytes.length, meter?.bytes ?? 0)
          const cost = outcome === "unsent" ? null : costOf(upstream.prices, took)
          account.settle(call.id, cost)
          return Effect.asVoid(Effect.timeoutOption(Fiber.await(runCharge(charge(call, cost))), CHARGE_WAIT))
        })

        const tooExpensive = (refusal: SpendingRefused) => {
          account.refused(codeOf(refusal))
          return refused(402, codeOf(refusal), refusal.message)
        }

        const sent = Effect.gen(function*() {
          yield* reserve(call, upperBound(upstream, body, protocol.outputLimit(prepared)))
          outcome = "cut"
          outcome = yield* exchange(out, response)
        }).pipe(
          Effect.onExit((exit) => Exit.isFailure(exit) && Cause.hasFails(exit.cause) ? Effect.void : settle),
          Effect.catchTags({
            BudgetExceeded: tooExpensive,
            NoCredits: tooExpensive,
            StoreUnavailable: () => {
              // Perhaps only the answer was lost.
              runCharge(charge(call, null))
              return refused(503, "unavailable", "The model gateway cannot account for requests just now.", { "retry-after": "1", "x-should-retry": "true" })
            }
          })
        )

        const url = new URL(`${upstream.baseUrl.replace(/\/+$/u, "")}${path.slice("/v1".length)}`)
        const query = new URL(request.url ?? "/", "http://gateway").searchParams
        if (query.get("beta") === "true") url.searchParams.set("beta", "true")
        const headers: Record<string, string> = {
          "content-type": "application/json",
          accept: prepared["stream"] === true ? "text/event-stream" : "application/json",
          "accept-encoding": "identity",
          "user-agent": "slipway",
          ...(key === null ? {} : protocol.credentials(key))
        }
        for (const name of protocol.headers) {
          const value = request.headers[name]
          if (typeof value === "string") headers[name] = value
        }
        const counted = () => {
          if (!free) account.counting(call.id, costOf(upstream.prices, meter?.counted.tokens ?? noTokens))
        }
        const out: Outgoing = {
          url,
          agent: agents[url.protocol === "https:" ? "https:" : "http:"],
          headers,
          body,
          key,
          protocol,
          limits,
          meter: (streaming) => {
            meter = new UsageMeter(protocol, streaming)
            counted()
            return meter
          },
          counted
        }
        yield* free ? exchange(out, response) : sent
        yield* Effect.logDebug("a request to a model", { sandboxId, model: upstream.model, outcome, status: response.statusCode })
      })

      const handle = (request: IncomingMessage, response: ServerResponse) => {
        const path = (request.url ?? "/").split("?", 1)[0] ?? "/"
        const session = sessions.get(ids.digest(tokenOf(request)))
        const protocol = session?.protocol ?? protocolOf(path)
        request.on("error", () => response.destroy())
        response.on("error", () => response.destroy())
        if (session === undefined) {
          return refuse(response, protocol, { status: 401, code: "invalid_api_key", message: "The token is not valid here." })
        }
        const { upstream } = session
        if (request.method === "GET" && path === "/v1/models") {
          response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" })
          const model = { id: upstream.model, object: "model", type: "model", created: 0, owned_by: "slipway", display_name: upstream.model }
          return response.end(JSON.stringify({ object: "list", data: [model], has_more: false }))
        }
        const free = protocol.free.includes(path)
        if (request.method !== "POST" || path !== protocol.route && !free) {
          return refuse(response, protocol, { status: 404, code: "not_found", message: "The model gateway has no such address." })
        }
        session.run(serve(session, request, response, path, free).pipe(
          Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logError("the model gateway failed", cause)),
          Effect.ignoreCause
        ))
      }

      const start = (where: Parameters<typeof listen>[1]) =>
        Effect.acquireRelease(
          Effect.gen(function*() {
            // Longer than agents keep a connection they may use again.
            const server = createServer({ keepAliveTimeout: 75_000 }, handle)
            yield* listen(server, where)
            return server
          }),
          (server) =>
            Effect.callback<void>((resume) => {
              server.close(() => resume(Effect.void))
              server.closeAllConnections()
            })
        )

      const server = yield* start({ port: 0 })
      const { port } = server.address() as AddressInfo
      if (socket !== undefined) {
        yield* Effect.promise(() => rm(socket, { force: true }))
        yield* start({ socket })
        yield* Effect.promise(() => chmod(socket, 0o600))
      }
      yield* Effect.addFinalizer(() => Effect.sync(() => Object.values(agents).forEach((agent) => agent.destroy())))

      return ModelGateway.of({
        open: Effect.fn("ModelGateway.open")(function*({ grantId, sandboxId, upstream }) {
          const secret = upstream.keyVariable === null ? null : keys.get(upstream.keyVariable)
          if (secret === undefined) {
            return yield* new ModelGatewayError({ detail: "The service has no account with the model's provider.", retryable: false })
          }
          const token = yield* ids.random(TOKEN_ALPHABET, TOKEN_LENGTH)
          const digest = ids.digest(token)
          const account = new LiveAccount(yield* spending.release(sandboxId), spending.creditMicros)
          const requests = yield* FiberSet.make<void>()
          const run = yield* FiberSet.runtime(requests)()
          const session: Session = {
            sandboxId,
            grantId,
            upstream,
            protocol: protocols[upstream.protocol],
            key: secret === null ? null : Redacted.value(secret),
            account,
            run
          }
          yield* Effect.acquireRelease(
            Effect.sync(() => sessions.set(digest, session)),
            // Before the requests are cut: nobody gets in meanwhile.
            () => Effect.sync(() => sessions.delete(digest))
          )
          return {
            access: {
              baseUrl: `http://127.0.0.1:${port}`,
              token: Redacted.make(token),
              model: upstream.model,
              contextTokens: upstream.contextTokens,
              outputTokens: upstream.outputTokens
            },
            account: Effect.sync(() => account.now),
            accounts: account.changes
          }
        }),
        forget: spending.release
      })
    })
  )

