import { assert, describe, it } from "@effect/vitest"
import { SandboxPage } from "@slipway/api/groups/SandboxesApi"
import { encoded, SandboxResource, toResource } from "@slipway/api/schema/SandboxResource"
import { History, reach, Scene } from "@slipway/testing/histories/Histories"
import { Schema } from "effect"

const url = "https://slipway.example"
const wire = (history: History) => Schema.encodeSync(SandboxResource)(toResource(history.sandbox, url))
const self = `${url}/api/public/v1/sandboxes/c_abcdefgh2345`

describe("the sandbox of the interface", () => {
  it("has every field of docs/interface.md 2.1, and no other", () => {
    assert.deepStrictEqual<object>(wire(new History()), {
      id: "c_abcdefgh2345",
      worktreeId: "w_abcdefgh2345",
      object: "sandbox",
      status: "queued",
      title: "Fix the shop",
      repos: [{ fullName: "acme/shop", ref: "main" }, { fullName: "acme/other" }],
      model: "offline/demo",
      agentRuntime: "opencode",
      turn: { active: false },
      usage: { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 },
      metadata: { customer: "42" },
      error: null,
      createdAt: "2026-11-21T02:41:00.123Z",
      startedAt: null,
      completedAt: null,
      links: { self, events: `${self}/events`, messages: `${self}/messages` }
    })
  })

  it.each(Scene.literals)("has them all while %s", (scene) => {
    assert.deepStrictEqual(Object.keys(wire(reach(scene))).sort(), Object.keys(wire(new History())).sort())
  })

  it("its turn is active while pending, running or waiting for a person", () => {
    const active = Scene.literals.filter((scene) => wire(reach(scene)).turn.active)
    assert.deepStrictEqual(active, ["pending", "working", "resumed", "asking", "inquiring", "interrupting", "terminating"])
  })

  it("has an error only while failed, and not for trouble it got over", () => {
    const errors = Scene.literals.filter((scene) => wire(reach(scene)).error !== null)
    assert.deepStrictEqual(errors, ["failed"])
    assert.strictEqual(wire(reach("failed")).error, "The image is gone.")
    assert.isNull(toResource({ ...reach("working").sandbox, error: "It came back." }, url).error)
  })

  it("tells when it started and completed", () => {
    const history = reach("idle").wait("24 hours")
    history.system({ _tag: "Expire" })
    const { completedAt, startedAt } = wire(history)
    assert.deepStrictEqual([startedAt, completedAt], ["2026-11-21T02:41:00.123Z", "2026-11-22T02:41:00.123Z"])
  })

  it("its address comes from the configured one", () => {
    const { self } = toResource(new History().sandbox, "http://localhost:8080").links
    assert.strictEqual(self, "http://localhost:8080/api/public/v1/sandboxes/c_abcdefgh2345")
  })

  it.prop("is encoded, without its schema, as its schema does, in a page as well", [SandboxPage], ([page]) => {
    assert.strictEqual(
      JSON.stringify({ data: page.data.map(encoded), nextCursor: page.nextCursor }),
      JSON.stringify(Schema.encodeSync(SandboxPage)(page))
    )
  })
})
