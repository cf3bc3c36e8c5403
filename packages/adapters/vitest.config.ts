/** For the `vitest.config.ts` of each package beside it. */
import { defineConfig, mergeConfig } from "vitest/config"
import shared from "../../vitest.config.ts"

// Much of their time is waiting: for disks, for processes, for a database that is silent.
const config = mergeConfig(shared, defineConfig({ test: { maxWorkers: 2 } }))

export default config

/** The same, with a Postgres server for the run. */
export const withPostgres = mergeConfig(
  config,
  defineConfig({ test: { globalSetup: ["@slipway/embedded-postgres/testing/TestPostgresServer"] } })
)
