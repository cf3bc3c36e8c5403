import { assert, it } from "@effect/vitest"
import { offlineDemo } from "@slipway/domain/models/ModelCatalogue"
import { initial } from "@slipway/domain/sandbox/Sandbox"
import { Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { SandboxId } from "@slipway/domain/SandboxId"
import { DateTime, Schema } from "effect"
import { COLUMNS, LIST_COLUMNS, sandboxOf, WIDTH } from "../../src/postgres/SandboxRow.ts"

const sandbox = initial({
  id: SandboxId.make("c_222222222222"),
  grantId: "019aa000-0000-7000-8000-000000000000",
  createdBy: "user_01J00000000000000000000000",
  title: "A title",
  repos: [{ fullName: "acme/shop", ref: "main" }],
  prompt: "Do it.",
  model: offlineDemo.id,
  agentRuntime: offlineDemo.agentRuntime,
  reasoningEffort: null,
  toolApprovalMode: "auto",
  metadata: { team: "payments" },
  origin: null,
  createdAt: DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
})

/** As the driver gives it: instants are dates, `bigint` columns are big integers, JSON columns are read. */
const values = (() => {
  const encoded: Record<string, unknown> = Schema.encodeSync(Sandbox)(sandbox)
  const name = (column: string) => column.replace(/^s\./u, "").replaceAll(/_(.)/gu, (_, letter: string) => letter.toUpperCase())
  return COLUMNS.split(", ").map(name).map((name) =>
    encoded[name] !== null && name.endsWith("At")
      ? new Date(String(encoded[name]))
      : ["revision", "lastSeq", "turnless", "logBytes"].includes(name)
      ? BigInt(Number(encoded[name]))
      : encoded[name]
  )
})()

it("a row is the sandbox that it was written from", () => {
  assert.strictEqual(values.length, WIDTH)
  assert.deepStrictEqual(sandboxOf(values), sandbox)
  assert.deepStrictEqual(sandboxOf([...values, 7n, "more"]), sandbox)
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
