/**
 * Whole lifecycles: a sandbox is created, its agent edits a file in one turn, the change is published as a draft pull request of a
 * repository on this machine, the sandbox is ended. Beside a script that does the same without a service, by `../boot/ByHand.ts`:
 * worktree, agent, prompt, commit, push, removal. The script opens no pull request, keeps no event and no checkpoint, isolates nothing
 * (neither does ours here), and a second one beside it would know nothing of the first.
 *
 * Processor time is that of all processes: of ours the server with its worker, Postgres, every git and every agent; of theirs the
 * script, git and agents. Clients of ours run in the process of the benchmark, which is not counted.
 */
import { profiles } from "@slipway/agents/profiles/AgentRuntimeProfiles"
import * as FakeModel from "@slipway/agents/testing/fake-model/FakeModel"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import path from "node:path"
import { agentByHand } from "../boot/Boot.ts"
import * as ByHand from "../boot/ByHand.ts"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"
import type { Measurement } from "../Measurement.ts"
import type { Options } from "../Rows.ts"

const checkout = path.resolve(import.meta.dirname, "../..")
const ROUNDS = 5
const FILES = 200
const prompt = (name: string) => `[[write path=notes/${name}.md content=What ${name} did.]] [[say Done.]]`

/** Results of one round: lifecycles a minute, and processor seconds of each. */
interface Sample {
  readonly rate: number
  readonly cpu: number
}

/** As many clients at once, each with `times` lifecycles, one after the other. */
const round = async (
  clients: number,
  times: number,
  processorMillis: () => number,
  lifecycle: (name: string) => Promise<void>
): Promise<Sample> => {
  const [began, before] = [performance.now(), processorMillis()]
  await Promise.all(Array.from({ length: clients }, async (_, client) => {
    for (let i = 0; i < times; i++) await lifecycle(`${client}-${i}`)
  }))
  const [took, used] = [performance.now() - began, processorMillis() - before]
  return { rate: clients * times * 60_000 / took, cpu: used / 1000 / (clients * times) }
}

const measureAll = Effect.fnUntraced(function*(options: Options) {
  const home = yield* Checkout.temporaryFolder
  const fleet = yield* Checkout.make(checkout)
  const model = yield* FakeModel.start()
  const start = Checkout.makeRepository(path.join(home, "start"), FILES)
  // One for each side, so that neither has the branches of the other.
  const [mine, theirs] = ["mine", "theirs"].map((name) => path.join(home, "repositories", `${name}.git`))
  for (const bare of [mine, theirs]) execFileSync("git", ["clone", "--quiet", "--bare", start, bare ?? ""])
  const clone = path.join(home, "clone")
  execFileSync("git", ["clone", "--quiet", theirs ?? "", clone])
  const machine = path.join(home, "machine")
  return yield* Effect.promise(async () => {
    await fleet.command(machine, "repos", "add", "acme/shop", mine ?? "")
    const service = await fleet.start(machine, { SLIPWAY_ISOLATION: "none" })
    const cluster = new URL(fleet.databaseUrl).searchParams.get("host") ?? ""
    const postgres = Number(readFileSync(path.join(cluster, "postmaster.pid"), "utf8").split("\n")[0])

    let made = 0
    const ours = async (name: string) => {
      const id = await service.create(prompt(`${made++}-${name}`))
      await service.heard(id, "turn.completed")
      await service.publish(id)
      await service.terminate(id)
    }
    const profile = profiles["offline"]
    if (profile === undefined) throw new Error("there is no offline agent")
    const agent = agentByHand(profile, process.execPath, model)
    const scripted = async (name: string) => {
      const branch = `agent-${made++}-${name}`
      const place = { repository: clone, folder: path.join(home, "by-hand", branch), branch }
      await ByHand.checkOut(place)
      const session = await ByHand.open(agent, place, null)
      await session.prompt(prompt(branch))
      await session.end()
      await ByHand.publish(place)
      await ByHand.remove(place)
    }
    const processorsOfOurs = () => Checkout.processorOfAll(service.pid) + Checkout.processorOfAll(postgres)
    const processorsOfTheirs = () => Checkout.processorOf(process.pid) + Checkout.processorOfEnded(process.pid)

    const rows: Array<Measurement> = []
    const found = new Map<number, { readonly ours: Array<Sample>; readonly theirs: Array<Sample> }>()
    for (const clients of [1, 4]) {
      if (!options.only.has(`lifecycles-${clients}`) && !options.only.has("lifecycles-cpu")) continue
      const times = options.quick ? 3 : 10
      const samples: { readonly ours: Array<Sample>; readonly theirs: Array<Sample> } = { ours: [], theirs: [] }
      for (let i = -1; i < ROUNDS; i++) {
        options.say(`${clients} at once, ${i < 0 ? "warming up" : `round ${i + 1} of ${ROUNDS}`}`)
        const sides = [
          async () => void samples.ours.push(await round(clients, times, processorsOfOurs, ours)),
          async () => void samples.theirs.push(await round(clients, times, processorsOfTheirs, scripted))
        ]
        for (const side of i % 2 === 0 ? sides : sides.toReversed()) await side()
      }
      found.set(clients, { ours: samples.ours.slice(1), theirs: samples.theirs.slice(1) })
    }
    const SCRIPT = "git worktree, agent, commit, push"
    for (const [clients, samples] of found) {
      if (options.only.has(`lifecycles-${clients}`)) {
        rows.push({
          id: `lifecycles-${clients}`,
          what: `create, one turn with an edit, draft pull request, end; ${clients} at once`,
          unit: "a minute",
          better: "higher",
          ours: { name: "slipway", samples: samples.ours.map(({ rate }) => rate) },
          theirs: { name: SCRIPT, samples: samples.theirs.map(({ rate }) => rate) },
          reach: { times: 0.6 },
          notes: { "by hand lacks": "durable events, approvals, checkpoints, the pull request itself" }
        })
      }
      if (clients === 1 && options.only.has("lifecycles-cpu")) {
        rows.push({
          id: "lifecycles-cpu",
          what: "processor time of one of those: server, worker, Postgres, git, agent",
          unit: "s",
          better: "lower",
          ours: { name: "slipway", samples: samples.ours.map(({ cpu }) => cpu) },
          theirs: { name: SCRIPT, samples: samples.theirs.map(({ cpu }) => cpu) },
          reach: { times: 0.6 }
        })
      }
    }
    return rows
  })
}, Effect.scoped)

export const measure = (options: Options): Promise<ReadonlyArray<Measurement>> => Interruptible.run(measureAll(options))
