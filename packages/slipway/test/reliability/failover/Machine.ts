/** A machine: a network namespace, a data folder and one worker. Losing it takes all three. */
import * as Mounts from "@slipway/machine/testing/Mounts"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { rmSync } from "node:fs"
import { mkdtemp } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { processesOf, until, worker } from "../../commands/SlipwayProcess.ts"

const ip = (...args: ReadonlyArray<string>) => void execFileSync("ip", args, { stdio: "pipe" })
const quietly = (action: () => void) => {
  try {
    action()
  } catch {
    // It is gone already.
  }
}

/** Each has a network of its own, 10.231.n.0/30, that only this host shares. */
let made = 0

const network = Effect.acquireRelease(
  Effect.sync(() => {
    const n = ++made
    const [name, here, there] = [`slipway-${process.pid}-${n}`, `sw${n}a${process.pid % 10_000}`, `sw${n}b${process.pid % 10_000}`]
    ip("netns", "add", name)
    ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
    ip("addr", "add", `10.231.${n}.1/30`, "dev", here)
    ip("link", "set", here, "up")
    ip("-n", name, "addr", "add", `10.231.${n}.2/30`, "dev", there)
    ip("-n", name, "link", "set", there, "up")
    ip("-n", name, "link", "set", "lo", "up")
    return { name, address: `10.231.${n}.2` }
  }),
  ({ name }) => Effect.sync(() => quietly(() => ip("netns", "delete", name)))
)

export interface Machine {
  readonly dataDir: string
  readonly output: () => string
  /** Asks the worker to leave, and waits until it has. */
  readonly stop: Effect.Effect<unknown>
  /** Everything of it is gone at once: processes, network, disk. */
  readonly lose: Effect.Effect<void>
}

/** A worker on a machine of its own. What is left of it goes with the scope. */
export const make = Effect.fnUntraced(function*(databaseUrl: string, settings: Readonly<Record<string, string>> = {}) {
  const { address, name } = yield* network
  const dataDir = yield* Effect.promise(() => mkdtemp(path.join(tmpdir(), "slipway-machine-")))
  const started = yield* worker(
    dataDir,
    databaseUrl,
    { SLIPWAY_WORKER_ADDRESS: `${address}:4001`, SLIPWAY_PUBLIC_URL: "https://slipway.test", ...settings },
    { through: ["nsenter", `--net=/run/netns/${name}`] }
  )
  const lose = Effect.gen(function*() {
    yield* started.kill
    // A power cut ends boxes too: they end with their worker, a moment later.
    yield* until(processesOf(dataDir), (left) => left.length === 0)
    quietly(() => ip("netns", "delete", name))
    Mounts.unmount(dataDir)
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
  })
  yield* Effect.addFinalizer(() => lose)
  const machine: Machine = {
    dataDir,
    output: started.output,
    stop: started.stop,
    lose
  }
  return machine
})
