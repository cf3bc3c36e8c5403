/** A peer's server: a process of ours, on the loopback alone, with an environment that has nothing of ours. */
import { spawn } from "node:child_process"
import { mkdirSync } from "node:fs"
import { createServer } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import * as Waiting from "../Waiting.ts"
import * as Wire from "./Wire.ts"

export interface Program {
  readonly url: string
  readonly stop: (signal: NodeJS.Signals) => Promise<void>
}

const running = new Set<Program["stop"]>()

/** Stops all processes when the benchmark is interrupted. */
export const stopAll = async (): Promise<void> => {
  for (const stop of running) await stop("SIGKILL")
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(address !== null && typeof address === "object" ? address.port : 0))
    })
  })

/** Until `ready` answers. */
export const start = async (
  command: string,
  args: (port: number) => ReadonlyArray<string>,
  options: { readonly home: string; readonly cwd: string; readonly env: Readonly<Record<string, string>>; readonly ready: string }
): Promise<Program> => {
  mkdirSync(options.cwd, { recursive: true })
  mkdirSync(options.home, { recursive: true })
  const port = await freePort()
  const child = spawn(command, args(port), {
    cwd: options.cwd,
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: options.home, TMPDIR: "/tmp", LANG: "C.UTF-8", TERM: "dumb", ...options.env },
    stdio: ["ignore", "ignore", "pipe"]
  })
  let said = ""
  child.stderr.on("data", (chunk: Buffer) => said = (said + chunk.toString()).slice(-4000))
  child.on("error", (error) => said += error.message)
  const url = `http://127.0.0.1:${port}`
  const stop = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    await Waiting.ended(child)
    running.delete(stop)
  }
  running.add(stop)
  const end = performance.now() + 60_000
  for (;;) {
    // opencode (1.18.33) may never answer what it is asked while it starts.
    const answer = Wire.ask("GET", url + options.ready, {}, undefined, AbortSignal.timeout(2000))
    if (await answer.then(() => true, () => false)) return { url, stop }
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined || performance.now() > end) {
      await stop("SIGKILL")
      throw new Error(`${command} did not answer: ${said}`)
    }
    await sleep(50)
  }
}
