import { assert, describe, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { isCommitId, isRefName } from "@slipway/domain/source/schema/Naming"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Effect, Redacted } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { git } from "../src/Git.ts"
import { transport } from "../src/Remotes.ts"
import { serve } from "../testing/GitHttpServer.ts"
import { agent, source, temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const app = RepoName.make("acme/app")
const ids = ["c_aaaaaaaaaaaa", "c_bbbbbbbbbbbb", "c_cccccccccccc", "c_dddddddddddd"].map((id) => SandboxId.make(id))
const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: app }
const token = "ghs_0123456789SecretSecretSecret"
const encodedToken = Buffer.from(`x-access-token:${token}`).toString("base64")
const authorization = Redacted.make(`Basic ${encodedToken}`)
const secrets = [token, encodedToken]
const author = { name: "Slipway", email: "slipway@example.com" }

const commandLines = () =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "latin1")
    } catch {
      return []
    }
  })

describe("remotes over HTTP", () => {
  it.live("clones and pushes with credentials that are in no command line and no file", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0" })
      const directory = yield* temporaryFolder
      const leaks: Array<string> = []
      const server = yield* serve(origin.path.replace(/\/[^/]+$/u, ""), (request, response) => {
        leaks.push(...commandLines().filter((line) => secrets.some((secret) => line.includes(secret))))
        if (request.headers.authorization === Redacted.value(authorization)) return false
        response.writeHead(401, { "www-authenticate": "Basic" }).end()
        return true
      })
      const remote = { url: `${server.url}/origin.git`, authorization }
      yield* Effect.gen(function*() {
        const trees = yield* WorkingTrees
        const options = { remote, ref: undefined, defaultBranch: "main", repos: [app] }
        const refused = yield* trees.prepare(key, { ...options, remote: { ...remote, authorization: null } }).pipe(Effect.flip)
        assert.deepInclude(refused, { retryable: false, detail: "The source host refused access to the repository." })
        yield* trees.prepare(key, options)
        yield* agent.write(`${workspacesIn(directory)(key.sandboxId)}/app/v`, "1")
        const { sha } = yield* trees.snapshot(key, { message: "x", author })
        yield* trees.push(key, { sha, headRef: "slipway/x", remote })
        assert.strictEqual(yield* origin.tip("slipway/x"), sha)
      }).pipe(Effect.provide(Trees.layer({ directory })))
      assert.isAbove(server.seen.length, 3)
      assert.deepStrictEqual(leaks, [])
      for (const secret of secrets) {
        assert.strictEqual(spawnSync("grep", ["-rqaF", "-e", secret, directory]).status, 1)
      }
    }))

  it.live("fetches a commit once, however many sandboxes start from it at once", () =>
    Effect.gen(function*() {
      const origin = yield* source({ v: "0" })
      const directory = yield* temporaryFolder
      const server = yield* serve(origin.path.replace(/\/[^/]+$/u, ""), () => false)
      const remote = { url: `${server.url}/origin.git`, authorization: null }
      yield* Effect.gen(function*() {
        const trees = yield* WorkingTrees
        const boot = (sandboxId: SandboxId) =>
          trees.prepare({ sandboxId, repo: app }, { remote, ref: undefined, defaultBranch: "main", repos: [app] })
        yield* Effect.forEach(ids, boot, { concurrency: "unbounded" })
      }).pipe(Effect.provide(Trees.layer({ directory })))
      assert.strictEqual(server.seen.filter(({ body }) => body.includes("command=fetch")).length, 1)
    }))

  it.live("tells what may pass from what will not, and never follows a redirect", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryFolder
      const asked: Array<string> = []
      const server = yield* serve(directory, (request, response) => {
        const path = request.url ?? ""
        asked.push(path)
        const status = Number(/\d{3}/u.exec(path)?.[0] ?? 404)
        response.writeHead(status, status < 400 ? { location: path.replace("/301", "/moved") } : {}).end()
        return true
      })
      yield* Effect.gen(function*() {
        const trees = yield* WorkingTrees
        const fail = (url: string) =>
          trees.prepare(key, { remote: { url, authorization: null }, ref: undefined, defaultBranch: "main", repos: [app] }).pipe(
            Effect.flip
          )
        for (
          const [path, retryable] of [["/403/a.git", false], ["/404/a.git", false], ["/301/a.git", false], ["/500/a.git", true], [
            "/502/a.git",
            true
          ], ["/429/a.git", true]] as const
        ) {
          assert.strictEqual((yield* fail(server.url + path)).retryable, retryable, path)
        }
        assert.isTrue((yield* fail("http://127.0.0.1:1/a.git")).retryable)
        for (
          const url of ["ext::sh -c true", "ssh://host/a", "git@host:a", "http://example.com/a.git", "ftp://x/a", "-x",
            "https://user:pass@127.0.0.1:1/a"]
        ) {
          assert.match((yield* fail(url)).detail, /not supported/u, url)
        }
      }).pipe(Effect.provide(Trees.layer({ directory })))
      assert.isFalse(asked.some((path) => path.includes("moved")))
    }))

  it.live("gives up on a host that does not answer, and leaves no process behind", () =>
    Effect.gen(function*() {
      const directory = yield* temporaryFolder
      const server = yield* serve(directory, () => true)
      const via = transport({ url: `${server.url}/silent.git`, authorization })
      assert.isDefined(via)
      const failure = yield* git(["ls-remote", via.url], { ...via.options, timeout: "300 millis" }).pipe(Effect.flip)
      assert.strictEqual(failure.reason, "timeout")
      assert.deepStrictEqual(commandLines().filter((line) => line.includes(server.url)), [])
    }))

  it.live("stops a process that says too much, and hides credentials in what it says", () =>
    Effect.gen(function*() {
      const { path } = yield* source({ large: "x".repeat(100_000) })
      const tooMuch = yield* git(["cat-file", "blob", "main:large"], { env: { GIT_DIR: path }, maximumBytes: 1_000 }).pipe(Effect.flip)
      assert.strictEqual(tooMuch.reason, "output")
      const wrong = yield* git(["cat-file", "-t", `//user@host/ ${secrets.join(" ")} end`], {
        env: { GIT_DIR: path },
        authorization: { origin: "https://host", value: authorization }
      }).pipe(Effect.flip)
      assert.match(wrong.stderr, /Not a valid object name \/\/\*\*\*@host\/ \*\*\* \*\*\* end/u)
    }))
})

describe("names of refs", () => {
  const acceptedByGit = (ref: string) => {
    try {
      execFileSync("git", ["check-ref-format", `refs/heads/${ref}`], { stdio: "ignore" })
      return true
    } catch {
      return false
    }
  }
  it("git accepts every name that we accept, and few that we refuse", () => {
    const parts = ["a", "é", "-", ".", "..", "/", "@", "{", "~", "^", ":", "?", "*", "[", "\\", " ", "\u0001", "\u007f", ".lock", "HEAD",
      "\u00a0"]
    const names = [...parts, ...parts.flatMap((a) => [`${a}x`, `x${a}`, ...parts.map((b) => `x${a}${b}x`)])]
    const differing = [...new Set(names)].filter((name) => !isCommitId(name) && isRefName(name) !== acceptedByGit(name))
    assert.deepStrictEqual(differing.filter(isRefName), [])
    // A leading dash could be taken for an option, `@` alone stands for HEAD.
    assert.isTrue(differing.every((name) => name.startsWith("-") || name === "@"), JSON.stringify(differing))
  })
})
