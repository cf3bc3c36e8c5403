import { assert, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { agent, gitIn, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as Trees from "@slipway/git/testing/Trees"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as Migrations from "@slipway/postgres/Migrations"
import * as PullRequestsContract from "@slipway/testing/contracts/source/PullRequestsContract"
import * as SourceHostContract from "@slipway/testing/contracts/source/SourceHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { DateTime, Effect, Exit, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { chmodSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { LocalPullRequests } from "../src/LocalPullRequests.ts"
import { LocalRepositories } from "../src/LocalRepositories.ts"
import * as SourceHostLocal from "../src/SourceHostLocal.ts"

const layer = SourceHostLocal.layer({ publicUrl: "https://slipway.example/" }).pipe(
  Layer.provideMerge(LocalRepositories.layer),
  Layer.provideMerge(TestPostgres.layer(Migrations.layer))
)

/** A checkout that people work in, with `trunk` checked out. */
const checkout = Effect.fnUntraced(function*(files: Readonly<Record<string, string | null>>) {
  const path = yield* temporaryFolder
  gitIn(path, "init", "--quiet", "--initial-branch=trunk")
  for (const [name, content] of Object.entries(files)) yield* agent.write(join(path, name), content ?? "")
  gitIn(path, "add", "--all")
  gitIn(path, "commit", "--quiet", "--allow-empty", "--message", "first")
  return path
})

const fixture: SourceHostContract.Fixture<LocalRepositories> = {
  repository: Effect.fnUntraced(function*(files) {
    const repositories = yield* LocalRepositories
    const path = yield* checkout(files)
    const { fullName } = yield* repositories.register(RepoName.make(`Acme/App-${randomUUID()}`), path)
    const on = <A, E>(branch: string, work: Effect.Effect<A, E>) =>
      Effect.gen(function*() {
        if (gitIn(path, "branch", "--list", branch) === "") gitIn(path, "switch", "--quiet", "--create", branch, "trunk")
        else gitIn(path, "switch", "--quiet", branch)
        yield* work
        const tip = gitIn(path, "rev-parse", "HEAD")
        gitIn(path, "switch", "--quiet", "trunk")
        return tip
      })
    return {
      fullName,
      commit: (branch, changes, title = "change") =>
        on(
          branch,
          Effect.gen(function*() {
            for (const [name, content] of Object.entries(changes)) {
              yield* content === null ? agent.remove(join(path, name)) : agent.write(join(path, name), content)
            }
            gitIn(path, "add", "--all")
            gitIn(path, "commit", "--quiet", "--author=Ada <ada@example.com>", "--message", title)
          })
        ),
      merge: (head, base) =>
        Effect.asVoid(on(base, Effect.sync(() => gitIn(path, "merge", "--quiet", "--no-ff", "--message", "merge", head)))),
      deleteBranch: (branch) => Effect.sync(() => void gitIn(path, "branch", "--quiet", "-D", branch))
    }
  })
}

register(SourceHostContract.suite("local", layer, fixture))
register(PullRequestsContract.suite("local", LocalPullRequests.layerPages.pipe(Layer.provideMerge(layer)), fixture))

it.layer(layer, { excludeTestServices: true })("LocalRepositories", (it) => {
  const freshName = Effect.sync(() => RepoName.make(`acme/${randomUUID()}`))

  it.effect("keeps the real path of a checkout, of a bare repository and of a linked worktree", () =>
    Effect.gen(function*() {
      const repositories = yield* LocalRepositories
      const host = yield* SourceHost
      const path = yield* checkout({ v: "0" })
      const folder = yield* temporaryFolder
      gitIn(path, "clone", "--quiet", "--bare", path, join(folder, "bare.git"))
      gitIn(path, "worktree", "add", "--quiet", "-b", "side", join(folder, "worktree"))
      symlinkSync(path, join(folder, "link"))
      for (
        const [given, real, defaultBranch] of [
          [join(folder, "link"), path, "trunk"],
          [join(folder, "bare.git"), join(folder, "bare.git"), "trunk"],
          [join(folder, "worktree"), join(folder, "worktree"), "side"]
        ] as const
      ) {
        const fullName = yield* freshName
        assert.deepStrictEqual(yield* repositories.register(fullName, given), { fullName, path: real })
        assert.deepStrictEqual(yield* host.remote(fullName, "write"), { url: real, authorization: null })
        assert.deepStrictEqual(yield* host.repository(fullName), { fullName, defaultBranch })
      }
    }))

  it.effect("a checkout without a branch falls back to main, master or the first branch", () =>
    Effect.gen(function*() {
      const repositories = yield* LocalRepositories
      const host = yield* SourceHost
      const fullName = yield* freshName
      const path = yield* checkout({ v: "0" })
      yield* repositories.register(fullName, path)
      gitIn(path, "branch", "develop")
      gitIn(path, "switch", "--quiet", "--detach")
      assert.strictEqual((yield* host.repository(fullName)).defaultBranch, "develop")
      gitIn(path, "branch", "master")
      assert.strictEqual((yield* host.repository(fullName)).defaultBranch, "master")
    }))

  it.effect("says what is wrong with a path that cannot serve", () =>
    Effect.gen(function*() {
      const repositories = yield* LocalRepositories
      const path = yield* checkout({ "dir/v": "0" })
      const folder = yield* temporaryFolder
      mkdirSync(join(folder, "plain"))
      writeFileSync(join(folder, "file"), "")
      gitIn(folder, "init", "--quiet", "empty")
      gitIn(folder, "init", "--quiet", "--object-format=sha256", "sha256")
      gitIn(path, "commit", "--quiet", "--allow-empty", "--message", "second")
      gitIn(folder, "clone", "--quiet", "--depth=1", `file://${path}`, "shallow")
      const name = yield* freshName
      for (
        const [given, reason] of [
          [join(folder, "missing"), "missing"],
          [join(folder, "file"), "missing"],
          [join(folder, "plain"), "not a repository"],
          [join(path, "dir"), "not a repository"],
          [join(folder, "empty"), "empty"],
          [join(folder, "sha256"), "sha256"],
          [join(folder, "shallow"), "shallow"]
        ] as const
      ) {
        const error = yield* repositories.register(name, given).pipe(Effect.flip)
        assert.deepInclude(error, { _tag: "UnusableRepository", reason }, given)
        assert.include(error.message, given)
      }
      assert.isTrue(Option.isNone(yield* repositories.find(name)))
    }))

  it.effect("a name is one repository in any case of letters; it can be moved, removed and added again", () =>
    Effect.gen(function*() {
      const repositories = yield* LocalRepositories
      const host = yield* SourceHost
      const [one, two] = [yield* checkout({ v: "1" }), yield* checkout({ v: "2" })]
      const fullName = yield* freshName
      const shouted = RepoName.make(fullName.toUpperCase())
      yield* repositories.register(fullName, one)
      yield* repositories.register(fullName, one)
      yield* repositories.register(shouted, two)
      assert.deepStrictEqual(yield* repositories.find(fullName), Option.some({ fullName: shouted, path: two }))
      assert.deepInclude(yield* repositories.list, { fullName: shouted, path: two })
      assert.isFalse((yield* repositories.list).some(({ path }) => path === one))

      assert.isTrue(yield* repositories.remove(fullName))
      assert.isFalse(yield* repositories.remove(fullName))
      assert.strictEqual((yield* host.repository(fullName).pipe(Effect.flip))._tag, "RepoNotAccessible")
      yield* repositories.register(fullName, one)
      assert.strictEqual((yield* host.repository(fullName)).fullName, fullName)
    }))

  it.effect("a number is never given twice, not even when the repository was removed in between", () =>
    Effect.gen(function*() {
      const repositories = yield* LocalRepositories
      const host = yield* SourceHost
      const path = yield* checkout({ v: "0" })
      const fullName = yield* freshName
      yield* repositories.register(fullName, path)
      const open = (headRef: string) => {
        gitIn(path, "branch", headRef)
        return host.openDraftPullRequest(fullName, {
          title: "t",
          body: "",
          baseRef: "trunk",
          headRef,
          headSha: gitIn(path, "rev-parse", headRef),
          at: DateTime.makeUnsafe(0)
        })
      }
      const first = yield* open("a")
      yield* repositories.remove(fullName)
      yield* repositories.register(fullName, path)
      const second = yield* open("b")
      assert.deepStrictEqual([first.number, second.number], [1, 2])
      assert.strictEqual(second.url, `https://slipway.example/local/${fullName}/pulls/2`)
    }))

  it.effect("a repository that is gone from the disk is not accessible", () =>
    Effect.gen(function*() {
      const repositories = yield* LocalRepositories
      const host = yield* SourceHost
      const path = yield* checkout({ v: "0" })
      const fullName = yield* freshName
      yield* repositories.register(fullName, path)
      renameSync(path, `${path}-away`)
      assert.strictEqual((yield* host.repository(fullName).pipe(Effect.flip))._tag, "RepoNotAccessible")
      rmSync(`${path}-away`, { recursive: true })
    }))

  it.effect("the database itself allows one open pull request of a branch", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const fullName = yield* freshName
      yield* LocalRepositories.use((repositories) => Effect.flatMap(checkout({ v: "0" }), (path) => repositories.register(fullName, path)))
      const insert = (number: number, state: string) =>
        Effect.exit(sql`
          INSERT INTO local_pull_requests (repository_id, number, title, body, state, draft, merged, base_ref, head_ref, head_sha,
            additions, deletions, changed_files, created_at, updated_at)
          SELECT id, ${number}, 't', '', ${state}, true, false, 'main', 'only-one', ${"0".repeat(40)}, 0, 0, 0, now(), now()
          FROM local_repositories WHERE full_name = ${fullName}`)
      const results = [yield* insert(1_001, "closed"), yield* insert(1_002, "open"), yield* insert(1_003, "open"),
        yield* insert(1_004, "closed"), yield* insert(1_002, "closed")]
      assert.deepStrictEqual(results.map(Exit.isSuccess), [true, true, false, true, false])
    }))

  it.effect("a sandbox starts from a local checkout and publishes to it, through its own hooks", () =>
    Effect.gen(function*() {
      const repositories = yield* LocalRepositories
      const host = yield* SourceHost
      const path = yield* checkout({ v: "0\n" })
      const marks = yield* temporaryFolder
      for (const hook of ["pre-receive", "update", "post-receive", "post-update", "reference-transaction"]) {
        writeFileSync(join(path, ".git", "hooks", hook), `#!/bin/sh\ntouch ${marks}/${hook}\n`)
        chmodSync(join(path, ".git", "hooks", hook), 0o755)
      }
      const fullName = yield* freshName
      yield* repositories.register(fullName, path)
      const { defaultBranch } = yield* host.repository(fullName)
      const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: fullName }
      const directory = yield* temporaryFolder
      const opened = yield* Effect.gen(function*() {
        const trees = yield* WorkingTrees
        yield* trees.prepare(key, { remote: yield* host.remote(fullName, "read"), ref: undefined, defaultBranch, repos: [fullName] })
        yield* agent.write(join(workspacesIn(directory)(key.sandboxId), trees.folder(fullName, [fullName]), "v"), "1\n")
        const { baseRef, sha } = yield* trees.snapshot(key, { message: "Title", author: { name: "Slipway", email: "slipway@example.com" } })
        yield* trees.push(key, { sha, headRef: "slipway/x", remote: yield* host.remote(fullName, "write") })
        return yield* host.openDraftPullRequest(fullName, {
          title: "Title",
          body: "",
          baseRef: baseRef ?? defaultBranch,
          headRef: "slipway/x",
          headSha: sha,
          at: yield* DateTime.now
        })
      }).pipe(Effect.provide(Trees.layer({ directory })))
      assert.deepInclude(opened, { number: 1, additions: 1, deletions: 1, changedFiles: 1, baseRef: "trunk" })
      assert.strictEqual(gitIn(path, "show", "slipway/x:v"), "1")
      assert.strictEqual(gitIn(path, "status", "--porcelain"), "")
      assert.deepStrictEqual(readdirSync(marks).sort(), ["post-receive", "post-update", "pre-receive", "reference-transaction", "update"])
    }))
})
