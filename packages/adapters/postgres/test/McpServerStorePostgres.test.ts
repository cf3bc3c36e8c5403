import { assert, it } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { McpServerStore } from "@slipway/domain/mcp/ports/McpServerStore"
import { type McpCommandSettings, McpRemoteSettings } from "@slipway/domain/mcp/schema/McpServer"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/mcp/McpServerStoreContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as McpServerStorePostgres from "../src/mcp-server-store/McpServerStorePostgres.ts"
import { SecretsKey } from "../src/secret-store/SecretsKey.ts"
import { database } from "./Stores.ts"

const layer = McpServerStorePostgres.layer.pipe(
  Layer.provide(SecretsKey.layerEphemeral),
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStorePostgres.layer),
  Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsNode.layer)),
  Layer.provideMerge(database())
)

register(suite("postgres", layer))

it.live("stores no credential in plain", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { grant } = yield* (yield* Access).createGrant("canaries")
    const settings = {
      url: "https://wiki.example.com/mcp",
      authentication: { type: "header" as const, name: "Authorization" },
      onByDefault: true,
      tools: {}
    }
    const at = DateTime.makeUnsafe("2026-11-30T06:10:00Z")
    yield* (yield* McpServerStore).set({ grantId: grant.id, repo: "acme/shop", name: "wiki" }, settings, Redacted.make("canary-7Qm2"), at)
    const rows = yield* sql<{ readonly row: string }>`SELECT t::text AS row FROM mcp_servers t WHERE grant_id = ${grant.id}`
    assert.lengthOf(rows, 1)
    assert.include(rows[0]?.row, "sealed:")
    assert.notInclude(rows[0]?.row, "7Qm2")
  }).pipe(Effect.provide(layer)))

const COMMAND: McpCommandSettings = {
  command: "node",
  arguments: ["mcp.js"],
  variables: ["KEY"],
  onByDefault: true,
  tools: { wipe: "deny" }
}

it.live("stores a command so that a process of the version before reads its row, finds no server, and may set it anew", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const store = yield* McpServerStore
    const { grant } = yield* (yield* Access).createGrant("earlier")
    const key = { grantId: grant.id, repo: "acme/shop", name: "tools" }
    yield* store.set(key, COMMAND, Redacted.make("{\"KEY\":\"canary-7Qm2\"}"), DateTime.makeUnsafe("2026-11-30T06:10:00Z"))
    const rows = yield* sql<{ readonly settings: unknown }>`SELECT settings FROM mcp_servers WHERE grant_id = ${grant.id}`
    // The earlier schema knew addresses alone, and ignored other fields.
    const earlier = yield* Schema.decodeUnknownEffect(McpRemoteSettings)(rows[0]?.settings)
    assert.match(earlier.url, /^https:\/\/[a-z]+\.invalid\/$/u)
    assert.deepInclude(earlier, { authentication: { type: "none" }, tools: { wipe: "deny" } })
    yield* sql`UPDATE mcp_servers SET settings = ${JSON.stringify(earlier)}::jsonb, sealed = NULL WHERE grant_id = ${grant.id}`
    assert.deepStrictEqual((yield* store.list(grant.id, null)).map(({ settings }) => settings), [earlier])
  }).pipe(Effect.provide(layer)))
