/** Setup with git and processes of this machine: what a command does to the tree, the home, its pipes and what it leaves running. */
import { assert, it } from "@effect/vitest"
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import * as OutputRedactor from "@slipway/domain/environment/redaction/OutputRedactor"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import * as SecretStoreMemory from "@slipway/domain/memory/environment/SecretStoreMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Effect, Layer, Redacted, DateTime } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as RunSetup from "../../src/setup/RunSetup.ts"
import * as LeasedSandbox from "../../src/shared/LeasedSandbox.ts"
import { create, principal, REPO } from "../Doubles.ts"

const CANARY = "canary-7Qm2-registry-token"

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-setup-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const Live = Layer.unwrap(Effect.map(directory, (path) =>
  WorkingTreesGit.layer({ directory: join(path, "trees") }).pipe(
    Layer.provideMerge(SandboxHostNone.layer({ directory: join(path, "boxes"), workspaceOf: workspacesIn(join(path, "trees")) }))
  ))).pipe(
    Layer.provideMerge(Layer.mergeAll(SandboxStoreMemory.layer, SecretStoreMemory.layer, OutputRedactor.layer)),
    Layer.provideMerge(Layer.merge(HintsMemory.layer, IdsNode.layer))
  )

const makeOrigin = (path: string, files: Readonly<Record<string, string>>) => {
  const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", path, ...args], { stdio: "pipe" })
  mkdirSync(path)
  git("init", "--quiet", "--initial-branch=main")
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), content)
  }
  git("add", ".")
  git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "First")
}

/** A sandbox of a repository with these files, with its tree and box. */
const prepared = Effect.fnUntraced(function*(files: Readonly<Record<string, string>>) {
  const trees = yield* WorkingTrees
  const host = yield* SandboxHost
  const origin = join(yield* directory, "origin")
  makeOrigin(origin, files)
  const id = yield* create()
  const [leased] = yield* (yield* Leases).take({ worker: "worker", machine: "machine" }, { slots: 1, boots: 1, errands: 1 })
  if (leased === undefined) return assert.fail("nothing to lease")
  const held = yield* LeasedSandbox.make(leased)
  yield* held.write([{ _tag: "StartBoot" }])
  const remote = { url: origin, authorization: null }
  yield* trees.prepare({ sandboxId: id, repo: REPO }, { remote, ref: undefined, defaultBranch: "main", repos: [REPO] })
  const box = yield* host.provision(held.lease)
  yield* Effect.addFinalizer(() => Effect.orDie(host.stop(id)))
  const tree = join(box.workspace, "site")
  return {
    box,
    tree,
    setUp: RunSetup.run(held, box, { isFresh: true }),
    log: SandboxStore.use((store) => store.log(id, 0, 100)),
    record: Effect.flatMap(Setups, (setups) => setups.find(id))
  }
})

const environment = (more: object) => ({ ".slipway/environment.json": JSON.stringify(more) })

it.live("runs in the folder, as the commit says and not the tree, and says which tracked files it changed", () =>
  Effect.gen(function*() {
    const { record, setUp, tree } = yield* prepared({
      ...environment({
        setup: ["pwd; echo $CI >&2", "echo two > tracked.txt; mkdir node_modules; echo x > node_modules/a"],
        env: { CI: "yes" }
      }),
      "tracked.txt": "one\n",
      ".gitignore": "node_modules\n"
    })
    writeFileSync(join(tree, ".slipway/environment.json"), JSON.stringify({ setup: ["touch planted"] }))
    const { env, told } = yield* setUp
    assert.isFalse(existsSync(join(tree, "planted")))
    assert.deepStrictEqual(env, { CI: "yes" })
    assert.strictEqual((yield* record)?.output.split("\n").slice(0, 3).join("\n"), `$ pwd; echo $CI >&2\n${tree}\nyes`)
    assert.match(told ?? "", /of this sandbox: `\.slipway\/environment\.json`, `tracked\.txt`\.\n$/u)
    assert.strictEqual(readFileSync(join(tree, "tracked.txt"), "utf8"), "two\n")
  }).pipe(Effect.scoped, Effect.provide(Live)))

it.live("ends what a command leaves running, though it holds the output, and goes on", () =>
  Effect.gen(function*() {
    const { record, setUp, tree } = yield* prepared(environment({
      setup: ["(trap '' TERM HUP; setsid sh -c 'echo $$ > pid; exec sleep 600') & until [ -s pid ]; do :; done", "echo done > next"]
    }))
    yield* setUp
    assert.deepInclude(yield* record, { state: "succeeded", exitCode: 0 })
    assert.isTrue(existsSync(join(tree, "next")))
    const pid = Number(readFileSync(join(tree, "pid"), "utf8"))
    // A process that has ended and that init has not asked about is listed as Z.
    const stat = `/proc/${pid}/stat`
    assert.isTrue(!existsSync(stat) || readFileSync(stat, "utf8").includes(") Z "), "it goes on")
  }).pipe(Effect.scoped, Effect.provide(Live)))

it.live(
  "takes output without end up to the last MiB, and says how a command failed that a signal or a missing program ended",
  () =>
    Effect.gen(function*() {
      const { record, setUp } = yield* prepared(environment({ setup: ["yes | head -c 20000000; kill -9 $$"] }))
      yield* setUp
      const { exitCode, output = "", state } = (yield* record) ?? {}
      assert.deepStrictEqual([state, exitCode], ["failed", null])
      assert.isAtMost(Buffer.byteLength(output), 2 ** 20)
      assert.isTrue(output.endsWith("y\ny\nIt was ended by SIGKILL.\n"))

      const other = yield* prepared(environment({ setup: ["no-such-program"] }))
      yield* other.setUp
      assert.deepInclude(yield* other.record, { state: "failed", exitCode: 127 })
      assert.include((yield* other.record)?.output, "no-such-program")
    }).pipe(Effect.scoped, Effect.provide(Live))
)

it.live(
  "leaves no secret to the agent: not in its environment, nor in the files of home and tree where tools put it",
  () =>
    Effect.gen(function*() {
      const secrets = yield* SecretStore
      yield* secrets.set({ grantId: principal.grantId, repo: REPO, name: "NPM_TOKEN" }, Redacted.make(CANARY), yield* DateTime.now)
      const { box, log, record, setUp, tree } = yield* prepared(environment({
        setup: [
          "echo //registry/:_authToken=$NPM_TOKEN > ~/.npmrc; mkdir -p ~/.docker ~/.cargo; echo $NPM_TOKEN > ~/.docker/config.json",
          "echo $NPM_TOKEN > ~/.cargo/credentials.toml; echo kept > ~/.cargo/env; printf %s $NPM_TOKEN | base64",
          "tr '\\0' '\\n' < /proc/$$/cmdline"
        ],
        secrets: ["NPM_TOKEN"]
      }))
      const { env, told } = yield* setUp
      assert.deepInclude(yield* record, { state: "succeeded" })
      const files = (folder: string) =>
        readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
          .map((entry) => join(entry.parentPath, entry.name))
      assert.include(files(box.home), join(box.home, ".cargo/env"))
      for (const path of [...files(box.home), ...files(tree)]) assert.isFalse(readFileSync(path).includes("7Qm2"), path)
      assert.include((yield* log).at(-1)?.wire, `"stage":"setup"`)
      const shown = JSON.stringify([env, told, yield* log, yield* record])
      assert.notInclude(shown, CANARY)
      assert.notInclude(shown, Buffer.from(CANARY).toString("base64").slice(0, 30))
    }).pipe(Effect.scoped, Effect.provide(Live))
)
