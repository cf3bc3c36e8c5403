/** From an agent's git in its box to a commit of the host, on real processes and real git. */
import { assert, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Effect, Layer, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as AgentHistory from "../../src/publish/AgentHistory.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const git = (path: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["-C", path, "-c", "user.name=A", "-c", "user.email=a@b", ...args], { stdio: "pipe", encoding: "utf8" }).trim()

const prepared = Effect.gen(function*() {
  const path = yield* Effect.acquireRelease(
    Effect.sync(() => realpathSync(mkdtempSync(join(tmpdir(), "slipway-history-")))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
  )
  const origin = join(path, "origin")
  mkdirSync(origin)
  git(origin, "init", "--quiet", "--initial-branch=main")
  writeFileSync(join(origin, "README.md"), "# App\n")
  git(origin, "add", ".")
  git(origin, "commit", "--quiet", "-m", "First")
  return yield* Effect.gen(function*() {
    const trees = yield* WorkingTrees
    const host = yield* SandboxHost
    const { baseSha } = yield* trees.prepare(key, {
      remote: { url: origin, authorization: null },
      ref: undefined,
      defaultBranch: "main",
      repos: [key.repo]
    })
    const box = yield* host.provision({ sandboxId: key.sandboxId, fence: 1 })
    const run = (script: string) =>
      Effect.gen(function*() {
        const process = yield* box.spawn({ command: "sh", args: ["-c", `cd app && ${script}`], env: {} })
        const output = yield* Stream.mkString(Stream.decodeText(process.stdout))
        assert.strictEqual((yield* process.exited).code, 0, yield* process.stderrTail)
        return output.trim()
      }).pipe(Effect.scoped)
    const history = AgentHistory.read(box, "app")
    const snapshot = trees.snapshot(key, { message: "the rest", author: { name: "S", email: "s@t" }, history })
    return { baseSha, history, run, snapshot }
  }).pipe(Effect.provide(
    yield* Layer.build(Layer.mergeAll(
      WorkingTreesGit.layer({ directory: join(path, "trees") }).pipe(
        Layer.provideMerge(SandboxHostNone.layer({ directory: join(path, "boxes"), workspaceOf: workspacesIn(join(path, "trees")) }))
      )
    ))
  ))
})

it.live("the commits that an agent makes with its own git are kept", () =>
  Effect.gen(function*() {
    const { run, snapshot } = yield* prepared
    yield* run("echo one > a && git add a && git commit -qm One && echo two > a && git commit -qam Two")
    assert.strictEqual((yield* snapshot).sha, yield* run("git rev-parse HEAD"))
  }))

it.live("an agent that commits nothing, or has no repository any more, sends nothing", () =>
  Effect.gen(function*() {
    const { baseSha, history, run, snapshot } = yield* prepared
    const sent = Stream.runFold(history(baseSha), () => 0, (sum, chunk) => sum + chunk.length)
    assert.strictEqual(yield* sent, 0)
    yield* run("rm -rf .git && echo x > a")
    assert.strictEqual(yield* sent, 0)
    assert.lengthOf((yield* snapshot).sha, 40)
  }))

it.live("what an agent's git runs there is no commit of the host", () =>
  Effect.gen(function*() {
    const { baseSha, history, run, snapshot } = yield* prepared
    yield* run("git config core.fsmonitor 'touch fired; echo' && mkdir bin && echo x > a && git add a && git commit -qm One")
    yield* run("git config alias.pack-objects '!cat /dev/zero'")
    const mine = yield* run("git rev-parse HEAD")
    assert.strictEqual((yield* Stream.mkString(Stream.decodeText(Stream.take(history(baseSha), 1)))).slice(0, 40), mine)
    assert.lengthOf((yield* snapshot).sha, 40)
  }))
