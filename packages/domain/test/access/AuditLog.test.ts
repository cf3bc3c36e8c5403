import { Layer } from "effect"
import { AuditLog } from "@slipway/domain/access/AuditLog"
import { Ids } from "@slipway/domain/Ids"
import { suite } from "@slipway/domain/testing/AuditLogContract"

suite("memory", Layer.merge(AuditLog.layerMemory, Ids.layerMemory))
