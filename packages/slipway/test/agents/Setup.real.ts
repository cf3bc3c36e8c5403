/**
 * Real agents in sandboxes of the real service, on a repository whose tests need what its setup installs: each runs them, and was
 * told beforehand what had been done. Models are fake ones of this process. Boxes need an npm, as one in `/usr` is.
 */
import { assert, it } from "@effect/vitest"
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, folderIn, run, serve } from "../commands/SlipwayProcess.ts"
import * as Api from "../reliability/failover/Api.ts"

const KEY = "key-of-the-fake-models"
const TEST_OUTPUT = "two chairs cost 180"

const chosen = (process.env["AGENTS"] ?? "").split(",").filter((name) => name !== "")
const agents = Object.entries(profiles).flatMap(([name, { capabilities: { modelProtocol } }]) =>
  modelProtocol !== null && (chosen.length === 0 || chosen.includes(name)) ? [{ name, modelProtocol }] : []
)

/** Claude chooses what it sends by the model's name; the others take any. */
const modelOf = (name: string) => name === "claude" ? "claude-opus-5-5" : "fake-model"

const execute = (at: string, program: string, ...args: ReadonlyArray<string>) => execFileSync(program, args, { cwd: at, stdio: "pipe" })

/** Its tests import a package that npm unpacks from a file of it. `environment`: what it says that it needs, if anything. */
const makeRepository = (inside: string, name: string, environment?: object) => {
  const at = path.join(inside, name)
  const put = (file: string, content: string | object) => {
    mkdirSync(path.dirname(path.join(at, file)), { recursive: true })
    writeFileSync(path.join(at, file), typeof content === "string" ? content : JSON.stringify(content))
  }
  put("vendor/chairs/package.json", { name: "chairs", version: "1.0.0", type: "module", exports: "./price.js" })
  put("vendor/chairs/price.js", "export const price = (chairs) => chairs * 90\n")
  execute(path.join(at, "vendor"), "npm", "pack", "./chairs")
  rmSync(path.join(at, "vendor/chairs"), { recursive: true })
  put("test.js", `import { price } from "chairs"\nconsole.log("two chairs cost", price(2))\n`)
  put(".gitignore", "node_modules\n")
  put("package.json", {
    name: "shop",
    private: true,
    type: "module",
    scripts: { test: "node test.js" },
    dependencies: { chairs: "file:vendor/chairs-1.0.0.tgz" }
  })
  execute(at, "npm", "install", "--offline", "--package-lock-only")
  if (environment !== undefined) put(".slipway/environment.json", environment)
  execute(at, "git", "init", "--quiet", "--initial-branch=main")
  execute(at, "git", "add", "--all")
  execute(at, "git", "-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", "commit", "--quiet", "--message", "Start")
  return at
}

class Service extends Context.Service<Service, {
  readonly api: Api.Api
  readonly models: ReadonlyMap<string, FakeModel.FakeModel>
}>()("slipway/test/Service") {}

/** The service with a data folder beside the agents, which it has by links: a box shows no other folder of programs. */
const service = Layer.effect(
  Service,
  Effect.gen(function*() {
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
    const repositories = yield* folder
    const server = yield* serve(data, { SLIPWAY_ISOLATION: "bubblewrap", SLIPWAY_MODELS: catalogue, FAKE_MODELS_KEY: KEY })
    const needs = { setup: ["npm ci --offline"], onFailure: "fail" }
    yield* run(data, ["repos", "add", "acme/shop", makeRepository(repositories, "shop", needs)])
    yield* run(data, ["repos", "add", "acme/bare", makeRepository(repositories, "bare")])
    return { api: Api.make(server), models }
  })
)

/** Has an agent run the tests of the repository, and tells what came of it. */
const tested = Effect.fnUntraced(function*(model: string, repo: string) {
  const { api } = yield* Service
  const id = yield* api.create({ model, repos: [{ fullName: repo }], prompt: "[[shell npm test]] [[say done]]" })
  yield* api.event(id, "turn.completed")
  return yield* api.log(id)
})

it.layer(service, { excludeTestServices: true })("after setup", (it) => {
  for (const { name } of agents) {
    it.effect(`${name} runs the repository's tests, and was told what had been set up`, () =>
      Effect.gen(function*() {
        const log = yield* tested(`test/${name}`, "acme/shop")
        assert.deepStrictEqual(
          log.filter(({ type }) => type === "turn.completed").map(({ data }) => data["state"]),
          ["succeeded"],
          JSON.stringify(log)
        )
        const asked = (yield* Service).models.get(name)?.requests.filter(({ call }) => !call.hidden) ?? []
        const told = "Before you started, the commands of .slipway/environment.json ran and succeeded: `npm ci --offline`."
        assert.include(JSON.stringify(asked[0]?.body), told)
        assert.include(asked.at(-1)?.call.results.join("\n"), TEST_OUTPUT)
      }))
  }

  it.effect("without it the tests fail", () =>
    Effect.gen(function*() {
      const log = yield* tested("offline/demo", "acme/bare")
      const seen = JSON.stringify(log)
      assert.notInclude(seen, TEST_OUTPUT)
      assert.include(seen, "ERR_MODULE_NOT_FOUND")
    }))
})
