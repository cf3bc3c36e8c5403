/** `SandboxHost` in memory: for tests and for embedding without a database. State dies with the layer. */
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { sha256 } from "../../src/ids/Digest.ts"
import type { SandboxId } from "../../src/ids/SandboxId.ts"
import {
  type Box,
  type BoxCommand,
  type BoxProcess,
  type FilePart,
  HomeDamaged,
  HomeTooLarge,
  HostError,
  SandboxHost
} from "../../src/sandbox/ports/SandboxHost.ts"
import { MemoryDisk, workspaceOf } from "../files/MemoryDisk.ts"

const utf8 = new TextEncoder()

/** The content of a home: files in the order of their paths, and a digest of them. */
const HomeContent = Schema.fromJsonString(Schema.Struct({
  paths: Schema.Array(Schema.String),
  files: Schema.Array(Schema.Tuple([Schema.String, Schema.String])),
  sha256: Schema.String
}))
const encodeContent = Schema.encodeSync(HomeContent)
const decodeContent = Schema.decodeUnknownOption(HomeContent)
const digestOf = (paths: ReadonlyArray<string>, files: ReadonlyArray<readonly [string, string]>) =>
  sha256(utf8.encode(JSON.stringify([paths, files])))

/** Bytes that are written into a home. All of them are in memory anyway. */
const MAXIMUM_BYTES = 64 * 2 ** 20

const isPath = (path: string) => !path.split("/").some((name) => name === "" || name === "." || name === "..")
const isWithin = (paths: ReadonlyArray<string>, path: string) => paths.some((other) => path === other || path.startsWith(`${other}/`))

const homeOf = (sandboxId: SandboxId) => `/memory/home/${sandboxId}`

/** The files below the home, by path. */
const filesOf = (files: ReadonlyMap<string, string>, sandboxId: SandboxId, within: (path: string) => boolean) => {
  const prefix = `${homeOf(sandboxId)}/`
  return Array.from(files).flatMap(([path, content]) => {
    const relative = path.slice(prefix.length)
    return path.startsWith(prefix) && within(relative) ? [[relative, content] as const] : []
  }).sort(([a], [b]) => a < b ? -1 : 1)
}

/** The whole files below the path that have at most `maximumBytes` together, up to the first that does not fit. */
const readFiles = (files: ReadonlyMap<string, string>, sandboxId: SandboxId, path: string, maximumBytes: number) => {
  const found = filesOf(files, sandboxId, (one) => isWithin([path], one)).map(([path, text]) => ({ path, bytes: utf8.encode(text) }))
  let left = maximumBytes
  const whole = found.filter(({ bytes }) => (left -= bytes.length) >= 0)
  const parts = whole.flatMap(({ bytes, path }): ReadonlyArray<FilePart> => [{ path }, { bytes }])
  return Stream.concat(Stream.fromIterable(parts), left < 0 ? Stream.fail(new HomeTooLarge({ maximumBytes })) : Stream.empty)
}

const forget = (files: Map<string, string>, sandboxId: SandboxId, within: (path: string) => boolean) => {
  for (const [path] of filesOf(files, sandboxId, within)) files.delete(`${homeOf(sandboxId)}/${path}`)
}

const boxOf = (sandboxId: SandboxId, spawn: Box["spawn"]): Box => ({
  sandboxId,
  workspace: workspaceOf(sandboxId),
  home: homeOf(sandboxId),
  spawn
})

const gone = new HostError({ operation: "spawn", detail: "The sandbox has no box any more.", retryable: false })

/**
 * Boxes without programs, for tests and for embedding. A spawned process echoes its input, and exits with code 0 at the end of its
 * input. Homes are on `MemoryDisk`. Passes `lifecycle` of the contract suite; the rest needs real processes.
 */
export const layer = Layer.effect(
  SandboxHost,
  Effect.map(MemoryDisk, ({ files }) => {
    const boxes = new Map<SandboxId, Box>()
    /** Kills each process of a sandbox, in its box and in visits. */
    const kills = new Map<SandboxId, Set<Effect.Effect<unknown>>>()
    /** Sandboxes with data. */
    const left = new Set<SandboxId>()
    let pids = 0

    const spawn = (sandboxId: SandboxId, { homeFiles = {} }: BoxCommand) =>
      Effect.gen(function*() {
        const refused = Object.keys(homeFiles).find((path) => !isPath(path))
        if (refused !== undefined) {
          const detail = `${JSON.stringify(refused)} is not a path below the home.`
          return yield* new HostError({ operation: "spawn", detail, retryable: false })
        }
        for (const [path, content] of Object.entries(homeFiles)) files.set(`${homeOf(sandboxId)}/${path}`, content)
        const output = yield* Queue.unbounded<Uint8Array, Cause.Done>()
        const exit = yield* Deferred.make<{ readonly code: number | null; readonly signal: string | null }>()
        const end = (code: number | null, signal: string | null) =>
          Effect.andThen(Queue.end(output), Deferred.succeed(exit, { code, signal }))
        const killed = end(null, "SIGKILL")
        const started = kills.get(sandboxId) ?? new Set()
        yield* Effect.acquireRelease(
          Effect.sync(() => kills.set(sandboxId, started.add(killed))),
          () => Effect.andThen(killed, Effect.sync(() => started.delete(killed)))
        )
        const process: BoxProcess = {
          pid: ++pids,
          write: (bytes) => Effect.asVoid(Queue.offer(output, typeof bytes === "string" ? utf8.encode(bytes) : bytes)),
          endInput: Effect.asVoid(end(0, null)),
          stdout: Stream.fromQueue(output),
          stderrTail: Effect.succeed(""),
          exited: Deferred.await(exit)
        }
        return process
      })

    const endAll = (sandboxId: SandboxId) =>
      Effect.suspend(() => Effect.forEach(kills.get(sandboxId) ?? [], (kill) => kill, { discard: true }))

    return SandboxHost.of({
      isolation: "none",
      programs: (image) => Effect.succeed({ id: "", image: null, isRefused: image !== null, path: [], env: {} }),
      provision: ({ sandboxId }) =>
        Effect.gen(function*() {
          yield* endAll(sandboxId)
          left.add(sandboxId)
          const box = boxes.get(sandboxId) ??
            boxOf(sandboxId, (command) => Effect.suspend(() => boxes.has(sandboxId) ? spawn(sandboxId, command) : Effect.fail(gone)))
          boxes.set(sandboxId, box)
          return box
        }),
      find: (sandboxId) => Effect.sync(() => Option.fromNullishOr(boxes.get(sandboxId))),
      visit: ({ sandboxId }) => Effect.sync(() => boxOf(sandboxId, (command) => spawn(sandboxId, command))),
      readHome: (sandboxId, paths, { maximumBytes }) =>
        Stream.suspend(() => {
          const found = filesOf(files, sandboxId, (path) => isWithin(paths, path))
          const bytes = utf8.encode(encodeContent({ paths, files: found, sha256: digestOf(paths, found) }))
          return bytes.length > maximumBytes ? Stream.fail(new HomeTooLarge({ maximumBytes })) : Stream.make(bytes)
        }),
      readFiles: (sandboxId, path, { maximumBytes }) => Stream.suspend(() => readFiles(files, sandboxId, path, maximumBytes)),
      writeHome: Effect.fnUntraced(function*(sandboxId, content) {
        const decoder = new TextDecoder()
        let text = ""
        let bytes = 0
        yield* Stream.runForEach(content, (chunk) =>
          Effect.suspend(() => {
            bytes += chunk.length
            if (bytes > MAXIMUM_BYTES) return new HomeDamaged({ detail: "They are too many bytes." })
            text += decoder.decode(chunk, { stream: true })
            return Effect.void
          }))
        const given = Option.getOrUndefined(decodeContent(text + decoder.decode()))
        if (given === undefined) return yield* new HomeDamaged({ detail: "They are cut or changed." })
        const { paths } = given
        const isWhole = given.sha256 === digestOf(paths, given.files) && paths.every(isPath) &&
          given.files.every(([path]) => isPath(path) && isWithin(paths, path))
        if (!isWhole) return yield* new HomeDamaged({ detail: "They are cut or changed." })
        left.add(sandboxId)
        forget(files, sandboxId, (path) => isWithin(paths, path))
        for (const [path, content] of given.files) files.set(`${homeOf(sandboxId)}/${path}`, content)
      }),
      rest: (sandboxId) => Effect.andThen(endAll(sandboxId), Effect.sync(() => void boxes.delete(sandboxId))),
      stop: (sandboxId) =>
        Effect.andThen(
          endAll(sandboxId),
          Effect.sync(() => {
            boxes.delete(sandboxId)
            kills.delete(sandboxId)
            left.delete(sandboxId)
            forget(files, sandboxId, () => true)
          })
        ),
      list: Effect.sync(() => Array.from(left))
    })
  })
)
