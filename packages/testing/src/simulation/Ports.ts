/** The ports as one process has them: each call passes a fault and is seen by the witness. */
import { CannotSave, CloneFailed, PushFailed, TreesUnavailable, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { MemoryRepositories } from "@slipway/domain/memory/files/MemoryRepositories"
import type { MemoryModel } from "@slipway/domain/memory/models/ModelGatewayMemory"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { AgentError, AgentRuntime, type AgentSession } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { type Lease, Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import { type Box, HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { Hints } from "@slipway/domain/store/Hints"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MovedBranch from "../branches/MovedBranch.ts"
import { STRANGER } from "../branches/Reviews.ts"
import { Caller, earlierStore } from "../stores/Versions.ts"
import type { Faults, Possible } from "./Faults.ts"
import type { Process, Timeline } from "./Timeline.ts"
import type { Trace } from "./Trace.ts"
import type { Disk } from "./TreesWitness.ts"
import type { RunningAgent, Witness } from "./Witness.ts"

/** How late a lost hint may be. */
const TICK_MILLIS = 1000

const unavailable = () => new StoreUnavailable({ cause: "cut" })
const hostError = (operation: HostError["operation"]) => () => new HostError({ operation, detail: "it is busy", retryable: true })
const sourceError = (operation: string) => () => new SourceHostError({ operation, detail: "it is busy", retryable: true })

/** The stores of a simulation. */
interface Stores {
  readonly checkpoints: Checkpoints["Service"]
  readonly store: SandboxStore["Service"]
  readonly leases: Leases["Service"]
  readonly maintenance: Maintenance["Service"]
  readonly setups: Setups["Service"]
}

/** The way of one process to the stores. */
interface Way {
  readonly process: Process
  readonly faults: Faults
  readonly witness: Witness
  /** Passes a fault on the way there or back. */
  call<A, E>(name: string, self: Effect.Effect<A, E | StoreUnavailable>, more?: Possible<E | StoreUnavailable>): Effect.Effect<
    A,
    E | StoreUnavailable
  >
}

/** A call that only reads. */
const look = { quiet: true }

/** The stores as one process has them. `clock`: the store's own. */
export const storesOf = (
  process: Process,
  faults: Faults,
  { checkpoints, leases, maintenance, setups, store }: Stores,
  clock: Clock.Clock,
  witness: Witness
): Context.Context<SandboxStore | Leases | Maintenance | Checkpoints | Setups> => {
  const way: Way = {
    process,
    faults,
    witness,
    call: <A, E>(name: string, self: Effect.Effect<A, E | StoreUnavailable>, more: Possible<E | StoreUnavailable> = {}) =>
      faults.call<A, E | StoreUnavailable>(
        process,
        `store.${name}`,
        Effect.provideService(Effect.provideService(self, Clock.Clock, clock), Caller, process),
        { error: unavailable, ...more }
      )
  }
  const known = process.release?.isEarlier === true ? earlierStore(store) : store
  return Context.make(SandboxStore, sandboxesOf(way, known)).pipe(
    Context.add(Leases, leasesOf(way, leases)),
    Context.add(Maintenance, maintenanceOf(way, maintenance)),
    Context.add(Checkpoints, checkpointsOf(way, checkpoints)),
    Context.add(Setups, setupsOf(way, setups))
  )
}

const sandboxesOf = ({ call, process, witness }: Way, store: SandboxStore["Service"]): SandboxStore["Service"] => ({
  create: (request) =>
    call(`create ${request.creation.id} ${request.keyed?.key ?? "without a key"}`, store.create(request), {
      repeatable: request.keyed !== null
    }),
  replay: (grantId, keyed, forkOf) => call(`replay ${keyed.key}`, store.replay(grantId, keyed, forkOf), look),
  find: (key) =>
    Effect.suspend(() => {
      witness.asksFor(process, key.id)
      const found = call(`find ${key.id}`, store.find(key), look)
      return Effect.tap(found, ({ id, lastSeq }) => Effect.sync(() => witness.queue.told(process, id, lastSeq)))
    }),
  list: (grantId, query) => call("list", store.list(grantId, query), look),
  summaries: (grantId, query) => call("summaries", store.summaries(grantId, query), look),
  log: (id, after, limit) => call(`log ${id} after ${after}`, store.log(id, after, limit), look),
  checkpointLog: (id, after, limit) => call(`checkpoint log ${id} after ${after}`, store.checkpointLog(id, after, limit), look),
  messages: (id, after, limit) => call(`messages ${id}`, store.messages(id, after, limit), look),
  publishers: (repo, branch) => call(`publishers ${repo} ${branch}`, store.publishers(repo, branch), look),
  command: (key, command, now, keyed, trace) => call(`command ${key.id}`, store.command(key, command, now, keyed, trace)),
  change: (id, by, decide, now) =>
    Effect.suspend(() => {
      let [written, last]: [ReadonlyArray<SandboxEvent>, number] = [[], 0]
      // Two requests of people may write the same.
      const isWorker = by !== "policy" && "fence" in by
      const change = Effect.tap(store.change(id, by, decide, now), ({ events, sandbox }) =>
        Effect.sync(() => {
          written = events
          last = sandbox.lastSeq
          if (isWorker) witness.writes(process, id, events, last)
        }))
      return Effect.tapError(
        call(`change ${id} by ${by === "policy" ? by : "fence" in by ? `lease ${by.fence}` : by.grantId}`, change),
        () => Effect.sync(() => isWorker ? witness.losesAnswer(process, id, written, last) : undefined)
      )
    }),
  delete: (key, now) => call(`delete ${key.id}`, store.delete(key, now)),
  approvals: (id, ids) => call(`approvals ${id}`, store.approvals(id, ids), look),
  questions: (id, ids) => call(`questions ${id}`, store.questions(id, ids), look),
  traces: (id, turnId) => call(`traces ${id}`, store.traces(id, turnId), look),
  purged: (id) => call(`purged ${id}`, store.purged(id), look)
})

const leasesOf = ({ call, faults, process, witness }: Way, leases: Leases["Service"]): Leases["Service"] => ({
  take: (by, room) =>
    Effect.tap(
      call(`take ${room.slots}`, leases.take(by, room), look),
      (leased) =>
        Effect.suspend(() => {
          witness.toldLeased(process, leased.map(({ lease }) => lease.sandboxId))
          if (leased.every(({ moved }) => moved === null) || !faults.happens("diedArriving", process.name)) return Effect.void
          faults.kill(process)
          return Effect.never
        })
    ),
  arrived: (lease) => call(`arrived ${lease.sandboxId} ${lease.fence}`, leases.arrived(lease), { repeatable: true }),
  renew: (held) => call(`renew ${held.length}`, leases.renew(held), { ...look, repeatable: true }),
  endLeases: (machine) => call(`endLeases ${machine}`, leases.endLeases(machine), { repeatable: true }),
  rest: (lease) =>
    Effect.tap(
      call(`rest ${lease.sandboxId} ${lease.fence}`, leases.rest(lease), { repeatable: true }),
      (rested) => rested ? Effect.sync(() => witness.toldRested(process, lease.sandboxId)) : Effect.void
    ),
  release: (lease, options) => call(`release ${lease.sandboxId} ${lease.fence}`, leases.release(lease, options), { repeatable: true }),
  drain: (machine, isDraining) => call(`drain ${machine} ${isDraining}`, leases.drain(machine, isDraining), { repeatable: true }),
  saveAgentSession: (lease, session) =>
    Effect.tap(
      call(`saveAgentSession ${lease.sandboxId}`, leases.saveAgentSession(lease, session), { repeatable: true }),
      () =>
        Effect.suspend(() => {
          if (session === null || !witness.isBooting(lease.sandboxId) || !faults.happens("diedBooting", process.name)) {
            return Effect.void
          }
          faults.lose(process)
          return Effect.never
        })
    ),
  machineOf: (ids) => call("machineOf", leases.machineOf(ids), look)
})

const maintenanceOf = ({ call }: Way, maintenance: Maintenance["Service"]): Maintenance["Service"] => ({
  now: call("now", maintenance.now, look),
  due: (limit, after) => call("due", maintenance.due(limit, after), look),
  ofRevokedGrants: (limit) => call("ofRevokedGrants", maintenance.ofRevokedGrants(limit), look),
  purgeEvents: (endedBefore, limit) => call("purgeEvents", maintenance.purgeEvents(endedBefore, limit), look),
  purgeKeys: (limit) => call("purgeKeys", maintenance.purgeKeys(limit), look),
  left: (machine, ids) => call(`left ${machine} ${ids.length}`, maintenance.left(machine, ids), look),
  unneeded: (ids) => call(`unneeded ${ids.length}`, maintenance.unneeded(ids), look),
  heads: (after, limit) => call(`heads ${limit}`, maintenance.heads(after, limit), look),
  census: call("census", maintenance.census, look)
})

const checkpointsOf = ({ call, faults, process }: Way, checkpoints: Checkpoints["Service"]): Checkpoints["Service"] => ({
  put: <E, R>(lease: Lease, checkpoint: number, content: Stream.Stream<Uint8Array, E, R>) =>
    Effect.contextWith((context: Context.Context<R>) =>
      call(
        `put ${lease.sandboxId} ${checkpoint} by lease ${lease.fence}`,
        Effect.provideContext(cuttable(process, faults, lease, checkpoint, content, checkpoints), context),
        { repeatable: true }
      )
    ),
  get: (id, checkpoint) => {
    const who = `${process.name} store.get ${id} ${checkpoint}`
    const cut = <A>(bytes: A) =>
      process.alive
        ? faults.happens("refused", who) ? Effect.fail(unavailable()) : Effect.as(Effect.yieldNow, bytes)
        : Effect.never
    return Stream.mapEffect(checkpoints.get(id, checkpoint), cut)
  },
  list: (id, after, limit) => call(`checkpoints ${id}`, checkpoints.list(id, after, limit), look),
  prune: (endedBefore, limit) => call("prune", checkpoints.prune(endedBefore, limit), look)
})

const setupsOf = ({ call }: Way, setups: Setups["Service"]): Setups["Service"] => ({
  save: (lease, record) => call(`save setup ${lease.sandboxId}`, setups.save(lease, record), { repeatable: true }),
  find: (id) => call(`setup of ${id}`, setups.find(id), look),
  wasPushedUnmerged: (repo, sha) => call(`pushed ${sha}`, setups.wasPushedUnmerged(repo, sha), look)
})

/** A put that may be cut off in the middle of its content, or whose process may die there or right after it. */
const cuttable = <E, R>(
  process: Process,
  faults: Faults,
  lease: Lease,
  checkpoint: number,
  content: Stream.Stream<Uint8Array, E, R>,
  checkpoints: Checkpoints["Service"]
) =>
  Effect.suspend(() => {
    const who = `${process.name} store.put ${lease.sandboxId} ${checkpoint}`
    const isCut = faults.happens("putCut", who)
    const dies = !isCut && faults.happens("diedPutting", who)
    // Header, home, trees and end are chunks of their own.
    let left = isCut || dies ? faults.chunks() : Number.POSITIVE_INFINITY
    const cut = Deferred.makeUnsafe<void>()
    const chunk = (bytes: Uint8Array) =>
      Effect.suspend(() => {
        if (--left > 0) return Effect.succeed(bytes)
        if (dies) faults.kill(process)
        return Effect.andThen(Deferred.succeed(cut, undefined), Effect.never)
      })
    const put = checkpoints.put(lease, checkpoint, Stream.mapEffect(content, chunk))
    return Effect.raceFirst(
      dies ? Effect.tap(put, () => Effect.suspend(() => (faults.kill(process), Effect.never))) : put,
      Effect.flatMap(Deferred.await(cut), () => process.alive ? Effect.fail(unavailable()) : Effect.never)
    )
  })

/** The effect goes on in the time of its own process, whichever process wakes it. */
const ownTime = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.tap(self, () => Effect.yieldNow)

/** A lost hint is made up for within a second, as the port says. Any other hint may come again, at any time. */
export const hintsOf = (process: Process, faults: Faults, timeline: Timeline, hints: Hints["Service"]): Hints["Service"] =>
  Hints.of({
    publish: (topics, note) =>
      Effect.suspend(() => {
        const later = (millis: number) =>
          Effect.sync(() => timeline.at(process, timeline.now + millis, () => timeline.run(Context.empty(), hints.publish(topics))))
        if (faults.happens("hintLost", process.name)) return later(TICK_MILLIS)
        return faults.happens("hintRepeated", process.name)
          ? Effect.andThen(hints.publish(topics, note), later(faults.millis()))
          : hints.publish(topics, note)
      }),
    watch: (topic) => Effect.map(hints.watch(topic), ownTime),
    listen: hints.listen
  })

export const sourceOf = (process: Process, faults: Faults, witness: Witness, source: SourceHost["Service"]): SourceHost["Service"] => {
  const call = <A, E>(name: string, self: Effect.Effect<A, E | SourceHostError>, repeatable = true) =>
    faults.call<A, E | SourceHostError>(process, `source.${name}`, self, { error: sourceError(name), repeatable })
  return SourceHost.of({
    names: source.names,
    nameOf: source.nameOf,
    // As of a host whose list is not at hand: what it does not let us see comes out at the boot.
    refusal: () => Effect.succeed(null),
    repository: (repo) => call("repository", source.repository(repo)),
    repositoryAt: (address) => source.repositoryAt(address),
    mayWrite: (repo, author) => call("mayWrite", Effect.map(source.mayWrite(repo, author), (may) => may && author.login !== STRANGER)),
    remote: (repo, access) => call("remote", source.remote(repo, access)),
    branch: (repo, name) => call("branch", source.branch(repo, name)),
    pullRequestSource: (repo, number) => call("pullRequestSource", source.pullRequestSource(repo, number)),
    openPullRequests: (repo) => call("openPullRequests", source.openPullRequests(repo)),
    findOpenPullRequest: (repo, head) =>
      call(
        "findOpenPullRequest",
        Effect.suspend(() => {
          witness.lookedFor(process, repo, head)
          return Effect.tap(source.findOpenPullRequest(repo, head), (found) => Effect.sync(() => witness.found(found)))
        })
      ),
    openDraftPullRequest: (repo, draft) =>
      call(
        `openDraftPullRequest ${draft.headRef}`,
        Effect.suspend(() => {
          witness.opensPullRequest(process, repo, draft.headRef)
          return Effect.tap(
            source.openDraftPullRequest(repo, draft),
            () => Effect.sync(() => witness.openedPullRequest(repo, draft.headRef))
          )
        }),
        false
      ),
    repositories: (query) => source.repositories(query),
    pullRequestPushed: (repo, number, push) => call("pullRequestPushed", source.pullRequestPushed(repo, number, push)),
    decoratePullRequest: (repo, number, decoration) => call("decoratePullRequest", source.decoratePullRequest(repo, number, decoration)),
    readyPullRequest: (repo, number) => call("readyPullRequest", source.readyPullRequest(repo, number)),
    pullRequestDetails: (repo, number) => call("pullRequestDetails", source.pullRequestDetails(repo, number))
  })
}

export const treesOf = (
  process: Process,
  faults: Faults,
  witness: Witness,
  disk: Disk,
  trees: WorkingTrees["Service"],
  { repositories, trace }: { readonly repositories: MemoryRepositories["Service"]; readonly trace: Trace }
): WorkingTrees["Service"] => {
  const tooLarge = new CannotSave({ repo: "all", detail: "it is too large", retryable: false })
  const unsaved = () => new TreesUnavailable({ detail: "The disk does not answer.", retryable: true })
  const call = <A, E>(name: string, self: Effect.Effect<A, E>, more: Possible<E> = {}) => faults.call(process, `trees.${name}`, self, more)
  return WorkingTrees.of({
    ...trees,
    prepare: (key, source) =>
      call(`prepare ${key.sandboxId} ${key.repo}`, trees.prepare(key, source), {
        error: () => new CloneFailed({ repo: key.repo, detail: "the line was cut", retryable: true }),
        repeatable: true
      }),
    branches: (key, query) => call(`branches ${key.sandboxId} ${key.repo}`, trees.branches(key, query), { repeatable: true }),
    snapshot: (key, commit) => call(`snapshot ${key.sandboxId} ${key.repo}`, trees.snapshot(key, commit), { repeatable: true }),
    push: (key, options) =>
      call(
        `push ${key.sandboxId} ${key.repo}`,
        MovedBranch.judged(trace, repositories.find(key.repo), options.headRef, trees.push(key, options)),
        {
          error: () => new PushFailed({ repo: key.repo, detail: "the line was cut", retryable: true }),
          repeatable: true
        }
      ),
    save: (id, repos, options) =>
      Effect.contextWith((context: Context.Context<Scope.Scope>) =>
        faults.happens("treeTooLarge", `${process.name} trees.save ${id}`) ? Effect.fail(tooLarge) : call(
          `save ${id}`,
          Effect.provideContext(
            Effect.tap(trees.save(id, repos, options), () => Effect.sync(() => witness.trees.read(id, process, disk.filesOf(id)))),
            context
          ),
          { error: unsaved, repeatable: true, isOwn: true }
        )
      ),
    restore: <E, R>(
      id: SandboxId,
      content: Stream.Stream<Uint8Array, E, R>,
      sources: Parameters<typeof trees.restore>[2],
      options?: Parameters<typeof trees.restore>[3]
    ) =>
      Effect.contextWith((context: Context.Context<R>) =>
        call(
          `restore ${id}`,
          Effect.acquireUseRelease(
            Effect.sync(() => witness.trees.replaces(id, disk, true)),
            () =>
              Effect.tap(
                Effect.provideContext(trees.restore(id, content, sources, options), context),
                () => options?.forget === undefined ? Effect.void : witness.startsUnpublished(id, sources, trees)
              ),
            () => Effect.sync(() => witness.trees.replaces(id, disk, false))
          ),
          { error: unsaved, isOwn: true }
        )
      ),
    has: (id, repos) => call(`has ${id}`, trees.has(id, repos), { quiet: true }),
    isWhole: (id) => call(`isWhole ${id}`, trees.isWhole(id), { quiet: true }),
    remove: (id) => call(`remove ${id}`, trees.remove(id), { repeatable: true }),
    sandboxes: call("sandboxes", trees.sandboxes, { quiet: true }),
    makeRoom: call("makeRoom", trees.makeRoom, { repeatable: true })
  })
}

/** The processes in boxes, each of which ends with the process that started it. */
export type Started = Set<{ readonly id: SandboxId; readonly agent: RunningAgent; readonly end: Effect.Effect<void> }>

export const hostOf = (
  process: Process,
  faults: Faults,
  witness: Witness,
  machine: string,
  started: Started,
  host: SandboxHost["Service"]
): SandboxHost["Service"] => {
  const spawning = (box: Box): Box => ({
    ...box,
    spawn: Effect.fnUntraced(function*(command) {
      if (faults.happens("refused", `${process.name} box.spawn ${box.sandboxId}`)) return yield* hostError("spawn")()
      const spawned = yield* box.spawn(command)
      const agent = witness.agentStarted(box.sandboxId, process, machine)
      const one = { id: box.sandboxId, agent, end: spawned.endInput }
      const ended = Effect.sync(() => {
        agent.running = false
        started.delete(one)
      })
      started.add(one)
      yield* Effect.addFinalizer(() => ended)
      return { ...spawned, exited: ownTime(spawned.exited), endInput: Effect.andThen(spawned.endInput, ended) }
    }, Effect.uninterruptible)
  })
  const emptied = (id: SandboxId) =>
    Effect.sync(() => {
      for (const agent of witness.seen(id)?.agents ?? []) if (agent.machine === machine) agent.running = false
    })
  return SandboxHost.of({
    // Agents may have models that cost something.
    isolation: "bubblewrap",
    programs: host.programs,
    provision: (options) =>
      Effect.map(
        faults.call(process, `host.provision ${options.sandboxId}`, Effect.tap(host.provision(options), emptied(options.sandboxId)), {
          error: hostError("provision"),
          repeatable: true
        }),
        spawning
      ),
    find: host.find,
    visit: host.visit,
    readHome: host.readHome,
    readFiles: host.readFiles,
    writeHome: (id, content) =>
      // A given stream is read once.
      faults.call(process, `host.writeHome ${id}`, host.writeHome(id, content), { error: hostError("write") }),
    rest: (id) =>
      faults.call(process, `host.rest ${id}`, Effect.tap(host.rest(id), emptied(id)), { error: hostError("rest"), repeatable: true }),
    stop: (id) =>
      faults.call(process, `host.stop ${id}`, Effect.tap(host.stop(id), emptied(id)), { error: hostError("stop"), repeatable: true }),
    list: faults.call(process, "host.list", host.list, { error: hostError("list"), quiet: true })
  })
}

/** The messages of people in the conversation that an agent is told. */
const promptsOf = (told: string): ReadonlyArray<string> =>
  Array.from(told.matchAll(/^## The person\n\n([^]*?)(?=\n\n## |$(?![^]))/gmu), ([, prompt = ""]) => prompt)

export const agentsOf = (
  process: Process,
  faults: Faults,
  witness: Witness,
  timeline: Timeline,
  disk: Disk,
  model: MemoryModel["Service"],
  runtime: AgentRuntime["Service"]
): AgentRuntime["Service"] =>
  AgentRuntime.of({
    conversationFiles: runtime.conversationFiles,
    bearsOtherPaths: runtime.bearsOtherPaths,
    open: Effect.fnUntraced(function*(options) {
      if (!process.alive) return yield* Effect.never
      const { sandboxId: id } = options.box
      const failure = (operation: "open" | "prompt") =>
        new AgentError({ runtime: options.profile, operation, detail: "it did not answer", retryable: true })
      if (faults.happens("refused", `${process.name} agent.open ${id}`)) return yield* failure("open")
      if (faults.happens("delayed", `${process.name} agent.open ${id}`)) yield* Effect.sleep(faults.millis())
      if (options.resume !== null && !disk.hasSession(options.box.home, options.resume)) {
        witness.resumesNothing(id, process)
        return yield* new AgentError({ runtime: options.profile, operation: "open", detail: "there is no such session", retryable: false })
      }
      const known = options.resume === null ? promptsOf(options.instructions ?? "") : disk.remembered(options.box.home, options.resume)
      witness.recalls(id, process, known)
      const session = yield* runtime.open(options)
      if (faults.happens("answerLost", `${process.name} agent.open ${id}`)) return yield* failure("open")
      const { steer } = session
      /** As any agent does before it says something. A request is the gateway's from then on, whatever becomes of who asked. */
      const asksModel = Effect.suspend(() => {
        const { access } = options
        if (access === null) return Effect.void
        const { chance } = faults
        const requests = Effect.gen(function*() {
          for (let left = chance.between(1, 3); left > 0; left--) {
            const tokens = {
              input: chance.between(50, 1500),
              cachedInput: chance.between(0, 50),
              cacheWrite: 0,
              output: chance.between(1, 300)
            }
            const answered = faults.on ? Effect.sleep(chance.between(1, 900)) : Effect.void
            if ((yield* model.ask(access, tokens, answered)) !== "served") return
          }
        })
        return Effect.callback<void>((resume) => {
          timeline.spawn(process, Context.empty(), requests).addObserver(() => resume(Effect.void))
        })
      })
      let turn = ""
      const watched: AgentSession = {
        ...session,
        ...(steer === undefined ? {} : {
          steer: (message) =>
            Effect.suspend(() => {
              if (!process.alive) return Effect.never
              witness.steers(id, turn, message, process)
              return faults.call(process, `agent.steer ${id} ${message.id}`, steer(message), { repeatable: true, isOwn: true })
            })
        }),
        prompt: ({ onBegin, onEvent, text, turnId }) =>
          Effect.suspend(() => {
            if (!process.alive) return Effect.never
            turn = turnId
            witness.prompted(id, turnId, process, disk)
            if (faults.happens("refused", `${process.name} agent.prompt ${id}`)) return Effect.fail(failure("prompt"))
            witness.trees.works(id, process, true)
            const stops = Effect.sync(() => witness.trees.works(id, process, false))
            return Effect.ensuring(
              Effect.andThen(
                asksModel,
                session.prompt({
                  turnId,
                  text,
                  ...(onBegin === undefined ? {} : { onBegin }),
                  onEvent: (event) =>
                    Effect.suspend(() => {
                      if (!process.alive) return Effect.never
                      witness.works(id, process)
                      if (event._tag === "ToolUpdated" && event.status === "running" && options.toolApprovalMode === "prompt") {
                        witness.approved(id, event.callId, true)
                      }
                      if (event._tag === "MessageSteered") witness.steered(id, turnId, event.messageId)
                      return onEvent(event)
                    })
                })
              ),
              stops
            )
          }),
        decide: (approvalId, decision, reason) =>
          Effect.suspend(() => {
            witness.approved(id, approvalId, decision === "approve", reason)
            return faults.call(process, `agent.decide ${id} ${approvalId} ${decision}`, session.decide(approvalId, decision, reason), {
              repeatable: true
            })
          }),
        answer: (questionId, answers) =>
          Effect.suspend(() => {
            witness.answered(id, questionId, answers)
            return faults.call(process, `agent.answer ${id} ${questionId}`, session.answer(questionId, answers), { repeatable: true })
          }),
        interrupt: Effect.suspend(() =>
          faults.happens("interruptIgnored", `${process.name} agent.interrupt ${id}`) ? Effect.never : session.interrupt
        )
      }
      return watched
    })
  })

export const partnersOf = (process: Process, faults: Faults, store: PartnerStore["Service"]): PartnerStore["Service"] =>
  PartnerStore.of({
    ...store,
    feed: (grantId, after, limit) =>
      faults.call(process, "partners.feed", store.feed(grantId, after, limit), { error: unavailable, quiet: true }),
    record: <A, E>(decide: Parameters<typeof store.record<A, E>>[0], at: Parameters<typeof store.record<A, E>>[1]) =>
      faults.call<A, E | StoreUnavailable>(process, "partners.record", store.record(decide, at), { error: unavailable, repeatable: true })
  })
