/**
 * A worker that starts something in a box and is then killed by the test. KIND: whose boxes, as their fixture is called.
 * node worker.ts KIND FOLDER ID SCRIPT
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer } from "effect"
import * as Egress from "../../src/egress/Egress.ts"
import type { Fixture } from "./isolated.ts"

const [kind = "", folder = "", id = "", script = ""] = process.argv.slice(2)
const { hostIn }: Pick<Fixture, "hostIn"> = await import(`./${kind}.fixture.ts`)

Effect.gen(function*() {
  const host = yield* SandboxHost
  const box = yield* host.provision({ sandboxId: SandboxId.make(id), fence: 1 })
  yield* box.spawn({ command: "sh", args: ["-c", script], env: {} })
  return yield* Effect.never
}).pipe(Effect.scoped, Effect.provide(Layer.provide(hostIn(folder), Egress.layer({ allow: new Set() }))), Effect.runFork)
