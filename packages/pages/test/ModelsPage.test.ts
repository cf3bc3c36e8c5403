/** The page of models: whom it serves, what it shows and not, and what its forms store. */
import { assert, layer } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Ids } from "@slipway/domain/ids/Ids"
import { ModelProviderStore } from "@slipway/domain/models/ports/ModelProviderStore"
import { type Catalogue, offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { AgentInstaller, type InstallableAgent } from "@slipway/pages/models/AgentInstaller"
import { Effect, Layer, Redacted } from "effect"
import { browserOf, owner, redirected, textOf, visitorAs } from "../testing/Browser.ts"
import { ask, joined, layer as http, type Reply } from "../testing/Harness.ts"

const CANARY = "sk-canary-<'\">&-7Qm2"
const HOSTILE = `"'><script>alert(1)</script>`
const ISOLATION = "Agents run isolated from this machine, with bubblewrap."

const catalogue: Catalogue = {
  default: offlineDemo.id,
  models: [offlineDemo],
  unusable: [{ id: "openai/gpt", reason: "openai/gpt cannot be used.", problems: ["codex is not installed. Run: it", "There is no key."] }],
  setup: { isolation: ISOLATION, environment: new Set(["XAI_API_KEY"]), isOperators: false, apply: Effect.void }
}

const isPage = (reply: Reply, status = 200, title?: string) => {
  assert.strictEqual(reply.status, status, reply.text)
  assert.deepStrictEqual([reply.headers["content-type"], reply.headers["cache-control"]], ["text/html; charset=utf-8", "no-store"])
  assert.notMatch(reply.text, /<script(?! type="module" src="\/assets\/)|style="|\son\w+="/u)
  assert.notInclude(reply.text, "7Qm2")
  if (title !== undefined) assert.include(reply.text, `<title>${title} · Slipway</title>`)
}

const stored = ModelProviderStore.use((store) => store.list)
const keys = Effect.map(
  ModelProviderStore.use((store) => store.keys),
  (all) => Object.fromEntries(Array.from(all, ([name, key]) => [name, Redacted.value(key)]))
)
const openai = { provider: "openai", key: CANARY, baseUrl: "", model: "", default: "yes" }

/** An owner of another organization of the same service. */
const tenant = Effect.gen(function*() {
  const members = yield* Members
  const name = yield* (yield* Ids).uuid7
  const { organization } = yield* members.createOrganization(name)
  const { user } = yield* members.add(organization.id, `owner-${name}@example.com`, "owner")
  yield* members.approve(user.id)
  const { grant } = yield* (yield* Access).createGrant(name, organization.id)
  return yield* browserOf(user.id, grant.id)
})

layer(http({ catalogue }), { excludeTestServices: true })("the page of models", (it) => {
  it.effect("is for owners of the service's own organization: others see and change nothing", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const others = [yield* visitorAs(yield* joined("grace")), yield* tenant]
      for (const path of ["/models", "/models/remove", "/models/remove?provider=openai"]) {
        for (const other of others) {
          isPage(yield* other.get(path), 403, "Models are for the service&#39;s owners")
          isPage(yield* other.post(path, openai), 403)
        }
        redirected(yield* ask(path), `/sign-in?next=${encodeURIComponent(path)}`)
      }
      assert.deepStrictEqual(yield* stored, [])
      const page = yield* mine.get("/models")
      isPage(page, 200, "Models")
      assert.include(page.text, `<a href="/models" aria-current="page">`)
    }))

  it.effect("shows the isolation, every obstacle of each model, and which keys the environment sets", () =>
    Effect.gen(function*() {
      const text = textOf(yield* (yield* owner).get("/models"))
      assert.include(text, ISOLATION)
      assert.include(text, "offline/demo (default) Ready")
      assert.match(text, /openai\/gpt codex is not installed\. Run: it There is no key\./u)
      assert.include(text, "The environment variable XAI_API_KEY is set.")
      assert.notInclude(text, "ANTHROPIC_API_KEY")
      assert.include(text, "No key is stored.")
    }))

  it.effect("stores a key, which is never shown again, keeps it, and deletes it", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      redirected(yield* mine.post("/models", openai), "/models?done=saved")
      assert.deepStrictEqual(yield* keys, { openai: CANARY })
      const page = yield* mine.get("/models?done=saved")
      isPage(page)
      assert.match(textOf(page), /Saved\. New sandboxes use it within seconds\..* A key is stored\. Leave this empty to keep that key\./u)
      redirected(yield* mine.post("/models", { ...openai, key: "" }), "/models?done=saved")
      assert.deepStrictEqual([yield* keys, (yield* stored)[0]?.isDefault], [{ openai: CANARY }, true])
      isPage(yield* mine.get("/models/remove?provider=openai"), 200, "Remove OpenAI?")
      redirected(yield* mine.post("/models/remove", { provider: "openai" }), "/models?done=removed")
      assert.deepStrictEqual([yield* keys, yield* stored], [{}, []])
      isPage(yield* mine.post("/models/remove", { provider: "openai" }), 404)
      isPage(yield* mine.get("/models/remove?provider=openai"), 404)
    }))

  it.effect("refuses what cannot be stored, beside its form, with everything typed but the key", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      yield* mine.post("/models", openai)
      const before = yield* stored
      const local = { provider: "compatible", key: CANARY, baseUrl: "http://localhost:11434/v1", model: "qwen3" }
      const cases = [
        [{ ...openai, key: "", baseUrl: "https://elsewhere.example/v1" }, "A stored key is not sent to another address."],
        [{ ...openai, key: "short" }, "The key cannot be used: 8 to 1000 visible ASCII characters expected."],
        [{ ...openai, baseUrl: HOSTILE }, "The address cannot be used"],
        [{ ...local, baseUrl: "" }, "Enter the address of the server"],
        [{ ...local, model: "" }, "Enter the model's name at the server."],
        [{ ...openai, provider: "acme" }, ""]
      ] as const
      for (const [fields, said] of cases) {
        const reply = yield* mine.post("/models", fields)
        isPage(reply, 400)
        assert.include(textOf(reply).replaceAll("&#39;", "'"), said)
        assert.notInclude(reply.text, "<script>alert")
        if (fields.baseUrl.startsWith("http")) assert.include(reply.text, `value="${fields.baseUrl}"`)
      }
      assert.deepStrictEqual([yield* stored, yield* keys], [before, { openai: CANARY }])
    }))
})

const begun: Array<string> = []
const machine: { problem: string | null; codex: Pick<InstallableAgent, "detail" | "state"> } = {
  problem: null,
  codex: { state: "missing", detail: null }
}
const installer = AgentInstaller.of({
  problem: Effect.sync(() => machine.problem),
  agents: Effect.sync(() => [
    { name: "claude", version: "2.1.0", notice: "Installing it accepts Anthropic's terms.", state: "installed", detail: null },
    { name: "codex", version: "1.2.3", notice: null, ...machine.codex }
  ]),
  install: (name) => Effect.sync(() => name === "codex" && begun.push(name) > 0)
})

layer(http({ catalogue }).pipe(Layer.provide(Layer.succeed(AgentInstaller, installer))), { excludeTestServices: true })(
  "the agents on the page of models",
  (it) => {
    const agents = Effect.map(Effect.flatMap(owner, (mine) => mine.get("/models/state")), textOf)

    it.effect("are installed by a button, for owners alone, and the open page shows each step", () =>
      Effect.gen(function*() {
        const mine = yield* owner
        const member = yield* visitorAs(yield* joined("grace"))
        const page = yield* mine.get("/models")
        isPage(page, 200, "Models")
        assert.match(page.text, /<button aria-label="Install codex"/u)
        assert.notInclude(page.text, "Install claude")
        isPage(yield* member.post("/models/install", { agent: "codex" }), 403)
        assert.strictEqual((yield* member.get("/models/state")).status, 403)
        assert.deepStrictEqual(begun, [])
        redirected(yield* mine.post("/models/install", { agent: "codex" }), "/models#agents")
        isPage(yield* mine.post("/models/install", { agent: "bash" }), 404)
        assert.deepStrictEqual(begun, ["codex"])
        machine.codex = { state: "installing", detail: "codex 1.2.3: unpacking" }
        assert.include(yield* agents, "codex Installing… codex 1.2.3: unpacking")
        assert.include((yield* mine.get("/models")).text, `http-equiv="refresh"`)
        machine.codex = { state: "failed", detail: "npm was not found." }
        assert.match(yield* agents, /codex Not installed: npm was not found\. Retry/u)
      }))

    it.effect("are installed by a command where the service may not, and the page says by which", () =>
      Effect.gen(function*() {
        machine.codex = { state: "missing", detail: null }
        machine.problem = "The service cannot write to /srv/agents (EROFS). As a user who can, run: slipway agents install"
        assert.include(
          yield* agents,
          "codex The service cannot write to /srv/agents (EROFS). As a user who can, run: slipway agents install codex"
        )
        const before = begun.length
        isPage(yield* (yield* owner).post("/models/install", { agent: "codex" }), 404)
        assert.strictEqual(begun.length, before)
      }))
  }
)
