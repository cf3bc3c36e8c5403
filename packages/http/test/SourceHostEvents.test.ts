import { assert, layer } from "@effect/vitest"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { noChecks, type PullRequest } from "@slipway/domain/source/schema/PullRequest"
import * as SourceHostEventsGitHub from "@slipway/github/SourceHostEventsGitHub"
import { DateTime, Effect, Redacted } from "effect"
import { createHmac } from "node:crypto"
import { ask, drive, layer as http, mintKey, openStream, refused, running, SANDBOXES } from "../testing/Harness.ts"

const PATH = "/hooks/source-host"
const SECRET = "what only GitHub and we know"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const merged: PullRequest = {
  id: 9,
  nodeId: "PR_9",
  number: 3,
  url: "https://host.test/acme/shop/pull/3",
  title: "T",
  state: "closed",
  draft: false,
  merged: true,
  baseRef: "main",
  headRef: "slipway/x",
  headSha: "0".repeat(40),
  createdAt: at,
  updatedAt: at,
  additions: 1,
  deletions: 0,
  changedFiles: 1
}
const asked: Array<string> = []
const host = {
  pullRequestDetails: (repo: string, number: number) => {
    asked.push(`${repo}#${number}`)
    return Effect.succeed({ pullRequest: merged, checks: noChecks, comments: [], pending: false })
  }
}

const sign = (body: string, secret = SECRET) => `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`
const deliver = (body: string, headers: Record<string, string> = { "x-hub-signature-256": sign(body) }) =>
  ask(PATH, { method: "POST", body, headers: { "x-github-event": "pull_request", ...headers } })
const about = (branch: string, repo = "acme/shop") =>
  JSON.stringify({ action: "closed", pull_request: { number: 3, head: { ref: branch } }, repository: { full_name: repo } })

layer(http({ host, news: SourceHostEventsGitHub.layer({ secret: Redacted.make(SECRET) }) }), { excludeTestServices: true })(
  "news of the source host",
  (it) => {
    it.effect("become an event of the sandbox, once, by what the host says when it is asked", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey()
        const { id } = yield* running(key)
        yield* drive(id, [{
          _tag: "ReportPublication",
          data: { repo: "acme/shop", action_state: "idle", number: 3, state: "open", draft: true, merged: false }
        }])
        const events = yield* openStream(`${SANDBOXES}/${id}/events/stream`, { key })
        for (const _ of [1, 2]) {
          const reply = yield* deliver(about(`slipway/${id}`, "Acme/Shop"))
          assert.deepStrictEqual([reply.status, reply.text], [204, ""])
        }
        let told = ""
        while (!told.includes("pull_request.updated")) told = (yield* events.next) ?? "pull_request.updated"
        assert.match(told, /"merged":true/u)
        // The second delivery is through when both have asked.
        while (asked.length < 2) yield* Effect.sleep("10 millis")
        assert.deepStrictEqual(asked, ["acme/shop#3", "acme/shop#3"])
        const log = yield* (yield* SandboxStore).log(id, 0, 100)
        assert.strictEqual(log.filter(({ type }) => type === "pull_request.updated").length, 2)
      }))

    it.effect("are taken from no other sender, and tell nothing of the secret", () =>
      Effect.gen(function*() {
        const body = about("slipway/c_aaaaaaaaaaaa")
        const wrong: ReadonlyArray<Record<string, string>> = [
          {},
          { "x-hub-signature-256": "" },
          { "x-hub-signature-256": sign(body, "another secret") },
          { "x-hub-signature-256": sign(`${body} `) },
          { "x-hub-signature-256": "sha256=" },
          { "x-hub-signature": sign(body) }
        ]
        for (const headers of wrong) {
          const reply = yield* deliver(body, headers)
          refused(reply, 401, "unauthorized")
          assert.strictEqual(reply.headers["www-authenticate"], "Signature realm=\"slipway\"")
          assert.notInclude(reply.text, SECRET)
        }
        refused(yield* deliver("", { "x-hub-signature-256": sign("") }), 401, "unauthorized")
      }))

    it.effect("that concern no pull request of ours are taken and forgotten", () =>
      Effect.gen(function*() {
        const before = asked.length
        for (
          const body of [about("main"), about("slipway/c_bbbbbbbbbbbb"), JSON.stringify({ zen: "Keep it logically awesome." }), "no JSON",
            "[]", about("x", "no repository")]
        ) {
          assert.strictEqual((yield* deliver(body)).status, 204, body)
        }
        assert.strictEqual(asked.length, before)
      }))

    it.effect("come by POST, in at most a MiB", () =>
      Effect.gen(function*() {
        const get = yield* ask(PATH)
        refused(get, 405, "method_not_allowed")
        assert.strictEqual(get.headers["allow"], "POST, OPTIONS")
        refused(yield* deliver("x".repeat(2 ** 20 + 1)), 413, "payload_too_large")
      }))
  }
)

layer(http({ host }), { excludeTestServices: true })("without a secret", (it) => {
  it.effect("there is nowhere to send news", () =>
    Effect.gen(function*() {
      refused(yield* deliver(about("main")), 404, "not_found")
    }))
})
