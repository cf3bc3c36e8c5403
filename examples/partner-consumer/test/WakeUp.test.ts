import type { AddressInfo } from "node:net"
import { Webhook } from "standardwebhooks"
import { expect, test } from "vitest"
import { follow } from "../src/Recovery.ts"
import { Bell, makeReceiver } from "../src/WakeUp.ts"

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
const DAY_MILLIS = 86_400_000

test("a signed webhook makes it look at the feed; one that is unsigned, old, changed or too large does not", async () => {
  const bell = new Bell()
  const stop = new AbortController()
  let looks = 0
  let looked = () => {}
  const next = () => new Promise<void>((resolve) => looked = resolve)
  const readPage = () => {
    looks++
    looked()
    return Promise.resolve({ data: [], nextCursor: 0 })
  }
  const first = next()
  const following = follow(readPage, { cursor: () => Promise.resolve(0), process: () => Promise.resolve() }, bell, DAY_MILLIS, stop.signal)
  await first
  const server = makeReceiver(SECRET, bell)
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
  const { port } = server.address() as AddressInfo

  const deliver = async (body: string, { at = new Date(), secret = SECRET, sent = body } = {}) => {
    const headers = {
      "webhook-id": "msg_1",
      "webhook-timestamp": `${Math.floor(at.getTime() / 1000)}`,
      "webhook-signature": new Webhook(secret).sign("msg_1", at, body)
    }
    return (await fetch(`http://127.0.0.1:${port}/slipway`, { method: "POST", body: sent, headers })).status
  }
  expect((await fetch(`http://127.0.0.1:${port}/`, { method: "POST", body: "{}" })).status).toBe(401)
  expect(await deliver("{}", { secret: `whsec_${Buffer.alloc(32, 8).toString("base64")}` })).toBe(401)
  expect(await deliver("{}", { at: new Date(Date.now() - 6 * 60_000) })).toBe(401)
  expect(await deliver("{}", { sent: `{"more":1}` })).toBe(401)
  expect(await deliver("x".repeat(300_000)).catch(() => 401)).toBe(401)
  expect(looks).toBe(1)

  const woken = next()
  expect(await deliver(`{"type":"task.started"}`)).toBe(204)
  await woken
  expect(looks).toBe(2)

  stop.abort()
  await following
  server.close()
})

test("a bell that rang while nobody listened is heard the next time, and once", async () => {
  const bell = new Bell()
  const never = new AbortController().signal
  bell.ring()
  bell.ring()
  await bell.heard(DAY_MILLIS, never)
  let heard = false
  const listening = bell.heard(DAY_MILLIS, never).then(() => heard = true)
  await Promise.resolve()
  expect(heard).toBe(false)
  bell.ring()
  await listening
})
