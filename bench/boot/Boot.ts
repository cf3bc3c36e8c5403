/**
 * From a creation to its turn's start, beside a script that makes a worktree, starts the same agent and opens a session
 * (`ByHand.ts` says what that leaves out). Ours is what a client sees: from sending the creation until its stream has
 * `turn.started`; theirs ends in the moment in which the prompt is sent. The repository was fetched and each agent ran before.
 *
 * Alone: `npm run bench -- boot --quick`.
 */
import * as Installed from "@slipway/agents/Installed"
import type { Profile } from "@slipway/agents/Profile"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Redacted } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { globSync, realpathSync, writeFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"
import * as ByHand from "./ByHand.ts"

const FILES = 200
const REPOSITORY = { name: RepoName.make("acme/shop"), folder: "shop" }
export const KEY = "key-of-the-fake-model"
const checkout = path.resolve(import.meta.dirname, "../..")

/** Where `slipway agents install` put agents. */
export const agentsFolder = () => Installed.folderIn(path.resolve(process.env["SLIPWAY_DATA_DIR"] ?? path.join(checkout, ".slipway")))

const kinds = { offline: "the offline agent", codex: "codex" }
type Kind = keyof typeof kinds
const isolations = ["none", "bubblewrap"] as const

const idOf = (kind: Kind, isolation: (typeof isolations)[number]) => `boot-${kind}${isolation === "none" ? "" : `-${isolation}`}`

/** The model access of a session. */
const access = (model: FakeModel.FakeModel) => ({
  baseUrl: model.url,
  token: Redacted.make(KEY),
  model: "fake-model",
  contextTokens: 128_000,
  outputTokens: 8_192
})

/** The agent as its profile starts it. The command lines are the same on both sides, and so is what they do at their start. */
export const agentByHand = (profile: Profile, command: string, model: FakeModel.FakeModel): ByHand.Agent => ({
  dialect: profile.dialect === "acp" ? "acp" : "codex",
  launch: (home, workspace) =>
    profile.launch({
      box: { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), workspace, home, spawn: () => Effect.die(new Error("by hand")) },
      profile: "",
      model: "",
      access: profile.capabilities.modelProtocol === null ? null : access(model),
      reasoningEffort: null,
      toolApprovalMode: "auto",
      repositories: [REPOSITORY],
      instructions: null,
      resume: null
    }, command)
})

/** With what both agents need that have a model. */
export const catalogue = (model: FakeModel.FakeModel) => ({
  default: "offline/demo",
  models: [
    { id: "offline/demo", agentRuntime: "opencode", profile: "offline", efforts: [], approvals: true, offline: true },
    ...[["codex", "openai-responses"], ["opencode", "openai-chat"]].map(([agentRuntime, protocol]) => ({
      id: `bench/${agentRuntime}`,
      agentRuntime,
      efforts: [],
      approvals: true,
      upstream: {
        protocol,
        baseUrl: `${model.url}/v1`,
        model: "fake-model",
        keyVariable: "BENCH_MODEL_KEY",
        prices: { input: 1, cachedInput: 1, cacheWrite: 1, output: 1 },
        contextTokens: 128_000,
        outputTokens: 8_192
      }
    }))
  ]
})

const modelOf: Record<Kind, string> = { offline: "offline/demo", codex: "bench/codex" }

/** Milliseconds from the creation to what its stream says, and of that what the stages of the boot say of themselves. */
const ours = async (service: Checkout.Service, kind: Kind) => {
  const began = performance.now()
  const id = await service.create("[[say hello]]", "acme/shop", modelOf[kind])
  const created = performance.now() - began
  const took = (await service.heard(id, "turn.started")) - began
  await service.heard(id, "turn.completed")
  const stages = (await service.events(id)).filter(({ type }) => type === "sandbox.boot").map(({ data }) =>
    [String(data["stage"]), Number(data["ms"])] as const
  )
  await service.terminate(id)
  return { took, created, stages: new Map(stages) }
}

const theirs = async (agent: ByHand.Agent, place: ByHand.Place, box: ByHand.Box | null) => {
  const began = performance.now()
  await ByHand.checkOut(place)
  const session = await ByHand.open(agent, place, box)
  const took = performance.now() - began
  await session.prompt("[[say hello]]")
  const prompted = performance.now() - began
  await session.end()
  await ByHand.remove(place)
  return { took, prompted }
}

export const median = (values: ReadonlyArray<number>): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

/** To a tenth. */
const rounded = (value: number) => Math.round(value * 10) / 10

const measureIsolation = Effect.fnUntraced(
  function*(isolation: (typeof isolations)[number], wanted: ReadonlyArray<Kind>, options: Options) {
    const home = yield* Checkout.temporaryFolder
    const fleet = yield* Checkout.make(checkout)
    const model = yield* FakeModel.start({ token: KEY, workspace: { path: "/workspace", repositories: [REPOSITORY] } })
    const repository = Checkout.makeRepository(path.join(home, "repositories/shop"), FILES)
    const machine = path.join(home, "machine")
    const rounds = options.quick ? 5 : 15
    return yield* Effect.promise(async () => {
      await fleet.command(machine, "repos", "add", "acme/shop", repository)
      const installed = agentsFolder()
      // A box shows the folder of its own service alone.
      if (wanted.includes("codex")) execFileSync("cp", ["--archive", "--link", installed, Installed.folderIn(machine)])
      writeFileSync(path.join(home, "models.json"), JSON.stringify(catalogue(model)))
      const service = await fleet.start(machine, {
        SLIPWAY_ISOLATION: isolation,
        SLIPWAY_MODELS: path.join(home, "models.json"),
        BENCH_MODEL_KEY: KEY
      })
      const [filter] = globSync(path.join(machine, "boxes/**/filter.bpf"))
      const rows: Array<Measurement> = []
      for (const kind of wanted) {
        const profile = profiles[kind]
        if (profile === undefined) throw new Error(`there is no profile ${kind}`)
        const found = await Effect.runPromise(Installed.inspect(kind, profile, Installed.folderIn(machine)))
        if (found.state !== "ready") throw new Error(found.reason)
        const command = realpathSync(found.command)
        const agent = agentByHand(profile, command, model)
        const programs = [command, path.dirname(fileURLToPath(import.meta.resolve("@slipway/agents/offline/OfflineAgent.main")))]
        const box = isolation === "none" || filter === undefined ? null : { programs, filter }
        const samples: {
          readonly ours: Array<Awaited<ReturnType<typeof ours>>>
          readonly theirs: Array<Awaited<ReturnType<typeof theirs>>>
        } = {
          ours: [],
          theirs: []
        }
        // The first two of each are of a process that does something for the first time.
        for (let round = -2; round < rounds; round++) {
          if (round === 0) options.say(`${idOf(kind, isolation)}, ${rounds} rounds`)
          const mine = async () => void samples.ours.push(await ours(service, kind))
          const place = { repository, folder: path.join(home, `by-hand/${kind}-${round}`), branch: `${kind}-${round}` }
          const scripted = async () => void samples.theirs.push(await theirs(agent, place, box))
          // The order alternates, so that neither side always finds the other's caches and garbage.
          for (const side of round % 2 === 0 ? [mine, scripted] : [scripted, mine]) await side()
        }
        const [mine, scripted] = [samples.ours.slice(2), samples.theirs.slice(2)]
        const stage = (name: string) => rounded(median(mine.map(({ stages }) => stages.get(name) ?? Number.NaN)))
        rows.push({
          id: idOf(kind, isolation),
          what: `creation to its turn's start, ${kinds[kind]}${isolation === "none" ? "" : ", in a box of bubblewrap"}`,
          unit: "ms",
          better: "lower",
          ours: { name: "slipway", samples: mine.map(({ took }) => took) },
          theirs: {
            name: `git worktree, ${isolation === "none" ? "" : "bwrap, "}spawn, handshake`,
            samples: scripted.map(({ took }) => took)
          },
          // At most 1.2 times theirs.
          reach: { times: 0.83 },
          notes: {
            "creation answered, ms": rounded(median(mine.map(({ created }) => created))),
            "box, ms": stage("provision"),
            "clone, ms": stage("clone"),
            "agent, ms": stage("agent_start"),
            "boot, ms": stage("ready"),
            ...kind === "codex"
              ? { "by hand until turn/start is answered, ms": rounded(median(scripted.map(({ prompted }) => prompted))) }
              : {},
            "by hand lacks": `durable events, approvals, checkpoints${isolation === "none" ? "" : ", control groups, own user, disk limit"}`
          }
        })
      }
      return rows
    })
  },
  Effect.scoped
)

export const measure = (options: Options): Promise<ReadonlyArray<Measurement>> =>
  Interruptible.run(Effect.gen(function*() {
    const rows: Array<Measurement> = []
    for (const isolation of isolations) {
      const lacking = isolation === "bubblewrap" && spawnSync("bwrap", ["--version"]).status !== 0
      const kept: Array<Kind> = []
      for (const kind of ["offline", "codex"] as const) {
        const id = idOf(kind, isolation)
        if (!options.only.has(id)) continue
        if (lacking) {
          options.skip(id, "bubblewrap is not installed.")
          continue
        }
        const profile = profiles[kind]
        const folder = agentsFolder()
        const found = profile === undefined ? undefined : yield* Installed.inspect(kind, profile, folder)
        if (found?.state === "ready") kept.push(kind)
        else options.skip(id, `${found?.reason ?? "unknown agent."} SLIPWAY_DATA_DIR may name another folder for both.`)
      }
      if (kept.length > 0) rows.push(...yield* measureIsolation(isolation, kept, options))
    }
    return rows
  }))
