/**
 * Sequences of random operations on trees. After each of them, and in between, all that is said of the tree and made of it is
 * compared with what is on the disk, read without git.
 *
 *     TREE_SEQUENCES    how many sequences (default: the caller's)
 *     TREE_SEED         the first one's seed (default: 1); a failure names its own
 */
import { assert } from "@effect/vitest"
import type { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { isProtected } from "@slipway/domain/source/rules/FileRules"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { gitIn, source, tolerate } from "@slipway/git/testing/Repositories"
import { Effect, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import * as Manifest from "./Manifest.ts"
import * as Operations from "./Operations.ts"

const repo = RepoName.make("acme/app")
const author = { name: "Slipway", email: "slipway@example.com" }

/** A world of trees: what the sequences share. */
export interface Trees {
  readonly trees: WorkingTrees["Service"]
  /** Gives the sandbox a box, as a worker does before its agent starts. */
  readonly provision: (sandboxId: SandboxId) => Effect.Effect<unknown, unknown>
  readonly stop: SandboxHost["Service"]["stop"] | undefined
  readonly workspaceOf: (sandboxId: SandboxId) => string
}

/** As the agent's side tells its own commits. */
const historyOf = (tree: string) => (base: string): Stream.Stream<Uint8Array> => {
  const head = tolerate(() => gitIn(tree, "rev-parse", "--verify", "HEAD"))
  if (head === undefined || head === base) return Stream.empty
  const pack = execFileSync("git", ["-c", "safe.directory=*", "-C", tree, "pack-objects", "--revs", "--stdout", "--quiet"], {
    input: `${head}\n^${base}\n`,
    stdio: ["pipe", "pipe", "ignore"]
  })
  return Stream.make(Buffer.from(`${head}\n`), pack)
}

/** The files of a commit, as git lists them. */
const committed = (gitDir: string, ref: string): Manifest.Manifest => {
  const said = execFileSync("git", ["-c", "safe.directory=*", "-C", gitDir, "ls-tree", "-r", "-z", "--full-tree", ref]).toString("latin1")
  return fromEntries(said, /^(?<mode>\d+) blob (?<blob>[0-9a-f]+)\t(?<path>[^]*)$/u)
}

const fromEntries = (said: string, entry: RegExp): Manifest.Manifest => {
  const found = new Map<string, Manifest.Held>()
  for (const text of said.split("\0")) {
    if (text === "") continue
    const { blob = "", mode = "", path = "" } = entry.exec(text)?.groups ?? {}
    assert.include(["100644", "100755", "120000"], mode, text)
    found.set(path, { mode: mode as Manifest.Held["mode"], blob })
  }
  return found
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const textOf = (path: string): string | undefined => tolerate(() => utf8.decode(Buffer.from(path, "latin1")))
const latin1Of = (path: string): string => Buffer.from(path).toString("latin1")

const NEW = ["untracked", "added", "renamed"]

const same = (what: string, actual: Manifest.Manifest, expected: Manifest.Manifest) =>
  assert.deepStrictEqual(Manifest.print(actual), Manifest.print(expected), what)

/** The differences, as one listing of all changes and as the listings of all folders. */
const checkListed = Effect.fnUntraced(function*(
  { trees }: Trees,
  sandboxId: SandboxId,
  root: string,
  base: Manifest.Manifest
) {
  const key = { sandboxId, repo }
  const disk = Manifest.read(root)
  const shown = Manifest.shown(disk, base)
  const expected = Manifest.differences(base, shown).filter((path) => textOf(path) !== undefined)

  const { files } = yield* trees.changes(key)
  const told = new Set(files.flatMap(({ path, previousPath }) => [path, ...previousPath === null ? [] : [previousPath]]).map(latin1Of))
  assert.deepStrictEqual(Array.from(told).sort(), expected, "paths of changes")
  for (const { path, status } of files) {
    const at = latin1Of(path)
    const right = !shown.has(at) ? ["deleted"] : base.has(at) ? ["modified"] : NEW
    assert.include(right, status, `status of ${JSON.stringify(path)} in changes`)
  }

  const listed = new Map<string, string | null>()
  const moved = new Set<string>()
  const visit: (folder: string) => Effect.Effect<void, unknown> = Effect.fnUntraced(function*(folder: string) {
    const { entries } = yield* trees.list(key, folder)
    for (const { kind, path, previousPath, status } of entries) {
      if (kind !== "directory") listed.set(latin1Of(path), status)
      else if (!isProtected(path)) yield* visit(path)
      if (previousPath !== null) moved.add(latin1Of(previousPath))
    }
  })
  yield* visit("")
  const isHidden = (path: string) => textOf(path) === undefined || path.split("/").slice(0, -1).some((name) => isProtected(name))
  for (const { path, previousPath } of files) {
    if (previousPath !== null && isHidden(latin1Of(path))) moved.add(latin1Of(previousPath))
  }
  for (const path of disk.keys()) {
    if (isHidden(path)) continue
    const isNew = shown.has(path) && !base.has(path)
    const right = isNew ? NEW : [expected.includes(path) ? "modified" : null]
    assert.include(right, listed.get(path), `status of ${JSON.stringify(path)} in its folder`)
  }
  for (const path of expected) {
    if (disk.has(path) || moved.has(path) || isHidden(path)) continue
    // Something else is in its place, or in that of its folder.
    const names = path.split("/")
    if (names.some((_, i) => disk.has(names.slice(0, i + 1).join("/")))) continue
    if (tolerate(() => Manifest.kindOf(root, path)) === "folder") continue
    assert.strictEqual(listed.get(path), "deleted", `status of ${JSON.stringify(path)} in its folder`)
  }
})

/** The patch makes of the base what is on the disk, as far as it may be seen. `objects` has all that was published. */
const checkPatch = (patch: Uint8Array, origin: string, baseSha: string, index: string, expected: Manifest.Manifest) => {
  const seen = (manifest: Manifest.Manifest): Manifest.Manifest =>
    new Map(Array.from(manifest).filter(([path]) => !isProtected(Buffer.from(path, "latin1").toString())))
  const text = Buffer.from(patch).toString("latin1")
  // Git refuses a patch without one file.
  const hasFiles = text.replaceAll(/^# .*\n/gmu, "") !== ""
  const env = { ...process.env, GIT_INDEX_FILE: index, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" }
  const git = (args: ReadonlyArray<string>, input?: Buffer) =>
    execFileSync("git", ["-c", "safe.directory=*", "-C", origin, ...args], { env, input: input ?? "" }).toString("latin1")
  git(["read-tree", baseSha])
  if (hasFiles) git(["apply", "--cached", "--whitespace=nowarn"], Buffer.from(patch))
  const applied = fromEntries(git(["ls-files", "--stage", "-z"]), /^(?<mode>\d+) (?<blob>[0-9a-f]+) 0\t(?<path>[^]*)$/u)
  same("what the patch makes of the base", seen(applied), seen(expected))
}

const idOf = (seed: number, which: string): SandboxId =>
  SandboxId.make(`c_${which}${`${seed}`.replaceAll(/\d/gu, (digit) => "abcdefghij".charAt(Number(digit))).padStart(11, "a")}`)

type Origin = Effect.Success<ReturnType<typeof source>>

const STEPS = 14

const sequence = Effect.fnUntraced(function*(world: Trees, origin: Origin, scratch: string, seed: number, log: Array<string>) {
  const { provision, trees, workspaceOf } = world
  const next = Operations.numbers(seed)
  const [sandboxId, forkId] = [idOf(seed, "a"), idOf(seed, "b")]
  const key = { sandboxId, repo }
  const sources = [{ repo, remote: origin.remote }]
  const root = join(workspaceOf(sandboxId), "app")
  const remove = (id: SandboxId) =>
    Effect.ignoreCause(Effect.andThen(world.stop === undefined ? Effect.void : Effect.ignore(world.stop(id)), trees.remove(id)))
  yield* Effect.addFinalizer(() => Effect.andThen(remove(sandboxId), remove(forkId)))

  const { baseSha } = yield* trees.prepare(key, { remote: origin.remote, ref: undefined, defaultBranch: "main", repos: [repo] })
  yield* provision(sandboxId)
  const base = committed(origin.path, baseSha)
  const history = historyOf(root)
  const save = Effect.gen(function*() {
    log.push("save")
    const expected = Manifest.saved(Manifest.read(root), base)
    const saved = yield* trees.save(sandboxId, [{ repo, history }])
    return { expected, saved, sha: saved.repos[0]?.sha ?? "" }
  })
  let head: string | null = null
  const publish = Effect.gen(function*() {
    log.push("publish")
    const { remote } = origin
    const expected = Manifest.published(Manifest.read(root), base)
    const made = yield* trees.snapshot(key, { message: "x", author, history, since: { head, merges: [], remote } }).pipe(
      Effect.catchTag("NoChanges", () => Effect.succeed(undefined))
    )
    if (made === undefined) return same("what has no changes", base, expected)
    yield* trees.push(key, { sha: made.sha, headRef: `slipway/${sandboxId}`, remote, expected: head })
    head = made.sha
    same("the publication", committed(origin.path, `refs/heads/slipway/${sandboxId}`), expected)
  })

  for (let step = 0; step < STEPS; step++) {
    Operations.operate({ root, next, log })
    const look = next(14)
    if (look === 0) {
      log.push("list")
      yield* checkListed(world, sandboxId, root, base)
    } else if (look === 1) yield* Effect.scoped(save)
    else if (look === 2 && next(2) === 0) yield* publish
    else if (look === 3 && next(2) === 0) {
      yield* Effect.scoped(Effect.gen(function*() {
        const { expected, saved } = yield* save
        log.push("restore")
        if (world.stop !== undefined) yield* Effect.ignore(world.stop(sandboxId))
        yield* trees.restore(sandboxId, saved.content, sources)
        yield* provision(sandboxId)
        same("what was restored", Manifest.read(root), expected)
      }))
    }
  }

  yield* checkListed(world, sandboxId, root, base)
  yield* Effect.scoped(Effect.gen(function*() {
    const { expected, saved, sha } = yield* save
    yield* publish
    log.push("diff")
    const patch = yield* trees.diff(key, { from: "base", to: "working", maximumBytes: 2 ** 24, isWhole: true })
    yield* Effect.sync(() => checkPatch(patch, origin.path, baseSha, join(scratch, `index-${seed}`), expected))
    assert.strictEqual((yield* trees.diff(key, { from: sha, to: "working", maximumBytes: 2 ** 24 })).length, 0, "since the checkpoint")
    log.push("fork")
    yield* trees.restore(forkId, saved.content, sources, { forget: "publication" })
    yield* provision(forkId)
    const forked = join(workspaceOf(forkId), "app")
    same("the fork", Manifest.read(forked), expected)
    yield* checkListed(world, forkId, forked, base)
    assert.strictEqual((yield* trees.diff({ sandboxId: forkId, repo }, { from: sha, to: "working", maximumBytes: 2 ** 24 })).length, 0)
  }))
}, Effect.scoped)

const setting = (name: string, otherwise: number): number => {
  const value = Number(process.env[name] ?? otherwise)
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name} is not a number of 1 or more`)
  return value
}

/** As many sequences as the environment says, some at a time. Fails with the first seed that was unequal, and what was done in it. */
export const run = Effect.fnUntraced(function*(world: Trees, scratch: string, otherwise: number) {
  const origin = yield* source(Operations.base(Manifest.IGNORE))
  const first = setting("TREE_SEED", 1)
  const seeds = Array.from({ length: setting("TREE_SEQUENCES", otherwise) }, (_, i) => first + i)
  let equal = 0
  const count = Effect.sync(() => {
    if (++equal % 50 === 0) process.stderr.write(`${equal} sequences are equal\n`)
  })
  yield* Effect.forEach(seeds, (seed) => {
    const log: Array<string> = []
    return Effect.tap(sequence(world, origin, scratch, seed, log), count).pipe(
      Effect.tapCause(() =>
        Effect.sync(() => {
          process.stderr.write(`Run it again with TREE_SEED=${seed} TREE_SEQUENCES=1. Sequence ${seed}:\n  ${log.join("\n  ")}\n`)
        })
      )
    )
  }, { concurrency: 2, discard: true })
  return seeds.length
})
