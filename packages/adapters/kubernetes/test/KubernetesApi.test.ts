/** The trust in an API server's answers, and the time limits for it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { once } from "node:events"
import type { IncomingMessage, ServerResponse } from "node:http"
import { createServer } from "node:https"
import * as KubernetesApi from "../src/KubernetesApi.ts"
import { certificate, clusterAt } from "./Fixture.ts"

/** A server that answers as it likes. */
const answering = (answer: (request: IncomingMessage, response: ServerResponse) => void, answerMillis = 60_000) =>
  Effect.gen(function*() {
    const tls = yield* certificate
    const server = yield* Effect.acquireRelease(
      Effect.promise(async () => {
        const server = createServer({ key: tls.key, cert: tls.cert }, answer)
        server.listen(0, "127.0.0.1")
        await once(server, "listening")
        return server
      }),
      (server) =>
        Effect.sync(() => {
          server.close()
          server.closeAllConnections()
        })
    )
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    return yield* KubernetesApi.make(clusterAt(port, tls.cert), { answerMillis, silenceMillis: 1000 })
  })

const get: KubernetesApi.Call = { method: "GET", path: "/version" }

describe("an API server", () => {
  for (
    const [title, answer, expected, retryable] of [
      ["says nothing", () => {}, "did not answer within 1 seconds", true],
      ["stops in the middle", (response) => response.write("{"), "did not answer within 1 seconds", true],
      ["breaks off", (response) => {
        response.writeHead(200, { "content-length": 10 })
        response.write("{", () => response.destroy())
      }, "the connection broke", true],
      ["never ends", (response) => {
        const more = () => {
          while (response.write("x".repeat(2 ** 20)));
          response.once("drain", more)
        }
        more()
      }, "answered with more than may be", false],
      ["speaks another language", (response) => response.end("<html>"), "is no API server of Kubernetes", false],
      ["sends elsewhere", (response) => response.writeHead(302, { location: "https://b/" }).end(), "answered with status 302", false],
      ["is out of order", (response) => response.writeHead(503).end("no"), "answered with status 503", true],
      ["says why",
        (response) => response.writeHead(429).end(JSON.stringify({ kind: "Status", message: "too\n many", reason: "TooManyRequests" })),
        "too many", true]
    ] as ReadonlyArray<readonly [string, (response: ServerResponse) => void, string, boolean]>
  ) {
    it.live(`that ${title} fails a call`, () =>
      Effect.gen(function*() {
        // Only those that are to run out of time have little of it: a busy machine takes a second for a mebibyte.
        const api = yield* answering((_, response) => answer(response), expected.startsWith("did not answer") ? 1000 : 60_000)
        const failed = yield* Effect.flip(api.call(get))
        assert.include(failed.detail, expected)
        assert.strictEqual(failed.retryable, retryable)
      }))
  }

  it.live("a watch without events is given up, a watch with events is not", () =>
    Effect.gen(function*() {
      const heard: Array<unknown> = []
      const responses: Array<ServerResponse> = []
      const api = yield* answering((_, response) => {
        responses.push(response)
        response.write("{\"type\":\"ADD")
        response.write("ED\"}\n{\"type\":\"MODIFIED\"}\n\n")
      })
      const failed = yield* Effect.flip(api.watch("/watch", {}, (event) => heard.push(event)))
      assert.deepStrictEqual(heard, [{ type: "ADDED" }, { type: "MODIFIED" }])
      assert.include(failed.detail, "did not answer within 1 seconds")
      const ended = yield* Effect.forkChild(
        api.watch("/watch", {}, () => {
          responses.at(-1)?.end()
        }),
        { startImmediately: true }
      )
      yield* Fiber.join(ended)
    }))

  it.live("that tells an event without an end is given up", () =>
    Effect.gen(function*() {
      const api = yield* answering((_, response) => {
        const more = () => {
          while (response.write("x".repeat(2 ** 20)));
          response.once("drain", more)
        }
        more()
      })
      assert.include((yield* Effect.flip(api.watch("/watch", {}, () => {}))).detail, "answered with more than may be")
    }))
})
