import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { MemoryDisk } from "@slipway/domain/memory/files/MemoryDisk"
import * as AgentRuntimeMemory from "@slipway/domain/memory/sandbox/AgentRuntimeMemory"
import * as SandboxHostMemory from "@slipway/domain/memory/sandbox/SandboxHostMemory"
import { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { type BoxCommand, type BoxProcess, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { sessions } from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const ALPHABET = "abcdefgh"
let sandboxes = 0

const machine = Layer.mergeAll(AgentRuntimeMemory.layer, SandboxHostMemory.layer).pipe(Layer.provideMerge(MemoryDisk.layer))

const freshId = () => {
  const digits = Array.from((++sandboxes).toString(8).padStart(12, "0"), (digit) => ALPHABET.charAt(Number(digit))).join("")
  return SandboxId.make(`c_${digits}`)
}

const sandbox = Effect.fnUntraced(function*(sandboxId: SandboxId) {
  const host = yield* SandboxHost
  const { files } = yield* MemoryDisk
  const box = yield* host.provision({ sandboxId, fence: 1 })
  let agent: BoxProcess | null = null
  return {
    box: { ...box, spawn: (command: BoxCommand) => Effect.tap(box.spawn(command), (process) => Effect.sync(() => agent = process)) },
    repositories: [{ name: RepoName.make("acme/shop"), folder: "shop" }],
    read: (path: string) => Effect.sync(() => files.get(`${box.workspace}/shop/${path}`) ?? null),
    running: () => Effect.succeed(0),
    killAgent: Effect.suspend(() => agent?.endInput ?? Effect.void)
  }
})

export const suites = () => [sessions("memory", machine, {
  profile: "offline",
  model: "offline/demo",
  sandbox: Effect.suspend(() => sandbox(freshId())),
  moved: Effect.fnUntraced(function*({ box: { sandboxId } }, paths) {
    const here = yield* SandboxHost
    const there = yield* Layer.build(Layer.fresh(machine))
    yield* Context.get(there, SandboxHost).writeHome(sandboxId, here.readHome(sandboxId, paths, { maximumBytes: 1_000_000 }))
    return { sandbox: yield* Effect.provide(sandbox(sandboxId), there), runtime: Context.get(there, AgentRuntime) }
  })
})]
