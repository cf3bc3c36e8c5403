/**
 * Who is next where few may work at once. One at a time for each key, a few for each group, and where more wait, the groups
 * take turns: who asks for much waits for its own work, not everybody for it.
 */
import { Deferred, Duration, Effect, type Scope } from "effect"

export interface Limits {
  readonly atOnce: number
  /** Of one group. */
  readonly perGroup: number
}

interface Waiting {
  readonly key: string
  readonly start: () => void
}

export const make = ({ atOnce, perGroup }: Limits) => {
  const working = new Map<string, number>()
  const keys = new Set<string>()
  /** Groups in the order of their turns. */
  const waiting = new Map<string, Array<Waiting>>()
  let count = 0

  const begin = (group: string, key: string) => {
    count++
    keys.add(key)
    working.set(group, (working.get(group) ?? 0) + 1)
  }

  /** Who may begin now, taken out of the line; its group goes to the end of it. */
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

  /** Fails with what `late` says when the turn does not come in time. */
  const enter = <E>(group: string, key: string, within: Duration.Input, late: () => E) =>
    Effect.callback<void, E>((resume) => {
      // The timer is a part of it: a turn that came in the moment when somebody gave up waiting would be nobody's.
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

  /** Does `work` when its turn comes; fails with `late` when that is not `within` the time. */
  return (group: string, key: string, within: Duration.Input) =>
  <A, E, R, E2>(work: Effect.Effect<A, E, R>, late: () => E2): Effect.Effect<A, E | E2, R> =>
    Effect.acquireUseRelease(
      Effect.interruptible(enter(group, key, within, late)),
      () => work,
      () => Effect.sync(() => end(group, key))
    )
}

type Turns = ReturnType<typeof make>

/**
 * Work that waits for its turn is done once for all who ask for it by the same name meanwhile: their answer is newer than
 * their question. It goes on in `scope` when who asked first gives up.
 */
export const sharing = <A, E>(turn: Turns, scope: Scope.Scope) => {
  const awaited = new Map<string, Effect.Effect<A, E>>()
  return <R>(name: string, [group, key, within]: Parameters<Turns>, work: Effect.Effect<A, E, R>, late: () => E): Effect.Effect<A, E, R> =>
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
        // Its turn may never have come.
        Effect.onExit((exit) => Effect.andThen(begin, Effect.sync(() => Deferred.doneUnsafe(answer, exit)))),
        Effect.forkIn(scope)
      )
      return yield* waiting
    })
}
