import { assert, it } from "@effect/vitest"
import type { PullRequestRefused } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { gitIn, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as Migrations from "@slipway/postgres/Migrations"
import { DateTime, Effect, Layer } from "effect"
import { randomUUID } from "node:crypto"
import { chmodSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { LocalPullRequests } from "../src/LocalPullRequests.ts"
import { LocalRepositories } from "../src/LocalRepositories.ts"
import { fetchCommands, mergeCommands } from "../src/PullCommands.ts"
import * as SourceHostLocal from "../src/SourceHostLocal.ts"

const layer = LocalPullRequests.layer.pipe(
  Layer.provideMerge(SourceHostLocal.layer({ publicUrl: "https://slipway.example" })),
  Layer.provideMerge(LocalRepositories.layer),
  Layer.provideMerge(TestPostgres.layer(Migrations.layer))
)

const HEAD = "slipway/c_aaaaaaaaaaaa"
const author = { name: "Ada", email: "ada@example.com" }
const keep = { deleteBranch: false }

/** A bare repository with one commit on `main`, and a clone to work in. `pull` opens a pull request of the clone's files. */
const shop = Effect.fnUntraced(function*(files: Readonly<Record<string, string>> = { v: "0\n" }) {
  const repositories = yield* LocalRepositories
  const host = yield* SourceHost
  const folder = yield* temporaryFolder
  const [bare, work] = [join(folder, "shop.git"), join(folder, "work")]
  gitIn(folder, "init", "--quiet", "--initial-branch=main", work)
  const commit = (changes: Readonly<Record<string, string>>) => {
    for (const [name, content] of Object.entries(changes)) writeFileSync(join(work, name), content)
    gitIn(work, "add", "--all")
    gitIn(work, "commit", "--quiet", "--message", "change")
    return gitIn(work, "rev-parse", "HEAD")
  }
  commit(files)
  gitIn(folder, "clone", "--quiet", "--bare", work, bare)
  const fullName = RepoName.make(`acme/${randomUUID()}`)
  yield* repositories.register(fullName, bare)
  const onMain = (changes: Readonly<Record<string, string>>) => {
    gitIn(work, "switch", "--quiet", "main")
    const sha = commit(changes)
    gitIn(work, "push", "--quiet", bare, "main")
    return sha
  }
  const pull = Effect.fnUntraced(function*(changes: Readonly<Record<string, string>>, headRef = HEAD) {
    gitIn(work, "switch", "--quiet", "--create", headRef, "main")
    const headSha = commit(changes)
    gitIn(work, "push", "--quiet", bare, headRef)
    gitIn(work, "switch", "--quiet", "main")
    return yield* host.openDraftPullRequest(fullName, {
      title: "Change v",
      body: "",
      baseRef: "main",
      headRef,
      headSha,
      at: DateTime.makeUnsafe(0)
    })
  })
  return { fullName, bare, work, folder, commit, onMain, pull }
})

const refusal = <A, E>(self: Effect.Effect<A, E>) => Effect.map(Effect.flip(self), (error) => error as E & PullRequestRefused)

it.layer(layer, { excludeTestServices: true })("LocalPullRequests", (it) => {
  it.effect("lists by state and repository what is so now, the last changed first", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { bare, fullName, pull } = yield* shop()
      const other = yield* shop()
      for (const branch of ["a", "b", "c"]) yield* pull({ [branch]: "1\n" }, branch)
      yield* other.pull({ v: "1\n" })
      gitIn(bare, "branch", "-D", "b")
      const numbers = (state: "open" | "closed" | "all") =>
        Effect.map(pulls.list({ repo: fullName, state }), ({ pullRequests }) => pullRequests.map(({ pullRequest }) => pullRequest.number))
      assert.deepStrictEqual(yield* numbers("open"), [3, 1])
      assert.deepStrictEqual(yield* numbers("closed"), [2])
      assert.deepStrictEqual(yield* numbers("all"), [2, 3, 1])
      gitIn(bare, "branch", "-D", "c")
      assert.deepStrictEqual(yield* numbers("closed"), [3, 2])
      const everywhere = yield* pulls.list({ repo: null, state: "open" })
      const names = everywhere.pullRequests.map(({ repository }) => repository.fullName)
      assert.includeMembers(names, [fullName, other.fullName])
    }))

  it.effect("lists the others when a repository is gone from the disk, and names it", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { bare, fullName, pull } = yield* shop()
      yield* pull({ v: "1\n" })
      renameSync(bare, `${bare}-away`)
      const { pullRequests, unreadable } = yield* pulls.list({ repo: null, state: "open" })
      assert.isFalse(pullRequests.some(({ repository }) => repository.fullName === fullName))
      assert.deepInclude(unreadable, { fullName, path: bare })
      assert.deepInclude(yield* refusal(pulls.find(fullName, 1)), { reason: "unreadable" })
      renameSync(`${bare}-away`, bare)
    }))

  it.effect("an unknown repository and an unknown number say where to look", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { fullName } = yield* shop()
      const none = yield* refusal(pulls.find(RepoName.make("acme/none"), 1))
      assert.deepInclude(none, { _tag: "PullRequestRefused", reason: "unknown repository" })
      assert.deepInclude(yield* refusal(pulls.list({ repo: RepoName.make("acme/none"), state: "all" })), {
        reason: "unknown repository",
        number: null
      })
      assert.include(none.message, "acme/none #1: there is no such repository. Those there are: slipway repos list")
      const [merge, close, diff] = [
        yield* refusal(pulls.merge(fullName, 7, { author, ...keep })),
        yield* refusal(pulls.close(fullName, 7, keep)),
        yield* refusal(pulls.diff(fullName, 7, {}))
      ]
      for (const { message, reason } of [merge, close, diff]) {
        assert.strictEqual(reason, "unknown number")
        assert.include(message, `slipway pulls --repo ${fullName} --state all`)
      }
    }))

  it.effect("the diff is what the branch made since it left its base, before and after it was merged, and applies", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { bare, fullName, onMain, pull, work } = yield* shop({ v: "0\n", other: "0\n" })
      yield* pull({ v: "1\n", "naïve name": "new\n" })
      onMain({ other: "1\n" })
      const open = (yield* pulls.diff(fullName, 1, {})).toString()
      assert.deepStrictEqual(open.match(/^[+-].*/gmu), ["--- /dev/null", "+++ b/naïve name\t", "+new", "--- a/v", "+++ b/v", "-0", "+1"])
      yield* pulls.merge(fullName, 1, { author, ...keep })
      assert.strictEqual((yield* pulls.diff(fullName, 1, {})).toString(), open)
      writeFileSync(join(work, "..", "patch"), open)
      gitIn(work, "switch", "--quiet", "--detach", gitIn(bare, "merge-base", "main~1", HEAD))
      gitIn(work, "apply", "../patch")
      assert.strictEqual(readFileSync(join(work, "v"), "utf8"), "1\n")
      assert.match((yield* pulls.diff(fullName, 1, { statWidth: 40 })).toString(), /^ v +\| 2 \+-$/mu)
    }))

  it.effect("no program that a repository or a file names takes part in a diff or a merge", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { bare, folder, fullName, onMain, pull } = yield* shop({
        ".gitattributes": "* diff=evil filter=evil merge=evil\n",
        v: "0\n1\n2\n3\n4\n"
      })
      yield* pull({ v: "one\n1\n2\n3\n4\n" })
      onMain({ v: "0\n1\n2\n3\nfour\n" })
      const program = join(folder, "evil")
      writeFileSync(program, `#!/bin/sh\ntouch ${folder}/ran\n`)
      chmodSync(program, 0o755)
      for (
        const name of ["diff.evil.command", "diff.evil.textconv", "diff.external", "filter.evil.smudge", "merge.evil.driver", "core.pager",
          "pager.diff-tree"]
      ) {
        gitIn(bare, "config", name, program)
      }
      writeFileSync(join(bare, "info", "attributes"), "* diff=evil\n")
      for (const hook of ["reference-transaction", "post-merge", "update"]) {
        writeFileSync(join(bare, "hooks", hook), `#!/bin/sh\ntouch ${folder}/ran\n`)
        chmodSync(join(bare, "hooks", hook), 0o755)
      }
      gitIn(bare, "config", "color.ui", "always")
      gitIn(bare, "config", "diff.noprefix", "true")
      assert.include((yield* pulls.diff(fullName, 1, {})).toString(), "\n--- a/v\n+++ b/v\n@@ -1,4 +1,4 @@\n-0\n+one\n 1\n")
      assert.isTrue((yield* pulls.merge(fullName, 1, { author, ...keep })).pullRequest.merged)
      assert.notInclude(readdirSync(folder), "ran")
    }))

  it.effect("names of files hold no control characters in a diff, and what a submodule points to is shown", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { fullName, pull, work } = yield* shop()
      gitIn(work, "update-index", "--add", "--cacheinfo", `160000,${"1".repeat(40)},library`)
      yield* pull({ "bell\u0007\u001b[31m": "red\n" })
      const diff = (yield* pulls.diff(fullName, 1, {})).toString()
      for (const control of ["\u0007", "\u001b"]) assert.notInclude(diff, control)
      assert.include(diff, String.raw`"b/bell\a\033[31m"`)
    }))

  it.effect("a diff that cannot be made says why", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { bare, fullName, pull } = yield* shop()
      yield* pull({ v: "1\n" }, "ahead")
      gitIn(bare, "branch", "--force", "main", "ahead")
      const ahead = yield* refusal(pulls.diff(fullName, 1, {}))
      assert.deepInclude(ahead, { reason: "merged without a merge commit" })
      assert.include(ahead.message, `git -C ${bare} log -p`)

      yield* pull({ v: "2\n" }, "gone")
      gitIn(bare, "branch", "-D", "gone")
      assert.include((yield* pulls.diff(fullName, 2, {})).toString(), "+2")
      gitIn(bare, "gc", "--quiet", "--prune=now")
      assert.deepInclude(yield* refusal(pulls.diff(fullName, 2, {})), { reason: "no commit" })

      yield* pull({ v: "3\n" }, "baseless")
      gitIn(bare, "update-ref", "-d", "refs/heads/main")
      assert.deepInclude(yield* refusal(pulls.diff(fullName, 3, {})), { reason: "no base" })
      assert.deepInclude(yield* refusal(pulls.merge(fullName, 3, { author, ...keep })), { reason: "no base" })
    }))

  it.effect("merging puts a merge commit on the base, with both parents and its author, and keeps the branch", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { bare, fullName, onMain, pull } = yield* shop({ v: "0\n", other: "0\n" })
      const { headSha } = yield* pull({ v: "1\n" })
      const base = onMain({ other: "1\n" })
      const done = yield* pulls.merge(fullName, 1, { author, ...keep })
      assert.deepInclude(done, { changed: true, branchDeleted: false })
      assert.deepInclude(done.pullRequest, { state: "closed", merged: true, headSha, additions: 1, deletions: 1 })
      assert.strictEqual(
        gitIn(bare, "log", "-1", "--format=%P|%an <%ae>|%cn|%B", "main"),
        `${base} ${headSha}|Ada <ada@example.com>|Ada|Merge pull request #1 from ${HEAD}\n\nChange v`
      )
      assert.deepStrictEqual(["v", "other"].map((file) => gitIn(bare, "show", `main:${file}`)), ["1", "1"])
      assert.strictEqual(gitIn(bare, "rev-parse", HEAD), headSha)

      const tip = gitIn(bare, "rev-parse", "main")
      assert.deepInclude(yield* pulls.merge(fullName, 1, { author, deleteBranch: true }), { changed: false, branchDeleted: false })
      assert.strictEqual(gitIn(bare, "rev-parse", "main"), tip)
      assert.deepInclude(yield* refusal(pulls.close(fullName, 1, keep)), { reason: "merged" })
    }))

  it.effect("many merges at once are one merge commit", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { bare, fullName, pull } = yield* shop()
      yield* pull({ v: "1\n" })
      const ended = yield* Effect.forEach(["Ada", "Bob", "Cy", "Di"], (name) =>
        Effect.result(pulls.merge(fullName, 1, { author: { ...author, name }, ...keep })), { concurrency: "unbounded" })
      for (const one of ended) {
        if (one._tag === "Success") {
          assert.isTrue(one.success.pullRequest.merged)
        } else assert.deepInclude(one.failure, { reason: "moved" })
      }
      assert.lengthOf(
        ended.filter((one) =>
          one._tag === "Success" && one.success.changed
        ),
        1
      )
      assert.strictEqual(gitIn(bare, "rev-list", "--count", "--merges", "main"), "1")
    }))

  it.effect("a conflict changes nothing, and the commands it names merge by hand", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { bare, fullName, onMain, pull, work } = yield* shop()
      yield* pull({ v: "1\n" })
      const base = onMain({ v: "2\n" })
      const refused = yield* refusal(pulls.merge(fullName, 1, { author, ...keep }))
      assert.strictEqual(refused.reason, "conflict")
      const commands = mergeCommands(yield* pulls.find(fullName, 1))
      assert.include(refused.message, commands.join(" && "))
      assert.strictEqual(gitIn(bare, "rev-parse", "main"), base)
      assert.strictEqual((yield* pulls.find(fullName, 1)).pullRequest.state, "open")

      const run = (line: string) => gitIn(work, ...line.split(" ").slice(1))
      const [push = "", conflicting = "", ...before] = commands.toReversed()
      for (const line of before.toReversed()) run(line)
      assert.throws(() => run(conflicting))
      writeFileSync(join(work, "v"), "both\n")
      gitIn(work, "commit", "--quiet", "--all", "--no-edit")
      run(push)
      assert.isTrue((yield* pulls.find(fullName, 1)).pullRequest.merged)
    }))

  it.effect("a clean checkout of the base follows: its files are the merged ones, what git does not know stays", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const repositories = yield* LocalRepositories
      const { bare, folder, fullName, pull, work } = yield* shop({ v: "0\n", other: "0\n" })
      yield* pull({ v: "1\n", added: "new\n" }, "a")
      yield* pull({ other: "1\n" }, "b")
      yield* repositories.register(fullName, work)
      writeFileSync(join(work, "notes"), "mine\n")
      const done = yield* pulls.merge(fullName, 1, { author, ...keep })
      assert.deepInclude(done, { changed: true, checkout: work })
      assert.isTrue(done.pullRequest.merged)
      assert.strictEqual(gitIn(work, "symbolic-ref", "--short", "HEAD"), "main")
      assert.deepStrictEqual(["v", "added", "notes"].map((name) => readFileSync(join(work, name), "utf8")), ["1\n", "new\n", "mine\n"])
      assert.strictEqual(gitIn(work, "status", "--porcelain"), "?? notes")
      assert.strictEqual(gitIn(work, "log", "-1", "--format=%an"), "Ada")

      yield* repositories.register(fullName, bare)
      gitIn(bare, "fetch", "--quiet", work, "main:main")
      const linked = join(folder, "linked tree")
      gitIn(bare, "worktree", "add", "--quiet", linked, "main")
      assert.deepInclude(yield* pulls.merge(fullName, 2, { author, ...keep }), { checkout: linked })
      assert.strictEqual(readFileSync(join(linked, "other"), "utf8"), "1\n")
      assert.strictEqual(gitIn(linked, "status", "--porcelain"), "")
    }))

  it.effect("runs no program that the merged files or the repository name", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const repositories = yield* LocalRepositories
      const { folder, fullName, pull, work } = yield* shop()
      const ran = join(folder, "ran")
      yield* pull({ v: "1\n" }, "plain")
      yield* pull({ ".gitattributes": "*.bin filter=evil\n", "x.bin": "x\n" }, "filtered")
      yield* repositories.register(fullName, work)
      gitIn(work, "config", "filter.evil.smudge", `touch ${ran}`)
      gitIn(work, "config", "core.fsmonitor", `touch ${ran}`)
      gitIn(work, "config", "merge.verifySignatures", "true")
      writeFileSync(join(work, ".git/hooks/post-merge"), `#!/bin/sh\ntouch ${ran}\n`, { mode: 0o755 })
      const main = gitIn(work, "-c", "core.fsmonitor=false", "rev-parse", "main")
      const refused = yield* refusal(pulls.merge(fullName, 2, { author, ...keep }))
      assert.include(refused.message, `such as LFS. Merge it there: cd ${work} && git merge --no-ff filtered`)
      assert.strictEqual(gitIn(work, "-c", "core.fsmonitor=false", "rev-parse", "main"), main)
      assert.isTrue((yield* pulls.merge(fullName, 1, { author, ...keep })).pullRequest.merged)
      assert.isFalse(existsSync(ran))
    }))

  it.effect("a checkout of the base with something uncommitted is left alone, and so is any of its worktrees", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const repositories = yield* LocalRepositories
      const { bare, folder, fullName, pull, work } = yield* shop()
      yield* pull({ v: "1\n", added: "new\n" })
      gitIn(bare, "worktree", "add", "--quiet", join(folder, "linked tree"), "main")
      writeFileSync(join(folder, "linked tree/v"), "mine\n")
      const linked = yield* refusal(pulls.merge(fullName, 1, { author, ...keep }))
      assert.strictEqual(linked.reason, "checked out")
      assert.include(linked.message, `cd '${join(folder, "linked tree")}' && git merge --no-ff ${HEAD}`)
      gitIn(bare, "worktree", "remove", "--force", join(folder, "linked tree"))

      yield* repositories.register(fullName, work)
      const main = gitIn(work, "rev-parse", "main")
      const untouched = Effect.fnUntraced(function*(why: string, restore: () => void) {
        const status = gitIn(work, "status", "--porcelain")
        const found = yield* refusal(pulls.merge(fullName, 1, { author, ...keep }))
        assert.include(found.message, `main is checked out in ${work}, ${why}`)
        assert.deepStrictEqual([gitIn(work, "rev-parse", "main"), gitIn(work, "status", "--porcelain")], [main, status])
        restore()
      })
      writeFileSync(join(work, "v"), "mine\n")
      yield* untouched("where something is not committed yet", () => gitIn(work, "add", "v"))
      yield* untouched("where something is not committed yet", () => gitIn(work, "reset", "--hard", "--quiet"))
      writeFileSync(join(work, "added"), "mine\n")
      yield* untouched("where a file that git does not know is in the way", () => rmSync(join(work, "added")))
      gitIn(work, "switch", "--quiet", "--create", "mine")
      assert.isTrue((yield* pulls.merge(fullName, 1, { author, ...keep })).pullRequest.merged)
      assert.strictEqual(gitIn(work, "show", "main:v"), "1")
      assert.strictEqual(gitIn(work, "status", "--porcelain"), "")
    }))

  it.effect("what is named for a checkout merges there, and what fetches it works in any clone", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const repositories = yield* LocalRepositories
      const { folder, fullName, pull, work } = yield* shop()
      const { headSha } = yield* pull({ v: "1\n" })
      yield* repositories.register(fullName, work)
      gitIn(folder, "clone", "--quiet", work, "mine")
      const run = (where: string, line: string) => line.startsWith("cd ") ? "" : gitIn(where, ...line.split(" ").slice(1))
      const found = yield* pulls.find(fullName, 1)
      for (const line of fetchCommands(found)) run(join(folder, "mine"), line)
      assert.strictEqual(gitIn(join(folder, "mine"), "rev-parse", "HEAD"), headSha)
      assert.strictEqual(mergeCommands(found)[0], `cd ${work}`)
      for (const line of mergeCommands(found)) run(work, line)
      assert.isTrue((yield* pulls.find(fullName, 1)).pullRequest.merged)
    }))

  it.effect("closing keeps the branch, may be repeated, cannot be merged after, and leaves room for the next one", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const host = yield* SourceHost
      const { bare, fullName, pull } = yield* shop()
      const { headSha } = yield* pull({ v: "1\n" })
      const done = yield* pulls.close(fullName, 1, keep)
      assert.deepInclude(done, { changed: true, branchDeleted: false })
      assert.deepInclude(done.pullRequest, { state: "closed", merged: false, headSha })
      assert.strictEqual(gitIn(bare, "rev-parse", HEAD), headSha)
      assert.isNull(yield* host.findOpenPullRequest(fullName, HEAD))
      assert.deepInclude(yield* pulls.close(fullName, 1, { deleteBranch: true }), { changed: false, branchDeleted: false })
      assert.deepInclude(yield* refusal(pulls.merge(fullName, 1, { author, ...keep })), { reason: "closed" })
      assert.include((yield* pulls.diff(fullName, 1, {})).toString(), "+1")

      const next = yield* host.openDraftPullRequest(fullName, {
        title: "t",
        body: "",
        baseRef: "main",
        headRef: HEAD,
        headSha,
        at: DateTime.makeUnsafe(0)
      })
      assert.strictEqual(next.number, 2)
      assert.deepInclude(yield* pulls.close(fullName, 2, { deleteBranch: true }), { changed: true, branchDeleted: true })
      assert.strictEqual(gitIn(bare, "branch", "--list", HEAD), "")
    }))

  it.effect("a branch that is checked out is not deleted, and then nothing is done", () =>
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { bare, folder, fullName, pull } = yield* shop()
      yield* pull({ v: "1\n" })
      gitIn(bare, "worktree", "add", "--quiet", join(folder, "review"), HEAD)
      for (const attempt of [pulls.close(fullName, 1, { deleteBranch: true }), pulls.merge(fullName, 1, { author, deleteBranch: true })]) {
        assert.deepInclude(yield* refusal(attempt), { reason: "checked out" })
      }
      assert.strictEqual((yield* pulls.find(fullName, 1)).pullRequest.state, "open")
      assert.isTrue((yield* pulls.merge(fullName, 1, { author, ...keep })).pullRequest.merged)
    }))
})
