import { assert, it } from "@effect/vitest"
import { RepoNotAccessible, SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { Effect, Redacted } from "effect"
import { account } from "../src/GitLabApi.ts"
import { pathOf } from "../src/ProjectAddress.ts"
import { ADA, failureOf, hostOf, optionsOf, OWN, TestGitLab } from "./TestGitLab.ts"

/** Projects at these paths, and `SourceHost` with these groups. */
const withGroups = <A, E>(
  paths: ReadonlyArray<string>,
  groups: ReadonlyArray<string>,
  use: (host: SourceHost["Service"], server: TestGitLab["Service"]) => Effect.Effect<A, E>
) =>
  Effect.gen(function*() {
    const server = yield* TestGitLab
    for (const path of paths) yield* server.project(path, { a: "a\n" })
    for (const group of groups) server.groups.set(group, new Map([[OWN.id, 40]]))
    return yield* SourceHost.use((host) => use(host, server)).pipe(Effect.provide(hostOf(server, { groups })))
  }).pipe(Effect.provide(TestGitLab.layer()))

it.live("finds a project in a group by the last two parts of its path, in any case of letters", () =>
  withGroups(["Acme/tools/App", "Acme/tools/App-two"], ["Acme"], (host, server) =>
    Effect.gen(function*() {
      for (const name of ["tools/app", "Tools/App", "acme/tools/app"]) {
        assert.deepStrictEqual(yield* host.repository(name), { fullName: "Acme/tools/App", defaultBranch: "trunk" })
      }
      assert.strictEqual((yield* host.remote("tools/app", "read")).url, `${server.webUrl}/Acme/tools/App.git`)
      const asked = server.requests.length
      assert.isNull(yield* host.branch("tools/app", "missing"))
      assert.isNotNull(yield* host.branch("tools/app", "trunk"))
      assert.isFalse(server.requests.slice(asked + 3).some(({ url }) => url.includes("/groups/")))
    })))

it.live("names the projects where several end in the same two parts", () =>
  withGroups(["Acme/tools/App", "Other/deep/tools/app"], ["Acme", "Other"], (host) =>
    Effect.gen(function*() {
      const error = yield* failureOf(host.repository("tools/app"))
      assert.instanceOf(error, RepoNotAccessible)
      assert.strictEqual(
        error.message,
        "repository tools/app is not accessible. Several projects end in tools/app: Acme/tools/App, Other/deep/tools/app. " +
          "Name one with: slipway repos alias NAME HOST PATH"
      )
    })))

it.live("a project's own path comes before the last parts of another", () =>
  withGroups(["Acme/tools/App", "tools/app"], ["Acme", "tools"], (host) =>
    Effect.gen(function*() {
      assert.strictEqual((yield* host.repository("tools/app")).fullName, "tools/app")
    })))

it.live("finds and lists no project outside the groups, also if a stranger made the account a member", () =>
  withGroups(["evil/tools/App", "Acme/tools/Shop", "Acme/other/shop"], ["Acme"], (host, server) =>
    Effect.gen(function*() {
      server.projects[0]?.members.set(OWN.id, { user: OWN, level: 40, state: "active", expiresAt: null })
      assert.strictEqual((yield* failureOf(host.repository("tools/app")))._tag, "RepoNotAccessible")
      const query = { owners: ["tools", "other"], search: "", after: null, limit: 10 }
      assert.deepStrictEqual(yield* host.repositories(query), ["Acme/other/shop", "Acme/tools/Shop"])
    })))

it.live("lists in the order of short names, and leaves out those that are another's too", () =>
  withGroups(["Acme/z/b/one", "Acme/a/c/two", "Acme/x/d/same", "Acme/y/d/Same", "Acme/b/zero"], ["Acme"], (host) =>
    Effect.gen(function*() {
      const query = { owners: ["b", "c", "d"], search: "", after: null, limit: 10 }
      assert.deepStrictEqual(yield* host.repositories(query), ["Acme/z/b/one", "Acme/b/zero", "Acme/a/c/two"])
      assert.deepStrictEqual(yield* host.repositories({ ...query, after: "Acme/z/b/one", limit: 1 }), ["Acme/b/zero"])
      assert.deepStrictEqual(yield* host.repositories({ ...query, search: "acme" }), [])
      assert.deepStrictEqual(yield* host.repositories({ ...query, owners: ["acme"] }), [])
    })))

it.live("lists more projects than a page has", () =>
  withGroups([], ["Acme"], (host, server) =>
    Effect.gen(function*() {
      const one = yield* server.project("Acme/t/p-0", { a: "a\n" })
      for (let i = 1; i < 130; i++) {
        ;(server.projects as Array<typeof one>).push(
          Object.assign(Object.create(Object.getPrototypeOf(one)), one, { id: one.id + i, path: `Acme/t/p-${i}` })
        )
      }
      assert.lengthOf(yield* host.repositories({ owners: ["t"], search: "", after: null, limit: 1000 }), 130)
    })))

it.live("a moved project is found by its former path", () =>
  withGroups(["Acme/old"], [], (host, server) =>
    Effect.gen(function*() {
      yield* host.repository("acme/old")
      server.projects[0]?.move("Acme/new")
      assert.strictEqual((yield* host.repository("acme/old")).fullName, "Acme/new")
      assert.isNotNull(yield* host.branch("acme/old", "trunk"))
    })))

it.live("a project that was deleted and made anew is found again", () =>
  withGroups(["Acme/app"], [], (host, server) =>
    Effect.gen(function*() {
      yield* host.repository("acme/app")
      ;(server.projects as Array<unknown>).length = 0
      yield* server.project("Acme/app", { b: "b\n" })
      assert.isNotNull(yield* host.branch("acme/app", "trunk"))
    })))

it.live("uses the token of each project's own path", () =>
  Effect.gen(function*() {
    const server = yield* TestGitLab
    const there = yield* server.project("Acme/tools/App", { a: "a\n" })
    const [ofGroup, ofProject] = [server.token(OWN), server.token({ id: 40, username: "project_9_bot_1" })]
    there.members.set(40, { user: { id: 40, username: "project_9_bot_1" }, level: 30, state: "active", expiresAt: null })
    const tokens: Readonly<Record<string, string>> = { Acme: ofGroup, "Acme/tools/App": ofProject }
    const token = (path: string) =>
      tokens[path] === undefined
        ? Effect.fail(new SourceHostError({ operation: "find a token", detail: `No token for ${path}.`, retryable: false }))
        : Effect.succeed(Redacted.make(tokens[path]))
    yield* SourceHost.use(Effect.fnUntraced(function*(host) {
      const { authorization } = yield* host.remote("tools/app", "write")
      const value = authorization === null ? "" : Redacted.value(authorization)
      assert.strictEqual(value, `Basic ${Buffer.from(`oauth2:${ofProject}`).toString("base64")}`)
      assert.isNotNull(yield* host.branch("tools/app", "trunk"))
      assert.strictEqual(server.requests.at(-1)?.headers.authorization, `Bearer ${ofProject}`)
      assert.strictEqual(
        (yield* failureOf(host.repository("no/token"))).message,
        "source host could not find a token: No token for no/token."
      )
    })).pipe(Effect.provide(hostOf(server, { groups: ["Acme"], token })))
  }).pipe(Effect.provide(TestGitLab.layer())))

it("names the project of git's addresses, at any depth and below the path of the web pages", () => {
  const url = "https://gitlab.test:8443/git/lab"
  for (
    const [address, path] of [
      ["https://gitlab.test:8443/git/lab/a/b/c.git", "a/b/c"],
      ["https://gitlab.test:8443/git/lab/a/b", "a/b"],
      ["git@gitlab.test:a/b/c.git", "a/b/c"],
      ["ssh://git@gitlab.test/a/b.git", "a/b"],
      ["https://gitlab.test:8443/a/b.git", null],
      ["https://gitlab.test:8443/git/lab/a", null],
      ["https://gitlab.test:8443/git/lab/a/../b", null],
      ["https://u:secret@gitlab.test:8443/git/lab/a/b", null],
      ["https://gitlab.test:8443/git/lab/a/-b", null],
      ["https://elsewhere.test/git/lab/a/b", null]
    ] as const
  ) assert.strictEqual(pathOf(address, url), path, address)
})

it.live("says whose token it is, at which version, and what is wrong with it", () =>
  Effect.gen(function*() {
    const server = yield* TestGitLab
    const checked = (secret: string) => account(optionsOf({ ...server, secret }))
    const own = { version: "19.5.0-ee", account: { id: "2", login: "deploy" } }
    assert.deepStrictEqual(yield* checked(server.secret), { ...own, problems: [] })
    assert.deepStrictEqual((yield* checked(server.token(OWN, { scopes: ["read_api", "write_repository"] }))).problems, [
      "The token lacks the scope api. Create one with it: it covers the API and git."
    ])
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10)
    assert.deepStrictEqual((yield* checked(server.token(OWN, { expiresAt: tomorrow }))).problems, [
      `The token expires at ${tomorrow}. Create another one before.`
    ])
    assert.deepStrictEqual((yield* checked(server.token(ADA, { isOfApplication: true }))).problems, [])
    const refused = yield* failureOf(checked("wrong"))
    assert.deepInclude(refused, { _tag: "RestFailed", retryable: false })
    assert.match(refused.message, /^127\.0\.0\.1:\d+ does not accept the token\. Check that it has not expired and was not revoked\.$/u)
  }).pipe(Effect.provide(TestGitLab.layer())))
