/** Refs that are read from files are those that git tells. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as LocalRefs from "../src/LocalRefs.ts"
import { gitIn, source, temporaryFolder } from "../testing/Repositories.ts"

const lookedUp = (path: string, ...branches: ReadonlyArray<string>) => Effect.promise(() => LocalRefs.tips(path, branches))
const head = (path: string) => Effect.promise(() => LocalRefs.head(path))

/** A checkout on `main`, with branches that are packed and loose. */
const setUp = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const path = join(folder, "checkout")
  const { remote } = yield* source({ "a.txt": "a" })
  gitIn(folder, "clone", "--quiet", remote.url, path)
  const commit = (message: string) => {
    gitIn(path, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "--message", message)
    return gitIn(path, "rev-parse", "HEAD").trim()
  }
  const first = gitIn(path, "rev-parse", "HEAD").trim()
  return { folder, path, first, commit, branch: gitIn(path, "symbolic-ref", "--short", "HEAD").trim() }
})

describe("the refs of a repository of this machine", () => {
  it.live("are found loose and packed, the loose one first; absent ones are left out", () =>
    Effect.gen(function*() {
      const { branch, commit, first, path } = yield* setUp
      gitIn(path, "branch", "packed/one")
      gitIn(path, "pack-refs", "--all")
      const second = commit("second")
      assert.deepStrictEqual(
        yield* lookedUp(path, branch, "packed/one", "packed", "one", "absent"),
        new Map([[branch, second], ["packed/one", first]])
      )
      assert.strictEqual(yield* head(path), branch)
    }).pipe(Effect.scoped))

  it.live("of a bare repository as of a checkout", () =>
    Effect.gen(function*() {
      const { branch, first, folder, path } = yield* setUp
      const bare = join(folder, "bare.git")
      gitIn(folder, "clone", "--quiet", "--bare", path, bare)
      assert.deepStrictEqual(yield* lookedUp(bare, branch), new Map([[branch, first]]))
      assert.strictEqual(yield* head(bare), branch)
    }).pipe(Effect.scoped))

  it.live("are git's to tell where a branch names another one, some are hidden, or the checkout is a linked one", () =>
    Effect.gen(function*() {
      const { branch, first, folder, path } = yield* setUp
      gitIn(path, "symbolic-ref", "refs/heads/alias", `refs/heads/${branch}`)
      assert.isUndefined(yield* lookedUp(path, "alias"))
      assert.deepStrictEqual(yield* lookedUp(path, branch), new Map([[branch, first]]))

      const linked = join(folder, "linked")
      gitIn(path, "worktree", "add", "--quiet", "-b", "other", linked)
      assert.isUndefined(yield* lookedUp(linked, branch))
      assert.isUndefined(yield* head(linked))

      gitIn(path, "config", "uploadpack.hideRefs", "refs/heads/secret")
      assert.isUndefined(yield* lookedUp(path, branch))
    }).pipe(Effect.scoped))

  it.live("are git's to tell where they are in tables, or what is there is no repository", () =>
    Effect.gen(function*() {
      const { branch, folder, path } = yield* setUp
      gitIn(path, "config", "extensions.refStorage", "reftable")
      assert.isUndefined(yield* lookedUp(path, branch))
      assert.isUndefined(yield* lookedUp(folder, branch))
      assert.isUndefined(yield* lookedUp(join(folder, "absent"), branch))
    }).pipe(Effect.scoped))

  it.live("HEAD of a commit names no branch, and no branch leads out of the refs", () =>
    Effect.gen(function*() {
      const { path } = yield* setUp
      gitIn(path, "checkout", "--quiet", "--detach")
      assert.isUndefined(yield* head(path))
      writeFileSync(join(path, ".git", "HEAD"), "ref: refs/heads/../../x\n")
      assert.isUndefined(yield* head(path))
      assert.isUndefined(yield* lookedUp(path, "../../HEAD"))
    }).pipe(Effect.scoped))
})
