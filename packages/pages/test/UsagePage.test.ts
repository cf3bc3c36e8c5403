/** The usage page: what sandboxes cost and led to, for owners, on the page and as CSV; and the workers of the service. */
import { assert, layer } from "@effect/vitest"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { AS_INVITED } from "@slipway/domain/access/rules/Entry"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Workers } from "@slipway/domain/sandbox/ports/Workers"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Result } from "effect"
import { textOf, visitorIn } from "../testing/Browser.ts"
import { create, drive, layer as http, running } from "../testing/Harness.ts"

const record = Effect.fnUntraced(function*(id: SandboxId, event: SandboxEvent) {
  const store = yield* SandboxStore
  yield* store.change(id, "policy", () => Result.succeed([event]), yield* DateTime.now)
})

const cost = (costMicroUsd: number): SandboxEvent => ({
  type: "usage.updated",
  data: {
    usage: { llmRequestCount: 1, costMicroUsd, creditsChargedMicros: 0 },
    tokens: { input: 12_345, cachedInput: 9000, output: 678 }
  }
})

const pull = (repo: string, merged: boolean): SandboxEvent => ({
  type: "pull_request.updated",
  data: { repo: RepoName.make(repo), action_state: "idle", number: 7, state: merged ? "closed" : "open", draft: false, merged }
})

layer(http(), { excludeTestServices: true })("the usage page", (it) => {
  it.effect("adds up costs, failures, pull requests and merges of the grant", () =>
    Effect.gen(function*() {
      const owner = yield* visitorIn("costly", "owner")
      const failed = yield* create(owner.key)
      yield* drive(failed, [{ _tag: "StartBoot" }, { _tag: "Fail", reason: "boot_failed", error: "No.", retryable: false }])
      const { id } = yield* running(owner.key, { repos: [{ fullName: "acme/costly" }] })
      yield* record(id, cost(1_250_000))
      yield* record(id, pull("acme/costly", true))
      yield* record((yield* running(owner.key)).id, pull("acme/shop", false))
      const text = textOf(yield* owner.get("/usage"))
      assert.include(
        text,
        "Cost $1.2500 Sandboxes 3 Tokens 12,345 in, 9,000 of them cached, 678 out Pull requests 2 Merged 1, 50 % of them"
      )
      assert.match(text, /From task to merge \d+ min on average Cost per merge \$1\.2500/u)
      assert.match(text, /Cost by repository, as a table Cost by repository Repository Cost acme\/costly \$1\.2500 acme\/shop \$0\.0000/u)
      assert.match(text, /Cost by person Person Cost owner-of-costly \$1\.2500/u)
      assert.match(text, /Failures by reason Reason Sandboxes Starting failed\. 1/u)
      assert.include(text, `${DateTime.formatIsoDateUtc(yield* DateTime.now)} $1.2500, 3 sandboxes`)
      for (const days of ["8", "", "x"]) assert.strictEqual((yield* owner.get(`/usage?days=${days}`)).status, 400, days)
    }))

  it.effect("gives the same numbers as CSV, in which no text becomes a formula", () =>
    Effect.gen(function*() {
      const identity = {
        provider: "github" as const,
        entry: AS_INVITED,
        subject: "4711",
        login: "owner-of-csv",
        email: null,
        name: "=HYPERLINK(\"x\")"
      }
      yield* (yield* MemberStore).recognize(identity, { id: `user_${yield* (yield* Ids).ulid}`, at: yield* DateTime.now })
      const owner = yield* visitorIn("csv", "owner")
      const { id } = yield* running(owner.key)
      yield* record(id, cost(2_000_001))
      const reply = yield* owner.get("/usage/csv?days=7")
      assert.deepStrictEqual([reply.status, reply.headers["content-type"]], [200, "text/csv; charset=utf-8"])
      assert.match(String(reply.headers["content-disposition"]), /^attachment; filename="slipway-usage-[\d-]+-7-days\.csv"/u)
      const [heads, line, ...rest] = reply.text.split("\r\n")
      assert.match(heads ?? "", /^day,repository,model,person,status,reason,sandboxes,cost_usd,.*,pull_requests,merged,hours_to_merge$/u)
      assert.match(line ?? "", /^[\d-]+,acme\/shop,offline\/demo,"'=HYPERLINK\(""x""\)",running,,1,2\.000001,12345,9000,678,0,0,$/u)
      assert.deepStrictEqual(rest, [""])
    }))

  it.effect("is for owners, and shows nothing of another grant", () =>
    Effect.gen(function*() {
      const owner = yield* visitorIn("owned", "owner")
      yield* running(owner.key, { repos: [{ fullName: "acme/secret-work" }] })
      const member = yield* visitorIn("owned", "member")
      for (const path of ["/usage", "/usage/csv"]) assert.strictEqual((yield* member.get(path)).status, 403)
      const other = yield* visitorIn("elsewhere", "owner", "Another organization")
      for (const path of ["/usage", "/usage/csv"]) assert.notInclude((yield* other.get(path)).text, "secret-work")
    }))

  it.effect("shows the machines to owners of the organization that runs the service, and totals to other owners", () =>
    Effect.gen(function*() {
      const workers = yield* Workers
      const room = { agents: { all: 32, taken: 9 }, boots: { all: 4, taken: 1 } }
      yield* workers.report({ worker: "w-1", machine: "big-<b>one</b>", slots: { all: 6, taken: 2 }, isDraining: false, ...room })
      yield* workers.report({ worker: "w-2", machine: "other", slots: { all: 2, taken: 3 }, isDraining: true, ...room })
      const all = yield* (yield* visitorIn("runs-it", "owner")).get("/usage")
      assert.include(all.text, "big-&lt;b&gt;one&lt;/b&gt;")
      const text = textOf(all)
      assert.match(text, /w-1 Accepting work 2 of 6, 4 free 9 of 32, 23 free 1 of 4, 3 free/u)
      assert.match(text, /w-2 Draining 3 of 2, 0 free/u)
      const page = textOf(yield* (yield* visitorIn("theirs", "owner", "Theirs")).get("/usage"))
      assert.include(page, "0 of 6 slots busy, in all organizations together.")
      for (const hidden of ["big-", "w-1", "Draining"]) assert.notInclude(page, hidden)
      for (const worker of ["w-1", "w-2"]) yield* workers.leave(worker)
    }))
})
