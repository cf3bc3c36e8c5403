/**
 * A worker that starts something in a sandbox and is then killed by the test.
 * node killed-worker.ts DIRECTORY ID SCRIPT
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import * as SandboxHostNone from "../../src/none/SandboxHostNone.ts"
import { workspaceOf } from "../../testing/hosts/Machine.ts"

const [directory = "", id = "", script = ""] = process.argv.slice(2)

Effect.gen(function*() {
  const host = yield* SandboxHost
  const box = yield* host.provision({ sandboxId: SandboxId.make(id), fence: 1 })
  yield* box.spawn({ command: "sh", args: ["-c", script], env: {} })
  return yield* Effect.never
}).pipe(Effect.scoped, Effect.provide(SandboxHostNone.layer({ directory, workspaceOf })), Effect.runFork)
