import { assert, describe, it } from "@effect/vitest"
import { claimsOf, start, tokenOf } from "@slipway/oidc/testing/CiIssuer"
import { Clock, Effect } from "effect"
import { folder, run, serve } from "../SlipwayProcess.ts"

describe("slipway ci-trust", () => {
  it.live(
    "lets runs of a CI get a key of ten minutes from the running service, until the trust is removed",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const ci = yield* start
        const { url } = yield* serve(data, { SLIPWAY_CI_PRIVATE: ci.destination })
        yield* run(data, ["grants", "create", "ci"])
        const trust = (...args: ReadonlyArray<string>) => run(data, ["ci-trust", ...args])
        const asJson = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
          const ended = yield* trust(...args, "--json")
          assert.deepStrictEqual([ended.code, ended.stderr], [0, ""], ended.stdout)
          return JSON.parse(ended.stdout)
        })
        const added = yield* asJson(
          "add",
          "github",
          "acme/web",
          "--branch",
          "main",
          "--claim",
          "run_id=4711",
          "--grant",
          "ci",
          "--issuer",
          ci.issuer
        )
        assert.deepInclude(added, {
          issuer: ci.issuer,
          audience: url,
          claims: { repository: "acme/web", ref: "refs/heads/main", run_id: "4711" },
          scopes: ["sandboxes"]
        })
        assert.deepStrictEqual(yield* asJson("list"), [added])
        const claims = claimsOf(ci.issuer, Math.floor((yield* Clock.currentTimeMillis) / 1000), { aud: url })
        const exchange = Effect.promise(async () => {
          const body = new URLSearchParams({
            grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
            subject_token: tokenOf(ci.key, claims),
            subject_token_type: "urn:ietf:params:oauth:token-type:jwt"
          })
          const reply = await fetch(`${url}/api/internal/v1/token-exchange`, { method: "POST", body })
          return { status: reply.status, reply: JSON.parse(await reply.text()) }
        })
        const { reply, status } = yield* exchange
        assert.strictEqual(status, 200)
        const headers = { authorization: `Bearer ${reply.access_token}` }
        const sandboxes = yield* Effect.promise(() => fetch(`${url}/api/public/v1/sandboxes`, { headers }))
        assert.strictEqual(sandboxes.status, 200)
        assert.include((yield* run(data, ["audit"])).stdout, "ci_token.exchanged")

        assert.include((yield* trust("remove", added.id)).stdout, "is removed")
        assert.strictEqual((yield* exchange).status, 400)
        assert.include((yield* trust("list")).stdout, "No CI trusts.")
        const refused = yield* trust("add", "gitlab", "acme/web", "--grant", "ci", "--claim", "Environment=production")
        assert.strictEqual(refused.code, 1)
        assert.include(refused.stderr, "names of claims")
      }),
    120_000
  )
})
