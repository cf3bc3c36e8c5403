/** Caches of setups in the boots of sandboxes, with processes that do what a test says: what tar does is in `CacheFiles.test.ts`. */
import { assert } from "@effect/vitest"
import type { SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import * as OutputRedactor from "@slipway/domain/environment/redaction/OutputRedactor"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SecretStoreMemory from "@slipway/domain/memory/environment/SecretStoreMemory"
import * as SetupCachesMemory from "@slipway/domain/memory/environment/SetupCachesMemory"
import type { BoxCommand } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { Effect, Fiber, Layer } from "effect"
import {
  create,
  eventsOf,
  pass,
  principal,
  type Provided,
  REPO,
  scenario as world,
  settle,
  startWorker as startSmallWorker,
  until,
  woken,
  type World
} from "../Doubles.ts"

const startWorker = (world: World, options: Parameters<typeof startSmallWorker>[1] = {}) =>
  startSmallWorker(world, { slots: 30, ...options })
const elsewhere = { worker: "worker-2", machine: "machine-2" }
const LOCK = `${REPO}/package-lock.json`
const npm = { setup: ["npm ci"], cache: ["node_modules", "~/.npm"] }

const says = (world: World, environment: object, repo = REPO) =>
  world.files.set(`${repo}/.slipway/environment.json`, JSON.stringify(environment))
const setupOf = (id: SandboxId) => Setups.use((setups) => setups.find(id))
const lineOf = ({ args }: BoxCommand) => args.at(-1) ?? ""
/** The commands of setups that ran, each as the line that its shell was given. */
const lines = (world: World) => world.spawned.filter(({ args }) => args.includes("slipway-setup")).map(lineOf)

/** Boots one, and says what became of its cache. */
const boot = Effect.fnUntraced(function*(world: World, more: Parameters<typeof create>[0] = {}, grantId = principal.grantId) {
  const id = yield* create(more, undefined, grantId)
  yield* until(id, ({ status }) => status === "running" || status === "failed", grantId)
  const told = (yield* eventsOf(id, "sandbox.boot")).flatMap(({ data }) => data.stage === "setup" ? [data.cache] : [])
  return { id, told, record: yield* setupOf(id), agent: world.agents.find(({ options }) => options.box.sandboxId === id) }
})
const caches = (booted: ReadonlyArray<{ readonly told: ReadonlyArray<unknown> }>) => booted.map(({ told }) => told).flat()

/** A worker for each that is started has the same caches: those of one machine. */
const scenario = <E>(
  name: string,
  test: (world: World) => Effect.Effect<void, E, SetupCaches | Provided>
) => world(name, (world) => Effect.provide(test(world), SetupCachesMemory.layer()))

scenario(
  "the first sandbox fills the cache, and for the next one setup does not run, which its agent is told",
  (world) =>
    Effect.gen(function*() {
      says(world, { ...npm, env: { CI: "true" } })
      world.files.set(LOCK, "1")
      yield* startWorker(world)
      const first = yield* boot(world)
      assert.deepStrictEqual(lines(world), ["npm ci"])
      assert.deepStrictEqual(first.told, ["miss"])
      assert.deepInclude(first.record, { state: "succeeded", cache: "miss", exitCode: 0, output: "$ npm ci\n" })
      assert.match(first.agent?.options.instructions ?? "", /ran and succeeded: `npm ci`/u)

      const second = yield* boot(world)
      assert.deepStrictEqual(lines(world), ["npm ci"])
      assert.deepStrictEqual(second.told, ["hit"])
      assert.deepInclude(second.record, { state: "succeeded", cache: "hit", exitCode: 0 })
      assert.match(second.record?.output ?? "", /^Setup did not run: a cache/u)
      const { instructions = null, box } = second.agent?.options ?? {}
      assert.match(instructions ?? "", /did not run here: `npm ci`\. .* in an earlier sandbox: `node_modules`, `~\/\.npm`\./u)
      assert.notMatch(instructions ?? "", /ran and succeeded/u)
      assert.isDefined(box)
      if (box !== undefined) yield* Effect.scoped(box.spawn({ command: "agent", args: [], env: {} }))
      assert.deepStrictEqual(world.spawned.at(-1)?.env, { CI: "true" })
    })
)

scenario(
  "variables of a sandbox win over those of its repository for setup and agent, and name a cache of their own",
  (world) =>
    Effect.gen(function*() {
      says(world, { ...npm, env: { CI: "true", REGION: "us" } })
      yield* startWorker(world)
      assert.deepStrictEqual((yield* boot(world)).told, ["miss"])
      const { agent, told } = yield* boot(world, { environment: { REGION: "eu", WORD: "" } })
      assert.deepStrictEqual(told, ["miss"])
      const expected = { CI: "true", REGION: "eu", WORD: "" }
      assert.deepInclude(world.spawned.findLast(({ args }) => args.includes("slipway-setup"))?.env, expected)
      if (agent !== undefined) yield* Effect.scoped(agent.options.box.spawn({ command: "agent", args: [], env: {} }))
      assert.deepStrictEqual(world.spawned.at(-1)?.env, expected)
      // A process of the agent may have its own, such as the profile's.
      if (agent !== undefined) yield* Effect.scoped(agent.options.box.spawn({ command: "agent", args: [], env: { REGION: "x" } }))
      assert.deepStrictEqual(world.spawned.at(-1)?.env, { ...expected, REGION: "x" })
      assert.deepStrictEqual((yield* boot(world, { environment: { WORD: "", REGION: "eu" } })).told, ["hit"])
    })
)

scenario("an agent has the variables of its sandbox also without a file of the repository", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    const { agent } = yield* boot(world, { environment: { REGION: "eu" } })
    assert.isDefined(agent)
    if (agent !== undefined) yield* Effect.scoped(agent.options.box.spawn({ command: "agent", args: [], env: {} }))
    assert.deepStrictEqual(world.spawned.at(-1)?.env, { REGION: "eu" })
  }))

scenario("of twenty sandboxes at once one runs the setup", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    yield* startWorker(world)
    const booted = yield* Effect.all(Array.from({ length: 20 }, () => boot(world)), { concurrency: "unbounded" })
    assert.deepStrictEqual(lines(world), ["npm ci"])
    assert.deepStrictEqual(caches(booted).sort(), [...Array.from({ length: 19 }, () => "hit"), "miss"])
  }))

scenario(
  "what a cache depends on names another one: lock files, commands, folders, variables, the image, and whose it is",
  (world) =>
    Effect.gen(function*() {
      let image = "debian-12-x64"
      const changes: ReadonlyArray<readonly [what: string, change: () => void]> = [
        ["a lock file", () => world.files.set(LOCK, "2")],
        ["another lock file", () => world.files.set(`${REPO}/server/Cargo.lock`, "")],
        ["a lock file that is gone", () => world.files.delete(LOCK)],
        ["a command", () => says(world, { ...npm, setup: ["npm ci", "true"] })],
        ["a folder", () => says(world, { ...npm, cache: ["node_modules"] })],
        ["a variable", () => says(world, { ...npm, env: { NODE_ENV: "production" } })],
        ["the machine's release", () => (image = "debian-13-x64")],
        ["the machine's architecture", () => (image = "debian-13-arm64")]
      ]
      says(world, npm)
      world.files.set(LOCK, "1")
      world.programs = () => ({ id: image, image: null, isRefused: false, path: [], env: {} })
      yield* startWorker(world)
      assert.deepStrictEqual(caches([yield* boot(world), yield* boot(world)]), ["miss", "hit"])
      for (const [what, change] of changes) {
        change()
        assert.deepStrictEqual(caches([yield* boot(world), yield* boot(world)]), ["miss", "hit"], what)
      }
      assert.deepStrictEqual(caches([yield* boot(world, {}, "grant-2"), yield* boot(world, {}, "grant-2")]), ["miss", "hit"])
      world.files.set(`${REPO}/README.md`, "another")
      assert.deepStrictEqual((yield* boot(world)).told, ["hit"])
    })
)

scenario("where the repository names files of the key, those alone count", (world) =>
  Effect.gen(function*() {
    says(world, { ...npm, cacheKey: ["tools.txt"] })
    world.files.set(`${REPO}/tools.txt`, "1")
    yield* startWorker(world)
    yield* boot(world)
    world.files.set(LOCK, "2")
    assert.deepStrictEqual((yield* boot(world)).told, ["hit"])
    world.files.set(`${REPO}/tools.txt`, "2")
    assert.deepStrictEqual((yield* boot(world)).told, ["miss"])
  }))

scenario("what a setup left that failed or took too long is not kept", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    yield* startWorker(world)
    world.commands = (command) => Effect.succeed({ code: lineOf(command) === "npm ci" ? 1 : 0 })
    const failed = yield* boot(world)
    assert.deepInclude(failed.record, { state: "failed", cache: "miss", exitCode: 1 })
    world.commands = (command) => lineOf(command) === "npm ci" ? Effect.never : Effect.succeed({})
    const slow = yield* Effect.forkChild(boot(world))
    yield* Effect.repeat(settle, { while: () => lines(world).length < 2 })
    yield* pass("10 minutes")
    assert.deepInclude((yield* Fiber.join(slow)).record, { state: "failed", cache: "miss", exitCode: null })
    world.commands = () => Effect.succeed({})
    assert.deepStrictEqual(caches([yield* boot(world), yield* boot(world)]), ["miss", "hit"])
  }))

scenario("without folders or without commands there is no cache", (world) =>
  Effect.gen(function*() {
    yield* startWorker(world)
    for (const environment of [{ setup: ["npm ci"] }, { cache: ["node_modules"] }]) {
      says(world, environment)
      assert.deepStrictEqual(caches([yield* boot(world), yield* boot(world)]), ["none", "none"])
    }
  }))

world("a machine that keeps no caches runs each setup", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    yield* startWorker(world)
    assert.deepStrictEqual(caches([yield* boot(world), yield* boot(world)]), ["none", "none"])
    assert.deepStrictEqual(lines(world), ["npm ci", "npm ci"])
  }))

scenario("a repository of more lock files than can be looked at has no cache", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    for (let i = 0; i <= 10_000; i++) world.files.set(`${REPO}/${i}/pom.xml`, "")
    yield* startWorker(world)
    assert.deepStrictEqual(caches([yield* boot(world), yield* boot(world)]), ["none", "none"])
  }))

scenario("each repository of a sandbox has a cache of its own", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    says(world, { setup: ["make"], cache: ["build"] }, "acme/api")
    yield* startWorker(world)
    const both = { repos: [{ fullName: REPO }, { fullName: "acme/api" }] }
    yield* boot(world)
    const first = yield* boot(world, both)
    assert.deepStrictEqual(first.told, ["hit", "miss"])
    assert.strictEqual(first.record?.cache, "miss")
    const second = yield* boot(world, both)
    assert.deepStrictEqual(second.told, ["hit", "hit"])
    assert.strictEqual(second.record?.cache, "hit")
    assert.deepStrictEqual(lines(world), ["npm ci", "make"])
  }))

scenario("a secret that is missing fails the boot though the cache has what setup fills", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    yield* startWorker(world).pipe(Effect.provide(Layer.merge(SecretStoreMemory.layer, OutputRedactor.layer)))
    yield* boot(world)
    says(world, { ...npm, secrets: ["NPM_TOKEN"] })
    const { id } = yield* boot(world)
    yield* until(id, ({ reason, status }) => status === "failed" && reason === "boot_failed")
  }))

/** A sandbox that has worked, whose machine is lost. */
const lost = Effect.fnUntraced(function*(world: World, first: Effect.Success<ReturnType<typeof startWorker>>) {
  const { agent, id } = yield* boot(world)
  if (agent === undefined) return yield* Effect.die("it did not boot")
  yield* settle
  yield* agent.end({ state: "succeeded" })
  yield* until(id, ({ checkpoint }) => checkpoint === 1)
  yield* pass("6 minutes")
  first.network = "hang"
  return id
})
const wakes = Effect.fnUntraced(function*(world: World, id: SandboxId) {
  const waking = yield* Effect.forkChild(woken(world, id))
  yield* pass("6 minutes")
  return (yield* Fiber.join(waking)).agent
})

scenario("where the machine was lost the cache brings back what no checkpoint has", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    const first = yield* startWorker(world)
    const id = yield* lost(world, first)
    yield* Effect.replicateEffect(world.nextAgent, 1, { discard: true })
    yield* startWorker(world, elsewhere)
    const agent = yield* wakes(world, id)
    assert.deepStrictEqual(lines(world), ["npm ci"])
    assert.deepInclude(yield* setupOf(id), { state: "succeeded", cache: "hit" })
    assert.match(agent.options.instructions ?? "", /did not run here: `npm ci`/u)
  }))

scenario("where somebody changed a lock file since, setup runs on what the tree has now", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    const first = yield* startWorker(world)
    const id = yield* lost(world, first)
    yield* Effect.replicateEffect(world.nextAgent, 1, { discard: true })
    world.changed.set(REPO, ["README.md", "package-lock.json"])
    yield* startWorker(world, elsewhere)
    yield* wakes(world, id)
    assert.deepStrictEqual(lines(world), ["npm ci", "npm ci"])
    assert.deepInclude(yield* setupOf(id), { state: "succeeded", cache: "none" })
  }))

world("a tree that somebody worked in fills no cache", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    const first = yield* startWorker(world)
    const id = yield* lost(world, first)
    yield* Effect.replicateEffect(world.nextAgent, 1, { discard: true })
    yield* Effect.gen(function*() {
      yield* startWorker(world, elsewhere)
      yield* wakes(world, id)
      assert.deepInclude(yield* setupOf(id), { state: "succeeded", cache: "miss" })
      assert.deepStrictEqual((yield* boot(world)).told, ["miss"])
    }).pipe(Effect.provide(SetupCachesMemory.layer()))
    assert.deepStrictEqual(lines(world), ["npm ci", "npm ci", "npm ci"])
  }))

scenario("where a worker goes in the middle of a setup, the next one fills", (world) =>
  Effect.gen(function*() {
    says(world, npm)
    world.commands = () => Effect.never
    const first = yield* startWorker(world)
    const id = yield* create()
    yield* Effect.repeat(settle, { while: () => lines(world).length === 0 })
    first.network = "hang"
    world.commands = () => Effect.succeed({})
    yield* startWorker(world, { worker: "worker-2" })
    yield* pass("1 minute")
    yield* until(id, ({ status }) => status === "running")
    assert.deepInclude(yield* setupOf(id), { state: "succeeded", cache: "miss" })
    assert.deepStrictEqual((yield* boot(world)).told, ["hit"])
    assert.deepStrictEqual(lines(world), ["npm ci", "npm ci"])
  }))
