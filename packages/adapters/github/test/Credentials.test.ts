import { assert, it } from "@effect/vitest"
import { type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { agent, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as Trees from "@slipway/git/testing/Trees"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { DateTime, Effect, Logger, Redacted, References } from "effect"
import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { refuse } from "../testing/Routes.ts"
import { layer, repository, TestGitHub } from "./TestGitHub.ts"

const author = { name: "Slipway", email: "slipway@example.com" }
const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")

/** Token requests to GitHub while `self` ran. */
const tokensFor = Effect.fnUntraced(function*<A, E, R>(self: Effect.Effect<A, E, R>) {
  const { requests } = yield* TestGitHub
  const before = requests.length
  yield* self
  return requests.slice(before).filter(({ url }) => url.endsWith("/access_tokens")).map(({ body }) =>
    JSON.parse(body.toString()) as unknown
  )
})

/** A sandbox's way through a repository: clone, change, push, open, look, push again. */
const publish = Effect.gen(function*() {
  const server = yield* TestGitHub
  const host = yield* SourceHost
  const { fullName: repo, repository: there } = yield* repository({ v: "0\n" })
  const directory = yield* temporaryFolder
  const key: TreeKey = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo }
  yield* Effect.gen(function*() {
    const trees = yield* WorkingTrees
    const { defaultBranch } = yield* host.repository(repo)
    yield* trees.prepare(key, { remote: yield* host.remote(repo, "read"), ref: undefined, defaultBranch, repos: [repo] })
    let expected: string | null = null
    for (const content of ["1\n", "2\n"]) {
      yield* agent.write(join(workspacesIn(directory)(key.sandboxId), trees.folder(repo, [repo]), "v"), content)
      const remote = yield* host.remote(repo, "write")
      const { sha }: { readonly sha: string } = yield* trees.snapshot(key, {
        message: "Title",
        author,
        since: { head: expected, merges: [], remote }
      })
      yield* trees.push(key, { sha, headRef: "slipway/x", remote, expected })
      expected = sha
      const open = yield* host.findOpenPullRequest(repo, "slipway/x")
      const pull = open === null
        ? yield* host.openDraftPullRequest(repo, {
          title: "Title",
          body: "",
          baseRef: defaultBranch,
          headRef: "slipway/x",
          headSha: sha,
          at
        })
        : yield* host.pullRequestPushed(repo, open.number, { headSha: sha, at })
      assert.deepInclude(pull, { number: 1, headSha: sha, additions: 1, deletions: 1, changedFiles: 1 })
    }
    assert.strictEqual(yield* Effect.promise(() => there.bare.git(["show", "slipway/x:v"])), "2")
    // And what goes wrong.
    server.strike({ method: "POST", url: /\/access_tokens$/u, outcome: refuse(500, "Oh no") })
    yield* Effect.flip(host.repository(repo))
    const denied = yield* host.remote(repo, "read")
    server.app.expireTokens()
    yield* Effect.flip(trees.push({ ...key }, { sha: "0".repeat(40), headRef: "slipway/y", remote: denied }))
    yield* host.pullRequestDetails(repo, 1)
  }).pipe(Effect.provide(Trees.layer({ directory })))
  return { directory, repo, server }
})

it.layer(layer())("Credentials", (it) => {
  it.effect("are for one repository, and for no more than the operation needs", () =>
    Effect.gen(function*() {
      const host = yield* SourceHost
      const { fullName: repo, repository: there } = yield* repository({ v: "0" })
      const headSha = yield* Effect.promise(() => there.commit("slipway/x", { v: "1" }))
      const draft = { title: "t", body: "", baseRef: "trunk", headRef: "slipway/x", headSha, at }
      const repositories = [there.name]
      const metadata = "read"
      for (
        const [operation, permissions] of [
          [host.repository(repo), { metadata }],
          [host.remote(repo, "read"), { metadata, contents: "read" }],
          [host.remote(repo, "write"), { metadata, contents: "write" }],
          [host.findOpenPullRequest(repo, "slipway/x"), { metadata, pull_requests: "read" }],
          [host.openDraftPullRequest(repo, draft), { metadata, contents: "read", pull_requests: "write" }],
          [host.pullRequestPushed(repo, 1, { headSha, at }), { metadata, pull_requests: "read" }],
          [host.pullRequestDetails(repo, 1), { metadata, pull_requests: "read", checks: "read", actions: "read", issues: "read" }]
        ] as const
      ) {
        assert.deepStrictEqual(yield* tokensFor<unknown, unknown, never>(operation), [{ repositories, permissions }])
      }
    }))

  it.effect("of a remote let git do what they are for and nothing else", () =>
    Effect.gen(function*() {
      const host = yield* SourceHost
      const [mine, other] = [yield* repository({ v: "0" }), yield* repository({ v: "0" })]
      const git = (access: "read" | "write", ...args: ReadonlyArray<string>) =>
        Effect.map(host.remote(mine.fullName, access), ({ authorization, url }) => {
          const env = {
            PATH: process.env["PATH"],
            GIT_TERMINAL_PROMPT: "0",
            GIT_CONFIG_COUNT: "1",
            GIT_CONFIG_KEY_0: "http.extraHeader",
            GIT_CONFIG_VALUE_0: `Authorization: ${authorization === null ? "" : Redacted.value(authorization)}`
          }
          return { env, url, args: [...args] }
        })
      // In a process of its own: the server that answers is in this one.
      const run = (access: "read" | "write", args: (url: string) => ReadonlyArray<string>) =>
        Effect.gen(function*() {
          const { env, url } = yield* git(access)
          return yield* Effect.promise(() =>
            mine.repository.bare.git(args(url), { env: env as Record<string, string> }).then(() => "done", () => "refused")
          )
        })
      const push = (url: string) => ["push", "--quiet", url, "trunk:refs/heads/pushed"]
      const elsewhere = (url: string) => ["ls-remote", url.replace(mine.fullName, other.fullName)]
      assert.strictEqual(yield* run("read", (url) => ["ls-remote", url]), "done")
      assert.strictEqual(yield* run("read", push), "refused")
      assert.strictEqual(yield* run("read", elsewhere), "refused")
      assert.strictEqual(yield* run("write", elsewhere), "refused")
      assert.strictEqual(yield* run("write", push), "done")
    }))

  const linux = process.platform === "linux" ? it.effect : it.effect.skip
  linux("appear in no log, no error, no argument and no file (needs Linux)", () =>
    Effect.gen(function*() {
      const logged: Array<unknown> = []
      const logger = Logger.make(({ cause, fiber, message }) =>
        void logged.push([message, cause, fiber.getRef(References.CurrentLogAnnotations)])
      )
      const commandLines = new Set<string>()
      const server = yield* TestGitHub
      server.watch(({ url }) => {
        // While git waits for this answer.
        if (!/\/info\/refs|\/git-/u.test(url)) return
        for (const id of readdirSync("/proc").filter((name) => /^\d+$/u.test(name))) {
          try {
            commandLines.add(readFileSync(`/proc/${id}/cmdline`, "latin1"))
          } catch {
            // gone
          }
        }
      })
      const { directory, repo } = yield* publish.pipe(
        Effect.provide(Logger.layer([logger])),
        Effect.provideService(References.MinimumLogLevel, "All")
      )

      const authorizations = server.requests.flatMap(({ headers }) => headers.authorization ?? [])
      const secrets = new Set([
        ...server.app.issued,
        ...server.app.issued.map((token) => Buffer.from(`x-access-token:${token}`).toString("base64")),
        ...authorizations.flatMap((value) => value.split(" ").slice(1)),
        ...server.app.privateKey.split("\n").filter((line) => line.length > 20)
      ])
      const holds = (text: string) => [...secrets].some((secret) => text.includes(secret))
      // They were there: in what GitHub got, as JWT, as token and as what git sends.
      assert.deepStrictEqual(new Set(authorizations.map((value) => value.split(" ")[0])), new Set(["bearer", "token", "Basic"]))
      assert.isTrue([...commandLines].some((line) => line.includes("remote-http") && line.includes(repo)))
      assert.isAbove(logged.length, 1)

      assert.isFalse(holds(JSON.stringify(logged)))
      assert.isFalse(logged.some((entry) => holds(String(entry))))
      assert.deepStrictEqual([...commandLines].filter(holds), [])
      assert.deepStrictEqual(server.requests.filter(({ url }) => holds(url)), [])
      const patterns = [...secrets].flatMap((secret) => ["-e", secret])
      const found = (folder: string) => {
        try {
          return execFileSync("grep", ["-r", "-l", "-a", "-F", ...patterns, "--", folder], { encoding: "utf8" })
        } catch {
          return ""
        }
      }
      assert.strictEqual(found(directory), "")
    }))
})
