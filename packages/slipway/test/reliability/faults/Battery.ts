/**
 * The cases of the fault battery: each does something to the service, and reports the fault, the losses (none) and the time until the
 * service was back. `Table.ts` prints them all.
 */
import { assert } from "@effect/vitest"
import { Cause, Effect, Exit, type Scope } from "effect"
import { accessSync, constants } from "node:fs"
import path from "node:path"
import { test, type TestContext } from "vitest"
import * as Random from "../../../testing/Random.ts"

/** How often what may be repeated is. */
export const ROUNDS = Number(process.env["FAULTS_ROUNDS"] ?? 20)
/** From the end of a fault on a process that lived through it. */
const READY_MILLIS = 5_000

export interface Found {
  /** With its numbers: "killed 30 times; 412 creations were acknowledged". */
  readonly done: string
  /** Each thing that is not as it must be. */
  readonly lost: ReadonlyArray<string>
  /** From the end of each fault until the service was ready again; none where it never was away. */
  readonly backMillis?: ReadonlyArray<number>
  /** The limit of `backMillis`: 5 seconds, unless a process has to start on a busy machine. */
  readonly withinMillis?: number
}

export interface Row {
  readonly what: string
  readonly done: string
  readonly lost: string
  readonly back: string
}

declare module "vitest" {
  interface TaskMeta {
    fault?: Row
  }
}

/** A requirement of a case: the reason why it is missing, or `null`. */
export type Need = () => string | null

export const root: Need = () => process.getuid?.() === 0 ? null : "needs root"

export const program = (name: string): Need => () => {
  const found = [...(process.env["PATH"] ?? "").split(":"), "/usr/sbin", "/sbin"].some((folder) => {
    try {
      accessSync(path.join(folder, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
  return found ? null : `${name} is not installed`
}

/** Chance whose seed is printed: `FAULTS_SEED` repeats it. */
export const chance = (what: string): Random.Random => {
  const seed = Number(process.env["FAULTS_SEED"] ?? Math.floor(Math.random() * 2 ** 32))
  process.stdout.write(`${what}: FAULTS_SEED=${seed}\n`)
  return Random.make(seed)
}

const report = (context: TestContext, row: Row) => {
  context.task.meta.fault = row
  process.stdout.write(lineOf(row))
}

export const lineOf = ({ back, done, lost, what }: Row): string =>
  `| ${[what, done, lost, back].map((cell) => cell.replaceAll(/\s*\n\s*/gu, " ").replaceAll("|", "\\|")).join(" | ")} |\n`

const seconds = (millis: number) => (millis / 1000).toFixed(1)

const measured = (
  what: string,
  needs: ReadonlyArray<Need>,
  run: Effect.Effect<Found, unknown, Scope.Scope>,
  judge: (found: Found) => { readonly lost: string; readonly wrong: string | null }
) =>
  test(what, async (context) => {
    const missing = needs.map((need) => need()).find((reason) => reason !== null)
    if (missing !== undefined) {
      report(context, { what, done: "nothing", lost: `skipped: ${missing}`, back: "" })
      return context.skip(missing ?? "")
    }
    const exit = await Effect.runPromiseExit(Effect.scoped(run), { signal: context.signal })
    if (Exit.isFailure(exit)) {
      const error = Cause.squash(exit.cause)
      const reason = error instanceof Error ? error.message : String(error)
      report(context, { what, done: "not finished", lost: `FAILED: ${reason}`, back: "" })
      throw error
    }
    const { backMillis = [], done } = exit.value
    const { lost, wrong } = judge(exit.value)
    const back = backMillis.length === 0 ? "at once" : `${seconds(Math.max(...backMillis))} s`
    report(context, { what, done, lost, back })
    assert.isNull(wrong)
  })

/**
 * A case: fails where anything was lost, or the service took too long to come back. A name that ends in `(long)` is left out by the
 * short run of docs/testing.md.
 */
export const fault = (what: string, needs: ReadonlyArray<Need>, run: Effect.Effect<Found, unknown, Scope.Scope>) =>
  measured(what, needs, run, ({ backMillis = [], lost, withinMillis = READY_MILLIS }) => {
    const late = Math.max(0, ...backMillis)
    const wrong = late > withinMillis ? [...lost, `back only after ${seconds(late)} s`] : lost
    return wrong.length === 0
      ? { lost: "nothing", wrong: null }
      : { lost: `LOST ${wrong.length}: ${wrong.slice(0, 3).join("; ")}`, wrong: wrong.slice(0, 20).join("\n") }
  })

/** The checkers of a case on a defect that is planted beneath them, in the test's own fake: fails unless they find it. */
export const plant = (what: string, needs: ReadonlyArray<Need>, run: Effect.Effect<Found, unknown, Scope.Scope>) =>
  measured(`planted: ${what}`, needs, run, ({ lost }) =>
    lost.length > 0
      ? { lost: `found ${lost.length}: ${lost[0]}`, wrong: null }
      : { lost: "NOT FOUND", wrong: "the planted fault was not noticed" })
