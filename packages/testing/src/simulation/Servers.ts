/**
 * The processes that answer people, and the way there: a request is admitted by its key and carried out by the real use cases in a process
 * that may be killed at any step of it, right before its answer too, or whose connection is cut. A client then knows nothing of what
 * became of it, and asks again, wherever somebody answers.
 */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import type { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Access, REVOCATIONS } from "@slipway/domain/access/usecases/Access"
import { Files } from "@slipway/domain/files/usecases/Files"
import type { Ids } from "@slipway/domain/ids/Ids"
import { Partners } from "@slipway/domain/partner/usecases/Partners"
import { Webhooks } from "@slipway/domain/partner/usecases/Webhooks"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import type { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import * as StoreClock from "@slipway/domain/sandbox/usecases/StoreClock"
import { Hints } from "@slipway/domain/store/Hints"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { Faults } from "./Faults.ts"
import type { RightsWitness } from "./RightsWitness.ts"
import type { Process, Timeline } from "./Timeline.ts"

/** State of one process that answers people. */
export type Answering = Files | OpenStreams | Partners | Publishing | SandboxEvents | Sandboxes | Webhooks
/** Services that it needs for that. */
export type Needed = Layer.Services<typeof service> | Hints | Ids | Access | AccessStore | Maintenance | MemberStore

const service = Layer.mergeAll(Sandboxes.layer, SandboxEvents.layer, Publishing.layer, Files.layer, Partners.layer, Webhooks.layer)
const serviceOf = () => Layer.merge(service, OpenStreams.layer)

/** A key that somebody has. */
export interface HeldKey {
  readonly id: string
  readonly key: Redacted.Redacted
}

/** Limits that no request here reaches. */
const PLENTY = { credential: 100_000, user: 100_000, grant: 100_000 }
/** How long a client waits before it looks for a process that answers; milliseconds. */
const AGAIN = 300
/** How often those who answer look whether a stream's right is gone, whatever hints say. */
const LOOK = "1 second"

/** A process that answers. */
interface Up {
  readonly process: Process
  readonly context: Context.Context<Answering | Needed>
  /** Each cuts off one of those who wait for it. */
  readonly connections: Set<() => void>
}

/** Carries out a request as what its key opens. `isHeard`: whether the client is still there. */
type Request<A, E> = (own: Principal, isHeard: () => boolean) => Effect.Effect<A, E, Answering | Needed | Scope.Scope>

interface Server {
  readonly name: string
  incarnation: number
  process: Process | null
  /** `null`: it is not up yet. */
  context: Context.Context<Answering | Needed> | null
  readonly connections: Up["connections"]
}

export class Servers {
  readonly #servers: ReadonlyArray<Server>
  readonly #timeline: Timeline
  readonly #faults: Faults
  readonly #rights: RightsWitness
  /** The process that asks. */
  readonly #people: Process
  /** A new key for this holder, who works in this grant. */
  readonly #mint: (holder: string, grantId: string) => HeldKey
  readonly #keys = new Map<string, HeldKey>()
  readonly #start: (process: Process, main: Effect.Effect<never, never, Needed | Scope.Scope>) => void

  constructor(options: {
    readonly count: number
    readonly timeline: Timeline
    readonly faults: Faults
    readonly rights: RightsWitness
    readonly people: Process
    readonly mint: (holder: string, grantId: string) => HeldKey
    /** Runs it as what this process is for. */
    readonly start: (process: Process, main: Effect.Effect<never, never, Needed | Scope.Scope>) => void
  }) {
    this.#servers = Array.from({ length: options.count }, (_, i) => ({
      name: `http-${i + 1}`,
      incarnation: 0,
      process: null,
      context: null,
      connections: new Set()
    }))
    this.#timeline = options.timeline
    this.#faults = options.faults
    this.#rights = options.rights
    this.#people = options.people
    this.#mint = options.mint
    this.#start = options.start
  }

  get processes(): ReadonlyArray<Process> {
    return this.#servers.flatMap(({ process }) => process?.alive === true ? [process] : [])
  }

  /** The key that is this holder's now; `null`: none was needed yet. */
  keyOf(holder: string): HeldKey | null {
    return this.#keys.get(holder) ?? null
  }

  get holders(): ReadonlyArray<string> {
    return Array.from(this.#keys.keys())
  }

  /** Starts those that do not run. `skew`: of the new process's machine, milliseconds. */
  startAll(skew: (name: string) => number): void {
    for (const server of this.#servers) {
      if (server.process?.alive === true) continue
      const process = this.#timeline.process(`${server.name}.${++server.incarnation}`)
      process.skewMillis = skew(process.name)
      server.process = process
      server.context = null
      this.#start(
        process,
        Effect.gen(function*() {
          const needed = yield* Effect.context<Needed>()
          // As the service has it: whatever time it is on its machine, what it decides is dated by the store's.
          const clock = yield* Layer.build(StoreClock.layer)
          const own = yield* Effect.provide(Layer.build(serviceOf()), clock)
          if (server.process === process) server.context = Context.mergeAll(needed, clock, own)
          return yield* Effect.never
        })
      )
    }
  }

  /** The callers of this process do not learn the outcome of their requests. */
  died(process: Process): void {
    for (const server of this.#servers) {
      if (server.process !== process) continue
      server.context = null
      for (const cut of Array.from(server.connections)) cut()
      server.connections.clear()
    }
  }

  /**
   * Carries out a request of `by`, whose credential names who holds the key. Fails with `StoreUnavailable` where the client is not told
   * what became of it, as where the service says so. Never ends for whom no key is good any more.
   */
  ask<A, E>(
    by: Principal,
    name: string,
    request: Request<A, E>
  ): Effect.Effect<A, E | StoreUnavailable> {
    return Effect.suspend(() => {
      const { credential, grantId } = by
      const holder = credential._tag === "Key" ? credential.keyId : credential.sessionId
      let key = this.#keys.get(holder)
      if (key === undefined) {
        if (this.#rights.isRevoked(grantId) !== false) return Effect.never
        key = this.#mint(holder, grantId)
        this.#keys.set(holder, key)
      }
      const asked = this.#rights.asks(key.id, grantId)
      const up = this.#servers.flatMap(({ connections, context, process }): ReadonlyArray<Up> =>
        process?.alive === true && context !== null && !process.paused ? [{ connections, context, process }] : []
      )
      if (up.length === 0) return Effect.delay(Effect.fail(cut()), AGAIN)
      return Effect.flatMap(this.#send(this.#faults.pick(up), `${name} by ${holder}`, key, request), (answer) => {
        if (answer !== null) {
          // A request that failed because the store was down may not have got far enough to be known.
          if (!isUnavailable(answer)) asked.answered(name)
          return answer
        }
        asked.refused()
        if (this.#keys.get(holder) === key) this.#keys.delete(holder)
        return this.#rights.isRevoked(grantId) === false ? this.ask(by, name, request) : Effect.never
      })
    })
  }

  /** `null`: the key is invalid. Fails when the caller does not learn the outcome. */
  #send<A, E>(
    { connections, context, process }: Up,
    name: string,
    { key }: HeldKey,
    request: Request<A, E>
  ): Effect.Effect<Exit.Exit<A, E> | null, StoreUnavailable> {
    const faults = this.#faults
    const who = `${process.name} ${name}`
    let isOver = false
    const serving = Effect.gen(function*() {
      const access = yield* Access
      const admission = yield* access.admit(key, PLENTY)
      if (admission === null) return null
      const answer = yield* Effect.exit(Effect.scoped(request(admission.principal, () => !isOver)))
      // The request is done, and its caller does not learn it.
      if (faults.happens("diedAnswering", who)) {
        faults.kill(process)
        return yield* Effect.never
      }
      return answer
    }).pipe(Effect.provide(context))
    return Effect.callback<Exit.Exit<A, E> | null, StoreUnavailable>((resume) => {
      const fiber = this.#timeline.spawn(process, Context.empty(), serving)
      const end = (exit: Exit.Exit<Exit.Exit<A, E> | null, StoreUnavailable>) => {
        if (isOver) return
        isOver = true
        connections.delete(lost)
        this.#timeline.ready(this.#people, () => resume(exit))
      }
      const lost = () => end(Exit.fail(cut()))
      connections.add(lost)
      fiber.addObserver(end)
      // It may have died in its first steps.
      if (!process.alive) lost()
      if (faults.happens("connectionCut", who)) this.#timeline.at(this.#people, this.#timeline.now + faults.millis(), lost)
      return Effect.sync(() => {
        isOver = true
        connections.delete(lost)
        fiber.interruptUnsafe()
      })
    })
  }
}

/** The streams that a process has open, by the key that opened each: one look for all of them, as a server has it. */
export class OpenStreams extends Context.Service<OpenStreams, {
  /** Waits until this right is gone. */
  untilRevoked(own: Principal): Effect.Effect<void>
}>()("@slipway/testing/OpenStreams") {
  static readonly layer = Layer.effect(
    OpenStreams,
    Effect.gen(function*() {
      const access = yield* AccessStore
      const revocations = yield* (yield* Hints).watch(REVOCATIONS)
      const open = new Set<{ readonly keyId: string; readonly ended: Latch.Latch }>()
      yield* Effect.gen(function*() {
        yield* Effect.timeoutOption(revocations, LOOK)
        if (open.size === 0) return
        const asked = Array.from(open)
        const good = yield* access.stillGood(Array.from(new Set(asked.map(({ keyId }) => keyId))))
        for (const { ended, keyId } of asked) if (!good.has(keyId)) ended.openUnsafe()
      }).pipe(
        // Unknown is not revoked: the next look tells.
        Effect.ignore,
        Effect.forever,
        Effect.forkScoped
      )
      return OpenStreams.of({
        untilRevoked: ({ credential }) =>
          Effect.suspend(() => {
            const stream = { keyId: credential._tag === "Key" ? credential.keyId : "", ended: Latch.makeUnsafe(false) }
            open.add(stream)
            return Effect.ensuring(stream.ended.await, Effect.sync(() => open.delete(stream)))
          })
      })
    })
  )
}

const cut = () => new StoreUnavailable({ cause: "the connection was cut" })

const isUnavailable = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isFailure(exit) && exit.cause.reasons.some((reason) => reason._tag === "Fail" && reason.error instanceof StoreUnavailable)

/** The use cases as clients have them: each call is a request. */
export const clients = (servers: Servers): Context.Context<Partners | Publishing | Sandboxes> => {
  const ask: Servers["ask"] = (by, name, request) => servers.ask(by, name, request)
  const admin = (): never => {
    throw new Error("No client of a simulation asks for this.")
  }
  return Context.make(
    Sandboxes,
    Sandboxes.of({
      create: (by, request, key) => ask(by, "create", (own) => Sandboxes.use((it) => it.create(own, request, key))),
      fork: (by, id, request, key) => ask(by, `fork ${id}`, (own) => Sandboxes.use((it) => it.fork(own, id, request, key))),
      get: (by, id) => ask(by, `get ${id}`, (own) => Sandboxes.use((it) => it.get(own, id))),
      list: (by, query) => ask(by, "list", (own) => Sandboxes.use((it) => it.list(own, query))),
      summaries: (by, query) => ask(by, "summaries", (own) => Sandboxes.use((it) => it.summaries(own, query))),
      terminate: (by, id) => ask(by, `terminate ${id}`, (own) => Sandboxes.use((it) => it.terminate(own, id))),
      interrupt: (by, id) => ask(by, `interrupt ${id}`, (own) => Sandboxes.use((it) => it.interrupt(own, id))),
      decideApproval: (by, id, approvalId, decision) =>
        ask(by, `decide ${id}`, (own) => Sandboxes.use((it) => it.decideApproval(own, id, approvalId, decision))),
      answerQuestion: (by, id, questionId, reply) =>
        ask(by, `answer ${id}`, (own) => Sandboxes.use((it) => it.answerQuestion(own, id, questionId, reply))),
      restore: (by, id, checkpoint) => ask(by, `restore ${id}`, (own) => Sandboxes.use((it) => it.restore(own, id, checkpoint))),
      sync: (by, id) => ask(by, `sync ${id}`, (own) => Sandboxes.use((it) => it.sync(own, id))),
      sendMessage: (by, id, prompt, key, whenBusy) =>
        ask(by, `send ${id}`, (own) => Sandboxes.use((it) => it.sendMessage(own, id, prompt, key, whenBusy))),
      cancelMessage: (by, id, messageId) => ask(by, `cancel ${id}`, (own) => Sandboxes.use((it) => it.cancelMessage(own, id, messageId))),
      rename: (by, id, title) => ask(by, `rename ${id}`, (own) => Sandboxes.use((it) => it.rename(own, id, title))),
      delete: (by, id) => ask(by, `delete ${id}`, (own) => Sandboxes.use((it) => it.delete(own, id))),
      messages: (by, id, page) => ask(by, `messages ${id}`, (own) => Sandboxes.use((it) => it.messages(own, id, page))),
      checkpoints: (by, id, page) => ask(by, `checkpoints ${id}`, (own) => Sandboxes.use((it) => it.checkpoints(own, id, page))),
      setup: (by, id) => ask(by, `setup ${id}`, (own) => Sandboxes.use((it) => it.setup(own, id)))
    })
  ).pipe(
    Context.add(
      Publishing,
      Publishing.of({
        publish: (by, id, repo) => ask(by, `publish ${id}`, (own) => Publishing.use((it) => it.publish(own, id, repo))),
        status: admin,
        statusWithComments: admin,
        follow: admin
      })
    ),
    Context.add(
      Partners,
      Partners.of({ feed: (by, page) => ask(by, "feed", (own) => Partners.use((it) => it.feed(own, page))) })
    )
  )
}
