import * as Names from "@slipway/conformance/client/Names"
import { CONTRACT, judge, select } from "@slipway/conformance/Suite"
import { Session, World } from "@slipway/conformance/world/World"
import { assert, it, onTestFinished } from "vitest"
import { AnotherServer, KEY, MODEL, NAMES, OTHER_KEY } from "../src/AnotherServer.ts"

it("does what the interface states, with its own names, codes, model and directives", { timeout: 60_000 }, async () => {
  const server = new AnotherServer()
  const url = await server.start()
  onTestFinished(() => server.stop())
  const names = Names.parse(JSON.stringify(NAMES))
  assert(typeof names === "object", String(names))
  const session = new Session({
    url,
    key: KEY,
    otherKey: OTHER_KEY,
    noScopeKey: null,
    repos: ["acme/shop", "acme/docs"],
    slow: false,
    heartbeatMillis: 0,
    onWait: () => {},
    contract: true,
    model: MODEL,
    names: { ...names, anyCode: true }
  })
  const world = new World(session)
  const results: Array<Awaited<ReturnType<typeof judge>>> = []
  for (const rule of select(CONTRACT)) results.push(await judge(rule, world))
  await session.end()
  world.http.close()
  const of = (wanted: string) => results.filter(({ verdict }) => verdict === wanted).map(({ id }) => id)
  assert.deepStrictEqual(results.filter(({ verdict }) => verdict === "missed"), [])
  // It has no download limit and no rate limit.
  assert.deepStrictEqual(of("skipped"), ["files.too-large", "rates.retry-after"])
  assert.isAbove(of("ok").length, 40)
})
