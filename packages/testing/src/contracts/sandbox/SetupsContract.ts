/**
 * The rules that every `Setups` must keep, beside the `SandboxStore`, `Leases` and `Maintenance` of the same rows. An adapter proves itself
 * by running this suite against its layer; a rule that is missing here is not part of the port.
 */
import { Ids } from "@slipway/domain/ids/Ids"
import { LEASE_SECONDS } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { MAX_SETUP_OUTPUT, type SetupRecord, Setups } from "@slipway/domain/sandbox/ports/Setups"
import { terminate } from "@slipway/domain/sandbox/rules/Command"
import type { SystemCommand } from "@slipway/domain/sandbox/rules/SystemCommand"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define } from "../../suite/Suite.ts"
import { at, command, drive, keyOf, leased, make, StoreFixture, type Stores } from "./SandboxStates.ts"

const began: SetupRecord = {
  state: "running",
  startedAt: at,
  ms: null,
  cache: "miss",
  exitCode: null,
  output: "npm ci\n",
  told: null
}

export const suite = (name: string, layer: Layer.Layer<Stores | Setups, unknown>) =>
  define(`Setups (${name})`, layer, (it) => {
    it.effect("keeps the newest record of a sandbox as it was saved, and of another one nothing", () =>
      Effect.gen(function*() {
        const setups = yield* Setups
        const [one, other] = [yield* make(), yield* make()]
        const { lease } = yield* leased(one.id)
        assert.isNull(yield* setups.find(one.id))
        yield* setups.save(lease, began)
        assert.deepStrictEqual(yield* setups.find(one.id), began)
        const output = `é'"\\\u{1F680}\u001b[31m\r\n${"x".repeat(MAX_SETUP_OUTPUT - 20)}`
        const failed: SetupRecord = {
          state: "failed",
          startedAt: DateTime.add(at, { seconds: 1 }),
          ms: 3_600_000,
          cache: "none",
          exitCode: 127,
          output,
          told: "# Setup\n"
        }
        yield* setups.save(lease, failed)
        assert.deepStrictEqual(yield* setups.find(one.id), failed)
        assert.isNull(yield* setups.find(other.id))
      }))

    it.effect("takes nothing from a worker whose lease is another's by now, or that never had one", () =>
      Effect.gen(function*() {
        const setups = yield* Setups
        const { ageLease } = yield* StoreFixture
        const { id } = yield* make()
        const { lease } = yield* leased(id)
        yield* ageLease(id, LEASE_SECONDS)
        const { lease: next } = yield* leased(id)
        assert.strictEqual((yield* Effect.flip(setups.save(lease, began)))._tag, "StaleLease")
        assert.isNull(yield* setups.find(id))
        yield* setups.save(next, began)
        const nobodys = { ...next, fence: next.fence + 1 }
        assert.strictEqual((yield* Effect.flip(setups.save(nobodys, { ...began, output: "nobody's" })))._tag, "StaleLease")
        assert.strictEqual((yield* Effect.flip(setups.save(lease, { ...began, output: "late" })))._tag, "StaleLease")
        assert.deepStrictEqual(yield* setups.find(id), began)
      }))

    it.effect("remembers every commit that a sandbox published until its pull request is merged, longer than the sandbox's events", () =>
      Effect.gen(function*() {
        const setups = yield* Setups
        const maintenance = yield* Maintenance
        const [one, other] = [yield* make(), yield* make()]
        const unique = (yield* Ids).uuid7
        const sha = Effect.map(unique, (id) => id.replaceAll("-", "").padEnd(40, "0"))
        const [first, second, third, elsewhere] = [yield* sha, yield* sha, yield* sha, yield* sha]
        const reported = (repo: string, head_sha: string, more: object = {}): SystemCommand => ({
          _tag: "ReportPublication",
          data: { repo: RepoName.make(repo), action_state: "idle", number: 1, state: "open", merged: false, head_sha, ...more }
        })
        const isPushed = (sha: string, repo = "acme/Shop") => setups.wasPushedUnmerged(RepoName.make(repo), sha)
        assert.isFalse(yield* isPushed(first))
        yield* drive(one, [reported("Acme/shop", first)])
        yield* drive(one, [reported("Acme/shop", second)])
        yield* drive(one, [reported("acme/api", elsewhere)])
        for (const sha of [first, second]) assert.isTrue(yield* isPushed(sha))
        for (const [sha, repo] of [[third, "acme/shop"], [first, "acme/api"], [elsewhere, "acme/shop"]] as const) {
          assert.isFalse(yield* isPushed(sha, repo))
        }
        yield* drive(other, [reported("acme/shop", first)])
        yield* drive(one, [reported("acme/shop", second, { state: "closed", merged: true })])
        assert.isFalse(yield* isPushed(second))
        assert.isTrue(yield* isPushed(first), "another sandbox published it too")
        assert.isTrue(yield* isPushed(elsewhere, "acme/api"))
        yield* drive(one, [reported("acme/shop", third, { number: 2 })])
        assert.isTrue(yield* isPushed(third))
        assert.isFalse(yield* isPushed(second))
        yield* command(keyOf(one), terminate(yield* Ids), at)
        yield* maintenance.purgeEvents(at, 10_000)
        assert.isTrue(yield* isPushed(third))
      }))

    it.effect("forgets the record with the events of its sandbox, and keeps those of others", () =>
      Effect.gen(function*() {
        const setups = yield* Setups
        const maintenance = yield* Maintenance
        const withSetup = Effect.tap(make(), ({ id }) => Effect.flatMap(leased(id), ({ lease }) => setups.save(lease, began)))
        const [over, live] = [yield* withSetup, yield* withSetup]
        yield* command(keyOf(over), terminate(yield* Ids), at)
        yield* maintenance.purgeEvents(DateTime.subtract(at, { seconds: 1 }), 10_000)
        assert.deepStrictEqual(yield* setups.find(over.id), began)
        yield* maintenance.purgeEvents(at, 10_000)
        assert.isNull(yield* setups.find(over.id))
        assert.deepStrictEqual(yield* setups.find(live.id), began)
      }))
  })
