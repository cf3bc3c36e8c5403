/** Branches of people that sandboxes continue (docs/decisions/24): a person moves them meanwhile, and every push is judged. */
import type { MemoryRepository } from "@slipway/domain/memory/files/MemoryRepositories"
import * as Effect from "effect/Effect"

/** Draws of a seed. */
interface Chance {
  /** A whole number of this range, both ends included. */
  between(least: number, most: number): number
  /** Whether something of this probability happens. */
  is(probability: number): boolean
}

/** Where a simulation notes what happened. */
interface Trace {
  count(what: string): void
  breaks(rule: string, detail: string): void
}

/** The folder of the files that people push. Agents have no such files of their own. */
const THEIRS = "theirs/"

/** Commits of a person on one branch while a sandbox continues it, at most. */
const MOVES = 3

/** A branch that a sandbox of any grant may push to, with a commit of a person. */
export const begin = (repository: MemoryRepository, n: number): string => {
  const branch = `slipway/theirs-${n}`
  repository.commit(branch, { [`${THEIRS}${n}-0`]: "theirs\n" })
  return branch
}

/** A person commits to the branch, or replaces its commits, a few times. */
export const moving = Effect.fnUntraced(function*(
  { chance, repository, trace }: { readonly chance: Chance; readonly repository: MemoryRepository; readonly trace: Trace },
  { branch, n }: { readonly branch: string; readonly n: number }
) {
  for (let left = chance.between(0, MOVES); left > 0; left--) {
    yield* Effect.sleep(chance.between(1_000, 40_000))
    const file = { [`${THEIRS}${n}-${left}`]: `theirs ${left}\n` }
    if (chance.is(0.3)) {
      trace.count("continued branches that a person replaced")
      const parent = repository.branches.get(repository.defaultBranch) ?? ""
      repository.branches.set(branch, repository.add({ parents: [parent], files: { ...repository.filesOf(parent), ...file } }))
    } else {
      trace.count("continued branches that a person moved")
      repository.commit(branch, file)
    }
  }
})

/** A push of a worker, judged by the repository before and after it. */
export const judged = <A, E>(
  trace: Trace,
  repository: MemoryRepository | undefined,
  headRef: string,
  push: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    const before = repository?.branches.get(headRef)
    return Effect.tap(push, () =>
      Effect.sync(() => {
        const after = repository?.branches.get(headRef)
        if (repository === undefined || before === undefined || after === undefined || before === after) return
        if (!repository.history(after).includes(before)) {
          trace.breaks("a push adds to its branch and replaces nothing", `${headRef}: ${after}, after ${before}`)
        }
        const [theirs, left] = [repository.filesOf(before), repository.filesOf(after)]
        const lost = Object.keys(theirs).filter((path) => path.startsWith(THEIRS) && !Object.hasOwn(left, path))
        if (lost.length > 0) trace.breaks("a push to a continued branch keeps what a person pushed there", `${headRef}: ${lost.join()}`)
        if (Object.keys(theirs).some((path) => path.startsWith(THEIRS))) trace.count("pushes to continued branches")
      }))
  })
