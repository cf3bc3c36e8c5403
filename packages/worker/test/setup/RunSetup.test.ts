/** Setup of sandboxes as their repositories say, with processes that do what a test says. */
import { assert } from "@effect/vitest"
import { SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import * as OutputRedactor from "@slipway/domain/environment/redaction/OutputRedactor"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SecretStoreMemory from "@slipway/domain/memory/environment/SecretStoreMemory"
import type { BoxCommand } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import { AllowedEgress } from "@slipway/worker/setup/RunSetup"
import { DateTime, Deferred, Effect, Fiber, Queue, Redacted } from "effect"
import {
  create,
  events,
  eventsOf,
  find,
  pass,
  principal,
  REPO,
  running,
  scenario,
  settle,
  startWorker,
  until,
  woken,
  type World
} from "../Doubles.ts"

const CANARY = "canary-7Qm2-registry-token"
const FILE = ".slipway/environment.json"
const elsewhere = { worker: "worker-2", machine: "machine-2" }

const says = (world: World, environment: object, repo = REPO) => world.files.set(`${repo}/${FILE}`, JSON.stringify(environment))
const setupOf = (id: SandboxId) => Setups.use((setups) => setups.find(id))
const stages = (id: SandboxId) => Effect.map(eventsOf(id, "sandbox.boot"), (all) => all.map(({ data }) => data.stage))

/** The commands that ran, each as the line that its shell was given. */
const lines = (world: World) => world.spawned.filter(({ args }) => args.includes("slipway-setup")).map(({ args }) => args.at(-1))
const lineOf = ({ args }: BoxCommand) => args.at(-1) ?? ""

/** A worker of a service that keeps this secret of the repository. */
const withSecret = (world: World, options: Parameters<typeof startWorker>[1] = {}) =>
  Effect.gen(function*() {
    const secrets = yield* SecretStore
    yield* secrets.set({ grantId: principal.grantId, repo: REPO, name: "NPM_TOKEN" }, Redacted.make(CANARY), yield* DateTime.now)
    return yield* startWorker(world, options)
  }).pipe(Effect.provide([SecretStoreMemory.layer, OutputRedactor.layer]))

scenario(
  "runs the commands in order in the repository's folder before the agent starts, which gets the variables and is told",
  (world) =>
    Effect.gen(function*() {
      says(world, { setup: ["npm ci", "npm run build"], env: { CI: "true" } })
      world.files.set(`${REPO}/AGENTS.md`, "Be kind.")
      world.commands = (command) => Effect.sync(() => ({ output: `${world.agents.length} agents before ${lineOf(command)}\n` }))
      world.changed.set(REPO, ["package-lock.json"])
      yield* startWorker(world)
      const { agent, id } = yield* running(world)

      assert.deepStrictEqual(lines(world), ["npm ci", "npm run build"])
      const [first] = world.spawned
      assert.deepStrictEqual(first?.args.slice(2), ["slipway-setup", `/trees/${id}/acme-site`, "/bin/sh", "-c", "npm ci"])
      assert.deepStrictEqual(first?.env, { CI: "true" })
      assert.deepStrictEqual([...(yield* stages(id))].sort(), ["agent_start", "clone", "provision", "ready", "setup"])
      assert.deepStrictEqual((yield* stages(id)).slice(-3), ["setup", "agent_start", "ready"])

      const record = yield* setupOf(id)
      assert.deepInclude(record, { state: "succeeded", cache: "none", exitCode: 0 })
      assert.strictEqual(record?.output, "$ npm ci\n0 agents before npm ci\n$ npm run build\n0 agents before npm run build\n")
      const { instructions } = agent.options
      assert.match(instructions ?? "", /Be kind\.[\s\S]*`npm ci`, `npm run build`[\s\S]*`package-lock\.json`/u)

      yield* Effect.scoped(agent.options.box.spawn({ command: "agent", args: [], env: { MODE: "x" } }))
      assert.deepStrictEqual(world.spawned.at(-1)?.env, { CI: "true", MODE: "x" })
    })
)

scenario(
  "a repository that says nothing has no setup: nothing runs, nothing is told and nothing is kept",
  (world) =>
    Effect.gen(function*() {
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      assert.deepStrictEqual(world.spawned, [])
      assert.isNull(agent.options.instructions)
      assert.isNull(yield* setupOf(id))
      assert.notInclude(yield* stages(id), "setup")
    })
)

scenario(
  "gives secrets to setup alone, and shows none of them in output, events or what the agent is told",
  (world) =>
    Effect.gen(function*() {
      says(world, { setup: ["npm ci"], secrets: ["NPM_TOKEN"] })
      world.commands = (command, write) =>
        Effect.gen(function*() {
          // In pieces that end in the middle of it.
          yield* write(`token ${command.env["NPM_TOKEN"]?.slice(0, 9)}`)
          yield* write(`${command.env["NPM_TOKEN"]?.slice(9)} was used\n`)
          return { code: lineOf(command) === "npm ci" ? 1 : 0 }
        })
      yield* withSecret(world)
      const { agent, id } = yield* running(world)
      assert.strictEqual(world.spawned[0]?.env["NPM_TOKEN"], CANARY)
      assert.include((yield* setupOf(id))?.output, "token [redacted] was used")
      yield* Effect.scoped(agent.options.box.spawn({ command: "agent", args: [], env: {} }))
      const { box: _, ...options } = agent.options
      const told = JSON.stringify([options, world.spawned.slice(1), yield* setupOf(id), yield* eventsOf(id, "sandbox.boot"),
        yield* find(id)])
      assert.notInclude(told, "canary")
      assert.notInclude(told, "7Qm2")
    })
)

scenario("a secret that is missing fails the boot and is named, and nothing of the repository runs", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["npm ci"], secrets: ["NPM_TOKEN", "OTHER_TOKEN"] })
    yield* withSecret(world)
    const { error, id, reason } = yield* until(yield* create(), ({ status }) => status === "failed")
    assert.strictEqual(reason, "boot_failed")
    assert.match(error ?? "", /acme\/site has no secret OTHER_TOKEN/u)
    assert.notInclude(error ?? "", CANARY)
    assert.deepStrictEqual([lines(world), world.agents], [[], []])
    assert.deepInclude(yield* setupOf(id), { state: "failed", exitCode: null })
  }))

scenario("without a store of secrets a setup that needs some fails the boot", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["npm ci"], secrets: ["NPM_TOKEN"] })
    yield* startWorker(world)
    const { error, reason } = yield* until(yield* create(), ({ status }) => status === "failed")
    assert.strictEqual(reason, "boot_failed")
    assert.match(error ?? "", /keeps no secrets/u)
    assert.deepStrictEqual(lines(world), [])
  }))

const failing = (world: World) => {
  world.commands = (command) => Effect.succeed(lineOf(command) === "make" ? { code: 2, output: "no rule\nmake: *** [all] Error 1\n" } : {})
}

scenario("a command that fails ends the setup, and the agent is told with the end of the output", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["true", "make", "never"] })
    failing(world)
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    assert.deepStrictEqual(lines(world), ["true", "make"])
    assert.deepInclude(yield* setupOf(id), { state: "failed", exitCode: 2 })
    assert.match(agent.options.instructions ?? "", /setup\[1\], `make`, ended with exit code 2\.[\s\S]*make: \*\*\* \[all\] Error 1/u)
  }))

scenario(
  "where it must not fail, the sandbox fails as boot_failed with the last lines, and no agent starts",
  (world) =>
    Effect.gen(function*() {
      says(world, { setup: ["make"], onFailure: "fail" })
      failing(world)
      yield* startWorker(world)
      const { error, id, reason } = yield* until(yield* create(), ({ status }) => status === "failed")
      assert.strictEqual(reason, "boot_failed")
      assert.match(error ?? "", /The setup of acme\/site failed\. setup\[0\], `make`, ended with exit code 2\.\n[\s\S]*no rule\nmake: /u)
      assert.deepStrictEqual(world.agents, [])
      assert.deepInclude(yield* setupOf(id), { state: "failed", exitCode: 2 })
      const [told] = yield* eventsOf(id, "sandbox.error")
      assert.isFalse(told?.data.retryable)
    })
)

scenario("a file that is wrong runs nothing, and the agent is told which key", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["make"], setpu: 1 })
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    assert.deepStrictEqual(lines(world), [])
    assert.match(agent.options.instructions ?? "", /\.slipway\/environment\.json: setpu: is not known/u)
    assert.deepInclude(yield* setupOf(id), { state: "failed", exitCode: null })
  }))

scenario("a file that is no JSON runs nothing, and the agent is told so", (world) =>
  Effect.gen(function*() {
    world.files.set(`${REPO}/${FILE}`, "setup: [make]\n")
    yield* startWorker(world)
    const { agent, id } = yield* running(world)
    assert.deepStrictEqual(lines(world), [])
    assert.match(agent.options.instructions ?? "", /\.slipway\/environment\.json: is no JSON/u)
    assert.deepInclude(yield* setupOf(id), { state: "failed", exitCode: null })
  }))

scenario("a setup that takes longer than it may is ended with all of it, and the agent is told", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["sleep 1000", "never"], timeoutMinutes: 2 })
    world.commands = (command) => lineOf(command).startsWith("sleep") ? Effect.never : Effect.succeed({})
    yield* startWorker(world)
    const id = yield* create()
    yield* pass("119 seconds")
    assert.strictEqual((yield* setupOf(id))?.state, "running")
    assert.deepStrictEqual(world.ended, [])
    yield* pass("1 second")
    yield* until(id, ({ status }) => status === "running")
    assert.deepStrictEqual(lines(world), ["sleep 1000"])
    assert.strictEqual(world.ended[0], world.spawned[0])
    assert.deepInclude(yield* setupOf(id), { state: "failed", exitCode: null, ms: 120_000 })
    assert.match((yield* world.nextAgent).options.instructions ?? "", /longer than 2 min/u)
  }))

const sleeping = (world: World) => {
  world.commands = (command) => lineOf(command).startsWith("sleep") ? Effect.never : Effect.succeed({})
}

scenario("a setup may take as long as its repository says, which the boot then has longer", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["sleep 1000"], timeoutMinutes: 60 })
    sleeping(world)
    yield* startWorker(world)
    const id = yield* create()
    yield* settle
    assert.deepStrictEqual((yield* eventsOf(id, "setup.started")).map(({ data }) => data), [{ limit_ms: 3_600_000 }])
    yield* pass("59 minutes")
    assert.deepInclude(yield* setupOf(id), { state: "running" })
    assert.strictEqual((yield* find(id)).status, "creating")
    yield* pass("1 minute")
    yield* until(id, ({ status }) => status === "running")
    assert.deepInclude(yield* setupOf(id), { state: "failed", ms: 3_600_000 })
  }))

scenario("setups that together want more than an hour leave the boot the time that its agent needs", (world) =>
  Effect.gen(function*() {
    const repos = [REPO, "acme/api"]
    for (const repo of repos) says(world, { setup: ["sleep 1000"], timeoutMinutes: 60 }, repo)
    sleeping(world)
    yield* startWorker(world)
    const id = yield* create({ repos: repos.map((fullName) => ({ fullName })) })
    yield* pass("60 minutes")
    assert.strictEqual((yield* find(id)).status, "creating")
    yield* pass("9 minutes")
    yield* until(id, ({ status }) => status === "running")
  }))

scenario("a boot that hangs when its setup is done has no more than its own limit", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["make"], timeoutMinutes: 60 })
    world.commands = (command) => lineOf(command) === "make" ? Effect.delay(Effect.succeed({}), "5 minutes") : Effect.succeed({})
    world.opening = yield* Deferred.make<void>()
    yield* startWorker(world)
    const id = yield* create()
    yield* pass("14 minutes")
    assert.strictEqual((yield* find(id)).status, "creating")
    assert.include(yield* stages(id), "setup")
    yield* pass("2 minutes")
    assert.strictEqual((yield* until(id, ({ status }) => status === "failed")).reason, "boot_timeout")
  }))

scenario("what a running setup wrote is kept every two seconds", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["make"] })
    const written = Queue.unbounded<string>().pipe(Effect.runSync)
    world.commands = (command, write) =>
      lineOf(command) === "make" ? Effect.forever(Effect.flatMap(Queue.take(written), write)) : Effect.succeed({})
    yield* startWorker(world)
    const id = yield* create()
    yield* settle
    assert.strictEqual((yield* setupOf(id))?.output, "")
    yield* Queue.offer(written, "one\n")
    yield* pass("2 seconds")
    assert.deepInclude(yield* setupOf(id), { state: "running", output: "$ make\none\n", ms: null })
    yield* Queue.offer(written, "two\n")
    yield* pass("2 seconds")
    assert.strictEqual((yield* setupOf(id))?.output, "$ make\none\ntwo\n")
  }))

scenario("keeps the last MiB of what setup wrote", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["make"] })
    world.commands = (_, write) =>
      Effect.as(Effect.forEach(Array.from({ length: 15 }), (_, i) => write(`${i}é`.repeat(40_000)), { discard: true }), {
        output: "end\0\n"
      })
    yield* startWorker(world)
    const id = yield* create()
    yield* pass("1 second")
    yield* until(id, ({ status }) => status === "running")
    const output = (yield* setupOf(id))?.output ?? ""
    const bytes = new TextEncoder().encode(output).length
    assert.isTrue(bytes <= 2 ** 20 && bytes > 2 ** 20 - 4)
    assert.isTrue(output.endsWith("14é14éend\ufffd\n"))
    assert.notInclude(output.slice(0, -5), "\ufffd")
  }))

scenario(
  "runs setup and agent with the programs of the first image that a repository may have, and names those it may not",
  (world) =>
    Effect.gen(function*() {
      const programs = (image: string | null, isRefused = false) => ({ id: `${image}`, image, isRefused, path: ["/opt/go/bin"], env: {} })
      const wants = (image: string, repo: string) =>
        world.files.set(`${repo}/.devcontainer.json`, JSON.stringify({ image, postCreateCommand: `make ${image}` }))
      world.isolation = "docker"
      world.programs = (image) => image === null || image === "unlisted" ? programs("default", image !== null) : programs(image)
      wants("unlisted", REPO)
      wants("golang:1.25", "acme/api")
      wants("python:3.13", "acme/data")
      yield* startWorker(world)
      const { agent, id } = yield* running(world, { repos: [REPO, "acme/api", "acme/data"].map((fullName) => ({ fullName })) })
      const told = (yield* eventsOf(id, "sandbox.boot")).flatMap(({ data }) =>
        data.stage === "setup" ? [[data.repo, data.image_refused]] : []
      )
      assert.deepStrictEqual(told, [[REPO, "unlisted"], ["acme/api", undefined], ["acme/data", "python:3.13"]])
      const ran = world.spawned.filter(({ args }) => args.includes("slipway-setup"))
      assert.deepStrictEqual(ran.map((command) => [lineOf(command), command.programs?.image]), [
        ["make unlisted", "golang:1.25"],
        ["make golang:1.25", "golang:1.25"],
        ["make python:3.13", "golang:1.25"]
      ])
      // The service's own work has its own programs.
      const others = world.spawned.filter(({ args }) => !args.includes("slipway-setup"))
      assert.isTrue(others.length > 0 && others.every((command) => command.programs === undefined))
      yield* Effect.scoped(agent.options.box.spawn({ command: "agent", args: [], env: {} }))
      assert.deepStrictEqual(world.spawned.at(-1)?.programs, programs("golang:1.25"))
    })
)

scenario("names an image among the keys that do not count where sandboxes are made of none", (world) =>
  Effect.gen(function*() {
    world.files.set(`${REPO}/.devcontainer.json`, JSON.stringify({ image: "golang:1.25", features: {} }))
    yield* startWorker(world)
    const { id } = yield* running(world)
    const told = (yield* eventsOf(id, "sandbox.boot")).flatMap(({ data }) => data.stage === "setup" ? [data] : [])
    assert.deepStrictEqual(told.map(({ ignored, image_refused }) => [ignored, image_refused]), [[["features", "image"], undefined]])
  }))

scenario("tells in the event which keys do not count and which destinations are not allowed", (world) =>
  Effect.gen(function*() {
    world.files.set(
      `${REPO}/.devcontainer.json`,
      `{ /* a comment */ "features": {}, "postCreateCommand": { "a": "make a", "b": ["make", "b"] } }`
    )
    says(world, { egress: ["allowed.example.com:443", "other.example.com:443"] }, "acme/api")
    yield* startWorker(world).pipe(Effect.provideService(AllowedEgress, new Set(["allowed.example.com:443"])))
    const id = yield* create({ repos: [{ fullName: REPO }, { fullName: "acme/api" }] })
    yield* until(id, ({ status }) => status === "running")
    const told = (yield* eventsOf(id, "sandbox.boot")).flatMap(({ data }) => data.stage === "setup" ? [{ ...data, ms: 0 }] : [])
    assert.deepStrictEqual(told, [
      { stage: "setup", ms: 0, repo: REPO, cache: "none", ignored: ["features"] },
      { stage: "setup", ms: 0, repo: "acme/api", cache: "none", egress_refused: ["other.example.com:443"] }
    ])
    assert.sameMembers(lines(world), ["make a", "b"])
  }))

scenario(
  "removes from the home what tools keep credentials in, and settings of agents, after all else and before the agent starts",
  (world) =>
    Effect.gen(function*() {
      says(world, { setup: ["npm ci"] })
      failing(world)
      yield* startWorker(world)
      const { id } = yield* running(world)
      const last = world.spawned.at(-1)
      assert.strictEqual(last?.args.at(-1), `/home/${id}`)
      assert.match(last?.args[1] ?? "", /rm -rf -- [^\n]*\.bashrc [^\n]*\.gitconfig [^\n]*\.aws [^\n]*\.npmrc /u)
      assert.deepStrictEqual(last?.env, {})
    })
)

scenario("where they cannot be removed there is no agent", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["npm ci"] })
    world.commands = ({ args }) => Effect.succeed({ code: args.includes("slipway-clear-home") ? 1 : 0 })
    yield* startWorker(world)
    const { error, reason } = yield* until(yield* create(), ({ status }) => status === "failed")
    assert.strictEqual(reason, "boot_failed")
    assert.match(error ?? "", /Credentials, or settings of agents, that setup left/u)
    assert.deepStrictEqual(world.agents, [])
  }))

scenario("runs again where the machine was lost, and the sandbox goes on whatever comes of it", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["make"], onFailure: "fail" })
    const first = yield* startWorker(world)
    const { agent, id } = yield* running(world)
    yield* agent.end({ state: "succeeded" })
    yield* until(id, ({ checkpoint }) => checkpoint === 1)
    yield* pass("6 minutes")
    assert.deepStrictEqual(lines(world), ["make"])

    failing(world)
    first.network = "hang"
    yield* startWorker(world, elsewhere)
    const waking = yield* Effect.forkChild(woken(world, id))
    yield* pass("6 minutes")
    const { agent: next } = yield* Fiber.join(waking)
    assert.deepStrictEqual(lines(world), ["make", "make"])
    assert.deepInclude(yield* setupOf(id), { state: "failed", exitCode: 2 })
    assert.match(next.options.instructions ?? "", /ended with exit code 2/u)
    const told = yield* eventsOf(id, "sandbox.boot")
    assert.deepStrictEqual(told.filter(({ data }) => data.stage === "setup").map(({ data }) => data.error), [
      undefined,
      "setup[0], `make`, ended with exit code 2."
    ])
    // After the event that the trees were made again, and without a turn: the waiting turn has not begun.
    const log = (yield* events(id)).map(({ turn_id: turn, type }) => [type, turn])
    const restored = log.findIndex(([type]) => type === "sandbox.restored")
    assert.deepStrictEqual(log.slice(restored + 1, restored + 3), [["setup.started", undefined], ["sandbox.boot", undefined]])
  }))

scenario(
  "where it runs again and a secret is missing, the sandbox goes on and the log says what is missing",
  (world) =>
    Effect.gen(function*() {
      const first = yield* startWorker(world)
      const { agent, id } = yield* running(world)
      yield* agent.end({ state: "succeeded" })
      yield* until(id, ({ checkpoint }) => checkpoint === 1)
      yield* pass("6 minutes")

      says(world, { setup: ["make"], secrets: ["NPM_TOKEN", "OTHER_TOKEN"], cache: ["node_modules"] })
      first.network = "hang"
      yield* withSecret(world, elsewhere)
      const waking = yield* Effect.forkChild(woken(world, id))
      yield* pass("6 minutes")
      yield* Fiber.join(waking)
      assert.deepStrictEqual(lines(world), [])
      const [told] = (yield* eventsOf(id, "sandbox.boot")).filter(({ data }) => data.stage === "setup")
      assert.match(told?.data.error ?? "", /has no secret OTHER_TOKEN/u)
      assert.deepStrictEqual(yield* eventsOf(id, "setup.started"), [])
    })
)

scenario(
  "an agent that starts again where setup ran has the variables and is told the same, and nothing runs",
  (world) =>
    Effect.gen(function*() {
      says(world, { setup: ["make"], env: { CI: "true" } })
      yield* startWorker(world)
      const { agent, id } = yield* running(world)
      yield* agent.end({ state: "succeeded" })
      yield* pass("6 minutes")
      const { agent: next } = yield* woken(world, id)
      assert.notStrictEqual(next, agent)
      assert.deepStrictEqual(lines(world), ["make"])
      assert.strictEqual(next.options.instructions, agent.options.instructions)
      yield* Effect.scoped(next.options.box.spawn({ command: "agent", args: [], env: {} }))
      assert.deepStrictEqual(world.spawned.at(-1)?.env, { CI: "true" })
    })
)

scenario("begins again where a worker went in the middle of it", (world) =>
  Effect.gen(function*() {
    says(world, { setup: ["make"] })
    world.commands = () => Effect.never
    const first = yield* startWorker(world)
    const id = yield* create()
    yield* settle
    assert.strictEqual((yield* setupOf(id))?.state, "running")
    first.network = "hang"
    world.commands = () => Effect.succeed({})
    yield* startWorker(world, { worker: "worker-2" })
    yield* pass("1 minute")
    yield* until(id, ({ status }) => status === "running")
    assert.deepStrictEqual(lines(world), ["make", "make"])
    assert.strictEqual((yield* setupOf(id))?.state, "succeeded")
  }))
