/** A TCP line between two processes that can be slow, silent, refuse, or be cut in the middle of what it carries. */
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"
import type { Random } from "../../../testing/Random.ts"

export interface Line {
  readonly port: number
  /** How much was cut so far. */
  readonly cuts: () => number
  /** Each piece takes so much longer, in both directions. */
  readonly delay: (millis: number) => void
  /** Carries nothing and reports nothing; bytes sent meanwhile are lost with their connection. */
  readonly silence: () => void
  /** Refuses new connections and resets the existing ones. */
  readonly refuse: () => void
  /** Each connection is reset after so many bytes in one direction, of which the last piece is carried in part. */
  readonly cutAfter: (most: number, random: Random) => void
  /** As a line should be. */
  readonly mend: () => void
}

type Mode = "carries" | "silent" | "refuses"

/** Leads to that port, or where it says at the time. Ends with the scope. */
export const make = Effect.fnUntraced(function*(target: () => number) {
  const open = new Set<Socket>()
  let mode: Mode = "carries"
  let delay = 0
  let cuts = 0
  let budget: (() => number) | null = null

  const carried = (client: Socket) => {
    if (mode === "refuses") return void client.resetAndDestroy()
    const server = connect(target(), "127.0.0.1")
    let lost = false
    const carry = (from: Socket, to: Socket) => {
      let left = budget?.() ?? Number.POSITIVE_INFINITY
      const waiting: Array<{ readonly due: number; readonly bytes: Buffer | null }> = []
      let timer: NodeJS.Timeout | null = null
      open.add(from)
      const pass = (bytes: Buffer) => {
        lost ||= mode === "silent"
        if (lost || to.destroyed) return
        if (bytes.length < left) {
          left -= bytes.length
          // A full connection is sent nothing.
          if (!to.write(bytes)) {
            from.pause()
            to.once("drain", () => from.resume())
          }
          return
        }
        lost = true
        cuts++
        to.write(bytes.subarray(0, left), () => {
          from.resetAndDestroy()
          to.resetAndDestroy()
        })
      }
      /** In order, whatever the delay of each. `null`: the end, which a peer that vanished does not tell. */
      const pump = () => {
        timer = null
        for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
          const left = next.due - performance.now()
          if (left > 0) {
            timer = setTimeout(pump, left)
            return
          }
          waiting.shift()
          if (next.bytes !== null) pass(next.bytes)
          else if (!lost) to.destroy()
        }
      }
      const queue = (bytes: Buffer | null) => {
        waiting.push({ due: performance.now() + delay, bytes })
        if (timer === null) pump()
      }
      from.on("data", queue)
      from.on("error", () => {})
      from.on("close", () => {
        open.delete(from)
        queue(null)
      })
    }
    carry(client, server)
    carry(server, client)
    client.on("close", () => server.destroy())
  }
  const { port } = yield* Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
      const server = createServer({ noDelay: true }, carried)
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed({ port: typeof address === "object" && address !== null ? address.port : 0, close: () => server.close() }))
      })
    }),
    ({ close }) =>
      Effect.sync(() => {
        close()
        open.forEach((socket) => socket.destroy())
      })
  )
  const line: Line = {
    port,
    cuts: () => cuts,
    delay: (millis) => {
      delay = millis
    },
    silence: () => {
      mode = "silent"
    },
    refuse: () => {
      mode = "refuses"
      open.forEach((socket) => socket.resetAndDestroy())
    },
    cutAfter: (most, random) => {
      budget = () => 1 + random.below(most)
      // Those that are there already would be carried as before.
      open.forEach((socket) => socket.resetAndDestroy())
    },
    mend: () => {
      mode = "carries"
      delay = 0
      budget = null
    }
  }
  return line
})
