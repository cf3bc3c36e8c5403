/**
 * A seeded simulation of the whole service in one process: domain, stores, workers, machines, agents, models, source host, the
 * processes that answer people, the people who use them and the partners who are told, under one scheduler and one clock, with calls
 * that fail, come late or twice, and processes that are killed at every step. After each step the rules must hold, and once nothing
 * goes wrong any more everything must settle. In some seeds a month passes then. The same seed is the same run.
 */
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import type { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Outcome from "effect/Result"
import { type Around as Reviewing, reviewer } from "../branches/Reviews.ts"
import { Chance } from "../chance/Chance.ts"
import { type Around, daily, keeper, ranOnce } from "./Automations.ts"
import { DEAD, type Keyed, operator, partner, person, REPOSITORIES, revokeGrant, type Scene } from "./People.ts"
import { clients } from "./Servers.ts"
import type { Process } from "./Timeline.ts"
import type { Broken } from "./Trace.ts"
import { outages, releases, troubles } from "./Troubles.ts"
import { WAITS } from "./WebhookWitness.ts"
import { isRunning, launch, type Slot } from "./WorkerSlots.ts"
import { type Options, paidModel, TROUBLE_MILLIS, World } from "./World.ts"

export { type GivenStores, type Stores, StoresDoNotFit } from "../stores/FilledStores.ts"
export type { Options, Systems, WorkerPorts } from "./World.ts"

/** The result of a seed. */
export interface Result {
  readonly seed: number
  /** The first rule that did not hold; `null`: all did. */
  readonly broken: Broken | null
  readonly steps: number
  /** Simulated milliseconds. */
  readonly millis: number
  /** How often what happened: faults by kind, what became of sandboxes, turns and commands. */
  readonly counts: ReadonlyMap<string, number>
  /** The last lines, or all of them. */
  readonly trace: ReadonlyArray<string>
  /** Equal for equal runs. */
  readonly digest: string
}

const DAY = 86_400_000

/** Until a worker has looked for reservations of ended sandboxes. */
const RESERVED_MILLIS = 70_000
/** By then everything has settled: a lifetime, a lease and what their end takes. */
const SETTLED_MILLIS = 300_000
/** With feedback, which waits for a minute of quiet, and two for a look whose worker died: some rounds, and a new sandbox. */
const REVIEWED_MILLIS = 1_500_000
/** How long people comment while nothing goes wrong any more. */
const COMMENTS_MILLIS = 90_000
/** Twenty times the steps of the longest of many simulations: a run that never comes to rest is stopped here. */
const MAX_STEPS = 200_000

/** The people of a run. */
interface Cast {
  readonly scene: Scene
  /** `null`: this seed has no automations. */
  readonly keeping: Around | null
  /** `null`: this seed has no feedback. */
  readonly reviewing: Reviewing | null
  /** The operator's process. */
  readonly office: Process
  /** The ports of people. */
  readonly asked: Context.Context<PartnerStore | Publishing | Sandboxes>
}

/** Runs one seed to its end, or to the first rule that breaks. */
export const simulate = (options: Options): Result => {
  const world = new World(options)
  const { slots, start, timeline, trace } = world
  const cast = peopleOf(world)
  if (cast.reviewing !== null) world.spawn(world.people, cast.asked, reviewer(cast.reviewing))
  if (cast.keeping !== null) world.spawn(world.people, Context.empty(), keeper(cast.keeping))
  world.spawn(world.process, Context.empty(), outages(world))
  world.spawn(world.process, Context.empty(), troubles(world))
  world.spawn(world.process, Context.empty(), releases(world))
  for (const slot of slots) launch(world, slot)
  if (runUntil(world, timeline.now + TROUBLE_MILLIS)) calm(world, cast)
  return {
    seed: options.seed,
    broken: trace.broken,
    steps: timeline.steps,
    millis: timeline.now - start,
    counts: trace.counts,
    trace: trace.lines,
    digest: trace.digest
  }
}

/** Starts the processes that answer people, the people, and the operator. */
const peopleOf = (world: World): Cast => {
  const { agentIdle, chance, faults, grants, machines, options, people, servers, trace, versions, witness } = world
  const office = world.lasting("operator")
  servers.startAll(() => 0)
  const scene: Scene = {
    chance: chance.fork(),
    witness,
    trace,
    active: () => faults.on,
    moments: [agentIdle, versions.newest.limits.idle].map((duration) => Duration.toMillis(duration)),
    servers,
    repositories: world.repositories,
    keyed: [],
    grants: grants.map(({ id }) => id),
    paidModel: paidModel.id,
    hasWebhooks: options.webhooks === true
  }
  const actions = Effect.all([...Array.from({ length: chance.between(1, 4) }, (_, n) => person(scene, n + 1)), partner(scene)], {
    concurrency: "unbounded",
    discard: true
  })
  const asked = Context.merge(world.portsOf(people, machines[0]!), clients(servers))
  world.spawn(people, asked, actions)
  world.spawn(office, world.portsOf(office, machines[0]!), operator(scene, faults))
  return { asked, keeping: keepingOf(world, scene), reviewing: reviewingOf(world), office, scene }
}

/** Draws of its own: a seed without automations is the run that it was before there were any. */
const keepingOf = ({ automations, grants, options, rightsWitness, servers, timeline, trace }: World, { active }: Scene): Around | null => {
  if (automations === null) return null
  const chance = new Chance(options.seed ^ 0x31313131)
  const grantId = chance.pick(grants).id
  const isGood = () => rightsWitness.isRevoked(grantId) === false
  return { automations, chance, servers, trace, timeline, grantId, active, isGood }
}

/** Draws of its own, like those of automations. */
const reviewingOf = ({ grants, options, reviews, start, timeline }: World): Reviewing | null => {
  if (reviews === null) return null
  const chance = new Chance(options.seed ^ 0x25252525)
  const active = () => timeline.now < start + TROUBLE_MILLIS + COMMENTS_MILLIS
  return { reviews, chance, repository: chance.pick(REPOSITORIES), grantId: chance.pick(grants).id, active }
}

/** Runs until then, or to the first rule that breaks. Answers whether all rules hold. */
const runUntil = ({ options, timeline, trace, witness }: World, until: number): boolean => {
  const { steps = MAX_STEPS } = options
  while (trace.broken === null && timeline.steps < steps && timeline.step(until)) continue
  if (trace.broken === null && timeline.steps >= steps) {
    const { busiest } = timeline
    trace.breaks(
      "everything settles",
      `not within ${steps} steps, of which ${busiest?.name} took ${busiest?.steps}: ${witness.unsettled() ?? "no sandbox is left"}`
    )
  }
  return trace.broken === null
}

/** A box or tree that is left on a machine, as a sentence; `null`: none. */
const orphan = ({ machines, timeline }: World): string | null => {
  for (const { name, systems } of machines) {
    const [boxes, trees] = timeline.run(
      systems,
      Effect.all([
        Effect.orDie(SandboxHost.use((host) => host.list)),
        WorkingTrees.use((trees) => trees.sandboxes)
      ])
    )
    if (boxes.length > 0) return `${name} still has a box of ${boxes.join()}`
    if (trees.length > 0) return `${name} still has trees of ${trees.join()}`
  }
  return null
}

/** Runs without faults until everything has settled. In some seeds a month passes then. */
const calm = (world: World, cast: Cast) => {
  const { chance, faults, losesGrant, operating, passesMonth, rightsWitness, timeline, trace, witness } = world
  const { office, scene } = cast
  faults.on = false
  world.versions.spread()
  trace.add("from here on nothing goes wrong")
  rightsWitness.calmSince = timeline.now
  // All calls are answered by now, so what follows has to follow at once.
  if (losesGrant) {
    trace.count("grants revoked in calm")
    const grant = chance.pick(scene.grants)
    world.spawn(office, operating, Effect.delay(revokeGrant(scene, grant), chance.between(1, 4_000)))
  }
  if (!settle(world) || !runUntil(world, timeline.now + 5_000)) return
  // A sandbox whose machine was lost is examined only once in a while.
  if (witness.money.holds) {
    trace.count("reservations of sandboxes that were over without a worker")
    if (!runUntil(world, timeline.now + RESERVED_MILLIS)) return
  }
  over(world)
  if (trace.broken === null && !deletes(world, cast, chance.fork())) return
  if (trace.broken === null && passesMonth) month(world, cast)
}

/** Keeps all processes running until everything has settled. Answers whether all rules hold. */
const settle = (world: World): boolean => {
  const { automations, reviews, servers, slots, timeline, trace, witness } = world
  const calmAt = timeline.now
  const history: Array<ReadonlyMap<SandboxId, number>> = []
  for (;;) {
    servers.startAll(() => 0)
    for (const process of servers.processes) {
      if (process.paused) timeline.resume(process)
      process.skewMillis = 0
    }
    for (const slot of slots) {
      if (slot.process?.paused === true) timeline.resume(slot.process)
      // A process whose clock is wrong enforces nothing.
      if (slot.process !== null) slot.process.skewMillis = 0
      if (!isRunning(slot)) launch(world, slot)
    }
    if (!runUntil(world, timeline.now + 1000)) return false
    const latest = history.at(-6)
    if (latest !== undefined) witness.keepsUp(latest)
    witness.needsAreMet()
    history.push(new Map(Array.from(witness.sandboxes, ([id, { state }]) => [id, state.lastSeq])))
    automations?.check()
    const left = automations?.unsettled() ?? reviews?.unsettled() ?? witness.unsettled() ?? orphan(world)
    if (left === null && history.length > 6) return true
    if (timeline.now - calmAt > (reviews === null ? SETTLED_MILLIS : REVIEWED_MILLIS)) {
      const isMissing = left !== null && left === witness.webhooks.missing()
      trace.breaks(isMissing ? "a notification that is due arrives, or is recorded as failed" : "everything settles", left ?? "")
      return false
    }
  }
}

/** Checks the rules of everything that has ended. */
const over = ({ automations, grants, reviews, spending, timeline, witness }: World) => {
  witness.end()
  automations?.end()
  reviews?.end()
  for (const { id } of grants) witness.money.end(id, timeline.run(Context.empty(), Effect.orDie(spending.of(id))))
}

/** Runs an action of people, while time passes as usual. Answers whether it ended and all rules hold. */
const done = (
  world: World,
  { asked }: Pick<Cast, "asked">,
  what: string,
  deed: Effect.Effect<unknown, unknown, Sandboxes | PartnerStore>
): boolean => {
  const { people, timeline, trace } = world
  let isDone = false
  world.spawn(people, asked, deed, (exit) => {
    isDone = true
    world.mustNotFail(exit)
  })
  const until = timeline.now + 60_000
  while (!isDone && timeline.now < until) if (!runUntil(world, timeline.now + 500)) return false
  if (!isDone) trace.breaks("everything settles", what)
  return isDone && trace.broken === null
}

const ENDED: ReadonlyArray<string> = ["succeeded", "failed", "terminated"]

/** People delete sandboxes that ended, each twice at once. Answers whether all rules hold. */
const deletes = (world: World, cast: Cast, chance: Chance): boolean => {
  const { rightsWitness, trace, witness } = world
  const ended = new Map(cast.scene.keyed.flatMap(({ by, id }) => {
    const status = witness.sandboxes.get(id)?.state.status
    const mayBe = status !== undefined && ENDED.includes(status) && rightsWitness.isRevoked(by.grantId) === false
    return mayBe && chance.is(0.5) ? [[id, by] as const] : []
  }))
  const each = Effect.forEach(ended, ([id, by]) => {
    const remove = Effect.result(Sandboxes.use((sandboxes) => sandboxes.delete(by, id)))
    return Effect.map(Effect.all([remove, remove], { concurrency: 2 }), (results) => {
      trace.count("deletions")
      if (results.filter(Outcome.isSuccess).length !== 1) trace.breaks("of two deletions one is made", id)
    })
  })
  if (!done(world, cast, "sandboxes are deleted", each)) return false
  witness.isDeleted(Array.from(ended.keys()))
  return trace.broken === null && runUntil(world, world.timeline.now + 5_000)
}

/** Skips this time without a step. */
const leap = (world: World, millis: number): boolean => {
  world.timeline.now += millis
  world.trace.add(`${(millis / DAY).toFixed(1)} days later`)
  return runUntil(world, world.timeline.now + 20_000)
}

/** A month passes: a dead receiver is given up, keys answer for their time and no longer, and expired data is deleted. */
const month = (world: World, cast: Cast) => {
  const { grants, options, rightsWitness, slots, timeline, trace, witness } = world
  trace.count("months")
  // A process that was asked to end leaves soon, and has a successor.
  const leaves = (slot: Slot) => isRunning(slot) && slot.stop !== null && Deferred.isDoneUnsafe(slot.stop)
  const left = timeline.now + SETTLED_MILLIS
  for (let slot = slots.find(leaves); slot !== undefined; slot = slots.find(leaves)) {
    if (!runUntil(world, timeline.now + 1000)) return
    if (timeline.now > left) return trace.breaks("everything settles", `${slot.process?.name} was asked to end and runs on`)
  }
  for (const slot of slots) if (!isRunning(slot)) launch(world, slot)
  const good = grants.filter(({ id }) => rightsWitness.isRevoked(id) === false)
  const [first] = good
  if (first !== undefined && options.webhooks === true && !givesUp(world, cast, first.id)) return
  const before = Array.from(witness.sandboxes.keys())
  if (!leapsMissing(world, cast, 29 * DAY - 4 * DAY)) return
  const known = cast.scene.keyed.filter(({ by }) => good.some(({ id }) => id === by.grantId))
  if (!done(world, cast, "creations are replayed", replays(world, known))) return
  if (!leap(world, 5 * DAY)) return
  witness.forgetsKeys()
  const old = Array.from(witness.sandboxes.keys())
  if (!done(world, cast, "creations are made anew", creations(world, known, old))) return
  const until = timeline.now + SETTLED_MILLIS
  while (witness.unsettled() ?? orphan(world)) {
    if (!runUntil(world, timeline.now + 1000)) return
    if (timeline.now > until) return trace.breaks("everything settles", witness.unsettled() ?? orphan(world) ?? "")
  }
  witness.isForgotten(before)
}

/** Skips this time. If there are automations, a daily one is missed meanwhile, and runs once. Answers whether all rules hold. */
const leapsMissing = (world: World, cast: Cast, millis: number): boolean => {
  const { timeline, trace, witness } = world
  const { keeping } = cast
  let id: string | null = null
  if (keeping !== null) {
    const makes = Effect.map(daily(keeping), (made) => void (id = made))
    if (!done(world, cast, "an automation is made", makes)) return false
  }
  const back = timeline.now + millis
  if (!leap(world, millis)) return false
  if (keeping === null || id === null) return true
  if (!done(world, cast, "automations are paused", ranOnce(keeping, id, back))) return false
  const until = timeline.now + SETTLED_MILLIS
  for (let left = witness.unsettled() ?? orphan(world); left !== null; left = witness.unsettled() ?? orphan(world)) {
    if (!runUntil(world, timeline.now + 1000)) return false
    if (timeline.now > until) trace.breaks("everything settles", left)
  }
  return true
}

const again = ({ by, key, request }: Keyed) => Sandboxes.use((sandboxes) => sandboxes.create(by, request, key))

/** Repeats creations whose keys are still valid. */
const replays = ({ trace, witness }: World, known: ReadonlyArray<Keyed>) =>
  Effect.forEach(known, (one) =>
    Effect.map(again(one), ({ replayed, sandbox }) => {
      trace.count("keys that answered weeks later")
      if (!replayed || sandbox.id !== one.id) trace.breaks("a key answers for 30 days", `${one.id}, ${sandbox.id}`)
    }).pipe(
      Effect.catchTag("SandboxDeleted", () =>
        Effect.sync(() => {
          trace.count("keys of deleted sandboxes")
          if (!witness.deleted.has(one.id)) trace.breaks("a key answers for 30 days", `${one.id} was not deleted`)
        }))
    ))

/** Repeats creations whose keys have expired. `old`: the sandboxes so far. */
const creations = ({ trace }: World, known: ReadonlyArray<Keyed>, old: ReadonlyArray<SandboxId>) =>
  Effect.forEach(known, (one) =>
    Effect.flatMap(again(one), ({ replayed, sandbox }) => {
      trace.count("keys that made anew")
      if (replayed || old.includes(sandbox.id)) trace.breaks("after its time a key makes a sandbox anew", `${one.id}, ${sandbox.id}`)
      return Sandboxes.use((sandboxes) => sandboxes.terminate(one.by, sandbox.id))
    }).pipe(
      // It is a creation like any other by now, so the budget of its grant may refuse it.
      Effect.catchTag("BudgetExceeded", () => Effect.sync(() => trace.count("keys that made nothing without a budget")))
    ))

/** An endpoint that never answers gets three days of attempts, and no more. Answers whether all rules hold. */
const givesUp = (world: World, cast: Cast, grantId: string): boolean => {
  const { options, timeline, trace, webhooks, witness } = world
  const at = timeline.now
  const secret = { id: `00000000-0000-7000-8000-${String(options.seed).padStart(12, "0")}`, grantId, url: DEAD, types: null }
  const fact = (projectId: string) =>
    Effect.gen(function*() {
      const occurredAt = yield* DateTime.now
      const data = { claimId: secret.id, leadId: "lead", variant: "variant", occurredAt, projectId }
      const store = yield* PartnerStore
      yield* store.record(Effect.succeed({ result: null, tell: [{ grantId, fact: { type: "project.connected", data } }] }), occurredAt)
    })
  const value = Redacted.make("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
  const registers = Effect.gen(function*() {
    const createdAt = yield* DateTime.now
    yield* webhooks.register({ ...secret, createdAt }, value)
    // The other endpoints have another secret from now on.
    const others = witness.webhooks.endpoints.filter((endpoint) =>
      endpoint.grantId === grantId && !endpoint.isRemoved && endpoint.url !== DEAD
    )
    yield* Effect.forEach(others, ({ id }) => webhooks.rotate({ grantId, id }, value, createdAt))
    yield* fact("p")
  })
  if (!done(world, cast, "an endpoint is registered", registers)) return false
  for (const wait of WAITS) {
    if (!runUntil(world, timeline.now + 3_000)) return false
    timeline.now += wait * 1200 + 1000
  }
  if (!runUntil(world, timeline.now + 20_000)) return false
  witness.webhooks.gaveUp(secret.id)
  // The fact of another project, days after the secrets were replaced.
  if (!done(world, cast, "a fact is recorded", fact("q")) || !runUntil(world, timeline.now + 20_000)) return false
  trace.add(`after ${((timeline.now - at) / DAY).toFixed(1)} days the endpoint is given up`)
  return trace.broken === null
}

/** The broken rule, the lines before it, and the command that runs the seed again. */
export const failureOf = ({ broken, seed, trace }: Result): string =>
  [
    ...trace.slice(-30),
    "",
    `seed ${seed}, step ${broken?.step}: "${broken?.rule}" does not hold`,
    `  ${broken?.detail}`,
    `again: npm run simulate -- --seed ${seed} --trace`
  ].join("\n")
