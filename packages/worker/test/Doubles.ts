/** Scripted stand-ins for the foreign systems of a worker, on the memory store: a test says what each does and when. */
import { assert, it } from "@effect/vitest"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import {
  type CannotSave,
  CheckpointDamaged,
  type CloneFailed,
  FileNotFound,
  FileProtected,
  FileTooLarge,
  type TreesUnavailable,
  WorkingTrees
} from "@slipway/domain/files/ports/WorkingTrees"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as ModelGatewayMemory from "@slipway/domain/memory/models/ModelGatewayMemory"
import * as SpendingMemory from "@slipway/domain/memory/models/SpendingMemory"
import * as PartnerStoreMemory from "@slipway/domain/memory/partner/PartnerStoreMemory"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { CreditPrice } from "@slipway/domain/models/rules/Credits"
import { type Model, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { request } from "@slipway/domain/publishing/rules/Publication"
import {
  AgentError,
  type AgentEvent,
  AgentRuntime,
  type AgentSessionOptions,
  type TurnEnd
} from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import {
  type BoxCommand,
  type BoxProcess,
  type FilePart,
  HomeDamaged,
  type HomeTooLarge,
  type HostError,
  type LimitsMet,
  type Programs,
  SandboxHost
} from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { Workers } from "@slipway/domain/sandbox/ports/Workers"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Answers } from "@slipway/domain/sandbox/rules/Question"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { RecordedEvent, SandboxEvent, SandboxEventOf } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { CreateSandbox, toCreation } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { type RepoNotAccessible, SourceHost, type SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Hints } from "@slipway/domain/store/Hints"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { Timing } from "@slipway/worker/shared/Timing"
import { ABOUT_ARTIFACTS } from "@slipway/worker/turn/Agent"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import {
  type Cause,
  Clock,
  Context,
  DateTime,
  Deferred,
  Duration,
  Effect,
  Exit,
  Latch,
  Layer,
  Option,
  Queue,
  Schema,
  Scope,
  Stream
} from "effect"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { draft } from "./PullRequests.ts"

export const principal: Principal = {
  credential: { _tag: "Key", keyId: "key" },
  grantId: "grant",
  organizationId: "0197f1a0-0000-7000-8000-0000000000a1",
  userId: "user_1",
  scopes: new Set(["sandboxes"]),
  test: false
}
const key = (id: SandboxId) => ({ grantId: principal.grantId, id })
export const REPO = "acme/site"

// ---------------------------------------------------------------------------------------------------------------
// The agent

export interface Prompt {
  readonly turnId: string
  readonly text: string
  readonly onEvent: (event: AgentEvent) => Effect.Effect<void>
  readonly end: Deferred.Deferred<TurnEnd, AgentError>
}

/** One process of the fake agent. */
/** Every agent is told of the folder for artifacts first: what it is told besides. */
const othersOf = (instructions: string | null): string | null => {
  assert.isTrue(instructions?.startsWith(ABOUT_ARTIFACTS), "it is not told of its folder for artifacts")
  const others = instructions?.slice(ABOUT_ARTIFACTS.length + 1) ?? ""
  return others === "" ? null : others
}

export class FakeAgent {
  readonly prompts = Queue.unbounded<Prompt>().pipe(Effect.runSync)
  readonly decisions: Array<string> = []
  readonly answers: Array<readonly [questionId: string, answers: Answers | null]> = []
  /** The messages that the turn was handed, by id: each once, in order. Cleared with each prompt. */
  readonly steers = new Map<string, string>()
  readonly exit = Deferred.makeUnsafe<string>()
  interrupts = 0
  closed = false
  current: Prompt | undefined
  readonly options: AgentSessionOptions
  sessionId: string | null
  /** Whether it does not end the turn when it is asked to. */
  readonly hangs: boolean

  constructor(options: AgentSessionOptions, sessionId: string | null, hangs: boolean) {
    this.options = options
    this.sessionId = sessionId
    this.hangs = hangs
  }

  emit(...events: ReadonlyArray<AgentEvent>) {
    return Effect.forEach(events, (event) => this.current?.onEvent(event) ?? Effect.void, { discard: true })
  }

  end(end: TurnEnd) {
    return this.current === undefined ? Effect.void : Deferred.succeed(this.current.end, end)
  }

  /** The turn has no end of its own. */
  fail(error: AgentError) {
    return this.current === undefined ? Effect.void : Deferred.fail(this.current.end, error)
  }

  /** The process ends by itself, in a turn or between two. */
  crash() {
    const gone = new AgentError({ runtime: "fake", operation: "prompt", detail: "it crashed", retryable: true })
    return Effect.andThen(this.fail(gone), Deferred.succeed(this.exit, "it crashed"))
  }
}

export const say = (messageId: string, text: string, kind: "text" | "reasoning" = "text"): AgentEvent => ({
  _tag: "MessageUpdated",
  messageId,
  kind,
  text
})
export const tool = (callId: string, status: "pending" | "running" | "completed" | "error"): AgentEvent => ({
  _tag: "ToolUpdated",
  callId,
  tool: "edit",
  status
})
export const ask = (approvalId: string): AgentEvent => ({ _tag: "ApprovalRequested", approvalId, tool: "edit", kind: "edit" })
/** As {@link ask}, of an edit of these files, whose names are plain. */
export const askPlain = (approvalId: string, ...paths: ReadonlyArray<string>): AgentEvent => ({
  _tag: "ApprovalRequested",
  approvalId,
  tool: "edit",
  kind: "edit",
  paths,
  plain: true
})
/** A question with two options. */
export const inquire = (questionId: string): AgentEvent => ({
  _tag: "QuestionAsked",
  questionId,
  questions: [{ id: "1", text: "Which?", options: [{ label: "a" }, { label: "b" }], multiple: false, allows_text: true }]
})

// ---------------------------------------------------------------------------------------------------------------
// The world

/** The state of one machine's disk and kernel. */
export class Machine {
  /** The folder that holds its trees. */
  path = "/trees"
  readonly boxes = new Set<SandboxId>()
  readonly trees = new Set<SandboxId>()
  /** The content of trees and of homes. Absent: as they were cloned; nothing. */
  readonly work = new Map<SandboxId, string>()
  readonly homes = new Map<SandboxId, string>()
  readonly rests: Array<SandboxId> = []
}

/** Everything the workers of one test share. */
export class World {
  readonly machines = new Map<string, Machine>()
  readonly opened = Queue.unbounded<FakeAgent>().pipe(Effect.runSync)
  readonly agents: Array<FakeAgent> = []
  readonly stops: Array<SandboxId> = []
  readonly clones: Array<string> = []
  readonly processes: Array<Process> = []
  /** The files of repositories, by repository name and path. */
  readonly files = new Map<string, string>()
  /** Entries that are no plain files, by the same names. */
  readonly links = new Set<string>()
  /** Branches and tags of the source that have the commit that trees start from. */
  holding: ReadonlyArray<string> = ["main"]
  /** Number of transactions that wrote for a worker's lease. */
  commits = 0
  isolation: "none" | "bubblewrap" | "docker" = "bubblewrap"
  /** The programs that hosts offer for an image. */
  programs = (image: string | null): Programs => ({ id: "", image: null, isRefused: image !== null, path: [], env: {} })
  /** How often the kernel kept boxes to their limits; `null`: hosts cannot tell. */
  limitsMet: LimitsMet | null = null
  /** Failures of the next calls, oldest first. */
  readonly openFailures: Array<AgentError> = []
  readonly provisionFailures: Array<HostError> = []
  readonly stopFailures: Array<HostError> = []
  readonly cloneFailures: Array<CloneFailed | TreesUnavailable> = []
  /** Steps of a boot that are to die, oldest first. */
  readonly defects: Array<"provision" | "clone" | "agent_start"> = []
  /** Sandboxes that were given up to make room, in order. */
  readonly roomMade: Array<string> = []
  readonly repositoryFailures: Array<RepoNotAccessible | SourceHostError> = []
  /** While set, opening an agent waits for it. */
  opening: Deferred.Deferred<void> | undefined
  /** While set, a prompt begins when it is done, and the agent has no turn until then. */
  beginning: Deferred.Deferred<void> | undefined
  /** Whether agents opened from now on ignore interrupts. */
  hang = false
  /** Runs before an agent takes a decision. */
  deciding: Effect.Effect<void> = Effect.void
  /** Runs before an agent takes a steering message. */
  steering: Effect.Effect<void> = Effect.void
  sessionId: string | null = "native-1"
  /** Which paths may have changed where agents go on with a conversation. */
  bears = { workspace: true, home: true }
  /** Runs when an agent's processes are ended. */
  closing: Effect.Effect<void> = Effect.void
  /** Runs when a box is stopped. */
  stopping: Effect.Effect<void> = Effect.void
  /** Runs when a push is made. */
  pushing: Effect.Effect<void> = Effect.void

  /** Runs when trees are saved. */
  saving: Effect.Effect<void, CannotSave> = Effect.void
  /** Runs when the files of an agent's conversation are read. */
  readingHome: Effect.Effect<void, HostError> = Effect.void
  /** The files that agents left for people, below this path of their home. */
  artifacts: (path: string) => Stream.Stream<FilePart, HostError | HomeTooLarge> = () => Stream.empty
  /** Sandboxes whose trees a loss of power tore. */
  readonly torn = new Set<SandboxId>()
  readonly restoreFailures: Array<CloneFailed | TreesUnavailable> = []
  /** Errors that restoring answers although the trees are made. */
  readonly restoreAnswers: Array<TreesUnavailable> = []

  /** The result of a process in a box: its exit, and its last output. `write`: writes its earlier output. */
  commands: (command: BoxCommand, write: (text: string) => Effect.Effect<void>) => Effect.Effect<{
    readonly code?: number | null
    readonly output?: string
  }> = () => Effect.succeed({})
  /** Processes that were started in boxes and those that ended with all they left, in order. */
  readonly spawned: Array<BoxCommand> = []
  readonly ended: Array<BoxCommand> = []
  /** Files that differ from the commit, by repository. */
  readonly changed = new Map<string, ReadonlyArray<string>>()

  machine(name: string): Machine {
    const known = this.machines.get(name) ?? new Machine()
    this.machines.set(name, known)
    return known
  }

  /** The boxes of the machine that workers are on by default. */
  get boxes() {
    return this.machine("machine").boxes
  }

  get trees() {
    return this.machine("machine").trees
  }

  readonly nextAgent = Effect.suspend(() => Queue.take(this.opened))
}

const failing = <E>(failures: Array<E>) =>
  Effect.suspend(() => {
    const failure = failures.shift()
    return failure === undefined ? Effect.void : Effect.fail(failure)
  })

const dying = (world: World, step: World["defects"][number]) =>
  Effect.suspend(() => {
    if (world.defects[0] !== step) return Effect.void
    world.defects.shift()
    return Effect.die(new Error(`${step} broke`))
  })

const Runtime = (world: World) =>
  Layer.succeed(
    AgentRuntime,
    AgentRuntime.of({
      bearsOtherPaths: () => world.bears,
      open: Effect.fnUntraced(function*(options) {
        if (world.opening !== undefined) yield* Deferred.await(world.opening)
        yield* failing(world.openFailures)
        yield* dying(world, "agent_start")
        const agent = new FakeAgent({ ...options, instructions: othersOf(options.instructions) }, world.sessionId, world.hang)
        yield* Effect.addFinalizer(() =>
          Effect.map(world.closing, () => {
            agent.closed = true
          })
        )
        world.agents.push(agent)
        yield* Queue.offer(world.opened, agent)
        return {
          sessionId: Effect.sync(() => agent.sessionId),
          prompt: Effect.fnUntraced(function*({ onBegin = Effect.void, onEvent, text, turnId }) {
            agent.current = undefined
            if (world.beginning !== undefined) yield* Deferred.await(world.beginning)
            const prompt: Prompt = { turnId, text, onEvent, end: yield* Deferred.make<TurnEnd, AgentError>() }
            agent.current = prompt
            agent.steers.clear()
            yield* onBegin
            yield* Queue.offer(agent.prompts, prompt)
            return yield* Deferred.await(prompt.end)
          }),
          decide: (approvalId, decision, reason) =>
            Effect.map(world.deciding, () =>
              void agent.decisions.push([approvalId, decision, ...reason === undefined ? [] : [reason]].join(" "))),
          answer: (questionId, answers) =>
            Effect.map(world.deciding, () => void agent.answers.push([questionId, answers])),
          steer: ({ id, text }) =>
            Effect.map(world.steering, () => {
              if (agent.current !== undefined) {
                agent.steers.set(id, agent.steers.get(id) ?? text)
              }
            }),
          interrupt: Effect.suspend(() => {
            agent.interrupts++
            return agent.hangs ? Effect.void : agent.end({ state: "interrupted" })
          }),
          exited: Deferred.await(agent.exit)
        }
      }),
      conversationFiles: () => [".fake/sessions"]
    })
  )

const blobOf = (content: string) => createHash("sha1").update(content).digest("hex")
const encoded = (text: string) => new TextEncoder().encode(text)
const textOf = <E, R>(content: Stream.Stream<Uint8Array, E, R>) => Stream.mkString(Stream.decodeText(content))

/** A process that writes what `World.commands` says, and ends. */
const spawned = (world: World, command: BoxCommand) =>
  Effect.gen(function*() {
    world.spawned.push(command)
    const ended = yield* Deferred.make<{ readonly code: number | null; readonly signal: string | null }>()
    const written = yield* Queue.unbounded<Uint8Array, Cause.Done>()
    const running = Effect.gen(function*() {
      const { code = 0, output = "" } = yield* world.commands(command, (text) => Effect.asVoid(Queue.offer(written, encoded(text))))
      yield* Queue.offer(written, encoded(output))
      yield* Queue.end(written)
      yield* Deferred.succeed(ended, { code, signal: null })
    })
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        world.ended.push(command)
      })
    )
    yield* Effect.forkScoped(running)
    const process: BoxProcess = {
      pid: 1,
      write: () => Effect.void,
      endInput: Effect.void,
      stdout: Stream.fromQueue(written),
      stderrTail: Effect.succeed(""),
      exited: Deferred.await(ended)
    }
    return process
  })

const hostOf = (world: World, { boxes, homes, path, rests }: Machine) =>
  SandboxHost.of({
    get isolation() {
      return world.isolation
    },
    programs: (asked) => Effect.sync(() => world.programs(asked)),
    provision: ({ sandboxId }) =>
      Effect.as(
        Effect.tap(
          Effect.andThen(failing(world.provisionFailures), dying(world, "provision")),
          () => Effect.sync(() => boxes.add(sandboxId))
        ),
        {
          sandboxId,
          workspace: `${path}/${sandboxId}`,
          home: `/home/${sandboxId}`,
          spawn: (command) => spawned(world, command),
          ...world.limitsMet === null
            ? {}
            : { limitsMet: Effect.sync(() => world.limitsMet ?? { outOfMemory: 0, tooManyProcesses: 0 }) }
        }
      ),
    find: () => Effect.succeedNone,
    stop: (sandboxId) =>
      Effect.tap(Effect.andThen(failing(world.stopFailures), world.stopping), () =>
        Effect.sync(() => {
          world.stops.push(sandboxId)
          boxes.delete(sandboxId)
          homes.delete(sandboxId)
        })),
    rest: (sandboxId) =>
      Effect.sync(() => {
        rests.push(sandboxId)
        if (boxes.delete(sandboxId)) homes.set(sandboxId, homes.get(sandboxId) ?? "")
      }),
    visit: () => Effect.die("no machine visits"),
    readHome: (sandboxId) =>
      Stream.concat(
        Stream.fromEffectDrain(Effect.suspend(() => world.readingHome)),
        Stream.suspend(() => Stream.make(encoded(`home ${homes.get(sandboxId) ?? ""}`)))
      ),
    readFiles: (_, path) => world.artifacts(path),
    writeHome: (sandboxId, content) =>
      Effect.flatMap(textOf(content), (text) =>
        text.startsWith("home ")
          ? Effect.sync(() => void homes.set(sandboxId, text.slice(5)))
          : Effect.fail(new HomeDamaged({ detail: "it is not a home" }))),
    list: Effect.sync(() => Array.from(new Set([...boxes, ...homes.keys()])))
  })

const Trees = (world: World, machine: Machine) => {
  const { trees, work } = machine
  return Layer.mock(WorkingTrees, {
    folder: (repo) => repo.replace("/", "-"),
    prepare: ({ repo, sandboxId }) =>
      Effect.as(
        Effect.tap(Effect.andThen(failing(world.cloneFailures), dying(world, "clone")), () =>
          Effect.sync(() => {
            world.clones.push(repo)
            trees.add(sandboxId)
          })),
        { baseSha: "0".repeat(40), baseRef: "main" }
      ),
    open: ({ repo }, path, maximumBytes) =>
      Effect.gen(function*() {
        if (world.links.has(`${repo}/${path}`)) return yield* new FileProtected()
        const content = world.files.get(`${repo}/${path}`)
        if (content === undefined) return yield* new FileNotFound()
        if (content.length > maximumBytes) return yield* new FileTooLarge({ maximumBytes })
        const bytes = new TextEncoder().encode(content)
        return { size: bytes.length, bytes: Stream.make(bytes) }
      }),
    readBase: ({ repo }, paths) =>
      Effect.sync(() =>
        new Map(
          Array.from(paths).flatMap((path) => {
            const content = world.files.get(`${repo}/${path}`)
            return content === undefined ? [] : [[path, { blob: blobOf(content), content: encoded(content) }]]
          })
        )
      ),
    findBase: ({ repo }, names, { maximum }) =>
      Effect.sync(() => {
        const wanted = new Set(names)
        const found = Array.from(world.files).flatMap(([path, content]) =>
          path.startsWith(`${repo}/`) && wanted.has(path.slice(path.lastIndexOf("/") + 1))
            ? [[path.slice(repo.length + 1), blobOf(content)] as const]
            : []
        )
        return found.length > maximum ? null : new Map(found)
      }),
    findBaseRef: (_, { refs }) =>
      Effect.sync(() => ({ baseSha: "0".repeat(40), on: refs.find((ref) => world.holding.includes(ref)) ?? null })),
    changes: ({ repo }) =>
      Effect.sync(() => ({
        files: (world.changed.get(repo) ?? []).map((path) => ({
          path,
          status: "modified" as const,
          additions: 1,
          deletions: 0,
          previousPath: null
        })),
        partialWarnings: []
      })),
    branches: () => Effect.succeed({ head: null, isGone: false, root: null, tips: new Map([["main", "0".repeat(40)]]) }),
    snapshot: () => Effect.succeed({ sha: "0".repeat(40), baseRef: "main", baseSha: "0".repeat(40) }),
    push: () => world.pushing,
    save: (id, repos) =>
      Effect.gen(function*() {
        yield* world.saving
        if (!trees.has(id)) return yield* new FileNotFound()
        const content = `trees ${work.get(id) ?? "as cloned"}`
        return {
          repos: repos.map(({ repo }) => ({ repo, sha: "1".repeat(40) })),
          changes: repos.map(({ repo }) => ({ repo, additions: 2, deletions: 1, changedFiles: 1 })),
          content: Stream.suspend(() => Stream.make(encoded(content)))
        }
      }),
    restore: <E, R>(id: SandboxId, content: Stream.Stream<Uint8Array, E, R>, sources: ReadonlyArray<{ readonly repo: RepoName }>) =>
      Effect.gen(function*() {
        const text = yield* textOf(content)
        if (!text.startsWith("trees ")) return yield* new CheckpointDamaged({ detail: "it is not a tree" })
        yield* failing(world.restoreFailures)
        trees.add(id)
        world.torn.delete(id)
        work.set(id, text.slice(6))
        yield* failing(world.restoreAnswers)
        return sources.map(({ repo }) => ({ repo, sha: "1".repeat(40), bytes: text.length, baseSha: "0".repeat(40), baseRef: "main" }))
      }),
    has: (id, repos = []) => Effect.sync(() => trees.has(id) && repos.every((repo) => world.clones.includes(repo))),
    isWhole: (id) => Effect.sync(() => !world.torn.has(id)),
    remove: (id) =>
      Effect.sync(() => {
        work.delete(id)
        world.torn.delete(id)
        if (trees.delete(id)) world.roomMade.push(`tree ${id}`)
      }),
    makeRoom: Effect.sync(() => void world.roomMade.push("mirrors")),
    sandboxes: Effect.sync(() => Array.from(trees))
  })
}

const Source = (world: World) => {
  let open: ReturnType<typeof draft> | null = null
  return Layer.mock(SourceHost, {
    names: ["fake"],
    nameOf: () => Effect.succeed("fake"),
    refusal: () => Effect.succeed(null),
    repository: (fullName) => Effect.as(failing(world.repositoryFailures), { fullName, defaultBranch: "main" }),
    remote: () => Effect.succeed({ url: "/origin", authorization: null }),
    findOpenPullRequest: () => Effect.sync(() => open),
    openDraftPullRequest: (_, { headRef, headSha }) => Effect.sync(() => open = draft(headRef, headSha, 1)),
    pullRequestPushed: (_, __, { headSha }) => Effect.sync(() => open = draft(open?.headRef ?? "", headSha, 1))
  })
}

const Memory = SandboxStoreMemory.layer.pipe(Layer.provideMerge(HintsMemory.layer))
type Kept = SandboxStore | Leases | Maintenance | Checkpoints | Setups | Workers | Hints | Ids
/** The doubles on stores of the test's own. */
export const layerOn = <A, E, R>(world: World, stores: Layer.Layer<Kept | A, E, R>) =>
  Layer.mergeAll(
    Runtime(world),
    Layer.succeed(SandboxHost, hostOf(world, world.machine("machine"))),
    Trees(world, world.machine("machine")),
    Source(world),
    Sandboxes.layer,
    ModelGatewayMemory.layer
  ).pipe(
    Layer.provideMerge(SpendingMemory.layer.pipe(Layer.provideMerge(PartnerStoreMemory.layer))),
    Layer.provideMerge(stores)
  )
/** Shorter than by default: no scenario lasts days. */
const Hurried = Layer.effect(
  Policy,
  Effect.map(Policy, (limits) => ({
    ...limits,
    queue: Duration.hours(1),
    idle: Duration.minutes(30),
    lifetime: Duration.days(1)
  }))
)
const layer = (world: World) => layerOn(world, Layer.merge(Memory, IdsNode.layer)).pipe(Layer.provideMerge(Hurried))

// ---------------------------------------------------------------------------------------------------------------
// A worker process

export class Process {
  /** Ends it gently. */
  readonly shutDown: Effect.Effect<void>
  /** How far its machine's clock is ahead. */
  skewMillis = 0
  readonly #open = Latch.makeUnsafe(true)
  readonly #storeClock: Clock.Clock
  #state: "ok" | "fail" | "hang" | "stuck" = "ok"

  constructor(shutDown: Effect.Effect<void>, storeClock: Clock.Clock) {
    this.shutDown = shutDown
    this.#storeClock = storeClock
  }

  /** Its machine's. */
  get clock(): Clock.Clock {
    const right = this.#storeClock
    const millis = () => right.currentTimeMillisUnsafe() + this.skewMillis
    // Clocks are classes: what is copied of one lacks its methods.
    return Object.assign(Object.create(right), { currentTimeMillisUnsafe: millis, currentTimeMillis: Effect.sync(millis) })
  }

  /**
   * From now on its calls to the store wait (`hang`), wait even when they are interrupted (`stuck`), fail (`fail`), or
   * go through again (`ok`).
   */
  set network(state: "ok" | "fail" | "hang" | "stuck") {
    this.#state = state
    if (state === "hang" || state === "stuck") this.#open.closeUnsafe()
    else this.#open.openUnsafe()
  }

  through<A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | StoreUnavailable, R> {
    return Effect.suspend(() => this.#state === "stuck" ? Effect.uninterruptible(this.#open.await) : this.#open.await).pipe(
      Effect.andThen(
        Effect.suspend((): Effect.Effect<A, E | StoreUnavailable, R> =>
          this.#state === "fail" ? Effect.fail(new StoreUnavailable({ cause: "cut" })) : self
        )
      ),
      Effect.provideService(Clock.Clock, this.#storeClock)
    )
  }
}

/** Starts a worker on its own connection to the shared store. */
export const startWorker = Effect.fnUntraced(function*(
  world: World,
  /** When the worker is stopped: `drain`, how long a turn may still take; `shutdown`, how long the rest may, if not as by default. */
  { drain = "0 seconds", shutdown, ...options }: Partial<WorkerNode.Options> & {
    readonly drain?: Duration.Input
    readonly shutdown?: Duration.Input
  } = {}
) {
  const store = yield* SandboxStore
  const leases = yield* Leases
  const maintenance = yield* Maintenance
  const checkpoints = yield* Checkpoints
  const setups = yield* Setups
  const workers = yield* Workers
  const scope = yield* Scope.fork(yield* Effect.scope)
  const process = new Process(Scope.close(scope, Exit.void), yield* Clock.Clock)
  world.processes.push(process)
  const through = process.through.bind(process)
  const connection = SandboxStore.of({
    ...store,
    find: (by) => through(store.find(by)),
    change: (id, by, decide, now) =>
      through(store.change(id, by, decide, now)).pipe(
        Effect.tap(() =>
          Effect.sync(() => {
            if (by !== "policy") world.commits++
          })
        )
      ),
    approvals: (id, ids) => through(store.approvals(id, ids)),
    questions: (id, ids) => through(store.questions(id, ids))
  })
  const leasing = Leases.of({
    ...leases,
    take: (by, room) => through(leases.take(by, room)),
    arrived: (lease) => through(leases.arrived(lease)),
    renew: (held) => through(leases.renew(held)),
    rest: (lease) => through(leases.rest(lease)),
    release: (lease, options) => through(leases.release(lease, options)),
    drain: (machine, isDraining) => through(leases.drain(machine, isDraining)),
    saveAgentSession: (lease, id) => through(leases.saveAgentSession(lease, id))
  })
  const looking = Maintenance.of({
    ...maintenance,
    now: through(maintenance.now),
    due: (limit, after) => through(maintenance.due(limit, after)),
    left: (machine, ids) => through(maintenance.left(machine, ids)),
    unneeded: (ids) => through(maintenance.unneeded(ids))
  })
  const slots = options.slots ?? 4
  const machine = options.machine ?? "machine"
  // Another machine has trees and boxes of its own.
  const own = machine === "machine"
    ? { trees: yield* WorkingTrees, host: yield* SandboxHost }
    : {
      trees: Context.get(yield* Layer.build(Trees(world, world.machine(machine))), WorkingTrees),
      host: hostOf(world, world.machine(machine))
    }
  const keeping = Checkpoints.of({
    ...checkpoints,
    put: (lease, number, content, changes) => through(checkpoints.put(lease, number, content, changes)),
    get: (id, number) => Stream.unwrap(through(Effect.succeed(checkpoints.get(id, number)))),
    list: (id, after, limit) => through(checkpoints.list(id, after, limit))
  })
  yield* WorkerNode.start({ worker: "worker", machine, slots, agents: 4 * slots, boots: slots, ...options }).pipe(
    Effect.provideService(WorkingTrees, own.trees),
    Effect.provideService(SandboxHost, own.host),
    Effect.provideService(Checkpoints, keeping),
    Effect.provideService(Workers, {
      ...workers,
      report: (said) => through(workers.report(said)),
      leave: (one) => through(workers.leave(one))
    }),
    Effect.provideService(Setups, {
      save: (lease, record) => through(setups.save(lease, record)),
      find: (id) => through(setups.find(id)),
      wasPushedUnmerged: (repo, sha) => through(setups.wasPushedUnmerged(repo, sha))
    }),
    Effect.updateService(Timing, (timings) => ({
      ...timings,
      drain: Duration.fromInputUnsafe(drain),
      shutdown: shutdown === undefined ? timings.shutdown : Duration.fromInputUnsafe(shutdown)
    })),
    Effect.provideService(SandboxStore, connection),
    Effect.provideService(Leases, leasing),
    Effect.provideService(Maintenance, looking),
    Effect.provideService(Clock.Clock, process.clock),
    Scope.provide(scope)
  )
  return process
})

// ---------------------------------------------------------------------------------------------------------------
// Actions and views of people

const decodeRequest = Schema.decodeUnknownEffect(CreateSandbox)

export const create = Effect.fnUntraced(function*(
  more: Partial<typeof CreateSandbox.Encoded> = {},
  model: Model = offlineDemo,
  grantId = principal.grantId
) {
  const request = yield* Effect.orDie(decodeRequest({ repos: [{ fullName: REPO }], prompt: "Fix the header", ...more }))
  const id = SandboxId.make(`c_${yield* Ids.use((ids) => ids.random(ID_ALPHABET, 12))}`)
  const creation = toCreation(request, { id, grantId, createdBy: principal.userId, model, at: yield* DateTime.now })
  yield* Effect.orDie(SandboxStore.use((store) => store.create({ creation, keyed: null })))
  return id
})

export const message = (id: SandboxId, prompt: string) =>
  Sandboxes.use((sandboxes) => sandboxes.sendMessage(principal, id, prompt, Option.none()))

/** The agent that a message wakes, which obeys. */
export const woken = Effect.fnUntraced(function*(world: World, id: SandboxId, prompt = "Go on") {
  world.hang = false
  yield* message(id, prompt)
  const agent = yield* world.nextAgent
  const { text } = yield* Queue.take(agent.prompts)
  return { agent, text }
})

export const publishRequested = Effect.fnUntraced(function*(id: SandboxId) {
  const store = yield* SandboxStore
  yield* Effect.orDie(store.change(id, key(id), (sandbox) => request(sandbox, REPO), yield* DateTime.now))
})

/** Another worker holds the lease from now on. */
export const stealLease = Effect.fnUntraced(function*(id: SandboxId) {
  const leases = yield* Leases
  // A lease that was just given back is free for anybody.
  yield* Effect.orDie(leases.release({ sandboxId: id, fence: 1 }))
  const leased = yield* Effect.orDie(leases.take({ worker: "thief", machine: "machine" }, { slots: 1, boots: 1, errands: 1 }))
  return leased.map(({ lease }) => lease)
})

export const find = (id: SandboxId, grantId = principal.grantId) => Effect.orDie(SandboxStore.use((store) => store.find({ grantId, id })))

/** The sandbox as soon as it is as asked; time stands still meanwhile. */
export const until = Effect.fnUntraced(function*(id: SandboxId, is: (sandbox: Sandbox) => boolean, grantId = principal.grantId) {
  const changed = yield* Hints.use((hints) => hints.watch(id))
  for (;;) {
    const sandbox = yield* find(id, grantId)
    if (is(sandbox)) return sandbox
    yield* changed
  }
}, Effect.scoped)

/** Lets everything run that needs no time to pass. */
export const settle = Effect.forEach(Array.from({ length: 200 }), () => Effect.yieldNow, { discard: true })

export const pass = (duration: Parameters<typeof TestClock.adjust>[0]) => Effect.andThen(TestClock.adjust(duration), settle)

export const log = (id: SandboxId) =>
  Effect.gen(function*() {
    const store = yield* SandboxStore
    const events: Array<RecordedEvent> = []
    for (;;) {
      const page = yield* Effect.orDie(store.log(id, events.at(-1)?.seq ?? 0, 10_000))
      if (page.length === 0) return events
      for (const { wire } of page) events.push(fromWire(wire))
    }
  })

export const events = (id: SandboxId): Effect.Effect<ReadonlyArray<SandboxEvent>, never, SandboxStore> =>
  Effect.map(log(id), (entries) => entries.map(({ event }) => event))

/** Without those of checkpoints, which come beside everything else. */
export const eventsOfWork = (id: SandboxId) => Effect.map(events(id), (all) => all.filter(({ type }) => type !== "sandbox.checkpoint"))

export const eventsOf = <T extends SandboxEvent["type"]>(id: SandboxId, type: T) =>
  Effect.map(events(id), (all) => all.filter((event): event is SandboxEventOf<T> => event.type === type))

/** The first agent, at work on the first turn of a new sandbox. */
export const running = Effect.fnUntraced(function*(
  world: World,
  more: Partial<typeof CreateSandbox.Encoded> = {},
  model: Model = offlineDemo,
  grantId = principal.grantId
) {
  const id = yield* create(more, model, grantId)
  const agent = yield* world.nextAgent
  yield* Queue.take(agent.prompts)
  yield* until(id, ({ turn }) => turn?.state === "running", grantId)
  return { id, agent }
})

/** The services of a scenario. */
export type Provided = Layer.Success<ReturnType<typeof layer>> | Scope.Scope

/** A test with a world of its own. */
export const scenario = <E>(
  name: string,
  test: (world: World) => Effect.Effect<void, E, Provided>,
  creditPrice: number | null = null
) =>
  it.effect(name, () => {
    const world = new World()
    // No worker waits for a dead store when the test is over.
    const reconnect = Effect.sync(() => {
      for (const process of world.processes) process.network = "ok"
    })
    return Effect.provide(Effect.ensuring(test(world), reconnect), Layer.provide(layer(world), Layer.succeed(CreditPrice, creditPrice)))
  })
