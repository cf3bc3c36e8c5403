import { register } from "@slipway/domain/testing/runners/Vitest"
import { suites } from "./AuditLog.suites.ts"

register(...suites())
