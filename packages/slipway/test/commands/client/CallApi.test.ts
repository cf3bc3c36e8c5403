import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { addressOf, fieldsOf } from "../../../src/commands/client/CallApi.ts"

const SERVER = "https://slipway.example/agents"

describe("slipway api", () => {
  it.each([
    ["/sandboxes", "/agents/api/public/v1/sandboxes"],
    ["sandboxes?limit=1", "/agents/api/public/v1/sandboxes?limit=1"],
    ["/api/internal/v1/models", "/agents/api/internal/v1/models"],
    ["/sandboxes/../events", "/agents/api/public/v1/events"]
  ])("takes %s as a path of the server", (path, expected) => {
    const { href } = Result.getOrThrow(addressOf(SERVER, path))
    assert.strictEqual(href, `https://slipway.example${expected}`)
  })

  it.each(["/api/../../api/x", "/../../../login", "/api/%2e%2e/x", "/../../../../../x"])(
    "refuses %s, which leads out of the API",
    (path) => {
      assert.isTrue(Result.isFailure(addressOf(SERVER, path)))
    }
  )

  it("never names another server", () => {
    const { origin, pathname } = Result.getOrThrow(addressOf(SERVER, "//other.example/x"))
    assert.deepStrictEqual([origin, pathname], ["https://slipway.example", "/agents/api/public/v1//other.example/x"])
  })

  it("sends a field as JSON if it is JSON, and as text otherwise", () => {
    const given = ["n=3", "b=true", "z=null", "o={\"a\":[1]}", "quoted=\"3\"", "text=a=b", "empty=", "list[]=1", "list[]=two",
      "__proto__=1"]
    assert.deepStrictEqual({ ...Result.getOrThrow(fieldsOf(given)) }, {
      n: 3,
      b: true,
      z: null,
      o: { a: [1] },
      quoted: "3",
      text: "a=b",
      empty: "",
      list: [1, "two"],
      ["__proto__"]: 1
    })
  })
})
