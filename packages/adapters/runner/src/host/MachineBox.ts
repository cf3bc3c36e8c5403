/** The box of a sandbox in its machine: opened, closed, and processes started in it. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { BoxNotRunning } from "@slipway/domain/sandbox/ports/BoxConnection"
import { type Box, type BoxCommand, type BoxProcess, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as ProcessEnvironment from "@slipway/machine/box/ProcessEnvironment"
import { Effect, Exit, Scope, Stream } from "effect"
import type * as RemoteProcess from "../client/RemoteProcess.ts"
import { homeOf, PLACES } from "../machines/Machines.ts"
import * as HomeFilesArchive from "./HomeFilesArchive.ts"
import { isRunnerError, ofHome, ofProcess } from "./RunnerErrorMapping.ts"
import type { Live, RunnerHost } from "./RunnerHost.ts"

const PATH = "/usr/local/bin:/usr/bin:/bin"

const TEMPORARY = "/tmp"

/** How long a process and what it started are waited for. A machine that is gone says nothing for longer, and has ended them. */
const END_WITHIN = "10 seconds"

const ENDED = { code: null, signal: "SIGKILL" }

/** A `BoxProcess` is never a failure: with the connection it has ended. */
const describe = ({ endInput, exited, pid, stderrTail, stdout, write }: RemoteProcess.RemoteProcess): BoxProcess => ({
  pid,
  write: (bytes) => write(Buffer.from(bytes)),
  endInput,
  stdout: Stream.catch(stdout, () => Stream.empty),
  stderrTail,
  exited: Effect.orElseSucceed(exited, () => ENDED)
})

export const spawnIn = Effect.fnUntraced(function*(
  { connections }: RunnerHost,
  sandboxId: SandboxId,
  hasWayOut: boolean,
  { args, command, env, homeFiles = {}, programs }: BoxCommand
) {
  const files = yield* HomeFilesArchive.of(homeFiles)
  const connection = yield* connections.borrow("spawn", sandboxId)
  if (Object.keys(homeFiles).length > 0) {
    yield* Effect.mapError(connection.writeHome(Stream.fromIterable(files)), ofHome("spawn"))
  }
  const remote = yield* Effect.mapError(
    connection.spawn({
      command,
      args,
      cwd: PLACES.workspace,
      env: ProcessEnvironment.of({ env, programs }, { path: PATH, home: homeOf(sandboxId), scratch: TEMPORARY, hasWayOut })
    }),
    ofProcess(command)
  )
  yield* Effect.addFinalizer(() => Effect.timeoutOption(remote.end, END_WITHIN))
  return describe(remote)
})

export const boxOf = (sandboxId: SandboxId, spawn: Box["spawn"]): Box => ({
  sandboxId,
  workspace: PLACES.workspace,
  home: homeOf(sandboxId),
  spawn: Effect.fn("Box.spawn")(spawn)
})

export const open = Effect.fnUntraced(function*(host: RunnerHost, sandboxId: SandboxId) {
  const { egress, lives } = host
  const scope = yield* Scope.fork(host.scope)
  const serve = yield* Scope.provide(egress.serve(sandboxId), scope)
  const inside = boxOf(sandboxId, (command) =>
    Effect.gen(function*() {
      if (!lives.has(sandboxId)) {
        return yield* new HostError({ operation: "spawn", detail: "The sandbox has no box any more.", retryable: false })
      }
      const hasWayOut = command.isOffline !== true && (yield* egress.isOpen(sandboxId))
      return yield* spawnIn(host, sandboxId, hasWayOut, command)
    }))
  const box: Box = {
    ...inside,
    connect: Effect.fn("Box.connect")(function*(port) {
      if (!lives.has(sandboxId)) return yield* new BoxNotRunning()
      const connection = yield* Effect.mapError(host.connections.borrow("visit", sandboxId), () => new BoxNotRunning())
      return yield* Effect.mapError(connection.connect(port), (error) => isRunnerError(error) ? new BoxNotRunning() : error)
    })
  }
  const live: Live = { box, scope, serve }
  lives.set(sandboxId, live)
  return live
})

export const close = Effect.fnUntraced(function*({ lives }: RunnerHost, sandboxId: SandboxId) {
  const live = lives.get(sandboxId)
  lives.delete(sandboxId)
  if (live !== undefined) yield* Scope.close(live.scope, Exit.void)
})
