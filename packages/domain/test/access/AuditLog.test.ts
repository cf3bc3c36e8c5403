import * as AuditLogMemory from "@slipway/domain/memory/AuditLogMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import { suite } from "@slipway/domain/testing/AuditLogContract"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as Layer from "effect/Layer"

register(suite("memory", Layer.merge(AuditLogMemory.layer, IdsMemory.layer)))
