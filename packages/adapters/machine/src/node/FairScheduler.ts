/**
 * Fair scheduling where only a few jobs may run at once. One job at a time for each key, a few for each group. When more wait, the
 * groups take turns: a group with many jobs waits for its own work, and other groups do not wait for it.
 */
import { Deferred, Duration, Effect, type Scope } from "effect"

export interface Limits {
  readonly atOnce: number
  /** Jobs of one group at once. */
  readonly perGroup: number
}

interface Waiting {
  readonly key: string
  readonly start: () => void
}

export const make = ({ atOnce, perGroup }: Limits) => {
  const working = new Map<string, number>()
  const keys = new Set<string>()
  /** Waiting jobs by group, the group whose turn is next first. */
  const waiting = new Map<string, Array<Waiting>>()
  let count = 0

  const begin = (group: string, key: string) => {
    count++
    keys.add(key)
    working.set(group, (working.get(group) ?? 0) + 1)
  }

  /** Takes the next job that may begin out of the queue. Its group moves to the end. */
  const next = (): Waiting | undefined => {
    if (count >= atOnce) return undefined
    for (const [group, line] of waiting) {
      const place = (working.get(group) ?? 0) < perGroup ? line.findIndex(({ key }) => !keys.has(key)) : -1
      const [first] = place < 0 ? [] : line.splice(place, 1)
      if (first === undefined) continue
      waiting.delete(group)
      if (line.length > 0) waiting.set(group, line)
      begin(group, first.key)
      return first
    }
    return undefined
  }
  const advance = () => {
    for (let first = next(); first !== undefined; first = next()) first.start()
  }

  const end = (group: string, key: string) => {
    count--
    keys.delete(key)
    const left = (working.get(group) ?? 0) - 1
    if (left > 0) working.set(group, left)
    else working.delete(group)
    advance()
  }

  /** Fails with `late` when the turn does not come in time. */
  const enter = <E>(group: string, key: string, within: Duration.Input, late: () => E) =>
    Effect.callback<void, E>((resume) => {
      // The timer is part of this callback: a turn that comes at the moment of the timeout must not be lost.
      const timer = setTimeout(() => {
        leave()
        resume(Effect.fail(late()))
      }, Duration.toMillis(within))
      const place: Waiting = {
        key,
        start: () => {
          clearTimeout(timer)
          resume(Effect.void)
        }
      }
      const leave = () => {
        clearTimeout(timer)
        const rest = (waiting.get(group) ?? []).filter((other) => other !== place)
        if (rest.length > 0) waiting.set(group, rest)
        else waiting.delete(group)
      }
      waiting.set(group, [...waiting.get(group) ?? [], place])
      advance()
      return Effect.sync(leave)
    })

  /** Runs `work` when its turn comes; fails with `late` when the turn does not come `within` the time. */
  return (group: string, key: string, within: Duration.Input) =>
  <A, E, R, E2>(work: Effect.Effect<A, E, R>, late: () => E2): Effect.Effect<A, E | E2, R> =>
    Effect.acquireUseRelease(
      Effect.interruptible(enter(group, key, within, late)),
      () => work,
      () => Effect.sync(() => end(group, key))
    )
}

export type Scheduler = ReturnType<typeof make>

/** Runs `work`, or joins the queued work of the same name. */
export type Sharing<A, E> = <R>(
  name: string,
  turn: Parameters<Scheduler>,
  work: Effect.Effect<A, E, R>,
  late: () => E
) => Effect.Effect<A, E, R>

/**
 * Coalesces queued work of the same name. Work already started is not shared: its result could be older than the request. The work
 * goes on in `scope` when the first caller gives up.
 */
export const sharing = <A, E>(turn: Scheduler, scope: Scope.Scope): Sharing<A, E> => {
  const awaited = new Map<string, Effect.Effect<A, E>>()
  return (name, [group, key, within], work, late) =>
    Effect.gen(function*() {
      const others = awaited.get(name)
      if (others !== undefined) return yield* others
      const answer = Deferred.makeUnsafe<A, E>()
      const waiting = Deferred.await(answer)
      const begin = Effect.sync(() => {
        if (awaited.get(name) === waiting) awaited.delete(name)
      })
      awaited.set(name, waiting)
      yield* turn(group, key, within)(Effect.andThen(begin, work), late).pipe(
        // Also when the turn never came.
        Effect.onExit((exit) => Effect.andThen(begin, Effect.sync(() => Deferred.doneUnsafe(answer, exit)))),
        Effect.forkIn(scope)
      )
      return yield* waiting
    })
}
