/** Git over HTTP on this machine, as a source host speaks it: `git http-backend` behind an `Authorization` check. */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"

export interface Seen {
  readonly method: string
  readonly url: string
  readonly body: Buffer
}

/**
 * `answer` goes first; what it leaves (by `false`) is served from the bare repositories below `root`. Of the answers that
 * `stalls` gives a number for, only so many bytes are sent, and the connection stays open.
 */
export const serve = Effect.fnUntraced(function*(
  root: string,
  answer: (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean> = () => false,
  stalls: (request: Seen) => number | undefined = () => undefined
) {
  const seen: Array<Seen> = []
  const server = createServer((request, response) => {
    const handle = async () => {
      if (await answer(request, response)) return
      const body = await buffer(request)
      const said: Seen = { method: request.method ?? "", url: request.url ?? "", body }
      seen.push(said)
      const { pathname, search } = new URL(request.url ?? "", "http://localhost")
      const backend = spawn("git", ["http-backend"], {
        env: {
          PATH: process.env["PATH"],
          GIT_PROJECT_ROOT: root,
          GIT_HTTP_EXPORT_ALL: "1",
          REMOTE_USER: "someone",
          REQUEST_METHOD: request.method,
          PATH_INFO: pathname,
          QUERY_STRING: search.slice(1),
          CONTENT_TYPE: request.headers["content-type"],
          HTTP_CONTENT_ENCODING: request.headers["content-encoding"],
          GIT_PROTOCOL: request.headers["git-protocol"]?.toString()
        },
        stdio: ["pipe", "pipe", "ignore"]
      })
      // It may answer without having read everything.
      backend.stdin.on("error", () => {})
      backend.stdin.end(body)
      const output = await buffer(backend.stdout)
      const end = output.indexOf("\r\n\r\n")
      for (const header of output.subarray(0, end).toString().split("\r\n")) {
        const [name = "", value = ""] = header.split(": ")
        if (name === "Status") response.statusCode = Number(value.slice(0, 3))
        else response.setHeader(name, value)
      }
      const sent = stalls(said)
      if (sent === undefined) response.end(output.subarray(end + 4))
      else response.write(output.subarray(end + 4, end + 5 + sent))
    }
    void handle()
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
    () =>
      Effect.promise(() => {
        server.closeAllConnections()
        return once(server.close(), "close")
      })
  )
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
})
