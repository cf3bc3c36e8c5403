/**
 * A worker that starts something in a box without some layers, and is then killed by the test.
 * node worker.ts FOLDER WORKSPACE ID LAYER,… SCRIPT
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect } from "effect"
import * as Egress from "../../src/egress/Egress.ts"
import { type LayerName, without } from "./Layers.ts"
import { hostIn } from "./World.ts"

const [folder = "", workspace = "", id = "", names = "", script = ""] = process.argv.slice(2)

Effect.gen(function*() {
  const removal = without(names.split(",").filter((name) => name !== "") as ReadonlyArray<LayerName>)
  const { host } = yield* hostIn(folder, removal, {}, () => workspace)
  const box = yield* host.provision({ sandboxId: SandboxId.make(id), fence: 1 })
  yield* box.spawn({ command: "sh", args: ["-c", script], env: {} })
  return yield* Effect.never
}).pipe(Effect.scoped, Effect.provide(Egress.layer({ allow: new Set() })), Effect.runFork)
