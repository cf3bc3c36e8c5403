/** Suites as tests of vitest. */
import { afterAll, describe, it } from "vitest"
import type { Suite } from "../suite/Suite.ts"

/** Call it at the top of a test file. Rules run one after the other. */
export const register = (...suites: ReadonlyArray<Suite | ReadonlyArray<Suite>>): void => {
  for (const { close, name, rules } of suites.flat()) {
    describe(name, () => {
      for (const { name, run, timeout } of rules) {
        it(name, timeout === null ? {} : { timeout }, ({ onTestFinished, signal }) => {
          const running = run(signal)
          // A test that is out of time is not waited for, and what it used must not be taken from under it.
          signal.addEventListener("abort", () => onTestFinished(() => running.catch(() => {})), { once: true })
          return running
        })
      }
      afterAll(close)
    })
  }
}
