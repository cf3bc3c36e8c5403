/** A process of the tree swaps a folder for a link while the host reads below it. */
import { assert, it } from "@effect/vitest"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { source, temporaryFolder } from "@slipway/git/testing/Repositories"
import * as Trees from "@slipway/git/testing/Trees"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Context, Effect, Layer, Result, Stream } from "effect"
import { readFileSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const FOR_MILLIS = 20_000
/** Naive reads to one of ours: each is much shorter. */
const NAIVE_READS = 10

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const INSIDE = "inside\n"
const SECRET = "from outside the tree\n"

/** Exchanges the two in one step (renameat2 with RENAME_EXCHANGE), as fast as it can, and counts. Arguments: the tree. */
const SWAP = `
chdir $ARGV[0] or die $!;
my ($folder, $link, $swaps, $running) = ("dir", "link", 0, 1);
$SIG{TERM} = sub { $running = 0 };
syswrite STDOUT, "\n";
while ($running) { syscall(${process.arch === "arm64" ? 276 : 316}, -100, $folder, -100, $link, 2) == 0 or die $!; $swaps++ }
print $swaps;
`

const swapping = (tree: string) =>
  Effect.tap(SpawnedProgram.scoped("perl", ["-e", SWAP, tree]), ({ says }) => Effect.promise(() => says((output) => /\n/u.exec(output))))

/** Looks where the path leads, and then reads it. */
const readNaively = (tree: string, path: string): string | undefined => {
  try {
    const file = join(tree, path)
    return realpathSync(file).startsWith(`${tree}/`) ? readFileSync(file, "utf8") : undefined
  } catch {
    return undefined
  }
}

it.live("in 20 seconds of swapping a folder for a link, the host reads the secret behind it never, and a naive reader does", () =>
  Effect.gen(function*() {
    const origin = yield* source({ "dir/file": INSIDE })
    const [directory, outside] = [yield* temporaryFolder, yield* temporaryFolder]
    writeFileSync(join(outside, "file"), SECRET)
    const trees = Context.get(yield* Layer.build(Trees.layer({ directory })), WorkingTrees)
    yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
    const tree = realpathSync(join(workspacesIn(directory)(key.sandboxId), "app"))
    symlinkSync(outside, join(tree, "link"))
    const swapper = yield* swapping(tree)

    const read = trees.open(key, "dir/file", 1_000).pipe(
      Effect.flatMap(({ bytes }) => Stream.mkString(Stream.decodeText(bytes))),
      Effect.scoped,
      Effect.result
    )
    const ours = { attempts: 0, inside: 0, leaks: 0 }
    const naive = { attempts: 0, inside: 0, leaks: 0 }
    const count = (reads: typeof ours, text: string | undefined) => {
      reads.attempts++
      if (text === SECRET) reads.leaks++
      else if (text === INSIDE) reads.inside++
      else assert.isUndefined(text)
    }
    for (const end = performance.now() + FOR_MILLIS; performance.now() < end;) {
      const result = yield* read
      if (Result.isFailure(result)) assert.include(["FileProtected", "FileNotFound"], result.failure._tag)
      count(ours, Result.isSuccess(result) ? result.success : undefined)
      for (let i = 0; i < NAIVE_READS; i++) count(naive, readNaively(tree, "dir/file"))
    }
    swapper.child.kill("SIGTERM")
    yield* Effect.promise(() => swapper.closed)

    const say = (name: string, { attempts, inside, leaks }: typeof ours) =>
      `  ${name.padEnd(14)}${attempts} reads, ${inside} of the file, ${leaks} of the secret\n`
    process.stdout.write(
      `\nSymlink race, ${FOR_MILLIS / 1_000} s, ${Number(swapper.stdout())} swaps\n${say("the host", ours)}${say("naive reader", naive)}\n`
    )
    assert.strictEqual(ours.leaks, 0)
    assert.isAbove(ours.inside, 500)
    assert.isAbove(naive.leaks, 0)
  }))
