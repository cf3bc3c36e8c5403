import * as AgentRuntimeMemory from "@slipway/domain/memory/AgentRuntimeMemory"
import { MemoryDisk } from "@slipway/domain/memory/MemoryDisk"
import * as SandboxHostMemory from "@slipway/domain/memory/SandboxHostMemory"
import { type BoxProcess, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { SandboxId } from "@slipway/domain/SandboxId"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { sessions } from "@slipway/domain/testing/AgentRuntimeContract"
import { Effect, Layer } from "effect"

const ALPHABET = "abcdefgh"
let sandboxes = 0

sessions("memory", Layer.mergeAll(AgentRuntimeMemory.layer, SandboxHostMemory.layer).pipe(Layer.provideMerge(MemoryDisk.layer)), {
  profile: "offline",
  model: "offline/demo",
  sandbox: Effect.gen(function*() {
    const host = yield* SandboxHost
    const { files } = yield* MemoryDisk
    const digits = Array.from((++sandboxes).toString(8).padStart(12, "0"), (digit) => ALPHABET.charAt(Number(digit))).join("")
    const sandboxId = SandboxId.make(`c_${digits}`)
    const workspace = `/memory/work/${sandboxId}`
    const box = yield* host.provision({ sandboxId, workspace })
    let agent: BoxProcess | null = null
    return {
      box: { ...box, spawn: (command) => Effect.tap(box.spawn(command), (process) => Effect.sync(() => agent = process)) },
      repositories: [{ name: RepoName.make("acme/shop"), folder: "shop" }],
      read: (path) => Effect.sync(() => files.get(`${workspace}/shop/${path}`) ?? null),
      running: () => Effect.succeed(0),
      killAgent: Effect.suspend(() => agent?.endInput ?? Effect.void)
    }
  })
})
