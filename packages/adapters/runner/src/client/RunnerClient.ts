/**
 * A worker's side of the connection to a runner: dials it, redials a broken connection, and loses nothing. Processes, files and egress
 * tunnels go through it. `docs/runner.md` has its promises.
 */
import * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { Clock, Deferred, Duration, Effect, Exit, Fiber, type Scope } from "effect"
import { randomBytes } from "node:crypto"
import { connect as connectTls, type TLSSocket } from "node:tls"
import { WebSocket } from "ws"
import { BUDGET } from "../wire/Channels.ts"
import { type Identity, isPeer, secureContext } from "../wire/Identity.ts"
import { type Carrier, Peer } from "../wire/Peer.ts"
import type { Address } from "../wire/RunnerSettings.ts"
import * as WebSocketCarrier from "../wire/WebSocketCarrier.ts"
import { encode, type Hello, type Message, PROTOCOL } from "../wire/Wire.ts"
import type { Link } from "./ChannelEffects.ts"
import * as EgressTunnel from "./EgressTunnel.ts"
import * as RemoteFiles from "./RemoteFiles.ts"
import * as RemoteHome from "./RemoteHome.ts"
import * as RemotePort from "./RemotePort.ts"
import * as RemoteProcess from "./RemoteProcess.ts"
import { type RunnerError, RunnerRefused, RunnerUnreachable, RunnerViolation } from "./RunnerErrors.ts"

export interface Options {
  readonly address: Address
  readonly identity: Identity
  /** The fence of the worker's lease. */
  readonly fence: number
  /** How long it tries to reach a silent runner, also at first. As long as a lease, 30 seconds. */
  readonly patience?: Duration.Input
  /** A connection counts as broken after so long without a message. 10 seconds. */
  readonly silence?: Duration.Input
  /** How often it says that it is there. 3 seconds. */
  readonly beat?: Duration.Input
  /** Without it, every tunnel is refused. */
  readonly dial?: EgressTunnel.Dial
}

export interface RunnerConnection {
  readonly spawn: ReturnType<typeof RemoteProcess.spawn>
  readonly readFile: ReturnType<typeof RemoteFiles.readFile>
  readonly list: ReturnType<typeof RemoteFiles.list>
  readonly readHome: ReturnType<typeof RemoteHome.read>
  readonly writeHome: ReturnType<typeof RemoteHome.write>
  readonly connect: ReturnType<typeof RemotePort.connect>
  /** Fails once the connection is lost for good. All its users fail the same way. */
  readonly ended: Effect.Effect<never, RunnerError>
}

const FIRST_BACKOFF_MILLIS = 50
const MOST_BACKOFF_MILLIS = 2000

/** Errors of an address, a port or a socket, without a listener. A runner that is not there has no session to go on with. */
const REFUSALS = new Set(["ECONNREFUSED", "ENOENT"])
/** A runner that refuses connections may be starting. */
const REFUSED_MILLIS = 2000

/** How long closing waits for the runner to have ended all processes. */
const GOODBYE = "5 seconds"

/** A connection error for the operator's log. The error code if there is one, because messages may quote received data. */
const wordOf = (error: Error): string => "code" in error && typeof error.code === "string" ? error.code : error.message

type Greeting = Omit<Hello, "protocol">

/** One connection, from its dial to its end; answers the reason of its end. */
const once = (options: Options, greeting: Greeting, peer: Peer, onHeard: () => void, onWelcome: (ports: boolean) => void) =>
  Effect.callback<string, RunnerRefused | RunnerViolation>((resume) => {
    const { address, identity } = options
    let why = "the connection was closed"
    let carrier: Carrier | undefined
    const over = () => {
      if (carrier !== undefined) peer.lost(carrier)
      resume(Effect.succeed(why))
    }
    const line = connectTls({
      ...address,
      ...secureContext(identity),
      rejectUnauthorized: true,
      // Names mean nothing here: exactly one certificate is accepted.
      checkServerIdentity: () => undefined
    })
    line.on("error", (error) => {
      why = wordOf(error)
    })
    line.on("close", over)
    line.once("secureConnect", () => {
      if (isPeer(line, identity)) carrier = greet(line)
      else line.destroy(new Error("the runner has another certificate"))
    })

    const greet = (line: TLSSocket): Carrier => {
      let isWelcome = false
      const socket = new WebSocket("ws://runner/", { ...WebSocketCarrier.options, createConnection: () => line, followRedirects: false })
      const onMessage = (message: Message) => {
        onHeard()
        if (isWelcome) peer.receive(carrier, message)
        else if (message.type === "welcome") {
          isWelcome = true
          peer.attach(carrier, message.received)
          // Last, because callers that wait for it continue at once, and may say goodbye.
          onWelcome(message.ports === true)
        } else {
          if (message.type !== "refused") {
            resume(Effect.fail(new RunnerViolation({ detail: `a ${message.type} before its welcome` })))
          } else if (message.code === "stale") why = "the runner has a later connection of this session"
          else resume(Effect.fail(new RunnerRefused({ reason: message.code, fence: message.fence })))
          carrier.close()
        }
      }
      const carrier = WebSocketCarrier.carrierOf(socket, {
        onMessage,
        onViolation: ({ message }) => resume(Effect.fail(new RunnerViolation({ detail: message }))),
        onClose: over
      })
      socket.on("open", () => carrier.send(encode({ type: "hello", hello: { protocol: PROTOCOL, ...greeting } }), () => {}))
      return carrier
    }

    return Effect.sync(() => {
      if (carrier !== undefined) {
        peer.lost(carrier)
        carrier.close()
      }
      line.destroy()
    })
  })

/**
 * Stays connected until the scope closes: then all processes end, and the runner keeps its tree. A runner has one session at a time: a
 * newer one, of this fence or a higher one, ends this.
 */
export const connect = Effect.fn("RunnerClient.connect")(function*(options: Options): Effect.fn.Return<
  RunnerConnection,
  RunnerError,
  Scope.Scope
> {
  const patience = Duration.toMillis(options.patience ?? "30 seconds")
  const silence = Duration.toMillis(options.silence ?? "10 seconds")
  const beat = Duration.toMillis(options.beat ?? "3 seconds")
  const scope = yield* Effect.scope
  const clock = yield* Clock.Clock
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const ended = yield* Deferred.make<never, RunnerError>()
  const welcomed = yield* Deferred.make<void>()
  const session = randomBytes(16).toString("hex")
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

  const end = (error: RunnerError) => {
    Deferred.doneUnsafe(ended, Exit.fail(error))
    peer.finish({ code: "ended", message: error.message })
  }
  const refuse: EgressTunnel.Dial = () => Effect.fail("there is no way")
  const peer: Peer = new Peer({
    side: "worker",
    budget: RateLimiter.allowance(BUDGET),
    accept: { dial: EgressTunnel.accept(options.dial ?? refuse, () => link, run) },
    onViolation: ({ message }) => end(new RunnerViolation({ detail: message }))
  })
  const link: Link = { peer, ended: Deferred.await(ended) }

  let heardAt = now()
  let attempt = 0
  let isWelcome = false
  let isLeaving = false
  let knowsPorts = false

  const connection = Effect.suspend(() => {
    attempt++
    const dialledAt = now()
    let isHeard = false
    const watch = Effect.gen(function*() {
      for (;;) {
        const left = Math.min((isHeard ? heardAt : dialledAt) + silence, heardAt + patience) - now()
        if (left <= 0) return undefined
        yield* Effect.sleep(Duration.millis(Math.min(beat, left)))
        peer.beat()
      }
    })
    const hello = { session, fence: options.fence, attempt, resumes: isWelcome, received: peer.received }
    const life = once(options, hello, peer, () => {
      isHeard = true
      heardAt = now()
    }, (ports) => {
      isWelcome = true
      knowsPorts = ports
      Deferred.doneUnsafe(welcomed, Exit.void)
    })
    return Effect.map(Effect.raceFirst(life, watch), (why) => ({ why, isHeard }))
  })

  const stay = Effect.gen(function*() {
    let backoff = FIRST_BACKOFF_MILLIS
    let detail = "nothing was heard"
    /** Since when every dial was refused. */
    let refusedAt: number | undefined
    for (;;) {
      const { isHeard, why } = yield* connection
      if (isLeaving) return
      detail = why ?? detail
      refusedAt = why !== undefined && REFUSALS.has(why) ? refusedAt ?? now() : undefined
      if (refusedAt !== undefined && now() - refusedAt >= REFUSED_MILLIS) return yield* new RunnerUnreachable({ detail, isRefused: true })
      const left = heardAt + patience - now()
      if (left <= 0) return yield* new RunnerUnreachable({ detail })
      backoff = isHeard ? FIRST_BACKOFF_MILLIS : Math.min(2 * backoff, MOST_BACKOFF_MILLIS)
      yield* Effect.sleep(Duration.millis(Math.min(backoff, left)))
    }
  })

  const staying = yield* stay.pipe(
    Effect.catch((error) => Effect.sync(() => end(error))),
    Effect.forkIn(scope)
  )
  // Before `staying` is interrupted: the runner closes the connection once it has ended what ran there.
  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      isLeaving = true
      if (peer.bye()) yield* Effect.timeoutOption(Fiber.await(staying), GOODBYE)
      end(new RunnerUnreachable({ detail: "the connection was closed here" }))
    })
  )
  yield* Effect.raceFirst(Deferred.await(welcomed), link.ended)

  return {
    spawn: RemoteProcess.spawn(link),
    readFile: RemoteFiles.readFile(link),
    list: RemoteFiles.list(link),
    readHome: RemoteHome.read(link),
    writeHome: RemoteHome.write(link),
    connect: RemotePort.connect(link, () => knowsPorts),
    ended: link.ended
  }
})
