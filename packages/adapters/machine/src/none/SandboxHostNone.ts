/**
 * `SandboxHost` without isolation: processes of the machine, run by our own user. For the offline agent, or where the
 * operator trusts the agent with the machine. What a sandbox started is found again by `SANDBOX_MARK` in its
 * environment (see ProcessTable), also by another worker process after this one was killed.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Box, HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer, Option, Schema, type Stream } from "effect"
import { randomUUID } from "node:crypto"
import { mkdir, readdir, realpath, rm } from "node:fs/promises"
import { dirname, join } from "node:path"
import * as Toolchains from "../files/Toolchains.ts"
import * as Homes from "../home/Homes.ts"
import { attempt, reason } from "../host/HostAttempt.ts"
import * as ImageName from "../host/ImageName.ts"
import * as KeyedLock from "../node/KeyedLock.ts"
import * as NodeBoxProcess from "../node/NodeBoxProcess.ts"
import * as ProcessTable from "../node/ProcessTable.ts"
import * as HomeFiles from "./HomeFiles.ts"

/** `<directory>/<sandbox id>:<process>`: whose process it is, for every worker that uses this directory. */
const MARK = "SANDBOX_MARK"

/** Of a killed process and of a folder its last members still write to. */
const KILL_WITHIN = "5 seconds"

const isSandboxId = Schema.is(SandboxId)

const kill = (matches: (mark: string) => boolean) => ProcessTable.killAll({ variable: MARK, matches, within: KILL_WITHIN })

export const layer = (options: {
  /** Holds the homes and temporary folders. Workers that share it see each other's leftovers. */
  readonly directory: string
  /** Where the trees of each sandbox are on this machine (`box/TreesLayout`). */
  readonly workspaceOf: (sandboxId: SandboxId) => string
  /** Absolute paths of folders as `Toolchains` has them. */
  readonly toolchains?: ReadonlyArray<string>
}): Layer.Layer<SandboxHost, HostError> =>
  Layer.effect(
    SandboxHost,
    Effect.gen(function*() {
      const directory = yield* attempt("provision", `${options.directory} cannot be used.`, async () => {
        await mkdir(options.directory, { recursive: true, mode: 0o700 })
        return realpath(options.directory)
      })
      // Node's own folder comes last: it is there so that `node` is found, not to hide the machine's tools.
      const path = `/usr/local/bin:/usr/bin:/bin:${dirname(process.execPath)}`

      const boxes = new Map<SandboxId, Box>()
      const locked = yield* KeyedLock.make

      /** Every process that was ever started for the sandbox of this folder. */
      const end = Effect.fnUntraced(function*(operation: HostError["operation"], folder: string) {
        const left = yield* kill((mark) => mark.startsWith(`${folder}:`))
        if (left.length === 0) return
        return yield* new HostError({ operation, detail: `processes ${left.join(", ")} survive SIGKILL`, retryable: true })
      })

      const homeOf = (sandboxId: SandboxId) => join(directory, sandboxId, "home")

      /** The folders that a process needs. */
      const prepared = Effect.fnUntraced(function*(operation: HostError["operation"], sandboxId: SandboxId) {
        const workspace = options.workspaceOf(sandboxId)
        const folder = join(directory, sandboxId)
        const home = homeOf(sandboxId)
        const tmp = join(folder, "tmp")
        yield* attempt(operation, `The workspace or ${folder} cannot be used.`, async () => {
          // The trees may still be on their way.
          await mkdir(workspace, { recursive: true, mode: 0o700 })
          for (const path of [folder, home, tmp]) await mkdir(path, { recursive: true, mode: 0o700 })
        })

        const spawn: Box["spawn"] = Effect.fn("Box.spawn")(function*({ args, command, env, homeFiles = {}, programs }) {
          yield* Effect.tryPromise({
            try: () => HomeFiles.write(home, homeFiles),
            catch: (error) =>
              error instanceof HomeFiles.RefusedPath
                ? new HostError({ operation: "spawn", detail: error.message, retryable: false, ofSandbox: true })
                : new HostError({
                  operation: "spawn",
                  detail: `The home cannot be written to (${reason(error)}).`,
                  retryable: true
                })
          })
          const mark = `${folder}:${randomUUID()}`
          const { process } = yield* Effect.acquireRelease(
            NodeBoxProcess.start(command, args, {
              cwd: workspace,
              env: {
                ...programs?.env,
                ...env,
                PATH: [...programs?.path ?? [], path].join(":"),
                HOME: home,
                TMPDIR: tmp,
                LANG: "C.UTF-8",
                TERM: "dumb",
                [MARK]: mark
              }
            }),
            ({ process, release }) =>
              Effect.gen(function*() {
                const left = yield* kill((other) => other === mark)
                yield* release
                if (left.length === 0) return yield* process.exited
                yield* Effect.logError("processes survive SIGKILL", { sandboxId, pids: left })
              })
          )
          return process
        })

        const box: Box = { sandboxId, workspace, home, spawn }
        return box
      })

      const provision = Effect.fn("SandboxHost.provision")(function*({ sandboxId }: { readonly sandboxId: SandboxId }) {
        yield* end("provision", join(directory, sandboxId))
        const { spawn, ...prepare } = yield* prepared("provision", sandboxId)
        const box: Box = {
          ...prepare,
          spawn: (command) =>
            Effect.suspend(() =>
              boxes.has(sandboxId)
                ? spawn(command)
                : new HostError({ operation: "spawn", detail: "The sandbox has no box any more.", retryable: false })
            )
        }
        boxes.set(sandboxId, box)
        return box
      }, (self, { sandboxId }) => locked(sandboxId)(self))

      /** There is nothing that a box would take while nothing runs in it. */
      const visit = Effect.fn("SandboxHost.visit")(function*({ sandboxId }: { readonly sandboxId: SandboxId }) {
        return boxes.get(sandboxId) ?? (yield* prepared("visit", sandboxId))
      }, (self, { sandboxId }) => locked(sandboxId)(self))

      const writeHome = Effect.fn("SandboxHost.writeHome")(function*<E>(sandboxId: SandboxId, content: Stream.Stream<Uint8Array, E>) {
        const folder = join(directory, sandboxId)
        const home = homeOf(sandboxId)
        yield* attempt("write", `${folder} cannot be used.`, () => mkdir(home, { recursive: true, mode: 0o700 }))
        yield* Homes.write({ home, beside: folder, owner: null }, content)
      }, (self, sandboxId) => locked(sandboxId)(self))

      const rest = Effect.fn("SandboxHost.rest")(function*(sandboxId: SandboxId) {
        yield* end("rest", join(directory, sandboxId))
        boxes.delete(sandboxId)
      }, (self, sandboxId) => locked(sandboxId)(self))

      const stop = Effect.fn("SandboxHost.stop")(function*(sandboxId: SandboxId) {
        const folder = join(directory, sandboxId)
        yield* end("stop", folder)
        boxes.delete(sandboxId)
        yield* attempt("stop", `${folder} cannot be removed.`, () => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
      }, (self, sandboxId) => locked(sandboxId)(self))

      const list = Effect.gen(function*() {
        const names = yield* attempt("list", `${directory} cannot be read.`, () => readdir(directory))
        const marked = [...(yield* ProcessTable.marks(MARK))].flatMap((mark) =>
          mark.startsWith(`${directory}/`)
            ? mark
              .slice(directory.length + 1)
              .split(":")
              .slice(0, 1)
            : []
        )
        return [...new Set([...names, ...marked])].filter(isSandboxId)
      }).pipe(Effect.withSpan("SandboxHost.list"))

      const find = (sandboxId: SandboxId) => Effect.sync(() => Option.fromNullishOr(boxes.get(sandboxId)))

      return SandboxHost.of({
        isolation: "none",
        programs: (image) =>
          Effect.gen(function*() {
            const kept = yield* Effect.promise(() => Toolchains.programs(options.toolchains ?? [], null))
            return { ...kept, id: `${yield* ImageName.ofMachine("none")} ${kept.id}`, image: null, isRefused: image !== null }
          }),
        provision,
        find,
        visit,
        readHome: (sandboxId, paths, limits) => Homes.read(homeOf(sandboxId), paths, limits),
        writeHome,
        rest,
        stop,
        list
      })
    })
  )
