import { defineConfig, mergeConfig } from "vitest/config"
import shared from "../../vitest.config.ts"

export default mergeConfig(
  shared,
  defineConfig({
    test: {
      globalSetup: ["@slipway/adapters/testing/TestPostgresServer"],
      // Much of their time is waiting: for disks, for processes, for a database that is silent.
      maxWorkers: 2
    }
  })
)
