/**
 * Other servers that run agents, beside the whole of ours, each with the same agent on both sides: opencode and a model on the loopback
 * beside `opencode serve`, the offline agent beside `sandbox-agent server`. Their sessions are no sandboxes: no checkout of a
 * repository, no record of what happened that a power failure leaves, no keys, no isolation (ours has none here either).
 *
 * What each keeps is seen, not believed: at the end its server is killed and started again.
 */
import * as Installed from "@slipway/agents/Installed"
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { agentByHand, agentsFolder, catalogue, KEY, median } from "../boot/Boot.ts"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"
import * as Opencode from "./Opencode.ts"
import type { Peer, Session } from "./Peer.ts"
import * as Program from "./Program.ts"
import * as SandboxAgent from "./SandboxAgent.ts"
import * as Slipway from "./Slipway.ts"

const checkout = path.resolve(import.meta.dirname, "../../../..")
const ROUNDS = 5
const TURNS = 50
const READS = 200
const kinds = ["opencode", "sandbox-agent"] as const
type Kind = (typeof kinds)[number]

interface Round {
  readonly create: number
  readonly firstWord: number
  /** µs. */
  readonly read: number
  readonly event: number
  readonly replay: number
  readonly replayedBytes: number
}

const rounded = (value: number) => Math.round(value * 10) / 10

/** `session` has had its turns. */
const round = async (peer: Peer, session: Session): Promise<Round> => {
  const created: Array<Awaited<ReturnType<Peer["create"]>>> = []
  for (let i = 0; i < 3; i++) {
    const one = await peer.create()
    created.push(one)
    await one.session.end()
  }
  const began = performance.now()
  for (let i = 0; i < READS; i++) await session.read()
  const read = (performance.now() - began) * 1000 / READS
  const replays: Array<Awaited<ReturnType<Session["replay"]>>> = []
  for (let i = 0; i < 5; i++) replays.push(await session.replay())
  const events: Array<number> = []
  for (let i = 0; i < 5; i++) {
    events.push(await session.prompt())
    await session.rest()
  }
  return {
    create: median(created.map(({ answered }) => answered)),
    firstWord: median(created.map(({ firstWord }) => firstWord)),
    read,
    event: median(events),
    replay: median(replays.map(({ took }) => took)),
    replayedBytes: median(replays.map(({ bytes }) => bytes))
  }
}

const rowsOf = (
  kind: Kind,
  names: readonly [ours: string, theirs: string],
  mine: ReadonlyArray<Round>,
  theirs: ReadonlyArray<Round>,
  left: readonly [ours: string, theirs: string]
): ReadonlyArray<Measurement> => {
  const row = (
    id: string,
    what: string,
    unit: Measurement["unit"],
    figure: Exclude<keyof Round, "replayedBytes">,
    isHeld: boolean,
    notes: NonNullable<Measurement["notes"]>
  ): Measurement => ({
    id: `${kind}-${id}`,
    what,
    unit,
    better: "lower",
    ours: { name: names[0], samples: mine.map((one) => one[figure]) },
    theirs: { name: names[1], samples: theirs.map((one) => one[figure]) },
    reach: isHeld ? { times: 1 } : {},
    notes
  })
  const durability = { "ours after kill -9": left[0], "theirs after kill -9": left[1] }
  const bytes = (rounds: ReadonlyArray<Round>) => rounded(median(rounds.map(({ replayedBytes }) => replayedBytes)) / 1024)
  return [
    row("create", "a session, until its creation is answered", "ms", "create", true, durability),
    // Ours checks out a repository and starts an agent for it alone; opencode serve is an agent that runs already.
    row("first-word", "a new session, until its agent's first word", "ms", "firstWord", false, {}),
    row("read", "reading a session, one after the other", "µs", "read", true, {}),
    row("event", "a prompt, until the agent's first word is on the stream", "ms", "event", true, durability),
    row("replay", `all that was said in ${TURNS} turns and more`, "ms", "replay", true, {
      "KB": bytes(mine),
      "KB of theirs": bytes(theirs)
    })
  ]
}

const measureKind = Effect.fnUntraced(function*(kind: Kind, options: Options) {
  const home = yield* Checkout.temporaryFolder
  const fleet = yield* Checkout.make(checkout)
  yield* Effect.addFinalizer(() => Effect.promise(Program.stopAll))
  const workspace = path.join(home, "workspace")
  const model = yield* FakeModel.start({
    token: KEY,
    workspace: { path: workspace, repositories: [{ name: "acme/shop", folder: "shop" }] }
  })
  const machine = path.join(home, "machine")
  const repository = Checkout.makeRepository(path.join(home, "repositories/shop"), 20)
  return yield* Effect.promise(async () => {
    await fleet.command(machine, "repos", "add", "acme/shop", repository)
    if (kind === "opencode") execFileSync("cp", ["--archive", "--link", agentsFolder(), Installed.folderIn(machine)])
    writeFileSync(path.join(home, "models.json"), JSON.stringify(catalogue(model)))
    const settings = { SLIPWAY_ISOLATION: "none", SLIPWAY_MODELS: path.join(home, "models.json"), BENCH_MODEL_KEY: KEY }
    const ours = await Slipway.start(fleet, machine, settings, kind === "opencode" ? "bench/opencode" : "offline/demo")
    const profile = profiles[kind === "opencode" ? "opencode" : "offline"]
    if (profile === undefined) throw new Error("there is no such profile")
    const found = await Effect.runPromise(Installed.inspect(kind, profile, Installed.folderIn(machine)))
    if (found.state !== "ready") throw new Error(found.reason)
    const peerHome = path.join(home, "peer")
    const launch = agentByHand(profile, found.command, model).launch(peerHome, workspace)
    const peer = kind === "opencode"
      ? await Opencode.start(launch, peerHome, workspace)
      : await SandboxAgent.start([launch.command, ...launch.args], peerHome, workspace)
    try {
      const sides = [{ peer: ours, rounds: [] as Array<Round> }, { peer, rounds: [] as Array<Round> }] as const
      options.say(`${kind}: ${TURNS} turns on each side`)
      const sessions = new Map<Peer, Session>()
      for (const side of sides) {
        const { session } = await side.peer.create()
        for (let i = 0; i < TURNS; i++) await session.prompt()
        sessions.set(side.peer, session)
      }
      // The first is of what is done for the first time.
      for (let i = -1; i < ROUNDS; i++) {
        options.say(`${kind}: ${i < 0 ? "warming up" : `round ${i + 1} of ${ROUNDS}`}`)
        for (const side of i % 2 === 0 ? sides : sides.toReversed()) {
          const session = sessions.get(side.peer)
          if (session === undefined) throw new Error("there is no session")
          side.rounds.push(await round(side.peer, session))
        }
      }
      const left = [await ours.afterKill(sessions.get(ours)?.id ?? ""), await peer.afterKill(sessions.get(peer)?.id ?? "")] as const
      return rowsOf(kind, [ours.name, peer.name], sides[0].rounds.slice(1), sides[1].rounds.slice(1), left)
    } finally {
      await peer.stop()
      await ours.stop()
    }
  })
}, Effect.scoped)

export const measure = (options: Options): Promise<ReadonlyArray<Measurement>> =>
  Interruptible.run(Effect.gen(function*() {
    const rows: Array<Measurement> = []
    for (const kind of kinds) {
      const wanted = [...options.only].filter((id) => id.startsWith(kind))
      if (wanted.length === 0) continue
      const profile = profiles["opencode"]
      const installed = profile === undefined ? null : yield* Installed.inspect("opencode", profile, agentsFolder())
      const lacking = kind === "sandbox-agent" ? SandboxAgent.lacking() : installed?.state === "ready" ? null : installed?.reason ?? ""
      if (lacking !== null) {
        for (const id of wanted) options.skip(id, lacking)
        continue
      }
      rows.push(...(yield* measureKind(kind, options)).filter(({ id }) => options.only.has(id)))
    }
    return rows
  }))
