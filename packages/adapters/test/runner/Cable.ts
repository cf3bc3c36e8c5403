/** Another network namespace of this machine, and a cable to it. */
import { Effect } from "effect"
import { execFileSync } from "node:child_process"

export const ip = (...args: ReadonlyArray<string>) => void execFileSync("ip", args, { stdio: "pipe" })

/** Two ends of a cable: `here` is in this namespace, the other in that of `name`, with `address`. Cables of one test have numbers. */
export const cableOf = (number: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const own = `${process.pid % 10_000}${number}`
      const [name, here, there] = [`slipway-runner-${process.pid}-${number}`, `sr${own}a`, `sr${own}b`]
      const [near, address] = [`10.233.${number}.1`, `10.233.${number}.2`]
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

export const ADDRESS = "10.233.0.2"

export const cable = cableOf(0)

export const attempt = (action: () => void): string | undefined => {
  try {
    action()
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message.split("\n").at(-2) ?? error.message : String(error)
  }
}

/** Why there are none here; `undefined`: there are. */
export const noNamespaces = process.getuid?.() === 0
  ? attempt(() => {
    const name = `slipway-probe-${process.pid}`
    ip("netns", "add", name)
    ip("netns", "delete", name)
  })
  : "not root"
