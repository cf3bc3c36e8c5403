/** Boxes for readers: the one of the sandbox, or one of their own while it has none. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import { WORKSPACE } from "../files/BoxPaths.ts"
import * as SandboxFolder from "../files/SandboxFolder.ts"
import { endAll, type HostState, type Visits } from "./HostState.ts"
import { prepare } from "./PrepareBox.ts"
import { spawnIn } from "./SpawnInBox.ts"

/** A reader gets the box that is there when it starts something. */
const lookIn = (host: HostState, sandboxId: SandboxId, these: Visits): Box => {
  const own = host.locked(sandboxId)(Effect.gen(function*() {
    const live = host.lives.get(sandboxId)
    if (live !== undefined) return live.box.spawn
    if (these.own !== null) return these.own.spawn
    const prepared = yield* prepare(host, "visit", sandboxId)
    const running = new Set<Effect.Effect<void>>()
    these.own = { spawn: (command) => spawnIn(host, sandboxId, prepared, { isReading: true, running }, command), running }
    return these.own.spawn
  }))
  return {
    sandboxId,
    workspace: WORKSPACE,
    home: SandboxFolder.of(host.directory, sandboxId, null).homeInBox,
    spawn: Effect.fn("Box.spawn")(function*(command) {
      return yield* (yield* own)(command)
    })
  }
}

const leave = ({ kind, lives, locked, processors, visits }: HostState, sandboxId: SandboxId, these: Visits) =>
  locked(sandboxId)(Effect.gen(function*() {
    these.count--
    if (these.count > 0) return
    visits.delete(sandboxId)
    if (these.own === null || lives.has(sandboxId)) return
    yield* endAll(these.own.running)
    yield* kind.discard("visit", sandboxId)
    processors.release(sandboxId)
  })).pipe(
    // The next box takes over what is left of it.
    Effect.catch((error) => Effect.logWarning("a box of readers is left", { sandboxId, reason: error.detail }))
  )

export const visit = Effect.fn("SandboxHost.visit")(function*(
  host: HostState,
  { sandboxId }: { readonly sandboxId: SandboxId }
) {
  const { visits } = host
  const these = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const known = visits.get(sandboxId) ?? { count: 0, own: null }
      known.count++
      visits.set(sandboxId, known)
      return known
    }),
    (these) => leave(host, sandboxId, these)
  )
  return lookIn(host, sandboxId, these)
})
