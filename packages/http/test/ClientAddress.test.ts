import { assert, describe, it, layer } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { clientOf, parse, type Trust, trustNone } from "@slipway/http/server/ClientAddress"
import { Effect } from "effect"
import { ask, layer as http, mintKey, refused, SANDBOXES } from "../testing/Harness.ts"

const trusting = (list: string): Trust => {
  const trust = parse(list)
  assert(trust !== null, list)
  return trust
}

describe("a list of trusted proxies", () => {
  it("has addresses and networks, of both families", () => {
    const trust = trusting("127.0.0.1, 10.0.0.0/8,::1,fd00::/8 ,192.0.2.7/32")
    for (const address of ["127.0.0.1", "10.255.3.4", "::1", "fd12::5", "192.0.2.7"]) assert.isTrue(trust(address), address)
    for (const address of ["127.0.0.2", "11.0.0.1", "::2", "fe80::1", "192.0.2.8"]) assert.isFalse(trust(address), address)
    assert.isTrue(trusting("0.0.0.0/0")("8.8.8.8"))
    assert.isFalse(trusting("0.0.0.0/0")("2001:db8::1"))
  })

  it("is nothing else", () => {
    for (
      const list of ["", ",", "10.0.0.0/33", "::/129", "10.0.0", "proxy.example", "10.0.0.1:80", "10.0.0.0/-1", "10.0.0.1,", "fe80::1%eth0",
        "true", "*"]
    ) {
      assert.isNull(parse(list), list)
    }
  })
})

describe("the client's address", () => {
  const trust = trusting("127.0.0.1,10.0.0.0/8,::1,fd00::/8")

  it("is the other end of the connection, whatever it says, unless that is a trusted proxy", () => {
    assert.strictEqual(clientOf("203.0.113.9", "198.51.100.1", trust), "203.0.113.9")
    assert.strictEqual(clientOf("127.0.0.1", "198.51.100.1", trustNone), "127.0.0.1")
    assert.strictEqual(clientOf("::ffff:203.0.113.9", undefined, trust), "203.0.113.9")
    assert.strictEqual(clientOf(undefined, "198.51.100.1", trust), "")
  })

  it("is the last that no trusted proxy has, of what proxies behind each other said", () => {
    assert.strictEqual(clientOf("127.0.0.1", "198.51.100.1", trust), "198.51.100.1")
    assert.strictEqual(clientOf("127.0.0.1", "1.2.3.4, 198.51.100.1, 10.0.0.7", trust), "198.51.100.1")
    assert.strictEqual(clientOf("::ffff:127.0.0.1", "198.51.100.1,10.1.1.1 , 10.0.0.7", trust), "198.51.100.1")
    assert.strictEqual(clientOf("127.0.0.1", "10.0.0.8, 10.0.0.7", trust), "10.0.0.8")
    assert.strictEqual(clientOf("127.0.0.1", "", trust), "127.0.0.1")
  })

  it("may have a port, and may be of IPv6 in any spelling", () => {
    for (
      const [entry, address] of [
        ["198.51.100.1:4711", "198.51.100.1"],
        ["2001:DB8:0:0::1", "2001:db8::1"],
        ["[2001:db8::1]", "2001:db8::1"],
        ["[2001:db8::1]:4711", "2001:db8::1"],
        ["::ffff:198.51.100.1", "198.51.100.1"],
        ["1.2.3.4, [fd00::2]:80", "1.2.3.4"]
      ] as const
    ) assert.strictEqual(clientOf("::1", entry, trust), address, entry)
  })

  it("is the proxy that passed on an unreadable entry", () => {
    for (
      const entry of ["nonsense", "unknown", "_hidden", "198.51.100.1:port", "1.2.3", "[::1", "198.51.100.1;", "\"198.51.100.1\"",
        "1.2.3.4,,", ",", "999.1.1.1"]
    ) {
      assert.strictEqual(clientOf("127.0.0.1", entry, trust), "127.0.0.1", entry)
      assert.strictEqual(clientOf("127.0.0.1", `1.2.3.4, ${entry}, 10.0.0.7`, trust), "10.0.0.7", entry)
    }
    // More proxies than any service has.
    assert.strictEqual(clientOf("127.0.0.1", `1.2.3.4${", 10.0.0.1".repeat(1000)}`, trust), "10.0.0.1")
  })
})

layer(http({ settings: { refusedKeysPerMinute: 2 } }), { excludeTestServices: true })("without trusted proxies", (it) => {
  it.effect("a made-up X-Forwarded-For does not begin the count anew", () =>
    Effect.gen(function*() {
      const from = (address: string) =>
        ask(SANDBOXES, { key: "wrong", headers: { "x-forwarded-for": address, forwarded: `for=${address}` } })
      for (const n of [1, 2]) refused(yield* from(`198.51.100.${n}`), 401, "unauthorized")
      refused(yield* from("198.51.100.3"), 429, "rate_limited")
    }))
})

layer(http({ settings: { refusedKeysPerMinute: 2, trustedProxies: trusting("127.0.0.1,10.0.0.0/8") } }), { excludeTestServices: true })(
  "behind a trusted proxy",
  (it) => {
    const from = (forwarded: string | ReadonlyArray<string>) => ask(SANDBOXES, { key: "wrong", headers: { "x-forwarded-for": forwarded } })

    it.effect("clients are counted apart, whatever they put before their own address", () =>
      Effect.gen(function*() {
        for (const n of [1, 2]) refused(yield* from(`192.0.2.${n}, 198.51.100.1`), 401, "unauthorized")
        refused(yield* from("198.51.100.1:4711"), 429, "rate_limited")
        refused(yield* from("198.51.100.2"), 401, "unauthorized")
        // A proxy that adds a line of its own.
        refused(yield* from(["198.51.100.1", "10.0.0.3"]), 429, "rate_limited")
        for (const n of [1, 2]) refused(yield* from(`2001:db8::${n}`), 401, "unauthorized")
        refused(yield* from("[2001:db8::3]:80, 10.0.0.9"), 429, "rate_limited")
      }))

    it.effect("the audit log has the client's address", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey({ scopes: ["webhooks"] })
        yield* ask(SANDBOXES, { key, headers: { "x-forwarded-for": "203.0.113.50" } })
        const [entry] = (yield* (yield* AuditLog).list({ since: null, limit: 100 })).filter(({ action }) => action === "scope.refused")
        assert.strictEqual(entry?.origin?.address, "203.0.113.50")
      }))
  }
)

layer(http({ settings: { connectionsPerAddress: 1, trustedProxies: trusting("127.0.0.1") } }), { excludeTestServices: true })(
  "the connections of a trusted proxy",
  (it) => {
    it.effect("are everybody's: requests under way are counted by client instead", () =>
      Effect.gen(function*() {
        const replies = yield* Effect.all(
          Array.from({ length: 20 }, (_, n) => ask("/healthz", { headers: { "x-forwarded-for": `198.51.100.${n}` } })),
          { concurrency: "unbounded" }
        )
        assert.isTrue(replies.every(({ status }) => status === 200))
      }))
  }
)
