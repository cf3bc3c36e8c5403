/** A network between us and the Postgres of a test that can stop carrying anything, without a word to either side. */
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"

const listening = (connected: (client: Socket) => void) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
      const server = createServer(connected)
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({ port, close: () => server.close() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** Leads to the server of `url`. What is sent while it is `silent` is lost, and so is its connection, as with a peer that vanished. */
export const make = Effect.fnUntraced(function*(url: string) {
  const { hostname, port, searchParams } = new URL(url)
  const folder = searchParams.get("host")
  const open = new Set<Socket>()
  const state = { silent: false }
  const { port: here } = yield* listening((client) => {
    const server = folder === null ? connect(Number(port) || 5432, hostname) : connect(`${folder}/.s.PGSQL.5432`)
    let lost = false
    const carry = (from: Socket, to: Socket) => {
      from.on("data", (bytes) => {
        lost ||= state.silent
        if (!lost) to.write(bytes)
      })
      from.on("error", () => {})
      from.on("close", () => {
        open.delete(client)
        if (!lost) to.destroy()
      })
    }
    open.add(client)
    carry(client, server)
    carry(server, client)
    client.on("close", () => server.destroy())
  })
  yield* Effect.addFinalizer(() => Effect.sync(() => open.forEach((client) => client.destroy())))

  const through = new URL(url)
  through.searchParams.delete("host")
  const [, rest = ""] = /^[^:]+:\/\/(?:[^/]*)(\/.*)$/u.exec(through.href) ?? []
  const credentials = through.username === "" ? "" : `${through.username}${through.password === "" ? "" : `:${through.password}`}@`
  return {
    /** For clients. */
    url: `postgres://${credentials}127.0.0.1:${here}${rest}`,
    /** The connections that no client has given up. */
    open: () => [...open],
    silence: Effect.sync(() => {
      state.silent = true
    }),
    restore: Effect.sync(() => {
      state.silent = false
    })
  }
})
