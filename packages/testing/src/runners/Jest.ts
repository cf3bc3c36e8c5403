/** Suites as tests of Jest, by the functions that it puts in every test file. */
import type { Suite } from "../suite/Suite.ts"

interface Jest {
  readonly describe: (name: string, write: () => void) => void
  readonly it: (name: string, test: () => Promise<void>, timeout?: number) => void
  readonly afterAll: (end: () => Promise<void>) => void
}

/** Call it at the top of a test file. With `injectGlobals: false` give what `@jest/globals` exports. */
export const register = (
  suites: Suite | ReadonlyArray<Suite>,
  { afterAll, describe, it }: Jest = globalThis as unknown as Jest
): void => {
  for (const { close, name, rules } of [suites].flat()) {
    describe(name, () => {
      for (const { name, run, timeout } of rules) it(name, () => run(), timeout ?? undefined)
      afterAll(close)
    })
  }
}
