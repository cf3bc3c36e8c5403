/**
 * The common answers of the test server and `emulate`. GitHub's documentation decides, not either of them. Where `emulate` 0.12.2 differs
 * from it, the test server follows GitHub, in `GitHubServer.test.ts`: in `emulate` a private repository is 403 to a token without it and
 * 401 without a token, unknown tokens have a user, and messages of commits get a line break.
 */
import { assert, it } from "@effect/vitest"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { createEmulator } from "emulate"
import { createHash, generateKeyPairSync, randomUUID } from "node:crypto"
import * as SourceHostGitHub from "../src/SourceHostGitHub.ts"
import * as GitHubServer from "../testing/GitHubServer.ts"
import { ask, type Credentials, jwt, type Reply, tokenOf } from "./Asking.ts"

/** The App is installed for all repositories of `acme`, which has `widgets` and `other`, both private with a first commit on `main`. */
class Subject extends Context.Service<Subject, Credentials & { readonly installation: number }>()("@slipway/github/Subject") {}

const granted = { metadata: "read", contents: "write", pull_requests: "write", checks: "write", issues: "write" } as const

const ours = Layer.effect(
  Subject,
  Effect.gen(function*() {
    const server = yield* GitHubServer.start()
    for (const name of ["widgets", "other"]) yield* server.repository(`acme/${name}`, { "README.md": "# Widgets\n" }, "main")
    const { id } = server.app.install("acme", { permissions: granted })
    return { apiUrl: server.apiUrl, appId: server.app.appId, privateKey: server.app.privateKey, installation: id }
  })
)

const emulated = Layer.effect(
  Subject,
  Effect.gen(function*() {
    const installation = { installation_id: 100, account: "acme", repository_selection: "all" }
    const github = {
      users: [{ login: "octocat" }],
      orgs: [{ login: "acme", members: [{ login: "octocat", role: "admin" }] }],
      repos: [{ owner: "acme", name: "widgets", private: true }, { owner: "acme", name: "other", private: true }],
      apps: [{ app_id: 4711, slug: "slipway", name: "Slipway", permissions: granted, installations: [installation] }]
    }
    const emulator = yield* Effect.acquireRelease(
      Effect.promise(() => createEmulator({ service: "github", port: 0, seed: { github } })),
      (emulator) => Effect.promise(() => emulator.close())
    )
    const privateKey = emulator.generatedSecrets.find(({ kind }) => kind === "github.app_private_key")?.value ?? ""
    return { apiUrl: emulator.url, appId: 4711, privateKey, installation: 100 }
  })
)

const widgets = "/repos/acme/widgets"

/** Asks, as a promise, with one token. */
const using = (body: object = {}) =>
  Effect.gen(function*() {
    const subject = yield* Subject
    const token = yield* Effect.promise(() => tokenOf(subject, subject.installation, body))
    return (request: Parameters<typeof ask>[1], body?: object): Promise<Reply> =>
      ask(subject, request, { token, ...(body === undefined ? {} : { body }) })
  })

/** A commit of one file on top of `main`, with a branch to it. */
const commit = async (send: (request: Parameters<typeof ask>[1], body?: object) => Promise<Reply>) => {
  const branch = `branch/${randomUUID()}`
  const base = (await send(`GET ${widgets}/git/ref/heads/main`)).body.object.sha
  const blob = (await send(`POST ${widgets}/git/blobs`, { content: "hello\n", encoding: "utf-8" })).body.sha
  const tree = (await send(`POST ${widgets}/git/trees`, { tree: [{ path: "hello", mode: "100644", type: "blob", sha: blob }] })).body.sha
  const made = await send(`POST ${widgets}/git/commits`, { message: `For ${branch}`, tree, parents: [base] })
  await send(`POST ${widgets}/git/refs`, { ref: `refs/heads/${branch}`, sha: made.body.sha })
  return { branch, base, blob, tree, sha: made.body.sha as string }
}

const objectId = (type: string, content: Buffer) => createHash("sha1").update(`${type} ${content.length}\0`).update(content).digest("hex")

for (const [name, layer] of Object.entries({ "the test server": ours, "emulate": emulated })) {
  it.layer(layer)(`${name}, as GitHub`, (it) => {
    it.effect("knows the App by its signature", () =>
      Effect.gen(function*() {
        const subject = yield* Subject
        const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs1", format: "pem" }).toString()
        const asked = (token: string | undefined) => Effect.promise(() => ask(subject, "GET /app", token === undefined ? {} : { token }))
        assert.deepInclude((yield* asked(jwt(subject))).body, { id: subject.appId, slug: "slipway" })
        const past = Math.floor(Date.now() / 1000) - 60
        for (const token of [undefined, "nonsense", jwt({ ...subject, privateKey: other }), jwt(subject, { exp: past })]) {
          assert.strictEqual((yield* asked(token)).status, 401)
        }
      }))

    it.effect("tells the App its installations, and which of them a repository belongs to", () =>
      Effect.gen(function*() {
        const subject = yield* Subject
        const asked = (path: string) => Effect.promise(() => ask(subject, `GET ${path}`, { token: jwt(subject) }))
        const expected = { id: subject.installation, app_id: subject.appId, repository_selection: "all" }
        assert.deepInclude((yield* asked("/app/installations")).body[0], expected)
        assert.deepInclude((yield* asked(`/app/installations/${subject.installation}`)).body, expected)
        const { body } = yield* asked(`${widgets}/installation`)
        assert.deepInclude(body, expected)
        assert.deepInclude(body.permissions, { contents: "write", pull_requests: "write" })
        for (const path of ["/app/installations/999", "/repos/acme/nothing/installation"]) {
          assert.strictEqual((yield* asked(path)).status, 404)
        }
      }))

    it.effect("gives tokens of an hour for chosen repositories and permissions, and none beyond the installation's", () =>
      Effect.gen(function*() {
        const subject = yield* Subject
        const minted = (body: object) =>
          Effect.promise(() => ask(subject, `POST /app/installations/${subject.installation}/access_tokens`, { token: jwt(subject), body }))
        const { body, status } = yield* minted({ repositories: ["Widgets"], permissions: { contents: "read" } })
        assert.strictEqual(status, 201)
        assert.match(body.token, /^ghs_\S+$/u)
        assert.approximately(Date.parse(body.expires_at), Date.now() + 3_600_000, 60_000)
        assert.deepInclude(body, { repository_selection: "selected" })
        assert.deepInclude(body.permissions, { contents: "read" })
        assert.deepStrictEqual(body.repositories.map(({ full_name }: { full_name: string }) => full_name), ["acme/widgets"])
        for (const wish of [{ permissions: { contents: "admin" } }, { permissions: { actions: "read" } }, { repositories: ["nothing"] }]) {
          assert.strictEqual((yield* minted(wish)).status, 422, JSON.stringify(wish))
        }
      }))

    it.effect("lets a token do what it may", () =>
      Effect.gen(function*() {
        const send = yield* using({ repositories: ["widgets"], permissions: { contents: "read", pull_requests: "read" } })
        const asked = (request: Parameters<typeof ask>[1], body?: object) => Effect.promise(() => send(request, body))
        assert.deepInclude((yield* asked(`GET ${widgets}`)).body, { full_name: "acme/widgets", private: true, default_branch: "main" })
        assert.deepInclude(yield* asked(`POST ${widgets}/pulls`, { title: "t", head: "x", base: "main" }), { status: 403 })
      }))

    it.effect("keeps blobs and trees under git's own ids", () =>
      Effect.gen(function*() {
        const send = yield* using()
        const { blob, tree } = yield* Effect.promise(() => commit(send))
        assert.strictEqual(blob, objectId("blob", Buffer.from("hello\n")))
        assert.strictEqual(tree, objectId("tree", Buffer.concat([Buffer.from("100644 hello\0"), Buffer.from(blob, "hex")])))
      }))

    it.effect("makes, moves and deletes branches", () =>
      Effect.gen(function*() {
        const send = yield* using()
        const asked = (request: Parameters<typeof ask>[1], body?: object) => Effect.promise(() => send(request, body))
        const { base, branch, sha } = yield* Effect.promise(() => commit(send))
        assert.strictEqual((yield* asked(`GET ${widgets}/git/ref/heads/${branch}`)).body.object.sha, sha)
        assert.strictEqual((yield* asked(`GET ${widgets}/branches/${branch}`)).body.commit.sha, sha)
        assert.include((yield* asked(`GET ${widgets}/branches`)).body.map(({ name }: { name: string }) => name), branch)
        assert.deepInclude(yield* asked(`POST ${widgets}/git/refs`, { ref: `refs/heads/${branch}`, sha }), { status: 422 })
        assert.deepInclude(yield* asked(`PATCH ${widgets}/git/refs/heads/${branch}`, { sha: base }), { status: 422 })
        assert.strictEqual((yield* asked(`PATCH ${widgets}/git/refs/heads/${branch}`, { sha: base, force: true })).body.object.sha, base)
        assert.deepInclude(yield* asked(`DELETE ${widgets}/git/refs/heads/${branch}`), { status: 204 })
        assert.deepInclude(yield* asked(`GET ${widgets}/git/ref/heads/${branch}`), { status: 404 })
      }))

    it.effect("opens drafts, finds them by their head, and changes them", () =>
      Effect.gen(function*() {
        const send = yield* using()
        const asked = (request: Parameters<typeof ask>[1], body?: object) => Effect.promise(() => send(request, body))
        const { branch, sha } = yield* Effect.promise(() => commit(send))
        const { body: pull, status } = yield* asked(`POST ${widgets}/pulls`, {
          title: "Title",
          body: "Body",
          head: branch,
          base: "main",
          draft: true
        })
        assert.strictEqual(status, 201)
        assert.deepInclude(pull, { title: "Title", body: "Body", state: "open", draft: true, merged: false })
        assert.deepStrictEqual([pull.head.ref, pull.head.sha, pull.base.ref], [branch, sha, "main"])
        const list = (query: string) =>
          Effect.map(asked(`GET ${widgets}/pulls?${query}`), ({ body }) => body.map(({ number }: { number: number }) => number))
        const head = encodeURIComponent(`acme:${branch}`)
        assert.deepStrictEqual(yield* list(`head=${head}`), [pull.number])
        assert.deepStrictEqual(yield* list(`head=${head}&state=closed`), [])
        assert.deepStrictEqual(yield* list(`head=${head}0`), [])
        assert.strictEqual((yield* asked(`PATCH ${widgets}/pulls/${pull.number}`, { title: "Changed" })).body.title, "Changed")
        assert.strictEqual((yield* asked(`PATCH ${widgets}/pulls/${pull.number}`, { state: "closed" })).body.state, "closed")
        assert.deepInclude((yield* asked(`GET ${widgets}/pulls/${pull.number}`)).body, { title: "Changed", state: "closed", merged: false })
        assert.deepStrictEqual(yield* list(`head=${head}&state=all`), [pull.number])
        assert.deepInclude(yield* asked(`GET ${widgets}/pulls/${pull.number + 1000}`), { status: 404 })
      }))

    it.effect("keeps comments on a pull request apart from those on its code", () =>
      Effect.gen(function*() {
        const send = yield* using()
        const asked = (request: Parameters<typeof ask>[1], body?: object) => Effect.promise(() => send(request, body))
        const { branch, sha } = yield* Effect.promise(() => commit(send))
        const { number } = (yield* asked(`POST ${widgets}/pulls`, { title: "t", head: branch, base: "main", draft: true })).body
        const remark = yield* asked(`POST ${widgets}/issues/${number}/comments`, { body: "A remark" })
        const review = yield* asked(`POST ${widgets}/pulls/${number}/comments`, {
          body: "On code",
          commit_id: sha,
          path: "hello",
          line: 1,
          side: "RIGHT"
        })
        assert.deepStrictEqual([remark.status, review.status], [201, 201])
        const list = (path: string) =>
          Effect.map(asked(`GET ${widgets}/${path}/${number}/comments`), ({ body }) =>
            body.map(({ body, path }: { body: string; path?: string }) => [body, path]))
        assert.deepStrictEqual(yield* list("issues"), [["A remark", undefined]])
        assert.deepStrictEqual(yield* list("pulls"), [["On code", "hello"]])
      }))

    it.effect("keeps check runs by commit", () =>
      Effect.gen(function*() {
        const send = yield* using()
        const asked = (request: Parameters<typeof ask>[1], body?: object) => Effect.promise(() => send(request, body))
        const { branch, sha } = yield* Effect.promise(() => commit(send))
        const { body: run, status } = yield* asked(`POST ${widgets}/check-runs`, { name: "build", head_sha: sha, status: "in_progress" })
        assert.strictEqual(status, 201)
        const runs = (ref: string) => Effect.map(asked(`GET ${widgets}/commits/${ref}/check-runs`), ({ body }) => body)
        const first = yield* runs(sha)
        assert.strictEqual(first.total_count, 1)
        assert.deepInclude(first.check_runs[0], { id: run.id, name: "build", status: "in_progress", conclusion: null, completed_at: null })
        yield* asked(`PATCH ${widgets}/check-runs/${run.id}`, {
          status: "completed",
          conclusion: "failure",
          completed_at: "2026-11-21T00:00:00Z"
        })
        assert.deepInclude((yield* runs(branch)).check_runs[0], { id: run.id, status: "completed", conclusion: "failure" })
        assert.strictEqual((yield* runs("main")).total_count, 0)
      }))

    it.effect("serves SourceHost", () =>
      Effect.gen(function*() {
        const { apiUrl, appId, privateKey } = yield* Subject
        const { branch, sha } = yield* Effect.flatMap(using(), (send) => Effect.promise(() => commit(send)))
        const repo = RepoName.make("acme/widgets")
        yield* Effect.gen(function*() {
          const host = yield* SourceHost
          assert.deepStrictEqual(yield* host.repository(repo), { fullName: repo, defaultBranch: "main" })
          assert.match((yield* host.remote(repo, "write")).url, /^http:\/\/[^/@]+\/acme\/widgets\.git$/u)
          assert.isNull(yield* host.findOpenPullRequest(repo, branch))
          const draft = { title: "Title", body: "Body", baseRef: "main", headRef: branch, headSha: sha, at: DateTime.makeUnsafe(0) }
          const opened = yield* host.openDraftPullRequest(repo, draft)
          assert.deepInclude(opened, {
            title: "Title",
            state: "open",
            draft: true,
            merged: false,
            baseRef: "main",
            headRef: branch,
            headSha: sha
          })
          assert.deepStrictEqual(yield* host.findOpenPullRequest(repo, branch), opened)
          assert.deepInclude((yield* host.pullRequestDetails(repo, opened.number)).checks, { state: "idle" })
          assert.strictEqual((yield* host.repository(RepoName.make("acme/nothing")).pipe(Effect.flip))._tag, "RepoNotAccessible")
        }).pipe(Effect.provide(SourceHostGitHub.layer({ appId: String(appId), privateKey: Redacted.make(privateKey), apiUrl })))
      }))
  })
}
