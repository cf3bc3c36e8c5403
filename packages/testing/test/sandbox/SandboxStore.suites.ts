import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import * as LeasesContract from "@slipway/testing/contracts/sandbox/LeasesContract"
import * as MaintenanceContract from "@slipway/testing/contracts/sandbox/MaintenanceContract"
import { limited, MAX_ACTIVE, suite } from "@slipway/testing/contracts/sandbox/SandboxStoreContract"
import * as Layer from "effect/Layer"
import { layer } from "./Stores.ts"

/** The three that are over the same rows. */
export const suites = () => [
  suite("memory", layer),
  LeasesContract.suite("memory", layer),
  MaintenanceContract.suite("memory", layer),
  limited("memory", layer.pipe(Layer.provide(Layer.succeed(MaxActiveSandboxes, MAX_ACTIVE))))
]
