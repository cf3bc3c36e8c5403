/** Kills a worker at every step of a publication, lets another one take over, and looks at what came of it. */
import { assert } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Lease } from "@slipway/domain/sandbox/ports/Leases"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Finished from "./Finished.ts"
import type { Order } from "./publish-once.ts"
import * as Steps from "./Steps.ts"
import * as World from "./World.ts"

/** Where a run is killed: at a step of the process, or at the n-th request, before or after it took effect. */
type Death = { readonly step: Steps.Step } | { readonly request: number; readonly when: "before" | "after" }

const nameOf = (death: Death | null, plan: Plan): string =>
  death === null ?
    "not at all"
    : "step" in death ?
    `at "${death.step.name}", the ${death.step.nth}. of them`
    : `at request ${death.request}, ${death.when} ${plan.requests[death.request - 1]}`

interface Plan {
  readonly steps: ReadonlyArray<Steps.Step>
  readonly requests: ReadonlyArray<string>
}

/** All of them takes minutes: with `KILLS_EVERY=3`, every third. */
const EVERY = Number(process.env["KILLS_EVERY"] ?? 1)

const deathsOf = ({ requests, steps }: Plan): ReadonlyArray<Death> =>
  [
    ...steps.map((step) => ({ step })),
    ...requests.flatMap((_, i) => (["before", "after"] as const).map((when) => ({ request: i + 1, when })))
  ].filter((_, i) => i % EVERY === 0)

const killGroup = (group: number): void => {
  try {
    process.kill(-group, "SIGKILL")
  } catch {
    // gone by itself
  }
}

/** One run in a process of its own, to its end or to its death. Answers what it did until then. */
const run = Effect.fnUntraced(function*(
  origin: World.Origin,
  directory: string,
  lease: Lease,
  death: Death | null,
  { finished = null, round = null }: Partial<Pick<Order, "finished" | "round">> = {}
) {
  const { grantId, url } = yield* World.Database
  const control = join(yield* World.temporaryFolder, "control")
  Steps.control(control, death !== null && "step" in death ? death.step : null)
  const order: Order = { control, grantId, lease, finished, round, settings: { database: url, directory, ...origin.settings } }
  const program = fileURLToPath(new URL("./publish-once.ts", import.meta.url))
  const worker = yield* SpawnedProgram.scoped(process.execPath, [program, JSON.stringify(order)], {
    env: { ...process.env, PATH: `${control}:${process.env["PATH"]}`, PRIVATE_KEY: origin.privateKey }
  })
  const { server } = origin
  const seen: Array<string> = []
  let isOver = false
  server?.watch(({ method, url }) => {
    if (isOver) return
    const isOfGit = /\.git\//u.test(url)
    seen.push(`${isOfGit ? "git " : ""}${method} ${url.replaceAll(/c_\w{12}|\d+(?=\/access)/gu, "*")}`)
    if (death === null || "step" in death || seen.length !== death.request) return
    server.strike({
      method,
      url: /^/u,
      when: death.when,
      outcome: () => {
        worker.child.kill("SIGKILL")
        if (isOfGit) killGroup(Steps.lastGit(control))
        // No client reads this.
        return { status: 500 }
      }
    })
  })
  const { code, signal } = yield* Effect.promise(() => worker.ended)
  if (code !== 0 && signal === null) return yield* Effect.die(new Error(`the worker failed with code ${code}: ${worker.stderr()}`))
  isOver = true
  // The number of looks of a round depends on the time, so a round may end before the step.
  if (round === null || death === null) assert.strictEqual(signal, death === null ? null : "SIGKILL")
  const plan: Plan = { steps: Steps.steps(control), requests: seen }
  const gits = (how: string) => Steps.steps(control).filter(({ name }) => name.endsWith(how)).length
  const isAlone = death !== null && "step" in death && gits(Steps.ALONE) > gits(Steps.ENDED)
  /** Until every git that was left alone has come to its end. */
  const alone = Effect.promise(async () => {
    if (!isAlone) return
    while (gits(Steps.ALONE) > gits(Steps.ENDED)) await new Promise((resolve) => setImmediate(resolve))
  })
  return { plan, alone, isAlone }
})

/** Runs one publication, killed at `death`, and what comes after. */
const publish = Effect.fnUntraced(function*(
  origin: World.Origin,
  sandbox: { readonly directory: string; readonly id: SandboxId; readonly lease: Lease },
  what: string,
  death: Death | null,
  expected: Plan | null
) {
  const { directory, id, lease } = sandbox
  return yield* Effect.gen(function*() {
    yield* World.ask(id)
    const { alone, isAlone, plan } = yield* run(origin, directory, lease, death)
    if (death !== null && "step" in death) assert.includeDeepMembers([...expected?.steps ?? []], [...plan.steps])
    const next = yield* World.takeOver(id)
    assert.deepStrictEqual(next.lease, { sandboxId: id, fence: lease.fence + 1 })
    yield* World.carryOut(directory, origin, next.lease)
    yield* alone
    const { events } = yield* World.assertPublished(origin, id, what)
    // Each publication begins once and ends once.
    assert.deepStrictEqual(events, events.map((_, i) => i % 2 === 1 ? "idle" : i === 0 ? "publishing" : "updating"))
    return { isAlone, lease: next.lease, plan }
  }).pipe(
    Effect.scoped,
    Effect.catchDefect((cause) => Effect.die(new Error(`killed ${expected === null ? "not at all" : nameOf(death, expected)}`, { cause })))
  )
})

/** The first publication of a sandbox, each time of a fresh one. */
export const first = Effect.fnUntraced(function*(origin: World.Origin) {
  const { next } = yield* World.sandboxes(origin)
  const attempt = Effect.fnUntraced(function*(death: Death | null, expected: Plan | null) {
    const fresh = yield* next
    const { isAlone, plan } = yield* publish(origin, fresh, "work", death, expected)
    // A git that was left alone may have written there after the next worker had swept.
    if (!isAlone) assert.deepStrictEqual(World.leftOver(fresh.directory, fresh.id), [])
    return plan
  }, Effect.scoped)

  const plan = yield* attempt(null, null)
  for (const death of deathsOf(plan)) yield* attempt(death, plan)
  return plan
})

/** How often a worker is killed at what every publication does. */
const COMMON = 3

/**
 * The publication of a sandbox that is over and whose machine is gone, each time of a fresh one: killed at each step until its trees
 * are there, and at some of what comes then, of which `first` has all.
 */
export const finished = Effect.fnUntraced(function*(origin: World.Origin) {
  const { next } = yield* World.sandboxes(origin)
  const { grantId } = yield* World.Database
  const attempt = Effect.fnUntraced(
    function*(death: Death | null) {
      const { directory: gone, id, lease } = yield* next
      yield* World.finish(gone, origin, lease)
      yield* World.ask(id)
      const directory = yield* World.temporaryFolder
      const taken = yield* World.takeElsewhere(lease)
      assert.strictEqual(taken.moved, "lost")
      const { alone, isAlone, plan } = yield* run(origin, directory, taken.lease, death, { finished: { moved: taken.moved } })
      if (yield* World.isToPublish(id)) {
        const hasTrees = yield* World.isRestored(id)
        const next = yield* World.takeElsewhere(taken.lease)
        assert.deepStrictEqual([next.lease.fence, next.moved], [taken.lease.fence + 1, hasTrees ? null : taken.moved])
        yield* Finished.serve(next.lease, grantId, next.moved).pipe(
          Effect.provide(World.worker({ directory, ...origin.settings }, origin.privateKey))
        )
        if (!isAlone) assert.isFalse(World.isThere(directory, id))
      }
      yield* alone
      const { events } = yield* World.assertPublished(origin, id, "work")
      assert.deepStrictEqual(events, ["publishing", "idle"])
      return plan
    },
    Effect.scoped
  )

  const plan = yield* attempt(null)
  const restored = plan.steps.findIndex(({ name }) => name === "a commit to the database is done") + 1
  assert.isAbove(restored, 20)
  const early = new Set(plan.steps.slice(0, restored))
  const deaths = deathsOf(plan).filter((death, i) => "step" in death && early.has(death.step) || i % COMMON === 0)
  for (const death of deaths) {
    yield* Effect.catchDefect(
      attempt(death),
      (cause) => Effect.die(new Error(`killed ${nameOf(death, plan)}`, { cause }))
    )
  }
  return plan
})

/** Publications of a sandbox that has a pull request, one after the other: what one left must not stop a later one, nor pile up. */
export const later = Effect.fnUntraced(function*(origin: World.Origin) {
  const directory = yield* World.temporaryFolder
  const id = World.newId()
  yield* World.clone(directory, origin, id)
  const tree = World.treeOf(directory, id)
  let lease = yield* World.running(id)
  const attempt = Effect.fnUntraced(function*(what: string, death: Death | null, expected: Plan | null) {
    World.work(tree, what)
    const done = yield* publish(origin, { directory, id, lease }, what, death, expected)
    lease = done.lease
    return done.plan
  })
  yield* attempt("the first", null, null)
  const plan = yield* attempt("the second", null, null)
  const deaths = deathsOf(plan)
  for (const [i, death] of deaths.entries()) yield* attempt(`work ${i}`, death, plan)
  const publications = deaths.length + 2
  assert.strictEqual((yield* World.updates(id)).length, 2 * publications)
  yield* attempt("the last", null, null)
  assert.deepStrictEqual(World.leftOver(directory, id), [])
  // The commits and the tree of each publication, once, with their index.
  assert.strictEqual(World.packs(directory, id).length, 4 * (publications + 1))
  return plan
})

/**
 * Rounds of feedback, one after the other, of a sandbox that continues the pull request of another one. Each round publishes to the
 * continued branch. A round that was killed is finished by another worker.
 */
export const rounds = Effect.fnUntraced(function*(origin: World.Origin) {
  const { branch, directory, events, id, lease, look, number, replies, say, tree } = yield* World.successor(origin)
  const count = () => Number(World.git(origin.path, "rev-list", "--count", branch))
  let told = (yield* events).length
  const attempt = Effect.fnUntraced(function*(what: string, death: Death | null, _expected: Plan | null) {
    const before = count()
    yield* say(what)
    const { alone, plan } = yield* run(origin, directory, lease, death, { round: { tree } })
    yield* look
    yield* alone
    const all = yield* events
    const now = all.slice(told)
    told = all.length
    const of = (type: string) => now.filter((event) => event.type === type)
    const prompts = now.filter((event) => event.type === "turn.updated" && event.data.state === "pending")
    assert.deepStrictEqual(
      {
        turns: prompts.length,
        received: of("feedback.received").length,
        publication: now.flatMap((event) => event.type === "pull_request.updated" ? [event.data.action_state] : []),
        pushed: count() - before,
        replied: of("feedback.replied").length,
        replies: (yield* replies).map(({ body }) => body.split(" with")[0])
      },
      { turns: 1, received: 1, publication: ["updating", "idle"], pushed: 1, replied: 1, replies: ["The agent is done"] }
    )
    const shown = World.git(origin.path, "show", `${branch}:asked.txt`)
    assert.include(shown, `> ${what}`)
    const pulls = (yield* origin.pulls).filter(({ headRef }) => headRef === branch)
    assert.deepStrictEqual(pulls.map(({ number, headSha }) => [number, headSha]), [[number, World.git(origin.path, "rev-parse", branch)]])
    return plan
  }, (self, _what, death, expected) =>
    self.pipe(
      Effect.scoped,
      Effect.catchDefect((cause) =>
        Effect.die(new Error(`killed ${expected === null ? "not at all" : nameOf(death, expected)}`, { cause }))
      )
    ))
  yield* attempt("the first", null, null)
  const plan = yield* attempt("the second", null, null)
  for (const [i, death] of deathsOf(plan).entries()) yield* attempt(`round ${i}`, death, plan)
  yield* attempt("the last", null, null)
  assert.deepStrictEqual(World.git(origin.path, "for-each-ref", "--format=%(refname)", `refs/heads/**/*${id}*`), "")
  return plan
})
