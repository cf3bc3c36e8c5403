/** Variables of this process for a test. Libraries of clouds read no others. */
import { Effect } from "effect"

/** Until the scope closes: these, and no others that begin with one of the prefixes. */
export const withVariables = (variables: Readonly<Record<string, string>>, prefixes: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = { ...process.env }
      for (const name of Object.keys(process.env)) if (prefixes.some((prefix) => name.startsWith(prefix))) delete process.env[name]
      Object.assign(process.env, variables)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name]
        Object.assign(process.env, before)
      })
  )
