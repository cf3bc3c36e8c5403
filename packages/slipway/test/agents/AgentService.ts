/** The real service with a model of each agent, which a fake model of this process serves. Its boxes are of bubblewrap. */
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import { Context, Effect, type Scope } from "effect"
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder, folderIn, run, serve, type Server } from "../commands/SlipwayProcess.ts"
import * as Api from "../reliability/failover/Api.ts"

const KEY = "key-of-the-fake-models"

const chosen = (process.env["AGENTS"] ?? "").split(",").filter((name) => name !== "")

/** The agents that use a model, or those of them that `AGENTS` names. */
export const agents = Object.entries(profiles).flatMap(([name, { capabilities: { images, modelProtocol } }]) =>
  modelProtocol !== null && (chosen.length === 0 || chosen.includes(name)) ? [{ name, modelProtocol, images }] : []
)

/** Claude chooses what it sends by the model's name; the others take any. */
const modelOf = (name: string) => name === "claude" ? "claude-opus-5-5" : "fake-model"

export const execute = (at: string, program: string, ...args: ReadonlyArray<string>) =>
  execFileSync(program, args, { cwd: at, stdio: "pipe" })

export class AgentService extends Context.Service<AgentService, {
  readonly api: Api.Api
  readonly server: Pick<Server, "key" | "url">
  readonly models: ReadonlyMap<string, FakeModel.FakeModel>
}>()("slipway/test/AgentService") {}

/**
 * The service with a data folder beside the agents, which it has by links: a box shows no other folder of programs. `repositories`: by
 * name, each made by its function in a new folder.
 */
export const start = Effect.fnUntraced(function*(
  repositories: Readonly<Record<string, (inside: string) => string>>
): Effect.fn.Return<AgentService["Service"], never, Scope.Scope> {
  const installed = path.resolve(process.env["SLIPWAY_DATA_DIR"] ?? ".slipway")
  const data = yield* folderIn(installed)
  execute(data, "cp", "--archive", "--link", Installed.folderIn(installed), Installed.folderIn(data))
  const models = new Map<string, FakeModel.FakeModel>()
  for (const { name } of agents) {
    const workspace = { path: "/workspace", repositories: [{ name: "acme/shop", folder: "shop" }] }
    models.set(name, yield* FakeModel.start({ token: KEY, workspace }))
  }
  const catalogue = path.join(data, "models.json")
  writeFileSync(
    catalogue,
    JSON.stringify({
      default: "offline/demo",
      models: [
        { id: "offline/demo", agentRuntime: "opencode", profile: "offline", efforts: [], approvals: true, offline: true },
        ...agents.map(({ modelProtocol, name }) => ({
          id: `test/${name}`,
          agentRuntime: name,
          efforts: [],
          approvals: true,
          upstream: {
            protocol: modelProtocol,
            baseUrl: `${models.get(name)?.url}/v1`,
            model: modelOf(name),
            keyVariable: "FAKE_MODELS_KEY",
            prices: { input: 1, cachedInput: 1, cacheWrite: 1, output: 1 },
            contextTokens: 128_000,
            outputTokens: 8_192
          }
        }))
      ]
    })
  )
  const server = yield* serve(data, { SLIPWAY_ISOLATION: "bubblewrap", SLIPWAY_MODELS: catalogue, FAKE_MODELS_KEY: KEY })
  const inside = yield* folder
  for (const [name, make] of Object.entries(repositories)) yield* run(data, ["repos", "add", name, make(inside)])
  return { api: Api.make(server), server, models }
})
