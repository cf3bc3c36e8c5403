/** One simulated service: its stores and systems, the ports of its processes, and the lives of these processes. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { Access } from "@slipway/domain/access/usecases/Access"
import { AutomationStore } from "@slipway/domain/automation/ports/AutomationStore"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { Ids } from "@slipway/domain/ids/Ids"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as AutomationStoreMemory from "@slipway/domain/memory/automation/AutomationStoreMemory"
import { MemoryDisk } from "@slipway/domain/memory/files/MemoryDisk"
import { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import * as WorkingTreesMemory from "@slipway/domain/memory/files/WorkingTreesMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as ModelGatewayMemory from "@slipway/domain/memory/models/ModelGatewayMemory"
import * as AgentRuntimeMemory from "@slipway/domain/memory/sandbox/AgentRuntimeMemory"
import * as SandboxHostMemory from "@slipway/domain/memory/sandbox/SandboxHostMemory"
import { MemoryFeedback } from "@slipway/domain/memory/source/PullRequestFeedbackMemory"
import * as SourceHostMemory from "@slipway/domain/memory/source/SourceHostMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import type { ModelGateway } from "@slipway/domain/models/ports/ModelGateway"
import { Spending } from "@slipway/domain/models/ports/Spending"
import { Budgets, type Limits as BudgetLimits } from "@slipway/domain/models/rules/Budget"
import { type Model, ModelCatalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { FeedbackWatches } from "@slipway/domain/publishing/ports/FeedbackWatches"
import type { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases, type Worker } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { Workers } from "@slipway/domain/sandbox/ports/Workers"
import { type Limits, Policy } from "@slipway/domain/sandbox/rules/Policy"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { Hints } from "@slipway/domain/store/Hints"
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { feedbackOf, ReviewWitness, watchesOf } from "../branches/Reviews.ts"
import { Chance } from "../chance/Chance.ts"
import * as FilledStores from "../stores/FilledStores.ts"
import type { GivenStores, Stores } from "../stores/FilledStores.ts"
import { Versions } from "../stores/Versions.ts"
import { accessOf, receiversOf, spendingOf, webhooksOf } from "./AccountPorts.ts"
import { automationsOf, AutomationWitness } from "./Automations.ts"
import { Faults } from "./Faults.ts"
import { MoneyWitness } from "./MoneyWitness.ts"
import { DEAD, GRANTS, REPOSITORIES } from "./People.ts"
import { agentsOf, hintsOf, hostOf, partnersOf, sourceOf, type Started, storesOf, treesOf } from "./Ports.ts"
import { RightsWitness } from "./RightsWitness.ts"
import { Servers } from "./Servers.ts"
import { atOnce, type Process, Timeline } from "./Timeline.ts"
import { Trace } from "./Trace.ts"
import { type Disk, diskOf, TreesWitness } from "./TreesWitness.ts"
import { WebhookWitness } from "./WebhookWitness.ts"
import { Witness } from "./Witness.ts"
import { lose, type Slot, slotsOf } from "./WorkerSlots.ts"

/** The ports of a worker. */
export type WorkerPorts =
  | AccessStore
  | Checkpoints
  | AgentRuntime
  | Hints
  | Ids
  | Publishing
  | Leases
  | MemberStore
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
  /** The worker runs automations as well, if its context has an `AutomationStore`: in some seeds. Left out: there are none. */
  readonly automations?: boolean
  /**
   * The worker gives feedback on pull requests to their sandboxes as well, if its context has `FeedbackWatches`: in some seeds, with
   * systems that have comments. Left out: there is no feedback.
   */
  readonly feedback?: boolean
  /** Stores of your own in place of those in memory. They may not need real time or a promise. */
  readonly stores?: GivenStores
  /** Systems of your own in place of those in memory. They may not need real time or a promise. */
  readonly systems?: Partial<Systems>
  /** The most steps of the run, which a run that never comes to rest would exceed. Default: 200,000. */
  readonly steps?: number
  /** Keeps every line of the trace, not the last ones alone. */
  readonly trace?: boolean
}

/** The systems of a simulation, each replaceable. */
export interface Systems {
  readonly hints: Layer.Layer<Hints>
  readonly source: Layer.Layer<SourceHost, never, MemoryRepositories>
  readonly host: Layer.Layer<SandboxHost, never, MemoryDisk>
  readonly agents: Layer.Layer<AgentRuntime, never, MemoryDisk>
  readonly trees: Layer.Layer<WorkingTrees, never, MemoryDisk | MemoryRepositories>
}

const memory: Systems = {
  hints: HintsMemory.layer,
  source: SourceHostMemory.layer,
  host: SandboxHostMemory.layer,
  agents: AgentRuntimeMemory.layer,
  trees: WorkingTreesMemory.layer
}

/** Short, so that all of them come due within minutes; a lease's 30 s are what they are measured by. */
export const limitsOf = (chance: Chance): Limits => ({
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

/** A model that costs something: 3 to 15 micro-USD a token. The offline agent drives it, and asks it as an agent would. */
export const paidModel: Model = {
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

/** Where the memory layers have working trees, each sandbox's below its id. */
const WORK = "/memory/work/"

/** How long faults happen. */
export const TROUBLE_MILLIS = 70_000

/** The stores and systems that all processes share. */
type Shared = Stores | SourceHost

/** A machine of workers. A lost machine comes back with new systems. */
export interface Machine {
  readonly name: string
  systems: Context.Context<MemoryDisk | SandboxHost | WorkingTrees>
}

/** The files of a new repository. */
const startOf = (name: string) => ({ "README.md": `# ${name}\n`, "src/main.txt": "one\ntwo\n" })

/** The state of one simulation. The order in which it draws chances is a part of what a seed means. */
export class World {
  readonly options: Options
  readonly chance: Chance
  /** The beginning; epoch milliseconds. */
  readonly start: number
  readonly timeline: Timeline
  readonly trace: Trace
  readonly versions: Versions<Process>
  /** How often the operator changes limits or the version. */
  readonly changes: number
  readonly agentIdle: Duration.Duration
  readonly passesMonth: boolean
  readonly losesGrant: boolean
  readonly faults: Faults
  /** The process of stores, systems and everything outside the service. */
  readonly process: Process
  readonly ids: Context.Context<Ids>
  readonly partners: PartnerStore["Service"]
  readonly rightsWitness: RightsWitness
  readonly witness: Witness
  readonly leases: Leases["Service"]
  readonly spending: Spending["Service"]
  readonly webhooks: WebhookStore["Service"]
  /** `null`: this seed has no automations. */
  readonly automations: AutomationWitness | null
  /** `null`: this seed has no feedback. */
  readonly reviews: ReviewWitness | null
  /** The operator's way to keys and grants, without faults. */
  readonly operating: Context.Context<Access>
  readonly grants: ReadonlyArray<{ readonly name: string; readonly id: string }>
  readonly machines: ReadonlyArray<Machine>
  /** The process of the people who use the service. */
  readonly people: Process
  readonly servers: Servers
  readonly slots: ReadonlyArray<Slot>
  /** The processes in boxes, by the process that started them. */
  readonly started = new Map<Process, Started>()
  readonly #systems: Systems
  readonly #budgets: BudgetLimits
  readonly #immortal = new Set<Process>()
  readonly #scope = Scope.makeUnsafe()
  readonly #hints: Hints["Service"]
  readonly #repositories: Context.Context<MemoryRepositories>
  readonly #shared: Context.Context<Shared>
  readonly #store: SandboxStore["Service"]
  /** By worker. */
  readonly #disks = new Map<string, Disk>()
  readonly #alarms: Logger.Logger<unknown, void>

  constructor(options: Options) {
    this.options = options
    this.chance = new Chance(options.seed)
    this.timeline = new Timeline(this.chance.fork())
    this.trace = new Trace(options.trace === true, this.timeline)
    this.start = this.timeline.now
    this.#systems = { ...memory, ...options.systems }
    this.changes = this.chance.pick([0, 0, 0, 1, 2, 3])
    this.versions = new Versions({ limits: limitsOf(this.chance), isEarlier: this.changes > 0 && this.chance.is(0.6) })
    this.agentIdle = Duration.millis(this.chance.pick([500, 3_000, 3_000, 60_000]))
    this.#budgets = budgetsOf(this.chance)
    this.passesMonth = this.chance.is(0.15)
    this.losesGrant = this.chance.is(0.15)
    this.#alarms = alarmsOf(this.trace)
    this.faults = this.#makeFaults()
    this.process = this.lasting("world")
    this.#hints = Context.get(this.#build(this.#systems.hints, Context.empty()), Hints)
    this.ids = this.#build(IdsMemory.layerSeeded(options.seed), Context.empty())
    this.#repositories = this.#build(MemoryRepositories.layer, Context.empty())
    for (const name of REPOSITORIES) Context.get(this.#repositories, MemoryRepositories).add(name, startOf(name))
    this.#shared = this.#build(
      Layer.mergeAll(FilledStores.layer(options.stores ?? null, this.versions), this.#systems.source),
      Context.mergeAll(this.ids, this.#repositories, this.#hintsOf(this.process))
    )
    this.partners = Context.get(this.#shared, PartnerStore)
    this.rightsWitness = new RightsWitness(this.timeline, this.trace)
    this.witness = this.#makeWitness()
    this.leases = this.witness.leases
    this.reviews = options.feedback === true && new Chance(options.seed ^ 0x24242424).is(0.3) ? this.#makeReviews() : null
    this.#store = this.reviews?.watch(this.witness.store, atOnce) ?? this.witness.store
    this.spending = this.witness.money.watch(Context.get(this.#shared, Spending))
    this.webhooks = this.witness.webhooks.watch(Context.get(this.#shared, WebhookStore))
    this.automations = options.automations === true && new Chance(options.seed ^ 0x30303030).is(0.3) ? this.#makeAutomations() : null
    this.operating = this.#build(Access.layer, Context.mergeAll(this.ids, this.#shared, this.#hintsOf(this.process)))
    this.grants = GRANTS.map((name) => ({
      name,
      id: this.run(Access.use((access) => access.createGrant(name)), this.operating).grant.id
    }))
    this.machines = Array.from({ length: this.chance.pick([1, 2, 2, 3]) }, (_, i) => ({
      name: `machine-${i + 1}`,
      systems: this.newSystems()
    }))
    this.people = this.lasting("people")
    this.servers = this.#makeServers()
    this.slots = slotsOf(this)
  }

  /** The repositories of the source host. */
  get repositories(): MemoryRepositories["Service"] {
    return Context.get(this.#repositories, MemoryRepositories)
  }

  /** Runs an effect that never waits, at once and without faults. */
  run<A, E, R>(effect: Effect.Effect<A, E, R>, context: Context.Context<R>): A {
    return this.timeline.run(context, Effect.orDie(effect))
  }

  /** A process that faults never kill, because it is needed to judge the others. */
  lasting(name: string): Process {
    const process = this.timeline.process(name)
    this.#immortal.add(process)
    return process
  }

  /** Systems without boxes and trees. */
  newSystems(): Machine["systems"] {
    const { host, trees } = this.#systems
    return this.#build(Layer.mergeAll(host, trees).pipe(Layer.provideMerge(MemoryDisk.layer)), this.#repositories)
  }

  /** Kills a process with the processes in boxes that it started. */
  kill(process: Process): void {
    if (!process.alive) return
    process.alive = false
    this.trace.add(`${process.name} is killed`)
    this.servers.died(process)
    for (const { agent, end } of this.started.get(process) ?? []) {
      agent.running = false
      this.timeline.run(Context.empty(), end)
    }
  }

  /** Runs the effect in the process. */
  spawn<A, E, R>(
    process: Process,
    context: Context.Context<R>,
    effect: Effect.Effect<A, E, R>,
    onExit: (exit: Exit.Exit<A, E>) => void = this.mustNotFail
  ): void {
    const fiber = this.timeline.spawn(
      process,
      context,
      effect.pipe(
        Effect.provideService(Policy, this.versions.limitsOf(process)),
        Effect.provideService(ModelCatalogue, { default: offlineDemo.id, models: [offlineDemo, paidModel] }),
        Effect.provideService(Logger.CurrentLoggers, new Set([this.#alarms]))
      )
    )
    fiber.addObserver(onExit)
  }

  /** Breaks a rule if the exit is a failure. */
  readonly mustNotFail = (exit: Exit.Exit<unknown, unknown>): void => {
    if (Exit.isFailure(exit)) this.trace.breaks("nothing dies of a defect", describe(exit.cause))
  }

  /** The ports of one process on one machine. */
  portsOf(process: Process, { name, systems }: Machine) {
    const { faults, ids, partners, timeline, witness } = this
    const shared = this.#shared
    const own: Started = new Set()
    const kept = {
      store: this.#store,
      leases: this.leases,
      maintenance: witness.maintenance,
      checkpoints: witness.checkpointsOf(process),
      setups: Context.get(shared, Setups)
    }
    this.started.set(process, own)
    const memoryDisk = Context.get(systems, MemoryDisk)
    const disk = diskOf(memoryDisk.files)
    this.#disks.set(process.name, disk)
    // A killed process writes no more, even if it does not know yet that it was killed.
    const mayWrite = (path: string) =>
      !path.startsWith(WORK) || Array.from(own).some(({ agent, id }) => agent.running && path.startsWith(`${WORK}${id}/`))
    const reached = MemoryDisk.of({ ...memoryDisk, files: writableIf(memoryDisk.files, mayWrite) })
    const agents = Context.get(this.#build(this.#systems.agents, Context.make(MemoryDisk, reached)), AgentRuntime)
    const ledger = Context.make(Spending, spendingOf(process, faults, timeline.clock, witness, this.spending))
    const gateway = this.#build(ModelGatewayMemory.layer, Context.merge(ids, ledger))
    const access = Context.make(MemberStore, Context.get(shared, MemberStore)).pipe(
      Context.add(AccessStore, accessOf(process, faults, timeline.clock, Context.get(shared, AccessStore)))
    )
    const ownHints = this.#hintsOf(process)
    return Context.mergeAll(
      this.automations === null
        ? Context.empty()
        : Context.make(AutomationStore, automationsOf(process, faults, timeline.clock, this.automations.store)) as Context.Context<never>,
      this.#feedbackOf(process),
      ids,
      ledger,
      gateway,
      access,
      this.#build(Access.layer, Context.mergeAll(ids, access, ownHints)),
      Context.make(WebhookStore, webhooksOf(process, faults, timeline.clock, this.webhooks)),
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
      Context.make(WorkingTrees, treesOf(process, faults, witness, disk, Context.get(systems, WorkingTrees), this))
    )
  }

  #hintsOf(process: Process) {
    return Context.make(Hints, hintsOf(process, this.faults, this.timeline, this.#hints))
  }

  #build<A, E, R>(layer: Layer.Layer<A, E, R>, context: Context.Context<R>): Context.Context<A> {
    return this.timeline.run(
      context,
      Layer.buildWithScope(layer, this.#scope).pipe(
        Effect.provideService(Policy, this.versions.ofCaller),
        Effect.provideService(Budgets, this.#budgets)
      )
    )
  }

  /** Their store has no way of its own to hold sandboxes, so it is over the stores of the simulation. */
  #makeAutomations(): AutomationWitness {
    const built = this.#build(AutomationStoreMemory.layer, Context.merge(this.ids, this.#shared))
    return new AutomationWitness(Context.get(built, AutomationStore), this.witness, this.timeline, this.trace)
  }

  /** Without comments in the systems, or watches in the stores, there is no feedback. */
  #makeReviews(): ReviewWitness | null {
    const shared: Context.Context<never> = this.#shared
    const [memory, watches] = [Context.getOption(shared, MemoryFeedback), Context.getOption(shared, FeedbackWatches)]
    if (Option.isNone(memory) || Option.isNone(watches)) return null
    return new ReviewWitness({
      memory: memory.value,
      watches: watches.value,
      source: Context.get(this.#shared, SourceHost),
      trace: this.trace,
      now: () => this.timeline.now,
      isRevoked: (grantId) => this.rightsWitness.isRevoked(grantId) !== false,
      isSpent: (...ids) => this.witness.money.wasRefused(...ids)
    })
  }

  /** The ports of feedback of one process. */
  #feedbackOf(process: Process): Context.Context<never> {
    if (this.reviews === null) return Context.empty()
    const { faults, timeline } = this
    const feedback = Context.getUnsafe(this.#shared as Context.Context<never>, PullRequestFeedback)
    const call: Parameters<typeof watchesOf>[0] = (name, self, possible) =>
      faults.call(process, name, Effect.provideService(self, Clock.Clock, timeline.clock), possible)
    return Context.make(FeedbackWatches, watchesOf(call, this.reviews.below.watches)).pipe(
      Context.add(PullRequestFeedback, feedbackOf(call, feedback))
    ) as Context.Context<never>
  }

  #makeFaults(): Faults {
    return new Faults({
      chance: this.chance.fork(),
      trace: this.trace,
      timeline: this.timeline,
      kill: (process) => this.kill(process),
      lose: (process) => {
        const slot = this.slots.find((slot) => slot.process === process)
        if (slot !== undefined) lose(this, slot, this.chance.between(500, 40_000))
      },
      until: this.start + TROUBLE_MILLIS,
      mayDie: (process) => !this.#immortal.has(process)
    })
  }

  #makeServers(): Servers {
    const { faults, operating, people, rightsWitness, timeline, trace, versions } = this
    return new Servers({
      count: this.chance.pick([1, 2, 2]),
      timeline,
      faults,
      rights: rightsWitness,
      people,
      mint: (holder, grantId) => {
        const grant = this.grants.find(({ id }) => id === grantId)?.name ?? ""
        const minted = Access.use((access) => access.createKey({ grant, label: holder, scopes: ["sandboxes", "webhooks"], kind: "live" }))
        const { key, record } = this.run(minted, operating)
        return { id: record.id, key }
      },
      start: (process, main) => {
        trace.add(`${process.name} starts`)
        versions.starts(process)
        this.spawn(process, this.portsOf(process, this.machines[0]!), Effect.scoped(main))
      }
    })
  }

  #makeWitness(): Witness {
    const { rightsWitness, timeline, trace, versions } = this
    const shared = this.#shared
    const feedOf = (grantId: string) => this.run(this.partners.feed(grantId, 0, 100_000), Context.empty())
    const logOf = (id: SandboxId) => this.run(Context.get(shared, SandboxStore).log(id, 0, 100_000), Context.empty())
    const sandboxesOf = (grantId: string) =>
      Array.from(this.witness.sandboxes).flatMap(([id, { creation }]) => creation.grantId === grantId ? [id] : [])
    return new Witness({
      store: Context.get(shared, SandboxStore),
      leases: Context.get(shared, Leases),
      maintenance: Context.get(shared, Maintenance),
      checkpoints: Context.get(shared, Checkpoints),
      diskOf: (worker) => this.#disks.get(worker) ?? null,
      trees: new TreesWitness(trace, startOf, REPOSITORIES),
      rights: rightsWitness,
      money: new MoneyWitness(this.#budgets, (id) => this.witness.sandboxes.get(id)?.creation.budgetMicroUsd ?? null, trace),
      webhooks: new WebhookWitness({ rights: rightsWitness, timeline, trace, feed: feedOf, log: logOf, sandboxes: sandboxesOf }),
      feedOf,
      ids: Context.get(this.ids, Ids),
      versions,
      timeline,
      trace
    })
  }
}

/** A logger that traces every entry. A defect breaks a rule. */
const alarmsOf = (trace: Trace): Logger.Logger<unknown, void> =>
  Logger.make<unknown, void>(({ cause, logLevel, message }) => {
    trace.add(`    ${logLevel} ${String(message)}`)
    const defect = cause.reasons.find((reason) => reason._tag === "Die")
    if (defect !== undefined) trace.breaks("nothing dies of a defect", String(defect.defect))
  })

/** The same files, of which only those that `may` accepts can be written. */
const writableIf = (files: Map<string, string>, may: (path: string) => boolean): Map<string, string> =>
  new Proxy(files, {
    get: (target, name) => {
      if (name === "set") return (path: string, content: string) => may(path) ? target.set(path, content) : target
      if (name === "delete") return (path: string) => may(path) && target.delete(path)
      const value: unknown = Reflect.get(target, name)
      return typeof value === "function" ? value.bind(target) : value
    }
  })

const describe = (cause: Cause.Cause<unknown>): string =>
  cause.reasons.map((reason) =>
    String(reason._tag === "Die" ? reason.defect : reason._tag === "Fail" ? JSON.stringify(reason.error) : reason._tag)
  ).join("; ")
