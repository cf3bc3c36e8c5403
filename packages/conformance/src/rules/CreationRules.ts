/** Creation, its limits, and its Idempotency-Key. */
import { answered, refused, type Reply } from "../client/Client.ts"
import {
  fits,
  holds,
  is,
  matching,
  nullOr,
  object,
  same,
  type Shape,
  text,
  textsByName,
  timestamp,
  uri,
  count,
  filled,
  flag,
  listOf,
  Miss,
  Skip
} from "../client/Expect.ts"
import { knows } from "../client/Names.ts"
import { Box, NO_REPO, SANDBOXES, unique, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("creation", "docs/interface.md 4.2")

/** All statuses of a sandbox. */
export const statuses = ["queued", "creating", "running", "succeeded", "failed", "terminating", "terminated"]
/** The shape of `usage`. */
export const usage = object({ llmRequestCount: count, costMicroUsd: count, creditsChargedMicros: count })

const counts = object({ input: count, cachedInput: count, output: count }, { open: true })

/** The tokens of the usage, if a server sends them: docs/interface.md 6. */
export const tokens: Shape = (value, path) => {
  const wrong = counts(value, path)
  if (wrong !== null) return wrong
  const { cachedInput, input } = Object(value)
  return cachedInput <= input ? null : new Miss(`${path}.cachedInput to be a part of ${path}.input`, cachedInput)
}

/** The Sandbox of docs/interface.md 2.1. */
export const sandboxShape: Shape = object({
  id: matching(/^c_[a-z2-9]{12}$/u, "c_ and 12 of a-z2-9"),
  worktreeId: filled,
  object: is("sandbox"),
  status: is(...statuses),
  title: text,
  repos: listOf(object({ fullName: text }, { optional: { ref: text } })),
  model: nullOr(text),
  agentRuntime: is("opencode", "codex", "claude", "grok"),
  turn: object({ active: flag }),
  usage,
  metadata: textsByName,
  error: nullOr(text),
  createdAt: timestamp,
  startedAt: nullOr(timestamp),
  completedAt: nullOr(timestamp),
  links: object({ self: uri, events: uri, messages: uri })
})

const created = (reply: Reply) => answered(reply, 201, "a creation").json

const titleOf = async (world: World, prompt: string) => created(await world.create({ prompt })).at("title").value

const EFFORTS = ["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"]

const creation = [
  rule("accepted", "A creation is 201 with a Location that is its self link.", async (world) => {
    const reply = await world.created()
    const json = created(reply)
    same(reply.header("location"), json.at("links").at("self").value, "Location")
    holds(
      reply.header("idempotent-replayed") === undefined,
      "no Idempotent-Replayed with a first creation",
      reply.header("idempotent-replayed")
    )
  }),
  rule("fields", "Every field of a Sandbox is always there, and no other.", async (world) => {
    const json = created(await world.created())
    fits(json.value, sandboxShape, "")
    fits(
      answered(await world.http.ask(`${SANDBOXES}/${json.at("id").string}`), 200, "the sandbox").json.value,
      sandboxShape,
      ""
    )
  }, { source: "docs/interface.md 2.1" }),
  rule(
    "initial",
    "A sandbox begins queued, with no turn, no usage, no error, not started and not completed.",
    async (world) => {
      const json = created(await world.created())
      same(json.at("status").value, "queued", "status")
      same(json.at("turn").value, { active: false }, "turn")
      same(json.at("usage").value, { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 }, "usage")
      for (const name of ["error", "startedAt", "completedAt"]) same(json.at(name).value, null, name)
    },
    { source: "docs/decisions/2.1" }
  ),
  rule("worktree", "worktreeId is w_ and the characters of id.", async (world) => {
    const json = created(await world.created())
    same(json.at("worktreeId").value, `w_${json.at("id").string.slice(2)}`, "worktreeId")
  }, { source: "docs/decisions/1" }),
  rule("verbatim", "Title and metadata are kept as they came: no trimming, no normalisation.", async (world) => {
    const json = created(await world.created())
    same(json.at("title").value, "  A title \u00e9 e\u0301 \u{1f600} ", "title")
    same(json.at("metadata").value, { ticket: "C-1" }, "metadata")
  }, { source: "docs/decisions/12" }),
  rule("model", "The model is returned by its id; without a model it is the default's id.", async (world) => {
    same(created(await world.created()).at("model").value, world.options.model, "model")
    fits(created(await world.create({ model: undefined })).at("model").value, filled, "model")
  }, { source: "docs/decisions/2.3" }),
  rule("metadata-default", "Metadata that is left out is {}.", async (world) => {
    same(created(await world.create()).at("metadata").value, {}, "metadata")
  }),
  rule("repos", "Repositories come back as they were given; a ref that was left out stays away.", async (world) => {
    same(created(await world.created()).at("repos").value, [{ fullName: world.repo }], "repos")
    const repos = [{ fullName: world.repo, ref: "conformance/no-such-branch" }]
    same(created(await world.create({ repos })).at("repos").value, repos, "repos")
  }, { source: "docs/decisions/1" }),
  rule(
    "title-derived",
    "A title that is left out is the first line of the prompt that is not blank, its spaces collapsed.",
    async (world) => {
      same(await titleOf(world, "\n \t\n  Fix   the\t  bug  \nnow"), "Fix the bug", "title")
    },
    { source: "docs/decisions/2.3" }
  ),
  rule("title-cut", "A derived title is cut to 120 characters.", async (world) => {
    same(await titleOf(world, "\u{1f600}".repeat(200)), "\u{1f600}".repeat(120), "title")
  }, { source: "docs/decisions/2.3" }),
  rule("title-untitled", "A prompt of blank lines gives Untitled sandbox.", async (world) => {
    same(await titleOf(world, " \n\t\n"), "Untitled sandbox", "title")
  }, { source: "docs/decisions/2.3" }),
  rule("required", "repos and prompt are required.", async (world) => {
    await world.refuses({ repos: undefined }, "no repos")
    await world.refuses({ prompt: undefined }, "no prompt")
  }),
  rule(
    "unknown-repo",
    "A repository that is known not to be accessible is 403 repo_not_accessible and binds no key; " +
      "where it is not known, the sandbox fails.",
    async (world) => {
      const headers = { "idempotency-key": `conformance unknown-repo ${unique()}` }
      const reply = await world.create({ repos: [{ fullName: NO_REPO }] }, headers)
      if (reply.status === 201) {
        await new Box(world.http, world.options.key, reply.json.at("id").string).status("failed")
        return
      }
      refused(reply, 403, "repo_not_accessible", "an unknown repository")
      const message = reply.json.at("error").at("message").string
      holds(message.includes(NO_REPO), "a message that names the repository", message)
      answered(await world.create({}, headers), 201, "another creation under the same key")
    },
    { source: "docs/decisions/1", needs: ["repo"] }
  ),
  rule("unknown-model", "An unknown model is 400 invalid_model.", async (world) => {
    await world.refuses({ model: "conformance/no-such-model" }, "an unknown model", "invalid_model")
  }, { source: "docs/decisions/2.3" }),
  rule("efforts", "reasoningEffort is one of eight words.", async (world) => {
    for (const effort of ["", "High", "extreme"]) await world.refuses({ reasoningEffort: effort }, `effort "${effort}"`)
    await world.accepts({ reasoningEffort: "ultracode" }, "effort ultracode")
    await Promise.all(EFFORTS.map((effort) => world.accepts({ reasoningEffort: effort }, `effort ${effort}`)))
  }),
  rule("approval-mode", "toolApprovalMode is auto or prompt.", async (world) => {
    await world.refuses({ toolApprovalMode: "never" }, "mode never")
    for (const mode of ["auto", "prompt"]) await world.accepts({ toolApprovalMode: mode }, `mode ${mode}`)
  }),
  rule("mcp-servers", "mcpServers has at most 20 different names of MCP servers, each of a repository of the creation.", async (world) => {
    await world.accepts({ mcpServers: [] }, "no MCP servers")
    const names = Array.from({ length: 21 }, (_, i) => `conformance-${i}`)
    for (const mcpServers of [["No Name"], ["a", "a"], "a", names]) {
      await world.refuses({ mcpServers }, `mcpServers ${JSON.stringify(mcpServers).slice(0, 60)}`)
    }
    const unknown = await world.http.ask(SANDBOXES, { body: world.creation({ mcpServers: ["no-such-server"] }) })
    refused(unknown, 400, "invalid_request", "an unknown MCP server")
  }, { source: "docs/decisions/23", needs: ["repo"] }),
  rule("environment", "Commands of the agent have the variables of the creation.", async (world) => {
    if (!knows(world.options.names, "shell")) throw new Skip("the server's agent runs no commands, without a directive for shell")
    const value = "w\u00f6rd $HOME 'x'"
    const box = await world.session.box(world.creation({
      prompt: "Conformance: variables.\n[[shell printf %s \"$CONFORMANCE_WORD\" > conformance-variable.txt]]",
      environment: { CONFORMANCE_WORD: value }
    }))
    await box.firstEnd()
    const reply = answered(await world.get(box, "/files/download?path=conformance-variable.txt"), 200, "the file with the value")
    same(reply.text, value, "the variable in the box")
  }, { source: "docs/decisions/17", needs: ["repo"] })
]

// ---------------------------------------------------------------------------------------------------------------

const limit = rulesOf("limits", "docs/decisions/12")

const pairs = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, "v"]))
const repos = (n: number) => Array.from({ length: n }, (_, i) => ({ fullName: `conformance/r${i}` }))
const EMOJI = "\u{1f600}"

/** Both sides of a limit in a body. */
const edge = (
  name: string,
  what: string,
  good: ReadonlyArray<object>,
  bad: ReadonlyArray<object>,
  more: { readonly source?: string } = {}
) =>
  limit(name, what, async (world) => {
    const size = (body: object) =>
      `${name} of ${JSON.stringify(Object.values(body)[0]).slice(0, 40)} (${JSON.stringify(Object.values(body)[0]).length} bytes)`
    for (const body of good) await world.accepts(body, size(body))
    for (const body of bad) await world.refuses(body, size(body))
  }, more)

const limits = [
  edge("prompt", "A prompt has 1 to 60000 characters.", [{ prompt: "x" }, { prompt: "x".repeat(60_000) }], [{
    prompt: ""
  }, { prompt: "x".repeat(60_001) }], { source: "docs/interface.md 8" }),
  edge("title", "A title has 1 to 120 characters.", [{ title: "x" }, { title: "x".repeat(120) }], [{ title: "" }, {
    title: "x".repeat(121)
  }], { source: "docs/interface.md 8" }),
  edge("code-points", "Characters are Unicode code points, not UTF-16 units.", [{ title: EMOJI.repeat(120) }, {
    prompt: EMOJI.repeat(60_000)
  }], [
    { title: EMOJI.repeat(121) },
    { prompt: EMOJI.repeat(60_001) }
  ]),
  limit("model", "A model has 1 to 200 characters.", async (world) => {
    await world.refuses({ model: "x".repeat(200) }, "an unknown model of 200 characters", "invalid_model")
    await world.refuses({ model: "x".repeat(201) }, "a model of 201 characters")
    await world.refuses({ model: "" }, "an empty model")
  }),
  edge("metadata-key", "A metadata key has 1 to 64 characters.", [{ metadata: { ["k".repeat(64)]: "v" } }, {
    metadata: { k: "v" }
  }], [
    { metadata: { ["k".repeat(65)]: "v" } },
    { metadata: { "": "v" } }
  ], { source: "docs/interface.md 8" }),
  edge("metadata-value", "A metadata value has at most 1000 characters.", [{ metadata: { k: "v".repeat(1000) } }, {
    metadata: { k: "" }
  }], [
    { metadata: { k: "v".repeat(1001) } }
  ], { source: "docs/interface.md 8" }),
  edge("metadata-pairs", "Metadata has at most 16 pairs.", [{ metadata: pairs(16) }], [{ metadata: pairs(17) }]),
  edge("repos", "A sandbox has 1 to 16 repositories.", [{ repos: repos(16) }], [{ repos: [] }, { repos: repos(17) }]),
  edge("repos-distinct", "Its repositories differ in more than case.", [{
    repos: [{ fullName: "a/b" }, { fullName: "a/c" }]
  }], [
    { repos: [{ fullName: "a/b" }, { fullName: "a/b" }] },
    { repos: [{ fullName: "a/b" }, { fullName: "A/B" }] }
  ]),
  edge("full-name", "fullName has at most 201 characters.", [{ repos: [{ fullName: `o/${"n".repeat(199)}` }] }], [
    { repos: [{ fullName: `o/${"n".repeat(200)}` }] }
  ]),
  edge(
    "full-name-rules",
    "fullName is owner/name; no part is . or .. or starts with -, no owner starts with ., no name ends in .git.",
    ["a/b", "A.b_c-d/e.F", "a/.github"].map((fullName) => ({ repos: [{ fullName }] })),
    [
      "a",
      "a/b/c",
      "/b",
      "a/",
      "a b/c",
      "./b",
      "../b",
      "a/.",
      "a/..",
      "-a/b",
      "a/-b",
      ".a/b",
      "a/b.git",
      "a/b.GIT",
      "\u00e9/b"
    ].map((fullName) => ({
      repos: [{ fullName }]
    }))
  ),
  edge(
    "ref",
    "A ref has 1 to 255 characters.",
    ["r", "r".repeat(255)].map((ref) => ({ repos: [{ fullName: "a/b", ref }] })),
    [
      { repos: [{ fullName: "a/b", ref: "" }] },
      { repos: [{ fullName: "a/b", ref: "r".repeat(256) }] }
    ]
  ),
  edge(
    "ref-rules",
    "A ref is a short name that git accepts, or a full commit id.",
    ["main", "feature/x", "v1.0", "a".repeat(40), "a".repeat(64)].map((ref) => ({ repos: [{ fullName: "a/b", ref }] })),
    [
      "-x",
      "--upload-pack=x",
      "a..b",
      "a b",
      "a.lock",
      "a@{1}",
      "a~1",
      "a^",
      "a:b",
      "a?",
      "a*",
      "a[",
      "a\\b",
      "/a",
      "a/",
      "a//b",
      ".a",
      "a/.b",
      "a.",
      "@",
      "a\u0001"
    ].map(
      (ref) => ({ repos: [{ fullName: "a/b", ref }] })
    )
  ),
  edge(
    "budget",
    "budgetMicroUsd is a whole number from 1 to 2^53−1.",
    [1, 2].map((budgetMicroUsd) => ({ budgetMicroUsd })),
    [0, -1, 1.5, "1", null, 2 ** 53].map((budgetMicroUsd) => ({ budgetMicroUsd }))
  ),
  edge(
    "environment-names",
    "The name of a variable has 1 to 64 letters, digits and _, no digit first, and the service does not set it.",
    [{ environment: {} }, ...["_", "region", `A${"1".repeat(63)}`].map((name) => ({ environment: { [name]: "x" } }))],
    ["", "1A", "A-B", "A B", "\u00e9", `A${"1".repeat(64)}`, "PATH", "Home", "slipway_x", "LD_PRELOAD", "NODE_OPTIONS", "__proto__"]
      .map((name) => ({ environment: { [name]: "x" } }))
  ),
  edge(
    "environment-values",
    "The value of a variable is a text of at most 8192 characters.",
    [{ environment: { A: "" } }, { environment: { A: "x".repeat(8192) } }],
    [{ environment: { A: "x".repeat(8193) } }, { environment: { A: 1 } }, { environment: { A: null } }, { environment: { A: "a\0b" } }]
  ),
  edge(
    "environment-size",
    "A sandbox has at most 50 variables, whose names and values have at most 32 KiB in UTF-8.",
    [{ environment: pairs(50) }, { environment: { A: "x".repeat(8191), B: "x".repeat(8191), C: "x".repeat(8191), D: "x".repeat(8191) } }],
    [
      { environment: pairs(51) },
      { environment: { A: "x".repeat(8191), B: "x".repeat(8191), C: "x".repeat(8191), D: "x".repeat(8192) } },
      { environment: { A: "\u00e9".repeat(8192), B: "\u00e9".repeat(8192) } }
    ]
  ),
  limit("not-storable", "NUL and lone surrogates are refused wherever they stand.", async (world) => {
    for (const value of ["a\0b", "a\ud800b", "\udc00"]) {
      for (
        const more of [{ prompt: value }, { title: value }, { metadata: { k: value } }, { metadata: { [value]: "v" } }]
      ) {
        await world.refuses(more, JSON.stringify(more))
      }
    }
  }),
  limit("all-at-once", "A creation at every limit is accepted and kept whole.", async (world) => {
    const metadata = Object.fromEntries(
      Array.from({ length: 16 }, (_, i) => [String.fromCharCode(97 + i).repeat(64), EMOJI.repeat(1000)])
    )
    const title = "\u00e9".repeat(120)
    const json = created(await world.create({ title, metadata, prompt: `${EMOJI.repeat(59_990)} [[say]]` }))
    same(json.at("title").value, title, "title")
    same(json.at("metadata").value, metadata, "metadata")
  })
]

// ---------------------------------------------------------------------------------------------------------------

const idempotent = rulesOf("idempotency", "docs/decisions/4")

const again = async (world: World, change: (body: Record<string, unknown>) => unknown = (body) => body) => {
  const { body, key } = await world.keyed()
  return world.http.ask(SANDBOXES, { body: change(body), headers: { "idempotency-key": key } })
}

const conflict = async (world: World, what: string, change: (body: Record<string, unknown>) => unknown) =>
  refused(await again(world, change), 409, "idempotency_conflict", what)

const idempotency = [
  idempotent(
    "replayed",
    "An equal creation under the same key: 200, the same sandbox and Location, Idempotent-Replayed: true.",
    async (world) => {
      const { id, location } = await world.keyed()
      const reply = answered(await again(world), 200, "an equal creation")
      same(reply.json.at("id").value, id, "id")
      same(reply.header("location"), location, "Location")
      same(reply.header("idempotent-replayed"), "true", "Idempotent-Replayed")
    }
  ),
  idempotent("current", "A replay shows the sandbox as it is now.", async (world) => {
    const { id } = await world.keyed()
    const reply = await again(world)
    holds(
      ["terminating", "terminated"].includes(reply.json.at("status").string),
      "the status of a terminated sandbox",
      reply.json.at("status").value
    )
    same(
      { ...answered(await world.http.ask(`${SANDBOXES}/${id}`), 200, "the sandbox").json.value as object, ...volatile },
      { ...reply.json.value as object, ...volatile },
      "the sandbox"
    )
  }),
  idempotent("changed", "Changed fields under the same key: 409 idempotency_conflict.", async (world) => {
    for (
      const more of [{ prompt: "another" }, { title: "another" }, { metadata: {} }, { toolApprovalMode: "prompt" }, {
        reasoningEffort: "low"
      }]
    ) {
      await conflict(world, `another ${Object.keys(more)[0]}`, (body) => ({ ...body, ...more }))
    }
  }, { source: "docs/interface.md 4.2" }),
  idempotent("changed-limits", "So do another budget and other variables.", async (world) => {
    for (const more of [{ budgetMicroUsd: 1 }, { environment: { REGION: "eu" } }]) {
      await conflict(world, `another ${Object.keys(more)[0]}`, (body) => ({ ...body, ...more }))
    }
  }),
  idempotent("spelling", "Order of members, white space and spelled-out defaults do not count.", async (world) => {
    answered(
      await again(world, (body) => Object.fromEntries(Object.entries(body).reverse())),
      200,
      "members in another order"
    )
    answered(await again(world, (body) => JSON.stringify(body, null, 2)), 200, "white space")
    answered(
      await again(world, (body) => ({ ...body, metadata: { a: "1", b: "2" } })),
      200,
      "metadata in another order"
    )
    answered(await again(world, (body) => ({ ...body, toolApprovalMode: "auto" })), 200, "the default written out")
  }),
  idempotent("model", "A model that was left out is not the same as the default's name.", async (world) => {
    await conflict(world, "the model written out", (body) => ({ ...body, model: world.options.model }))
  }),
  idempotent("array-order", "The order of repositories counts.", async (world) => {
    await conflict(
      world,
      "repositories in another order",
      (body) => ({ ...body, repos: [{ fullName: world.secondRepo }, { fullName: world.repo }] })
    )
  }, { needs: ["second-repo"] }),
  idempotent("normalisation", "Text is compared as it is, without Unicode normalisation.", async (world) => {
    const key = `conformance ${unique()}`
    answered(await world.create({ title: "\u00e9" }, { "idempotency-key": key }), 201, "a creation")
    refused(
      await world.create({ title: "e\u0301" }, { "idempotency-key": key }),
      409,
      "idempotency_conflict",
      "the same title in another normal form"
    )
  }),
  idempotent(
    "concurrent",
    "Of equal creations at the same time exactly one is 201; all give the same sandbox.",
    async (world) => {
      const key = `conformance ${unique()}`
      const replies = await Promise.all(Array.from({ length: 8 }, () => world.create({}, { "idempotency-key": key })))
      same(replies.map(({ status }) => status).sort(), [200, 200, 200, 200, 200, 200, 200, 201], "statuses")
      same(new Set(replies.map(({ json }) => json.at("id").value)).size, 1, "number of sandboxes")
    }
  ),
  idempotent(
    "key-rules",
    "A key is one header of 1 to 255 printable ASCII characters, else 400 invalid_idempotency_key.",
    async (world) => {
      const bad: ReadonlyArray<string | ReadonlyArray<string>> = ["", "k".repeat(256), "caf\u00e9", "a\tb", ["a", "b"]]
      for (const key of bad) {
        const reply = await world.http.ask(SANDBOXES, { body: world.creation(), headers: { "idempotency-key": key } })
        refused(reply, 400, "invalid_idempotency_key", `the key ${JSON.stringify(key).slice(0, 20)}`)
      }
      answered(await world.create({}, { "idempotency-key": unique().padEnd(255, "~") }), 201, "a key of 255 characters")
    }
  ),
  idempotent("raw-key", "A key is taken raw: another case is another key.", async (world) => {
    const key = `conformance ${unique()}a`
    const ids = [
      await world.create({}, { "idempotency-key": key }),
      await world.create({}, { "idempotency-key": key.toUpperCase() })
    ]
      .map((reply) => created(reply).at("id").value)
    holds(ids[0] !== ids[1], "two sandboxes", ids)
  }),
  idempotent("refused-attempt", "An attempt that was refused leaves its key free.", async (world) => {
    const headers = { "idempotency-key": `conformance ${unique()}` }
    refused(await world.create({ prompt: "" }, headers), 400, "invalid_request", "an empty prompt")
    answered(await world.create({}, headers), 201, "a good creation under the same key")
  }),
  idempotent("no-key", "Without a key, equal creations make two sandboxes.", async (world) => {
    const ids = [await world.create(), await world.create()].map((reply) => created(reply).at("id").value)
    holds(ids[0] !== ids[1], "two sandboxes", ids)
  }),
  idempotent("other-grant", "Another grant's same key is another key.", async (world) => {
    const headers = { "idempotency-key": `conformance ${unique()}` }
    const own = created(await world.create({}, headers)).at("id").value
    const theirs = await world.http.ask(SANDBOXES, { body: world.creation(), headers, key: world.otherKey })
    holds(answered(theirs, 201, "another grant's creation").json.at("id").value !== own, "another sandbox", own)
  }, { needs: ["other-key"] })
]

/** Fields that may change between two reads of an ending sandbox. */
const volatile = { status: null, completedAt: null, usage: null }

/** The rules of this file. */
export const rules = [...creation, ...limits, ...idempotency]
