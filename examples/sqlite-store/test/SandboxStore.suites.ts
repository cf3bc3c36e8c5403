import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import * as AuditLogContract from "@slipway/testing/contracts/access/AuditLogContract"
import { limited, MAX_ACTIVE, suite } from "@slipway/testing/contracts/sandbox/SandboxStoreContract"
import { Layer } from "effect"
import * as Durability from "./Durability.suites.ts"
import { layer } from "./Fixture.ts"

export const suites = () => [
  suite("sqlite", layer),
  limited("sqlite", layer.pipe(Layer.provide(Layer.succeed(MaxActiveSandboxes, MAX_ACTIVE)))),
  AuditLogContract.suite("sqlite", layer),
  ...Durability.suites()
]
