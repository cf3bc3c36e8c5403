import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { cp, lstat, mkdtemp, readdir, rm } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import * as PostgresBinaries from "../src/PostgresBinaries.ts"
import * as ServerAccount from "../src/ServerAccount.ts"
import { run } from "../src/SystemProcess.ts"

const isRoot = process.getuid?.() === 0

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-binaries-"))),
  (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
)

/** The package as a package manager leaves it that does not run install scripts: without links. */
const installed = Effect.gen(function*() {
  const { build, root } = yield* PostgresBinaries.locate
  const copy = yield* folder
  yield* Effect.promise(() => cp(root, copy, { recursive: true, filter: async (file) => !(await lstat(file)).isSymbolicLink() }))
  return { root: copy, build }
})

describe("the binaries", () => {
  it.live("run where they are installed, even if the install script was blocked", () =>
    Effect.gen(function*() {
      const native = yield* installed
      const copies = yield* folder
      const { initdb, postgres } = yield* PostgresBinaries.prepare({ native, account: null, copies })
      assert.isTrue(initdb.startsWith(native.root))
      assert.isTrue((yield* run(initdb, ["--version"])).succeeded)
      assert.isTrue((yield* run(postgres, ["--version"])).succeeded)
      assert.deepStrictEqual(yield* Effect.promise(() => readdir(copies)), [])
    }))

  it.live.runIf(isRoot)("are copied, once, when the account cannot reach them (needs root)", () =>
    Effect.gen(function*() {
      const native = yield* installed // beneath a private folder of root
      const account = yield* ServerAccount.find()
      const copies = path.join("/var/tmp", `${path.basename(yield* folder)}-copies`)
      yield* Effect.addFinalizer(() => Effect.promise(() => rm(copies, { recursive: true, force: true })))
      const prepare = PostgresBinaries.prepare({ native, account, copies })
      const [{ initdb }] = yield* Effect.all([prepare, prepare], { concurrency: "unbounded" })
      assert.isTrue(initdb.startsWith(copies))
      assert.isTrue((yield* run(initdb, ["--version"], { account })).succeeded)

      yield* Effect.promise(() => rm(native.root, { recursive: true }))
      assert.deepStrictEqual((yield* prepare).initdb, initdb)
      assert.lengthOf(yield* Effect.promise(() => readdir(copies)), 1)
    }))
})
