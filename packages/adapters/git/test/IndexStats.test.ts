/** The entries of a box's index that the host's index takes over: as git reads them afterwards. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { copyFileSync, readFileSync, renameSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as IndexStats from "../src/tree/IndexStats.ts"
import { gitIn, temporaryFolder } from "../testing/Repositories.ts"

const NAMES = ["a", "b", "c"]
const AT = 40 + 20

/** A repository whose index knows nothing of its files, and the index of a git that has looked at them. */
const setUp = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  gitIn(folder, "init", "--quiet")
  for (const name of NAMES) writeFileSync(join(folder, name), `${name}${name}${name}\n`)
  gitIn(folder, "add", "--all")
  const path = join(folder, ".git", "index")
  const looked = readFileSync(path)
  gitIn(folder, "rm", "-r", "--quiet", "--cached", ".")
  const entries = NAMES.map((name) => `100644 ${gitIn(folder, "hash-object", name)}\t${name}\n`).join("")
  execFileSync("git", ["-C", folder, "update-index", "--index-info"], { input: entries })
  const own = readFileSync(path)
  const latest = Math.max(looked.readUInt32BE(12), looked.readUInt32BE(20))
  const put = (index: Buffer, seconds: number) => {
    writeFileSync(path, index)
    utimesSync(path, seconds, seconds)
  }
  return { folder, looked, own, latest, put }
})

it.live("knows of each file what the box says, and that git need not read it again", () =>
  Effect.gen(function*() {
    const { folder, latest, looked, own, put } = yield* setUp
    const made = yield* IndexStats.merge(own, looked, 20, latest + 10)
    assert.strictEqual(made?.unsettled, 0)
    put(made?.merged ?? Buffer.alloc(0), latest + 10)
    assert.strictEqual(gitIn(folder, "diff-files"), "")
    const inode = Number(/ino: (\d+)/u.exec(gitIn(folder, "ls-files", "--debug", "a"))?.[1])
    assert.strictEqual(inode, looked.readUInt32BE(12 + 20))
    // Another file of the same size, with the times of the first.
    renameSync(join(folder, "a"), join(folder, "b"))
    assert.strictEqual(gitIn(folder, "diff", "--name-status"), "D\ta\nM\tb")
  }))

it.live("knows nothing of files that may have changed since the box looked, so that git reads them", () =>
  Effect.gen(function*() {
    const { folder, latest, looked, own, put } = yield* setUp
    const made = yield* IndexStats.merge(own, looked, 20, latest + 1)
    assert.strictEqual(made?.unsettled, NAMES.length)
    put(made?.merged ?? Buffer.alloc(0), latest + 1)
    copyFileSync(join(folder, "b"), join(folder, "a"))
    assert.strictEqual(gitIn(folder, "diff", "--name-status"), "M\ta")
    gitIn(folder, "fsck")
  }))

it.live("takes nothing over of an index of other files, or that is cut", () =>
  Effect.gen(function*() {
    const { latest, looked, own } = yield* setUp
    const other = Buffer.from(looked)
    other[12 + AT + 2] = 0x7a
    const object = Buffer.from(looked)
    object[12 + 40] = (object[12 + 40] ?? 0) ^ 1
    for (
      const told of [other, object, looked.subarray(0, 100), looked.subarray(0, 5), Buffer.alloc(0), Buffer.from("nothing that git wrote")]
    ) {
      assert.isUndefined(yield* IndexStats.merge(own, told, 20, latest + 10))
    }
  }))
