import { AuditLog } from "@slipway/domain/access/AuditLog"
import { Ids } from "@slipway/domain/Ids"
import { suite } from "@slipway/domain/testing/AuditLogContract"
import { Layer } from "effect"

suite("memory", Layer.merge(AuditLog.layerMemory, Ids.layerMemory))
