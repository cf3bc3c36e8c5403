/** How the server's refusals, its settings and hostile answers are handled. */
import { assert, it } from "@effect/vitest"
import { SourceHost, type SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { Answer } from "@slipway/git/testing/HostServer"
import { DateTime, Effect, Layer, Redacted } from "effect"
import * as ForgejoApi from "../src/ForgejoApi.ts"
import * as SourceHostForgejo from "../src/SourceHostForgejo.ts"
import { layer, optionsOf, repository, TestForgejo } from "./TestForgejo.ts"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")

/** A repository with a branch that was pushed. */
const pushed = Effect.gen(function*() {
  const { fullName, repository: there } = yield* repository({ v: "0\n" })
  const headSha = yield* Effect.promise(() => there.commit("slipway/x", { v: "1\n" }))
  const draft = { title: "Title", body: "Body", baseRef: "trunk", headRef: "slipway/x", headSha, at }
  return { server: yield* TestForgejo, host: yield* SourceHost, there, repo: fullName, draft }
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

/** The host with another token. */
const withToken = <A, E>(token: string, use: (host: SourceHost["Service"]) => Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const server = yield* TestForgejo
    const other = SourceHostForgejo.layer({ ...optionsOf(server), token: () => Effect.succeed(Redacted.make(token)) })
    return yield* Effect.flatMap(SourceHost, use).pipe(Effect.provide(other))
  })

it.layer(layer())("What Forgejo refuses", (it) => {
  const refusals: ReadonlyArray<readonly [name: string, answer: Answer, expected: ReturnType<typeof failed>]> = [
    ["an archived repository", { status: 423, body: { message: "Repo is archived.", url: "" } }, failed(false, /Repo is archived\./u)],
    ["a request that is not valid", { status: 422, body: { message: "no", errors: ["title: missing"] } },
      failed(false, /no: title: missing/u)],
    ["too many requests", { status: 429, body: { message: "slow" }, headers: { "retry-after": "17" } }, failed(true, /slow/u, 17)],
    ["a failure of a proxy", { status: 502, body: Buffer.from("<html>Unicorn!</html>") }, failed(true, /answered with status 502/u)],
    ["a redirection elsewhere", { status: 301, headers: { location: "https://example.com/api/v1/repos/a/b" } },
      failed(false, /redirects to another address, which is not followed/u)],
    ["a page instead of JSON", { status: 200, body: Buffer.from("<html>Welcome to the hotel</html>") },
      failed(true, /could not be understood/u)],
    ["half an answer", { status: 200, body: { full_name: "a/b" } }, failed(true, /could not be understood/u)]
  ]
  for (const [name, outcome, expected] of refusals) {
    it.effect(`is told, with whether to try again: ${name}`, () =>
      Effect.gen(function*() {
        const { host, repo, server } = yield* pushed
        server.strike({ method: "GET", url: new RegExp(`/repos/${repo}$`, "u"), outcome })
        expected(yield* Effect.flip(host.repository(repo)))
        assert.strictEqual((yield* host.repository(repo)).fullName, repo)
      }))
  }

  it.effect("a refused token is told with what to check, and appears nowhere", () =>
    Effect.gen(function*() {
      const { repo, server } = yield* pushed
      const token = server.mint(server.bot, ["all"])
      server.revoke(token)
      const error = yield* withToken(token, (host) => Effect.flip(host.repository(repo)))
      failed(false, /127\.0\.0\.1:\d+ does not accept the token\. Check that it was not deleted and has not expired/u)(error)
      server.strike({
        method: "GET",
        url: /./u,
        outcome: ({ headers }) => ({ status: 403, body: { message: `You sent ${headers.authorization}` } })
      })
      const quoted = yield* withToken(token, (host) => Effect.flip(host.repository(repo)))
      failed(false, /You sent Bearer \*\*\*/u)(quoted)
    }))

  it.effect("a token without the needed scope is told which one it is", () =>
    Effect.gen(function*() {
      const { draft, repo, server } = yield* pushed
      const token = server.mint(server.bot, ["read:repository", "read:user"])
      yield* withToken(token, (host) =>
        Effect.gen(function*() {
          assert.strictEqual((yield* host.repository(repo)).fullName, repo)
          failed(false, /required scope\(s\): \[write:repository\]/u)(yield* Effect.flip(host.openDraftPullRequest(repo, draft)))
        }))
    }))

  it.effect("who may write is told only to administrators, which is no answer of no", () =>
    Effect.gen(function*() {
      const { repo, server, there } = yield* pushed
      const writer = { id: 60, login: "writer" }
      there.collaborators.push({ ...writer, permission: "write" })
      const token = server.mint(writer, ["all"])
      const error = yield* withToken(token, (host) => Effect.flip(host.mayWrite(repo, { id: "5", login: "slipway" })))
      failed(false, /Make the token's account an administrator of Acme/u)(error)
    }))

  it.effect("a repository that may only be read is not pushed to", () =>
    Effect.gen(function*() {
      const { repo, server, there } = yield* pushed
      const reader = { id: 61, login: "reader" }
      there.collaborators.push({ ...reader, permission: "read" })
      const token = server.mint(reader, ["all"])
      yield* withToken(token, (host) =>
        Effect.gen(function*() {
          assert.include((yield* host.remote(repo, "read")).url, repo)
          failed(false, /may not push to Acme/u)(yield* Effect.flip(host.remote(repo, "write")))
        }))
    }))

  it.effect("an open pull request of the branch is named", () =>
    Effect.gen(function*() {
      const { draft, host, number, repo, server } = yield* opened
      const error = yield* Effect.flip(host.openDraftPullRequest(repo, draft))
      assert.include(
        error.message,
        `There is an open pull request for the branch "slipway/x" already: ${server.webUrl}/${repo}/pulls/${number}.`
      )
    }))

  it.effect("a draft whose answer was lost is found by its branch", () =>
    Effect.gen(function*() {
      const { draft, host, repo, server, there } = yield* pushed
      server.strike({ method: "POST", url: /\/pulls$/u, outcome: "reset", when: "after" })
      failed(true, /connection/u)(yield* Effect.flip(host.openDraftPullRequest(repo, draft)))
      assert.strictEqual((yield* host.findOpenPullRequest(repo, draft.headRef))?.title, "Title")
      assert.lengthOf(there.pulls, 1)
    }))
})

it.layer(layer())("Names and addresses at Forgejo", (it) => {
  it.effect("a label of the repository's organization is a label of the repository", () =>
    Effect.gen(function*() {
      const { host, number, repo, there } = yield* opened
      const refused = yield* host.decoratePullRequest(repo, number, { labels: ["shared", "unknown"], reviewers: [] })
      assert.deepStrictEqual(refused, ["unknown"])
      assert.deepStrictEqual(Array.from(there.pulls.find((one) => one.number === number)?.labels ?? [], ({ name }) => name), ["shared"])
    }))

  it.effect("a repository that was renamed works on by its old name", () =>
    Effect.gen(function*() {
      const { draft, host, number, repo, server, there } = yield* opened
      there.rename(`New-${there.id}`)
      assert.strictEqual((yield* host.repository(repo)).fullName, there.fullName)
      assert.strictEqual((yield* host.remote(repo, "write")).url, `${server.webUrl}/${there.fullName}.git`)
      assert.strictEqual((yield* host.findOpenPullRequest(repo, draft.headRef))?.number, number)
      assert.isFalse((yield* host.readyPullRequest(repo, number)).draft)
      const headSha = yield* Effect.promise(() => there.commit("slipway/y", { y: "1\n" }))
      assert.isTrue((yield* host.openDraftPullRequest(repo, { ...draft, headRef: "slipway/y", headSha })).draft)
    }))

  it.effect("no redirection is followed but to a repository of the same server", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      const elsewhere = ["https://example.com/api/v1/repos/a/b", `${server.url.replace("127.0.0.1", "localhost")}/api/v1/repos/a/b`,
        "/user", "/api/v1/user", "/api/v1/repos/a", "/api/v1/repos/../user", "/api/v1/repos/-x/b", `/api/v1/repos/${repo}`, ""]
      for (const location of elsewhere) {
        server.strike({ method: "GET", url: new RegExp(`/repos/${repo}$`, "u"), outcome: { status: 301, headers: { location } } })
        const before = server.requests.length
        assert.strictEqual((yield* Effect.flip(host.repository(repo)))._tag, "SourceHostError", location)
        assert.strictEqual(server.requests.length - before, 1, location)
      }
      // A circle ends.
      const outcome = ({ url }: { readonly url: string }) => ({
        status: 301,
        headers: { location: url.includes("/a/") ? "/api/v1/repos/b/b" : "/api/v1/repos/a/a" }
      })
      server.strike({ method: "GET", url: /\/repos\//u, outcome, times: 4 })
      const before = server.requests.length
      assert.strictEqual((yield* Effect.flip(host.repository(repo)))._tag, "SourceHostError")
      assert.strictEqual(server.requests.length - before, 4)
    }))

  it.effect("the token of each repository is asked for by its present name, for each operation", () =>
    Effect.gen(function*() {
      const { repo, server, there } = yield* pushed
      const asked: Array<string> = []
      const token = (path: string) =>
        Effect.sync(() => {
          asked.push(path)
          return Redacted.make(server.token)
        })
      const other = SourceHostForgejo.layer({ url: server.webUrl, token })
      yield* Effect.gen(function*() {
        const host = yield* SourceHost
        yield* host.repository(repo)
        yield* host.repository(repo)
        there.rename(`New-${there.id}`)
        yield* host.repository(repo)
      }).pipe(Effect.provide(other))
      assert.deepStrictEqual(asked, [repo, repo, repo, there.fullName])
    }))

  it.effect("refuses an address without encryption, with a login or a query, or of another kind", () =>
    Effect.gen(function*() {
      for (
        const url of ["http://forgejo.example.com", "https://me:secret@forgejo.example.com", "https://forgejo.example.com?x=1", "ssh://x",
          "x"]
      ) {
        const built = Layer.build(SourceHostForgejo.layer({ url, token: () => Effect.succeed(Redacted.make("t")) }))
        const error = yield* Effect.flip(Effect.scoped(built))
        assert.strictEqual(error._tag, "SourceHostError", url)
        assert.notInclude(error.message, "secret")
      }
    }))

  it.effect("lists repositories of the named owners alone", () =>
    Effect.gen(function*() {
      const { server } = yield* pushed
      yield* server.repository("Other/Secret", { a: "a\n" })
      const other = SourceHostForgejo.layer(optionsOf(server))
      const names = yield* SourceHost.use((host) => host.repositories({ owners: ["acme"], search: "", after: null, limit: 1000 })).pipe(
        Effect.provide(other)
      )
      assert.isAbove(names.length, 0)
      assert.isTrue(names.every((name) => name.startsWith("Acme/")))
    }))

  it.effect("a pull request that was pushed without a branch is in no repository, and not for choosing", () =>
    Effect.gen(function*() {
      const { host, repo, there } = yield* pushed
      const sha = (yield* Effect.promise(() => there.bare.branches())).get("trunk") ?? ""
      const counts = yield* Effect.promise(() => there.bare.counts(sha, sha))
      const pull = { baseRef: "trunk", mergeBase: sha, headRef: "", headSha: sha, counts, isAGit: true }
      const { number } = there.open({ title: "By AGit", body: "", user: { id: 9, login: "someone" }, pull })
      assert.deepInclude(yield* host.pullRequestSource(repo, number), { headRepo: null })
      assert.deepStrictEqual(yield* host.openPullRequests(repo), [])
      assert.isNull(yield* host.findOpenPullRequest(repo, ""))
    }))
})

it.layer(layer({ pageLimit: 2 }))("Lists of Forgejo", (it) => {
  it.effect("a pull request is found on any page, also if others close while the pages are read", () =>
    Effect.gen(function*() {
      const { draft, host, repo, server, there } = yield* pushed
      const sha = draft.headSha
      const counts = yield* Effect.promise(() => there.bare.counts(sha, sha))
      const open = (headRef: string) =>
        there.open({
          title: headRef,
          body: "",
          user: { id: 9, login: "someone" },
          pull: { baseRef: "trunk", headRef, headSha: sha, mergeBase: sha, counts, fork: "someone/else" }
        })
      const others = [open("a"), open("b")]
      const { number } = yield* host.openDraftPullRequest(repo, draft)
      assert.strictEqual((yield* host.findOpenPullRequest(repo, draft.headRef))?.number, number)
      // The first one closes after its page was read: ours moves to that page.
      server.strike({
        method: "GET",
        url: /page=2/u,
        outcome: () => {
          others[0]!.state = "closed"
          return undefined
        }
      })
      assert.strictEqual((yield* host.findOpenPullRequest(repo, draft.headRef))?.number, number)
    }))

  it.effect("a list that never ends is an error", () =>
    Effect.gen(function*() {
      const { draft, host, repo, server, there } = yield* opened
      const pull = yield* Effect.promise(async () =>
        (await fetch(`${server.webUrl}/api/v1/repos/${repo}/pulls/1`, {
          headers: { authorization: `token ${server.token}` }
        })).json() as Promise<{ readonly head: object }>
      )
      const one = { ...pull, head: { ...pull.head, label: "other" } }
      server.strike({ method: "GET", url: /\/pulls\?/u, outcome: { status: 200, body: [one] }, times: 1000 })
      const before = server.requests.length
      failed(false, /too long to be read/u)(yield* Effect.flip(host.findOpenPullRequest(repo, draft.headRef)))
      assert.strictEqual(server.requests.length - before, ForgejoApi.MAXIMUM_PAGES)
      assert.lengthOf(there.pulls, 1)
    }))
})

const titled = (title: string) =>
  Effect.gen(function*() {
    const { draft, host, repo, there } = yield* pushed
    const pull = yield* host.openDraftPullRequest(repo, { ...draft, title })
    return { host, repo, pull, there, shown: there.issue(pull.number)?.title ?? "" }
  })

it.layer(layer())("Drafts at Forgejo", (it) => {
  it.effect("are marked in the title, which is given back without the mark", () =>
    Effect.gen(function*() {
      for (const title of ["Fix", "fix: a", "[api] Fix", "WIP", "…"]) {
        const { pull, shown } = yield* titled(title)
        assert.deepStrictEqual([shown, pull.title, pull.draft], [`WIP: ${title}`, title, true])
      }
    }))

  it.effect("long titles are cut between characters, to what the server keeps", () =>
    Effect.gen(function*() {
      const { pull, shown } = yield* titled("😀".repeat(300))
      assert.isAtMost(Buffer.byteLength(shown), 255)
      assert.match(pull.title, /^😀+$/u)
      const { pull: odd } = yield* titled(`\ud800 half`)
      assert.isTrue(odd.title.isWellFormed())
    }))

  it.effect("marks of people are taken away as well", () =>
    Effect.gen(function*() {
      for (const mark of ["wip: Fix", "[wip] Fix", "WIP:Fix"]) {
        const { host, pull: { number }, repo, there } = yield* titled("Fix")
        there.issue(number)!.title = mark
        assert.deepInclude(yield* host.readyPullRequest(repo, number), { draft: false, title: "Fix" })
      }
    }))
})

it.layer(layer({ draftPrefixes: ["DRAFT:", "WIP:", "ENTWURF "] }))("Drafts at a Forgejo with other marks", (it) => {
  it.effect("the server's word decides what is a draft", () =>
    Effect.gen(function*() {
      const { host, pull: { number }, repo, there } = yield* titled("Fix")
      there.issue(number)!.title = "Draft: fix: it"
      assert.deepInclude(yield* host.readyPullRequest(repo, number), { draft: false, title: "fix: it" })
      there.issue(number)!.title = "Entwurf eines Plans"
      failed(false, /still takes it for a draft because of its title\. Remove the prefix there/u)(
        yield* Effect.flip(host.readyPullRequest(repo, number))
      )
      assert.strictEqual(there.issue(number)?.title, "Entwurf eines Plans")
    }))
})

it.layer(layer({ draftPrefixes: ["DRAFT:"] }))("A Forgejo whose operator took our mark away", (it) => {
  it.effect("opens no draft, and says so", () =>
    Effect.gen(function*() {
      const { pull } = yield* titled("Fix")
      assert.deepInclude(pull, { draft: false, title: "WIP: Fix" })
    }))
})

it.layer(layer({ prefix: "/git" }))("A Forgejo below a path", (it) => {
  it.effect("takes only addresses below it for its own", () =>
    Effect.gen(function*() {
      const { host, repo, server } = yield* pushed
      assert.strictEqual(yield* host.repositoryAt(`${server.url}/git/${repo}.git`), repo)
      for (
        const address of [`${server.url}/${repo}.git`, `${server.url}/other/${repo}`, `${server.url}/git`, `${server.url}/git/../${repo}`]
      ) {
        assert.isNull(yield* host.repositoryAt(address), address)
      }
    }))
})

it.layer(layer({ flavour: "gitea" }))("The account of a token", (it) => {
  it.effect("is told with the server's version, and with the scopes that are missing", () =>
    Effect.gen(function*() {
      const server = yield* TestForgejo
      const own = { version: "1.27.0", account: { id: "5", login: "slipway" } }
      const of = (token: string) => ForgejoApi.account({ url: server.webUrl, token: () => Effect.succeed(Redacted.make(token)) })
      assert.deepStrictEqual(yield* of(server.token), { ...own, problems: [] })
      const { problems, ...rest } = yield* of(server.mint(server.bot, ["read:user", "read:issue", "read:repository"]))
      assert.deepStrictEqual(rest, own)
      assert.deepStrictEqual(problems.map((problem) => /scope (?<name>\S+),/u.exec(problem)?.groups?.["name"]), [
        "write:repository",
        "write:issue",
        "read:organization"
      ])
      const revoked = server.mint(server.bot, ["all"])
      server.revoke(revoked)
      assert.strictEqual((yield* Effect.flip(of(revoked))).status, 401)
      assert.strictEqual((yield* Effect.flip(of(server.mint(server.bot, [])))).status, 403)
      const unsafe = ForgejoApi.account({ url: "http://forgejo.example.com", token: () => Effect.succeed(Redacted.make("t")) })
      assert.match((yield* Effect.flip(unsafe)).detail, /must start with https:/u)
    }))

  it.effect("is unknown where the server is another one", () =>
    Effect.gen(function*() {
      const server = yield* TestForgejo
      server.strike({ method: "GET", url: /version$/u, outcome: { status: 200, body: { hello: 1 } } })
      const asked = ForgejoApi.account({ url: server.webUrl, token: () => Effect.succeed(Redacted.make(server.token)) })
      assert.match((yield* Effect.flip(asked)).detail, /could not be understood/u)
    }))
})
