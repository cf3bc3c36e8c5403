import { assert, describe, it } from "@effect/vitest"
import { type Catalogue, type Model, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { Metadata } from "@slipway/domain/sandbox/schema/Sandbox"
import { asCreation, CreateSandbox, ForkSandbox, titleOf, toCreation } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { createdAt, creation } from "@slipway/testing/histories/Histories"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const decode = Schema.decodeUnknownResult(CreateSandbox, { onExcessProperty: "error" })
const accepts = (body: unknown) => Result.isSuccess(decode(body))
const body = { repos: [{ fullName: "acme/shop" }], prompt: "Fix it" }
const rocket = "\u{1F680}"

describe("a creation", () => {
  it("needs repositories and a prompt; the rest has defaults or stays out", () => {
    assert.deepStrictEqual(Result.getOrThrow(decode(body)), { ...body, toolApprovalMode: "auto", metadata: {} })
    assert.isFalse(accepts({ prompt: "Fix it" }))
    assert.isFalse(accepts({ repos: body.repos }))
    assert.isFalse(accepts({ ...body, repos: [] }))
  })

  it.each<readonly [string, object]>([
    ["an unknown property", { color: "red" }],
    ["agentRuntime, which is for answers only", { agentRuntime: "codex" }],
    ["an unknown property of a repository", { repos: [{ fullName: "acme/shop", branch: "main" }] }],
    ["null for an optional property", { model: null }],
    ["null for a title", { title: null }],
    ["null for metadata", { metadata: null }],
    ["a number for a text", { prompt: 7 }],
    ["an unknown effort", { reasoningEffort: "extreme" }],
    ["an unknown approval mode", { toolApprovalMode: "always" }],
    ["metadata that is not text", { metadata: { a: 1 } }],
    ["metadata as a list", { metadata: ["a"] }],
    ["a repository without a name", { repos: [{ ref: "main" }] }],
    ["a repository as text", { repos: ["acme/shop"] }]
  ])("refuses %s", (_, more) => assert.isFalse(accepts({ ...body, ...more })))

  it.each(["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"])(
    "takes effort %s",
    (reasoningEffort) => assert.isTrue(accepts({ ...body, reasoningEffort }))
  )
  it.each(["auto", "prompt"])("takes approval mode %s", (toolApprovalMode) => assert.isTrue(accepts({ ...body, toolApprovalMode })))
})

describe("limits", () => {
  const repos = (n: number) => Array.from({ length: n }, (_, i) => ({ fullName: `acme/r${i}` }))
  const pairs = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, "v"]))
  const name = (length: number) => `acme/${"x".repeat(length - 5)}`

  /** The most, and one more. */
  const rows: ReadonlyArray<readonly [string, number, (n: number) => object]> = [
    ["prompt", 60_000, (n) => ({ prompt: "x".repeat(n) })],
    ["model", 200, (n) => ({ model: "x".repeat(n) })],
    ["title", 120, (n) => ({ title: "x".repeat(n) })],
    ["metadata key", 64, (n) => ({ metadata: { ["x".repeat(n)]: "v" } })],
    ["metadata value", 1000, (n) => ({ metadata: { k: "x".repeat(n) } })],
    ["metadata pairs", 16, (n) => ({ metadata: pairs(n) })],
    ["repositories", 16, (n) => ({ repos: repos(n) })],
    ["fullName", 201, (n) => ({ repos: [{ fullName: name(n) }] })],
    ["ref", 255, (n) => ({ repos: [{ fullName: "acme/shop", ref: "x".repeat(n) }] })]
  ]
  it.each(rows)("%s: %i is accepted, one more is not", (_, n, make) => {
    assert.isTrue(accepts({ ...body, ...make(n) }))
    assert.isFalse(accepts({ ...body, ...make(n + 1) }))
  })

  const texts: ReadonlyArray<readonly [string, number, (text: string) => object]> = [
    ["prompt", 60_000, (prompt) => ({ prompt })],
    ["model", 200, (model) => ({ model })],
    ["title", 120, (title) => ({ title })],
    ["metadata key", 64, (key) => ({ metadata: { [key]: "v" } })],
    ["metadata value", 1000, (k) => ({ metadata: { k } })],
    ["ref", 255, (ref) => ({ repos: [{ fullName: "acme/shop", ref }] })]
  ]
  it.each(texts)("%s counts an emoji as one character", (_, n, make) => {
    assert.isTrue(accepts({ ...body, ...make(rocket.repeat(n)) }))
    assert.isTrue(accepts({ ...body, ...make(rocket.repeat(n - 1) + "x") }))
    assert.isFalse(accepts({ ...body, ...make(rocket.repeat(n) + "x") }))
  })
  it.each(texts)("%s holds neither NUL nor half of a surrogate pair", (_, _n, make) => {
    for (const text of ["\0", "a\0b", "\ud83d", "\ude80a", "a\ud83d"]) {
      assert.isFalse(accepts({ ...body, ...make(text) }), JSON.stringify(text))
    }
  })
  it.each(texts.filter(([what]) => what !== "metadata value"))(
    "%s is not empty",
    (_, _n, make) => assert.isFalse(accepts({ ...body, ...make("") }))
  )

  it("a metadata value may be empty", () => assert.isTrue(accepts({ ...body, metadata: { k: "" } })))

  it("everything else is kept verbatim: no trimming, no normalisation", () => {
    const odd = " \t\u00a0e\u0301\u200d\ufeff\u0001\r\n "
    const request = Result.getOrThrow(decode({ ...body, prompt: odd, title: odd, metadata: { [odd]: odd } }))
    assert.deepStrictEqual([request.prompt, request.title, Object.entries(request.metadata)], [odd, odd, [[odd, odd]]])
  })
})

describe("metadata", () => {
  it("refuses the key __proto__, however it is written", () => {
    const decodeMetadata = Schema.decodeUnknownResult(Metadata, { onExcessProperty: "error" })
    for (const text of [`{"__proto__":"x"}`, `{"__proto__":{"a":"b"}}`]) {
      assert.isTrue(Result.isFailure(decodeMetadata(JSON.parse(text))))
      assert.isFalse(accepts({ ...body, metadata: JSON.parse(text) }))
    }
  })

  it("its keys never reach a prototype", () => {
    const metadata = { constructor: "a", toString: "b", hasOwnProperty: "c", prototype: "d" }
    const request = Result.getOrThrow(decode({ ...body, metadata }))
    assert.deepStrictEqual(Object.entries(request.metadata), Object.entries(metadata))
    assert.notProperty({}, "a")
  })
})

describe("variables", () => {
  const refuses = (environment: object) => assert.isFalse(accepts({ ...body, environment }), JSON.stringify(environment).slice(0, 80))

  it("have names that a shell can read and that the service does not set itself", () => {
    assert.isTrue(accepts({ ...body, environment: { REGION: "eu", _x1: "", ["n".repeat(64)]: "v" } }))
    const names = ["", "1A", "A-B", "A.B", "n".repeat(65), "PATH", "path", "SLIPWAY_KEY", "LD_PRELOAD", "OFFLINE_AGENT"]
    for (const name of names) refuses({ [name]: "v" })
    refuses(JSON.parse(`{"__proto__":"x"}`))
  })

  it("are texts, 50 at most, of 8,192 characters each and 32 KiB with their names", () => {
    const of = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`V${i}`, "v"]))
    assert.isTrue(accepts({ ...body, environment: of(50) }))
    refuses(of(51))
    assert.isTrue(accepts({ ...body, environment: { A: "x".repeat(8_192) } }))
    refuses({ A: "x".repeat(8_193) })
    const whole = { A: "x".repeat(8_191), B: "x".repeat(8_191), C: "\u00e9".repeat(8_191) }
    assert.isTrue(accepts({ ...body, environment: whole }))
    refuses({ ...whole, D: "xx" })
    refuses({ A: 1 })
    refuses({ A: "a\0b" })
  })
})

describe("a budget", () => {
  it.each([1, 2_500_000, Number.MAX_SAFE_INTEGER])(
    "%d is accepted",
    (budgetMicroUsd) => assert.isTrue(accepts({ ...body, budgetMicroUsd }))
  )
  it.each([0, -1, 0.5, "1", null, 2 ** 53])("%j is refused", (budgetMicroUsd) => assert.isFalse(accepts({ ...body, budgetMicroUsd })))
})

describe("repositories", () => {
  it("differ in more than case", () => {
    assert.isFalse(accepts({ ...body, repos: [{ fullName: "acme/shop" }, { fullName: "acme/shop" }] }))
    assert.isFalse(accepts({ ...body, repos: [{ fullName: "acme/shop", ref: "a" }, { fullName: "ACME/Shop", ref: "b" }] }))
    assert.isTrue(accepts({ ...body, repos: [{ fullName: "acme/shop" }, { fullName: "other/shop" }] }))
  })

  it.each(["acme", "acme/shop/x", "./shop", "acme/..", "-acme/shop", ".acme/shop", "acme/shop.git", "acme/sh op", "acme/shop\0"])(
    "are not named %j",
    (fullName) => assert.isFalse(accepts({ ...body, repos: [{ fullName }] }))
  )
  it.each(["-main", "a..b", "a b", "a.lock", "@{1}", "refs//x"])(
    "have no ref %j",
    (ref) => assert.isFalse(accepts({ ...body, repos: [{ fullName: "acme/shop", ref }] }))
  )
})

describe("the title", () => {
  it.each([
    ["Fix the shop", "Fix the shop"],
    ["\n \t\n  Fix   the\tshop  \nand more", "Fix the shop"],
    ["first\rsecond", "first"],
    ["first\r\nsecond", "first"],
    ["first\u2028second", "first"],
    [" \n\t\r\n", "Untitled sandbox"],
    ["x".repeat(121), "x".repeat(120)],
    [rocket.repeat(130), rocket.repeat(120)],
    [`${"x".repeat(119)} tail`, "x".repeat(119)]
  ])("of %j is %j", (prompt, title) => assert.strictEqual(titleOf(prompt), title))

  it.prop("is itself a title, whatever the prompt", [Schema.String], ([prompt]) => {
    const isTitle = Schema.is(CreateSandbox.fields.title)
    const storable = prompt.replaceAll("\0", "").toWellFormed()
    assert.isTrue(isTitle(titleOf(storable)))
  })
})

describe("what is made of it", () => {
  const given = { id: creation.id, grantId: "grant-1", createdBy: "user-1", model: offlineDemo, at: createdAt }
  it("fills in the catalogue's model and a title, and keeps the rest", () => {
    const request = Result.getOrThrow(decode({ ...body, reasoningEffort: "high", toolApprovalMode: "prompt", metadata: { a: "1" } }))
    const { metadata, ...made } = toCreation(request, given)
    assert.deepStrictEqual({ ...made, metadata: { ...metadata } }, {
      id: creation.id,
      grantId: "grant-1",
      createdBy: "user-1",
      title: "Fix it",
      repos: [{ fullName: "acme/shop" }],
      prompt: "Fix it",
      model: "offline/demo",
      agentRuntime: "opencode",
      reasoningEffort: "high",
      toolApprovalMode: "prompt",
      metadata: { a: "1" },
      origin: null,
      continues: null,
      feedback: null,
      budgetMicroUsd: null,
      environment: {},
      createdAt
    })
  })

  it("keeps a title as it was given, and no effort is null", () => {
    const made = toCreation(Result.getOrThrow(decode({ ...body, title: "  My  title " })), given)
    assert.deepStrictEqual([made.title, made.reasoningEffort, made.toolApprovalMode], ["  My  title ", null, "auto"])
  })
})

describe("a fork", () => {
  const read = Schema.decodeUnknownResult(ForkSandbox, { onExcessProperty: "error" })
  const quiet: Model = { ...offlineDemo, id: "quiet/one", efforts: ["low"], approvals: false, agentRuntime: "codex" }
  const catalogue: Catalogue = { default: null, models: [offlineDemo, quiet] }
  const origin = { ...creation, reasoningEffort: "high", toolApprovalMode: "prompt" } as const
  const forked = (body: object, of: Parameters<typeof asCreation>[1] = origin) =>
    asCreation(Result.getOrThrow(read({ prompt: "Go on", ...body })), of, catalogue)

  it("needs a prompt; what it leaves out is as in the sandbox, but for title and metadata", () => {
    const { metadata, ...asked } = forked({})
    assert.deepStrictEqual({ ...asked, metadata: { ...metadata } }, {
      prompt: "Go on",
      repos: creation.repos,
      model: "offline/demo",
      reasoningEffort: "high",
      toolApprovalMode: "prompt",
      metadata: {}
    })
    assert.isTrue(Result.isFailure(read({})))
  })

  it("says itself what it wants otherwise", () => {
    const own = { model: "quiet/one", reasoningEffort: "max", toolApprovalMode: "auto", title: "Other", metadata: { a: "1" } }
    const { metadata, ...asked } = forked({ ...own, checkpoint: 1 })
    assert.deepStrictEqual({ ...asked, metadata: { ...metadata } }, { prompt: "Go on", repos: creation.repos, ...own })
  })

  it("has no effort that its model does not have, and asks for approvals also where the model cannot", () => {
    assert.deepInclude(forked({ model: "quiet/one" }), { toolApprovalMode: "prompt" })
    assert.notProperty(forked({ model: "quiet/one" }), "reasoningEffort")
    assert.strictEqual(forked({ model: "quiet/one" }, { ...origin, reasoningEffort: "low" }).reasoningEffort, "low")
    assert.notProperty(forked({}, creation), "reasoningEffort")
  })

  it.each<readonly [string, object]>([
    ["repositories, which are those of the sandbox", { repos: creation.repos }],
    ["an unknown property", { color: "red" }],
    ["a checkpoint below 0", { checkpoint: -1 }],
    ["a checkpoint of 2^53", { checkpoint: 2 ** 53 }],
    ["a part of a checkpoint", { checkpoint: 1.5 }],
    ["a checkpoint as text", { checkpoint: "1" }],
    ["null for a checkpoint", { checkpoint: null }],
    ["no prompt", { prompt: "" }],
    ["an unknown approval mode", { toolApprovalMode: "always" }]
  ])("does not take %s", (_what, more) => assert.isTrue(Result.isFailure(read({ prompt: "Go on", ...more }))))
})
