/**
 * A worker that starts something in a box of gVisor and is then killed by the test.
 * node gvisor.worker.ts FOLDER WORKSPACE ID SCRIPT
 */
import * as Egress from "@slipway/adapters/egress/Egress"
import { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { SandboxId } from "@slipway/domain/SandboxId"
import { Effect, Layer } from "effect"
import { hostIn } from "./gvisor.fixture.ts"

const [folder = "", workspace = "", id = "", script = ""] = process.argv.slice(2)

Effect.gen(function*() {
  const host = yield* SandboxHost
  const box = yield* host.provision({ sandboxId: SandboxId.make(id), workspace })
  yield* box.spawn({ command: "sh", args: ["-c", script], env: {} })
  return yield* Effect.never
}).pipe(Effect.scoped, Effect.provide(Layer.provide(hostIn(folder), Egress.layer({ allow: new Set() }))), Effect.runFork)
