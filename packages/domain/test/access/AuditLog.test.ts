import * as AuditLogMemory from "@slipway/domain/memory/AuditLogMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import { suite } from "@slipway/domain/testing/AuditLogContract"
import { Layer } from "effect"

suite("memory", Layer.merge(AuditLogMemory.layer, IdsMemory.layer))
