/**
 * A seeded simulation of the whole service in one process: domain, stores, workers, machines, agents, models, source host, the
 * processes that answer people, the people who use them and the partners who are told, under one scheduler and one clock, with calls
 * that fail, come late or twice, and processes that are killed at every step. After each step the rules must hold, and once nothing
 * goes wrong any more everything must settle. In some seeds a month passes then. The same seed is the same run.
 */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import type { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as AccessStoreMemory from "@slipway/domain/memory/access/AccessStoreMemory"
import * as AuditLogMemory from "@slipway/domain/memory/access/AuditLogMemory"
import { MemoryDisk } from "@slipway/domain/memory/files/MemoryDisk"
import { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import * as WorkingTreesMemory from "@slipway/domain/memory/files/WorkingTreesMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as ModelGatewayMemory from "@slipway/domain/memory/models/ModelGatewayMemory"
import * as SpendingMemory from "@slipway/domain/memory/models/SpendingMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import * as WebhookStoreMemory from "@slipway/domain/memory/partner/WebhookStoreMemory"
import * as AgentRuntimeMemory from "@slipway/domain/memory/sandbox/AgentRuntimeMemory"
import * as SandboxHostMemory from "@slipway/domain/memory/sandbox/SandboxHostMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as SourceHostMemory from "@slipway/domain/memory/source/SourceHostMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import type { ModelGateway } from "@slipway/domain/models/ports/ModelGateway"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { Budgets } from "@slipway/domain/models/rules/Budget"
import { type Model, ModelCatalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases, type Worker } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { Workers } from "@slipway/domain/sandbox/ports/Workers"
import { type Limits, Policy } from "@slipway/domain/sandbox/rules/Policy"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { Hints } from "@slipway/domain/store/Hints"
import type * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { accessOf, receiversOf, spendingOf, webhooksOf } from "./AccountPorts.ts"
import { Chance } from "./Chance.ts"
import { Faults } from "./Faults.ts"
import { MoneyWitness } from "./MoneyWitness.ts"
import { DEAD, GRANTS, type Keyed, operator, partner, person, REPOSITORIES, revokeGrant, type Scene } from "./People.ts"
import { agentsOf, hintsOf, hostOf, partnersOf, sourceOf, type Started, storesOf, treesOf } from "./Ports.ts"
import { RightsWitness } from "./RightsWitness.ts"
import { clients, Servers } from "./Servers.ts"
import { type Process, Timeline } from "./Timeline.ts"
import { type Broken, Trace } from "./Trace.ts"
import { type Disk, diskOf, TreesWitness } from "./TreesWitness.ts"
import { WAITS, WebhookWitness } from "./WebhookWitness.ts"
import { Witness } from "./Witness.ts"

/** The ports of a worker. */
export type WorkerPorts =
  | Checkpoints
  | AgentRuntime
  | Hints
  | Ids
  | Publishing
  | Leases
  | ModelGateway
  | SandboxHost
  | SandboxStore
  | Setups
  | SourceHost
  | Maintenance
  | WebhookSender
  | WebhookStore
  | Workers
  | WorkingTrees

/** The options and the seed of a simulation. */
export interface Options {
  readonly seed: number
  /** Starts a worker, which runs until the scope closes. */
  readonly worker: (
    options: Worker & { readonly slots: number; readonly agentIdle: Duration.Duration }
  ) => Effect.Effect<void, never, WorkerPorts | Scope.Scope>
  /** The worker delivers events to webhooks as well. Left out: there are no webhooks. */
  readonly webhooks?: boolean
  /** Stores and systems of your own in place of the memory layers. None may need real time or a promise. */
  readonly layers?: Partial<Layers>
  /** Keeps every line of the trace, not the last ones alone. */
  readonly trace?: boolean
}

/** The systems of a simulation, each replaceable. */
export interface Layers {
  readonly hints: Layer.Layer<Hints>
  readonly access: Layer.Layer<AccessStore | MemberStore, never, Ids | AuditLog>
  readonly store: Layer.Layer<SandboxStore | Leases | Maintenance | Checkpoints | Setups | Workers, never, Hints>
  readonly partners: Layer.Layer<PartnerStore, never, Ids>
  readonly webhooks: Layer.Layer<WebhookStore, never, PartnerStore>
  readonly spending: Layer.Layer<Spending>
  readonly source: Layer.Layer<SourceHost, never, MemoryRepositories>
  readonly host: Layer.Layer<SandboxHost, never, MemoryDisk>
  readonly agents: Layer.Layer<AgentRuntime, never, MemoryDisk>
  readonly trees: Layer.Layer<WorkingTrees, never, MemoryDisk | MemoryRepositories>
}

const memory: Layers = {
  hints: HintsMemory.layer,
  access: AccessStoreMemory.layer,
  store: SandboxStoreMemory.layer,
  partners: PartnerStoreMemory.layer,
  webhooks: WebhookStoreMemory.layer,
  spending: SpendingMemory.layer,
  source: SourceHostMemory.layer,
  host: SandboxHostMemory.layer,
  agents: AgentRuntimeMemory.layer,
  trees: WorkingTreesMemory.layer
}

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

/** Short, so that all of them come due within minutes; a lease's 30 s are what they are measured by. */
const limitsOf = (chance: Chance): Changeable<Limits> => ({
  queue: Duration.seconds(chance.pick([60, 10])),
  boot: Duration.seconds(chance.pick([50, 10])),
  idle: Duration.seconds(chance.pick([60, 25, 8])),
  lost: Duration.seconds(chance.pick([20, 4])),
  lifetime: Duration.seconds(chance.pick([150, 40])),
  release: Duration.seconds(chance.pick([60, 5])),
  turn: Duration.seconds(chance.pick([30, 6])),
  approval: Duration.seconds(chance.pick([8, 3])),
  // In the midst of all that goes on, or a month later.
  retention: chance.pick([Duration.days(30), Duration.days(30), Duration.seconds(50)])
})

type Changeable<A> = { -readonly [K in keyof A]: A[K] }

/** Those that an operator changes in the midst of it. The others are told to people, or measured by those who watch. */
const CHANGED = ["queue", "boot", "idle", "lifetime", "release", "turn"] as const

/** A model that costs something: 3 to 15 micro-USD a token. The offline agent drives it, and asks it as an agent would. */
const paidModel: Model = {
  ...offlineDemo,
  id: "paid/model",
  offline: false,
  upstream: {
    protocol: "openai-chat",
    baseUrl: "https://models.example/v1",
    model: "model",
    keyVariable: null,
    prices: { input: 3_000_000, cachedInput: 300_000, cacheWrite: 3_000_000, output: 15_000_000 },
    contextTokens: 100_000,
    outputTokens: 10_000
  }
}

/** A few requests to a model come to so much; micro-USD. */
const budgetsOf = (chance: Chance) =>
  chance.pick([{ sandbox: null, grant: null }, { sandbox: null, grant: null }, { sandbox: 12_000, grant: null }, {
    sandbox: null,
    grant: 30_000
  }])

/** How wrong a clock is set. */
const skewOf = (chance: Chance): number => chance.pick([-25, -1, 1, 25]) * 3_600_000 + chance.between(-20_000, 20_000)

/** Spontaneous faults, and their frequency. */
const TROUBLES = [
  [5, "agentDied"],
  [1, "workerKilled"],
  [2, "workerStopped"],
  [1, "clockSet"],
  [1, "takenBack"],
  [3, "machineLost"],
  [2, "machineAway"],
  [2, "machineDrained"],
  [4, "checkpointDamaged"]
] as const

/** Where the memory layers have working trees, each sandbox's below its id. */
const WORK = "/memory/work/"

const DAY = 86_400_000

/** How long things go wrong. */
const TROUBLE_MILLIS = 70_000
/** Until somebody has looked what is still reserved. */
const RESERVED_MILLIS = 70_000
/** By then everything has settled: a lifetime, a lease and what their end takes. */
const SETTLED_MILLIS = 300_000
/** Far more steps than a simulation takes: a run that never comes to rest is stopped here. */
const MAX_STEPS = 2_000_000

/** Runs one seed to its end, or to the first rule that breaks. */
export const simulate = (options: Options): Result => {
  const chance = new Chance(options.seed)
  const timeline = new Timeline(chance.fork())
  const trace = new Trace(options.trace === true, timeline)
  const start = timeline.now
  const layers = { ...memory, ...options.layers }
  const limits = limitsOf(chance)
  const agentIdle = Duration.millis(chance.pick([500, 3_000, 3_000, 60_000]))
  const budgets = budgetsOf(chance)
  const passesMonth = chance.is(0.15)
  const losesGrant = chance.is(0.15)
  const started = new Map<Process, Started>()
  /** Those that are needed to tell how everything goes. */
  const immortal = new Set<Process>()
  const kill = (process: Process) => {
    if (!process.alive) return
    process.alive = false
    trace.add(`${process.name} is killed`)
    servers.died(process)
    for (const { agent, end } of started.get(process) ?? []) {
      agent.running = false
      timeline.run(Context.empty(), end)
    }
  }
  const faults = new Faults({
    chance: chance.fork(),
    trace,
    timeline,
    kill,
    lose: (process) => {
      const slot = slots.find((slot) => slot.process === process)
      if (slot !== undefined) lose(slot, chance.between(500, 40_000))
    },
    until: start + TROUBLE_MILLIS,
    mayDie: (process) => !immortal.has(process)
  })

  const scope = Scope.makeUnsafe()
  const build = <A, E, R>(layer: Layer.Layer<A, E, R>, context: Context.Context<R>) =>
    timeline.run(
      context,
      Layer.buildWithScope(layer, scope).pipe(
        Effect.provideService(Policy, limits),
        Effect.provideService(Budgets, budgets)
      )
    )

  const world = timeline.process("world")
  immortal.add(world)
  const hints = Context.get(build(layers.hints, Context.empty()), Hints)
  const ids = build(IdsMemory.layerSeeded(options.seed), Context.empty())
  const repositories = build(MemoryRepositories.layer, Context.empty())
  const startOf = (name: string) => ({ "README.md": `# ${name}\n`, "src/main.txt": "one\ntwo\n" })
  for (const name of REPOSITORIES) Context.get(repositories, MemoryRepositories).add(name, startOf(name))
  /** By worker. */
  const disks = new Map<string, Disk>()
  const audit = build(AuditLogMemory.layer, Context.empty())
  const rights = build(layers.access, Context.merge(ids, audit))
  const shared = build(
    Layer.mergeAll(layers.store, layers.partners, layers.source, layers.spending),
    Context.mergeAll(ids, rights, repositories, Context.make(Hints, hintsOf(world, faults, timeline, hints)))
  )
  const partners = Context.get(shared, PartnerStore)
  const feedOf = (grantId: string) => timeline.run(Context.empty(), Effect.orDie(partners.feed(grantId, 0, 100_000)))
  const rightsWitness = new RightsWitness(timeline, trace)
  const witness = new Witness({
    store: Context.get(shared, SandboxStore),
    leases: Context.get(shared, Leases),
    maintenance: Context.get(shared, Maintenance),
    checkpoints: Context.get(shared, Checkpoints),
    diskOf: (worker) => disks.get(worker) ?? null,
    trees: new TreesWitness(trace, startOf, REPOSITORIES),
    rights: rightsWitness,
    money: new MoneyWitness(budgets, trace),
    webhooks: new WebhookWitness({ rights: rightsWitness, timeline, trace, feed: feedOf }),
    feedOf,
    ids: Context.get(ids, Ids),
    limits,
    timeline,
    trace
  })
  const { leases, store } = witness
  const spending = witness.money.watch(Context.get(shared, Spending))
  const webhooks = witness.webhooks.watch(Context.get(build(layers.webhooks, Context.mergeAll(shared, rights)), WebhookStore))
  const operating = build(Access.layer, Context.mergeAll(ids, rights, Context.make(Hints, hintsOf(world, faults, timeline, hints))))
  const grants = GRANTS.map((name) => ({
    name,
    id: timeline.run(operating, Effect.orDie(Access.use((access) => access.createGrant(name)))).grant.id
  }))

  const buildSystems = () => build(Layer.mergeAll(layers.host, layers.trees).pipe(Layer.provideMerge(MemoryDisk.layer)), repositories)
  const machines = Array.from({ length: chance.pick([1, 2, 2, 3]) }, (_, i) => ({ name: `machine-${i + 1}`, systems: buildSystems() }))
  type Machine = typeof machines[number]

  /** The ports of one process on one machine. */
  const portsOf = (process: Process, { name, systems }: Machine) => {
    const own: Started = new Set()
    const kept = {
      store,
      leases,
      maintenance: witness.maintenance,
      checkpoints: witness.checkpointsOf(process),
      setups: Context.get(shared, Setups)
    }
    started.set(process, own)
    const memoryDisk = Context.get(systems, MemoryDisk)
    const disk = diskOf(memoryDisk.files)
    disks.set(process.name, disk)
    // A killed process writes no more, even if it does not know yet that it was killed.
    const mayWrite = (path: string) =>
      !path.startsWith(WORK) || Array.from(own).some(({ agent, id }) => agent.running && path.startsWith(`${WORK}${id}/`))
    const reached = MemoryDisk.of({ ...memoryDisk, files: writableIf(memoryDisk.files, mayWrite) })
    const agents = Context.get(build(layers.agents, Context.make(MemoryDisk, reached)), AgentRuntime)
    const ledger = Context.make(Spending, spendingOf(process, faults, timeline.clock, spending))
    const gateway = build(ModelGatewayMemory.layer, Context.merge(ids, ledger))
    const access = Context.add(
      rights,
      AccessStore,
      accessOf(process, faults, timeline.clock, Context.get(rights, AccessStore))
    )
    const ownHints = Context.make(Hints, hintsOf(process, faults, timeline, hints))
    return Context.mergeAll(
      ids,
      ledger,
      gateway,
      access,
      build(Access.layer, Context.mergeAll(ids, access, ownHints)),
      Context.make(WebhookStore, webhooksOf(process, faults, timeline.clock, webhooks)),
      Context.make(WebhookSender, receiversOf(process, faults, witness.webhooks, (url) => url === DEAD)),
      ownHints,
      storesOf(process, faults, kept, timeline.clock, witness),
      // Reports of workers decide nothing: a failed report has no effect.
      Context.make(Workers, Context.get(shared, Workers)),
      Context.make(PartnerStore, partnersOf(process, faults, partners)),
      Context.make(SourceHost, sourceOf(process, faults, witness, Context.get(shared, SourceHost))),
      Context.make(SandboxHost, hostOf(process, faults, witness, name, own, Context.get(systems, SandboxHost))),
      Context.make(
        AgentRuntime,
        agentsOf(process, faults, witness, timeline, disk, Context.get(gateway, ModelGatewayMemory.MemoryModel), agents)
      ),
      Context.make(WorkingTrees, treesOf(process, faults, witness, disk, Context.get(systems, WorkingTrees)))
    )
  }

  const alarms = Logger.make<unknown, void>(({ cause, logLevel, message }) => {
    trace.add(`    ${logLevel} ${String(message)}`)
    const defect = cause.reasons.find((reason) => reason._tag === "Die")
    if (defect !== undefined) trace.breaks("nothing dies of a defect", String(defect.defect))
  })
  const spawn = <A, E, R>(
    process: Process,
    context: Context.Context<R>,
    effect: Effect.Effect<A, E, R>,
    onExit: (exit: Exit.Exit<A, E>) => void
  ) => {
    const fiber = timeline.spawn(
      process,
      context,
      effect.pipe(
        Effect.provideService(Policy, limits),
        Effect.provideService(ModelCatalogue, { default: offlineDemo.id, models: [offlineDemo, paidModel] }),
        Effect.provideService(Logger.CurrentLoggers, new Set([alarms]))
      )
    )
    fiber.addObserver(onExit)
  }
  const mustNotFail = (exit: Exit.Exit<unknown, unknown>) => {
    if (Exit.isFailure(exit)) trace.breaks("nothing dies of a defect", describe(exit.cause))
  }

  const clientele = timeline.process("people")
  immortal.add(clientele)
  const servers = new Servers({
    count: chance.pick([1, 2, 2]),
    timeline,
    faults,
    rights: rightsWitness,
    people: clientele,
    mint: (holder, grantId) => {
      const grant = grants.find(({ id }) => id === grantId)?.name ?? ""
      const minted = Access.use((access) => access.createKey({ grant, label: holder, scopes: ["sandboxes", "webhooks"], kind: "live" }))
      const { key, record } = timeline.run(operating, Effect.orDie(minted))
      return { id: record.id, key }
    },
    start: (process, main) => {
      trace.add(`${process.name} starts`)
      spawn(process, portsOf(process, machines[0]!), Effect.scoped(main), mustNotFail)
    }
  })

  // ---------------------------------------------------------------------------------------------------------------
  // Workers

  interface Slot {
    readonly machine: Machine
    incarnation: number
    process: Process | null
    stop: Deferred.Deferred<void> | null
    /** It is not started again before; epoch milliseconds. */
    downUntil: number
  }
  const slots: ReadonlyArray<Slot> = Array.from({ length: Math.max(machines.length, chance.between(2, 3)) }, (_, i) => ({
    machine: machines[i % machines.length]!,
    incarnation: 0,
    process: null,
    stop: null,
    downUntil: 0
  }))
  const isRunning = (slot: Slot) => slot.process?.alive === true
  /** The machine of this slot is gone for so long, and comes back with its disk. */
  const goDown = ({ machine }: Slot, millis: number) => {
    for (const other of slots) {
      if (other.machine !== machine) continue
      if (other.process !== null) kill(other.process)
      other.downUntil = timeline.now + millis
    }
  }
  const lose = (slot: Slot, millis: number) => {
    goDown(slot, millis)
    slot.machine.systems = buildSystems()
  }

  const launch = (slot: Slot) => {
    const { machine } = slot
    const process = timeline.process(`worker-${slots.indexOf(slot) + 1}.${++slot.incarnation}`)
    if (faults.happens("clockSet", process.name)) process.skewMillis = skewOf(chance)
    const stop = Deferred.makeUnsafe<void>()
    const alone = slots.every((other) => other === slot || other.machine !== machine || !isRunning(other))
    slot.process = process
    slot.stop = stop
    trace.add(`${process.name} starts on ${machine.name}`)
    // Told before another one starts there.
    if (alone && chance.is(0.5)) timeline.run(Context.empty(), Effect.orDie(leases.endLeases(machine.name)))
    const running = Effect.gen(function*() {
      yield* options.worker({ worker: process.name, machine: machine.name, slots: chance.between(1, 4), agentIdle })
      yield* Deferred.await(stop)
    }).pipe(Effect.scoped, Effect.provide(Publishing.layer))
    spawn(process, portsOf(process, machine), running, (exit) => {
      mustNotFail(exit)
      for (const { agent } of started.get(process) ?? []) {
        if (agent.running) trace.breaks("a worker that stopped leaves no agent", process.name)
      }
      kill(process)
    })
  }

  // ---------------------------------------------------------------------------------------------------------------
  // People and trouble

  const active = () => faults.on
  const office = timeline.process("operator")
  immortal.add(office)
  servers.startAll(() => 0)
  const moments = [agentIdle, limits.idle].map((duration) => Duration.toMillis(duration))
  const keyed: Array<Keyed> = []
  const scene: Scene = {
    chance: chance.fork(),
    witness,
    trace,
    active,
    moments,
    servers,
    keyed,
    grants: grants.map(({ id }) => id),
    paidModel: paidModel.id,
    hasWebhooks: options.webhooks === true
  }
  const people = Effect.all([...Array.from({ length: chance.between(1, 4) }, (_, n) => person(scene, n + 1)), partner(scene)], {
    concurrency: "unbounded",
    discard: true
  })
  const asked = Context.merge(portsOf(clientele, machines[0]!), clients(servers))
  spawn(clientele, asked, people, mustNotFail)
  spawn(office, portsOf(office, machines[0]!), operator(scene, faults), mustNotFail)

  /** Outages of the processes that answer: one is gone, earlier ones come back, a clock is set. */
  const outages = Effect.gen(function*() {
    const own = chance.fork()
    while (faults.on) {
      yield* Effect.sleep(own.between(200, 8_000))
      if (!faults.on) return
      servers.startAll((name) => faults.happens("clockSet", name) ? skewOf(own) : 0)
      const up = servers.processes
      if (up.length > 0 && own.is(0.5) && faults.happens("httpKilled", "http")) kill(own.pick(up))
    }
  })
  spawn(world, Context.empty(), outages, mustNotFail)

  const trouble = Effect.gen(function*() {
    const own = chance.fork()
    while (faults.on) {
      yield* Effect.sleep(own.between(200, 6_000))
      if (!faults.on) return
      // Often where there is something to lose.
      const precious = slots.filter(({ process }) => process !== null && witness.losesWork(process))
      const slot = own.pick(precious.length > 0 && own.is(0.4) ? precious : slots)
      const { process, stop } = slot
      if (process === null || !process.alive) {
        if (own.is(0.6) && timeline.now >= slot.downUntil) launch(slot)
        continue
      }
      const [one] = started.get(process) ?? []
      if (own.is(0.2)) slot.downUntil = timeline.now + own.between(10_000, 60_000)
      const recorded = Array.from(witness.sandboxes).filter(([, { state }]) => state.checkpoint > 0)
      switch (own.weighted(TROUBLES)) {
        case "machineLost":
          if (!faults.happens("machineLost", slot.machine.name)) break
          lose(slot, own.is(0.5) ? own.between(500, 5_000) : own.between(1_000, 40_000))
          break
        case "machineAway":
          if (faults.happens("machineAway", slot.machine.name)) goDown(slot, own.between(5_000, 60_000))
          break
        case "machineDrained":
          if (!faults.happens("machineDrained", slot.machine.name)) break
          for (const other of slots) {
            if (other.machine !== slot.machine) continue
            if (other.stop !== null) yield* Deferred.succeed(other.stop, undefined)
            other.downUntil = timeline.now + own.between(5_000, 40_000)
          }
          break
        case "checkpointDamaged": {
          const [id, seen] = recorded.length === 0 ? [] : own.pick(recorded)
          if (id === undefined || seen === undefined) break
          if (faults.happens("checkpointDamaged", `${id} ${seen.state.checkpoint}`)) {
            witness.trees.damaged.add(`${id}/${seen.state.checkpoint}`)
          }
          break
        }
        case "agentDied":
          if (one !== undefined && faults.happens("agentDied", process.name)) {
            one.agent.running = false
            yield* one.end
          }
          break
        case "takenBack": {
          const others = slots.filter((other) => other.machine !== slot.machine && isRunning(other))
          if (others.length === 0 || !faults.happens("takenBack", process.name)) break
          // Its sandboxes go elsewhere, and come back as soon as it goes on.
          const millis = own.between(30_000, 45_000)
          timeline.pause(process, millis)
          const stopAll = Effect.forEach(others, (other) => other.stop === null ? Effect.void : Deferred.succeed(other.stop, undefined))
          timeline.at(world, timeline.now + millis + own.between(-3_000, 1_000), () => {
            if (faults.on) timeline.run(Context.empty(), stopAll)
          })
          break
        }
        case "workerKilled":
          if (faults.happens("workerKilled", process.name)) kill(process)
          break
        case "workerStopped":
          if (faults.happens("workerStopped", process.name) && stop !== null) yield* Deferred.succeed(stop, undefined)
          break
        case "clockSet":
          if (faults.happens("clockSet", process.name)) process.skewMillis = skewOf(own)
      }
    }
  })
  spawn(world, Context.empty(), trouble, mustNotFail)

  /** All processes have other limits from one moment on. */
  const policies = Effect.gen(function*() {
    const own = chance.fork()
    while (own.is(0.3)) {
      yield* Effect.sleep(own.between(1_000, TROUBLE_MILLIS / 2))
      if (!faults.on) return
      const next = limitsOf(own)
      for (const name of CHANGED) {
        const [was, is] = [limits[name], next[name]].map((limit) => Duration.toMillis(limit)) as [number, number]
        if (was !== is) trace.count(is > was ? "limits that were raised" : "limits that were lowered")
        limits[name] = next[name]
      }
      trace.add(`limits are changed: ${CHANGED.map((name) => `${name} ${Duration.toSeconds(limits[name])} s`).join(", ")}`)
    }
  })
  spawn(world, Context.empty(), policies, mustNotFail)
  for (const slot of slots) launch(slot)

  // ---------------------------------------------------------------------------------------------------------------
  // The run

  const runUntil = (until: number): boolean => {
    while (trace.broken === null && timeline.steps < MAX_STEPS && timeline.step(until)) continue
    if (timeline.steps >= MAX_STEPS) trace.breaks("everything settles", `after ${MAX_STEPS} steps it is still busy`)
    return trace.broken === null
  }

  const orphan = (): string | null => {
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

  const calm = () => {
    faults.on = false
    trace.add("from here on nothing goes wrong")
    const calmAt = timeline.now
    rightsWitness.calmSince = calmAt
    // All calls are answered by now, so what follows has to follow at once.
    if (losesGrant) {
      trace.count("grants revoked in calm")
      const grant = chance.pick(scene.grants)
      spawn(office, operating, Effect.delay(revokeGrant(scene, grant), chance.between(1, 4_000)), mustNotFail)
    }
    const history: Array<ReadonlyMap<SandboxId, number>> = []
    for (;;) {
      servers.startAll(() => 0)
      for (const process of servers.processes) {
        if (process.paused) timeline.resume(process)
        process.skewMillis = 0
      }
      for (const slot of slots) {
        if (slot.process?.paused === true) timeline.resume(slot.process)
        // One whose clock is wrong enforces nothing.
        if (slot.process !== null) slot.process.skewMillis = 0
        if (!isRunning(slot)) launch(slot)
      }
      if (!runUntil(timeline.now + 1000)) return
      const latest = history.at(-6)
      if (latest !== undefined) witness.keepsUp(latest)
      witness.needsAreMet()
      history.push(new Map(Array.from(witness.sandboxes, ([id, { state }]) => [id, state.lastSeq])))
      const left = witness.unsettled() ?? orphan()
      if (left === null && history.length > 6) break
      if (timeline.now - calmAt > SETTLED_MILLIS) return trace.breaks("everything settles", left ?? "")
    }
    if (!runUntil(timeline.now + 5_000)) return
    // A sandbox whose machine was lost is looked at once in a while.
    if (witness.money.holds) {
      trace.count("reservations of sandboxes that were over without a worker")
      if (!runUntil(timeline.now + RESERVED_MILLIS)) return
    }
    over()
    if (trace.broken === null && passesMonth) month()
  }

  /** Checks the rules of all that is over. */
  const over = () => {
    witness.end()
    for (const { id } of grants) witness.money.end(id, timeline.run(Context.empty(), Effect.orDie(spending.of(id))))
  }

  /** Does it as people do, while time passes as it does. */
  const done = (what: string, deed: Effect.Effect<unknown, unknown, Sandboxes | PartnerStore>): boolean => {
    let isDone = false
    spawn(clientele, asked, deed, (exit) => {
      isDone = true
      mustNotFail(exit)
    })
    const until = timeline.now + 60_000
    while (!isDone && timeline.now < until) if (!runUntil(timeline.now + 500)) return false
    if (!isDone) trace.breaks("everything settles", what)
    return isDone && trace.broken === null
  }

  /** Everything stands still for so long. */
  const leap = (millis: number) => {
    timeline.now += millis
    trace.add(`${(millis / DAY).toFixed(1)} days later`)
    return runUntil(timeline.now + 20_000)
  }

  /** A month passes: a receiver that is gone is given up, keys answer for their time and no longer, and what had its time is forgotten. */
  const month = () => {
    trace.count("months")
    // A process that was asked to end leaves soon, and has a successor.
    const leaves = (slot: Slot) => isRunning(slot) && slot.stop !== null && Deferred.isDoneUnsafe(slot.stop)
    while (slots.some(leaves)) if (!runUntil(timeline.now + 1000)) return
    for (const slot of slots) if (!isRunning(slot)) launch(slot)
    const good = grants.filter(({ id }) => rightsWitness.isRevoked(id) === false)
    const [first] = good
    if (first !== undefined && options.webhooks === true && !givesUp(first.id)) return
    if (!leap(29 * DAY - 4 * DAY)) return
    const known = keyed.filter(({ by }) => good.some(({ id }) => id === by.grantId))
    const again = ({ by, key, request }: Keyed) => Sandboxes.use((sandboxes) => sandboxes.create(by, request, key))
    const replays = Effect.forEach(known, (one) =>
      Effect.map(again(one), ({ replayed, sandbox }) => {
        trace.count("keys that answered weeks later")
        if (!replayed || sandbox.id !== one.id) trace.breaks("a key answers for 30 days", `${one.id}, ${sandbox.id}`)
      }))
    if (!done("creations are replayed", replays)) return
    if (!leap(5 * DAY)) return
    witness.forgetsKeys()
    const old = Array.from(witness.sandboxes.keys())
    const anew = Effect.forEach(known, (one) =>
      Effect.flatMap(again(one), ({ replayed, sandbox }) => {
        trace.count("keys that made anew")
        if (replayed || old.includes(sandbox.id)) trace.breaks("after its time a key makes a sandbox anew", `${one.id}, ${sandbox.id}`)
        return Sandboxes.use((sandboxes) => sandboxes.terminate(one.by, sandbox.id))
      }).pipe(
        // It is a creation like any other by now, and its grant may have spent all that it may.
        Effect.catchTag("BudgetExceeded", () => Effect.sync(() => trace.count("keys that made nothing without a budget")))
      ))
    if (!done("creations are made anew", anew)) return
    const until = timeline.now + SETTLED_MILLIS
    while (witness.unsettled() ?? orphan()) {
      if (!runUntil(timeline.now + 1000)) return
      if (timeline.now > until) return trace.breaks("everything settles", witness.unsettled() ?? orphan() ?? "")
    }
    witness.isForgotten(old)
  }

  /** An endpoint that never answers: three days of attempts, and no more. */
  const givesUp = (grantId: string): boolean => {
    const at = timeline.now
    const secret = { id: `00000000-0000-7000-8000-${String(options.seed).padStart(12, "0")}`, grantId, url: DEAD, types: null }
    const registers = Effect.gen(function*() {
      const createdAt = yield* DateTime.now
      yield* webhooks.register({ ...secret, createdAt }, Redacted.make("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
      const fact = {
        type: "project.connected",
        data: { claimId: secret.id, leadId: "lead", variant: "variant", occurredAt: createdAt, projectId: "p" }
      } as const
      const store = yield* PartnerStore
      yield* store.record(Effect.succeed({ result: null, tell: [{ grantId, fact }] }), createdAt)
    })
    if (!done("an endpoint is registered", registers)) return false
    for (const wait of WAITS) {
      if (!runUntil(timeline.now + 3_000)) return false
      timeline.now += wait * 1200 + 1000
    }
    if (!runUntil(timeline.now + 20_000)) return false
    witness.webhooks.gaveUp(secret.id)
    trace.add(`after ${((timeline.now - at) / DAY).toFixed(1)} days the endpoint is given up`)
    return trace.broken === null
  }

  if (runUntil(timeline.now + TROUBLE_MILLIS)) calm()
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

/** The same files, of which some cannot be written just now. */
const writableIf = (files: Map<string, string>, may: (path: string) => boolean): Map<string, string> =>
  new Proxy(files, {
    get: (target, name) => {
      if (name === "set") return (path: string, content: string) => may(path) ? target.set(path, content) : target
      if (name === "delete") return (path: string) => may(path) && target.delete(path)
      const value: unknown = Reflect.get(target, name)
      return typeof value === "function" ? value.bind(target) : value
    }
  })

/** The broken rule, the lines before it, and the command that runs the seed again. */
export const failureOf = ({ broken, seed, trace }: Result): string =>
  [
    ...trace.slice(-30),
    "",
    `seed ${seed}, step ${broken?.step}: "${broken?.rule}" does not hold`,
    `  ${broken?.detail}`,
    `again: npm run simulate -- --seed ${seed} --trace`
  ].join("\n")

const describe = (cause: Cause.Cause<unknown>): string =>
  cause.reasons.map((reason) =>
    String(reason._tag === "Die" ? reason.defect : reason._tag === "Fail" ? JSON.stringify(reason.error) : reason._tag)
  ).join("; ")
