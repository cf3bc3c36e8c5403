import { createServer, type ServerResponse } from "node:http"
import { afterEach, expect, test } from "vitest"
import { FeedRefused, makeFeed, type Page } from "../src/Feed.ts"

const page: Page = { data: [], nextCursor: 7 }
const never = new AbortController().signal
const closing: Array<() => void> = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

/** A feed that answers each request with the next of these, and when each came, in milliseconds. */
const serving = async (...answers: ReadonlyArray<(response: ServerResponse) => void>) => {
  const asked: Array<number> = []
  const server = createServer((_request, response) => {
    asked.push(Date.now())
    answers[asked.length - 1]?.(response)
  })
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
  closing.push(() => server.close().closeAllConnections())
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("no port")
  return { asked, readPage: makeFeed(`http://127.0.0.1:${address.port}`, "key", () => {}) }
}
const good = (response: ServerResponse) => void response.end(JSON.stringify(page))
const failing = (status: number, headers = {}) => (response: ServerResponse) => void response.writeHead(status, headers).end("{}")
const cutOff = (response: ServerResponse) => {
  response.writeHead(200, { "content-length": "1000" }).write(`{"data":[{"id":`)
  setTimeout(() => response.destroy(), 20)
}

test("asks again after a 429, a 500, a 503, a connection that breaks within a page, and an answer that is no page", async () => {
  const nonsense = (response: ServerResponse) => void response.end("<html>Please log in to this network.</html>")
  const { asked, readPage } = await serving(failing(429), failing(503), cutOff, nonsense, failing(500), good)
  expect(await readPage(3, never)).toEqual(page)
  expect(asked).toHaveLength(6)
}, 30_000)

test("comes back no earlier than the server says", async () => {
  const { asked, readPage } = await serving(failing(429, { "retry-after": "2" }), good)
  await readPage(3, never)
  expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBeGreaterThanOrEqual(1_990)
})

test("gives up where asking again cannot help", async () => {
  for (const status of [400, 401, 403, 404]) {
    const { asked, readPage } = await serving(failing(status))
    await expect(readPage(3, never)).rejects.toThrow(FeedRefused)
    expect(asked).toHaveLength(1)
  }
})

test("stops waiting and asking when it is told to", async () => {
  const stop = new AbortController()
  const told = (response: ServerResponse) => {
    failing(429, { "retry-after": "3600" })(response)
    setTimeout(() => stop.abort(), 20)
  }
  for (const answer of [told, () => stop.abort()]) {
    const { readPage } = await serving(answer)
    await expect(readPage(3, stop.signal)).rejects.toThrow(/abort/u)
  }
})
