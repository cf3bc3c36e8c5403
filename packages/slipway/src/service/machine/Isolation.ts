/** The isolation of agents on this machine, chosen by a setting and by a probe. */
import * as Installed from "@slipway/agents/Installed"
import { PROGRAM } from "@slipway/agents/profiles/offline"
import * as DockerProbe from "@slipway/docker/Probe"
import * as SandboxHostDocker from "@slipway/docker/SandboxHostDocker"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { McpGateway } from "@slipway/domain/mcp/ports/McpGateway"
import type { ModelGateway } from "@slipway/domain/models/ports/ModelGateway"
import type { AgentIsolation } from "@slipway/domain/models/schema/ModelCatalogue"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as MachinesKubernetes from "@slipway/kubernetes/MachinesKubernetes"
import type { Report } from "@slipway/machine/box/Probe"
import * as BubblewrapProbe from "@slipway/machine/bubblewrap/Probe"
import * as SandboxHostBubblewrap from "@slipway/machine/bubblewrap/SandboxHostBubblewrap"
import * as Egress from "@slipway/machine/egress/Egress"
import * as McpGatewayInBox from "@slipway/machine/egress/McpGatewayInBox"
import * as ModelGatewayInBox from "@slipway/machine/egress/ModelGatewayInBox"
import * as SizedFolders from "@slipway/machine/files/SizedFolders"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as GvisorProbe from "@slipway/machine/gvisor/Probe"
import * as SandboxHostGvisor from "@slipway/machine/gvisor/SandboxHostGvisor"
import { defaults } from "@slipway/machine/host/Limits"
import { NotIsolated } from "@slipway/machine/host/NotIsolated"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Runners } from "@slipway/runner/client/Runners"
import * as RunnerProbe from "@slipway/runner/host/Probe"
import * as SandboxHostRunner from "@slipway/runner/host/SandboxHostRunner"
import * as SystemCallFilters from "@slipway/runner/host/SystemCallFilters"
import * as Installation from "@slipway/runner/machines/Installation"
import { Machines } from "@slipway/runner/machines/Machines"
import * as MachinesByCommand from "@slipway/runner/machines/MachinesByCommand"
import { Context, Effect, Layer, type Scope } from "effect"
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"
import { settings as known } from "../../settings/Isolation.ts"
import type { Settings } from "../../settings/Settings.ts"
import * as MachinesInCluster from "./MachinesInCluster.ts"

export interface Isolation {
  readonly kind: "bubblewrap" | "docker" | "gvisor" | "runner" | "kubernetes" | "none"
  /** Why agents with a model account must not run here, as a sentence for the operator; `null`: they may. */
  readonly problem: string | null
  /** The result of the probe in a box; `null`: no box. */
  readonly report: Report | null
  readonly host: Layer.Layer<SandboxHost, unknown>
  /** Set if sandboxes and their trees are on machines of their own; `null`: boxes are on this machine. */
  readonly elsewhere: { readonly machines: Machines["Service"]; readonly runners: Layer.Layer<Runners> } | null
  /** The folders of the working trees, which boxes write to. */
  readonly folders: SizedFolders.SizedFolders
  /** Gives agents in boxes a way to the gateway. */
  readonly throughBox: <E, R>(gateway: Layer.Layer<ModelGateway, E, R>) => Layer.Layer<ModelGateway, E, R>
  /** The same for the gateway of MCP servers. */
  readonly mcpThroughBox: <E, R>(gateway: Layer.Layer<McpGateway, E, R>) => Layer.Layer<McpGateway, E, R>
}

/** Addresses of names that only this process serves, for a demo. A service uses the machine's resolver and public addresses only. */
export const WayOut = Context.Reference<Pick<Egress.Options, "lookup" | "mayConnect">>("slipway/WayOut", {
  defaultValue: () => ({})
})

type WorkspaceOf = (sandboxId: SandboxId) => string

/** Boxes must see the offline agent, which is part of Slipway. */
const offlineAgent = dirname(PROGRAM)

const hostOptions = ({ dataDir, limits, toolchains }: Settings, workspaceOf: WorkspaceOf) => ({
  directory: join(dataDir, "boxes"),
  workspaceOf,
  readOnly: [offlineAgent, Installed.folderIn(dataDir)],
  toolchains,
  limits
})

/** The folder of the working trees. */
export const treesIn = (dataDir: string): string => join(dataDir, "trees")

/** `lacking`: why folders have no size limit. */
const sizedFolders = (
  { dataDir, limits }: Settings,
  { lacking, overlays = false }: { readonly lacking?: string; readonly overlays?: boolean }
) =>
  SizedFolders.make({
    directory: treesIn(dataDir),
    limits: { ...defaults, ...limits },
    overlays,
    ...(lacking === undefined ? {} : { lacking })
  })

const none = (settings: Settings, problem: string | null) =>
  Effect.map(sizedFolders(settings, { lacking: "agents are not isolated" }), (folders) => notIsolated(settings, problem, folders))

const notIsolated = ({ dataDir, toolchains }: Settings, problem: string | null, folders: SizedFolders.SizedFolders): Isolation => ({
  kind: "none",
  problem,
  report: null,
  folders,
  elsewhere: null,
  host: SandboxHostNone.layer({ directory: join(dataDir, "boxes"), workspaceOf: workspacesIn(treesIn(dataDir)), toolchains }),
  throughBox: (gateway) => gateway,
  mcpThroughBox: (gateway) => gateway
})

/** The egress of boxes, and their agents' way to the gateway through it. */
const outwards = Effect.fnUntraced(function*(settings: Settings) {
  const services = yield* Layer.build(Egress.layer({ allow: settings.egressAllow, ...yield* WayOut }))
  const egress = Layer.succeed(Egress.Egress, Context.get(services, Egress.Egress))
  const throughBox: Isolation["throughBox"] = (gateway) => ModelGatewayInBox.layer.pipe(Layer.provide(gateway), Layer.provide(egress))
  const mcpThroughBox: Isolation["mcpThroughBox"] = (gateway) => McpGatewayInBox.layer.pipe(Layer.provide(gateway), Layer.provide(egress))
  return { services, ways: { throughBox, mcpThroughBox } }
})

/** Makes a box and probes it: about 100 ms. */
const isolated = Effect.fnUntraced(function*(
  kind: Exclude<Isolation["kind"], "none" | "runner" | "kubernetes">,
  settings: Settings,
  probe: (folders: SizedFolders.SizedFolders) => Effect.Effect<
    { readonly host: SandboxHost["Service"]; readonly report: Report },
    NotIsolated,
    Egress.Egress | Scope.Scope
  >
) {
  const { services, ways } = yield* outwards(settings)
  const probed = (folders: SizedFolders.SizedFolders) =>
    Effect.map(Effect.provide(probe(folders), services), (made) => ({ ...made, folders }))
  const sized = yield* sizedFolders(settings, { overlays: kind === "bubblewrap" })
  const { folders, host, report } = yield* Effect.catchTag(
    probed(sized),
    "NotIsolated",
    (missing) =>
      sized.lacking !== null ? Effect.fail(missing) : Effect.matchEffect(
        // For example, a daemon on another machine cannot see our mounts.
        Effect.flatMap(sizedFolders(settings, { lacking: "boxes cannot see mounted folders" }), probed),
        { onFailure: () => Effect.fail(missing), onSuccess: Effect.succeed }
      )
  )
  const isolation: Isolation = {
    kind,
    problem: null,
    report,
    folders,
    host: Layer.succeed(SandboxHost, host),
    elsewhere: null,
    ...ways
  }
  return isolation
})

const bubblewrap = (settings: Settings, workspaceOf: WorkspaceOf) =>
  isolated(
    "bubblewrap",
    settings,
    Effect.fnUntraced(function*(folders) {
      const made = yield* SandboxHostBubblewrap.make({ ...hostOptions(settings, workspaceOf), folders })
      return { host: made.host, report: yield* BubblewrapProbe.run(made) }
    })
  )

const docker = (settings: Settings, workspaceOf: WorkspaceOf) =>
  isolated(
    "docker",
    settings,
    Effect.fnUntraced(function*(folders) {
      const made = yield* SandboxHostDocker.make({
        ...hostOptions(settings, workspaceOf),
        folders,
        image: settings.dockerImage,
        images: settings.dockerImages,
        socket: settings.dockerSocket
      })
      return { host: made.host, report: yield* DockerProbe.run(made) }
    })
  )

const gvisor = (settings: Settings, workspaceOf: WorkspaceOf) =>
  isolated(
    "gvisor",
    settings,
    Effect.fnUntraced(function*(folders) {
      const made = yield* SandboxHostGvisor.make({ ...hostOptions(settings, workspaceOf), folders })
      return { host: made.host, report: yield* GvisorProbe.run(made) }
    })
  )

const machinesFolder = ({ dataDir }: Settings) => join(dataDir, "machines")

/** Requests a machine and probes it, which takes as long as the provider needs. `help`: the advice if that fails. */
const elsewhere = Effect.fnUntraced(function*<E>(
  kind: "runner" | "kubernetes",
  settings: Settings,
  help: string,
  machines: (installation: string) => Layer.Layer<Machines, E>
) {
  const refuse = (detail: string) => new NotIsolated({ missing: [detail], help })
  const { services, ways } = yield* outwards(settings)
  const directory = machinesFolder(settings)
  const installation = yield* Effect.try({
    try: () => Installation.of(directory),
    catch: (error) => refuse(`${directory} cannot be used (${error instanceof Error ? error.message : error}).`)
  })
  const ordered = yield* Layer.build(machines(installation))
  const made = yield* SandboxHostRunner.make({ directory }).pipe(
    Effect.provide(Layer.merge(Layer.succeedContext(services), Layer.succeedContext(ordered))),
    Effect.mapError(({ detail }) => refuse(detail))
  )
  const isolation: Isolation = {
    kind,
    problem: null,
    report: yield* RunnerProbe.run({ host: made.host, hidden: [directory] }),
    folders: yield* sizedFolders(settings, { lacking: "trees are in machines elsewhere" }),
    host: Layer.succeed(SandboxHost, made.host),
    elsewhere: { machines: Context.get(ordered, Machines), runners: Layer.succeed(Runners, made.runners) },
    ...ways
  }
  return isolation
})

const runner = Effect.fnUntraced(function*(settings: Settings) {
  const help = `Set ${known.runnerMachines.name} to the program that makes machines.`
  const program = settings.runnerMachines
  if (program === null) return yield* new NotIsolated({ missing: [`${known.runnerMachines.name} is not set.`], help })
  const filters = join(machinesFolder(settings), "filters")
  yield* Effect.try({
    try: () => SystemCallFilters.write(filters),
    catch: (error) =>
      new NotIsolated({ missing: [`${filters} cannot be written (${error instanceof Error ? error.message : error}).`], help })
  })
  return yield* elsewhere("runner", settings, help, (installation) => MachinesByCommand.layer({ program, installation }))
})

const kubernetes = Effect.fnUntraced(function*(settings: Settings) {
  const { cluster, options } = yield* MachinesInCluster.find(settings)
  return yield* elsewhere(
    "kubernetes",
    settings,
    MachinesInCluster.HELP,
    (machine) => MachinesKubernetes.layer({ ...options, cluster, machine })
  )
})

/** `auto` prefers the isolation in which programs run as fast as outside. */
const kinds = { auto: bubblewrap, bubblewrap, docker, gvisor, runner, kubernetes }

/** Without bubblewrap there may be a Docker daemon. */
const advice = ({ dockerSocket, isolation }: Settings) =>
  isolation === "auto" && existsSync(dockerSocket)
    ? ` Or isolate them with the Docker daemon of this machine: ${known.isolation.name}=docker.`
    : ""

/**
 * Never fails: a missing part is reported in `problem`. The host lives as long as the scope. `workspaceOf`: for other work than a
 * service's.
 */
export const choose = (settings: Settings, workspaceOf: WorkspaceOf = workspacesIn(treesIn(settings.dataDir))) =>
  settings.isolation === "none" || settings.role === "http"
    ? none(settings, null)
    : Effect.catchTag(
      kinds[settings.isolation](settings, workspaceOf),
      "NotIsolated",
      (missing) => none(settings, missing.message + advice(settings))
    )

/** Logs the isolation at each start: missing parts as warnings, the others only for debugging, because `slipway doctor` shows them. */
export const announce = (settings: Settings, isolation: Isolation) =>
  Effect.gen(function*() {
    const { kind, problem, report } = isolation
    if (settings.role === "http") return
    if (kind !== "none") {
      for (const { detail, name, state } of report ?? []) {
        yield* state === "in force"
          ? Effect.logDebug(`isolation, ${name}: ${detail}`)
          : Effect.logWarning(`isolation lacks ${name}: ${detail}`)
      }
      yield* Effect.logDebug(`caches of setups are ${wayOfCaches(isolation)}`)
      return yield* Effect.logInfo(
        settings.egressAllow.size === 0
          ? "sandboxes reach their model and nothing else"
          : `sandboxes reach their model and ${[...settings.egressAllow].join(", ")}`
      )
    }
    yield* Effect.logWarning(
      problem === null
        ? `${known.isolation.name}=none: agents run as this user and can read and change whatever this user can, ` +
          "also what other sandboxes do"
        : `sandboxes cannot be isolated, so only the offline agent runs: ${problem}`
    )
  })

/** How a sandbox gets the files of an earlier setup. */
export const wayOfCaches = ({ folders, kind }: Isolation): string => {
  if (kind !== "bubblewrap") return `unpacked for each sandbox (isolation is ${kind})`
  const { lacking, lackingOverlays } = folders
  const reason = lacking ?? lackingOverlays
  return reason === null ? "mounted (overlayfs)" : `unpacked for each sandbox, not mounted: ${reason}`
}

/** For people who set up a model. */
export const sentence = ({ kind, problem }: AgentIsolation): string =>
  kind !== "none"
    ? `Agents run isolated from this machine, with ${kind}.`
    : problem === null
    ? `Agents run as the service's user, without isolation (${known.isolation.name}=none).`
    : `Agents cannot be isolated on this machine, so only the offline model runs. ${problem} Then start Slipway again. Or start it with ` +
      `${known.isolation.name}=none: agents then run as the service's user, with access to all its files.`

/** One line. */
export const summary = ({ kind, problem }: Isolation): string =>
  kind !== "none"
    ? kind
    : problem === null
    ? "none: agents run as this user, without isolation"
    : `none: only the offline agent runs. ${problem}`
