/** Opens the box of a sandbox: its folders, its way out, and the limit of its disk. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { BoxNotRunning, PortClosed, PortsUnsupported } from "@slipway/domain/sandbox/ports/BoxConnection"
import { type Box, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Scope } from "effect"
import { join, relative } from "node:path"
import { WORKSPACE } from "../files/BoxPaths.ts"
import * as DiskUse from "../files/DiskUse.ts"
import * as SocketConnection from "../network/SocketConnection.ts"
import { endAll, type HostState, type Live, type Prepared } from "./HostState.ts"
import { prepare } from "./PrepareBox.ts"
import { spawnIn } from "./SpawnInBox.ts"

const DISK_LOOK_MILLIS = 10_000

/** Ends what the sandbox runs when its files pass the limit of the disk, until the scope closes. */
const guardDisk = Effect.fnUntraced(function*(
  { diskGlanceMillis, diskLookMillis, kind, limits }: HostState,
  sandboxId: SandboxId,
  { folder, user, workspace }: Prepared,
  running: Live["running"],
  scope: Scope.Scope
) {
  const holder = kind.holder === undefined ? user : yield* kind.holder(sandboxId)
  yield* Effect.forkIn(
    DiskUse.guard({
      place: { workspace, folders: [workspace, folder.home, folder.scratch], user: holder },
      limits,
      everyMillis: diskLookMillis ?? DISK_LOOK_MILLIS,
      ...(diskGlanceMillis === undefined ? {} : { glanceMillis: diskGlanceMillis }),
      isIdle: () => running.size === 0,
      exceeded: (excess) =>
        Effect.andThen(
          Effect.logError("ended what a sandbox runs, because of its disk", { sandboxId, excess }),
          Effect.suspend(() => endAll(running))
        )
    }),
    scope
  )
})

/** Shows folders of a cache image in the box. */
const overlayIn = (
  { folders }: HostState,
  sandboxId: SandboxId,
  { folder, isSized, user, workspace }: Prepared,
  { image, paths, tree }: Parameters<NonNullable<Box["overlay"]>>[0]
) =>
  Effect.suspend(() => {
    if (folders === undefined || !isSized || user === null) return Effect.succeed("the sandbox has no disk and user of its own")
    const within = (path: string) => relative(join(folders.directory, sandboxId), path)
    const wanted = { image, paths, tree: within(join(workspace, relative(WORKSPACE, tree))), home: within(folder.home) }
    return folders.overlay(sandboxId, wanted)
  })

export const open = Effect.fnUntraced(function*(host: HostState, sandboxId: SandboxId) {
  const { egress, kind, lives } = host
  const prepared = yield* prepare(host, "provision", sandboxId)
  const { folder, isSized, user } = prepared
  const scope = yield* Scope.fork(host.scope)
  const running = new Set<Effect.Effect<void>>()
  yield* egress.listen({ sandboxId, socket: folder.socket, owner: user }).pipe(
    Scope.provide(scope),
    Effect.mapError(({ detail }) => new HostError({ operation: "provision", detail, retryable: true }))
  )
  if (!isSized) yield* guardDisk(host, sandboxId, prepared, running, scope)

  const spawn: Box["spawn"] = Effect.fn("Box.spawn")(function*(command) {
    const live = lives.get(sandboxId)
    // Nothing would keep a process to its limits.
    if (live === undefined) {
      return yield* new HostError({ operation: "spawn", detail: "The sandbox has no box any more.", retryable: false })
    }
    return yield* spawnIn(host, sandboxId, prepared, { isReading: false, running: live.running }, command)
  })
  const connect: NonNullable<Box["connect"]> = Effect.fn("Box.connect")(function*(port) {
    if (!lives.has(sandboxId)) return yield* new BoxNotRunning()
    yield* host.counted(sandboxId)
    const socket = yield* Effect.acquireRelease(egress.connect(sandboxId, port), (socket) => Effect.sync(() => socket?.destroy()))
    if (socket !== null) return SocketConnection.of(socket)
    // Processes that were started without a way out have no bridge.
    return running.size > 0 && !(yield* egress.hasBridge(sandboxId)) ? yield* new PortsUnsupported() : yield* new PortClosed({ port })
  })
  const overlay: NonNullable<Box["overlay"]> = (wanted) => overlayIn(host, sandboxId, prepared, wanted)
  const box = {
    sandboxId,
    workspace: WORKSPACE,
    home: folder.homeInBox,
    spawn,
    connect,
    ...kind.showsMounts ? { overlay } : {},
    ...kind.limitsMet === undefined ? {} : { limitsMet: kind.limitsMet(sandboxId) }
  }
  const live: Live = { box, scope, running }
  lives.set(sandboxId, live)
  return live.box
})
