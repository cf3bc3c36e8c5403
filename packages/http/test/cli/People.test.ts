import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { folder, run } from "./SlipwayProcess.ts"

const LONG = 90_000

describe("slipway audit", () => {
  it.live("prints what happened newest last, by whom, no secret, and no more than was asked for", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { id, key } = JSON.parse((yield* run(data, ["keys", "create", "--json"])).stdout)
      yield* run(data, ["keys", "revoke", id])
      const all = yield* run(data, ["audit", "--since", "1d", "--json"])
      const entries: ReadonlyArray<{ readonly action: string; readonly actor: unknown; readonly subjects: Record<string, string> }> = JSON.parse(all.stdout)
      assert.deepStrictEqual(
        entries.map(({ action, actor, subjects }) => [action, actor, subjects["keyId"]]),
        [["key.minted", { _tag: "Operator" }, id], ["key.revoked", { _tag: "Operator" }, id]]
      )
      const last = yield* run(data, ["audit", "--limit", "1"])
      assert.match(last.stdout, new RegExp(`^AT +WHO +WHAT +TO\\n\\S+Z +operator +key\\.revoked .*keyId=${id}.*\\n$`, "u"))
      assert.strictEqual((yield* run(data, ["audit", "--since", "2100-01-01T00:00:00Z"])).stdout, "Nothing happened.\n")
      assert.notInclude(all.stdout + last.stdout, key)
      const wrong = yield* run(data, ["audit", "--since", "yesterday"])
      assert.strictEqual(wrong.code, 1)
      assert.include(wrong.stderr, "days such as 90d")
    }), LONG)
})
