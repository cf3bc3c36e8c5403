/**
 * The cost of an agent beside its model: from spawn to an open session, from a prompt to the model's first word, and in memory. Real
 * programs, a fake model on the loopback, no isolation; each run in a new home.
 */
import * as Installed from "@slipway/agents/Installed"
import * as AgentRuntimeProfiles from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { AgentRuntime, type AgentSession } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Deferred, Effect, Layer, Redacted } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { columns } from "../../packages/slipway/src/commands/terminal/Output.ts"
import * as Interruptible from "../Interruptible.ts"

const ROUNDS = 5
const QUICK_ROUNDS = 2
const SCRIPT = "[[say hello]]"
const REPOSITORY = { name: RepoName.make("acme/shop"), folder: "shop" }

/** Milliseconds and mebibytes of one run. */
interface Sample {
  readonly ready: number
  /** Time from the first prompt until the model is asked; `null`: there is no model. */
  readonly firstAsked: number | null
  readonly firstWord: number
  /** Time from the next prompt. */
  readonly nextAsked: number | null
  readonly nextWord: number
  readonly memory: number
}

const temporaryFolder = Effect.acquireRelease(
  Effect.promise(async () => mkdtemp(path.join(await realpath(tmpdir()), "slipway-bench-"))),
  (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
)

/** Resident memory of every process with this home. Shared pages count for each. */
const memoryOf = (home: string): number =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).reduce((sum, pid) => {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, "utf8").includes(`HOME=${home}\0`)) return sum
      return sum + Number(/VmRSS:\s+(\d+)/u.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024
    } catch {
      return sum
    }
  }, 0)

/** From the prompt to the first word, and to the request that asked for it. */
const ask = (session: AgentSession, model: FakeModel.FakeModel, turnId: string) =>
  Effect.gen(function*() {
    const before = model.requests.length
    const heard = yield* Deferred.make<number>()
    const start = performance.now()
    const end = yield* session.prompt({
      turnId,
      text: SCRIPT,
      onEvent: ({ _tag }) => _tag === "MessageUpdated" ? Deferred.succeed(heard, performance.now()) : Effect.void
    })
    if (end.state !== "succeeded") return yield* Effect.die(new Error(`the turn ${end.state}: ${end.reason}`))
    const asked = model.requests.slice(before).find(({ call }) => !call.hidden)
    return { asked: asked === undefined ? null : asked.receivedAtMillis - start, word: (yield* Deferred.await(heard)) - start }
  })

const sample = (profile: string) =>
  Effect.gen(function*() {
    const host = yield* SandboxHost
    const runtime = yield* AgentRuntime
    const sandboxId = SandboxId.make("c_aaaaaaaaaaaa")
    const box = yield* Effect.acquireRelease(host.provision({ sandboxId, fence: 1 }), () => Effect.orDie(host.stop(sandboxId)))
    yield* Effect.acquireRelease(
      Effect.promise(() => mkdir(path.join(box.workspace, REPOSITORY.folder))),
      () => Effect.promise(() => rm(box.workspace, { recursive: true }))
    )
    const model = yield* FakeModel.start({ workspace: { path: box.workspace, repositories: [REPOSITORY] } })
    const start = performance.now()
    const session = yield* runtime.open({
      box,
      profile,
      model: `bench/${profile}`,
      access: {
        baseUrl: model.url,
        token: Redacted.make("token"),
        model: profile === "claude" ? "claude-opus-5-5" : "fake-model",
        contextTokens: 128_000,
        outputTokens: 8_192
      },
      instructions: null,
      reasoningEffort: null,
      toolApprovalMode: "auto",
      repositories: [REPOSITORY],
      resume: null
    })
    const ready = performance.now() - start
    const first = yield* ask(session, model, "00000000-0000-5000-8000-000000000001")
    const next = yield* ask(session, model, "00000000-0000-5000-8000-000000000002")
    const taken: Sample = {
      ready,
      firstAsked: first.asked,
      firstWord: first.word,
      nextAsked: next.asked,
      nextWord: next.word,
      memory: memoryOf(box.home)
    }
    return taken
  }).pipe(Effect.scoped)

/** The time of the first word without an agent, on an open connection. */
const direct = Effect.gen(function*() {
  const model = yield* FakeModel.start()
  const once = async () => {
    const start = performance.now()
    const response = await fetch(`${model.url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: SCRIPT }] })
    })
    let first: number | null = null
    for await (const _ of response.body ?? []) first ??= performance.now() - start
    return first ?? 0
  }
  yield* Effect.promise(once)
  return median(yield* Effect.forEach(Array.from({ length: ROUNDS }), () => Effect.promise(once)))
}).pipe(Effect.scoped)

const median = (values: ReadonlyArray<number>): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

const cell = (values: ReadonlyArray<number | null>, less = 0) => {
  const known = values.flatMap((value) => value ?? [])
  return known.length === 0 ? "-" : Math.max(0, median(known) - less).toFixed(0)
}

export const run = (
  options: { readonly quick: boolean; readonly only: ReadonlyArray<string>; readonly dataDir: string | null }
): Promise<void> => {
  const dataDir = options.dataDir ?? fileURLToPath(new URL("../../.slipway", import.meta.url))
  const agentsFolder = Installed.folderIn(path.resolve(dataDir))
  const rounds = options.quick ? QUICK_ROUNDS : ROUNDS
  const write = (text: string) => Effect.sync(() => process.stdout.write(text))
  return Effect.gen(function*() {
    const usual = yield* direct
    const rows: Array<ReadonlyArray<string>> = []
    for (const [name, profile] of Object.entries(AgentRuntimeProfiles.profiles)) {
      if (options.only.length > 0 && !options.only.includes(name)) continue
      const installed = yield* Installed.inspect(name, profile, agentsFolder)
      if (installed.state === "unusable") {
        rows.push([name, installed.reason])
        continue
      }
      const samples: Array<Sample> = []
      for (let round = 1; round <= rounds; round++) {
        if (process.stderr.isTTY) process.stderr.write(`\r\u001b[2K${name} ${round}/${rounds}`)
        samples.push(yield* sample(name))
      }
      rows.push([
        name,
        cell(samples.map(({ ready }) => ready)),
        cell(samples.map(({ firstAsked }) => firstAsked)),
        cell(samples.map(({ firstAsked, firstWord }) => firstAsked === null ? null : firstWord), usual),
        cell(samples.map(({ nextAsked }) => nextAsked)),
        cell(samples.map(({ nextAsked, nextWord }) => nextAsked === null ? null : nextWord), usual),
        cell(samples.map(({ memory }) => memory))
      ])
    }
    if (process.stderr.isTTY) process.stderr.write("\r\u001b[2K")
    const head = ["AGENT", "SPAWN TO SESSION", "1ST PROMPT TO REQUEST", "ADDED TO 1ST WORD", "NEXT PROMPT TO REQUEST", "ADDED TO 1ST WORD",
      "RSS MB"]
    yield* write(
      `Medians of ${rounds} runs, each in a new home; times in ms. ` +
        `Added: beside ${usual.toFixed(1)} ms to the first word of the model asked directly.\n\n${columns([head, ...rows])}\n`
    )
  }).pipe(
    Effect.provide(Layer.mergeAll(
      AgentRuntimeProfiles.layer({ agentsFolder }),
      Layer.unwrap(Effect.map(temporaryFolder, (directory) => SandboxHostNone.layer({ directory, workspaceOf: workspacesIn(directory) })))
    )),
    Effect.scoped,
    Interruptible.run
  )
}
