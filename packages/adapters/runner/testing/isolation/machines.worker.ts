/**
 * A worker that starts something in a machine without some layers, and is then killed by the test.
 * node machines.worker.ts KIND FOLDER ID LAYER,… SCRIPT
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as Egress from "@slipway/machine/egress/Egress"
import { Effect } from "effect"
import type { Kind } from "../Machines.fixture.ts"
import { without } from "./MachinesLayers.ts"
import { serviceIn } from "./MachinesWorld.ts"

const [kind = "", folder = "", id = "", names = "", script = ""] = process.argv.slice(2)

Effect.gen(function*() {
  const removal = without(kind as Kind, names.split(",").filter((name) => name !== ""))
  const { host } = yield* serviceIn(kind as Kind)(folder, removal)
  const box = yield* host.provision({ sandboxId: SandboxId.make(id), fence: 1 })
  yield* box.spawn({ command: "sh", args: ["-c", script], env: {} })
  return yield* Effect.never
}).pipe(Effect.scoped, Effect.provide(Egress.layer({ allow: new Set() })), Effect.runFork)
