import { assert, it } from "@effect/vitest"
import { HostConnections } from "@slipway/domain/environment/ports/HostConnections"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { suite } from "@slipway/testing/contracts/environment/HostConnectionsContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as HostConnectionsPostgres from "../src/host-connections/HostConnectionsPostgres.ts"
import { SecretsKey } from "../src/secret-store/SecretsKey.ts"
import { database } from "./Stores.ts"

const layer = Layer.merge(HostConnectionsPostgres.layer, IdsNode.layer).pipe(
  Layer.provideMerge(SecretsKey.layerEphemeral),
  Layer.provideMerge(database())
)

register(suite("postgres", layer))

it.live("no row has a token as it is, and a row that was moved to another host opens nothing and says so", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const connections = yield* HostConnections
    const at = DateTime.makeUnsafe("2026-11-30T20:10:00.123Z")
    const canary = "glpat-canary-7Qm2-9f2K"
    const connection = { accessToken: Redacted.make(canary), refreshToken: Redacted.make(canary), expiresAt: null }
    yield* connections.set("one.example", connection, at)
    const [row] = yield* sql<{ readonly row: string }>`SELECT t::text AS row FROM source_host_connections t`
    for (const form of ["7Qm2", Buffer.from(canary).toString("base64").slice(0, 16)]) assert.notInclude(row?.row ?? form, form)
    yield* sql`UPDATE source_host_connections SET host = 'two.example'`
    const { message } = yield* Effect.flip(connections.current("two.example", at, () => Effect.die("was renewed")))
    assert.match(message, /cannot be decrypted.*slipway hosts sign-in two\.example/u)
  }).pipe(Effect.provide(Layer.fresh(layer))))
