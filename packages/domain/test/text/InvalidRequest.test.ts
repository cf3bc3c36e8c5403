import { assert, describe, it } from "@effect/vitest"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SandboxEvents } from "@slipway/domain/sandbox/usecases/SandboxEvents"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type InvalidRequest, reader } from "../../src/text/InvalidRequest.ts"

const by: Principal = {
  credential: { _tag: "Key", keyId: "k" },
  grantId: "g",
  organizationId: "o",
  userId: "u",
  scopes: new Set(),
  test: false
}
const body = { repos: [{ fullName: "acme/shop" }], prompt: "Fix it." }
const everything = { after: null, limit: 100, status: null, repo: null }
const keys = [undefined, "order-1"]

const domain = Layer.merge(Sandboxes.layer, SandboxEvents.layer).pipe(
  Layer.provide(SandboxStoreMemory.layer),
  Layer.provide(Layer.merge(HintsMemory.layer, IdsMemory.layer))
)

/** As a caller does that has no schemas of its own. */
const create = (request: unknown, key?: unknown) =>
  Effect.flatMap(
    Effect.all([Requests.creation(request), Requests.idempotencyKey(key)]),
    ([request, key]) => Sandboxes.use((sandboxes) => sandboxes.create(by, request, key))
  )

const secret = "sbx_live_".padEnd(2000, "x")

/** A creation with one thing wrong, and the whole of what is told. */
const creations: ReadonlyArray<readonly [unknown, string]> = [
  [undefined, "request: CreateSandbox expected"],
  [null, "request: CreateSandbox expected"],
  ["a prompt", "request: CreateSandbox expected"],
  [{ prompt: "Fix it." }, "repos: required"],
  [{ ...body, repos: "acme/shop" }, "repos: array expected"],
  [{ ...body, repos: [] }, "repos: a value with a length of at least 1 expected"],
  [{ ...body, repos: [{}] }, "repos[0].fullName: required"],
  [{ ...body, repos: [{ fullName: "../../etc/passwd" }] }, "repos[0].fullName: owner/name expected"],
  [{ ...body, repos: [{ fullName: "../passwd" }] }, "repos[0].fullName: an owner and a repository name a source host accepts expected"],
  [{ ...body, repos: [{ fullName: "acme/shop", ref: "a..b" }] }, "repos[0].ref: a branch, a tag or a full commit id expected"],
  [{ ...body, repos: [{ fullName: "a/b" }, { fullName: "A/B" }] }, "repos: repositories that differ in more than case expected"],
  [{ repos: body.repos }, "prompt: required"],
  [{ ...body, prompt: "" }, "prompt: 1 to 60000 characters expected"],
  [{ ...body, prompt: "x".repeat(60_001) }, "prompt: 1 to 60000 characters expected"],
  [{ ...body, prompt: "a\0b" }, "prompt: well-formed Unicode without NUL expected"],
  [{ ...body, prompt: [secret] }, "prompt: string expected"],
  [{ ...body, title: secret }, "title: 1 to 120 characters expected"],
  [{ ...body, model: 7 }, "model: string expected"],
  [
    { ...body, reasoningEffort: secret },
    "reasoningEffort: \"none\" | \"low\" | \"medium\" | \"high\" | \"xhigh\" | \"max\" | \"ultra\" | \"ultracode\" expected"
  ],
  [{ ...body, toolApprovalMode: secret }, "toolApprovalMode: \"auto\" | \"prompt\" expected"],
  [{ ...body, metadata: { ticket: 42 } }, "metadata.ticket: string expected"],
  [{ ...body, metadata: { ticket: secret } }, "metadata.ticket: 0 to 1000 characters expected"],
  [{ ...body, color: secret }, "color: unknown property"],
  [{ ...body, [secret]: 1 }, `${secret.slice(0, 100)}…: unknown property`]
]

describe("a creation that does not fit", () => {
  it.effect.each(creations.map(([request, message]) => ({ request, message })))(
    "$message",
    ({ message, request }) =>
      Effect.gen(function*() {
        const sandboxes = yield* Sandboxes
        for (const key of keys) {
          const refused = yield* Effect.flip(create(request, key))
          assert.strictEqual(refused._tag, "InvalidRequest")
          assert.strictEqual(refused.message, message)
        }
        assert.deepStrictEqual(yield* sandboxes.list(by, everything), [])
      }).pipe(Effect.provide(domain))
  )
})

describe("whatever else people give", () => {
  const messageOf = <A, E extends { readonly _tag: string; readonly message: string }, R>(asked: Effect.Effect<A, E | InvalidRequest, R>) =>
    Effect.orDie(Effect.map(Effect.flip(asked), ({ _tag, message }) => `${_tag} ${message}`))

  it.effect("is refused by the name of its field", () =>
    Effect.gen(function*() {
      const sandboxes = yield* Sandboxes
      const events = yield* SandboxEvents
      const { sandbox: { id } } = yield* create(body)
      const before = yield* sandboxes.get(by, id)
      const list = (query: object) => messageOf(sandboxes.list(by, { ...everything, ...query }))
      const onlyWith = "InvalidRequest decision: a scope only with approve, and a reason only with deny expected"
      const key = "InvalidRequest idempotency-key: 1 to 255 printable ASCII characters expected"
      const told: ReadonlyArray<readonly [Effect.Effect<string, never, Sandboxes>, string]> = [
        [messageOf(create(body, "a\nb")), key],
        [messageOf(create(body, "")), key],
        [messageOf(Requests.idempotencyKey("x".repeat(256))), key],
        [messageOf(Requests.prompt("")), "InvalidRequest prompt: 1 to 60000 characters expected"],
        [messageOf(Requests.prompt({ prompt: "Go on." })), "InvalidRequest prompt: string expected"],
        [messageOf(Requests.prompt("\ud800")), "InvalidRequest prompt: well-formed Unicode without NUL expected"],
        [messageOf(Requests.approvalId("")), "InvalidRequest approvalId: 1 to 300 characters expected"],
        [messageOf(Requests.approvalId("a\0")), "InvalidRequest approvalId: well-formed Unicode without NUL expected"],
        [messageOf(Requests.decision({ decision: "perhaps" })), "InvalidRequest decision: \"approve\" | \"deny\" expected"],
        [messageOf(Requests.decision({ decision: "deny", reason: "" })), "InvalidRequest reason: 1 to 2000 characters expected"],
        [messageOf(Requests.decision({ decision: "approve", scope: "sandbox" })), "InvalidRequest scope: \"turn\" expected"],
        [messageOf(Requests.decision({ decision: "deny", scope: "turn" })), onlyWith],
        [messageOf(Requests.decision({ decision: "approve", reason: "Why not." })), onlyWith],
        ...[-1, 0.5, "1", null, 2 ** 53].map((given) => [messageOf(Requests.checkpoint(given)), "InvalidRequest checkpoint: "] as const),
        [list({ repo: "acme/shop\0" }), "InvalidRequest repo: owner/name expected"],
        [list({ status: "lost" }), "InvalidRequest status: "],
        [list({ limit: 0 }), "InvalidRequest limit: a whole number from 1 expected"],
        [list({ limit: Number.NaN }), "InvalidRequest limit: "],
        [messageOf(sandboxes.messages(by, id, { after: 0.5, limit: 1 })), "InvalidRequest after: "],
        [messageOf(sandboxes.messages(by, id, { after: -1, limit: 1 })), "InvalidRequest after: "],
        [messageOf(events.list(by, id, { after: 0, limit: Infinity })), "InvalidRequest limit: "],
        [messageOf(Effect.scoped(events.follow(by, id, Number.NaN))), "InvalidRequest after: "]
      ]
      for (const [asked, expected] of told) assert.include(yield* asked, expected)
      assert.deepStrictEqual(yield* sandboxes.get(by, id), before)
    }).pipe(Effect.provide(domain)))
})

describe("a fault is told", () => {
  const form = (expected: string) => Schema.String.check(Schema.makeFilter((text: string) => text === expected, { expected }))
  const [red, blue] = [form("red"), form("blue")]
  const saying = (problem: string) => Schema.String.check(Schema.makeFilter(() => problem))
  it.each<readonly [what: string, schema: Schema.Codec<unknown, unknown>, given: unknown, field: string, reason: string]>([
    ["by its field", Schema.Struct({ a: Schema.Array(red) }), { a: ["x"] }, "a[0]", "red expected"],
    ["by the name of the whole", red, "x", "request", "red expected"],
    ["by all allowed forms", Schema.Struct({ a: Schema.Union([red, blue]) }), { a: "x" }, "a", "red or blue expected"],
    ["by three forms", Schema.Union([red, blue, form("green")]), "x", "request", "red or blue or green expected"],
    ["by forms within a form", Schema.Union([Schema.Union([red, blue]), form("green")]), "x", "request", "red or blue or green expected"],
    ["by each form once", Schema.Union([red, form("red")]), "x", "request", "red expected"],
    ["by each form once, in words of its own", Schema.Union([saying("is odd"), saying("is odd")]), "x", "request", "is odd"],
    ["by forms in words of their own", Schema.Union([saying("not Expected here"), red]), "x", "request",
      "not Expected here or red expected"],
    ["where one form differs in a field and one as a whole",
      Schema.Union([Schema.Struct({ a: red }), Schema.Struct({ a: Schema.String }).check(Schema.makeFilter(() => "is odd"))]), { a: "x" },
      "a", "red expected"],
    ["where the forms differ in a field", Schema.Union([Schema.Struct({ a: red }), Schema.Struct({ a: blue })]), { a: "x" }, "a",
      "red expected"],
    ["in words of its own", saying("is not Expected here"), "x", "request", "is not Expected here"],
    ["on several lines", saying("Expected one\ntwo"), "x", "request", "one\ntwo expected"],
    ["in 300 characters", saying("x".repeat(300)), "x", "request", "x".repeat(300)],
    ["in no more than 300 characters", saying("x".repeat(301)), "x", "request", `${"x".repeat(300)}…`]
  ])("%s", (_, schema, given, field, reason) => {
    const refused = reader(schema, "request")(given)
    assert.deepInclude(Result.isFailure(refused) ? refused.failure : null, { field, reason })
  })
})

const Text = Schema.Union([
  Schema.String,
  Schema.Literals(["", "\0", "\ud800", "../../etc/passwd", "acme/shop", "__proto__", "x".repeat(60_001)])
])
const Leaf = Schema.Union([Schema.Null, Schema.Boolean, Schema.Finite, Text])
const Json = Schema.Union([
  Leaf,
  Schema.Array(Schema.Union([Leaf, Schema.Record(Text, Leaf)])),
  Schema.Record(Text, Schema.Union([Leaf, Schema.Array(Leaf)]))
])
const Field = Schema.Union([
  Schema.Literals(["repos", "prompt", "model", "reasoningEffort", "title", "toolApprovalMode", "metadata"]),
  Text
])

const fits = Schema.decodeUnknownResult(CreateSandbox, { onExcessProperty: "error" })

/** Why it was refused; fails on a defect. `null`: it was not. */
const refusalOf = <A, E extends { readonly _tag: string }>(exit: Exit.Exit<A, E>) => {
  if (Exit.isSuccess(exit)) return null
  const error = Exit.findErrorOption(exit)
  if (Option.isNone(error)) throw new Error(`a defect: ${String(exit.cause)}`)
  return error.value
}

describe("any JSON", () => {
  const creates = (request: unknown) =>
    Effect.gen(function*() {
      const sandboxes = yield* Sandboxes
      for (const key of keys) {
        const known = (yield* sandboxes.list(by, everything)).length
        const refused = refusalOf(yield* Effect.exit(create(request, key)))
        if (refused !== null) assert.include(["InvalidRequest", "InvalidModel", "InvalidReasoningEffort"], refused._tag)
        assert.strictEqual(refused?._tag === "InvalidRequest", Result.isFailure(fits(request)))
        assert.strictEqual((yield* sandboxes.list(by, everything)).length, known + (refused === null ? 1 : 0))
        if (refused?._tag === "InvalidRequest") assert.isAtMost(refused.message.length, 404)
      }
    }).pipe(Effect.provide(domain))

  it.effect.prop(
    "is a creation or an InvalidRequest, with and without a key, and stores nothing when it is refused",
    [Json],
    ([json]) => creates(json)
  )
  it.effect.prop(
    "in any field of a creation too",
    [Field, Json],
    ([field, json]) => creates(Object.fromEntries([...Object.entries(body), [field, json]])),
    { arbitrary: { runs: 300 } }
  )

  it.effect.prop("is a message or an InvalidRequest", [Json, Json], ([prompt, key]) =>
    Effect.gen(function*() {
      const sandboxes = yield* Sandboxes
      const { sandbox: { id } } = yield* create(body)
      for (const given of [undefined, key]) {
        const sent = Effect.all([Requests.prompt(prompt), Requests.idempotencyKey(given)]).pipe(
          Effect.flatMap(([prompt, key]) => sandboxes.sendMessage(by, id, prompt, key))
        )
        const refused = refusalOf(yield* Effect.exit(sent))
        assert.include(["InvalidRequest", "SandboxNotRunning"], refused?._tag)
      }
      assert.strictEqual((yield* sandboxes.get(by, id)).revision, 1)
    }).pipe(Effect.provide(domain)))
})

it.effect("a prompt that fits reaches the sandbox as it was given", () =>
  Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    const { sandbox } = yield* create({ ...body, metadata: { ticket: "SHOP-42" } }, "order-1")
    assert.deepInclude(yield* sandboxes.get(by, sandbox.id satisfies SandboxId), {
      prompt: "Fix it.",
      toolApprovalMode: "auto",
      metadata: { ticket: "SHOP-42" }
    })
    const again = yield* create({ metadata: { ticket: "SHOP-42" }, ...body, toolApprovalMode: "auto" }, "order-1")
    assert.deepStrictEqual(again, { sandbox, replayed: true })
  }).pipe(Effect.provide(domain)))
