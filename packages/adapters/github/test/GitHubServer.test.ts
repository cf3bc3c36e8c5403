import { assert, it } from "@effect/vitest"
import { gitIn, temporaryFolder } from "@slipway/git/testing/Repositories"
import { DateTime, Duration, Effect, type Scope } from "effect"
import { createHash } from "node:crypto"
import * as GitHubServer from "../testing/GitHubServer.ts"
import { ask, jwt, type Reply, tokenOf } from "./Asking.ts"

type Request = Parameters<typeof ask>[1]

/** A server with `Acme/App` and a branch on it, and a way to ask it with a token. */
const started = (options?: GitHubServer.Options): Effect.Effect<
  {
    readonly server: GitHubServer.GitHubServer
    readonly installation: ReturnType<GitHubServer.GitHubServer["app"]["install"]>
    readonly credentials: { readonly apiUrl: string; readonly appId: number; readonly privateKey: string }
    readonly there: Effect.Success<ReturnType<GitHubServer.GitHubServer["repository"]>>
    readonly headSha: string
    readonly asked: (request: Request, body?: object, headers?: Readonly<Record<string, string>>) => Effect.Effect<Reply>
    readonly token: (body?: object) => Effect.Effect<string>
  },
  never,
  Scope.Scope
> =>
  Effect.gen(function*() {
    const server = yield* GitHubServer.start(options)
    const installation = server.app.install("Acme")
    const credentials = { apiUrl: server.apiUrl, appId: server.app.appId, privateKey: server.app.privateKey }
    const there = yield* server.repository("Acme/App", { v: "0\n" })
    const headSha = yield* Effect.promise(() => there.commit("x", { v: "1\n" }))
    const token = (body?: object) => Effect.promise(() => tokenOf(credentials, installation.id, body))
    const mine = yield* token()
    const asked = (request: Request, body?: object, headers?: Readonly<Record<string, string>>) =>
      Effect.promise(() =>
        ask(server, request, { token: mine, ...(body === undefined ? {} : { body }), ...(headers === undefined ? {} : { headers }) })
      )
    return { server, installation, credentials, there, headSha, asked, token }
  })

const app = "/repos/Acme/App"
const draft = { title: "Title", body: "Body", head: "x", base: "trunk", draft: true }

it.effect("an App's signature is good for ten minutes, of an App that is known", () =>
  Effect.gen(function*() {
    const { credentials, server } = yield* started()
    const now = Math.floor(Date.now() / 1000)
    for (
      const [claims, status, message] of [
        [{ exp: now + 700 }, 401, "'Expiration time' claim ('exp') is too far in the future"],
        [{ exp: now - 1 }, 401,
          "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires"],
        [{ iat: now + 60 }, 401, "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"],
        [{ iss: undefined }, 401, "Missing 'issuer' claim ('iss')"],
        [{ iss: 99 }, 404, "Integration not found"]
      ] as const
    ) {
      const reply = yield* Effect.promise(() => ask(server, "GET /app", { token: jwt(credentials, claims) }))
      assert.deepStrictEqual([reply.status, reply.body.message], [status, message])
    }
  }))

it.effect("a token ends after an hour, when it is revoked, and with its installation", () =>
  Effect.gen(function*() {
    const hour = Duration.toMillis("1 hour")
    let ahead = 0
    const { credentials, installation, server } = yield* started({ now: () => Date.now() + ahead })
    const status = (token: string) => Effect.promise(async () => (await ask(server, `GET ${app}`, { token })).status)
    const minted = () => {
      const now = Math.floor((Date.now() + ahead) / 1000)
      return Effect.promise(async () =>
        (await ask(server, `POST /app/installations/${installation.id}/access_tokens`, {
          token: jwt(credentials, { iat: now - 60, exp: now + 60 })
        })).body.token as string
      )
    }
    const first = yield* minted()
    ahead = hour - 60_000
    assert.strictEqual(yield* status(first), 200)
    ahead = hour + 1000
    assert.strictEqual(yield* status(first), 401)
    const second = yield* minted()
    assert.strictEqual((yield* Effect.promise(() => ask(server, "DELETE /installation/token", { token: second }))).status, 204)
    assert.strictEqual(yield* status(second), 401)
    const third = yield* minted()
    installation.suspended = true
    assert.strictEqual(yield* status(third), 401)
  }))

it.effect("what a token may not see is not there", () =>
  Effect.gen(function*() {
    const { installation, server, there, token } = yield* started()
    const other = yield* server.repository("Acme/Other", { v: "0" })
    const status = (token?: string) =>
      Effect.promise(async () => (await ask(server, "GET /repos/acme/other", token === undefined ? {} : { token })).status)
    const scoped = yield* token({ repositories: [there.name] })
    const all = yield* token()
    assert.deepStrictEqual([yield* status(), yield* status("ghs_nobodys"), yield* status(scoped), yield* status(all)], [404, 401, 404, 200])
    installation.repositories = ["App"]
    assert.strictEqual(yield* status(all), 404)
    other.private = false
    assert.deepStrictEqual([yield* status(), yield* status(scoped)], [200, 200])
  }))

it.effect("what a token may see but not do is told with the permission it lacks", () =>
  Effect.gen(function*() {
    const { server, token } = yield* started()
    const reader = yield* token({ permissions: { pull_requests: "read" } })
    const { body, headers, status } = yield* Effect.promise(() => ask(server, `POST ${app}/pulls`, { token: reader, body: draft }))
    assert.deepStrictEqual([status, body.message], [403, "Resource not accessible by integration"])
    assert.strictEqual(headers.get("x-accepted-github-permissions"), "pull_requests=write")
  }))

it.effect("commits made by the API are what git makes of the same", () =>
  Effect.gen(function*() {
    const { asked, headSha } = yield* started()
    const signature = { name: "Mona", email: "mona@example.com", date: "2026-11-21T00:00:00Z" }
    const { sha: blob } =
      (yield* asked(`POST ${app}/git/blobs`, { content: Buffer.from("hello\n").toString("base64"), encoding: "base64" })).body
    const { sha: tree } =
      (yield* asked(`POST ${app}/git/trees`, { tree: [{ path: "a/b", mode: "100644", sha: blob }], base_tree: headSha })).body
    const { sha } = (yield* asked(`POST ${app}/git/commits`, { message: "Message", tree, parents: [headSha], author: signature })).body
    const at = `Mona <mona@example.com> ${Date.parse(signature.date) / 1000} +0000`
    const content = `tree ${tree}\nparent ${headSha}\nauthor ${at}\ncommitter ${at}\n\nMessage`
    assert.strictEqual(sha, createHash("sha1").update(`commit ${content.length}\0${content}`).digest("hex"))
  }))

it.effect("git may clone and push as far as its token goes", () =>
  Effect.gen(function*() {
    const { server, there, token } = yield* started()
    const folder = yield* temporaryFolder
    const git = (token: string | undefined, ...args: ReadonlyArray<string>) => {
      const authorization = token === undefined
        ? []
        : ["-c", `http.extraHeader=Authorization: Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`]
      return Effect.promise(() =>
        there.bare.git(["-C", folder, ...authorization, ...args], { env: { GIT_TERMINAL_PROMPT: "0" } }).then(
          () => "done",
          ({ message }: Error) =>
            /Authentication failed|could not read Username/u.test(message)
              ? 401
              : Number(/error: (\d{3})/u.exec(message)?.[1] ?? (message.includes("not found") ? 404 : 0))
        )
      )
    }
    const url = `${server.url}/acme/app`
    const [read, write] = [yield* token({ permissions: { contents: "read" } }), yield* token({ permissions: { contents: "write" } })]
    const none = yield* token({ permissions: { pull_requests: "write" } })
    assert.deepStrictEqual(
      [yield* git(undefined, "ls-remote", url), yield* git("ghs_nobodys", "ls-remote", url), yield* git(read, "ls-remote", `${url}s`),
        yield* git(none, "ls-remote", url)],
      [401, 401, 404, 403]
    )
    assert.strictEqual(yield* git(read, "clone", "--quiet", `${url}.git`, "clone"), "done")
    assert.strictEqual(gitIn(`${folder}/clone`, "show", "HEAD:v"), "0")
    assert.strictEqual(yield* git(read, "push", "--quiet", url, "trunk:refs/heads/new"), 403)
    assert.strictEqual(yield* git(write, "push", "--quiet", url, "trunk:refs/heads/new"), "done")
    assert.isTrue((yield* Effect.promise(() => there.bare.branches())).has("new"))
  }))

it.effect("a pull request is refused in GitHub's words", () =>
  Effect.gen(function*() {
    const { asked, server, there, token } = yield* started()
    const open = (body: object) =>
      Effect.map(asked(`POST ${app}/pulls`, body), ({ body, status }) => ({ status, message: body.message, errors: body.errors }))
    const invalid = (error: object) => ({ status: 422, message: "Validation Failed", errors: [{ resource: "PullRequest", ...error }] })
    const custom = (message: string) => invalid({ code: "custom", message })
    assert.deepStrictEqual(yield* open({ ...draft, head: "missing" }), invalid({ field: "head", code: "invalid" }))
    assert.deepStrictEqual(yield* open({ ...draft, base: "missing" }), invalid({ field: "base", code: "invalid" }))
    assert.deepStrictEqual(yield* open({ ...draft, head: "trunk" }), custom("No commits between trunk and trunk"))
    yield* Effect.promise(() => there.bare.commit("orphan", { v: "0" }))
    assert.deepStrictEqual(yield* open({ ...draft, head: "orphan" }), custom("The orphan branch has no history in common with trunk"))
    there.drafts = false
    assert.deepStrictEqual(yield* open(draft), {
      status: 422,
      message: "Draft pull requests are not supported in this repository.",
      errors: undefined
    })
    there.drafts = true
    const blind = yield* token({ permissions: { pull_requests: "write" } })
    assert.deepInclude(yield* Effect.promise(() => ask(server, `POST ${app}/pulls`, { token: blind, body: draft })), { status: 422 })

    assert.strictEqual((yield* open(draft)).status, 201)
    assert.deepStrictEqual(yield* open(draft), custom("A pull request already exists for Acme:x."))
    // Another base makes it another pull request.
    yield* Effect.promise(() => there.commit("develop", { other: "0" }))
    assert.strictEqual((yield* open({ ...draft, base: "develop" })).status, 201)
    assert.strictEqual((yield* asked(`GET ${app}/pulls?head=Acme:x`)).body.length, 2)
    assert.strictEqual((yield* asked(`GET ${app}/pulls?head=no-filter`)).body.length, 2)
  }))

it.effect("a pull request counts what its branch changed, follows it, and is closed with it", () =>
  Effect.gen(function*() {
    const { asked, there } = yield* started()
    const { number } = (yield* asked(`POST ${app}/pulls`, draft)).body
    const pull = Effect.map(asked(`GET ${app}/pulls/${number}`), ({ body }) => body)
    yield* Effect.promise(() => there.commit("trunk", { other: "1\n2\n3\n" }))
    const headSha = yield* Effect.promise(() => there.commit("x", { new: "1\n2\n" }))
    const moved = yield* pull
    assert.deepInclude(moved, { state: "open", additions: 3, deletions: 1, changed_files: 2, commits: 2 })
    assert.strictEqual(moved.head.sha, headSha)
    yield* Effect.promise(() => there.merge("x", "trunk"))
    assert.deepInclude(yield* pull, { state: "closed", merged: true, additions: 3 })

    yield* Effect.promise(() => there.commit("y", { y: "1\n" }))
    const second = (yield* asked(`POST ${app}/pulls`, { ...draft, head: "y" })).body
    yield* asked(`DELETE ${app}/git/refs/heads/y`)
    const closed = (yield* asked(`GET ${app}/pulls/${second.number}`)).body
    assert.deepInclude(closed, { state: "closed", merged: false })
    assert.isTrue(DateTime.isGreaterThan(DateTime.makeUnsafe(closed.updated_at), DateTime.makeUnsafe(second.updated_at)))
  }))

it.effect("whether it can be merged is known after somebody asked", () =>
  Effect.gen(function*() {
    const { asked, there } = yield* started()
    const { mergeable, number } = (yield* asked(`POST ${app}/pulls`, draft)).body
    const look = Effect.map(asked(`GET ${app}/pulls/${number}`), ({ body }) => [body.mergeable, body.mergeable_state])
    assert.deepStrictEqual([mergeable, yield* look, yield* look], [null, [null, "unknown"], [true, "draft"]])
    yield* Effect.promise(() => there.commit("trunk", { v: "another\n" }))
    yield* Effect.promise(() => there.commit("x", { v: "2\n" }))
    assert.deepStrictEqual([yield* look, yield* look], [[null, "unknown"], [false, "dirty"]])
  }))

it.effect("lists come in pages that link to each other", () =>
  Effect.gen(function*() {
    const { asked, there } = yield* started()
    const { number } = (yield* asked(`POST ${app}/pulls`, draft)).body
    for (let i = 0; i < 65; i++) there.comment(number, { body: String(i) })
    const page = (query: string) => asked(`GET ${app}/issues/${number}/comments${query}`)
    const [first, second, third, beyond, large] = [yield* page(""), yield* page("?page=2"), yield* page("?page=3"), yield* page("?page=4"),
      yield* page("?per_page=1000")]
    assert.deepStrictEqual([first, second, third, beyond, large].map(({ body }) => body.length), [30, 30, 5, 0, 65])
    const rels = ({ headers }: Reply) =>
      [...(headers.get("link") ?? "").matchAll(/page=(\d+)>; rel="(\w+)"/gu)].map(([, page, rel]) => `${rel} ${page}`)
    assert.deepStrictEqual([first, second, third, large].map(rels), [["next 2", "last 3"], ["prev 1", "next 3", "last 3", "first 1"], [
      "prev 2",
      "first 1"
    ], []])
    const next = /<([^>]+)>; rel="next"/u.exec(first.headers.get("link") ?? "")?.[1] ?? ""
    assert.match(next, /^http:\/\/127\.0\.0\.1:\d+\/api\/v3\/repos\/Acme\/App\/issues\/\d+\/comments\?page=2$/u)
  }))

it.effect("what is known already costs nothing, to the token that knows it", () =>
  Effect.gen(function*() {
    const { asked, installation, server, token } = yield* started()
    const first = yield* asked(`GET ${app}`)
    const etag = first.headers.get("etag") ?? ""
    assert.match(etag, /^W\/".+"$/u)
    const { remaining } = installation
    const again = yield* asked(`GET ${app}`, undefined, { "if-none-match": etag })
    assert.deepStrictEqual([again.status, again.body, again.headers.get("x-ratelimit-remaining")], [304, undefined, String(remaining)])
    const other = yield* token()
    const elsewhere = yield* Effect.promise(() => ask(server, `GET ${app}`, { token: other, headers: { "if-none-match": etag } }))
    assert.deepStrictEqual([elsewhere.status, elsewhere.headers.get("x-ratelimit-remaining")], [200, String(remaining - 1)])
  }))

it.effect("an hour has so many requests and no more", () =>
  Effect.gen(function*() {
    const { asked, installation } = yield* started()
    installation.remaining = 1
    const [last, none] = [yield* asked(`GET ${app}`), yield* asked(`GET ${app}`)]
    assert.deepStrictEqual([last.status, last.headers.get("x-ratelimit-remaining")], [200, "0"])
    assert.deepStrictEqual([none.status, none.headers.get("x-ratelimit-remaining")], [403, "0"])
    assert.isAbove(Number(none.headers.get("x-ratelimit-reset")) * 1000, Date.now())
    assert.match(none.body.message, /^API rate limit exceeded for installation ID \d+/u)
  }))

it.effect("runs are found by their commit, and the latest check of a name goes for it", () =>
  Effect.gen(function*() {
    const { asked, headSha, there } = yield* started()
    there.checkRun(headSha, { name: "build", status: "completed", conclusion: "failure" })
    const latest = there.checkRun(headSha, { name: "build" })
    const run = there.workflowRun(headSha, { name: "CI" })
    there.workflowRun("0".repeat(40))
    const checks = (query: string) =>
      Effect.map(
        asked(`GET ${app}/commits/${headSha}/check-runs${query}`),
        ({ body }) => body.check_runs.map(({ id }: { id: number }) => id)
      )
    assert.deepStrictEqual(yield* checks(""), [latest.id])
    assert.strictEqual((yield* checks("?filter=all")).length, 2)
    const { body } = yield* asked(`GET ${app}/actions/runs?head_sha=${headSha}`)
    assert.deepStrictEqual([body.total_count, body.workflow_runs[0].id], [1, run.id])
    assert.strictEqual((yield* asked(`GET ${app}/actions/runs`)).body.total_count, 2)
  }))

it.effect("what is asked is recorded, and what is to fail fails as often as it is to", () =>
  Effect.gen(function*() {
    const { asked, server, there } = yield* started()
    server.strike({ method: "POST", url: /\/pulls$/u, outcome: { status: 502 }, when: "after" })
    server.strike({ method: "GET", url: /\/App$/u, outcome: GitHubServer.secondaryLimit(403, 5), times: 2 })
    assert.strictEqual((yield* asked(`POST ${app}/pulls`, draft)).status, 502)
    assert.strictEqual(there.pulls.length, 1)
    const limited = [yield* asked(`GET ${app}`), yield* asked(`GET ${app}`), yield* asked(`GET ${app}`)]
    assert.deepStrictEqual(limited.map(({ headers, status }) => [status, headers.get("retry-after")]), [[403, "5"], [403, "5"], [200,
      null]])
    const seen = server.requests.slice(-4).map(({ method, status, url }) => [method, url, status])
    assert.deepStrictEqual(seen, [["POST", `${app}/pulls`, 502], ["GET", app, 403], ["GET", app, 403], ["GET", app, 200]])
    assert.deepInclude(JSON.parse(server.requests.at(-4)?.body.toString() ?? ""), draft)
  }))

it.effect("the API is where it is said to be", () =>
  Effect.gen(function*() {
    const { server, token } = yield* started()
    const mine = yield* token()
    const reply = yield* Effect.promise(() => ask({ apiUrl: server.url }, `GET ${app}`, { token: mine }))
    assert.strictEqual(reply.status, 404)
  }))

it.effect("the API may be at the root of the origin too", () =>
  Effect.gen(function*() {
    const { asked, server } = yield* started({ apiPath: "" })
    assert.strictEqual(server.apiUrl, server.url)
    assert.strictEqual((yield* asked(`GET ${app}`)).body.full_name, "Acme/App")
  }))
