/** Random histories of an agent, of people and of the host: each publication is what the table of docs/decisions/7 says. */
import { assert, it } from "@effect/vitest"
import { headRef } from "@slipway/domain/source/schema/Naming"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as World from "./World.ts"

/** More with `APPEND_SEEDS=100`. */
const SEEDS = Number(process.env["APPEND_SEEDS"] ?? 2)
const STEPS = 14

/** The same numbers for the same seed (mulberry32). */
const chanceOf = (seed: number) => {
  let state = seed
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  return { pick: <A>(of: ReadonlyArray<A>): A => of[Math.floor(next() * of.length)] as A }
}

interface Step {
  readonly onto: string
  readonly ancestor: string
}
/** The state of the model table. */
interface Model {
  round: number
  /** The published head. */
  head: string | null
  steps: ReadonlyArray<Step>
  pull: "none" | "open" | "merged" | "closed"
}

/** The tree of the files as they lie there, without what rules leave out, by git as anybody runs it. */
const treeNow = (tree: string): string => {
  const env = { ...process.env, GIT_INDEX_FILE: join(tree, ".git", "property-index"), GIT_CONFIG_GLOBAL: "/dev/null" }
  const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", tree, ...args], { env, encoding: "utf8" }).trim()
  git("read-tree", "HEAD")
  git("add", "--all")
  return git("write-tree")
}

const run = Effect.fnUntraced(function*(seed: number) {
  const sql = yield* SqlClient.SqlClient
  const origin = yield* World.localOrigin
  const directory = yield* World.temporaryFolder
  const id = World.newId()
  yield* World.clone(directory, origin, id)
  const lease = yield* World.running(id)
  const tree = World.treeOf(directory, id)
  const chance = chanceOf(seed)
  const there = (...args: ReadonlyArray<string>) => World.git(origin.path, ...args)
  const here = (...args: ReadonlyArray<string>) => World.git(tree, ...args)
  const base = here("rev-parse", "HEAD")
  const model: Model = { round: 1, head: null, steps: [], pull: "none" }
  const branch = (round = model.round) => headRef(id, round)
  const tipOf = (name: string) => there("for-each-ref", "--format=%(objectname)", `refs/heads/${name}`) || null
  const done: Array<string> = []
  let count = 0
  const fresh = () => `${++count}\n`
  const write = (name: string, content = fresh()) => writeFileSync(join(tree, name), content)
  const commit = () => {
    const name = chance.pick(["a", "b", "c"])
    write(name)
    here("add", name)
    here("commit", "--quiet", "--message", `agent ${count}`)
  }
  const end = (state: "merged" | "closed") =>
    Effect.map(
      Effect.orDie(sql`
        UPDATE local_pull_requests SET state = 'closed', merged = ${state === "merged"} WHERE head_ref = ${branch()} AND state = 'open'`),
      () => {
        model.pull = state
      }
    )
  const isAgents = () => here("rev-parse", "HEAD") !== base
  const hasMoved = () => model.head !== null && tipOf(branch()) !== model.head

  const deeds: Readonly<Record<string, Effect.Effect<unknown>>> = {
    write: Effect.sync(() => write(chance.pick(["a", "b", "c", "open"]))),
    delete: Effect.sync(() => rmSync(join(tree, chance.pick(["a", "b", "old.txt"])), { force: true })),
    commit: Effect.sync(commit),
    amend: Effect.sync(() => isAgents() && here("commit", "--quiet", "--amend", "--all", "--message", `amended ${++count}`)),
    reset: Effect.sync(() => isAgents() && here("reset", "--quiet", "--hard", "HEAD^")),
    base: Effect.sync(() => {
      writeFileSync(join(origin.path, "upstream"), fresh())
      there("add", "upstream")
      there("commit", "--quiet", "--message", "upstream")
    }),
    push: Effect.sync(() => {
      if (model.pull !== "open" || hasMoved()) return
      const sha = there("commit-tree", `${model.head}^{tree}`, "-p", model.head ?? "", "-m", "somebody else's")
      there("update-ref", `refs/heads/${branch()}`, sha)
    }),
    settle: Effect.sync(() => hasMoved() && model.pull === "open" && there("update-ref", `refs/heads/${branch()}`, model.head ?? "")),
    merge: Effect.suspend(() => {
      if (model.pull !== "open" || hasMoved()) return Effect.void
      const how = chance.pick(["merge", "squash", "rebase"])
      try {
        if (how === "merge") there("merge", "--quiet", "--no-edit", "--no-ff", branch())
        else if (how === "squash") there("merge", "--quiet", "--squash", branch())
        else there("cherry-pick", "--keep-redundant-commits", `${there("merge-base", "trunk", branch())}..${branch()}`)
        if (how === "squash") there("commit", "--quiet", "--allow-empty", "--message", "squashed")
      } catch {
        there("reset", "--quiet", "--hard", "trunk")
        return Effect.void
      }
      return end("merged")
    }),
    close: Effect.suspend(() => model.pull === "open" && !hasMoved() ? end("closed") : Effect.void),
    gone: Effect.sync(() => {
      if (model.pull !== "open" || hasMoved()) return
      there("update-ref", "-d", `refs/heads/${branch()}`)
      model.pull = "closed"
    })
  }

  /** The tree that is to be pushed, or `conflict`. */
  const expectedTree = (steps: ReadonlyArray<Step>): string => {
    let now = treeNow(tree)
    // The objects of both: the agent's and the host's.
    const env = { ...process.env, GIT_ALTERNATE_OBJECT_DIRECTORIES: join(origin.path, ".git", "objects") }
    const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", tree, ...args], { env, encoding: "utf8" }).trim()
    const made = (of: string, ...parents: ReadonlyArray<string>) =>
      git("-c", "user.name=x", "-c", "user.email=x@x", "commit-tree", of, ...parents.flatMap((parent) => ["-p", parent]), "-m", "x")
    for (const { ancestor, onto } of steps) {
      const common = made(`${ancestor}^{tree}`)
      try {
        now = git("merge-tree", "--write-tree", made(`${onto}^{tree}`, common), made(now, common))
      } catch {
        return "conflict"
      }
    }
    return now
  }

  const publish = Effect.gen(function*() {
    const tipBefore = tipOf(branch())
    const own = here("rev-parse", "HEAD")
    const isNext = model.pull === "merged" || model.pull === "closed"
    const round = isNext ? model.round + 1 : model.round
    const onto = there("rev-parse", "trunk")
    const steps = !isNext ? model.steps : model.pull === "merged"
      ? [...model.steps, { onto, ancestor: model.head ?? "" }]
      : [...model.steps.slice(0, -1), { onto, ancestor: model.steps.at(-1)?.ancestor ?? base }]
    const parent = isNext ? onto : model.head ?? base
    const wanted = expectedTree(steps)
    const name = branch(round)
    const isMoved = !isNext && model.head !== null && tipBefore !== model.head
    yield* World.ask(id)
    yield* World.carryOut(directory, origin, lease)
    const told = (yield* World.updates(id)).at(-1)?.data
    const tip = tipOf(name)
    const code = told?.error?.code ?? "published"
    done.push(`publish: ${code}`)
    if (isMoved) {
      assert.strictEqual(code, "branch_moved")
      assert.strictEqual(tip, tipBefore)
      return
    }
    if (wanted === "conflict") {
      assert.strictEqual(code, "merge_conflict")
      assert.strictEqual(tip, isNext ? null : tipBefore)
      return
    }
    if (wanted === there("rev-parse", `${parent}^{tree}`)) {
      // A published change can be published again; an empty pull request is not opened.
      assert.strictEqual(code, isNext || model.head === null ? "invalid_request" : "published")
      assert.strictEqual(tip, isNext ? null : tipBefore)
      return
    }
    assert.strictEqual(code, "published")
    assert.deepInclude(told, { action_state: "idle", head_ref: name, head_sha: tip ?? "", state: "open" })
    assert.strictEqual(there("rev-parse", `${tip}^{tree}`), wanted)
    const added = there("rev-list", "--reverse", `${tip}`, `^${parent}`).split("\n")
    assert.strictEqual(there("merge-base", parent, tip ?? ""), parent)
    const isOnAgents = steps.length === 0 && own !== base && (model.head === null || isIn(own, model.head))
    const agents = isOnAgents ? here("rev-list", "--reverse", own, `^${parent}`).split("\n").filter((sha) => sha !== "") : []
    const isWhole = isOnAgents && here("rev-parse", `${own}^{tree}`) === wanted
    assert.deepStrictEqual(added.slice(0, agents.length), agents)
    assert.strictEqual(added.length, agents.length + (isWhole ? 0 : 1))
    Object.assign(model, { round, head: tip, steps, pull: "open" })
  })
  /** Whether the agent's history has the commit. */
  const isIn = (own: string, sha: string): boolean => {
    try {
      here("merge-base", "--is-ancestor", sha, own)
      return true
    } catch {
      return false
    }
  }

  yield* Effect.gen(function*() {
    for (let step = 0; step < STEPS; step++) {
      const deed = chance.pick(["write", "write", "commit", "commit", ...Object.keys(deeds)])
      done.push(deed)
      yield* deeds[deed] ?? Effect.void
      yield* publish
    }
  }).pipe(Effect.catchDefect((cause) => Effect.die(new Error(`seed ${seed}: ${done.join(", ")}`, { cause }))))
  return done
}, Effect.scoped)

it.layer(World.Database.layer)("publications append", (it) => {
  for (let seed = 1; seed <= SEEDS; seed++) it.effect(`as the table says, seed ${seed}`, () => run(seed))
})
