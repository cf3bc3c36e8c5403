/** Which setups have secrets, and whose caches are used (docs/decisions/17): in every way in which a setup begins. */
import { assert } from "@effect/vitest"
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import type { SetupCaches } from "@slipway/domain/environment/ports/SetupCaches"
import * as OutputRedactor from "@slipway/domain/environment/redaction/OutputRedactor"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SecretStoreMemory from "@slipway/domain/memory/environment/SecretStoreMemory"
import * as SetupCachesMemory from "@slipway/domain/memory/environment/SetupCachesMemory"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { DateTime, Effect, Fiber, Layer, Option, Queue, Redacted, Result } from "effect"
import {
  create,
  eventsOf,
  pass,
  principal,
  type Provided,
  REPO,
  running,
  scenario as world,
  startWorker,
  until,
  woken,
  type World
} from "../Doubles.ts"

const CANARY = "canary-7Qm2-registry-token"
const elsewhere = { worker: "worker-2", machine: "machine-2" }
const SLIPWAY = "slipway/c_bbbbbbbbbbbb"

const says = (world: World, environment: object) => world.files.set(`${REPO}/.slipway/environment.json`, JSON.stringify(environment))

const scenario = <E>(name: string, test: (world: World) => Effect.Effect<void, E, SetupCaches | SecretStore | Provided>) =>
  world(
    name,
    (world) => Effect.provide(test(world), [SetupCachesMemory.layer(), Layer.provideMerge(OutputRedactor.layer, SecretStoreMemory.layer)])
  )

const keepSecret = Effect.gen(function*() {
  const secrets = yield* SecretStore
  yield* secrets.set({ grantId: principal.grantId, repo: REPO, name: "NPM_TOKEN" }, Redacted.make(CANARY), yield* DateTime.now)
})
const listRef = (ref: string) =>
  Effect.flatMap(
    SecretStore,
    (secrets) => Effect.flatMap(DateTime.now, (now) => secrets.trustRef({ grantId: principal.grantId, repo: REPO }, ref, now))
  )

/** A sandbox of somebody else published the commit that all trees start from. */
const published = Effect.fnUntraced(function*(merged: boolean) {
  const store = yield* SandboxStore
  const id = yield* create({}, undefined, "grant-of-another")
  const data = { repo: RepoName.make(REPO), action_state: "idle" as const, number: 1, head_sha: "0".repeat(40), merged }
  yield* Effect.orDie(
    store.change(id, "policy", () => Result.succeed([{ type: "pull_request.updated" as const, data }]), yield* DateTime.now)
  )
})

/** The setup commands, in order, each with whose box it ran in, and whether it had the secret. */
const runs = (world: World) =>
  world.spawned.filter(({ args }) => args.includes("slipway-setup")).map(({ args, env }) => ({
    box: /\/(c_\w+)\//u.exec(args[3] ?? "")?.[1],
    hasSecret: env["NPM_TOKEN"] === CANARY
  }))
const told = (id: SandboxId) =>
  Effect.map(eventsOf(id, "sandbox.boot"), (all) => all.flatMap(({ data }) => data.stage === "setup" ? [data] : []))

const turn = Effect.fnUntraced(function*(world: World, ref: string | undefined) {
  const { agent, id } = yield* running(world, { repos: [ref === undefined ? { fullName: REPO } : { fullName: REPO, ref }] })
  yield* agent.end({ state: "succeeded" })
  yield* until(id, ({ checkpoint }) => checkpoint === 1)
  return id
})

/** Ways in which a setup runs again: each leads to the sandbox whose setup it is. */
const ways: Readonly<
  Record<string, (world: World, id: SandboxId) => Effect.Effect<SandboxId, unknown, Provided | SecretStore | SetupCaches>>
> = {
  restore: Effect.fnUntraced(function*(world, id) {
    yield* Sandboxes.use((sandboxes) => sandboxes.restore(principal, id, 1))
    yield* until(id, ({ restoring }) => restoring === null)
    yield* woken(world, id)
    return id
  }),
  fork: Effect.fnUntraced(function*(world, id) {
    const asked = { prompt: "Again", checkpoint: 1, model: offlineDemo.id, metadata: {} }
    const { sandbox } = yield* Sandboxes.use((sandboxes) => sandboxes.fork(principal, id, asked, Option.none()))
    yield* Queue.take((yield* world.nextAgent).prompts)
    return sandbox.id
  }),
  move: Effect.fnUntraced(function*(world, id) {
    yield* pass("6 minutes")
    for (const process of world.processes) process.network = "hang"
    yield* startWorker(world, elsewhere)
    const waking = yield* Effect.forkChild(woken(world, id))
    yield* pass("6 minutes")
    yield* Fiber.join(waking)
    return id
  })
}

/** Runs during `what`, without those before. */
const during = <A, E, R>(world: World, what: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const before = runs(world).length
    return Effect.map(what, (made) => ({ made, ran: runs(world).slice(before) }))
  })

/** Fails if anything exists beyond the state of these sandboxes. */
const nothingIsLeft = (world: World, ids: ReadonlyArray<SandboxId>) => {
  for (const { boxes, homes, trees } of world.machines.values()) {
    for (const id of [...boxes, ...homes.keys(), ...trees]) assert.include(ids, id)
  }
}

scenario(
  "a setup with secrets has no variables of the creation, and says so; the agent has them",
  (world) =>
    Effect.gen(function*() {
      says(world, { setup: ["npm ci"], secrets: ["NPM_TOKEN"], env: { CI: "true" } })
      yield* keepSecret
      yield* startWorker(world)
      const id = yield* create({ environment: { npm_config_node_options: "--require ./steal.js", CI: "false" } })
      yield* until(id, ({ status }) => status === "running")
      const [setup] = world.spawned.filter(({ args }) => args.includes("slipway-setup"))
      assert.deepStrictEqual(setup?.env, { CI: "true", NPM_TOKEN: CANARY })
      const record = yield* Setups.use((setups) => setups.find(id))
      assert.match(record?.output ?? "", /^The variables of this sandbox are for its agent only/u)
      const agent = world.agents.find(({ options }) => options.box.sandboxId === id)
      if (agent !== undefined) yield* Effect.scoped(agent.options.box.spawn({ command: "agent", args: [], env: {} }))
      assert.deepStrictEqual(world.spawned.at(-1)?.env, { CI: "false", npm_config_node_options: "--require ./steal.js" })
    })
)

for (const [name, again] of Object.entries(ways)) {
  scenario(
    `after a ${name} the secrets are in a box that no agent worked in, and only the folders of the cache come from there`,
    (world) =>
      Effect.gen(function*() {
        says(world, { setup: ["npm ci"], cache: ["node_modules"], secrets: ["NPM_TOKEN"] })
        yield* keepSecret
        // Each time it is filled anew.
        let locks = 0
        const origin = yield* Effect.gen(function*() {
          yield* startWorker(world)
          const id = yield* turn(world, undefined)
          assert.deepStrictEqual(runs(world), [{ box: id, hasSecret: true }])
          return id
        })
        world.files.set(`${REPO}/package-lock.json`, `${++locks}`)
        const { made: id, ran } = yield* during(world, again(world, origin))
        assert.lengthOf(ran, 1)
        assert.isTrue(ran[0]?.hasSecret)
        const box = ran[0]?.box
        assert.notInclude(world.agents.map(({ options }) => options.box.sandboxId as string), box ?? "")
        const packed = world.spawned.filter(({ args }) => args.some((arg) => arg.includes(`/${box}/`)) && args.includes("node_modules"))
        assert.isNotEmpty(packed, "the folders are looked for in the clone")
        assert.isUndefined((yield* told(id)).at(-1)?.secrets_withheld)
        nothingIsLeft(world, [origin, id])
        // A cache filled by the clone is for all sandboxes.
        const { ran: next } = yield* during(world, turn(world, undefined))
        assert.deepStrictEqual(next, [])
      })
  )
}

scenario(
  "without folders to bring over it runs where it was without its secrets, and the event and the agent are told",
  (world) =>
    Effect.gen(function*() {
      says(world, { setup: ["npm ci"], secrets: ["NPM_TOKEN"] })
      yield* keepSecret
      yield* startWorker(world)
      const id = yield* turn(world, undefined)
      const { ran } = yield* during(world, ways["restore"]?.(world, id) ?? Effect.void)
      assert.deepStrictEqual(ran, [{ box: id, hasSecret: false }])
      assert.match((yield* told(id)).at(-1)?.secrets_withheld ?? "", /names no folders/u)
      assert.match(world.agents.at(-1)?.options.instructions ?? "", /ran without its secrets/u)
    })
)

scenario(
  "where a clone cannot be made it runs where it was without its secrets, and the event says why",
  (world) =>
    Effect.gen(function*() {
      says(world, { setup: ["npm ci"], cache: ["node_modules"], secrets: ["NPM_TOKEN"] })
      yield* keepSecret
      yield* startWorker(world)
      const id = yield* turn(world, undefined)
      world.files.set(`${REPO}/package-lock.json`, "2")
      yield* Sandboxes.use((sandboxes) => sandboxes.restore(principal, id, 1))
      const offline = () => new SourceHostError({ operation: "read a repository", detail: "It is gone.", retryable: false })
      world.repositoryFailures.push(offline())
      yield* until(id, ({ restoring }) => restoring === null)
      yield* woken(world, id)
      assert.deepStrictEqual(runs(world).at(-1), { box: id, hasSecret: false })
      assert.match((yield* told(id)).at(-1)?.secrets_withheld ?? "", /could not be found out\. .*It is gone/u)
      nothingIsLeft(world, [id])
    })
)

scenario(
  "a cache that a setup of another branch would fill is filled by none of it: main fills its own",
  (world) =>
    Effect.gen(function*() {
      says(world, { setup: ["npm ci"], cache: ["node_modules"] })
      yield* keepSecret
      yield* startWorker(world)
      world.holding = [SLIPWAY]
      const poisoned = yield* turn(world, SLIPWAY)
      world.holding = ["main"]
      const { made: id, ran } = yield* during(world, turn(world, undefined))
      assert.deepStrictEqual(ran.map(({ box }) => box), [id])
      assert.notStrictEqual(id, poisoned)
      // A cache filled by main is for all sandboxes.
      world.holding = [SLIPWAY]
      assert.deepStrictEqual((yield* during(world, turn(world, SLIPWAY))).ran, [])
    })
)

scenario("one repository of a commit that is not trusted keeps the secrets of all from the box", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["npm ci"], secrets: ["NPM_TOKEN"] })
    yield* keepSecret
    yield* startWorker(world)
    world.holding = []
    const { id } = yield* running(world, { repos: [{ fullName: REPO }, { fullName: "acme/other", ref: "feature" }] })
    assert.deepStrictEqual(runs(world), [{ box: id, hasSecret: false }])
    assert.match((yield* told(id)).at(0)?.secrets_withheld ?? "", /^acme\/other: The commit .* neither/u)
  }))

// Every way in which a setup begins, of every kind of commit: an oracle that knows nothing of the code.
for (const way of ["boot", ...Object.keys(ways)]) {
  for (const ref of [undefined, "release/1", "feature", SLIPWAY]) {
    for (const pushed of ref === "release/1" ? ["never", "unmerged", "merged"] as const : ["unmerged"] as const) {
      for (const cache of [[], ["node_modules"]]) {
        scenario(
          `${way} of ${ref ?? "the default branch"}, ${cache.length === 0 ? "no cache" : "a cache"}, pushed: ${pushed}: who has the secret`,
          (world) =>
            Effect.gen(function*() {
              says(world, { setup: ["npm ci"], secrets: ["NPM_TOKEN"], cache })
              yield* keepSecret
              yield* listRef("release/*")
              if (pushed !== "never") yield* published(pushed === "merged")
              world.holding = ref === undefined ? ["main"] : ref === "release/1" ? ["release/*"] : [ref]
              yield* startWorker(world)
              const isTrusted = ref === undefined || ref === "release/1" && pushed !== "unmerged"
              const id = yield* turn(world, ref)
              assert.deepStrictEqual(runs(world), [{ box: id, hasSecret: isTrusted }])
              assert.strictEqual((yield* told(id))[0]?.secrets_withheld === undefined, isTrusted)
              const again = ways[way]
              if (again === undefined) return
              world.files.set(`${REPO}/package-lock.json`, "another")
              const { made, ran } = yield* during(world, again(world, id))
              const isGiven = isTrusted && cache.length > 0
              assert.deepStrictEqual(ran.map(({ hasSecret }) => hasSecret), [isGiven])
              assert.strictEqual(ran[0]?.box === made, !isGiven)
              assert.strictEqual((yield* told(made)).at(-1)?.secrets_withheld === undefined, isGiven)
              for (const { box, hasSecret } of runs(world).slice(1)) {
                const hadAgent = world.agents.some(({ options }) => options.box.sandboxId === box)
                assert.isFalse(hasSecret && hadAgent)
              }
              nothingIsLeft(world, [id, made, ...world.agents.map(({ options }) => options.box.sandboxId)])
            })
        )
      }
    }
  }
}
