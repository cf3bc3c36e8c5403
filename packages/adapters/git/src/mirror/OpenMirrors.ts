/** The state that operations on mirrors share: options, locks, and which mirrors and downloads are in use. */
import * as KeyedLock from "@slipway/machine/node/KeyedLock"
import { type Duration, Effect } from "effect"
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { type CheckoutLimits, type LimitPassed, limitPassed } from "./CheckoutSize.ts"
import { clear, sizeOf } from "./MirrorFiles.ts"

export interface Limits extends CheckoutLimits {
  /** Time of one download. */
  readonly fetchTime: Duration.Duration
  /** Bytes of one download, as they are on disk. */
  readonly fetchBytes: number
}

export interface Options {
  /** It belongs to this process alone: locks are in memory. */
  readonly directory: string
  /** Commits of history to fetch; `null`: all. */
  readonly depth: number | null
  readonly limits: Limits
  /** Unused mirrors are removed when this time has passed since the last request for them; `null`: only to make room. */
  readonly keepUnused: Duration.Duration | null
  /** Folders with objects that repositories outside borrow. */
  readonly borrowed: Effect.Effect<ReadonlySet<string>>
}

export interface OpenMirrors extends Options {
  locked(mirror: string): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly tooMuch: LimitPassed
  readonly incoming: string
  readonly removed: string
  /** Downloads of this process. */
  readonly landing: Set<string>
  /** How many are at work on a mirror without having borrowed from it yet. */
  readonly users: Map<string, number>
}

export const open = Effect.fnUntraced(function*(options: Options) {
  const mirrors: OpenMirrors = {
    ...options,
    locked: yield* KeyedLock.make,
    tooMuch: yield* limitPassed,
    incoming: join(options.directory, "incoming"),
    removed: join(options.directory, "removed"),
    landing: new Set(),
    users: new Map()
  }
  return mirrors
})

/** Keeps a mirror from being removed, until the scope closes. */
export const use = ({ users }: OpenMirrors, mirror: string) =>
  Effect.acquireRelease(
    Effect.sync(() => users.set(mirror, (users.get(mirror) ?? 0) + 1)),
    () =>
      Effect.sync(() => {
        const others = (users.get(mirror) ?? 0) - 1
        if (others > 0) users.set(mirror, others)
        else users.delete(mirror)
      })
  )

/** A folder for one download, until the scope closes. */
export const landingSite = ({ incoming, landing }: OpenMirrors) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const name = randomUUID()
      landing.add(name)
      return name
    }),
    (name) => Effect.promise(() => clear(join(incoming, name)).finally(() => landing.delete(name)))
  ).pipe(Effect.map((name) => join(incoming, name)))

/** How often the size of a running download is looked at. */
const LOOK_INTERVAL = "250 millis"

/** Fails with `tooLarge` when the files of `folder` pass the limit of a download. Never ends otherwise. */
export const watchSize = <E>({ limits }: OpenMirrors, folder: string, tooLarge: () => E): Effect.Effect<never, E> =>
  Effect.sleep(LOOK_INTERVAL).pipe(
    Effect.andThen(sizeOf(folder)),
    Effect.filterOrFail((size) => size <= limits.fetchBytes, tooLarge),
    Effect.forever
  )
