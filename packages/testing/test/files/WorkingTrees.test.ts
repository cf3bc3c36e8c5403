import { assert, it } from "@effect/vitest"
import { type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { MemoryDisk } from "@slipway/domain/memory/files/MemoryDisk"
import { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { register } from "@slipway/testing/runners/Vitest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { Memory, suites } from "./WorkingTrees.suites.ts"

register(...suites())

const shop = RepoName.make("acme/shop")
const other = RepoName.make("other/shop")
const author = { name: "Slipway", email: "slipway@example.com" }

/** Boots a sandbox over two repositories of one name and has the agent follow the script. */
const work = Effect.fnUntraced(function*(sandboxId: SandboxId, script: string) {
  const host = yield* SourceHost
  const trees = yield* WorkingTrees
  const repos = [shop, other]
  for (const repo of repos) {
    const { defaultBranch } = yield* host.repository(repo)
    yield* trees.prepare({ sandboxId, repo }, { remote: yield* host.remote(repo, "read"), ref: undefined, defaultBranch, repos })
  }
  const box = yield* (yield* SandboxHost).provision({ sandboxId, fence: 1 })
  const agent = yield* (yield* AgentRuntime).open({
    box,
    profile: "offline",
    model: "offline/demo",
    access: null,
    instructions: null,
    reasoningEffort: null,
    toolApprovalMode: "auto",
    repositories: repos.map((name) => ({ name, folder: trees.folder(name, repos) })),
    resume: null
  })
  yield* agent.prompt({ turnId: "01900000-0000-7000-8000-000000000000", text: script, onEvent: () => Effect.void })
})

it.effect("what the agent writes in memory is listed, read, compared, published and opened for review", () =>
  Effect.gen(function*() {
    const { add } = yield* MemoryRepositories
    add(shop, { "README.md": "# Shop\n", "old": "1\n" }, "trunk")
    add(other, { v: "0\n" })
    const [trees, host] = [yield* WorkingTrees, yield* SourceHost]
    const key: TreeKey = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: shop }
    yield* work(key.sandboxId, "[[write path=src/a.ts content=one]] [[delete path=old]] [[write repo=other/shop path=v content=2]]")

    assert.deepStrictEqual((yield* trees.list(key, "")).entries.map(({ name, status }) => [name, status]), [
      ["src", "untracked"],
      ["README.md", null],
      ["old", "deleted"]
    ])
    const { bytes } = yield* trees.open(key, "src/a.ts", 100)
    assert.strictEqual(yield* Stream.mkString(Stream.decodeText(bytes)), "one\n")
    assert.deepInclude((yield* trees.compare({ ...key, repo: other }, "v", 10)).working, { content: "2\n", ref: "working", size: 2 })

    const { baseRef, sha } = yield* trees.snapshot(key, { message: "Add a", author })
    yield* trees.push(key, { sha, headRef: "slipway/x", remote: yield* host.remote(shop, "write") })
    const at = yield* DateTime.now
    const pull = yield* host.openDraftPullRequest(shop, {
      title: "Add a",
      body: "",
      baseRef: baseRef ?? "",
      headRef: "slipway/x",
      headSha: sha,
      at
    })
    assert.deepInclude(pull, { baseRef: "trunk", headSha: sha, additions: 1, deletions: 1, changedFiles: 2 })
  }).pipe(Effect.scoped, Effect.provide(Memory)))

it.effect("worlds have nothing in common, and equal ones give equal commits", () =>
  Effect.gen(function*() {
    const live = Effect.gen(function*() {
      const { add } = yield* MemoryRepositories
      const trees = yield* WorkingTrees
      const key: TreeKey = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: shop }
      assert.deepStrictEqual([yield* trees.sandboxes, (yield* MemoryDisk).files.size], [[], 0])
      add(shop, { v: "0\n" })
      add(other, {})
      yield* work(key.sandboxId, "[[write path=v content=1]]")
      const { entries } = yield* trees.list(key, "")
      return { entries, sha: (yield* trees.snapshot(key, { message: "x", author })).sha }
    }).pipe(Effect.scoped, Effect.provide(Memory, { local: true }))
    assert.deepStrictEqual(yield* live, yield* live)
  }))

it.effect("a file was changed when it was written, and nothing of it is left when its tree is deleted", () =>
  Effect.gen(function*() {
    const { add } = yield* MemoryRepositories
    add(shop, { v: "0\n", w: "0\n" })
    add(other, { v: "0\n" })
    const trees = yield* WorkingTrees
    const key: TreeKey = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: shop }
    yield* TestClock.setTime(1_000)
    yield* work(key.sandboxId, "[[slow 1 500]] [[write path=v content=1]]").pipe(
      Effect.forkChild,
      Effect.andThen(TestClock.adjust("1 second"))
    )
    assert.deepStrictEqual((yield* trees.list(key, "")).entries.map(({ mtimeMs, name }) => [name, mtimeMs]), [["v", 1_500], ["w", 1_000]])
    yield* trees.remove(key.sandboxId)
    const left = Array.from((yield* MemoryDisk).files.keys())
    // The agent's home is the host's to give back.
    assert.deepStrictEqual(left.filter((path) => !path.startsWith("/memory/home/")), [])
  }).pipe(Effect.scoped, Effect.provide(Memory)))

it.effect("a file hides what an agent wrote below it, until it is deleted", () =>
  Effect.gen(function*() {
    const { add, find } = yield* MemoryRepositories
    add(shop, { a: "0\n", b: "0\n" })
    add(other, {})
    const trees = yield* WorkingTrees
    const key: TreeKey = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: shop }
    yield* work(key.sandboxId, "[[write path=a/x content=1]] [[write path=b/x content=1]] [[delete path=b]]")
    assert.deepStrictEqual((yield* trees.list(key, "")).entries.map(({ kind, name }) => [name, kind]), [["b", "directory"], ["a", "file"]])
    const { sha } = yield* trees.snapshot(key, { message: "x", author })
    yield* trees.push(key, { sha, headRef: "x", remote: { url: "file:///memory/acme/shop", authorization: null } })
    assert.deepStrictEqual(find(shop)?.filesOf(sha), { a: "0\n", "b/x": "1\n" })
  }).pipe(Effect.scoped, Effect.provide(Memory)))
