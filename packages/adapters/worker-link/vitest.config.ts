export { withPostgres as default } from "../vitest.config.ts"
