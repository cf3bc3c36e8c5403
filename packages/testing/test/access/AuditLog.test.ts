import { register } from "@slipway/testing/runners/Vitest"
import { suites } from "./AuditLog.suites.ts"

register(...suites())
