/**
 * A provider's key is planted where the operator puts it, an agent uses the model, looks around and is watched: the key is
 * nowhere in what belongs to a sandbox. Everything is real but the provider.
 */
import { assert, it } from "@effect/vitest"
import type { Profile } from "@slipway/agents/Profile"
import * as AgentRuntimeProfiles from "@slipway/agents/profiles/AgentRuntimeProfiles"
import { offline } from "@slipway/agents/profiles/offline"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import { Access } from "@slipway/domain/access/usecases/Access"
import { type Model, ModelCatalogue } from "@slipway/domain/models/schema/ModelCatalogue"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { fromWire } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as ModelGatewayHttp from "@slipway/gateway/ModelGatewayHttp"
import * as WorkingTreesGit from "@slipway/git/working-trees/WorkingTreesGit"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import * as AccessStorePostgres from "@slipway/postgres/access-store/AccessStorePostgres"
import * as CheckpointsPostgres from "@slipway/postgres/checkpoints/CheckpointsPostgres"
import * as HintsPostgres from "@slipway/postgres/HintsPostgres"
import * as LeasesPostgres from "@slipway/postgres/leases/LeasesPostgres"
import * as MaintenancePostgres from "@slipway/postgres/maintenance/MaintenancePostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import * as SandboxStorePostgres from "@slipway/postgres/sandbox-store/SandboxStorePostgres"
import * as SetupsPostgres from "@slipway/postgres/setups/SetupsPostgres"
import * as SpendingPostgres from "@slipway/postgres/spending/SpendingPostgres"
import * as WorkersPostgres from "@slipway/postgres/workers/WorkersPostgres"
import { AllowNoIsolation } from "@slipway/worker/turn/Agent"
import * as WorkerNode from "@slipway/worker/WorkerNode"
import { Effect, Layer, Logger, Option, Redacted, References, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { principal } from "./Doubles.ts"

const KEY = `sk-canary-${"7c2e91d05b6f4a38".repeat(2)}`
const VARIABLE = "CANARY_PROVIDER_KEY"

/** The offline agent, which runs whatever its script says, with a model beside it. */
const talker: Profile = {
  ...offline,
  capabilities: { ...offline.capabilities, modelProtocol: "openai-chat" },
  launch: (options, command) => {
    const { access } = options
    const launched = offline.launch(options, command)
    if (access === null) return launched
    return { ...launched, env: { ...launched.env, MODEL_URL: access.baseUrl, MODEL_TOKEN: Redacted.value(access.token) } }
  }
}

const ask = (text: string) =>
  `node -e "fetch(process.env.MODEL_URL + '/v1/chat/completions', { method: 'POST', ` +
  `headers: { authorization: 'Bearer ' + process.env.MODEL_TOKEN }, ` +
  `body: JSON.stringify({ model: 'x', stream: true, messages: Array.of({ role: 'user', content: '${text}' }) }) })` +
  `.then(async (r) => console.log(r.status, JSON.stringify(Object.fromEntries(r.headers)), await r.text()))"`

const LOOK = [
  "env > env.txt",
  "tr '\\0' '\\n' < /proc/self/environ > environ.txt",
  "tr '\\0' '\\n' < /proc/$PPID/environ > parent.txt",
  "tr '\\0' ' ' < /proc/$PPID/cmdline > cmdline.txt",
  "find \"$HOME\" \"$TMPDIR\" -type f -exec cat {} + > home.txt",
  `${ask("{{usage input=100 output=10}} {{say Nice}}")} > answer.txt 2>&1`,
  `${ask("{{say Again}}")} > refusal.txt 2>&1`,
  "true"
].join("; ").replaceAll("{{", "[").replaceAll("}}", "]")

const filesBelow = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() ? [join(entry.parentPath, entry.name)] : []
  )

/** Environments and command lines of everything that runs below the folder's marks. */
const processesOf = (folder: string) =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((pid) => {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, "latin1")
      if (!environment.includes(`SANDBOX_MARK=${folder}`)) return []
      return [`${environment}\n${readFileSync(`/proc/${pid}/cmdline`, "latin1")}`]
    } catch {
      return []
    }
  })

it.live("the provider's key is in no environment, command line, file, log, event or table of a sandbox", () =>
  Effect.gen(function*() {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-canary-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
    )
    const origin = join(folder, "origin")
    mkdirSync(origin)
    writeFileSync(join(origin, "AGENTS.md"), "Be terse.\n")
    const git = (...args: ReadonlyArray<string>) => execFileSync("git", ["-C", origin, ...args], { stdio: "pipe" })
    git("init", "--quiet", "--initial-branch=main")
    git("add", ".")
    git("-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "First")

    yield* Effect.acquireRelease(
      Effect.sync(() => {
        process.env[VARIABLE] = KEY
      }),
      () => Effect.sync(() => delete process.env[VARIABLE])
    )
    const provider = yield* FakeModel.start({ token: KEY })
    const model: Model = {
      id: "acme/talker",
      agentRuntime: "opencode",
      profile: "talker",
      efforts: [],
      approvals: true,
      offline: false,
      upstream: {
        protocol: "openai-chat",
        baseUrl: `${provider.url}/v1`,
        model: "real-model",
        keyVariable: VARIABLE,
        prices: { input: 1_000_000, cachedInput: 0, cacheWrite: 0, output: 2_000_000 },
        contextTokens: 10_000,
        outputTokens: 1000
      }
    }
    const logs: Array<string> = []

    const live = Layer.mergeAll(Sandboxes.layer, Publishing.layer, Access.layer).pipe(
      Layer.provideMerge(Layer.mergeAll(
        WorkingTreesGit.layer({ directory: join(folder, "trees") }).pipe(
          Layer.provideMerge(SandboxHostNone.layer({ directory: join(folder, "boxes"), workspaceOf: workspacesIn(join(folder, "trees")) }))
        ),
        AgentRuntimeProfiles.layer({ registry: { talker } }),
        ModelGatewayHttp.layer({ keys: new Map([[VARIABLE, Redacted.make(KEY)]]) }).pipe(Layer.provideMerge(SpendingPostgres.layer)),
        Layer.mock(SourceHost, {
          names: ["local"],
          nameOf: () => Effect.succeed("local"),
          refusal: () => Effect.succeed(null),
          repository: (fullName) => Effect.succeed({ fullName, defaultBranch: "main" }),
          remote: () => Effect.succeed({ url: origin, authorization: null })
        })
      )),
      Layer.provideMerge(
        Layer.mergeAll(
          SandboxStorePostgres.layer,
          LeasesPostgres.layer,
          MaintenancePostgres.layer,
          SetupsPostgres.layer,
          WorkersPostgres.layer,
          CheckpointsPostgres.layer,
          AccessStorePostgres.layer
        )
      ),
      Layer.provideMerge(Layer.merge(HintsPostgres.layer, IdsNode.layer)),
      Layer.provideMerge(TestPostgres.layer(Migrations.layer)),
      Layer.provideMerge(Layer.mergeAll(
        Layer.succeed(ModelCatalogue, { default: model.id, models: [model] }),
        Layer.succeed(AllowNoIsolation, true),
        Logger.layer([Logger.map(Logger.formatJson, (line) => logs.push(line))]),
        Layer.succeed(References.MinimumLogLevel, "All")
      ))
    )

    yield* Effect.gen(function*() {
      const sandboxes = yield* Sandboxes
      const store = yield* SandboxStore
      const sql = yield* SqlClient.SqlClient
      const { grant } = yield* (yield* Access).createGrant("test")
      const by = { ...principal, grantId: grant.id }
      yield* WorkerNode.start({ worker: "worker-1", machine: "machine-1", slots: 2, agents: 4, boots: 2 })

      const request = yield* Schema.decodeEffect(CreateSandbox)({ repos: [{ fullName: "acme/site" }], prompt: `[[shell ${LOOK}]]` })
      const { sandbox: { id } } = yield* sandboxes.create(by, request, Option.none())
      const until = (is: (sandbox: Sandbox) => boolean) =>
        sandboxes.get(by, id).pipe(Effect.delay("10 millis"), Effect.repeat({ until: is }))
      const first = yield* until(({ turn }) => turn?.state === "succeeded" || turn?.state === "failed")
      assert.strictEqual(first.turn?.state, "succeeded", logs.slice(-20).join("\n"))

      // A provider that repeats the key in its refusal.
      provider.refuse({ status: 429, message: `slow down, ${KEY}` })
      yield* sandboxes.sendMessage(by, id, `[[shell ${ask("more")} > slow.txt]] [[shell sleep 600]]`, Option.none())
      const running = Effect.map(store.log(id, 0, 1000), (entries) =>
        entries.map(({ wire }) => fromWire(wire).event).filter((event) =>
          event.type === "tool.updated" && event.data.tool.includes("sleep") && event.data.status === "running"
        ))
      yield* running.pipe(
        Effect.delay("10 millis"),
        Effect.repeat({
          until: (found) =>
            found.length > 0
        })
      )

      const processes = processesOf(join(folder, "boxes"))
      const files = filesBelow(folder).map((file) => `${file}\n${readFileSync(file, "latin1")}`)
      const events = (yield* store.log(id, 0, 1000)).map(({ wire }) => wire)
      const tables = yield* sql<{ readonly name: string }>`
        SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'slipway'`
      const rows = yield* Effect.forEach(tables, ({ name }) =>
        Effect.map(sql<{ readonly row: string }>`SELECT t::text AS row FROM ${sql(name)} t`, (found) =>
          found.map(({ row }) =>
            `${name} ${row}`
          )))

      const everywhere = { processes, files, logs, events, rows: rows.flat() }
      for (const [where, texts] of Object.entries(everywhere)) {
        assert.isAbove(texts.length, 0, where)
        assert.deepStrictEqual(
          texts.filter((text) =>
            text.includes(KEY)
          ).map((text) => text.slice(0, 200)),
          [],
          where
        )
      }

      // The search can find a token, and the model was really asked.
      const token = /MODEL_TOKEN=(\w+)/u.exec(processes.join("\n"))?.[1] ?? ""
      assert.strictEqual(token.length, 43)
      const named = (name: string) =>
        files.find((text) => text.startsWith(`${folder}/trees`) && text.split("\n", 1)[0]?.endsWith(`/${name}`)) ?? ""
      assert.include(named("environ.txt"), token)
      assert.include(named("cmdline.txt"), "offline/OfflineAgent.main")
      assert.include(named("answer.txt"), "200 ")
      assert.include(named("slow.txt"), "slow down, [redacted]")
      assert.isTrue(provider.requests.every(({ headers }) => headers.authorization === `Bearer ${KEY}`))
      assert.deepStrictEqual(provider.requests.map(({ call }) => call.model), ["real-model", "real-model", "real-model"])
      assert.isFalse(logs.join("\n").includes(token))
      assert.isFalse(events.join("\n").includes(token) || rows.flat().join("\n").includes(token))

      const { usage } = yield* sandboxes.get(by, id)
      assert.isAtLeast(usage.llmRequestCount, 2)
      assert.isAbove(usage.costMicroUsd, 0)
      yield* sandboxes.terminate(by, id)
      yield* until(({ status }) => status === "terminated")
      assert.deepStrictEqual(processesOf(join(folder, "boxes")), [])
    }).pipe(Effect.provide(live))
  }).pipe(Effect.scoped))
