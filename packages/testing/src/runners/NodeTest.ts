/** Suites as tests of `node:test`. */
import { after, describe, it } from "node:test"
import type { Suite } from "../suite/Suite.ts"

/** Call it at the top of a test file. Rules run one after the other. */
export const register = (...suites: ReadonlyArray<Suite | ReadonlyArray<Suite>>): void => {
  for (const { close, name, rules } of suites.flat()) {
    void describe(name, () => {
      for (const { name, run, timeout } of rules) void it(name, timeout === null ? {} : { timeout }, ({ signal }) => run(signal))
      after(close)
    })
  }
}
