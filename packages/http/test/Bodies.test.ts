import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { gzipSync } from "node:zlib"
import { ask, create, creation, json, layer as http, mintKey, postJson, refused, SANDBOXES } from "../testing/Harness.ts"

const MIB = 2 ** 20

/** A valid creation of exactly this many bytes. */
const ofBytes = (bytes: number) => {
  const text = JSON.stringify(creation)
  return text + " ".repeat(bytes - text.length)
}

const nested = (levels: number) => `${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}`

layer(http(), { excludeTestServices: true })("a body", (it) => {
  it.effect("may have 1 MiB and not one byte more, declared or chunked", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      for (const chunked of [false, true]) {
        assert.strictEqual((yield* ask(SANDBOXES, { key, body: ofBytes(MIB), chunked })).status, 201)
        refused(yield* ask(SANDBOXES, { key, body: ofBytes(MIB + 1), chunked }), 413, "payload_too_large")
        refused(yield* ask(SANDBOXES, { key, body: ofBytes(3 * MIB), chunked }), 413, "payload_too_large")
      }
      // The size comes before the type.
      refused(yield* ask(SANDBOXES, { key, body: ofBytes(MIB + 1), headers: { "content-type": "text/plain" } }), 413, "payload_too_large")
    }))

  it.effect("is JSON in UTF-8 and not encoded, or 415", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const body = JSON.stringify(creation)
      const send = (headers: Record<string, string>, bytes: string | Uint8Array = body) => ask(SANDBOXES, { key, body: bytes, headers })
      for (
        const type of ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/json;charset=\"UTF-8\"",
          "application/json;", "application/json ; charset=utf-8 ;"]
      ) {
        assert.strictEqual((yield* send({ "content-type": type })).status, 201, type)
      }
      assert.strictEqual((yield* send({ "content-encoding": "identity" })).status, 201)
      for (
        const type of [
          "",
          "text/plain",
          "text/json",
          "application/jsonp",
          "application/merge-patch+json",
          "application/x-www-form-urlencoded",
          "multipart/form-data; boundary=x",
          "application/json; charset=latin1",
          "application/json; charset=utf-16",
          "application/json, text/plain",
          `application/json${" ".repeat(15_000)}x`
        ]
      ) {
        refused(yield* send({ "content-type": type }), 415, "unsupported_media_type")
      }
      for (const encoding of ["gzip", "br", "deflate", "identity, gzip"]) {
        refused(yield* send({ "content-encoding": encoding }, gzipSync(body)), 415, "unsupported_media_type")
      }
    }))

  it.effect("that is not well-formed is 400", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const text = JSON.stringify(creation)
      const bodies: ReadonlyArray<string | Uint8Array> = [
        "{",
        "",
        "null",
        "[]",
        "\"text\"",
        "{}{}",
        "{'repos': []}",
        "NaN",
        `${text},`,
        `\ufeff${text}`,
        Buffer.concat([Buffer.from(text.slice(0, -2)), Buffer.from([0xff]), Buffer.from("\"}")]),
        Buffer.from(text, "utf16le"),
        Buffer.from([0xed, 0xa0, 0x80]),
        `{"repos":${nested(33)}}`,
        `{"repos":${"[".repeat(500_000)}`
      ]
      for (const body of bodies) refused(yield* ask(SANDBOXES, { key, body }), 400, "invalid_request")
    }))

  it.effect("may nest 32 levels and not 33, brackets in strings aside", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const message = (body: string) => Effect.map(ask(SANDBOXES, { key, body }), (reply) => json(reply).error.message as string)
      assert.notMatch(yield* message(`{"a":${nested(32)}}`), /nesting/u)
      assert.match(yield* message(`{"a":${nested(33)}}`), /nesting/u)
      yield* create(key, { prompt: `${"[{".repeat(50)} \\" ${"\"[".repeat(50)}` })
    }))

  it.effect("may repeat a property: the last one counts", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const reply = yield* ask(SANDBOXES, { key, body: `{"repos":[{"fullName":"a/b"}],"prompt":"x","title":"first","title":"second"}` })
      assert.strictEqual(json(reply).title, "second")
    }))

  it.effect("must be empty or {} where none is taken", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const interrupt = `${SANDBOXES}/${id}/interrupt`
      for (const body of [undefined, "", "{}", " {\n} "]) {
        assert.strictEqual((yield* ask(interrupt, { key, method: "POST", ...(body === undefined ? {} : { body }) })).status, 200, body)
      }
      // Nothing has no type.
      assert.strictEqual((yield* ask(interrupt, { key, method: "POST", headers: { "content-type": "text/plain" } })).status, 200)
      for (const body of ["{\"a\":1}", "[]", "null", "0", "x"]) {
        refused(yield* ask(interrupt, { key, body }), 400, "invalid_request")
      }
      refused(yield* ask(interrupt, { key, body: "{}", headers: { "content-type": "text/plain" } }), 415, "unsupported_media_type")
    }))
})

const text = (n: number) => "a".repeat(n)
const rocket = (n: number) => "\u{1F680}".repeat(n)
const repos = (n: number) => Array.from({ length: n }, (_, i) => ({ fullName: `acme/repo-${i}` }))
const pairs = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`key-${i}`, "value"]))

/** The largest valid creation, and the smallest invalid one. */
const walls: ReadonlyArray<readonly [name: string, taken: ReadonlyArray<object>, refused: ReadonlyArray<object>, field: string]> = [
  ["prompt", [{ prompt: text(1) }, { prompt: text(60_000) }, { prompt: rocket(60_000) }], [{ prompt: "" }, { prompt: text(60_001) }, {
    prompt: rocket(60_001)
  }, { prompt: 1 }, { prompt: null }, { prompt: undefined }], "prompt"],
  ["title", [{ title: text(1) }, { title: text(120) }, { title: rocket(120) }], [{ title: "" }, { title: text(121) }, {
    title: rocket(121)
  }, { title: null }], "title"],
  ["model", [{ model: "offline/demo" }], [{ model: "" }, { model: text(201) }, { model: null }], "model"],
  ["reasoningEffort", [{ reasoningEffort: "ultracode" }], [{ reasoningEffort: "" }, { reasoningEffort: "HIGH" }, {
    reasoningEffort: "extreme"
  }], "reasoningEffort"],
  ["toolApprovalMode", [{ toolApprovalMode: "auto" }, { toolApprovalMode: "prompt" }], [{ toolApprovalMode: "ask" }, {
    toolApprovalMode: null
  }], "toolApprovalMode"],
  ["metadata", [{ metadata: {} }, { metadata: pairs(16) }, { metadata: { [text(64)]: text(1000) } }, {
    metadata: { [rocket(64)]: rocket(1000) }
  }, { metadata: { a: "" } }, { metadata: { constructor: "x", toString: "y" } }], [
    { metadata: pairs(17) },
    { metadata: { "": "x" } },
    { metadata: { [text(65)]: "x" } },
    { metadata: { a: text(1001) } },
    { metadata: { a: rocket(1001) } },
    { metadata: { a: 1 } },
    { metadata: { a: null } },
    { metadata: [] },
    { metadata: null }
  ], "metadata"],
  ["repos", [{ repos: repos(1) }, { repos: repos(16) }], [
    { repos: [] },
    { repos: repos(17) },
    { repos: [{ fullName: "acme/shop" }, { fullName: "ACME/Shop" }] },
    { repos: {} },
    { repos: ["acme/shop"] },
    { repos: undefined },
    { repos: [{ fullName: "acme/shop", branch: "main" }] }
  ], "repos"],
  ["fullName", [`a/${text(199)}`, "a.b/c_d-e", "A/B", "a/.github"].map((fullName) => ({ repos: [{ fullName }] })), [
    "",
    "a",
    "a/",
    "/b",
    "a/b/c",
    `a/${text(200)}`,
    "a b/c",
    "a/b\n",
    "./b",
    "../b",
    "a/.",
    "a/..",
    "-a/b",
    "a/-b",
    ".a/b",
    "a/b.git",
    "a/b.GIT",
    "a/ü",
    "a/b\u0000"
  ].map((fullName) => ({ repos: [{ fullName }] })), "repos"],
  ["ref", ["main", "feature/x", text(255), "0".repeat(40), "v1.0"].map((ref) => ({ repos: [{ fullName: "a/b", ref }] })), [
    "",
    text(256),
    "-x",
    "a..b",
    "a b",
    "a~1",
    "a^",
    "a:b",
    "a?b",
    "a*",
    "a[b",
    "a\\b",
    "/a",
    "a/",
    "a//b",
    "a.",
    ".a",
    "a/.b",
    "a.lock",
    "@",
    "a@{1}",
    "a\u0007",
    "a\u0000"
  ].map((ref) => ({ repos: [{ fullName: "a/b", ref }] })), "repos"],
  ["characters", [{ prompt: "tab\tnewline\nbell\u0007 \u2028 \ufeff" }], [
    { prompt: "nul \u0000" },
    { prompt: "lone \ud800" },
    { title: "\udfff" },
    { metadata: { a: "\u0000" } },
    { metadata: { "\ud800": "x" } }
  ], ""],
  ["properties", [{}], [{ unknown: 1 }, { agentRuntime: "codex" }, { Prompt: "x" }], ""]
]

layer(http(), { excludeTestServices: true })("a creation", (it) => {
  for (const [name, taken, beyond, field] of walls) {
    it.effect(`keeps to the limits of ${name}, and a refusal names the field`, () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        for (const more of taken) {
          const reply = yield* postJson(SANDBOXES, key, { ...creation, ...more })
          assert.strictEqual(reply.status, 201, `${JSON.stringify(more).slice(0, 100)} ${reply.text}`)
        }
        for (const more of beyond) {
          const reply = yield* postJson(SANDBOXES, key, { ...creation, ...more })
          refused(reply, 400, "invalid_request")
          assert.match(json(reply).error.message, new RegExp(`^${field}`, "u"), JSON.stringify(more).slice(0, 100))
        }
      }))
  }

  it.effect("tells where in the body a fault lies, and never what was there", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const message = (more: object) => Effect.map(postJson(SANDBOXES, key, { ...creation, ...more }), (reply) => json(reply).error.message)
      assert.strictEqual(
        yield* message({ repos: [{ fullName: "acme/shop" }, { fullName: "secret" }] }),
        "repos[1].fullName: owner/name expected"
      )
      assert.strictEqual(yield* message({ prompt: undefined }), "prompt: required")
      assert.strictEqual(yield* message({ secret: 1 }), "secret: unknown property")
      assert.strictEqual(yield* message({ metadata: { ticket: 42 } }), "metadata.ticket: string expected")
      assert.strictEqual(yield* message({ title: "" }), "title: 1 to 120 characters expected")
      assert.ok((yield* message({ [text(10_000)]: 1 })).length < 200)
    }))

  it.effect("keeps metadata a plain dictionary", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const send = (metadata: string) => ask(SANDBOXES, { key, body: `{"repos":[{"fullName":"a/b"}],"prompt":"x","metadata":${metadata}}` })
      refused(yield* send(`{"__proto__":"x"}`), 400, "invalid_request")
      refused(yield* send(`{"__proto__":{"admin":"yes"}}`), 400, "invalid_request")
      const reply = yield* send(`{"constructor":"a","hasOwnProperty":"b"}`)
      assert.deepStrictEqual(json(reply).metadata, { constructor: "a", hasOwnProperty: "b" })
      refused(
        yield* ask(SANDBOXES, { key, body: `{"repos":[{"fullName":"a/b"}],"prompt":"x","__proto__":{"title":"y"}}` }),
        400,
        "invalid_request"
      )
    }))

  it.effect("asks the catalogue", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      refused(yield* postJson(SANDBOXES, key, { ...creation, model: text(200) }), 400, "invalid_model")
    }))
})

layer(http(), { excludeTestServices: true })("a query", (it) => {
  const cases: ReadonlyArray<readonly [path: string, taken: ReadonlyArray<string>, refused: ReadonlyArray<readonly [string, string]>]> = [
    ["", ["", "limit=1", "limit=100", "limit=007", "status=queued", "repo=a%2Fb", "repo=a/b", "utm=x&utm=y&unknown", "limit=1&x=%20"], [
      ["limit=0", "invalid_request"],
      ["limit=101", "invalid_request"],
      ["limit=", "invalid_request"],
      ["limit", "invalid_request"],
      ["limit=1&limit=1", "invalid_request"],
      ["limit=-1", "invalid_request"],
      ["limit=+1", "invalid_request"],
      ["limit=1.0", "invalid_request"],
      ["limit=1e1", "invalid_request"],
      ["limit=0x1", "invalid_request"],
      ["limit=%201", "invalid_request"],
      ["limit=9007199254740993", "invalid_request"],
      [`limit=${"9".repeat(400)}`, "invalid_request"],
      ["status=", "invalid_request"],
      ["status=Queued", "invalid_request"],
      ["status=queued&status=queued", "invalid_request"],
      ["repo=", "invalid_request"],
      ["repo=a", "invalid_request"],
      [`repo=a/${text(200)}`, "invalid_request"],
      ["after=", "invalid_cursor"],
      ["after=x", "invalid_cursor"],
      [`after=${text(1000)}`, "invalid_cursor"],
      [`after=${text(1001)}`, "invalid_cursor"],
      ["after=1&after=2", "invalid_cursor"]
    ]],
    ["/ID/events", ["", "after=0", "after=1", "limit=100&after=01"], [
      ["after=2", "invalid_cursor"],
      ["after=9007199254740991", "invalid_cursor"],
      ["after=9007199254740992", "invalid_cursor"],
      ["after=-1", "invalid_cursor"],
      ["after=", "invalid_cursor"],
      ["after=1e0", "invalid_cursor"],
      ["after=x", "invalid_cursor"],
      ["limit=0", "invalid_request"],
      ["limit=101", "invalid_request"]
    ]],
    ["/ID/messages", ["", "after=0", "limit=100"], [
      ["after=x", "invalid_cursor"],
      ["limit=101", "invalid_request"]
    ]],
    ["/ID/events/stream", [], [
      ["since=x", "invalid_cursor"],
      ["since=2", "invalid_cursor"],
      ["since=9007199254740992", "invalid_cursor"],
      ["since=", "invalid_cursor"]
    ]],
    ["/ID/files/tree", [], [
      [`directory=${text(1001)}`, "invalid_request"],
      ["directory=a&directory=b", "invalid_request"],
      ["directory=/etc", "invalid_path"],
      ["directory=a/../..", "invalid_path"],
      ["directory=a%00", "invalid_path"],
      ["repo=x", "invalid_request"]
    ]],
    ["/ID/files/download", [], [
      ["", "invalid_request"],
      ["path=", "invalid_request"],
      [`path=${text(1001)}`, "invalid_request"],
      [`path=${encodeURIComponent(rocket(1001))}`, "invalid_request"],
      ["path=..", "invalid_path"],
      ["path=a&path=a", "invalid_request"]
    ]]
  ]
  for (const [path, taken, beyond] of cases) {
    it.effect(`of ${path === "" ? "the list" : path.replace("/ID", "")} is checked`, () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        const id = yield* create(key)
        const at = (query: string) => ask(`${SANDBOXES}${path.replace("ID", id)}?${query}`, { key })
        for (const query of taken) assert.strictEqual((yield* at(query)).status, 200, query)
        for (const [query, code] of beyond) refused(yield* at(query), 400, code)
      }))
  }

  it.effect("of a stream counts beside Last-Event-ID: both must be valid", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const at = (query: string, lastEventId: string) =>
        ask(`${SANDBOXES}/${id}/events/stream${query}`, { key, headers: { "last-event-id": lastEventId } })
      for (const bad of ["x", "", "-1", "1.0", "9007199254740992", "2"]) refused(yield* at("", bad), 400, "invalid_cursor")
      refused(yield* at("?since=x", "1"), 400, "invalid_cursor")
    }))
})

layer(http(), { excludeTestServices: true })("a path", (it) => {
  it.effect("with an id that cannot be one is 400, in every operation", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      for (
        const id of ["x", "c_short", "C_aaaaaaaaaaaa", "c_aaaaaaaaaaa1", "c_aaaaaaaaaaaaa", "w_aaaaaaaaaaaa", "c_aaaaaaaaaaa%00", "..%2Fx"]
      ) {
        for (const rest of ["", "/events", "/events/stream", "/messages", "/files/tree", "/pull-request"]) {
          refused(yield* ask(`${SANDBOXES}/${id}${rest}`, { key }), 400, "invalid_request")
        }
        refused(yield* ask(`${SANDBOXES}/${id}/terminate`, { key, method: "POST" }), 400, "invalid_request")
      }
    }))

  it.effect("names an approval by 1 to 300 characters, counted after decoding", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const decide = (approvalId: string) =>
        postJson(`${SANDBOXES}/${id}/approvals/${encodeURIComponent(approvalId)}`, key, { decision: "deny" })
      for (const approvalId of ["a", text(300), rocket(300), "a/b?c#d%2F;e", "%", ".", ".."]) {
        refused(yield* decide(approvalId), 404, "not_found")
      }
      for (const approvalId of [text(301), rocket(301), "a\u0000"]) {
        refused(yield* decide(approvalId), 400, "invalid_request")
      }
    }))

  it.effect("takes a decision and nothing else", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      for (
        const body of [
          {},
          { decision: "Approve" },
          { decision: "approved" },
          { decision: "deny", always: true },
          { decision: "deny", scope: "turn" },
          { decision: "approve", scope: "sandbox" },
          { decision: "approve", reason: "x" },
          { decision: "deny", reason: "" },
          { decision: "deny", reason: text(2001) },
          { decision: "deny", reason: "a\u0000" },
          { decision: null },
          []
        ]
      ) {
        refused(yield* postJson(`${SANDBOXES}/${id}/approvals/a`, key, body), 400, "invalid_request")
      }
      for (
        const body of [{ decision: "deny", reason: "x" }, { decision: "deny", reason: rocket(2000) }, {
          decision: "approve",
          scope: "turn"
        }]
      ) {
        refused(yield* postJson(`${SANDBOXES}/${id}/approvals/a`, key, body), 404, "not_found")
      }
    }))
})
