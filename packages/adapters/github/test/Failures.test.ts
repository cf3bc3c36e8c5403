import { assert, it } from "@effect/vitest"
import { SourceHost, type SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { DateTime, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { generateKeyPairSync } from "node:crypto"
import * as GitHubServer from "../testing/GitHubServer.ts"
import { type Answer, refuse } from "../testing/Routes.ts"
import { hostOf, layer, repository, TestGitHub } from "./TestGitHub.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")

/** A repository with a branch that was pushed. */
const pushed = Effect.gen(function*() {
  const { fullName, repository: there } = yield* repository({ v: "0\n" })
  const headSha = yield* Effect.promise(() => there.commit("slipway/x", { v: "1\n" }))
  const draft = { title: "Title", body: "Body", baseRef: "trunk", headRef: "slipway/x", headSha, at }
  return { server: yield* TestGitHub, host: yield* SourceHost, there, repo: fullName, draft }
})

const opened = Effect.gen(function*() {
  const known = yield* pushed
  return { ...known, number: (yield* known.host.openDraftPullRequest(known.repo, known.draft)).number }
})

const failed = (retryable: boolean, detail: RegExp, retryAfter?: number) => (error: { readonly _tag: string }) => {
  assert.strictEqual(error._tag, "SourceHostError")
  const { detail: said, retryAfter: wait, retryable: may } = error as SourceHostError
  assert.match(said, detail)
  assert.deepStrictEqual({ retryable: may, retryAfter: wait }, { retryable, retryAfter })
}

it.layer(layer())("What GitHub refuses", (it) => {
  const refusals: ReadonlyArray<readonly [name: string, answer: Answer, expected: ReturnType<typeof failed>]> = [
    ["a rule of the repository", refuse(403, "Repository was archived so is read-only."),
      failed(false, /Repository was archived so is read-only\./u)],
    ["a request that is not valid", refuse(422, "Validation Failed", [{ field: "title", code: "missing" }]),
      failed(false, /Validation Failed: title is missing/u)],
    ["too many requests at once, with a wait", GitHubServer.secondaryLimit(403, 17), failed(true, /secondary rate limit/u, 17)],
    ["too many requests at once, with another status", GitHubServer.secondaryLimit(429, 3), failed(true, /secondary rate limit/u, 3)],
    ["too many requests at once, without a wait", GitHubServer.secondaryLimit(403), failed(true, /secondary rate limit/u, 60)],
    ["too many requests, without a word", { status: 429 }, failed(true, /status 429/u, 60)],
    ["a spent hour", {
      ...refuse(403, "Not now."),
      headers: { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "2000000100", "date": new Date(2_000_000_000_000).toUTCString() }
    }, failed(true, /Not now/u, 100)],
    ["a failure of its own", { status: 502, body: "<html>Unicorn!</html>" }, failed(true, /status 502/u)],
    ["maintenance", { ...refuse(503, "Back soon."), headers: { "retry-after": "120" } }, failed(true, /Back soon/u, 120)],
    ["a redirection elsewhere", { status: 302, headers: { location: "https://example.com/" }, body: {} }, failed(false, /moved/u)],
    ["a page instead of JSON", { status: 200, body: Buffer.from("<html>Welcome to the hotel</html>") },
      failed(true, /could not be understood/u)],
    ["half an answer", { status: 200, body: Buffer.from("{\"full_na"), headers: { "content-type": "application/json" } },
      failed(true, /could not be understood/u)]
  ]
  for (const [name, outcome, expected] of refusals) {
    it.effect(`is told once, and with whether to try again: ${name}`, () =>
      Effect.gen(function*() {
        const { host, repo, server } = yield* pushed
        server.strike({ method: "GET", url: new RegExp(`^/repos/${repo}$`, "u"), outcome })
        const before = server.requests.length
        expected(yield* host.repository(repo).pipe(Effect.flip))
        assert.strictEqual(server.requests.length - before, 3)
        assert.strictEqual((yield* host.repository(repo)).fullName, repo)
      }))
  }

  it.effect("a repository that is blocked for legal reasons is not accessible", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      server.strike({ method: "GET", url: new RegExp(`^/repos/${repo}$`, "u"), outcome: refuse(451, "Repository access blocked") })
      assert.strictEqual((yield* host.repository(repo).pipe(Effect.flip))._tag, "RepoNotAccessible")
    }))

  it.effect("a spent hour is over when GitHub's clock says so", () =>
    Effect.gen(function*() {
      const { host, installation, repo } = { ...(yield* pushed), ...(yield* TestGitHub) }
      installation.remaining = 0
      const error = yield* host.findOpenPullRequest(repo, "slipway/x").pipe(Effect.flip)
      installation.remaining = installation.limit
      assert.deepInclude(error, { _tag: "SourceHostError", retryable: true })
      assert.match(error.message, /API rate limit exceeded for installation/u)
      // The server was started less than an hour ago.
      const { retryAfter = 0 } = error as SourceHostError
      assert.isTrue(retryAfter > 0 && retryAfter <= 3601, String(retryAfter))
    }))

  it.effect("a name that the repository had before leads to the repository, also with a token of before", () =>
    Effect.gen(function*() {
      const { draft, host, repo, there } = yield* pushed
      const { number } = yield* host.openDraftPullRequest(repo, draft)
      yield* host.pullRequestDetails(repo, number)
      there.rename(`${there.name}-new`)
      assert.strictEqual((yield* host.repository(repo)).fullName, there.fullName)
      assert.strictEqual((yield* host.pullRequestDetails(repo, number)).pullRequest.number, number)
      assert.include((yield* host.remote(repo, "write")).url, there.fullName)
      assert.strictEqual((yield* host.findOpenPullRequest(repo, draft.headRef))?.number, number)
    }))

  it.effect("follows no redirection to another host or another place", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      const elsewhere = ["https://example.com/repositories/1", `${server.url}/repositories/1`, `${server.apiUrl}/user`,
        `${server.apiUrl}/repositories/x`, `${server.apiUrl}.example.com/repositories/1`, ""]
      for (const location of elsewhere) {
        server.strike({
          method: "GET",
          url: new RegExp(`^/repos/${repo}/installation$`, "u"),
          outcome: { status: 301, headers: { location }, body: {} }
        })
        const before = server.requests.length
        failed(false, /present name/u)(yield* host.repository(repo).pipe(Effect.flip))
        assert.strictEqual(server.requests.length - before, 1)
      }
    }))

  it.effect("drafts that the plan does not have are told with what to do", () =>
    Effect.gen(function*() {
      const { draft, host, repo, there } = yield* pushed
      there.drafts = false
      failed(false, /no draft pull requests.*change to a plan/u)(yield* host.openDraftPullRequest(repo, draft).pipe(Effect.flip))
    }))

  it.effect("a second pull request of a branch is refused with the address of the first", () =>
    Effect.gen(function*() {
      const { draft, host, repo } = yield* pushed
      const { url } = yield* host.openDraftPullRequest(repo, draft)
      failed(false, new RegExp(`already: ${url}`, "u"))(yield* host.openDraftPullRequest(repo, draft).pipe(Effect.flip))
    }))

  it.effect("a branch without commits of its own is told so", () =>
    Effect.gen(function*() {
      const { draft, host, repo, there } = yield* pushed
      yield* Effect.promise(() => there.merge("slipway/x", "trunk"))
      failed(false, /No commits between trunk and slipway\/x/u)(yield* host.openDraftPullRequest(repo, draft).pipe(Effect.flip))
    }))

  it.effect("nothing GitHub says carries a secret on, or goes on without end", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      const echo = (seen: { readonly headers: { readonly authorization?: string | undefined } }) =>
        refuse(500, `You sent ${seen.headers.authorization}\nand ghp_${"a".repeat(36)}. ${"long ".repeat(1000)}`)
      for (const url of [/\/installation$/u, /\/access_tokens$/u, new RegExp(`^/repos/${repo}$`, "u")]) {
        server.strike({ method: url.test("/access_tokens") ? "POST" : "GET", url, outcome: echo })
        const { message } = yield* host.repository(repo).pipe(Effect.flip)
        assert.match(message, /You sent (?:token|bearer) \*\*\* and \*\*\*\. long/u)
        assert.isBelow(message.length, 400)
      }
      // Tokens need not look like tokens.
      server.app.tokenPrefix = "v1."
      server.strike({ method: "GET", url: new RegExp(`^/repos/${repo}$`, "u"), outcome: echo })
      assert.match((yield* host.repository(repo).pipe(Effect.flip)).message, /You sent token \*\*\* and/u)
    }))
})

it.layer(layer())("What does not come back", (it) => {
  it.effect("a request without an answer is given up and may be tried again; who asks knows how long it took", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      server.strike({ method: "GET", url: /\/pulls\?/u, outcome: "hang" })
      const asking = yield* Effect.forkChild(Effect.flip(host.findOpenPullRequest(repo, "slipway/x")))
      const seen = yield* server.arrived("GET", new RegExp(`^/repos/${repo}/pulls\\?`, "u"))
      yield* TestClock.adjust("10 seconds")
      failed(true, /did not answer within 10 seconds/u)(yield* Fiber.join(asking))
      yield* Effect.promise(() => seen.over)
      assert.isNull(seen.status)
    }))

  it.effect("an interrupted caller leaves no request behind", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      server.strike({ method: "GET", url: new RegExp(`^/repos/${repo}$`, "u"), outcome: "hang" })
      const asking = yield* Effect.forkChild(host.repository(repo))
      const seen = yield* server.arrived("GET", new RegExp(`^/repos/${repo}$`, "u"))
      yield* Fiber.interrupt(asking)
      yield* Effect.promise(() => seen.over)
      assert.isNull(seen.status)
    }))

  it.effect("a host that is not there is told with the system's word for it", () =>
    Effect.gen(function*() {
      const { repo, server } = yield* pushed
      const { apiUrl } = yield* Effect.scoped(GitHubServer.start())
      const error = yield* SourceHost.use((host) => host.repository(repo)).pipe(Effect.provide(hostOf(server, { apiUrl })), Effect.flip)
      failed(true, /^The connection to 127\.0\.0\.1:\d+ failed \(ECONNREFUSED\)\.$/u)(error)
    }))

  for (const when of ["before", "after"] as const) {
    const ways = [
      ["a server error", { status: 502 }, /status 502/u],
      ["a broken connection", "reset", /connection to .* failed/u],
      ["silence", "hang", /did not answer within 30 seconds/u]
    ] as const
    for (const [name, outcome, detail] of ways) {
      it.effect(`opening is sent once when ${name} comes ${when} it took effect, and found by who looks`, () =>
        Effect.gen(function*() {
          const { draft, host, repo, server } = yield* pushed
          const url = new RegExp(`^/repos/${repo}/pulls$`, "u")
          server.strike({ method: "POST", url, outcome, when })
          const opening = yield* Effect.forkChild(Effect.flip(host.openDraftPullRequest(repo, draft)))
          if (outcome === "hang") {
            yield* server.arrived("POST", url)
            yield* TestClock.adjust("30 seconds")
          }
          failed(true, detail)(yield* Fiber.join(opening))
          const sent = () => server.requests.filter(({ method, url: asked }) => method === "POST" && url.test(asked)).length
          assert.strictEqual(sent(), 1)
          // Work still in progress on the other side is through before the next request of this repository.
          const found = yield* host.findOpenPullRequest(repo, draft.headRef)
          assert.strictEqual(found?.headSha, when === "after" ? draft.headSha : undefined)
          if (found === null) yield* host.openDraftPullRequest(repo, draft)
          else failed(false, /already/u)(yield* host.openDraftPullRequest(repo, draft).pipe(Effect.flip))
        }))
    }
  }
})

it.layer(layer())("Tokens", (it) => {
  it.effect("a token revoked on the way is replaced once, and the request is done once", () =>
    Effect.gen(function*() {
      const { draft, host, repo, server, there } = yield* pushed
      server.strike({ method: "POST", url: new RegExp(`^/repos/${repo}/pulls$`, "u"), outcome: "revoke" })
      const { number } = yield* host.openDraftPullRequest(repo, draft)
      assert.strictEqual(there.pulls.length, 1)
      for (const url of [/\/pulls\?/u, /\/pulls\/\d+$/u]) {
        server.strike({ method: "GET", url, outcome: "revoke" })
        assert.strictEqual((yield* host.findOpenPullRequest(repo, draft.headRef))?.number, number)
      }
    }))

  it.effect("a token that GitHub does not know although it has just given it is a reason to try again", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      server.strike({ method: "GET", url: new RegExp(`^/repos/${repo}$`, "u"), outcome: "revoke", times: 2 })
      failed(true, /does not know the token it has just given.*Bad credentials/u)(yield* host.repository(repo).pipe(Effect.flip))
    }))

  it.effect("a status survives the end of the token that it was read with before", () =>
    Effect.gen(function*() {
      const { host, number, repo, server } = yield* opened
      const minted = () => server.app.issued.length
      const first = yield* host.pullRequestDetails(repo, number)
      const before = minted()
      yield* host.pullRequestDetails(repo, number)
      assert.strictEqual(minted(), before)
      server.app.expireTokens()
      assert.deepStrictEqual((yield* host.pullRequestDetails(repo, number)).pullRequest, first.pullRequest)
      assert.strictEqual(minted(), before + 1)
      yield* TestClock.adjust("5 minutes")
      yield* host.pullRequestDetails(repo, number)
      assert.strictEqual(minted(), before + 2)
    }))

  it.effect("a repository that is taken from the installation is gone at once", () =>
    Effect.gen(function*() {
      const { host, number, repo } = yield* opened
      const { installation } = yield* TestGitHub
      yield* host.pullRequestDetails(repo, number)
      installation.repositories = ["another"]
      const error = yield* host.pullRequestDetails(repo, number).pipe(Effect.flip)
      installation.repositories = "all"
      assert.strictEqual(error._tag, "RepoNotAccessible")
    }))

  it.effect("a suspended installation makes nothing accessible", () =>
    Effect.gen(function*() {
      const { host, repo } = yield* pushed
      const { installation } = yield* TestGitHub
      installation.suspended = true
      const error = yield* host.remote(repo, "read").pipe(Effect.flip)
      installation.suspended = false
      assert.strictEqual(error._tag, "RepoNotAccessible")
    }))

  it.effect("what the installation lacks is named", () =>
    Effect.gen(function*() {
      const { draft, host, repo } = yield* pushed
      const { installation } = yield* TestGitHub
      const { permissions } = installation
      installation.permissions = { metadata: "read", contents: "read" }
      const [push, open] = [yield* host.remote(repo, "write").pipe(Effect.flip),
        yield* host.openDraftPullRequest(repo, draft).pipe(Effect.flip)]
      installation.permissions = permissions
      failed(false, /lacks contents: write\. The owner/u)(push)
      failed(false, /lacks pull_requests: write\. The owner/u)(open)
    }))
})

it.layer(layer({ now: () => Date.now() - 120_000 }))("A clock of ours that is two minutes ahead", (it) => {
  it.effect("is corrected by GitHub's", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      assert.strictEqual((yield* host.repository(repo)).fullName, repo)
      assert.deepStrictEqual(server.requests.map(({ status }) => status), [401, 200, 401, 201, 200])
    }))
})

it.layer(TestGitHub.layer())("The App", (it) => {
  const asked = (wrong: Parameters<typeof hostOf>[1]) =>
    Effect.gen(function*() {
      const server = yield* TestGitHub
      const { fullName } = yield* repository({ v: "0" })
      return yield* SourceHost.use((host) => host.repository(fullName)).pipe(Effect.provide(hostOf(server, wrong)), Effect.flip)
    })

  it.effect("with a key of another App is refused, and the key is what to look at", () =>
    Effect.gen(function*() {
      const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
      for (const type of ["pkcs1", "pkcs8"] as const) {
        const other = privateKey.export({ type, format: "pem" }).toString()
        failed(false, /check the App's id and its private key.*could not be decoded/u)(yield* asked({ privateKey: Redacted.make(other) }))
      }
    }))

  it.effect("that GitHub does not know is no repository that is not there", () =>
    Effect.gen(function*() {
      failed(false, /check the App's id and its private key.*Integration not found/u)(yield* asked({ appId: "99" }))
    }))

  it.effect("is refused before anything is asked when its key is no key, without showing it", () =>
    Effect.gen(function*() {
      const server = yield* TestGitHub
      const before = server.requests.length
      const curve = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" }).toString()
      for (const key of ["-----BEGIN RSA PRIVATE KEY-----\nnonsense\n", curve]) {
        const error = yield* asked({ privateKey: Redacted.make(key) })
        failed(false, /private key is no PEM file/u)(error)
        assert.notInclude(JSON.stringify(error), key.split("\n")[1] ?? "")
      }
      assert.strictEqual(server.requests.length, before)
    }))

  it.effect("sends nothing over an open line", () =>
    Effect.gen(function*() {
      for (const wrong of [{ apiUrl: "http://git.example.com/api/v3" }, { gitUrl: "http://git.example.com" }]) {
        failed(false, /git\.example\.com must start with https:/u)(yield* asked(wrong))
      }
    }))

  it.effect("works with its key on one line", () =>
    Effect.gen(function*() {
      const server = yield* TestGitHub
      const { fullName } = yield* repository({ v: "0" })
      for (const privateKey of [server.app.privateKey, server.app.privateKey.replaceAll("\n", "\\n")]) {
        const found = yield* SourceHost.use((host) => host.repository(fullName)).pipe(
          Effect.provide(hostOf(server, { privateKey: Redacted.make(privateKey) }))
        )
        assert.strictEqual(found.fullName, fullName)
      }
    }))

  it.effect("is named after the host of its API", () =>
    Effect.gen(function*() {
      const server = yield* TestGitHub
      for (
        const [apiUrl, name] of [
          ["https://api.github.com", "github.com"],
          ["https://api.github.com/", "github.com"],
          ["https://git.example.com/api/v3/", "git.example.com"],
          ["https://api.example.com/api/v3", "api.example.com"],
          ["https://api.acme.ghe.com", "acme.ghe.com"]
        ] as const
      ) {
        assert.strictEqual(
          yield* SourceHost.use((host) => host.nameOf("Acme/App")).pipe(Effect.provide(hostOf(server, { apiUrl }))),
          name
        )
      }
    }))

  it.effect("is named after where it clones from, where that is said", () =>
    Effect.gen(function*() {
      const server = yield* TestGitHub
      const { fullName } = yield* repository({ v: "0" })
      const [name, remote] = yield* SourceHost.use((host) => Effect.all([host.nameOf(fullName), host.remote(fullName, "read")])).pipe(
        Effect.provide(hostOf(server, { gitUrl: "https://clone.example.com:8443/" }))
      )
      assert.strictEqual(name, "clone.example.com:8443")
      assert.strictEqual(remote.url, `https://clone.example.com:8443/${fullName}.git`)
    }))
})
