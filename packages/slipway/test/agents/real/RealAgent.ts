/** A real agent on a host of this machine, with a fake model of its own. */
import * as Installed from "@slipway/agents/Installed"
import * as AgentRuntimeProfiles from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as SandboxHostBubblewrap from "@slipway/machine/bubblewrap/SandboxHostBubblewrap"
import * as Egress from "@slipway/machine/egress/Egress"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { openFolder } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { running, temporaryFolder } from "@slipway/machine/testing/hosts/Machine"
import type * as AgentRuntimeContract from "@slipway/testing/contracts/sandbox/AgentRuntimeContract"
import { Context, Effect, Layer, Redacted, References, type Scope } from "effect"
import { execFileSync } from "node:child_process"
import { randomInt } from "node:crypto"
import { mkdir, readFile } from "node:fs/promises"
import path from "node:path"
import { fileURLToPath } from "node:url"

/** Where `npm run agents:install` put the programs. */
export const agentsFolder = Installed.folderIn(path.resolve(process.env.SLIPWAY_DATA_DIR ?? ".slipway"))

/** Operations of a host that tests need beside the port. */
export class Premises extends Context.Service<Premises, {
  /** Folder of this machine with all that the host keeps of a sandbox, its home with it. */
  folderOf(sandboxId: SandboxId): string
  /** Folder of this machine with the trees of a sandbox. */
  workspaceOf(sandboxId: SandboxId): string
  /** Address at which a box finds the server that is at `url` on this machine, at paths with `prefix`, until the scope closes. */
  reach(sandboxId: SandboxId, url: string, prefix?: string): Effect.Effect<string, never, Scope.Scope>
}>()("slipway/Premises") {}

const agents = AgentRuntimeProfiles.layer({ agentsFolder })

const none = Layer.unwrap(Effect.map(temporaryFolder, (directory) =>
  Layer.mergeAll(
    agents,
    SandboxHostNone.layer({ directory, workspaceOf: workspacesIn(directory) }),
    Layer.succeed(Premises, {
      folderOf: (sandboxId) => path.join(directory, sandboxId),
      workspaceOf: workspacesIn(directory),
      reach: (_, url) => Effect.succeed(url)
    })
  )))

const offlineAgent = fileURLToPath(new URL("../../../../adapters/agents/src/offline", import.meta.url))

/** The installed packages, one of which is an MCP server that runs in boxes. */
const modules = fileURLToPath(new URL("../../../../../node_modules", import.meta.url))

const bubblewrap = Layer.unwrap(Effect.map(openFolder, (directory) =>
  Layer.mergeAll(
    agents,
    SandboxHostBubblewrap.layer({ directory, workspaceOf: workspacesIn(directory), readOnly: [offlineAgent, agentsFolder, modules] }),
    Layer.effect(
      Premises,
      Effect.map(Egress.Egress, ({ route }) => ({
        folderOf: (sandboxId: SandboxId) => path.join(directory, sandboxId),
        workspaceOf: workspacesIn(directory),
        reach: (sandboxId: SandboxId, url: string, prefix?: string) => Effect.as(route(sandboxId, new URL(url), prefix), Egress.BASE_URL)
      }))
    )
  ))).pipe(Layer.provide(Egress.layer({ allow: new Set() })))

export interface Host {
  readonly name: SandboxHost["Service"]["isolation"]
  readonly layer: Layer.Layer<AgentRuntime | SandboxHost | Premises, unknown>
}

export const unisolated: Host = { name: "none", layer: none }

/** Boxes as in production, where this machine can make them. Says which host it is. */
export const chooseHost: Effect.Effect<Host> = Layer.build(bubblewrap).pipe(
  Effect.scoped,
  Effect.provideService(References.MinimumLogLevel, "Warn"),
  Effect.matchEffect({
    onSuccess: () => Effect.as(Effect.logInfo("agents run in boxes of bubblewrap"), { name: "bubblewrap", layer: bubblewrap }),
    onFailure: ({ message }) => Effect.as(Effect.logWarning(`agents run without boxes, on host none: ${message}`), unisolated)
  })
)

const freshId = () => SandboxId.make(`c_${Array.from({ length: 12 }, () => ID_ALPHABET[randomInt(ID_ALPHABET.length)]).join("")}`)

const repositories = [
  { name: RepoName.make("acme/slipway"), folder: "slipway" },
  { name: RepoName.make("acme/docs"), folder: "docs" }
]

/** Claude chooses what it sends by the model's name; the others take any. */
const models: Readonly<Record<string, string>> = { claude: "claude-opus-5-5" }

/** Like a token of the gateway: found nowhere by chance. */
export const freshToken = () => `token-${randomInt(2 ** 47).toString(36)}`

/** Each time another one, unless it is named. */
export const sandbox = (profile: string, named?: SandboxId) =>
  Effect.gen(function*() {
    const sandboxId = named ?? freshId()
    const host = yield* SandboxHost
    const premises = yield* Premises
    const workspace = premises.workspaceOf(sandboxId)
    for (const { folder } of repositories) {
      const repository = path.join(workspace, folder)
      yield* Effect.promise(() => mkdir(repository, { recursive: true }))
      execFileSync("git", ["init", "--quiet", repository])
    }
    const provisioned = yield* Effect.acquireRelease(host.provision({ sandboxId, fence: 1 }), ({ sandboxId }) =>
      Effect.orDie(host.stop(sandboxId)))
    const started: Array<number> = []
    const box: Box = {
      ...provisioned,
      spawn: (command) =>
        Effect.tap(provisioned.spawn(command), ({ pid }) => Effect.sync(() => started.push(pid)))
    }
    const token = freshToken()
    const model = yield* FakeModel.start({ token, workspace: { path: box.workspace, repositories } })
    const access = {
      baseUrl: yield* premises.reach(box.sandboxId, model.url),
      token: Redacted.make(token),
      model: models[profile] ?? "fake-model",
      contextTokens: 128_000,
      outputTokens: 8_192
    }
    return {
      box,
      repositories,
      access,
      model,
      started,
      /** The folder of this machine that is the workspace of the box. */
      workspace,
      /** The folder of this machine with what else belongs to the box. */
      folder: premises.folderOf(box.sandboxId),
      read: (file: string) => Effect.promise(() => readFile(path.join(workspace, "slipway", file), "utf8").catch(() => null)),
      running,
      killAgent: Effect.sync(() => {
        const pid = started.at(-1)
        if (pid !== undefined) process.kill(pid, "SIGKILL")
      }),
      asked: Effect.sync(() =>
        model.requests
          .filter(({ call }) => !call.hidden)
          .map(({ body, call, state }) => ({ model: call.model, effort: call.effort, body: JSON.stringify(body), state }))
      )
    } satisfies AgentRuntimeContract.Sandbox & Record<string, unknown>
  })

/** A host of another machine: with folders of its own, which has the sandbox, or a fork of it, with these files in its home. */
export const moved = (layer: Host["layer"], profile: string, as: "itself" | "fork" = "itself") =>
  Effect.fnUntraced(function*({ box: { sandboxId } }: Pick<AgentRuntimeContract.Sandbox, "box">, paths: ReadonlyArray<string>) {
    const here = yield* SandboxHost
    const there = yield* Layer.build(Layer.fresh(layer))
    const id = as === "itself" ? sandboxId : freshId()
    yield* Context.get(there, SandboxHost).writeHome(id, here.readHome(sandboxId, paths, { maximumBytes: 100_000_000 }))
    return { sandbox: yield* Effect.provide(sandbox(profile, id), there), runtime: Context.get(there, AgentRuntime) }
  })
