import { assert, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { initial } from "@slipway/domain/sandbox/rules/Sandbox"
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { DateTime, Schema } from "effect"
import { COLUMNS, LIST_COLUMNS, sandboxOf, WIDTH } from "../src/sandbox-store/rows/SandboxRow.ts"

const instant = (minute: string) => DateTime.makeUnsafe(`2026-11-21T02:${minute}:00.123Z`)

const sandbox: Sandbox = {
  ...initial({
    id: SandboxId.make("c_222222222222"),
    grantId: "019aa000-0000-7000-8000-000000000000",
    createdBy: "user_01J00000000000000000000000",
    title: "A title",
    repos: [{ fullName: "acme/shop", ref: "main" }, { fullName: "acme/infra" }],
    prompt: "Do it.",
    model: offlineDemo.id,
    agentRuntime: offlineDemo.agentRuntime,
    reasoningEffort: "high",
    toolApprovalMode: "auto",
    metadata: { team: "payments" },
    origin: { sandboxId: SandboxId.make("c_333333333333"), checkpoint: 9 },
    continues: { repo: "acme/shop", branch: "feature/x", pullRequest: 12, headSha: "0".repeat(40) },
    budgetMicroUsd: 2_500_000,
    environment: { REGION: "eu" },
    mcpServers: ["wiki"],
    createdAt: instant("41")
  }),
  reason: "boot_failed",
  statusAt: instant("42"),
  startedAt: instant("43"),
  setupTime: { spentMs: 10, run: null },
  completedAt: instant("44"),
  error: "It broke.",
  waiting: [],
  turnless: 1,
  idleSince: instant("45"),
  usage: { llmRequestCount: 11, costMicroUsd: 12, creditsChargedMicros: 13 },
  tokens: { input: 14, cachedInput: 15, output: 16 },
  checkpoint: 2,
  owesCheckpoint: true,
  pinned: false,
  restoring: 3,
  restores: 4,
  renames: 5,
  syncing: true,
  syncs: 8,
  revision: 5,
  lastSeq: 6,
  recordedAt: instant("46"),
  logBytes: 7
}

/** As the driver gives it: instants are dates, `bigint` columns are big integers, JSON columns are read. */
const values = (() => {
  const encoded: Record<string, unknown> = Schema.encodeSync(Sandbox)(sandbox)
  const name = (column: string) => column.replace(/^s\./u, "").replaceAll(/_(.)/gu, (_, letter: string) => letter.toUpperCase())
  return COLUMNS.split(", ").map(name).map((name) =>
    encoded[name] !== null && (name.endsWith("At") || name === "idleSince")
      ? new Date(String(encoded[name]))
      : ["revision", "lastSeq", "turnless", "logBytes", "budgetMicroUsd"].includes(name)
      ? BigInt(Number(encoded[name]))
      : encoded[name]
  )
})()

it("a row is the sandbox that it was written from", () => {
  assert.strictEqual(values.length, WIDTH)
  assert.deepStrictEqual(sandboxOf(values), sandbox)
  assert.deepStrictEqual(sandboxOf([...values, 7n, "more"]), sandbox)
})

it("each field is read from the column of its name", () => {
  const columns = Object.keys(sandboxOf(values)).map((name) => `s.${name.replaceAll(/[A-Z]/gu, (letter) => `_${letter.toLowerCase()}`)}`)
  assert.deepStrictEqual(columns, COLUMNS.split(", "))
})

/** The row with other values in some columns. */
const valuesWith = (other: Readonly<Record<string, unknown>>) => COLUMNS.split(", ").map((column, i) => other[column] ?? values[i])

it("members that a later version keeps are left out", () => {
  const later = { later: true }
  const repos = sandbox.repos.map((repo) => ({ ...repo, ...later }))
  const row = valuesWith({ "s.repos": repos, "s.usage": { ...sandbox.usage, ...later }, "s.tokens": { ...sandbox.tokens, ...later } })
  assert.deepStrictEqual(sandboxOf(row), sandbox)
})

it("a row is not read where a member is missing or of another type", () => {
  const odd = [
    ...["s.repos", "s.usage", "s.tokens", "s.metadata"].flatMap((column) => [{ [column]: "text" }, { [column]: [1] }]),
    { "s.repos": [{ ref: "main" }] },
    { "s.repos": [{ fullName: "acme/shop", ref: null }] },
    { "s.metadata": { team: "payments", ticket: 1 } },
    { "s.usage": { ...sandbox.usage, costMicroUsd: "12" } },
    { "s.tokens": { input: 14, output: 16 } }
  ]
  for (const other of odd) assert.throws(() => sandboxOf(valuesWith(other)), "a row of sandboxes has", JSON.stringify(other))
})

it("a list leaves no column out, and of texts that wait only the texts", () => {
  assert.deepStrictEqual(LIST_COLUMNS.split(", "), COLUMNS.split(", ").with(-1, "'[]'::jsonb"))
})

for (const [i, column] of COLUMNS.split(", ").entries()) {
  it(`a row is not read whose ${column} is not what it is to be`, () => {
    for (const odd of [undefined, Symbol("odd"), { odd: true, at: 1n }, [{ odd: true }]]) {
      assert.throws(() => sandboxOf(values.with(i, odd)))
    }
  })
}
