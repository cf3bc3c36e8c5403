/** Runners of this process and of their own, and what lies between them and a worker. */
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect, type Scope, Stream } from "effect"
import { once } from "node:events"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { connect, createServer, type Socket } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import * as RunnerClient from "../src/client/RunnerClient.ts"
import * as Runner from "../src/program/Runner.ts"
import * as Identity from "../src/wire/Identity.ts"
import type { Address, Settings } from "../src/wire/RunnerSettings.ts"

export const program = fileURLToPath(new URL("../src/program/Runner.main.ts", import.meta.url))

/** Where a runner is, and what a worker needs to be let in. */
export interface Place {
  readonly host: string
  readonly port: number
  readonly worker: Identity.Identity
  readonly folder: string
  readonly tree: string
  readonly settings: Settings
}

/** Folders and keys for a runner. */
export const folders: Effect.Effect<Omit<Place, "host" | "port">, never, Scope.Scope> = Effect.gen(function*() {
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(path.join(tmpdir(), "slipway-runner-"))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
  )
  const tree = path.join(folder, "tree")
  yield* Effect.promise(() => mkdir(tree))
  const { runner, worker } = Identity.mint()
  const settings: Settings = {
    listen: { host: "127.0.0.1", port: 0 },
    tree,
    state: path.join(folder, "state"),
    identity: runner,
    ways: [],
    silenceMillis: 30_000,
    beatMillis: 1000
  }
  return { folder, tree, worker, settings }
})

/** A runner of this process. */
export const start = (change: Partial<Settings> = {}) =>
  Effect.gen(function*() {
    const made = yield* folders
    const settings = { ...made.settings, ...change }
    const runner = yield* Effect.acquireRelease(Effect.promise(() => Runner.start(settings)), (runner) => Effect.promise(runner.close))
    const { address, ways } = runner
    const { host, port } = "path" in address ? { host: "", port: 0 } : address
    return { ...made, settings, host, port, ways }
  })

export interface Told {
  readonly host: string
  readonly port: number
  readonly ways: ReadonlyArray<{ readonly name: string; readonly port: number }>
}

/** A runner of its own, by its program. `prefix` is what it is started by, such as `ip netns exec NAME`. */
export const launch = ({ folder, settings }: Pick<Place, "folder" | "settings">, prefix: ReadonlyArray<string> = []) =>
  Effect.gen(function*() {
    const file = path.join(folder, "settings.json")
    yield* Effect.promise(() => writeFile(file, JSON.stringify(settings), { mode: 0o600 }))
    const [command = process.execPath, ...args] = [...prefix, process.execPath, program, file]
    const { child, ended, says, stdout } = yield* SpawnedProgram.scoped(command, args, { env: {} })
    const exited = ended.then(({ code, signal }) => [code, signal])
    const line = yield* Effect.promise(() => says(() => /^(.*)\n/u.exec(stdout())?.[1]))
    return { child, exited, told: JSON.parse(line) as Told }
  })

export const dial = (place: Pick<Place, "host" | "port" | "worker">, options: Partial<RunnerClient.Options> = {}) =>
  RunnerClient.connect({ address: { host: place.host, port: place.port }, identity: place.worker, fence: 1, ...options })

export const shell = (script: string, env: Readonly<Record<string, string>> = {}) => ({
  command: "/bin/sh",
  args: ["-c", script],
  env: { PATH: "/usr/bin:/bin", ...env }
})

export const textOf = <E>(bytes: Stream.Stream<Uint8Array, E>) => Stream.mkString(Stream.decodeText(bytes))

/** Records of TLS in what comes in pieces: each message of a WebSocket is in one or more of its own. */
const recordCounter = () => {
  let left = Buffer.alloc(0)
  return (bytes: Buffer): Array<Buffer> => {
    let all = Buffer.concat([left, bytes])
    const records: Array<Buffer> = []
    while (all.length >= 5 && all.length >= 5 + all.readUInt16BE(3)) {
      const end = 5 + all.readUInt16BE(3)
      records.push(all.subarray(0, end))
      all = all.subarray(end)
    }
    left = all
    return records
  }
}

export type Direction = "to the runner" | "to the worker"

/**
 * A line between a worker and a runner that may be cut. `cutAfter` is asked for each connection, numbered from 0: after how many records
 * of which direction it breaks, if at all.
 */
export const line = (
  to: Address | (() => Address),
  cutAfter: (connection: number) => { readonly records: number; readonly direction: Direction } | undefined
) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      let connections = 0
      let cuts = 0
      const open = new Set<Socket>()
      // Records are small and follow each other: none waits until the one before has been acknowledged.
      const server = createServer({ noDelay: true }, (client) => {
        const cut = cutAfter(connections++)
        const runner = connect({ ...typeof to === "function" ? to() : to, noDelay: true })
        const end = () => {
          client.destroy()
          runner.destroy()
        }
        const carry = (from: Socket, into: Socket, direction: Direction) => {
          open.add(from)
          const count = recordCounter()
          let passed = 0
          from.on("data", (bytes) => {
            for (const record of count(bytes)) {
              if (into.destroyed) return
              into.write(record)
              if (cut?.direction !== direction || ++passed < cut.records) continue
              cuts++
              // Bytes passed on so far arrive; nothing comes after them.
              into.end()
              from.destroy()
              return
            }
          })
          from.on("error", end)
          from.on("close", () => {
            open.delete(from)
            into.end()
          })
        }
        carry(client, runner, "to the runner")
        carry(runner, client, "to the worker")
      })
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      const cutAll = () => {
        for (const socket of open) socket.destroy()
      }
      return { host: "127.0.0.1", port, connections: () => connections, cuts: () => cuts, cutAll, server }
    }),
    ({ cutAll, server }) =>
      Effect.sync(() => {
        server.close()
        cutAll()
      })
  )
