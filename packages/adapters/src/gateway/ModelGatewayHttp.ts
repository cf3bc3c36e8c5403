/**
 * `ModelGateway` as a server on a loopback port, and on a unix socket where one is asked for: agents talk to it as to their
 * provider. Requests go out with the operator's key and model, whatever the agent says; only what the protocol needs is let
 * through, either way. Every answer is counted before the agent has all of it.
 */
import { Ids } from "@slipway/domain/Ids"
import { costOf, countsOf, noTokens, type Tokens } from "@slipway/domain/models/Budget"
import type { Upstream } from "@slipway/domain/models/ModelCatalogue"
import { type ModelAccount, ModelGateway, ModelGatewayError } from "@slipway/domain/models/ModelGateway"
import { codeOf, type ModelCall, Spending, type SpendingRefused } from "@slipway/domain/models/Spending"
import { addTokenCounts, addUsage, noTokenCounts, type Spent, type TokenCounts } from "@slipway/domain/models/Usage"
import * as Pace from "@slipway/domain/Pace"
import * as RootSpan from "@slipway/domain/RootSpan"
import { Cause, type Context, Effect, Exit, Fiber, FiberSet, Layer, Queue, Redacted, Schedule, Stream, Tracer } from "effect"
import { chmod, rm } from "node:fs/promises"
import { Agent as HttpAgent, createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { Agent as HttpsAgent } from "node:https"
import type { AddressInfo, Socket } from "node:net"
import { OptionNames } from "../options/OptionNames.ts"
import { Admission, type Bounds, type Door, type Entry } from "./Admission.ts"
import { ofCutOff, upperBound } from "./Estimate.ts"
import { exchange, type Outcome, type Outgoing, refuse, type TimeLimits } from "./Exchange.ts"
import { IdleConnections } from "./IdleConnections.ts"
import type { AddressRule } from "./Preparation.ts"
import * as Preparer from "./Preparer.ts"
import { type Protocol, protocols } from "./Protocol.ts"
import { troubleOf } from "./Trouble.ts"
import { UsageMeter } from "./UsageMeter.ts"

export interface Options {
  /** Keys of the operator's accounts, by the name the catalogue gives them (`keyVariable`). */
  readonly keys: ReadonlyMap<string, Redacted.Redacted>
  /** Path of a unix socket to listen on beside the port; readable by our user alone. */
  readonly socket?: string
  /**
   * Whether requests may name images and documents by addresses, which the provider then fetches: a way out of a box that has no
   * network. Default `refuse`.
   */
  readonly addresses?: AddressRule
  readonly limits?: Partial<TimeLimits>
  /** Of a request. Default 32 MiB, which is what providers take. */
  readonly maximumBytes?: number
  readonly bounds?: Partial<Bounds>
  /** From a request's head until all of its body is there. Default 30 seconds: it comes from this machine. */
  readonly bodyMillis?: number
  /** How long a request waits for others to give back what they have reserved. Default a minute. */
  readonly holdMillis?: number
}

const LIMITS: TimeLimits = { connectMillis: 10_000, firstByteMillis: 600_000, idleMillis: 300_000 }

/** An agent with helpers has some ten requests under way; what they hold is small beside an image or two. */
const BOUNDS: Bounds = { requests: 32, bytes: 64 * 1024 * 1024, totalBytes: 256 * 1024 * 1024 }

/** From a connection's first byte, or its beginning, until a request's head is there. */
const HEAD_MILLIS = 15_000

/** Idle connections of strangers together, who have sent no token of a session yet, and those of one session. */
const IDLE = { strangers: 256, session: 64 }

/** How long what is left of a refused request is read and dropped: an agent that still writes would not see the answer. */
const LINGER_MILLIS = 5000

/** The pause after each piece that is dropped, of 64 KiB at most: reading is work too, and nobody waits for it. */
const DROP_MILLIS = 4

/** Ends the connection of a request that is answered and goes on all the same. */
const linger = (request: IncomingMessage) => {
  if (request.complete || request.destroyed) return
  const timer = setTimeout(() => request.socket.destroy(), LINGER_MILLIS)
  request.on("data", () => {
    request.pause()
    setTimeout(() => request.resume(), DROP_MILLIS)
  })
  request.once("close", () => clearTimeout(timer))
}

/**
 * What refused requests of one session may cost in a second, in bytes that were read in vain, and what each of them counts for at
 * least. A session that goes beyond it is told to come back later, before anything of its requests is read.
 */
const REFUSED = { perSecond: 4 * 1024 * 1024, atOnce: 16 * 1024 * 1024 }
const REFUSAL_BYTES = 64 * 1024

/** For clients of both companies: the same request may be let in soon. */
const AGAIN = { "retry-after": "1", "x-should-retry": "true" }

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
  readonly door: Door
  /** What its refused requests may still cost. */
  readonly refusals: Pace.Allowance
  /** The connections on which it asked last. */
  readonly idle: IdleConnections
  /** What its agent is at when it asks. */
  readonly activity: RootSpan.Activity
  readonly run: (request: Effect.Effect<void>) => void
}

/** What one request came to. */
interface Took {
  readonly microUsd: number
  readonly tokens: TokenCounts
}

const tookOf = ({ prices }: Upstream, tokens: Tokens): Took => ({ microUsd: costOf(prices, tokens), tokens: countsOf(tokens) })

/** A model account that callbacks change, and those who listen to it. */
class LiveAccount {
  /** Of requests that are over, here and in earlier sessions. */
  #settled: Spent
  #refusals = 0
  #refusedFor: ModelAccount["refusedFor"] = null
  #trouble: ModelAccount["trouble"]
  /** What the requests under way took, as far as it is known. */
  readonly #open = new Map<string, Took>()
  readonly #listeners = new Set<() => void>()
  readonly #creditMicros: (microUsd: number) => number

  constructor(spent: Spent, creditMicros: (microUsd: number) => number) {
    this.#settled = spent
    this.#creditMicros = creditMicros
  }

  get now(): ModelAccount {
    const { tokens, usage } = Array.from(this.#open.values()).reduce((sum, took) => this.#with(sum, took), this.#settled)
    const trouble = this.#trouble
    return { usage, tokens, refusals: this.#refusals, refusedFor: this.#refusedFor, ...(trouble === undefined ? {} : { trouble }) }
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

  counting(id: string, took: Took): void {
    this.#open.set(id, took)
    this.#tell()
  }

  /** `null`: the request did not count. */
  settle(id: string, took: Took | null): void {
    this.#open.delete(id)
    if (took !== null) this.#settled = this.#with(this.#settled, took)
    this.#tell()
  }

  #with({ tokens, usage }: Spent, took: Took): Spent {
    const { microUsd } = took
    return {
      usage: addUsage(usage, { llmRequestCount: 1, costMicroUsd: microUsd, creditsChargedMicros: this.#creditMicros(microUsd) }),
      tokens: addTokenCounts(tokens, took.tokens)
    }
  }

  refused(reason: "budget_exceeded" | "no_credits"): void {
    this.#refusals++
    this.#refusedFor = reason
    this.#tell()
  }

  /** `undefined`: the provider answers. */
  troubled(trouble: ModelAccount["trouble"]): void {
    this.#trouble = trouble
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

/** What of a model's usage is told by the names of OpenTelemetry's conventions. */
const usageOf = ({ input, output }: { readonly input: number; readonly output: number }) => ({
  "gen_ai.usage.input_tokens": input,
  "gen_ai.usage.output_tokens": output
})

/** A request within the turn that its agent is at. */
const inTrace = ({ activity, sandboxId, upstream }: Session) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
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

/** Whose errors a client understands that is not known to us. */
const protocolOf = (path: string): Protocol =>
  path.startsWith(protocols["anthropic-messages"].route) ? protocols["anthropic-messages"] : protocols["openai-chat"]

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
      const { bodyMillis = 30_000, holdMillis = 60_000, keys, maximumBytes = 32 * 1024 * 1024, socket } = options
      const admission = new Admission({ ...BOUNDS, ...options.bounds })
      const strangers = new IdleConnections(IDLE.strangers)
      const owners = new WeakMap<Socket, IdleConnections>()
      const prepare = yield* Preparer.make(options.addresses ?? "refuse")
      const nameOf = yield* OptionNames
      const limits = { ...LIMITS, ...options.limits }
      const ids = yield* Ids
      const spending = yield* Spending
      // By the digest of their tokens: how long a look-up takes says nothing of a token.
      const sessions = new Map<string, Session>()
      /** Kinds of trouble that the log has, by upstream: one line each until it answers again. */
      const logged = new Set<string>()
      const agents = {
        "http:": new HttpAgent({ keepAlive: true }),
        "https:": new HttpsAgent({ keepAlive: true })
      }

      // Runs on when a session ends: what was spent must be known.
      const charging = yield* FiberSet.make<void>()
      const runCharge = yield* FiberSet.runtime(charging)()
      yield* Effect.addFinalizer(() => Effect.timeoutOption(FiberSet.awaitEmpty(charging), CHARGE_WAIT))

      /** `null`: it never went out. */
      const charge = (call: ModelCall, took: Took | null) =>
        spending.charge(call, took?.microUsd ?? null, took?.tokens ?? noTokenCounts).pipe(
          Effect.retry(
            Schedule.upTo(Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("10 seconds")]), { duration: "10 minutes" })
          ),
          Effect.tapCause((cause) =>
            Cause.hasInterruptsOnly(cause)
              ? Effect.void
              : Effect.logError("what a request to a model cost could not be recorded", { ...call, ...took }, cause)
          ),
          Effect.ignoreCause
        )

      const read = (request: IncomingMessage, entry: Entry, onLength: (length: number) => void) =>
        Effect.callback<Buffer | "too large" | "too much" | "too slow" | "gone">((resume) => {
          const declared = Number(request.headers["content-length"] ?? 0)
          // A body of a known length is written to its place as it comes: pieces that are put together take twice its memory.
          let whole: Buffer | undefined
          const chunks: Array<Buffer> = []
          let length = 0
          const over = (result: Buffer | "too large" | "too much" | "too slow" | "gone") => {
            clearTimeout(timer)
            request.off("data", take)
            resume(Effect.succeed(result))
          }
          const take = (chunk: Buffer) => {
            length += chunk.length
            onLength(length)
            if (length > maximumBytes) return over("too large")
            // Whose length was said has its room already.
            if (declared === 0 && !entry.hold(chunk.length)) return over("too much")
            if (declared === 0) chunks.push(chunk)
            else chunk.copy(whole ??= Buffer.allocUnsafeSlow(declared), length - chunk.length)
          }
          const timer = setTimeout(() => over("too slow"), bodyMillis)
          request.once("end", () => over(whole ?? Buffer.concat(chunks)))
          request.once("close", () => over("gone"))
          if (declared > maximumBytes) over("too large")
          else if (!entry.hold(declared)) over("too much")
          else request.on("data", take)
          return Effect.sync(() => clearTimeout(timer))
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

      const serve = Effect.fnUntraced(function*(
        session: Session,
        entry: Entry,
        request: IncomingMessage,
        response: ServerResponse,
        path: string,
        free: boolean
      ) {
        const { account, grantId, key, protocol, sandboxId, upstream } = session
        let readBytes = 0
        const refused = (status: number, code: string, message: string, headers?: Record<string, string>) =>
          Effect.sync(() => {
            session.refusals.take(REFUSAL_BYTES + readBytes, performance.now())
            refuse(response, protocol, { status, code, message }, headers)
          })

        const encoding = request.headers["content-encoding"] ?? "identity"
        if (encoding !== "identity") return yield* refused(415, "unsupported_encoding", "The model gateway takes no compressed requests.")
        const bytes = yield* read(request, entry, (length) => {
          readBytes = length
        })
        if (bytes === "gone") return
        if (bytes === "too large") {
          return yield* refused(413, "request_too_large", `A request may have ${maximumBytes} bytes.`)
        }
        if (bytes === "too much") {
          return yield* refused(
            429,
            "too_many_requests",
            "The requests under way have too many bytes. Try again when one of them is over.",
            AGAIN
          )
        }
        if (bytes === "too slow") {
          return yield* refused(408, "request_timeout", "The request did not arrive in time.", { connection: "close" })
        }
        const prepared = yield* Effect.catch(prepare(sandboxId, bytes, upstream, free), Effect.succeed)
        if (prepared === "too busy") {
          return yield* refused(429, "too_many_requests", "Too many requests are waiting. Try again in a moment.", AGAIN)
        }
        if (prepared === null) return yield* refused(400, "invalid_request", "The request is not a JSON object that can be read.")
        if ("field" in prepared) {
          const what = `The model's provider would have to fetch an address (${prepared.field.slice(0, 50)}).`
          const help = `Send the content itself as a data URL. Whoever runs the service can allow addresses with ${nameOf("addresses")}.`
          return yield* refused(400, "address_not_allowed", `${what} ${help}`)
        }
        const { body, streaming } = prepared
        const call: ModelCall = { id: yield* ids.uuid7, sandboxId, grantId }
        let meter: UsageMeter | null = null
        let outcome: Outcome = "unsent"
        let sentAt = 0

        const settle = Effect.suspend(() => {
          const { final, tokens: known } = meter?.counted ?? { final: false, tokens: noTokens }
          const tokens = outcome === "refused" ? noTokens : final ? known : ofCutOff(prepared, {
            known,
            receivedBytes: meter?.isPartial === true ? Infinity : meter?.bytes ?? 0,
            whole: outcome === "answered",
            elapsedMillis: performance.now() - sentAt
          })
          const took = outcome === "unsent" ? null : tookOf(upstream, tokens)
          account.settle(call.id, took)
          return Effect.asVoid(Effect.timeoutOption(Fiber.await(runCharge(charge(call, took))), CHARGE_WAIT))
        })

        const tooExpensive = (refusal: SpendingRefused) => {
          account.refused(codeOf(refusal))
          return refused(402, codeOf(refusal), refusal.message)
        }

        const sent = Effect.gen(function*() {
          yield* reserve(call, upperBound(upstream, prepared))
          outcome = "cut"
          sentAt = performance.now()
          outcome = yield* exchange(out, response)
        }).pipe(
          Effect.onExit((exit) => Exit.isFailure(exit) && Cause.hasFails(exit.cause) ? Effect.void : settle),
          Effect.catchTags({
            BudgetExceeded: tooExpensive,
            NoCredits: tooExpensive,
            StoreUnavailable: () => {
              // Perhaps only the answer was lost.
              runCharge(charge(call, null))
              return refused(503, "unavailable", "The model gateway cannot account for requests just now.", AGAIN)
            }
          })
        )

        const url = new URL(`${upstream.baseUrl.replace(/(?<!\/)\/+$/u, "")}${path.slice("/v1".length)}`)
        const query = new URL(request.url ?? "/", "http://gateway").searchParams
        if (query.get("beta") === "true") url.searchParams.set("beta", "true")
        const headers: Record<string, string> = {
          "content-type": "application/json",
          accept: streaming ? "text/event-stream" : "application/json",
          "accept-encoding": "identity",
          "user-agent": "slipway",
          ...(key === null ? {} : protocol.credentials(key))
        }
        for (const name of protocol.headers) {
          const value = request.headers[name]
          const passed = typeof value === "string" ? protocol.header(value, upstream) : ""
          if (passed !== "") headers[name] = passed
        }
        const troubles = `${upstream.baseUrl} ${upstream.model} `
        const failed = (status: number | null, said: string) => {
          const trouble = troubleOf(upstream, status, said)
          if (trouble === null) return
          account.troubled({ message: trouble.message })
          const known = troubles + trouble.kind
          if (logged.has(known)) return
          logged.add(known)
          runCharge(Effect.logWarning("a model's provider does not answer as it should", {
            sandboxId,
            model: upstream.model,
            status,
            trouble: trouble.kind,
            what: trouble.message
          }))
        }
        const counted = () => {
          if (!free) account.counting(call.id, tookOf(upstream, meter?.counted.tokens ?? noTokens))
        }
        const out: Outgoing = {
          url,
          agent: agents[url.protocol === "https:" ? "https:" : "http:"],
          headers,
          body,
          key,
          protocol,
          limits,
          failed,
          meter: (streaming) => {
            account.troubled(undefined)
            for (const known of logged) if (known.startsWith(troubles)) logged.delete(known)
            meter = new UsageMeter(protocol, streaming)
            counted()
            return meter
          },
          counted
        }
        yield* free ? exchange(out, response) : sent
        yield* Effect.suspend(() =>
          RootSpan.annotate({ "http.response.status_code": response.statusCode, ...usageOf(meter?.counted.tokens ?? noTokens) })
        )
        yield* Effect.logDebug("a request to a model", { sandboxId, model: upstream.model, outcome, status: response.statusCode })
      })

      const handle = (request: IncomingMessage, response: ServerResponse) => {
        const path = (request.url ?? "/").split("?", 1)[0] ?? "/"
        const session = sessions.get(ids.digest(tokenOf(request)))
        const protocol = session?.protocol ?? protocolOf(path)
        request.on("error", () => response.destroy())
        response.on("error", () => response.destroy())
        response.once("finish", () => linger(request))
        if (session === undefined) {
          return refuse(response, protocol, { status: 401, code: "invalid_api_key", message: "The token is not valid here." })
        }
        owners.get(request.socket)?.remove(request.socket)
        owners.set(request.socket, session.idle)
        response.once("close", () => session.idle.add(request.socket))
        const { upstream } = session
        if (request.method === "GET" && path === "/v1/models") {
          response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" })
          const model = {
            id: upstream.model,
            object: "model",
            type: "model",
            created: 0,
            owned_by: "slipway",
            display_name: upstream.model
          }
          return response.end(JSON.stringify({ object: "list", data: [model], has_more: false }))
        }
        const free = protocol.free.includes(path)
        if (request.method !== "POST" || path !== protocol.route && !free) {
          return refuse(response, protocol, { status: 404, code: "not_found", message: "The model gateway has no such address." })
        }
        const debt = session.refusals.debtMillis(performance.now())
        if (debt > 0) {
          const message = "Too many requests of this session were refused. Try again later."
          return refuse(response, protocol, { status: 429, code: "too_many_requests", message }, {
            ...AGAIN,
            "retry-after": String(Math.ceil(debt / 1000))
          })
        }
        const entry = session.door.enter()
        if (entry === null) {
          return refuse(response, protocol, { status: 429, code: "too_many_requests", message: "Too many requests are under way." }, AGAIN)
        }
        session.run(
          serve(session, entry, request, response, path, free).pipe(
            inTrace(session),
            Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logError("the model gateway failed", cause)),
            Effect.ignoreCause,
            Effect.ensuring(Effect.sync(entry.leave))
          )
        )
      }

      const start = (where: Parameters<typeof listen>[1]) =>
        Effect.acquireRelease(
          Effect.gen(function*() {
            // Longer than agents keep a connection they may use again.
            const server = createServer({
              keepAliveTimeout: 75_000,
              headersTimeout: HEAD_MILLIS,
              // Of what is refused at once and written on; of all else `bodyMillis` comes first.
              requestTimeout: HEAD_MILLIS + 2 * bodyMillis,
              connectionsCheckingInterval: 5000
            }, handle)
            server.on("connection", (connection) => {
              owners.set(connection, strangers)
              strangers.add(connection)
              connection.once("close", () => owners.get(connection)?.remove(connection))
            })
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
            door: admission.open(),
            refusals: Pace.allowance(REFUSED),
            idle: new IdleConnections(IDLE.session),
            activity: yield* RootSpan.CurrentActivity,
            run
          }
          yield* Effect.acquireRelease(
            Effect.sync(() => sessions.set(digest, session)),
            // Before the requests are cut: nobody gets in meanwhile.
            () =>
              Effect.sync(() => {
                sessions.delete(digest)
                session.door.close()
              })
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
