/** Another network namespace of this machine, and a cable to it. */
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync } from "node:fs"

export const ip = (...args: ReadonlyArray<string>) => void execFileSync("ip", args, { stdio: "pipe" })

/**
 * Addresses of the network for benchmarks (RFC 2544), four for each cable. Two runs at once must not have the same ones: one would reach
 * the other's machines.
 */
const addressOf = (number: number, end: 1 | 2) => {
  const block = process.pid % 128 * 256 + number
  return `198.${18 + (block >> 14)}.${block >> 6 & 255}.${(block & 63) * 4 + end}`
}

/** Takes away what runs left that were killed: their cables lead away from addresses that a later process may have. */
const sweep = () => {
  const names = execFileSync("ip", ["netns", "list"], { encoding: "utf8" }).split("\n").map((line) => line.split(" ")[0] ?? "")
  for (const name of names) {
    const [, pid, number] = /^slipway-runner-(\d+)-(\d+)$/u.exec(name) ?? []
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue
    // Something else may remove it meanwhile, without notice.
    attempt(() => ip("link", "delete", hereOf(Number(pid), Number(number))))
    attempt(() => ip("netns", "delete", name))
  }
}

const hereOf = (pid: number, number: number) => `sr${pid % 10_000}${number}a`

/** Two ends of a cable: `here` is in this namespace, the other in that of `name`, with `address`. Cables of one test have numbers. */
export const cableOf = (number: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      sweep()
      const [name, here] = [`slipway-runner-${process.pid}-${number}`, hereOf(process.pid, number)]
      const there = here.replace(/a$/u, "b")
      const [near, address] = [addressOf(number, 1), addressOf(number, 2)]
      ip("netns", "add", name)
      ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
      ip("addr", "add", `${near}/30`, "dev", here)
      ip("link", "set", here, "up")
      ip("-n", name, "addr", "add", `${address}/30`, "dev", there)
      ip("-n", name, "link", "set", there, "up")
      ip("-n", name, "link", "set", "lo", "up")
      return { name, here, there, near, address }
    }),
    ({ here, name }) =>
      Effect.sync(() => {
        // The namespace goes with its last process, the cable now.
        ip("link", "delete", here)
        ip("netns", "delete", name)
      })
  )

export const ADDRESS = addressOf(0, 2)

export const cable = cableOf(0)

export const attempt = (action: () => void): string | undefined => {
  try {
    action()
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message.split("\n").at(-2) ?? error.message : String(error)
  }
}

const missing = process.getuid?.() === 0
  ? attempt(() => {
    const name = `slipway-probe-${process.pid}`
    ip("netns", "add", name)
    ip("netns", "delete", name)
  })
  : "root"

/** Why there are none here; `undefined`: there are. */
export const noNamespaces = missing === undefined ? undefined : `needs network namespaces: ${missing}`
