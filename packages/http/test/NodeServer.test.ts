import { assert, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import * as NodeServer from "../src/server/connection/NodeServer.ts"

it.live("answers what was asked before its routes stood", () =>
  Effect.promise(async () => {
    const server = NodeServer.make({ keepAlive: Duration.seconds(5) })
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    const { port } = server.address() as AddressInfo
    const requested = Promise.withResolvers<void>()
    const told = () => requested.resolve()
    subscribe("http.server.request.start", told)
    try {
      const early = fetch(`http://127.0.0.1:${port}/early`, { method: "POST", body: "words" })
      await requested.promise
      server.on("request", async (request, response) => {
        let body = ""
        for await (const bytes of request) body += bytes
        response.end(`${request.url} ${body}`)
      })
      assert.strictEqual(await (await early).text(), "/early words")
      assert.strictEqual(await (await fetch(`http://127.0.0.1:${port}/later`)).text(), "/later ")
    } finally {
      unsubscribe("http.server.request.start", told)
      server.closeAllConnections()
      server.close()
    }
  }))

it.live("leaves a request to its listeners where what answers first breaks", () =>
  Effect.promise(async () => {
    const server = NodeServer.make({ keepAlive: Duration.seconds(5), answer: () => assert.fail("broken") })
    server.on("request", (_, response) => response.end("answered"))
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    try {
      const { port } = server.address() as AddressInfo
      assert.strictEqual(await (await fetch(`http://127.0.0.1:${port}/`)).text(), "answered")
    } finally {
      server.closeAllConnections()
      server.close()
    }
  }))
