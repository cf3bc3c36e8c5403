/**
 * Starts programs for its parent process. A fork takes time that grows with the memory of the forking process, and stops that process
 * meanwhile. This process is small and has no other work.
 *
 *     node Spawner.main.ts SOCKET
 *
 * Each stream of a child is a connection to SOCKET. Ends with the process that it works for, and takes the socket's folder along.
 */
import { spawn } from "node:child_process"
import { closeSync, constants, openSync, rmSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { dirname } from "node:path"
import type { Report, Request } from "./Messages.ts"

const [, , socketPath = ""] = process.argv

const report = (what: Report): void => {
  process.send?.(what)
}

const stream = (key: string, number: number) =>
  new Promise<Socket>((resolve, reject) => {
    const socket = connect(socketPath)
    // Further data is for the child.
    socket.pause()
    socket.once("error", reject)
    socket.once("connect", () => socket.write(`${key}${number}`, () => resolve(socket)))
  })

const file = async (path: string, flags: number): Promise<number> => openSync(path, flags)

const letGo = (stdio: ReadonlyArray<Socket | number>): void => {
  for (const one of stdio) {
    if (typeof one === "number") closeSync(one)
    else one.destroy()
  }
}

const failed = (id: number, error: Error & { readonly code?: string }): void =>
  report({ id, type: "refused", code: error.code ?? "UNKNOWN", message: error.message })

/** All of them or none. */
const opened = async ({ inputPath, key, outputPath }: Request): Promise<ReadonlyArray<Socket | number>> => {
  const tried = await Promise.allSettled([
    inputPath === undefined ? stream(key, 0) : file(inputPath, constants.O_RDONLY),
    outputPath === undefined ? stream(key, 1) : file(outputPath, constants.O_WRONLY),
    stream(key, 2)
  ])
  const failure = tried.find((one) => one.status === "rejected")
  const there = tried.flatMap((one) => one.status === "fulfilled" ? [one.value] : [])
  if (failure === undefined) return there
  letGo(there)
  throw failure.reason
}

const start = async (request: Request) => {
  const { args, command, cwd, env, id } = request
  let stdio: ReadonlyArray<Socket | number> = []
  try {
    stdio = await opened(request)
    const child = spawn(command, args, { cwd, env, detached: true, stdio: [...stdio] })
    child.once("error", (error) => failed(id, error))
    child.once("spawn", () => report({ id, type: "started", pid: child.pid ?? 0 }))
    child.once("exit", (code, signal) => report({ id, type: "exited", code, signal }))
  } catch (error) {
    failed(id, error instanceof Error ? error : new Error(String(error)))
  } finally {
    letGo(stdio)
  }
}

process.on("message", (request: Request) => void start(request))
process.on("disconnect", () => {
  rmSync(dirname(socketPath), { recursive: true, force: true })
  process.exit()
})
