import * as AuditLogMemory from "@slipway/domain/memory/AuditLogMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import { suite } from "@slipway/testing/contracts/access/AuditLogContract"
import * as Layer from "effect/Layer"

export const suites = () => [suite("memory", Layer.merge(AuditLogMemory.layer, IdsMemory.layer))]
