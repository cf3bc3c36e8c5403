/** The suite against a server that is not ours: what the interface leaves open, it has otherwise. */
import { afterEach, assert, describe, it } from "@effect/vitest"
import { Client } from "@slipway/conformance/client/Client"
import * as Names from "@slipway/conformance/client/Names"
import type { Verdict } from "@slipway/conformance/ScoreCard"
import { judge, select } from "@slipway/conformance/Suite"
import { type Options, Session, World } from "@slipway/conformance/world/World"
import { KEY, AnotherServer, MODEL, NAMES, OTHER_KEY } from "../../../examples/another-server/src/AnotherServer.ts"

const ended: Array<() => Promise<void> | void> = []
afterEach(async () => {
  for (const end of ended.splice(0).reverse()) await end()
})

const open = async (server: AnotherServer, more: Partial<Options> = {}) => {
  const url = await server.start()
  const session = new Session({
    url,
    key: KEY,
    otherKey: OTHER_KEY,
    noScopeKey: null,
    repos: ["acme/shop", "acme/docs"],
    slow: false,
    heartbeatMillis: 0,
    onWait: () => {},
    ...more
  })
  ended.push(() => server.stop(), () => session.end())
  return session
}

const names = (given: object = NAMES): Names.Names => {
  const parsed = Names.parse(JSON.stringify(given))
  assert(typeof parsed === "object", String(parsed))
  return { ...parsed, anyCode: true }
}
const contract = (more: Partial<Options> = {}) => ({ contract: true, model: MODEL, names: names(), ...more })

const run = async (session: Session, only: string) => {
  const world = new World(session)
  const verdicts: Array<Verdict> = []
  for (const rule of select(only)) verdicts.push(await judge(rule, world))
  world.http.close()
  return verdicts
}
const of = (verdicts: ReadonlyArray<Verdict>, wanted: Verdict["verdict"]) =>
  verdicts.filter(({ verdict }) => verdict === wanted).map(({ detail, id }) => `${id}: ${detail}`)

describe("the rules of the contract", () => {
  it("are missed by the same server where its names are not said", async () => {
    const missed = async (without: object) => {
      const session = await open(new AnotherServer(), contract({ names: names({ ...NAMES, ...without }) }))
      const verdicts = await run(session, "commands.approve,events.envelope,files.tree,files.protected,idempotency.changed")
      return of(verdicts, "missed").map((text) => text.split(":")[0])
    }
    assert.deepStrictEqual(await missed({}), [])
    assert.deepStrictEqual(await missed({ decision: "decision" }), ["commands.approve"])
    assert.deepStrictEqual(await missed({ parameters: {} }), ["events.envelope", "files.protected"])
    assert.deepStrictEqual(await missed({ codes: { idempotency_conflict: "OTHER" } }), ["idempotency.changed", "files.protected"])
  })

  it("are the same server's, whatever its codes, where codes are ours", async () => {
    const session = await open(new AnotherServer(), { model: MODEL, names: { ...names(), codes: {}, anyCode: false } })
    const verdicts = await run(session, "list.limit,wire.unknown-property")
    assert.lengthOf(of(verdicts, "missed"), 2)
  })

  it("that need what the agent cannot be told are skipped, with the reason", async () => {
    const session = await open(new AnotherServer(), contract({ names: names({ ...NAMES, directives: { say: "<say:{text}>" } }) }))
    assert.deepStrictEqual(of(await run(session, "files.tree,pull-request.shape"), "skipped"), [
      "files.tree: the server's agent has no directive for write",
      "pull-request.shape: the server's agent has no directive for write"
    ])
  })
})

describe("a server that is slow", () => {
  it("conforms where it is given its time, and not where it is not", async () => {
    const verdict = async (timeoutMillis: number) => {
      const session = await open(new AnotherServer({ delayMillis: 200 }), contract({ timeoutMillis }))
      return (await run(session, "creation.accepted"))[0]?.verdict
    }
    assert.strictEqual(await verdict(50), "missed")
    assert.strictEqual(await verdict(60_000), "ok")
  })

  it("of which a sandbox does not come up misses no rule for it: what needs it is skipped, and named once", async () => {
    const session = await open(new AnotherServer({ neverBoots: true }), contract({ timeoutMillis: 300 }))
    const verdicts = await run(session, "events.envelope,stream.last-event-id,files.tree,files.protected,list.newest")
    assert.deepStrictEqual(of(verdicts, "missed"), [])
    const skipped = of(verdicts, "skipped")
    assert.lengthOf(skipped, 4)
    for (const text of skipped) assert.include(text, "the sandbox it needs (worked) did not come up: expected the end of a turn")
    assert.deepStrictEqual([...session.unmade], ["worked"])
  })
})

describe("a file of names", () => {
  it("is refused with what is wrong in it", () => {
    const wrong: ReadonlyArray<readonly [string, string]> = [
      ["{", "it is not JSON"],
      ["[]", "it is not a JSON object"],
      [`{"color":"red"}`, `"color" is not known`],
      [`{"parameters":{"since":"x"}}`, `the parameter "since" is not open`],
      [`{"decision":1}`, "decision is the name of a field"],
      [`{"codes":{"a":1}}`, "codes is an object of texts"],
      [`{"directives":["say"]}`, "directives is an object of texts"]
    ]
    for (const [text, said] of wrong) assert.include(String(Names.parse(text)), said)
    assert.deepInclude(Names.parse("{}"), { decision: "decision", directives: null })
  })

  it("changes nothing of a request where it says nothing, and never what is not open", () => {
    const address = "/api/public/v1/sandboxes?after=x&limit=1"
    assert.strictEqual(Names.inPath(names(), address), address)
    assert.strictEqual(
      Names.inPath(names(), "/a/sandboxes/c/events?after=1&limit=2&x=after"),
      "/a/sandboxes/c/events?from=1&count=2&x=after"
    )
    assert.deepStrictEqual(Names.inBody(Names.OURS, "/x", { decision: "approve", prompt: "[[say a]]" }), {
      decision: "approve",
      prompt: "[[say a]]"
    })
    assert.deepStrictEqual(Names.inBody(names(), "/x", { decision: 1, prompt: "a [[say b]] [[write path=c content=d e]]" }), {
      decision: 1,
      prompt: "a <say:b> <put:c|d e>"
    })
    assert.strictEqual(new Client({ url: "http://127.0.0.1:1", key: "k", timeoutMillis: 1, onWait: () => {} }).options.names, undefined)
  })
})
