import { assert, describe, it } from "@effect/vitest"
import { Scope } from "@slipway/domain/access/schema/Principal"
import { ChangedFiles, FileTree, MAX_CHANGES, MAX_ENTRIES } from "@slipway/domain/files/schema/FileTree"
import { ActionState, MAX_COMMENT, PullRequestStatus, PullState } from "@slipway/domain/source/schema/PullRequest"
import { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"

const openApi: { readonly components: { readonly schemas: Readonly<Record<string, object>> } } = JSON.parse(
  readFileSync(new URL("../../api/openapi.json", import.meta.url), "utf8")
)

/** A JSON schema without texts for people and examples. The API allows no additional properties, decoding in the domain does. */
const shapeOf = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(shapeOf)
  if (typeof schema !== "object" || schema === null) return schema
  const { additionalProperties: _additional, allOf = [], description: _text, examples: _examples, ...rest } = schema as Record<
    string,
    unknown
  >
  const merged = Object.assign({}, rest, ...(allOf as ReadonlyArray<object>).map(shapeOf))
  return Object.fromEntries(Object.entries(merged).map(([key, value]) => [key, shapeOf(value)]))
}

describe("the interface", () => {
  it.each([
    ["FileTree", FileTree, ["FileEntry", "FileTree"]],
    ["PullRequestStatus", PullRequestStatus, [
      "CheckRun",
      "Checks",
      "PullRequest",
      "PullRequestComment",
      "PullRequestStatus",
      "TimestampEncoded",
      "WorkflowRun"
    ]],
    ["RepoRef", RepoRef, ["RepoRef"]]
  ])("has the shape of openapi.json: %s", (_, schema: Schema.Top, names) => {
    const { definitions } = Schema.toJsonSchemaDocument(schema)
    assert.deepStrictEqual(Object.keys(definitions).sort(), names)
    const { TimestampEncoded: _time, ...shapes } = JSON.parse(
      JSON.stringify(definitions).replaceAll("#/$defs/", "#/components/schemas/").replaceAll("/TimestampEncoded", "/Timestamp")
    )
    for (const [name, shape] of Object.entries(shapes)) {
      assert.deepStrictEqual(shapeOf(shape), shapeOf(openApi.components.schemas[name]), name)
    }
  })

  it("has these words and limits", () => {
    assert.deepStrictEqual(Scope.literals, ["sandboxes", "sandboxes:delete", "partner:ingest", "webhooks", "secrets", "metrics:read",
      "models", "automations", "audit:read"])
    assert.deepStrictEqual(ActionState.literals, ["idle", "publishing", "updating", "failed"])
    assert.deepStrictEqual(PullState.literals, ["draft", "open", "merged", "closed"])
    assert.deepStrictEqual({ MAX_CHANGES, MAX_COMMENT, MAX_ENTRIES }, { MAX_CHANGES: 1000, MAX_COMMENT: 4000, MAX_ENTRIES: 5000 })
  })
})

it("a change of a tree is one file with its status, its lines and its earlier path", () => {
  const changes: ChangedFiles = {
    files: [{ path: "src/b.ts", status: "renamed", additions: 1, deletions: 2, previousPath: "src/a.ts" }],
    partialWarnings: ["invalid_names"]
  }
  assert.deepStrictEqual(Schema.decodeUnknownSync(ChangedFiles)(changes), changes)
})
