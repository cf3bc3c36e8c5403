/**
 * `Spawn` by a small process beside this one. Where this one forks itself, everything it serves waits: with 300 MiB and a busy
 * machine, 10 ms and more for each program, of which a boot starts seven.
 */
import { Effect, Layer } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdtemp } from "node:fs/promises"
import { createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import path from "node:path"
import { type Duplex, PassThrough } from "node:stream"
import { fileURLToPath } from "node:url"
import { KEY_LENGTH, type Report, type Request } from "./Messages.ts"
import { type Child, type Ended, killGroup, type Options, Spawn } from "./Spawn.ts"

const program = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./Spawner.main.ts" : "./Spawner.main.js", import.meta.url))

/** As the spawner can open it. */
const pathOf = (descriptor: number | undefined) => descriptor === undefined ? undefined : `/proc/${process.pid}/fd/${descriptor}`

const streamClosed = (stream: Duplex | null) =>
  stream === null || stream.destroyed ? Promise.resolve() : new Promise<void>((resolve) => stream.once("close", () => resolve()))

/** Buffers the events of the socket and its end for a listener that comes later: a socket without listeners closes at its end. */
const kept = (socket: Socket): PassThrough => {
  const stream = new PassThrough()
  socket.once("close", () => stream.end())
  stream.once("close", () => socket.destroy())
  return socket.pipe(stream)
}

/** One child, from the request on. */
class Job {
  readonly key = randomBytes(KEY_LENGTH / 2).toString("hex")
  readonly child: Promise<Child>
  readonly #streams = new Map<number, Duplex>()
  readonly #expected: number
  readonly #exited = Promise.withResolvers<Ended>()
  readonly #started = Promise.withResolvers<Child>()
  #pid: number | undefined
  #ended: Ended | null = null
  isWhole = false

  constructor({ inputFile, outputFile }: Options) {
    this.#expected = 1 + (inputFile === undefined ? 1 : 0) + (outputFile === undefined ? 1 : 0)
    this.child = this.#started.promise
  }

  connect(number: number, stream: Duplex): void {
    this.#streams.set(number, stream)
    // Nothing comes here: who reads notices when the child closes its end.
    if (number === 0) stream.resume()
    this.#look()
  }

  start(pid: number): void {
    this.#pid = pid
    this.#look()
  }

  refuse(error: Error): void {
    for (const stream of this.#streams.values()) stream.destroy()
    this.#started.reject(error)
  }

  end(ended: Ended): void {
    this.#ended = ended
    // A process that it left behind may have the stream open and never read it.
    this.#streams.get(0)?.destroy()
    this.#exited.resolve(ended)
  }

  /** Its exit can no longer be observed. */
  lose(): void {
    if (this.#pid !== undefined && this.#ended === null) killGroup(this.#pid)
    if (!this.isWhole) this.refuse(Object.assign(new Error("The spawner ended."), { code: "EAGAIN" }))
    this.end({ code: null, signal: "SIGKILL" })
  }

  /** Its streams and what the spawner tells of it take different ways. */
  #look(): void {
    const stderr = this.#streams.get(2)
    if (this.#pid === undefined || stderr === undefined || this.#streams.size < this.#expected) return
    this.isWhole = true
    const [stdin = null, stdout = null] = [this.#streams.get(0), this.#streams.get(1)]
    const exited = this.#exited.promise
    this.#started.resolve({
      pid: this.#pid,
      stdin,
      stdout,
      stderr,
      ended: () => this.#ended,
      exited,
      closed: Promise.all([exited, streamClosed(stdout), streamClosed(stderr)]).then(([ended]) => ended)
    })
  }
}

class Spawner {
  readonly #server: Server
  readonly #socketPath: string
  /** Those that run, and those whose streams are on their way. */
  readonly #jobs = new Map<number, Job>()
  readonly #connecting = new Map<string, Job>()
  #process: ChildProcess | undefined
  #isClosed = false
  #count = 0

  constructor(server: Server, socketPath: string) {
    this.#server = server
    this.#socketPath = socketPath
    server.on("connection", (socket) => this.#accept(socket))
  }

  /** Whose stream it is, and which, comes first. */
  #accept(socket: Socket): void {
    socket.on("error", () => socket.destroy())
    const look = () => {
      const header: Buffer | null = socket.read(KEY_LENGTH + 1)
      if (header === null) return
      socket.off("readable", look)
      const text = header.toString("latin1")
      const job = this.#connecting.get(text.slice(0, KEY_LENGTH))
      if (job === undefined) return socket.destroy()
      const number = Number(text.slice(KEY_LENGTH))
      job.connect(number, number === 0 ? socket : kept(socket))
      if (job.isWhole) this.#connecting.delete(job.key)
    }
    socket.on("readable", look)
  }

  #tell(report: Report): void {
    const job = this.#jobs.get(report.id)
    if (job === undefined) return
    if (report.type === "started") {
      job.start(report.pid)
      if (job.isWhole) this.#connecting.delete(job.key)
      return
    }
    this.#jobs.delete(report.id)
    if (report.type === "exited") return job.end({ code: report.code, signal: report.signal })
    this.#connecting.delete(job.key)
    job.refuse(Object.assign(new Error(report.message), { code: report.code }))
  }

  #lost(lost: ChildProcess): void {
    if (this.#process !== lost) return
    this.#process = undefined
    for (const job of new Set([...this.#jobs.values(), ...this.#connecting.values()])) job.lose()
    this.#jobs.clear()
    this.#connecting.clear()
  }

  /** Starts it unless it runs. In a session of its own: what ends this process by its group shall not end it before. */
  open(): ChildProcess {
    if (this.#process !== undefined) return this.#process
    const started = spawn(process.execPath, ["--max-old-space-size=32", program, this.#socketPath], {
      detached: true,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      env: {}
    })
    started.on("message", (report: Report) => this.#tell(report))
    started.on("error", () => this.#lost(started))
    started.once("exit", () => this.#lost(started))
    return this.#process = started
  }

  readonly spawn: Spawn = (command, args, options) => {
    const { cwd, env, inputFile, outputFile } = options
    const job = new Job(options)
    if (this.#isClosed) {
      job.lose()
      return job.child
    }
    const id = ++this.#count
    this.#jobs.set(id, job)
    this.#connecting.set(job.key, job)
    const request: Request = { id, key: job.key, command, args, cwd, env, inputPath: pathOf(inputFile), outputPath: pathOf(outputFile) }
    this.open().send(request)
    return job.child
  }

  /** No program is started from here on. */
  async close(): Promise<void> {
    this.#isClosed = true
    const ending = this.#process
    if (ending !== undefined) {
      const exited = new Promise((resolve) => ending.once("exit", resolve))
      ending.disconnect()
      await exited
    }
    this.#server.close()
  }
}

/** Started with the layer, ended with its scope. Where there is no Linux, this process starts programs itself. */
export const layer = process.platform !== "linux" ? Layer.empty : Layer.effect(
  Spawn,
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        // The spawner removes it.
        const folder = await mkdtemp(path.join(tmpdir(), "slipway-spawner-"))
        const socketPath = path.join(folder, "socket")
        const server = createServer()
        await new Promise<void>((resolve, reject) => server.once("error", reject).listen(socketPath, resolve))
        const spawner = new Spawner(server, socketPath)
        spawner.open()
        return spawner
      }),
      (spawner) => Effect.promise(() => spawner.close())
    ),
    (spawner) => spawner.spawn
  )
)
