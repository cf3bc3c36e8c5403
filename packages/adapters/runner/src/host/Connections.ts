/** One connection for each machine, which all share who need it: opened by the first, closed after the last. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { attempt } from "@slipway/machine/host/HostAttempt"
import * as KeyedLock from "@slipway/machine/node/KeyedLock"
import { Deferred, type Duration, Effect, Exit, Result, Scope } from "effect"
import * as RunnerClient from "../client/RunnerClient.ts"
import type { Dial } from "../client/WaysOut.ts"
import type { KnownMachines } from "./KnownMachines.ts"
import { ofConnection, type Operation } from "./RunnerTrouble.ts"

interface Entry {
  readonly connection: RunnerClient.RunnerConnection
  readonly scope: Scope.Closeable
  users: number
  isOver: boolean
}

export interface Options {
  readonly known: KnownMachines
  /** What a sandbox's machine asks for. */
  readonly dial: (sandboxId: SandboxId) => Dial
  /** Has a machine started again in which no runner listens. `false`: it is not this worker's to start now. */
  readonly startAgain: (operation: Operation, sandboxId: SandboxId, fence: number) => Effect.Effect<boolean, HostError>
  /** Times of the connection; see there. */
  readonly timing?: Pick<RunnerClient.Options, "patience" | "silence" | "beat">
}

/** Longer than anything takes that is made before a box: it has ten minutes to boot. */
const MAKING_WITHIN: Duration.Input = "10 minutes"

/** Whoever puts a sandbox to rest does not wait as long as a lease. */
const REST_PATIENCE: Duration.Input = "10 seconds"

export const make = Effect.fnUntraced(function*({ dial, known, startAgain, timing = {} }: Options) {
  const hostScope = yield* Effect.scope
  const locked = yield* KeyedLock.make
  const entries = new Map<SandboxId, Entry>()
  /** Whose connection stays without anybody who uses it. */
  const kept = new Set<SandboxId>()
  /** Who makes something through a connection, which is not to be renewed meanwhile. */
  const making = new Map<SandboxId, Set<Deferred.Deferred<void>>>()

  const dialOnce = Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId, change: typeof timing) {
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

  const connect = Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId, change: typeof timing = {}) {
    const first = yield* dialOnce(operation, sandboxId, change)
    if (Result.isSuccess(first)) return first.success
    const { error, fence } = first.failure
    const isRefused = error._tag === "RunnerUnreachable" && error.isRefused === true
    if (!isRefused || !(yield* startAgain(operation, sandboxId, fence))) return yield* ofConnection(operation)(error)
    const again = yield* dialOnce(operation, sandboxId, change)
    return Result.isSuccess(again) ? again.success : yield* ofConnection(operation)(again.failure.error)
  })

  const open = Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId) {
    const scope = yield* Scope.fork(hostScope)
    const connection = yield* connect(operation, sandboxId).pipe(
      Scope.provide(scope),
      Effect.onError(() => Scope.close(scope, Exit.void))
    )
    const entry: Entry = { connection, scope, users: 0, isOver: false }
    yield* Effect.forkIn(Effect.catch(connection.ended, () => Effect.sync(() => void (entry.isOver = true))), scope)
    entries.set(sandboxId, entry)
    return entry
  })

  const drop = (sandboxId: SandboxId) =>
    Effect.suspend(() => {
      const entry = entries.get(sandboxId)
      entries.delete(sandboxId)
      return entry === undefined ? Effect.void : Scope.close(entry.scope, Exit.void)
    })

  const give = (sandboxId: SandboxId, entry: Entry) =>
    locked(sandboxId)(Effect.suspend(() => {
      entry.users--
      const isLast = entry.users === 0 && !kept.has(sandboxId) && entries.get(sandboxId) === entry
      return isLast ? drop(sandboxId) : Effect.void
    }))

  /** Counts as making until `made`. */
  const begin = (sandboxId: SandboxId): Deferred.Deferred<void> => {
    const done = Deferred.makeUnsafe<void>()
    const all = making.get(sandboxId) ?? new Set()
    making.set(sandboxId, all.add(done))
    return done
  }

  const made = (sandboxId: SandboxId, done: Deferred.Deferred<void>) => {
    const all = making.get(sandboxId)
    all?.delete(done)
    if (all?.size === 0) making.delete(sandboxId)
    Deferred.doneUnsafe(done, Exit.void)
  }

  const renewOnce = Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId) {
    yield* drop(sandboxId)
    kept.add(sandboxId)
    yield* Effect.onError(open(operation, sandboxId), () => Effect.sync(() => kept.delete(sandboxId)))
  })

  /** Once nobody makes anything; none begins in between. */
  const renewIdle = (operation: Operation, sandboxId: SandboxId): Effect.Effect<void, HostError> =>
    Effect.suspend(() => Effect.forEach([...making.get(sandboxId) ?? []], (done) => Deferred.await(done), { discard: true })).pipe(
      Effect.andThen(
        locked(sandboxId)(
          Effect.suspend(() => making.has(sandboxId) ? Effect.succeed(false) : Effect.as(renewOnce(operation, sandboxId), true))
        )
      ),
      Effect.flatMap((isRenewed) => isRenewed ? Effect.void : renewIdle(operation, sandboxId))
    )

  return {
    /** The one that is there, or a new one. `isMaking`: it is renewed only when the scope is closed. */
    borrow: Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId, { isMaking = false } = {}) {
      const held = yield* Effect.acquireRelease(
        Effect.sync((): { entry?: Entry; done?: Deferred.Deferred<void> } => ({})),
        ({ done, entry }) =>
          Effect.suspend(() => {
            if (done !== undefined) made(sandboxId, done)
            return entry === undefined ? Effect.void : give(sandboxId, entry)
          })
      )
      return yield* locked(sandboxId)(Effect.gen(function*() {
        let entry = entries.get(sandboxId)
        if (entry === undefined || entry.isOver) {
          yield* drop(sandboxId)
          entry = yield* open(operation, sandboxId)
        }
        entry.users++
        held.entry = entry
        if (isMaking) held.done = begin(sandboxId)
        return entry.connection
      }))
    }),
    /** Ends what goes through the one that is there, and opens one that stays until `end`. Waits for those who make something. */
    renew: (operation: Operation, sandboxId: SandboxId) =>
      Effect.timeoutOrElse(renewIdle(operation, sandboxId), {
        duration: MAKING_WITHIN,
        orElse: () => locked(sandboxId)(renewOnce(operation, sandboxId))
      }),
    /** Closes the one that is there, which ends all processes if the machine hears of it. */
    end: (sandboxId: SandboxId) =>
      locked(sandboxId)(Effect.suspend(() => {
        kept.delete(sandboxId)
        return drop(sandboxId)
      })),
    /** Closes the one that is there, since its machine is gone: nobody waits until it is given up. */
    lose: (sandboxId: SandboxId) => locked(sandboxId)(drop(sandboxId)),
    /** Succeeds once the machine has said that no process is left: a new session is welcomed after the end of the one before. */
    endAll: (operation: Operation, sandboxId: SandboxId) =>
      locked(sandboxId)(Effect.andThen(
        drop(sandboxId),
        Effect.scoped(Effect.asVoid(connect(operation, sandboxId, { patience: REST_PATIENCE })))
      ))
  }
})
