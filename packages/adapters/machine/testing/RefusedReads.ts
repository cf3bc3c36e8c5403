/** A system that refuses to tell what is on its disk: every call of `node:fs` that reads can fail as it does on a failing machine. */
import { assert } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import fs, { mkdtempSync, rmSync } from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import { tmpdir } from "node:os"
import path from "node:path"

/** None of them says that nothing is there. */
export const CODES = ["EMFILE", "EIO", "EACCES"] as const

const READS = ["access", "lstat", "open", "opendir", "readFile", "readdir", "readlink", "realpath", "stat", "statfs"] as const

interface Refusals {
  /** Calls so far that concern the paths. */
  readonly calls: number
  /** The call of this number fails, from 1; `"all"`: every call does; `null`: none. */
  refuse(which: number | "all" | null, code: string): void
}

/** Calls on paths of which `concerns` says so, while the scope is open. Test files that use it patch their own process alone. */
export const refusals = (concerns: (path: string) => boolean): Effect.Effect<Refusals, never, Scope.Scope> => {
  const state = { calls: 0, which: null as number | "all" | null, code: "EIO" }
  const error = (name: string, path: string) => {
    if (!concerns(path)) return undefined
    state.calls++
    if (state.which !== "all" && state.which !== state.calls) return undefined
    return Object.assign(new Error(`${state.code}: refused, ${name} '${path}'`), { code: state.code, syscall: name, path })
  }
  const patch = (target: object, name: string, wrap: (original: (...args: Array<unknown>) => unknown) => unknown) => {
    const original: unknown = Reflect.get(target, name)
    if (typeof original !== "function") throw new Error(`node:fs has no ${name}`)
    Reflect.set(target, name, wrap((...args) => Reflect.apply(original, target, args)))
    return () => Reflect.set(target, name, original)
  }
  return Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const undo = READS.flatMap((name) => [
          patch(fs.promises, name, (original) => async (...args: Array<unknown>) => {
            const refused = error(name, String(args[0]))
            if (refused !== undefined) throw refused
            return original(...args)
          }),
          patch(fs, `${name}Sync`, (original) => (...args: Array<unknown>) => {
            const refused = error(name, String(args[0]))
            if (refused !== undefined) throw refused
            return original(...args)
          })
        ])
        // As Node does: whatever fails, nothing is there.
        undo.push(
          patch(
            fs,
            "existsSync",
            (original) => (...args: Array<unknown>) => error("access", String(args[0])) === undefined && original(...args)
          )
        )
        syncBuiltinESMExports()
        return undo
      }),
      (undo) =>
        Effect.sync(() => {
          for (const one of undo) one()
          syncBuiltinESMExports()
        })
    ),
    () => ({
      get calls() {
        return state.calls
      },
      refuse: (which, code) => {
        Object.assign(state, { calls: 0, which, code })
      }
    })
  )
}

/**
 * Runs `act` again and again, each time with another one of its reads refused, and once with all of them, in each way; after each run
 * `kept` says whether everything is as it was. `act` may fail as it likes. Answers how many reads it has.
 */
export const oneByOne = Effect.fnUntraced(function*<E, R, E2, R2>(
  refusals: Refusals,
  act: Effect.Effect<unknown, E, R>,
  kept: (which: string) => Effect.Effect<void, E2, R2>
) {
  refusals.refuse(null, "")
  yield* Effect.exit(act)
  const reads = refusals.calls
  for (const code of CODES) {
    for (const which of [...Array.from({ length: reads }, (_, i) => i + 1), "all" as const]) {
      refusals.refuse(which, code)
      yield* Effect.exit(act)
      refusals.refuse(null, "")
      yield* kept(`${code} of read ${which} of ${reads}`)
    }
  }
  return reads
})

/** A folder for the scope. */
export const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-reads-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** Runs `ask` with each of its reads refused; whenever it answers, it answers what it does when it can read. */
export const answersTheTruth = Effect.fnUntraced(function*(folder: string, ask: () => unknown, least: number) {
  const reads = yield* refusals((name) => name.startsWith(folder))
  const asked = Effect.promise(async () => await ask())
  const truth = yield* asked
  const told: Array<unknown> = []
  const act = Effect.map(asked, (answer) => void told.push(answer))
  const count = yield* oneByOne(reads, act, (which) =>
    Effect.sync(() => {
      for (const answer of told.splice(0)) assert.deepStrictEqual(answer, truth, which)
    }))
  assert.isAtLeast(count, least)
})
