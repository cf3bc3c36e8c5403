/** A page of another origin that uses the API from a browser, with a key. */
import { assert, layer } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Effect, Redacted } from "effect"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { Browser } from "./Browser.ts"

/** An empty page at an origin of its own. */
const pageServer: Server = createServer((_, response) =>
  void response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>App</title><link rel=icon href=data:,>")
)
await new Promise<void>((listening) => pageServer.listen(0, "127.0.0.1", listening))
const { port } = pageServer.address() as AddressInfo
const allowed = `http://127.0.0.1:${port}`
const refused = `http://localhost:${port}`

layer(Browser.layer({ SLIPWAY_ALLOWED_ORIGINS: allowed }), { excludeTestServices: true })("a page of another origin", (it) => {
  it.effect("uses the API where its origin is allowed, and reads why it is refused", () =>
    Effect.gen(function*() {
      yield* Effect.addFinalizer(() => Effect.sync(() => void pageServer.close()))
      const { server, visit } = yield* Browser
      yield* (yield* Access).createGrant("app")
      const { key } = yield* (yield* Access).createKey({ grant: "app", label: "app", scopes: ["sandboxes"], kind: "live" })
      const requests = { url: `${server.url}/api/public/v1/sandboxes`, key: Redacted.value(key) }
      const ask = async ({ key, url }: typeof requests) => {
        const asked = async (headers: Record<string, string>, init: RequestInit = {}) => {
          const reply = await fetch(url, { redirect: "manual", ...init, headers })
          const body = await reply.json()
          return [reply.status, body.error?.code ?? body.data.length, reply.headers.get("x-request-id")?.slice(0, 4)]
        }
        const authorization = `Bearer ${key}`
        return [
          await asked({ authorization }),
          await asked({ authorization: "Bearer no" }),
          await asked({ authorization, "content-type": "application/json", "idempotency-key": "k" }, { method: "POST", body: "{}" })
        ]
      }
      const told = yield* visit(async (page) => {
        await page.goto(allowed)
        return page.evaluate(ask, requests)
      }, { refused: [400, 401] })
      assert.deepStrictEqual(told, [[200, 0, "req_"], [401, "unauthorized", "req_"], [400, "invalid_request", "req_"]])
      const failed = yield* visit(async (page) => {
        await page.goto(refused)
        page.removeAllListeners("console").removeAllListeners("requestfailed")
        return page.evaluate(ask, requests).then(() => "read", (error: unknown) => String(error))
      })
      assert.include(failed, "Failed to fetch")
    }))
})
