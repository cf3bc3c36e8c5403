/** One connection for each machine, shared by all its users: opened for the first, closed after the last. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { attempt } from "@slipway/machine/host/HostAttempt"
import * as KeyedLock from "@slipway/machine/node/KeyedLock"
import { Deferred, type Duration, Effect, Exit, Result, Scope } from "effect"
import type { Dial } from "../client/EgressTunnel.ts"
import * as RunnerClient from "../client/RunnerClient.ts"
import type { MachineRegistry } from "./MachineRegistry.ts"
import { ofConnection, type Operation } from "./RunnerErrorMapping.ts"

interface Entry {
  readonly connection: RunnerClient.RunnerConnection
  readonly scope: Scope.Closeable
  users: number
  isOver: boolean
}

export interface Options {
  readonly known: MachineRegistry
  /** The dialer of a sandbox's egress tunnels. */
  readonly dial: (sandboxId: SandboxId) => Dial
  /** Starts a machine again in which no runner listens. `false`: this worker may not start it now. */
  readonly startAgain: (operation: Operation, sandboxId: SandboxId, fence: number) => Effect.Effect<boolean, HostError>
  /** Times of the connection: see `RunnerClient.Options`. */
  readonly timing?: Pick<RunnerClient.Options, "patience" | "silence" | "beat">
}

/** Longer than making trees takes: a box has ten minutes to boot. */
const MAKING_WITHIN: Duration.Input = "10 minutes"

/** Shorter than a lease: putting a sandbox to rest does not wait as long. */
const REST_PATIENCE: Duration.Input = "10 seconds"

type Timing = NonNullable<Options["timing"]>

interface State extends Omit<Options, "timing"> {
  readonly timing: Timing
  /** The scope of the host. */
  readonly scope: Scope.Scope
  locked(sandboxId: SandboxId): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly entries: Map<SandboxId, Entry>
  /** Sandboxes whose connection stays without users. */
  readonly kept: Set<SandboxId>
  /** Users that make trees through a connection, which is not renewed meanwhile. */
  readonly making: Map<SandboxId, Set<Deferred.Deferred<void>>>
}

const dialOnce = Effect.fnUntraced(function*(
  { dial, known, timing }: State,
  operation: Operation,
  sandboxId: SandboxId,
  change: Timing
) {
  const machine = yield* attempt(operation, "What is known of the sandbox's machine cannot be read.", async () => known.get(sandboxId))
  if (machine === undefined || machine.address === null) {
    return yield* new HostError({ operation, detail: "The sandbox has no machine.", retryable: false })
  }
  const { address, fence, worker } = machine
  return yield* Effect.result(
    Effect.mapError(
      RunnerClient.connect({ address, identity: worker, fence, dial: dial(sandboxId), ...timing, ...change }),
      (error) => ({ error, fence })
    )
  )
})

const connect = Effect.fnUntraced(function*(
  state: State,
  operation: Operation,
  sandboxId: SandboxId,
  change: Timing = {}
) {
  const first = yield* dialOnce(state, operation, sandboxId, change)
  if (Result.isSuccess(first)) return first.success
  const { error, fence } = first.failure
  const isRefused = error._tag === "RunnerUnreachable" && error.isRefused === true
  if (!isRefused || !(yield* state.startAgain(operation, sandboxId, fence))) return yield* ofConnection(operation)(error)
  const again = yield* dialOnce(state, operation, sandboxId, change)
  return Result.isSuccess(again) ? again.success : yield* ofConnection(operation)(again.failure.error)
})

const open = Effect.fnUntraced(function*(state: State, operation: Operation, sandboxId: SandboxId) {
  const scope = yield* Scope.fork(state.scope)
  const connection = yield* connect(state, operation, sandboxId).pipe(
    Scope.provide(scope),
    Effect.onError(() => Scope.close(scope, Exit.void))
  )
  const entry: Entry = { connection, scope, users: 0, isOver: false }
  yield* Effect.forkIn(Effect.catch(connection.ended, () => Effect.sync(() => void (entry.isOver = true))), scope)
  state.entries.set(sandboxId, entry)
  return entry
})

const drop = ({ entries }: State, sandboxId: SandboxId) =>
  Effect.suspend(() => {
    const entry = entries.get(sandboxId)
    entries.delete(sandboxId)
    return entry === undefined ? Effect.void : Scope.close(entry.scope, Exit.void)
  })

const give = (state: State, sandboxId: SandboxId, entry: Entry) =>
  state.locked(sandboxId)(Effect.suspend(() => {
    entry.users--
    const isLast = entry.users === 0 && !state.kept.has(sandboxId) && state.entries.get(sandboxId) === entry
    return isLast ? drop(state, sandboxId) : Effect.void
  }))

/** Counts as making until `made`. */
const begin = ({ making }: State, sandboxId: SandboxId): Deferred.Deferred<void> => {
  const done = Deferred.makeUnsafe<void>()
  const all = making.get(sandboxId) ?? new Set()
  making.set(sandboxId, all.add(done))
  return done
}

const made = ({ making }: State, sandboxId: SandboxId, done: Deferred.Deferred<void>) => {
  const all = making.get(sandboxId)
  all?.delete(done)
  if (all?.size === 0) making.delete(sandboxId)
  Deferred.doneUnsafe(done, Exit.void)
}

const renewOnce = Effect.fnUntraced(function*(state: State, operation: Operation, sandboxId: SandboxId) {
  yield* drop(state, sandboxId)
  state.kept.add(sandboxId)
  yield* Effect.onError(open(state, operation, sandboxId), () => Effect.sync(() => state.kept.delete(sandboxId)))
})

/** Renews the connection while nothing is made through it; nothing begins meanwhile. */
const renewIdle = (state: State, operation: Operation, sandboxId: SandboxId): Effect.Effect<void, HostError> =>
  Effect.suspend(() => Effect.forEach([...state.making.get(sandboxId) ?? []], (done) => Deferred.await(done), { discard: true })).pipe(
    Effect.andThen(
      state.locked(sandboxId)(
        Effect.suspend(() => state.making.has(sandboxId) ? Effect.succeed(false) : Effect.as(renewOnce(state, operation, sandboxId), true))
      )
    ),
    Effect.flatMap((isRenewed) => isRenewed ? Effect.void : renewIdle(state, operation, sandboxId))
  )

const borrow = Effect.fnUntraced(function*(
  state: State,
  operation: Operation,
  sandboxId: SandboxId,
  { isMaking = false }: { readonly isMaking?: boolean } = {}
) {
  const held = yield* Effect.acquireRelease(
    Effect.sync((): { entry?: Entry; done?: Deferred.Deferred<void> } => ({})),
    ({ done, entry }) =>
      Effect.suspend(() => {
        if (done !== undefined) made(state, sandboxId, done)
        return entry === undefined ? Effect.void : give(state, sandboxId, entry)
      })
  )
  return yield* state.locked(sandboxId)(Effect.gen(function*() {
    let entry = state.entries.get(sandboxId)
    if (entry === undefined || entry.isOver) {
      yield* drop(state, sandboxId)
      entry = yield* open(state, operation, sandboxId)
    }
    entry.users++
    held.entry = entry
    if (isMaking) held.done = begin(state, sandboxId)
    return entry.connection
  }))
})

export type RunnerConnections = Effect.Success<ReturnType<typeof make>>

export const make = Effect.fnUntraced(function*(options: Options) {
  const state: State = {
    ...options,
    timing: options.timing ?? {},
    scope: yield* Effect.scope,
    locked: yield* KeyedLock.make,
    entries: new Map(),
    kept: new Set(),
    making: new Map()
  }
  return {
    /** The existing connection, or a new one. `isMaking`: it is renewed only when the scope is closed. */
    borrow: (operation: Operation, sandboxId: SandboxId, options?: { readonly isMaking?: boolean }) =>
      borrow(state, operation, sandboxId, options),
    /**
     * Ends everything that uses the existing connection, and opens a connection that stays until `end`. Waits for trees that are being
     * made.
     */
    renew: (operation: Operation, sandboxId: SandboxId) =>
      Effect.timeoutOrElse(renewIdle(state, operation, sandboxId), {
        duration: MAKING_WITHIN,
        orElse: () => state.locked(sandboxId)(renewOnce(state, operation, sandboxId))
      }),
    /** Closes the existing connection, which ends all processes if the machine hears of it. */
    end: (sandboxId: SandboxId) =>
      state.locked(sandboxId)(Effect.suspend(() => {
        state.kept.delete(sandboxId)
        return drop(state, sandboxId)
      })),
    /** Closes the existing connection at once, since its machine is gone. */
    lose: (sandboxId: SandboxId) => state.locked(sandboxId)(drop(state, sandboxId)),
    /** Succeeds once the machine has said that no process is left: a new session is welcomed after the end of the one before. */
    endAll: (operation: Operation, sandboxId: SandboxId) =>
      state.locked(sandboxId)(Effect.andThen(
        drop(state, sandboxId),
        Effect.scoped(Effect.asVoid(connect(state, operation, sandboxId, { patience: REST_PATIENCE })))
      ))
  }
})
