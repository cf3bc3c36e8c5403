/** The whole service on several source hosts at once. */
import { assert, it } from "@effect/vitest"
import * as ForgejoServer from "@slipway/forgejo/testing/ForgejoServer"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import * as GitLabServer from "@slipway/gitlab/testing/GitLabServer"
import { Effect } from "effect"
import { createHmac } from "node:crypto"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder, repository, run, type Server, serve, until } from "./SlipwayProcess.ts"

const SECRET = "a secret of the webhook"

/** Requests to the service. */
const clientOf = (server: Server) => {
  const call = (method: string, address: string, body?: unknown) =>
    Effect.promise(async () => {
      const response = await fetch(`${server.url}/api/public/v1/sandboxes${address}`, {
        method,
        headers: { authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      return { ...await response.json(), httpStatus: response.status }
    })
  return {
    call,
    told: (id: string) =>
      Effect.map(call("GET", `/${id}/events`), ({ data }) => data as ReadonlyArray<{ readonly type: string; readonly data: object }>),
    /** The status of the answer to a webhook. */
    deliver: (body: string, headers: Readonly<Record<string, string>>) =>
      Effect.promise(async () => {
        const hook = `${server.url}/hooks/source-host`
        return (await fetch(hook, { method: "POST", body, headers: { "content-type": "application/json", ...headers } })).status
      })
  }
}

const isMerged = ({ data }: { readonly data: object }) => "merged" in data && data.merged === true

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
    const { call, deliver, told } = clientOf(server)

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
    const signed = (secret: string) =>
      deliver(news, {
        "x-github-event": "pull_request",
        "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(news).digest("hex")}`
      })
    assert.deepStrictEqual([yield* signed("another secret of sixteen"), yield* signed(SECRET)], [401, 204])
    const merged = yield* until(told(id), (events) => events.some(isMerged))
    assert.deepInclude(merged.find(isMerged)?.data, { repo: "web/store" })

    const output = server.output() + JSON.stringify(merged)
    for (const secret of [SECRET, ...github.app.issued]) assert.notInclude(output, secret)
    assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
  }).pipe(Effect.scoped))

it.live("a sandbox works on a nested project of GitLab and a repository of Forgejo, and hears of each by its webhook", () =>
  Effect.gen(function*() {
    const [gitlab, forgejo] = [yield* GitLabServer.start(), yield* ForgejoServer.start()]
    const own = { id: 2, username: "slipway" }
    const project = yield* gitlab.project("platform/payments/Shop", { "README.md": "# Shop\n" })
    gitlab.groups.set("platform", new Map([[own.id, 30]]))
    project.members.set(own.id, { user: own, level: 30, state: "active", expiresAt: null })
    const lib = yield* forgejo.repository("Tools/lib", { "README.md": "# Lib\n" })
    const data = yield* folder
    const files = {
      "gitlab-token": gitlab.token(own),
      "forgejo-token": forgejo.token,
      "gitlab-hook": SECRET,
      "forgejo-hook": `${SECRET} 2`
    }
    for (const [name, text] of Object.entries(files)) writeFileSync(path.join(data, name), text, { mode: 0o600 })
    const hosts = path.join(data, "hosts.json")
    writeFileSync(
      hosts,
      JSON.stringify([
        {
          kind: "gitlab",
          name: "lab",
          url: gitlab.webUrl,
          tokenFile: "gitlab-token",
          webhookSecretFile: "gitlab-hook",
          groups: ["platform"],
          repositories: ["payments/*"]
        },
        { kind: "forgejo", name: "forge", url: forgejo.webUrl, tokenFile: "forgejo-token", webhookSecretFile: "forgejo-hook" }
      ])
    )
    const environment = { SLIPWAY_SOURCE_HOSTS: hosts }
    const checked = yield* run(data, ["hosts", "check"], environment)
    assert.match(checked.stdout, /^✓ +lab +GitLab [^\n]+, as slipway\.\n✓ +forge +Forgejo [^\n]+, as [^\n]+\.\n$/u, checked.stderr)
    const server = yield* serve(data, environment)
    const { call, deliver, told } = clientOf(server)
    const repos = ["payments/shop", "tools/lib"]
    const { id } = yield* call("POST", "", {
      repos: repos.map((fullName) => ({ fullName })),
      prompt: repos.map((repo) => `[[write repo=${repo} path=a.txt content=one]]`).join(" "),
      title: "Add a"
    })
    yield* until(told(id), (events) => events.some(({ type }) => type === "turn.completed"))
    for (const repo of repos) {
      const published = yield* call("POST", `/${id}/pull-request`, { repo })
      assert.deepInclude(published, { httpStatus: 200, actionState: "idle" }, JSON.stringify(published))
      assert.deepInclude(published.pullRequest, { number: 1, title: "Add a", draft: true, additions: 1, changedFiles: 1 })
    }
    assert.deepStrictEqual(project.mergeRequests.map(({ title }) => title), ["Draft: Add a"])
    assert.deepStrictEqual(lib.pulls.map(({ title }) => title), ["WIP: Add a"])

    for (const one of [project, lib]) yield* Effect.promise(() => one.merge(`slipway/${id}`, "trunk"))
    const push = JSON.stringify({
      object_kind: "push",
      ref: `refs/heads/slipway/${id}`,
      user_id: 3,
      user_username: "ada",
      project: { id: project.id, path_with_namespace: "platform/payments/Shop" }
    })
    const pushed = JSON.stringify({ ref: `refs/heads/slipway/${id}`, repository: { id: lib.id, full_name: "Tools/lib" } })
    const signature = (secret: string) => createHmac("sha256", secret).update(pushed).digest("hex")
    // The secret of one host proves nothing about another.
    assert.deepStrictEqual([
      yield* deliver(push, { "x-gitlab-event": "Push Hook", "x-gitlab-token": `${SECRET} 2` }),
      yield* deliver(pushed, { "x-forgejo-event": "push", "x-forgejo-signature": signature(SECRET) }),
      yield* deliver(push, { "x-gitlab-event": "Push Hook", "x-gitlab-token": SECRET }),
      yield* deliver(pushed, { "x-forgejo-event": "push", "x-forgejo-signature": signature(`${SECRET} 2`) })
    ], [401, 401, 204, 204])
    const events = yield* until(told(id), (events) => events.filter(isMerged).length === 2)
    assert.deepStrictEqual(
      events.filter(isMerged).map(({ data }) => "repo" in data && data.repo).sort(),
      repos
    )
    const output = server.output() + JSON.stringify(events)
    for (const secret of Object.values(files)) assert.notInclude(output, secret)
    assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
  }).pipe(Effect.scoped))
