/** The way from a partner to the feed, which may fail: what it does to each page is up to the test. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { createServer } from "node:http"

/** `again`: what was answered last comes once more. `cut`: the connection is reset in the middle of the page. */
export type Fate = "page" | "again" | "cut" | 429 | 503

/** `fate` is asked once per request. `seen` is told of every page that went through, by its number of events. */
export const make = (url: string, fate: () => Fate, seen: (events: number) => void = () => {}) =>
  Effect.gen(function*() {
    let last: string | null = null
    const server = createServer(async (request, response) => {
      const doom = fate()
      if (typeof doom === "number") {
        response.writeHead(doom, doom === 429 ? { "retry-after": "1" } : {}).end(`{"error":{"code":"x","message":"x"}}`)
        return
      }
      const fresh = doom === "again" && last !== null ?
        last
        : await (await fetch(new URL(request.url ?? "/", url), { headers: { authorization: String(request.headers.authorization) } }))
          .text()
      last = fresh
      if (doom === "cut") {
        response.writeHead(200, { "content-length": Buffer.byteLength(fresh) })
        response.write(fresh.slice(0, fresh.length / 2), () => request.socket.resetAndDestroy())
        return
      }
      response.end(fresh, () => seen(JSON.parse(fresh).data.length))
    })
    yield* Effect.acquireRelease(
      Effect.promise(() => new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))),
      () =>
        Effect.sync(() => {
          server.closeAllConnections()
          server.close()
        })
    )
    const address = server.address()
    assert(typeof address === "object" && address !== null)
    return `http://127.0.0.1:${address.port}`
  })
