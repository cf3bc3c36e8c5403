/** The setup of one repository of a sandbox: its cache is brought back, or its commands run, in the box or in a fresh clone. */
import type { Environment } from "@slipway/domain/environment/Environment"
import type { WorkingTrees } from "@slipway/domain/files/WorkingTrees"
import type { Box, Programs } from "@slipway/domain/sandbox/SandboxHost"
import type { SetupCache } from "@slipway/domain/sandbox/Setups"
import { Duration, Effect, Option } from "effect"
import type { LeasedSandbox } from "../shared/LeasedSandbox.ts"
import * as CachedSetup from "./CachedSetup.ts"
import * as CacheFiles from "./CacheFiles.ts"
import * as CacheKeyPlan from "./CacheKeyPlan.ts"
import type * as Environments from "./Environments.ts"
import * as SetupCommand from "./SetupCommand.ts"
import * as SetupMessages from "./SetupMessages.ts"
import type { SetupOutput } from "./SetupOutput.ts"

/** Of a file that can be used. */
type Usable = Environments.RepositoryEnvironment & { readonly environment: Environment }

/** How one repository's setup went. */
type Result = SetupMessages.Result

export interface Done {
  readonly cache: SetupCache
  readonly result: Result
}

/** What its commands have. */
interface Given {
  readonly programs: Programs
  readonly secrets: Readonly<Record<string, string>>
}

/** Of `environment`; its commands may take `within` together. */
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
  /** Makes room for a cache. */
  readonly clear: Effect.Effect<void>
  /** Nobody has worked in the tree or the home. */
  readonly isFresh: boolean
  /** What the commands fill may be kept for others: they are of a commit that is trusted, in a fresh tree. */
  readonly mayFill: boolean
  /** Of the time for all repositories. */
  readonly left: Effect.Effect<Duration.Duration>
}

/** A cache is brought back if there is one, else the commands run. `run`: in their place, where they are to run elsewhere. */
export const runInBox = Effect.fnUntraced(function*<R = never>(
  held: LeasedSandbox,
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
  const place = yield* CacheKeyPlan.placeOf(held, box, one, given.programs, isFresh)
  if (place === null) return { cache: "none", result: yield* running }
  const done = yield* CachedSetup.run(
    {
      folders: { box, tree: one.folder, paths: one.environment.cache },
      place,
      mayFill,
      // Where the one who fills it fails, the same time is left.
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
 * With its secrets in fresh clones, from which only the folders of its cache are brought over. Where that cannot be, here without them,
 * and `withheld` is told why.
 */
export const runInClone = Effect.fnUntraced(function*<E extends { readonly message: string }, R>(
  held: LeasedSandbox,
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
    const { result } = yield* runInBox(held, clone, { ...one, folder }, given, output, fresh)
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
  return yield* runInBox(held, box, one, { ...given, secrets: {} }, output, way, run)
})
