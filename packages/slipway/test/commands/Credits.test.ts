import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as Migrations from "@slipway/postgres/Migrations"
import * as SpendingPostgres from "@slipway/postgres/spending/SpendingPostgres"
import { Effect, Layer, Redacted } from "effect"
import { folder, repository, run, serve } from "./SlipwayProcess.ts"

describe("SLIPWAY_CREDITS=enforced", () => {
  it.live("lets in who has credits, and shows which sandbox took them", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const databaseUrl = yield* TestPostgres.database(Migrations.layer)
      const settings = { DATABASE_URL: databaseUrl, SLIPWAY_CREDITS: "enforced", SLIPWAY_CREDIT_MICRO_USD: "1000" }
      const { url } = yield* serve(data, settings)
      const slipway = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
        const ended = yield* run(data, args, settings)
        assert.deepStrictEqual([ended.code, ended.stderr], [0, ""], ended.stdout)
        return ended.stdout
      })
      yield* slipway("repos", "add", "acme/shop", repository(data))
      const { grantId, key } = JSON.parse(yield* slipway("keys", "create", "--grant", "acme", "--json"))
      const { organizationId } = JSON.parse(yield* slipway("grants", "create", "acme", "--json"))
      const asked = Effect.promise(() =>
        fetch(`${url}/api/public/v1/sandboxes`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify({ repos: [{ fullName: "acme/shop" }], prompt: "Say hello." })
        })
      )
      const poor = yield* asked
      assert.deepStrictEqual([poor.status, JSON.parse(yield* Effect.promise(() => poor.text())).error.code], [402, "no_credits"])

      const { claimId } = JSON.parse(
        yield* slipway("partners", "claims", "create", "--grant", "acme", "--lead", "l", "--variant", "b", "--credits", "5", "--json")
      )
      yield* slipway("partners", "claims", "claim", claimId, "--recipient", "user_1", "--organization", organizationId)
      const rich = yield* asked
      const made = yield* Effect.promise(() => rich.text())
      assert.strictEqual(rich.status, 201, made)
      const { id } = JSON.parse(made)
      yield* Effect.gen(function*() {
        const call = { id: yield* (yield* Ids).uuid7, sandboxId: SandboxId.make(id), grantId }
        yield* (yield* Spending).charge(call, 1234)
      }).pipe(Effect.provide(
        SpendingPostgres.layer.pipe(
          Layer.provide(Layer.succeed(CreditPrice, 1000)),
          Layer.provideMerge(IdsNode.layer),
          Layer.provide(PgClient.layer({ url: Redacted.make(databaseUrl), startupParameters: { TimeZone: "UTC" } }))
        )
      ))
      const balance = yield* slipway("partners", "balance", organizationId)
      assert.match(balance, /^3 credits\n/u)
      assert.match(balance, new RegExp(`-1\\.234 +sandbox ${id}`, "u"))
      assert.match(balance, new RegExp(`\\+5 +claim ${claimId}`, "u"))
    }).pipe(Effect.scoped))

  it.live("is refused with an invalid price", () =>
    Effect.gen(function*() {
      const data = yield* folder
      for (const [name, value] of [["SLIPWAY_CREDITS", "on"], ["SLIPWAY_CREDIT_MICRO_USD", "0"]] as const) {
        const { code, stderr } = yield* run(data, ["serve"], { SLIPWAY_CREDITS: "enforced", [name]: value })
        assert.deepStrictEqual([code, stderr.includes(`${name} must be`)], [1, true], stderr)
      }
    }).pipe(Effect.scoped))
})
