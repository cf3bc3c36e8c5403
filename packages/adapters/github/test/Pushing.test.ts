/** Another push of the same sandbox arrives while one is on its way: a git goes on when its worker is killed. */
import { assert, it } from "@effect/vitest"
import { type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { agent, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as Trees from "@slipway/git/testing/Trees"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { layer, repository, TestGitHub } from "./TestGitHub.ts"

const HEAD = "slipway/x"

/** Pushes `first`, and then `second` on it while somebody sets the branch to what `meanwhile` says. */
const pushWhile = Effect.fnUntraced(function*(meanwhile: (second: string, other: string) => string) {
  const server = yield* TestGitHub
  const host = yield* SourceHost
  const { fullName: repo, repository: there } = yield* repository({ v: "0\n" })
  const other = yield* Effect.promise(() => there.commit("other", { v: "another's\n" }))
  const key: TreeKey = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo }
  const directory = yield* temporaryFolder
  return yield* Effect.gen(function*() {
    const trees = yield* WorkingTrees
    yield* trees.prepare(key, { remote: yield* host.remote(repo, "read"), ref: undefined, defaultBranch: "trunk", repos: [repo] })
    const commit = Effect.fnUntraced(function*(content: string, head: string | null) {
      yield* agent.write(join(workspacesIn(directory)(key.sandboxId), trees.folder(repo, [repo]), "v"), content)
      const since = { head, merges: [], remote: yield* host.remote(repo, "write") }
      return (yield* trees.snapshot(key, { message: "x", author: { name: "S", email: "s@example.com" }, since })).sha
    })
    const push = (sha: string, expected: string | null) =>
      Effect.flatMap(host.remote(repo, "write"), (remote) => trees.push(key, { sha, headRef: HEAD, remote, expected }))
    const first = yield* commit("1\n", null)
    yield* push(first, null)
    const second = yield* commit("2\n", first)
    let isFirst = true
    server.watch(({ method, url }) => {
      if (!isFirst || method !== "POST" || !url.endsWith(`${there.name}.git/git-receive-pack`)) return
      isFirst = false
      const tip = meanwhile(second, other)
      execFileSync("git", ["--git-dir", there.bare.path, "update-ref", `refs/heads/${HEAD}`, tip])
    })
    const pushed = yield* Effect.result(push(second, first))
    assert.isFalse(isFirst)
    return { other, pushed, second, tip: (yield* Effect.promise(() => there.bare.branches())).get(HEAD) }
  }).pipe(Effect.provide(Trees.layer({ directory })))
})

it.layer(layer())("A push that meets another one", (it) => {
  it.effect("of somebody else replaces nothing", () =>
    Effect.gen(function*() {
      const { other, pushed, tip } = yield* pushWhile((_, other) => other)
      assert.deepInclude(pushed, { _tag: "Failure" })
      assert.strictEqual(tip, other)
    }))
})
