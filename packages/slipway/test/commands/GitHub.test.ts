/** The whole service on GitHub: from a private repository to a draft pull request and what happens to it there. */
import { assert, it } from "@effect/vitest"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import { Effect } from "effect"
import { createHmac } from "node:crypto"
import { readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, gitHubApp, run, serve, until } from "./SlipwayProcess.ts"

const SECRET = "a secret of the webhook"

it.live(
  "opens one draft pull request on GitHub, shows its checks and comments, and tells of what happens to it",
  () =>
    Effect.gen(function*() {
      const github = yield* GitHubServer.start()
      github.app.install("Acme")
      const shop = yield* github.repository("Acme/Shop", { "README.md": "# Shop\n" })
      const data = yield* folder
      const server = yield* serve(data, {
        ...gitHubApp(data, github),
        SLIPWAY_GITHUB_WEBHOOK_SECRET: SECRET,
        SLIPWAY_COMMIT_AUTHOR: "Ada Lovelace <ada@acme.invalid>",
        SLIPWAY_COMMIT_MESSAGE: "{title}\n\nSandbox: {sandbox} of {repo}"
      })
      const call = (method: string, address: string, body?: unknown) =>
        Effect.promise(async () => {
          const response = await fetch(`${server.url}/api/public/v1/sandboxes${address}`, {
            method,
            headers: { authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
            ...(body === undefined ? {} : { body: JSON.stringify(body) })
          })
          return { status: response.status, ...await response.json() }
        })
      const told = (id: string) =>
        Effect.map(
          call("GET", `/${id}/events`),
          ({ data }) => data as ReadonlyArray<{ readonly type: string; readonly data: Record<string, unknown> }>
        )

      const missing = yield* call("POST", "", { repos: [{ fullName: "Acme/Other" }], prompt: "[[recall]]" })
      assert.strictEqual((yield* until(call("GET", `/${missing.id}`), ({ status }) => status === "failed")).status, "failed")

      const { id } = yield* call("POST", "", {
        repos: [{ fullName: "acme/shop" }],
        prompt: "[[write path=a.txt content=one]]",
        title: "Add a"
      })
      yield* until(told(id), (events) => events.some(({ type }) => type === "turn.completed"))
      const published = yield* call("POST", `/${id}/pull-request`, {})
      assert.deepStrictEqual([published.status, published.actionState], [200, "idle"])
      assert.deepInclude(published.pullRequest, {
        number: 1,
        title: "Add a",
        draft: true,
        state: "open",
        headRef: `slipway/${id}`,
        baseRef: "trunk",
        additions: 1,
        changedFiles: 1
      })
      assert.strictEqual(shop.pulls.length, 1)
      const { headSha } = published.pullRequest
      assert.strictEqual(
        yield* Effect.promise(() => shop.bare.git(["log", "-1", "--format=%an <%ae>%n%B", headSha])),
        `Ada Lovelace <ada@acme.invalid>\nAdd a\n\nSandbox: ${id} of acme/shop`
      )

      shop.checkRun(headSha, { name: "test", status: "completed", conclusion: "success" })
      shop.comment(1, { body: "Thanks." })
      const shown = yield* until(call("GET", `/${id}/pull-request`), ({ detailsPending }) => detailsPending === false)
      assert.deepStrictEqual([shown.checks.state, shown.checks.checkRuns.length, shown.comments.length], ["success", 1, 1])

      yield* Effect.promise(() => shop.merge(`slipway/${id}`, "trunk"))
      const news = JSON.stringify({
        action: "closed",
        pull_request: { number: 1, head: { ref: `slipway/${id}` } },
        repository: { full_name: "Acme/Shop" }
      })
      const delivered = yield* Effect.promise(() =>
        fetch(`${server.url}/hooks/source-host`, {
          method: "POST",
          body: news,
          headers: {
            "content-type": "application/json",
            "x-github-event": "pull_request",
            "x-hub-signature-256": `sha256=${createHmac("sha256", SECRET).update(news).digest("hex")}`
          }
        })
      )
      assert.strictEqual(delivered.status, 204)
      const merged = yield* until(
        told(id),
        (events) => events.some(({ data, type }) => type === "pull_request.updated" && data["merged"] === true)
      )
      assert.isNotEmpty(merged)

      // Secrets from GitHub and ours stay where they belong.
      const environment = readFileSync(`/proc/${server.pid}/cmdline`, "utf8") + server.output() + JSON.stringify([merged, shown, published])
      for (const secret of [SECRET, ...github.app.issued, github.app.privateKey.split("\n")[1] ?? ""]) {
        assert.notInclude(environment, secret)
      }
      assert.isNotEmpty(github.app.issued)
      assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
    }).pipe(Effect.scoped)
)

it.live("ends with one line when the key of the App cannot be read or parsed", () =>
  Effect.gen(function*() {
    const data = yield* folder
    writeFileSync(path.join(data, "none.pem"), "no key\n")

    for (
      const [file, said] of [["missing.pem", /SLIPWAY_GITHUB_PRIVATE_KEY_FILE must be a file that this process can read/u], ["none.pem",
        /private key is no PEM file/u]] as const
    ) {
      const ended = yield* run(data, ["serve"], { SLIPWAY_GITHUB_APP_ID: "1", SLIPWAY_GITHUB_PRIVATE_KEY_FILE: path.join(data, file) })
      assert.strictEqual(ended.code, 1)
      assert.match(ended.stderr.trim().split("\n").at(-1) ?? "", said)
    }
  }).pipe(Effect.scoped))
