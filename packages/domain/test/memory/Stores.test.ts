import { assert, it } from "@effect/vitest"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Secrets } from "@slipway/domain/environment/usecases/Secrets"
import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import * as Stores from "@slipway/domain/memory/Stores"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import * as UseCases from "@slipway/domain/UseCases"
import { Effect, Layer, Option, Redacted } from "effect"

const layer = UseCases.layer.pipe(
  Layer.provide(MemoryMachine.layer({ repositories: { "acme/site": { "README.md": "# Site\n" } } })),
  Layer.provide(Layer.mock(WebhookSender, {})),
  Layer.provideMerge(Stores.layer())
)
const by: Principal = {
  credential: { _tag: "Key", keyId: "key" },
  grantId: "grant",
  organizationId: "organization",
  userId: "user",
  scopes: new Set(["sandboxes"]),
  test: false
}
const create = (fullName: string) =>
  Effect.gen(function*() {
    const sandboxes = yield* Sandboxes
    return yield* sandboxes.create(by, yield* Requests.creation({ repos: [{ fullName }], prompt: "Say hello." }), Option.none())
  })

it.effect("creates sandboxes of the machine's repositories only", () =>
  Effect.gen(function*() {
    const { sandbox } = yield* create("acme/site")
    assert.strictEqual(sandbox.status, "queued")
    assert.strictEqual((yield* Effect.flip(create("acme/other")))._tag, "RepoNotAccessible")
  }).pipe(Effect.provide(layer)))

it.effect("forgets the secrets of a revoked grant", () =>
  Effect.gen(function*() {
    const access = yield* Access
    const secrets = yield* Secrets
    const { grant } = yield* access.createGrant("acme")
    yield* secrets.set({ grantId: grant.id, repo: "acme/site", name: "TOKEN" }, Redacted.make("value"))
    assert.lengthOf(yield* secrets.list(grant.id, null), 1)
    yield* access.revokeGrant("acme")
    assert.deepStrictEqual(yield* secrets.list(grant.id, null), [])
  }).pipe(Effect.provide(layer)))

it.effect("refuses sandboxes to an organization without claims where credits have a price", () =>
  Effect.gen(function*() {
    assert.strictEqual((yield* Effect.flip(create("acme/site")))._tag, "NoCredits")
  }).pipe(Effect.provide(layer.pipe(Layer.provide(Layer.succeed(CreditPrice, 10_000))))))
