/** A server that passes all on to a real one, and lies now and then: what checkers of the battery have to find. */
import { Effect } from "effect"
import { createServer } from "node:http"

export const LIES = ["acknowledges what it does not keep", "refuses without a word", "leaves out an event",
  "creates twice for one key"] as const

const CREATED = { status: 201, text: JSON.stringify({ id: "c_abcdefghjkmn" }) }

/** Ends with the scope. Where it is. */
export const make = Effect.fnUntraced(function*(url: string, lie: (typeof LIES)[number]) {
  let creations = 0
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", async () => {
      const isCreation = request.method === "POST" && request.url?.endsWith("/sandboxes") === true
      const isSeventh = isCreation && ++creations % 7 === 0
      const pass = async (key = request.headers["idempotency-key"]) => {
        const reply = await fetch(url + request.url, {
          method: request.method ?? "GET",
          headers: {
            authorization: request.headers.authorization ?? "",
            "content-type": "application/json",
            "idempotency-key": String(key)
          },
          ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) })
        })
        return { status: reply.status, text: await reply.text() }
      }
      const answer = async () => {
        if (isSeventh && lie === "acknowledges what it does not keep") return CREATED
        if (isSeventh && lie === "refuses without a word") return { status: 503, text: "" }
        if (isSeventh && lie === "creates twice for one key") await pass(`again-${creations}`)
        const { status, text } = await pass()
        if (lie !== "leaves out an event" || request.url?.includes("/events") !== true) return { status, text }
        const { data, ...rest } = JSON.parse(text) as { readonly data: ReadonlyArray<unknown> }
        return { status, text: JSON.stringify({ ...rest, data: data.slice(1) }) }
      }
      const { status, text } = await answer()
      response.writeHead(status, { "content-type": "application/json" }).end(text)
    })
  })
  const port = yield* Effect.acquireRelease(
    Effect.callback<number>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
      })
    }),
    () =>
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      })
  )
  return `http://127.0.0.1:${port}`
})
