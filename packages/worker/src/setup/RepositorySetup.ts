/** Sets up one repository of a sandbox: restores its cache, or runs its commands in the box or in a fresh clone. */
import type { Environment } from "@slipway/domain/environment/rules/Environment"
import type { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { Box, Programs } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { SetupCache } from "@slipway/domain/sandbox/ports/Setups"
import { Duration, Effect, Option } from "effect"
import type { LeasedSandbox } from "../shared/LeasedSandbox.ts"
import * as CachedSetup from "./CachedSetup.ts"
import * as CacheFiles from "./CacheFiles.ts"
import * as CacheKeyPlan from "./CacheKeyPlan.ts"
import type * as Environments from "./Environments.ts"
import * as SetupCommand from "./SetupCommand.ts"
import * as SetupMessages from "./SetupMessages.ts"
import type { SetupOutput } from "./SetupOutput.ts"

/** A repository with a valid environment file. */
type Usable = Environments.RepositoryEnvironment & { readonly environment: Environment }

/** The result of one repository's setup. */
type Result = SetupMessages.Result

export interface Done {
  readonly cache: SetupCache
  readonly result: Result
}

/** The programs and secrets of its commands. */
interface Given {
  readonly programs: Programs
  readonly secrets: Readonly<Record<string, string>>
}

/** Runs the commands of `environment`, which may take `within` together. */
const runCommands = Effect.fnUntraced(function*(
  box: Box,
  { environment, folder }: Usable,
  { programs, secrets }: Given,
  output: SetupOutput,
  within: Duration.Duration
): Effect.fn.Return<Result> {
  const given = { programs, env: { ...environment.env, ...secrets } }
  const steps = Effect.gen(function*() {
    for (const step of environment.setup) {
      const failures = yield* Effect.forEach(step, (command) => SetupCommand.run(box, folder, command, given, output), {
        concurrency: "unbounded"
      })
      const failure = failures.find((failure) => failure !== null)
      if (failure !== undefined) return failure
    }
    return null
  })
  const ended = yield* Effect.timeoutOption(steps, within)
  if (Option.isSome(ended)) return ended.value === null ? { _tag: "Succeeded" } : { _tag: "Failed", ...ended.value }
  output.say(`It took longer than it may: ${SetupMessages.minutes(within)}.`)
  return { _tag: "TimedOut", within }
})

export interface Way {
  /** Removes folders that are in the way of a cache. */
  readonly clear: Effect.Effect<void>
  /** No agent has worked in the tree or the home. */
  readonly isFresh: boolean
  /** Whether the filled folders may be kept for others: the commit is trusted and the tree is fresh. */
  readonly mayFill: boolean
  /** The time left for all repositories. */
  readonly left: Effect.Effect<Duration.Duration>
}

/** Restores the cache if it exists, otherwise runs the commands. `run` replaces the commands when they run in a clone. */
export const runInBox = Effect.fnUntraced(function*<R = never>(
  leased: LeasedSandbox,
  box: Box,
  one: Usable,
  given: Given,
  output: SetupOutput,
  { clear, isFresh, left, mayFill }: Way,
  run?: Effect.Effect<Result, never, R>
): Effect.fn.Return<Done, never, WorkingTrees | R> {
  const limit = Duration.minutes(one.environment.timeoutMinutes)
  const running: Effect.Effect<Result, never, R> = run ??
    Effect.flatMap(left, (time) => runCommands(box, one, given, output, Duration.min(limit, time)))
  const place = yield* CacheKeyPlan.placeOf(leased, box, one, given.programs, isFresh)
  if (place === null) return { cache: "none", result: yield* running }
  const done = yield* CachedSetup.run(
    {
      folders: { box, tree: one.folder, paths: one.environment.cache },
      place,
      mayFill,
      // If the sandbox that fills the cache fails, the same time is left for this one.
      patience: Duration.min(limit, Duration.divideUnsafe(yield* left, 2)),
      clear,
      left
    },
    running,
    ({ _tag }) => _tag === "Succeeded"
  )
  if (done.cache !== "hit") return done
  output.say("Setup did not run: a cache had what it fills.")
  return { cache: "hit", result: { _tag: "Succeeded" } }
})

/**
 * Runs the commands with secrets in a fresh clone and copies only the cached folders back. If that fails, runs them here without
 * secrets and calls `withheld` with the reason.
 */
export const runInClone = Effect.fnUntraced(function*<E extends { readonly message: string }, R>(
  leased: LeasedSandbox,
  clones: Effect.Effect<Box, E, R>,
  box: Box,
  one: Usable,
  given: Given,
  output: SetupOutput,
  way: Way,
  withheld: (problem: string) => void
) {
  const here = Effect.flatMap(
    way.left,
    (time) => runCommands(box, one, { ...given, secrets: {} }, output, Duration.min(Duration.minutes(one.environment.timeoutMinutes), time))
  )
  const run = Effect.gen(function*() {
    const clone = yield* clones
    const folder = `${clone.workspace}${one.folder.slice(box.workspace.length)}`
    output.say("In a fresh clone, since somebody has worked in the files of this sandbox:")
    const fresh: Way = { ...way, clear: Effect.void, isFresh: true, mayFill: true }
    const { result } = yield* runInBox(leased, clone, { ...one, folder }, given, output, fresh)
    if (result._tag !== "Succeeded") return result
    const paths = one.environment.cache
    yield* way.clear
    yield* CacheFiles.unpack({ box, tree: one.folder, paths }, CacheFiles.pack({ box: clone, tree: folder, paths }))
    return result
  }).pipe(
    Effect.catch(({ message }) => {
      withheld(`What a fresh clone had could not be brought over. ${message}`)
      output.say(`${message} Setup runs without secrets.`)
      return here
    })
  )
  return yield* runInBox(leased, box, one, { ...given, secrets: {} }, output, way, run)
})
