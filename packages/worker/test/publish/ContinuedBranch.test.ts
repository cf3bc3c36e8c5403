/** Publications of sandboxes that continue a branch or a pull request (docs/decisions/24), on a repository of this machine. */
import { assert, describe, it } from "@effect/vitest"
import { headRef } from "@slipway/domain/source/schema/Naming"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { REPO } from "./Worker.ts"
import * as World from "./World.ts"

/** A branch with a commit of its own, its pull request if it has one, and a sandbox that continues it. */
const continued = Effect.fnUntraced(function*(
  // Grants may push to branches of sandboxes where nothing else was set.
  { branch = headRef(World.newId()), hasPull = true }: { readonly branch?: string; readonly hasPull?: boolean } = {}
) {
  const origin = yield* World.localOrigin
  const there = (...args: ReadonlyArray<string>) => World.git(origin.path, ...args)
  there("checkout", "--quiet", "-b", branch)
  const push = (name: string, content: string) => {
    there("checkout", "--quiet", branch)
    writeFileSync(join(origin.path, name), content)
    there("add", name)
    there("commit", "--quiet", "--message", `person: ${name}`)
    const sha = there("rev-parse", "HEAD")
    there("checkout", "--quiet", "trunk")
    return sha
  }
  const head = push("theirs.txt", "theirs\n")
  const sql = yield* SqlClient.SqlClient
  yield* sql`DELETE FROM local_pull_requests`
  if (hasPull) {
    yield* sql`INSERT INTO local_pull_requests (repository_id, number, title, body, state, draft, merged, base_ref, head_ref, head_sha,
      additions, deletions, changed_files, created_at, updated_at)
      SELECT id, 7, 'Theirs', '', 'open', false, false, 'trunk', ${branch}, ${head}, 1, 0, 1, now(), now() FROM local_repositories`
  }
  const directory = yield* World.temporaryFolder
  const id = World.newId()
  yield* World.clone(directory, origin, id, branch)
  const lease = yield* World.running(id, { repo: REPO, branch, pullRequest: hasPull ? 7 : null, headSha: head })
  const tree = World.treeOf(directory, id)
  const publish = Effect.gen(function*() {
    yield* World.ask(id)
    yield* World.carryOut(directory, origin, lease)
    const data = (yield* World.updates(id)).at(-1)?.data
    assert.isDefined(data)
    return data
  })
  const tip = (name = branch) => there("for-each-ref", "--format=%(objectname)", `refs/heads/${name}`)
  const commit = (name: string) => {
    writeFileSync(join(tree, name), `${name}\n`)
    World.git(tree, "add", name)
    World.git(tree, "commit", "--quiet", "--message", `agent: ${name}`)
    return World.git(tree, "rev-parse", "HEAD")
  }
  return { branch, commit, head, id, origin, publish, push, sql, there, tip, tree }
})

describe("a sandbox that continues a branch", () => {
  it.layer(World.Database.layer, { timeout: 600_000 })((it) => {
    it.effect("adds to the branch and to its pull request, and makes no branch of its own", () =>
      Effect.gen(function*() {
        const world = yield* continued()
        const own = world.commit("one")
        const told = yield* world.publish
        assert.deepInclude(told, { action_state: "idle", number: 7, head_ref: world.branch, head_sha: own, state: "open" })
        assert.strictEqual(world.tip(), own)
        assert.strictEqual(world.there("rev-parse", `${own}^`), world.head)
        writeFileSync(join(world.tree, "open.txt"), "open\n")
        const later = yield* world.publish
        assert.deepInclude(later, { action_state: "idle", number: 7 })
        assert.strictEqual(world.there("rev-parse", `${world.tip()}^`), own)
        assert.strictEqual(world.tip(headRef(world.id)), "")
        assert.lengthOf(yield* world.origin.pulls, 1)
      }).pipe(Effect.scoped))

    it.effect("has nothing to publish before it changed something", () =>
      Effect.gen(function*() {
        const world = yield* continued({ hasPull: false })
        assert.deepInclude((yield* world.publish).error, { code: "invalid_request" })
        assert.lengthOf(yield* world.origin.pulls, 0)
        assert.strictEqual(world.tip(), world.head)
      }).pipe(Effect.scoped))

    it.effect("opens a draft to the default branch for a branch without a pull request", () =>
      Effect.gen(function*() {
        const world = yield* continued({ hasPull: false })
        const own = world.commit("one")
        assert.deepInclude(yield* world.publish, { action_state: "idle", head_ref: world.branch, head_sha: own, draft: true })
        const [pull] = yield* world.sql<{ readonly base: string }>`SELECT base_ref AS base FROM local_pull_requests`
        assert.strictEqual(pull?.base, "trunk")
      }).pipe(Effect.scoped))

    it.effect("pushes nothing to a branch that moved, until the agent has merged it", () =>
      Effect.gen(function*() {
        const world = yield* continued()
        world.commit("one")
        const theirs = world.push("later.txt", "later\n")
        assert.deepInclude((yield* world.publish).error, { code: "branch_moved" })
        assert.strictEqual(world.tip(), theirs)
        World.git(world.tree, "fetch", "--quiet", world.origin.path, world.branch)
        World.git(world.tree, "merge", "--quiet", "--no-edit", "FETCH_HEAD")
        const merged = World.git(world.tree, "rev-parse", "HEAD")
        assert.deepInclude(yield* world.publish, { action_state: "idle", number: 7, head_sha: merged })
        assert.strictEqual(world.tip(), merged)
        assert.strictEqual(world.there("merge-base", theirs, merged), theirs)
      }).pipe(Effect.scoped))

    it.effect("replaces no commit after a rebase of the agent, or a branch that was set back", () =>
      Effect.gen(function*() {
        const world = yield* continued()
        const first = world.commit("one")
        yield* world.publish
        World.git(world.tree, "commit", "--quiet", "--amend", "--message", "amended")
        writeFileSync(join(world.tree, "two"), "two\n")
        yield* world.publish
        assert.strictEqual(world.there("rev-parse", `${world.tip()}^`), first)
        world.there("update-ref", `refs/heads/${world.branch}`, world.head)
        writeFileSync(join(world.tree, "three"), "three\n")
        assert.deepInclude((yield* world.publish).error, { code: "branch_moved" })
        assert.strictEqual(world.tip(), world.head)
      }).pipe(Effect.scoped))

    it.effect("pushes nothing to a branch that its grant may no longer push to", () =>
      Effect.gen(function*() {
        const world = yield* continued({ branch: "feature/theirs" })
        world.commit("one")
        const { error } = yield* world.publish
        assert.deepInclude(error, { code: "pull_request_not_writable" })
        assert.include(error?.message, "may not push to feature/theirs")
        assert.strictEqual(world.tip(), world.head)
        assert.strictEqual(world.tip(headRef(world.id)), "")
      }).pipe(Effect.scoped))

    it.effect("pushes nothing to a branch that became the default branch, which is never pushed to", () =>
      Effect.gen(function*() {
        const world = yield* continued({ hasPull: false })
        world.commit("one")
        world.there("symbolic-ref", "HEAD", `refs/heads/${world.branch}`)
        assert.deepInclude((yield* world.publish).error, { code: "pull_request_not_writable" })
        assert.strictEqual(world.tip(), world.head)
      }).pipe(Effect.scoped))

    it.effect("pushes nothing over commits that a person replaced during its turn", () =>
      Effect.gen(function*() {
        const world = yield* continued()
        world.commit("one")
        const other = world.there("commit-tree", "-m", "person: rewritten", "-p", "trunk", `${world.head}^{tree}`)
        world.there("update-ref", `refs/heads/${world.branch}`, other)
        assert.deepInclude((yield* world.publish).error, { code: "branch_moved" })
        assert.strictEqual(world.tip(), other)
      }).pipe(Effect.scoped))

    const ends = [["closed", "its pull request was closed"], ["merged", "its pull request was merged"], ["gone", "it was deleted"]] as const
    for (const [end, what] of ends) {
      it.effect(`goes on with a branch of its own once ${what}`, () =>
        Effect.gen(function*() {
          const world = yield* continued()
          const base = world.there("rev-parse", "trunk")
          world.commit("one")
          if (end === "gone") world.there("update-ref", "-d", `refs/heads/${world.branch}`)
          else yield* world.sql`UPDATE local_pull_requests SET state = 'closed', merged = ${end === "merged"}`
          const told = yield* world.publish
          assert.deepInclude(told, { action_state: "idle", head_ref: headRef(world.id), state: "open" })
          assert.strictEqual(world.there("rev-parse", `${world.tip(headRef(world.id))}^`), base)
          assert.deepStrictEqual(world.there("diff", "--name-only", base, world.tip(headRef(world.id))), "one")
        }).pipe(Effect.scoped))
    }
  })
})
