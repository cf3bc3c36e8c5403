/** Publications to a continued pull request on GitHub that changed while the agent worked (docs/decisions/24). */
import { assert, it } from "@effect/vitest"
import { headRef } from "@slipway/domain/source/schema/Naming"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { REPO } from "./Worker.ts"
import * as World from "./World.ts"

const maria = { id: 11, login: "maria" }

/** A branch of a person, its pull request if it has one, and a sandbox that continues it and has a commit of its own. */
const continued = Effect.fnUntraced(function*({ hasPull = true }: { readonly hasPull?: boolean } = {}) {
  const origin = yield* World.gitHubOrigin()
  const { repository } = origin
  const at = (...args: ReadonlyArray<string>) => World.git(origin.path, ...args)
  const branch = headRef(World.newId())
  const head = yield* Effect.promise(() => repository.commit(branch, { "theirs.txt": "theirs\n" }))
  const baseSha = at("rev-parse", repository.defaultBranch)
  /** `fork`: the repository of the branch, if it is another one. */
  const open = (fork?: string) =>
    Effect.promise(() =>
      repository.open({
        title: "Theirs",
        body: null,
        draft: false,
        user: maria,
        baseRef: repository.defaultBranch,
        baseSha,
        headRef: branch,
        headSha: head,
        ...(fork === undefined ? {} : { fork })
      })
    )
  const pull = hasPull ? yield* open() : null
  const directory = yield* World.temporaryFolder
  const id = World.newId()
  yield* World.clone(directory, origin, id, branch)
  const lease = yield* World.running(id, { repo: REPO, branch, pullRequest: pull?.number ?? null, headSha: head })
  const tree = World.treeOf(directory, id)
  writeFileSync(join(tree, "one"), "one\n")
  World.git(tree, "add", "one")
  World.git(tree, "commit", "--quiet", "--message", "agent: one")
  const publish = Effect.gen(function*() {
    yield* World.ask(id)
    yield* World.carryOut(directory, origin, lease)
    const data = (yield* World.updates(id)).at(-1)?.data
    assert.isDefined(data)
    return data
  })
  const tip = (name = branch) => at("for-each-ref", "--format=%(objectname)", `refs/heads/${name}`)
  return { at, baseSha, branch, head, id, open, own: World.git(tree, "rev-parse", "HEAD"), publish, repository, tip }
})

it.layer(World.Database.layer, { timeout: 600_000 })("a continued pull request on GitHub", (it) => {
  it.effect("gets nothing while its branch is protected, and the commits once it is not", () =>
    Effect.gen(function*() {
      const world = yield* continued()
      world.repository.protectedBranches.add(world.branch)
      const { error } = yield* world.publish
      assert.deepInclude(error, { code: "pull_request_not_writable" })
      assert.include(error?.message, "protected")
      assert.deepStrictEqual([world.tip(), world.tip(headRef(world.id))], [world.head, ""])
      world.repository.protectedBranches.clear()
      assert.deepInclude(yield* world.publish, { action_state: "idle", number: 1, head_sha: world.own })
      assert.strictEqual(world.tip(), world.own)
      assert.lengthOf(world.repository.pulls, 1)
    }).pipe(Effect.scoped))

  it.effect("is followed by a draft with a branch of the sandbox's own, once its branch was deleted", () =>
    Effect.gen(function*() {
      const world = yield* continued()
      yield* Effect.promise(() => world.repository.deleteBranch(world.branch))
      assert.deepInclude(yield* world.publish, { action_state: "idle", number: 2, head_ref: headRef(world.id), draft: true })
      assert.strictEqual(world.tip(), "")
      assert.deepStrictEqual(world.at("diff", "--name-only", world.baseSha, world.tip(headRef(world.id))), "one")
      assert.deepStrictEqual(world.repository.pulls.map(({ state }) => state), ["closed", "open"])
    }).pipe(Effect.scoped))

  it.effect("keeps the commits by which a person replaced those that the sandbox started from", () =>
    Effect.gen(function*() {
      const world = yield* continued()
      const other = world.at("commit-tree", "-m", "person: rewritten", "-p", world.baseSha, `${world.head}^{tree}`)
      world.at("update-ref", `refs/heads/${world.branch}`, other)
      assert.deepInclude((yield* world.publish).error, { code: "branch_moved" })
      assert.strictEqual(world.tip(), other)
    }).pipe(Effect.scoped))

  it.effect("gets the commits by the name that its repository has now", () =>
    Effect.gen(function*() {
      const world = yield* continued()
      world.repository.rename("Renamed")
      assert.deepInclude(yield* world.publish, { action_state: "idle", number: 1, head_ref: world.branch, head_sha: world.own })
      assert.strictEqual(world.tip(), world.own)
      assert.lengthOf(world.repository.pulls, 1)
    }).pipe(Effect.scoped))

  it.effect("is not that of a fork, whose branch has the same name", () =>
    Effect.gen(function*() {
      const world = yield* continued({ hasPull: false })
      const { number } = yield* world.open("someone/App")
      const told = yield* world.publish
      assert.deepInclude(told, { action_state: "idle", head_ref: world.branch, head_sha: world.own, draft: true })
      assert.notStrictEqual(told.number, number)
      assert.strictEqual(world.repository.pulls.find((pull) => pull.number === number)?.headSha, world.head)
    }).pipe(Effect.scoped))
})
