/** Git inspects an agent's files: the agent may make that long, or lead it elsewhere, and harms itself alone. */
import { assert, it } from "@effect/vitest"
import { OnBehalfOf, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { source, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as Trees from "@slipway/git/testing/Trees"
import * as Egress from "@slipway/machine/egress/Egress"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { freshId, hostIn, isRoot, openFolder } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { Context, Effect, Fiber, Layer } from "effect"
import { execFile, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdirSync, readdirSync, readFileSync, readlinkSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import * as Machines from "../../testing/Machines.fixture.ts"
import * as RealMachines from "../../testing/RealMachines.ts"

const repo = RepoName.make("acme/app")

interface World {
  readonly name: string
  readonly absent: string | undefined
  /** Trees that are known in `<folder>/trees`. */
  readonly layerIn: (folder: string) => Layer.Layer<WorkingTrees, unknown>
  readonly workspaceIn: (folder: string, sandboxId: SandboxId) => string
}

const worlds: ReadonlyArray<World> = [
  {
    name: "in boxes",
    absent: undefined,
    layerIn: (folder) =>
      Trees.layerOn(
        Layer.provide(hostIn(folder, { workspaceOf: workspacesIn(join(folder, "trees")) }), Egress.layer({ allow: new Set() })),
        { directory: join(folder, "trees") }
      ),
    workspaceIn: (folder, sandboxId) => workspacesIn(join(folder, "trees"))(sandboxId)
  },
  {
    name: "in machines",
    absent: Machines.absent("bubblewrap"),
    layerIn: (folder) => RealMachines.layerIn(folder, "bubblewrap"),
    workspaceIn: Machines.workspaceIn
  }
]

const serviceIn = Effect.fnUntraced(function*({ layerIn, workspaceIn }: World) {
  const folder = yield* openFolder
  const trees = Context.get(yield* Layer.build(layerIn(folder)), WorkingTrees)
  const origin = yield* source({ "README.md": "# app\n", "dir/file": "inside\n" })
  const sandbox = Effect.gen(function*() {
    const key = { sandboxId: freshId(), repo }
    yield* Effect.acquireRelease(
      trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [repo] }),
      () => Effect.orDie(trees.remove(key.sandboxId))
    )
    return {
      key,
      tree: realpathSync(join(workspaceIn(folder, key.sandboxId), "app")),
      gitDir: join(folder, "trees", "sandboxes", key.sandboxId, "git", "acme+app")
    }
  })
  return { trees, sandbox }
})

/** Whose the git processes of this machine are that look over `tree`, or stand in it. */
const gitOver = (tree: string): ReadonlyArray<number> =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((id) => {
    try {
      if (!/^Name:\tgit$/mu.test(readFileSync(`/proc/${id}/status`, "utf8"))) return []
      const isThere = readlinkSync(`/proc/${id}/cwd`).startsWith(tree) || readFileSync(`/proc/${id}/environ`, "utf8").includes(`=${tree}`)
      return isThere ? [Number(/^Uid:\t(\d+)/mu.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1])] : []
    } catch {
      return [] // ended meanwhile
    }
  })

/** They judge what others have to wait, or race. */
const ALONE = { timeout: 300_000, concurrent: false }

const PATTERNS = 60_000
const FILES = 20_000
const LISTINGS = 40
/** In which another tenant's listing is there, on a machine that is busy with more than this. */
const BOUND_MILLIS = 10_000

it.live.each(worlds.filter(({ absent }) => isRoot && absent === undefined))(
  "40 listings under 60,000 ignore patterns run as their sandbox's user, one at a time, and another tenant is answered meanwhile: $name",
  (world) =>
    Effect.gen(function*() {
      const { sandbox, trees } = yield* serviceIn(world)
      const [hostile, other] = [yield* sandbox, yield* sandbox]
      writeFileSync(join(hostile.tree, ".gitignore"), Array.from({ length: PATTERNS }, (_, i) => `**/a*b*c*${i}*/x*y\n`).join(""))
      for (let i = 0; i < FILES; i++) {
        if (i % 1_000 === 0) mkdirSync(join(hostile.tree, `many${i / 1_000}`))
        writeFileSync(join(hostile.tree, `many${Math.floor(i / 1_000)}`, `abcabcabc${i}`), "")
      }

      const listings = yield* Effect.forkChild(Effect.provideService(
        Effect.all(Array.from({ length: LISTINGS }, () => trees.list(hostile.key, "")), { concurrency: "unbounded" }),
        OnBehalfOf,
        "hostile"
      ))
      const seen = new Set<number>()
      let most = 0
      const watching = yield* Effect.forkChild(Effect.forever(Effect.andThen(
        Effect.sync(() => {
          const found = gitOver("/workspace").concat(gitOver(hostile.tree))
          most = Math.max(most, found.length)
          for (const uid of found) seen.add(uid)
        }),
        Effect.sleep(20)
      )))

      const delays: Array<number> = []
      for (let i = 0; i < 5; i++) {
        writeFileSync(join(other.tree, "new"), "x".repeat(i))
        const started = performance.now()
        const { entries, partialWarnings } = yield* Effect.provideService(trees.list(other.key, ""), OnBehalfOf, "other")
        delays.push(performance.now() - started)
        assert.deepStrictEqual([partialWarnings, entries.find(({ name }) => name === "new")?.status], [[], "untracked"])
      }
      const answers = yield* Fiber.join(listings)
      yield* Fiber.interrupt(watching)
      const waited = delays.map((delay) => Math.round(delay)).join(", ")
      const users = [...seen].join(", ")
      process.stdout.write(
        `\nHostile ignore rules: the other tenant waited ${waited} ms; users of git: ${users}; at most ${most} at once\n`
      )
      assert.strictEqual(answers.length, LISTINGS)
      for (const { entries } of answers) assert.isTrue(entries.some(({ name }) => name === "many0"))
      assert.isBelow(Math.max(...delays), BOUND_MILLIS)
      assert.notInclude([...seen], 0)
      assert.isAbove(seen.size, 0)
      // One of each sandbox, and what it starts itself.
      assert.isAtMost(most, 4)
    }),
  ALONE
)

const FOR_MILLIS = 20_000

/** Exchanges the two in one step (renameat2 with RENAME_EXCHANGE), as fast as it can, and counts. Arguments: the tree. */
const SWAP = `
chdir $ARGV[0] or die $!;
my ($folder, $link, $swaps, $running) = ("dir", "link", 0, 1);
$SIG{TERM} = sub { $running = 0 };
syswrite STDOUT, "\n";
while ($running) { syscall(${process.arch === "arm64" ? 276 : 316}, -100, $folder, -100, $link, 2) == 0 or die $!; $swaps++ }
print $swaps;
`

it.live.each(worlds.filter(({ absent }) => absent === undefined))(
  "swapping a folder for a link for 20 seconds has git tell of no file behind it and publish none; git of the host would: $name",
  (world) =>
    Effect.gen(function*() {
      const { sandbox, trees } = yield* serviceIn(world)
      const { gitDir, key, tree } = yield* sandbox
      const outside = yield* temporaryFolder
      // A name that the tree has, with more lines than any file of the tree; and a name that the tree has not.
      const [name, lines, secret] = ["planted-by-the-host", 4_321, "from outside the tree"]
      const content = `${secret}\n`.repeat(lines)
      writeFileSync(join(outside, name), content)
      writeFileSync(join(outside, "file"), content)
      symlinkSync(outside, join(tree, "link"))
      writeFileSync(join(tree, "dir", "new"), "mine\n")

      const swapper = spawn("perl", ["-e", SWAP, tree], { stdio: ["ignore", "pipe", "inherit"] })
      let said = ""
      swapper.stdout.on("data", (bytes: Buffer) => (said += bytes.toString()))
      const ended = new Promise<void>((resolve) => swapper.once("close", () => resolve()))
      yield* Effect.addFinalizer(() => Effect.sync(() => swapper.kill("SIGKILL")))

      const naively = (...args: ReadonlyArray<string>) =>
        Effect.promise(() =>
          promisify(execFile)("git", ["-c", "safe.bareRepository=all", ...args], {
            env: {
              PATH: process.env["PATH"],
              GIT_DIR: gitDir,
              GIT_WORK_TREE: tree,
              GIT_INDEX_FILE: join(gitDir, "index"),
              GIT_OPTIONAL_LOCKS: "0",
              GIT_CONFIG_GLOBAL: "/dev/null"
            }
          }).then(({ stdout }) => stdout, () => "")
        )
      const counts = { ours: 0, leaks: 0, naive: 0, naiveLeaks: 0, commits: 0 }
      const telling = (text: string) => text.includes(name) || text.includes(`${lines}`)
      // On a machine that is busy with more than this, 20 seconds may be too few for either.
      for (const end = performance.now() + FOR_MILLIS; performance.now() < end || counts.ours <= 10 || counts.naiveLeaks === 0;) {
        for (const answer of [trees.list(key, ""), trees.list(key, "dir"), trees.changes(key)]) {
          const result = yield* Effect.result(answer as Effect.Effect<unknown, unknown>)
          counts.ours++
          if (telling(JSON.stringify(result))) counts.leaks++
        }
        const made = yield* Effect.result(trees.snapshot(key, { message: "x", author: { name: "S", email: "s@example.com" } }))
        if (made._tag === "Success") {
          counts.commits++
          const said = yield* naively("ls-tree", "-r", "--name-only", made.success.sha)
          if (telling(said) || (yield* naively("grep", "-c", secret, made.success.sha)) !== "") counts.leaks++
        }
        for (let i = 0; i < 10; i++) {
          counts.naive++
          if (telling(yield* naively("ls-files", "--others"))) counts.naiveLeaks++
        }
      }
      swapper.kill("SIGTERM")
      yield* Effect.promise(() => ended)
      process.stdout.write(`\nSymlink race of git, ${FOR_MILLIS / 1_000} s, ${Number(said)} swaps: ${JSON.stringify(counts)}\n`)
      assert.strictEqual(counts.leaks, 0)
      // Not even as an object that no commit names.
      const blob = createHash("sha1").update(`blob ${content.length}\0${content}`).digest("hex")
      assert.strictEqual(yield* naively("cat-file", "-t", blob), "")
      assert.isAbove(Number(said), 1_000)
      assert.isAbove(counts.ours, 10)
      assert.isAbove(counts.naiveLeaks, 0)
    }),
  ALONE
)
