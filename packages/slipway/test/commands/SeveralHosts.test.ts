/** The whole service on several source hosts at once. */
import { assert, it } from "@effect/vitest"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import { Effect } from "effect"
import { createHmac } from "node:crypto"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder, repository, run, serve, until } from "./SlipwayProcess.ts"

const SECRET = "a secret of the webhook"

it.live("a sandbox works on repositories of two hosts, publishes to both, and hears of each host's news", () =>
  Effect.gen(function*() {
    const github = yield* GitHubServer.start()
    github.app.install("Acme")
    const shop = yield* github.repository("Acme/Shop", { "README.md": "# Shop\n" })
    const data = yield* folder
    const docs = repository(data, "docs")
    writeFileSync(path.join(data, "app.pem"), github.app.privateKey, { mode: 0o600 })
    writeFileSync(path.join(data, "hook"), SECRET)
    const hosts = path.join(data, "hosts.json")
    writeFileSync(
      hosts,
      JSON.stringify([
        { kind: "local" },
        {
          kind: "github",
          name: "hub",
          appId: String(github.app.appId),
          privateKeyFile: "app.pem",
          apiUrl: github.apiUrl,
          webhookSecretFile: "hook",
          repositories: ["acme/*"]
        }
      ])
    )
    const environment = { SLIPWAY_SOURCE_HOSTS: hosts }
    const server = yield* serve(data, environment)
    const slipway = (...args: ReadonlyArray<string>) => run(data, args, environment)
    const call = (method: string, address: string, body?: unknown) =>
      Effect.promise(async () => {
        const response = await fetch(`${server.url}/api/public/v1/sandboxes${address}`, {
          method,
          headers: { authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
          ...(body === undefined ? {} : { body: JSON.stringify(body) })
        })
        return { ...await response.json(), httpStatus: response.status }
      })
    const told = (id: string) =>
      Effect.map(call("GET", `/${id}/events`), ({ data }) => data as ReadonlyArray<{ readonly type: string; readonly data: object }>)

    const listed = yield* slipway("hosts", "list")
    assert.match(
      listed.stdout,
      /^NAME +KIND[^\n]+\nlocal +local +those of slipway repos list +no\nhub +github +http[^\n]+ acme\/\* +yes\n$/u
    )
    assert.match((yield* slipway("hosts", "check")).stdout, /^✓ +local[^\n]+\n✓ +hub +GitHub App [^\n]+, 1 installation\n$/u)
    assert.include((yield* slipway("hosts", "check", "gitlab.com")).stderr, "no source host is named gitlab.com. There are: local, hub\n")

    yield* slipway("repos", "add", "team/docs", docs)
    // The name of a repository at GitHub that the list does not give to GitHub needs an alias.
    const refused = yield* call("POST", "", { repos: [{ fullName: "web/store" }], prompt: "x" })
    assert.include(JSON.stringify(refused), "see slipway hosts list")
    const missing = yield* slipway("repos", "alias", "web/store", "hub", "Acme/Nothing")
    assert.match(
      missing.stderr,
      /^slipway: repository Acme\/Nothing is not accessible\. To set the alias nevertheless, add --unchecked\.\n$/u
    )
    assert.include((yield* slipway("repos", "alias", "web/store", "HUB", "acme/shop")).stdout, "web/store is Acme/Shop at hub")
    assert.include((yield* slipway("repos", "aliases")).stdout, "web/store  hub   Acme/Shop")
    assert.include((yield* slipway("repos", "alias", "web/other", "hub", "acme/shop")).stderr, "The repository has the alias web/store.")

    const { id } = yield* call("POST", "", {
      repos: [{ fullName: "web/store" }, { fullName: "team/docs" }],
      prompt: "[[write repo=web/store path=a.txt content=one]][[write repo=team/docs path=a.txt content=one]]",
      title: "Add a"
    })
    yield* until(told(id), (events) => events.some(({ type }) => type === "turn.completed"))
    for (
      const [repository, url] of [["web/store", `${github.url}/Acme/Shop/pull/1`], ["team/docs", `${server.url}/local/team/docs/pulls/1`]]
    ) {
      const published = yield* call("POST", `/${id}/pull-request`, { repo: repository })
      assert.deepInclude(published, { httpStatus: 200, actionState: "idle", repository })
      assert.deepInclude(published.pullRequest, { number: 1, title: "Add a", draft: true, url })
    }
    assert.lengthOf(shop.pulls, 1)

    yield* Effect.promise(() => shop.merge(`slipway/${id}`, "trunk"))
    const news = JSON.stringify({
      action: "closed",
      pull_request: { number: 1, head: { ref: `slipway/${id}` } },
      repository: { full_name: "Acme/Shop" }
    })
    const deliver = (secret: string) =>
      Effect.promise(async () =>
        (await fetch(`${server.url}/hooks/source-host`, {
          method: "POST",
          body: news,
          headers: {
            "content-type": "application/json",
            "x-github-event": "pull_request",
            "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(news).digest("hex")}`
          }
        })).status
      )
    assert.deepStrictEqual([yield* deliver("another secret of sixteen"), yield* deliver(SECRET)], [401, 204])
    const isMerged = ({ data }: { readonly data: object }) => "merged" in data && data.merged === true
    const merged = yield* until(told(id), (events) => events.some(isMerged))
    assert.deepInclude(merged.find(isMerged)?.data, { repo: "web/store" })

    const output = server.output() + JSON.stringify(merged)
    for (const secret of [SECRET, ...github.app.issued]) assert.notInclude(output, secret)
    assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
  }).pipe(Effect.scoped))
