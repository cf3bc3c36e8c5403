/** The size of this terminal, as `slipway shell` says it to the service. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { size } from "../../../src/commands/shell/TerminalSession.ts"

/** Standard output with a terminal of this size; `undefined`: with none. */
const stdout = (columns: number | undefined, rows: number | undefined) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = { columns: process.stdout.columns, rows: process.stdout.rows }
      Object.assign(process.stdout, { columns, rows })
      return before
    }),
    (before) => Effect.sync(() => Object.assign(process.stdout, before))
  )

it.effect("is what the terminal says, at most the largest that the service takes, and 80 by 24 without a terminal", () =>
  Effect.gen(function*() {
    yield* stdout(132, 40)
    assert.deepStrictEqual(size(), { columns: 132, rows: 40 })
    yield* stdout(5000, 1001)
    assert.deepStrictEqual(size(), { columns: 1000, rows: 1000 })
    for (const [columns, rows] of [[undefined, undefined], [0, 0]] as const) {
      yield* stdout(columns, rows)
      assert.deepStrictEqual(size(), { columns: 80, rows: 24 })
    }
  }).pipe(Effect.scoped))
