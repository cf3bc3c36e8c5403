/** The same trees, with git in boxes that keep something in. */
import * as Egress from "@slipway/adapters/egress/Egress"
import { register } from "@slipway/domain/testing/runners/Vitest"
import * as WorkingTreesContract from "@slipway/domain/testing/WorkingTreesContract"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import { describe } from "vitest"
import { absent, hostIn, openFolder } from "../hosts/bubblewrap.fixture.ts"
import { agent, source } from "./Repositories.ts"
import * as Trees from "./Trees.ts"

const layer = Layer.unwrap(
  Effect.map(
    openFolder,
    (folder) => Trees.layerOn(Layer.provide(hostIn(folder), Egress.layer({ allow: new Set() })), { directory: join(folder, "trees") })
  )
)

describe.skipIf(absent !== undefined)(`boxes${absent === undefined ? "" : ` (${absent})`}`, () => {
  register(WorkingTreesContract.suite("git in bubblewrap", layer, { agent, source }))
})
