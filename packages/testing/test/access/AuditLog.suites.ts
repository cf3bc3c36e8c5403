import * as AuditLogMemory from "@slipway/domain/memory/access/AuditLogMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import { suite } from "@slipway/testing/contracts/access/AuditLogContract"
import * as Layer from "effect/Layer"

export const suites = () => [suite("memory", Layer.merge(AuditLogMemory.layer, IdsMemory.layer))]
