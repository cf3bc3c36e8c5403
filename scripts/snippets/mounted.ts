/** Asks the fetch handler of docs/embedding.md, mounted in Hono and in Fastify, as the page's snippets do it. */
import { serve } from "@hono/node-server"
import assert from "node:assert/strict"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { app as fastify } from "./docs-embedding/fastify.ts"
import { app as hono } from "./docs-embedding/hono.ts"
import { slipway } from "./docs-embedding/slipway.ts"

const { key } = await slipway.access.createKey({ grant: "acme", label: "mounted", scopes: ["sandboxes"], kind: "live" })

const answersAt = async (origin: string) => {
  const described = await fetch(`${origin}/slipway/openapi.json`)
  assert.equal(described.status, 200)
  assert.ok("/api/public/v1/sandboxes" in (await described.json() as { paths: object }).paths)
  const refused = await fetch(`${origin}/slipway/api/public/v1/sandboxes`, { method: "POST", body: "{}" })
  assert.equal(refused.status, 401)
  assert.match(refused.headers.get("content-type") ?? "", /^application\/json/u)
  const created = await fetch(`${origin}/slipway/api/public/v1/sandboxes`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt: "Say hello." })
  })
  assert.equal(created.status, 201, await created.text())
}

const server = serve({ fetch: hono.fetch, port: 0, hostname: "127.0.0.1" })
if (!server.listening) await once(server, "listening")
await answersAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
await answersAt(await fastify.listen({ host: "127.0.0.1", port: 0 }))
await slipway.close()
server.close()
await fastify.close()
process.stdout.write("mounted in Hono and in Fastify\n")
