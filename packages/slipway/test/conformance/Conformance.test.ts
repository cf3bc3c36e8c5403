/** The suite against our own server, which follows every rule, and against servers with a defect for each of them. */
import { assert, describe, it, layer } from "@effect/vitest"
import type { Rule } from "@slipway/conformance/rules/Rule"
import type { Verdict } from "@slipway/conformance/ScoreCard"
import { judge, rules, select } from "@slipway/conformance/Suite"
import { Session, World } from "@slipway/conformance/world/World"
import { Effect } from "effect"
import * as PlantedServer from "./PlantedServer.ts"
import { plants } from "./Plants.ts"
import { RealServer } from "./RealServer.ts"

/** Rules that cannot be told on our server with the offline agent, or without provoking it. */
const SKIPPED = [
  "commands.approval-expired",
  "events.data-usage.updated",
  "checkpoints.diff-last",
  "rates.retry-after"
]
/** The proxy is no better than Node at what is no HTTP. */
const RAW = ["parser", "headers-too-large", "transfer-encoding", "http-version", "in-order"].map((name) => `wire.${name}`)

const run = (rules: ReadonlyArray<Rule>, world: World) =>
  Effect.promise(async () => {
    const verdicts: Array<Verdict> = []
    for (const rule of rules) verdicts.push(await judge(rule, world))
    return verdicts
  })

const conforms = (verdicts: ReadonlyArray<Verdict>) => {
  const of = (wanted: Verdict["verdict"]) => verdicts.filter(({ verdict }) => verdict === wanted)
  assert.deepStrictEqual(of("missed"), [])
  assert.deepStrictEqual(of("skipped").map(({ id }) => id), SKIPPED)
}

layer(RealServer.layer, { excludeTestServices: true })("the suite", (it) => {
  it.effect("finds nothing missing in the service", () =>
    Effect.gen(function*() {
      conforms(yield* run(rules, new World(yield* RealServer)))
    }), 900_000)

  it.effect("asks nothing of a feed without events that such a feed cannot show", () =>
    Effect.gen(function*() {
      const { options } = yield* RealServer
      const session = new Session({ ...options, key: options.otherKey ?? "", otherKey: options.key })
      const verdicts = yield* run(select("feed"), new World(session))
      assert.deepStrictEqual(verdicts.filter(({ verdict }) => verdict === "missed"), [])
      assert.deepStrictEqual(
        verdicts.filter(({ verdict }) => verdict === "skipped").map(({ id }) => id),
        ["event", "payload", "sequence", "ids", "pages", "limit-default"].map((name) => `feed.${name}`)
      )
    }))

  it.effect(
    "notices every defect of the planted servers, and there is one for each rule",
    () =>
      Effect.gen(function*() {
        const session = yield* RealServer
        const { key, otherKey } = session.options
        // Some defects are answers that never come.
        const impatient = new Session({ ...session.options, timeoutMillis: 10_000 })
        const proxy = yield* PlantedServer.start(session.options.url)
        const planted = new Map(Object.entries(plants({ key, otherKey: otherKey ?? "" })))
        const testable = rules.filter(({ untestable }) => untestable === null)
        assert.deepStrictEqual([...planted.keys()].sort(), testable.map(({ id }) => id).sort())
        const unnoticed: Array<string> = []
        for (const rule of testable) {
          const defects = Object.entries(planted.get(rule.id) ?? {})
          assert.isNotEmpty(defects, rule.id)
          for (const [defect, plant] of defects) {
            proxy.plant(plant)
            const [verdict] = yield* run([rule], new World(impatient, proxy.url))
            if (verdict?.verdict !== "missed") {
              unnoticed.push(`${rule.id}: ${defect}: ${verdict?.verdict} ${verdict?.detail ?? ""}`)
            }
          }
        }
        assert.deepStrictEqual(unnoticed, [])
        // The rules noticed the defects, and not the proxy or a state that they left behind.
        proxy.plant({})
        conforms(yield* run(rules.filter(({ id }) => !RAW.includes(id)), new World(session, proxy.url)))
      }),
    900_000
  )
})

describe("rules", () => {
  it("have ids of their own, below their area", () => {
    assert.strictEqual(new Set(rules.map(({ id }) => id)).size, rules.length)
    for (const { area, id } of rules) assert.isTrue(id.startsWith(`${area}.`), id)
  })

  it("are chosen by area or id", () => {
    assert.deepStrictEqual(select("wire.head, documents").map(({ id }) => id).slice(0, 2), [
      "wire.head",
      "documents.openapi"
    ])
    assert.deepStrictEqual(select("nonsense"), [])
  })
})
