import { defineConfig, mergeConfig } from "vitest/config"
import shared from "../../vitest.config.ts"

export default mergeConfig(shared, defineConfig({ test: { globalSetup: ["@slipway/embedded-postgres/testing/TestPostgresServer"] } }))
