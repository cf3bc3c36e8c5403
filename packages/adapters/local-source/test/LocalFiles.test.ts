import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import * as LocalFiles from "../src/LocalFiles.ts"

const git = (at: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", ...args], { cwd: at, encoding: "utf8" }).trim()

/** A checkout with one commit, and with files that came after it. */
const shop = Effect.acquireRelease(
  Effect.promise(async () => {
    const at = await mkdtemp(path.join(tmpdir(), "slipway-files-"))
    git(at, "init", "--quiet", "--initial-branch=main")
    writeFileSync(path.join(at, "a.txt"), "four")
    writeFileSync(path.join(at, ".gitignore"), "made/\n*.log\n!keep.log\n")
    symlinkSync("a.txt", path.join(at, "link"))
    git(at, "add", "--all")
    git(at, "commit", "--quiet", "--message", "Start")
    writeFileSync(path.join(at, "new.txt"), "new")
    mkdirSync(path.join(at, "made"))
    writeFileSync(path.join(at, "made/b.txt"), "b")
    return at
  }),
  (at) => Effect.promise(() => rm(at, { recursive: true, force: true }))
)

describe("files of a repository of this machine", () => {
  for (const which of ["commit", "working"] as const) {
    it.live(`are read up to the bytes that are asked for, and through no link: ${which}`, () =>
      Effect.gen(function*() {
        const files = yield* LocalFiles.open(yield* shop, which)
        assert.deepStrictEqual(yield* files.read("a.txt", 4), { _tag: "Text", text: "four" })
        assert.deepStrictEqual(yield* files.read("a.txt", 3), { _tag: "TooLarge" })
        assert.deepStrictEqual(yield* files.read("link", 9), { _tag: "NotPlain" })
        assert.deepStrictEqual(yield* files.read("none", 9), { _tag: "Absent" })
        assert.deepStrictEqual((yield* files.read("new.txt", 9))._tag, which === "commit" ? "Absent" : "Text")
      }).pipe(Effect.scoped))
  }

  it.live("are listed as the commit has them, or with what git does not ignore", () =>
    Effect.gen(function*() {
      const at = yield* shop
      const committed = yield* LocalFiles.open(at, "commit")
      assert.sameMembers([...committed.paths], [".gitignore", "a.txt", "link"])
      assert.strictEqual(committed.commit, git(at, "rev-parse", "HEAD"))
      const working = yield* LocalFiles.open(at, "working")
      assert.sameMembers([...working.paths], [".gitignore", "a.txt", "link", "new.txt"])
      assert.isNull(working.commit)
    }).pipe(Effect.scoped))

  it.live("are ignored as folders, whether they are there or not; a bare repository cannot say", () =>
    Effect.gen(function*() {
      const at = yield* shop
      const files = yield* LocalFiles.open(at, "commit")
      assert.deepStrictEqual(yield* files.ignored(["made", "x/made", "other", "x.log", "keep.log"]), new Set(["made", "x/made", "x.log"]))
      assert.deepStrictEqual(yield* files.ignored(["other"]), new Set<string>())
      assert.deepStrictEqual(yield* files.ignored([]), new Set<string>())
      const bare = path.join(at, "made/bare.git")
      git(at, "clone", "--quiet", "--bare", at, bare)
      assert.isNull(yield* (yield* LocalFiles.open(bare, "commit")).ignored(["made"]))
    }).pipe(Effect.scoped))
})
