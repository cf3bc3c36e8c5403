/** One connection for each machine, which all share who need it: opened by the first, closed after the last. */
import { HostError } from "@slipway/domain/sandbox/SandboxHost"
import type { SandboxId } from "@slipway/domain/SandboxId"
import { type Duration, Effect, Exit, Scope } from "effect"
import * as KeyedLock from "../../node/KeyedLock.ts"
import * as RunnerClient from "../../runner/client/RunnerClient.ts"
import type { Dial } from "../../runner/client/WaysOut.ts"
import { attempt } from "../HostAttempt.ts"
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
  /** Times of the connection; see there. */
  readonly timing?: Pick<RunnerClient.Options, "patience" | "silence" | "beat">
}

/** Whoever puts a sandbox to rest does not wait as long as a lease. */
const REST_PATIENCE: Duration.Input = "10 seconds"

export const make = Effect.fnUntraced(function*({ dial, known, timing = {} }: Options) {
  const hostScope = yield* Effect.scope
  const locked = yield* KeyedLock.make
  const entries = new Map<SandboxId, Entry>()
  /** Whose connection stays without anybody who uses it. */
  const kept = new Set<SandboxId>()

  const connect = Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId, change: typeof timing = {}) {
    const machine = yield* attempt(operation, "What is known of the sandbox's machine cannot be read.", async () => known.get(sandboxId))
    if (machine === undefined || machine.address === null) {
      return yield* new HostError({ operation, detail: "The sandbox has no machine.", retryable: false })
    }
    const { address, fence, worker } = machine
    return yield* Effect.mapError(
      RunnerClient.connect({ address, identity: worker, fence, dial: dial(sandboxId), ...timing, ...change }),
      ofConnection(operation)
    )
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

  return {
    /** The one that is there, or a new one. */
    borrow: Effect.fnUntraced(function*(operation: Operation, sandboxId: SandboxId) {
      const held = yield* Effect.acquireRelease(
        Effect.sync((): { entry?: Entry } => ({})),
        ({ entry }) => entry === undefined ? Effect.void : give(sandboxId, entry)
      )
      return yield* locked(sandboxId)(Effect.gen(function*() {
        let entry = entries.get(sandboxId)
        if (entry === undefined || entry.isOver) {
          yield* drop(sandboxId)
          entry = yield* open(operation, sandboxId)
        }
        entry.users++
        held.entry = entry
        return entry.connection
      }))
    }),
    /** Ends what goes through the one that is there, and opens one that stays until `end`. */
    renew: (operation: Operation, sandboxId: SandboxId) =>
      locked(sandboxId)(Effect.gen(function*() {
        yield* drop(sandboxId)
        kept.add(sandboxId)
        yield* Effect.onError(open(operation, sandboxId), () => Effect.sync(() => kept.delete(sandboxId)))
      })),
    /** Closes the one that is there, which ends all processes if the machine hears of it. */
    end: (sandboxId: SandboxId) =>
      locked(sandboxId)(Effect.suspend(() => {
        kept.delete(sandboxId)
        return drop(sandboxId)
      })),
    /** Succeeds once the machine has said that no process of the sandbox is left: a new session is welcomed after the end of the one before. */
    endAll: (operation: Operation, sandboxId: SandboxId) =>
      locked(sandboxId)(Effect.andThen(
        drop(sandboxId),
        Effect.scoped(Effect.asVoid(connect(operation, sandboxId, { patience: REST_PATIENCE })))
      ))
  }
})
