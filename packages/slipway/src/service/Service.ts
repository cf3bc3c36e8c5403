/** The whole service as one layer: storage, domain, worker, HTTP. */
// First, because schemas that were used before stay interpreted. Compiled ones take a fifth off a GET (bench api, 2026-11-21).
import * as Installed from "@slipway/agents/Installed"
import * as AgentRuntimeProfiles from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as OutputRedactor from "@slipway/domain/environment/redaction/OutputRedactor"
import { RemoteTrees, LocalTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { ModelCatalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { BoxNotRunning } from "@slipway/domain/sandbox/ports/BoxConnection"
import { BoxPorts, LocalBoxPorts } from "@slipway/domain/sandbox/ports/BoxPorts"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import * as WorkerReadiness from "@slipway/domain/sandbox/ports/WorkerReadiness"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as UseCases from "@slipway/domain/UseCases"
import * as McpGatewayHttp from "@slipway/gateway/mcp/McpGatewayHttp"
import * as ModelGatewayHttp from "@slipway/gateway/ModelGatewayHttp"
import * as LocalMachine from "@slipway/git/machine/LocalMachine"
import type { SigningKey } from "@slipway/git/publish/SigningKey"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import * as Server from "@slipway/http/Server"
import * as PreviewOrigin from "@slipway/http/server/PreviewOrigin"
import * as HttpSettings from "@slipway/http/server/Settings"
import * as MachineFolder from "@slipway/machine/files/MachineFolder"
import { loopback } from "@slipway/machine/network/Loopback"
import * as TrustedAuthorities from "@slipway/machine/network/TrustedAuthorities"
import * as Spawner from "@slipway/machine/node/spawner/Spawner"
import { pages } from "@slipway/pages/Pages"
import * as SharedSecret from "@slipway/postgres/secret-store/SharedSecret"
import * as WorkingTreesRunner from "@slipway/runner/trees/WorkingTreesRunner"
import * as BoxPortsLink from "@slipway/worker-link/channel/BoxPortsLink"
import * as ChannelServer from "@slipway/worker-link/channel/ChannelServer"
import * as RemoteTreesLink from "@slipway/worker-link/RemoteTreesLink"
import * as TreeServer from "@slipway/worker-link/TreeServer"
import * as CheckpointTreesOnDisk from "@slipway/worker/checkpoint/CheckpointTreesOnDisk"
import * as DeliverWebhooks from "@slipway/worker/jobs/DeliverWebhooks"
import * as FollowFeedback from "@slipway/worker/jobs/FollowFeedback"
import * as FollowRepositories from "@slipway/worker/jobs/FollowRepositories"
import * as RunAutomations from "@slipway/worker/jobs/RunAutomations"
import { AllowedEgress } from "@slipway/worker/setup/RunSetup"
import { Timing } from "@slipway/worker/shared/Timing"
import { AllowNoIsolation } from "@slipway/worker/turn/Agent"
import { ShowToolDetail } from "@slipway/worker/turn/RunTurn"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Context, Deferred, Duration, Effect, Fiber, Layer, Schema, Scope } from "effect"
import * as TracesOtlp from "../traces/TracesOtlp.ts"
import "effect/schema/SchemaJITCompiler/enable"
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import * as IsolationSettings from "../settings/Isolation.ts"
import * as Settings from "../settings/Settings.ts"
import * as CommitSigning from "./CommitSigning.ts"
import * as SourceHosts from "./hosts/SourceHosts.ts"
import * as InstallAgents from "./InstallAgents.ts"
import * as AbandonedMachines from "./machine/AbandonedMachines.ts"
import * as Capacity from "./machine/Capacity.ts"
import * as Isolation from "./machine/Isolation.ts"
import * as Toolchains from "./machine/Toolchains.ts"
import * as MachineRepositories from "./MachineRepositories.ts"
import * as ModelOffers from "./ModelOffers.ts"
import * as Models from "./Models.ts"
import * as ServedTerminals from "./ServedTerminals.ts"
import * as SignIn from "./SignIn.ts"
import * as OwnPostgres from "./storage/OwnPostgres.ts"
import * as Storage from "./storage/Storage.ts"
import * as WorkerMonitor from "./WorkerMonitor.ts"

const worker = (
  worker: string,
  { agentIdle, cacheBytes, dataDir, databaseUrl, drain, toolDetail, workerAddress, ...settings }: Settings.Settings,
  models: Models.LiveModels,
  isolation: Isolation.Isolation,
  terminals: Layer.Layer<never>
) => {
  const catalogue = () => models.here(isolation.problem).catalogue
  return Layer.unwrap(Effect.gen(function*() {
    const leases = yield* Leases
    const trees = yield* WorkingTrees
    const { alone, machine } = yield* MachineFolder.acquire(dataDir, Effect.flatMap(trees.sandboxes, leases.machineOf))
    if (alone) yield* leases.endLeases(machine)
    // From here on no other process uses the mounted folders.
    yield* isolation.folders.letGo
    return Layer.mergeAll(
      WorkerNode.layer({ worker, machine, ...Capacity.of(settings) }).pipe(
        Layer.provide(LocalMachine.setupCaches(dataDir, isolation.folders, cacheBytes))
      ),
      DeliverWebhooks.layer,
      FollowFeedback.layer.pipe(Layer.provide(Feedback.layer)),
      Layer.effectDiscard(ModelOffers.announce(worker, catalogue, isolation)),
      isolation.elsewhere === null ? Layer.empty : AbandonedMachines.layer(isolation.elsewhere.machines),
      // Only this process uses an embedded database, so there are no other processes to serve.
      databaseUrl === null
        ? Layer.empty
        : TreeServer.layer({ worker, machine, listen: workerAddress ?? { host: loopback(), port: 0 } }).pipe(
          Layer.provide(ChannelServer.layer(worker))
        )
    )
  })).pipe(
    Layer.provideMerge(LocalBoxPorts.layer),
    Layer.provide([
      AgentRuntimeProfiles.layer({ agentsFolder: Installed.folderIn(dataDir) }),
      isolation.host,
      isolation.throughBox(ModelGatewayHttp.layer({ keys: models.keys, clouds: models.clouds, addresses: settings.modelAddresses })),
      isolation.mcpThroughBox(McpGatewayHttp.layer({ privates: settings.mcpPrivate, option: IsolationSettings.settings.mcpPrivate.name })),
      Layer.succeed(ModelCatalogue, Models.readAnew(catalogue)),
      terminals,
      Layer.succeed(ShowToolDetail, toolDetail === "full"),
      Layer.succeed(AllowNoIsolation, settings.isolation === "none"),
      Layer.succeed(AllowedEgress, settings.egressAllow),
      OutputRedactor.layer,
      Layer.effect(Timing, Effect.map(Timing, (timings) => ({ ...timings, agentIdle, drain })))
    ])
  )
}

const http = (settings: Settings.Settings, publicUrl: string) => {
  const { edge, host, port, rateLimitPerMinute } = settings
  return Server.layer({ host, port }, pages).pipe(
    // Loads the list of repositories now, so that the first creation need not wait for it.
    Layer.tap(() => SourceHost.use((source) => source.refusal([]))),
    Layer.provide(SourceHosts.events(settings)),
    Layer.provide(MachineRepositories.layer(settings)),
    Layer.provide(InstallAgents.layer(settings)),
    Layer.provideMerge(SignIn.providers(settings)),
    Layer.provide(SignIn.lifetimes(settings)),
    Layer.provide(
      Layer.unwrap(
        Effect.gen(function*() {
          const cursorKey = yield* SharedSecret.load("list_cursors")
          const origins = settings.previewOrigins ?? PreviewOrigin.ofPublicUrl(publicUrl)
          const previews = origins === null ? null : { origins, key: yield* SharedSecret.load("previews") }
          return HttpSettings.Settings.layer({ publicUrl, cursorKey, previews, requestsPerMinute: rateLimitPerMinute, ...edge })
        })
      )
    )
  )
}

/** The working trees of this worker's sandboxes: on this machine, or on machines of their own. */
export const trees = ({ clone, dataDir }: Settings.Settings, isolation: Isolation.Isolation, signingKey: SigningKey | null = null) => {
  const options = {
    signingKey,
    directory: Isolation.treesIn(dataDir),
    depth: clone.depth,
    fetchTime: clone.time,
    maximumFetchBytes: clone.bytes,
    maximumCheckoutBytes: clone.checkoutBytes,
    maximumCheckoutFiles: clone.checkoutFiles,
    lfs: { privates: clone.lfsPrivate }
  }
  return isolation.elsewhere === null
    ? Layer.provide(WorkingTreesGit.layer({ ...options, folders: isolation.folders }), isolation.host)
    : Layer.provide(WorkingTreesRunner.layer(options), Layer.merge(isolation.host, isolation.elsewhere.runners))
}

/** Models of the operator's file that cannot be used get a line in the log. For the built-in list, `slipway models` shows them. */
const reportModels = ({ modelsFile }: Settings.Settings, { checked }: Models.Models) =>
  Effect.gen(function*() {
    const usable = checked.filter(({ reason }) => reason === null).map(({ model }) => model.id)
    yield* Effect.logInfo(
      `models: ${usable.join(", ") || "none"}; ${checked.length - usable.length} others cannot be used (slipway models says why)`
    )
    for (const { model, problems } of modelsFile === null ? [] : checked) {
      if (problems.length > 0) yield* Effect.logWarning(`the model ${model.id} cannot be used: ${problems.join(" ")}`)
    }
  })

/** The configured isolation is not available. */
class CannotIsolate extends Schema.TaggedError<CannotIsolate>()("CannotIsolate", { isolation: Schema.String, problem: Schema.String }) {
  override get message() {
    return `Sandboxes cannot be isolated, and ${IsolationSettings.settings.isolation.name} is ${this.isolation}. ${this.problem}`
  }
}

/** The isolation of the running service's agents. */
export class ChosenIsolation extends Context.Service<ChosenIsolation, Isolation.Isolation>()("slipway/service/ChosenIsolation") {}

/** The common parts of all layers. */
const surroundings = ({ approval, clone, lifetimes, role, traces, ...settings }: Settings.Settings) =>
  Layer.mergeAll(
    SourceHosts.commits(settings),
    role === "http" ? WorkerReadiness.layer : Layer.tap(
      WorkerReadiness.layer,
      (built) => Context.get(built, WorkerReadiness.WorkerReadiness).report(Effect.succeed("The worker is starting."))
    ),
    Layer.effect(
      Policy,
      Effect.map(Policy, (limits) => ({
        ...limits,
        ...lifetimes,
        boot: Duration.max(limits.boot, Duration.sum(clone.time, Duration.minutes(1))),
        approval
      }))
    ),
    // Without a collector spans are disabled: each request would make half a dozen.
    traces === null ? TracesOtlp.none : TracesOtlp.layer({ ...traces, serviceVersion: manifest.version })
  )

/** Chooses the isolation. Fails if the configured one is not available. */
const choose = Effect.fnUntraced(function*(settings: Settings.Settings) {
  const isolation = yield* Isolation.choose(settings)
  if (settings.isolation === "auto" || isolation.problem === null) return isolation
  return yield* new CannotIsolate({ isolation: settings.isolation, problem: isolation.problem })
})

/**
 * Begins to build the layer, and returns an effect that waits for it. The layer ends with the scope, after everything that is added to
 * the scope later, so that waiting code can use it to the end.
 */
const begin = Effect.fnUntraced(function*<A, E, R>(layer: Layer.Layer<A, E, R>) {
  const own = yield* Scope.fork(yield* Effect.scope)
  return Fiber.join(yield* Effect.forkScoped(Layer.buildWithScope(layer, own)))
})

/** The trees of this machine, before they are built: callers wait. */
const awaited = <E>(here: Effect.Effect<Context.Context<LocalTrees>, E>) => {
  const trees = Effect.orDie(Effect.map(here, (built) => Context.get(built, LocalTrees)))
  return LocalTrees.of({
    own: (id) => Effect.flatMap(trees, ({ own }) => own(id)),
    restored: (sandbox) => Effect.flatMap(trees, ({ restored }) => restored(sandbox))
  })
}

/** The boxes of this process's worker, before it has started. */
const boxPortsOf = (working: Deferred.Deferred<LocalBoxPorts["Service"]>) =>
  LocalBoxPorts.of({
    connect: Effect.fnUntraced(function*(sandboxId, port) {
      // No box runs before.
      const here = (yield* Deferred.isDone(working)) ? yield* Deferred.await(working) : null
      return here === null ? yield* new BoxNotRunning() : yield* here.connect(sandboxId, port)
    })
  })

/**
 * Runs the service until its scope closes. `port` is a real port, not 0. `postgres`: see `Storage.layer`.
 *
 * Slow independent parts start at once: the database, and the probe of this machine's isolation. Requests are served as soon as the
 * database is ready, unless a configured isolation must be found too. The worker starts when both are ready; then the layer is built.
 */
export const layer = (settings: Settings.Settings, publicUrl: string, postgres = OwnPostgres.layer(settings)) =>
  Layer.unwrap(Effect.gen(function*() {
    const { databaseUrl, metricsAddress, role } = settings
    // Processes without a worker may share the environment, with folders that they do not have.
    if (role !== "http") {
      yield* Toolchains.check(settings)
      TrustedAuthorities.keepIn(join(settings.dataDir, "authorities"))
    }
    const signingKey = role === "http" ? null : yield* CommitSigning.find(settings)
    const given = yield* Models.find(settings)
    // Before child processes start, which would inherit them.
    yield* Models.hideKeys(given)
    yield* Settings.hideSecrets

    const chosen = yield* begin(
      // A process that only serves HTTP starts no programs.
      Layer.effect(ChosenIsolation, choose(settings)).pipe(Layer.provideMerge(role === "http" ? Layer.empty : Spawner.layer))
    )
    const stored = yield* begin(
      SourceHosts.layer(settings, publicUrl).pipe(
        Layer.provideMerge(Storage.layer(settings, true, postgres)),
        Layer.provideMerge(surroundings(settings))
      )
    )
    const machine = Layer.effectContext(chosen)
    const storage = Layer.effectContext(stored)

    const followed = yield* begin(Layer.effect(Models.Live, Models.follow(settings, given)).pipe(Layer.provide(storage)))
    const live = Effect.map(followed, (built) => Context.get(built, Models.Live))
    const modelsHere = Effect.zipWith(live, chosen, ({ here }, built) => {
      const { problem } = Context.get(built, ChosenIsolation)
      return () => here(problem)
    })
    let isolated: string | null = null
    const apply = Effect.ignoreCause(Effect.flatMap(live, ({ refresh }) => refresh))
    const setup = () => ({ isolation: isolated, environment: given.environment, isOperators: given.isOperators, apply })
    const here = role === "http" ? null : yield* begin(
      Layer.unwrap(Effect.map(ChosenIsolation, (isolation) =>
        LocalTrees.layer.pipe(
          Layer.provideMerge(CheckpointTreesOnDisk.layer.pipe(Layer.provide(isolation.host))),
          Layer.provideMerge(trees(settings, isolation, signingKey))
        ))).pipe(Layer.provideMerge(machine), Layer.provideMerge(storage))
    )
    const workerId = randomUUID()
    const waiting = here === null ? null : awaited(here)
    const workersPorts = yield* Deferred.make<LocalBoxPorts["Service"]>()
    const ports = boxPortsOf(workersPorts)
    const terminals = yield* ServedTerminals.make(settings, here === null ? null : workerId)
    const domain = Layer.merge(UseCases.layerWork, Feedback.layer).pipe(
      Layer.provide(Feedback.listener),
      Layer.provide(
        waiting === null
          ? RemoteTreesLink.layer({ own: null })
          : databaseUrl === null
          ? RemoteTrees.layerLocal.pipe(Layer.provide(Layer.succeed(LocalTrees, waiting)))
          : RemoteTreesLink.layer({ own: { worker: workerId, here: waiting } })
      ),
      Layer.provideMerge(
        databaseUrl === null
          ? BoxPorts.layerLocal.pipe(Layer.provide(Layer.succeed(LocalBoxPorts, ports)))
          : BoxPortsLink.layer({ own: here === null ? null : { worker: workerId, here: ports } })
      ),
      // Pages read it too.
      Layer.provideMerge(Layer.effect(
        ModelCatalogue,
        Effect.flatMap(
          live,
          (models) => ModelOffers.catalogue(models, role === "all" ? Effect.map(modelsHere, (now) => () => now().catalogue) : null, setup)
        )
      )),
      Layer.provideMerge(storage)
    )
    // Announces its address only after the isolation check, which may stop it.
    const permitted = settings.isolation === "auto" ? Layer.empty : machine
    // Work that begins without a request.
    const begun = Layer.merge(RunAutomations.layer, FollowRepositories.layer.pipe(Layer.provide(SourceHosts.polling(settings))))
    const served = (role === "worker"
      ? begun
      : Layer.merge(http(settings, publicUrl).pipe(Layer.provide([permitted, terminals.ofAll])), begun))
      .pipe(Layer.provideMerge(domain))
    if (here === null) {
      yield* Effect.flatMap(modelsHere, (now) => reportModels(settings, now()))
      return served.pipe(Layer.provideMerge(machine))
    }

    const work = Layer.unwrap(Effect.gen(function*() {
      yield* reportModels(settings, (yield* modelsHere)())
      const isolation = yield* ChosenIsolation
      isolated = Isolation.sentence(isolation)
      return worker(workerId, settings, yield* live, isolation, terminals.ofWorker)
    }))
    const watched = metricsAddress === null || role === "all" ? work : work.pipe(Layer.provide(WorkerMonitor.layer(metricsAddress)))
    const working = yield* begin(watched.pipe(Layer.provide(Layer.effectContext(here)), Layer.provideMerge(machine)))
    const boxes = Effect.map(working, (built) => Context.get(built, LocalBoxPorts))
    yield* Effect.forkScoped(Effect.ignore(Effect.flatMap(boxes, (own) => Deferred.succeed(workersPorts, own))))
    return Layer.effectContext(working).pipe(Layer.provideMerge(served))
  }))
