/** A connection to the server under test that can be lost. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"
import { address } from "./Harness.ts"

/** Forwards connections to the server that a test names, and can cut all of them. */
export const proxyTo = Effect.fnUntraced(function*(to: { readonly host: string; readonly port: number }) {
  const sockets = new Set<Socket>()
  const server = yield* Effect.acquireRelease(
    Effect.promise(() =>
      new Promise<ReturnType<typeof createServer>>((resolve) => {
        const server = createServer((inner) => {
          const outer = connect(to)
          for (const socket of [inner, outer]) {
            sockets.add(socket)
            socket.on("error", () => {})
            socket.on("close", () => {
              inner.destroy()
              outer.destroy()
            })
          }
          inner.pipe(outer).pipe(inner)
        }).listen(0, "127.0.0.1", () => resolve(server))
      })
    ),
    (server) =>
      Effect.sync(() => {
        for (const socket of sockets) socket.destroy()
        server.close()
      })
  )
  const bound = server.address()
  assert(typeof bound === "object" && bound !== null)
  return {
    url: `http://127.0.0.1:${bound.port}`,
    cut: () => {
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    }
  }
})

/** The same, to the server under test. */
export const proxy = () => Effect.flatMap(address, proxyTo)
