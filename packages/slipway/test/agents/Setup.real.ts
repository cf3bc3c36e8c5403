/**
 * Real agents in sandboxes of the real service, on a repository whose tests need what its setup installs: each runs them, and was
 * told beforehand what had been done. Models are fake ones of this process. Boxes need an npm, as one in `/usr` is.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import path from "node:path"
import { agents, AgentService, execute, start } from "./AgentService.ts"

const TEST_OUTPUT = "two chairs cost 180"

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

/** With and without an environment that says what the tests need. */
const service = Layer.effect(
  AgentService,
  start({
    "acme/shop": (inside) => makeRepository(inside, "shop", { setup: ["npm ci --offline"], onFailure: "fail" }),
    "acme/bare": (inside) => makeRepository(inside, "bare")
  })
)

/** Has an agent run the tests of the repository, and tells what came of it. */
const tested = Effect.fnUntraced(function*(model: string, repo: string) {
  const { api } = yield* AgentService
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
        const asked = (yield* AgentService).models.get(name)?.requests.filter(({ call }) => !call.hidden) ?? []
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
