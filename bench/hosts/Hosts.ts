/**
 * How fast the boxes of each host are, through its port: their boot, their programs' first byte, a line there and back, what they write.
 * Every host has a process of its own, and all take turns. With another checkout, that one's hosts of this machine beside ours.
 */
import * as Docker from "@slipway/docker/testing/docker.fixture"
import * as Bubblewrap from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import * as Gvisor from "@slipway/machine/testing/hosts/gvisor.fixture"
import * as Cable from "@slipway/runner/testing/Cable"
import * as Machines from "@slipway/runner/testing/Machines.fixture"
import { Effect, type Scope } from "effect"
import { execFile, execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import path from "node:path"
import { promisify } from "node:util"
import { columns } from "../../packages/slipway/src/commands/terminal/Output.ts"
import * as Protocol from "../api/Protocol.ts"
import { machine } from "../Driver.ts"
import * as Checkout from "../fleet/Checkout.ts"
import * as Interruptible from "../Interruptible.ts"
import { median, number } from "../Statistics.ts"
import { type Amounts, INSTALLATION, type Round, type SideOptions, type Way } from "./Round.ts"

const OWN = path.resolve(import.meta.dirname, "../..")

/** A block of numbers that no other cables on this machine use. */
const CABLE = 200

interface Host {
  readonly name: string
  readonly way: Way
  /** The kind of machine that the example makes. */
  readonly machines?: Machines.Kind
  readonly isOverCable?: true
  /** Why there is none here. */
  readonly absent: string | undefined
}

const hosts: ReadonlyArray<Host> = [
  { name: "none", way: "none", absent: undefined },
  { name: "bubblewrap", way: "bubblewrap", absent: Bubblewrap.absent },
  { name: "gvisor", way: "gvisor", absent: Gvisor.absent },
  { name: "docker", way: "docker", absent: Docker.absent },
  ...(["bubblewrap", "gvisor", "docker"] as const).map((machines): Host => ({
    name: `runner-${machines}`,
    way: "machines",
    machines,
    absent: Machines.absent(machines)
  })),
  {
    name: "runner-cable",
    way: "machines",
    machines: "bubblewrap",
    isOverCable: true,
    absent: Machines.absent("bubblewrap") ?? Cable.noNamespaces
  }
]

const AMOUNTS: Amounts = { boots: 2, spawns: 5, lines: 400, bytes: 64 * 2 ** 20, homes: 3 }
const QUICK: Amounts = { boots: 2, spawns: 3, lines: 200, bytes: 16 * 2 ** 20, homes: 2 }

/** Figures of a round. */
const figures = {
  boot: { of: ({ first }: Round) => first.map(({ boot }) => boot), unit: "ms" },
  provision: { of: ({ first }: Round) => first.map(({ provision }) => provision), unit: "ms" },
  "boot from rest": { of: ({ again }: Round) => again.map(({ boot }) => boot), unit: "ms" },
  "provision from rest": { of: ({ again }: Round) => again.map(({ provision }) => provision), unit: "ms" },
  spawn: { of: ({ spawns }: Round) => spawns, unit: "ms" },
  line: { of: ({ lines }: Round) => lines.map((millis) => millis * 1000), unit: "µs" },
  output: { of: ({ throughput }: Round) => [throughput], unit: "MB/s" },
  home: { of: ({ homes }: Round) => homes, unit: "ms" }
} as const
type Figure = keyof typeof figures

const isFigure = (name: string): name is Figure => name in figures

/** One process, and what came of its rounds. */
interface Side {
  readonly host: Host
  readonly name: string
  readonly child: Protocol.Child
  readonly rounds: Array<Round>
}

const samplesOf = ({ rounds }: Side, figure: Figure): ReadonlyArray<number> => rounds.flatMap(figures[figure].of)

const quantile = (values: ReadonlyArray<number>, part: number): number => {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}

/** Ratios of one side's median to the other's, round by round: other load on the machine affected both. */
const ratiosOf = (side: Side, base: Side, figure: Figure): ReadonlyArray<number> =>
  side.rounds.flatMap((round, i) => {
    const other = base.rounds[i]
    return other === undefined ? [] : [median(figures[figure].of(round)) / median(figures[figure].of(other))]
  })

/** The runner as machines have it where Slipway is installed: one file. */
const bundleRunner = async (folder: string): Promise<string> => {
  await promisify(execFile)(process.execPath, [path.join(OWN, "scripts/bundle.mjs"), folder], { cwd: OWN })
  return path.join(folder, "dist/runner")
}

/** The program that makes machines, until the scope closes: then no machine is left. */
const machinesIn = Effect.fnUntraced(function*(home: string, { isOverCable, machines, name }: Host, runner: string) {
  if (machines === undefined) return ""
  const folder = path.join(home, name)
  const cables = isOverCable === true ? [yield* Cable.cableOf(CABLE), yield* Cable.cableOf(CABLE + 1)] : []
  yield* Effect.promise(() => mkdir(folder, { mode: 0o711 }))
  const program = yield* Machines.program(folder, machines, {
    MACHINES_RUNNER: path.join(runner, "Runner.main.js"),
    MACHINES_SEES: [runner, path.dirname(process.execPath), ...machines === "docker" ? ["/usr", "/etc/alternatives"] : []].join(":"),
    MACHINES_NETWORKS: cables.map(({ address, name }) => `${name}:${address}`).join(",")
  })
  const call = (order: string, input: object): unknown =>
    JSON.parse(execFileSync(program, [order], { input: JSON.stringify({ installation: INSTALLATION, ...input }), encoding: "utf8" }))
  // Removes the rest of a round that failed, or was broken off.
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const sandbox of call("list", {}) as ReadonlyArray<string>) call("remove", { sandbox })
    })
  )
  return program
})

const begin = (host: Host, name: string, options: Omit<SideOptions, "way" | "image" | "socket">): Effect.Effect<Side, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const all: SideOptions = { ...options, way: host.way, image: Docker.IMAGE, socket: Docker.socket }
      const imports = ["--import", path.join(import.meta.dirname, "OfCheckout.mjs")]
      const { child } = await Protocol.start(path.join(import.meta.dirname, "Side.ts"), all, imports)
      return { host, name, child, rounds: [] }
    }),
    ({ child }) =>
      Effect.promise(async () => {
        await child.ask({ _tag: "Leave" }).catch(() => {})
        await child.stop()
      })
  )

/** All sides in each round; who begins changes, and the order too. */
const takeTurns = async (sides: ReadonlyArray<Side>, rounds: number, amounts: Amounts, say: (what: string) => void) => {
  // First-time work of a process belongs to no side.
  const first = { ...amounts, lines: 0, bytes: 2 ** 20 }
  for (const { child, name } of sides) {
    say(`${name}, for the first time`)
    await child.ask({ _tag: "Round", amounts: first })
  }
  for (let round = 0; round < rounds; round++) {
    const order = sides.map((_, i) => sides[(i + round) % sides.length]!)
    for (const side of round % 2 === 0 ? order : order.toReversed()) {
      say(`round ${round + 1} of ${rounds}: ${side.name}`)
      side.rounds.push(await side.child.ask<Round>({ _tag: "Round", amounts }))
    }
  }
}

const times = (values: ReadonlyArray<number>): string => `${median(values).toFixed(2)} ×`

/** The part of provisioning that the machine maker took. */
const machineOf = ({ host, rounds }: Side, boots: "first" | "again"): string =>
  host.machines === undefined ? "" : number(median(rounds.flatMap((round) => round[boots].map(({ machine }) => machine))))

/** Rows of hosts. Ratios are to the first one. */
const byHost = (sides: ReadonlyArray<Side>): string => {
  const [base] = sides
  if (base === undefined) return ""
  const of = (side: Side, figure: Figure) => number(median(samplesOf(side, figure)))
  const at = (side: Side, figure: Figure, part: number) => number(quantile(samplesOf(side, figure), part))
  const ratio = (side: Side, figure: Figure) => side === base ? "" : times(ratiosOf(side, base, figure))
  const beside = `× ${base.name}`
  const boots = (when: string, ofBoots: "first" | "again", boot: Figure, provision: Figure) =>
    columns([
      [when, "p50", "p95", beside, "provision", "machine"],
      ...sides.map((side) => [
        side.name,
        of(side, boot),
        at(side, boot, 0.95),
        ratio(side, boot),
        of(side, provision),
        machineOf(side, ofBoots)
      ])
    ])
  const programs = columns([
    ["SPAWN, ms", "p50", "p95", beside, "LINE, µs", "p99", beside, "OUTPUT, MB/s", beside, "HOME, ms", beside],
    ...sides.map((side) => [
      side.name,
      of(side, "spawn"),
      at(side, "spawn", 0.95),
      ratio(side, "spawn"),
      of(side, "line"),
      at(side, "line", 0.99),
      ratio(side, "line"),
      of(side, "output"),
      ratio(side, "output"),
      of(side, "home"),
      ratio(side, "home")
    ])
  ])
  return [
    boots("BOOT, ms", "first", "boot", "provision"),
    boots("FROM REST, ms", "again", "boot from rest", "provision from rest"),
    programs
  ].join("\n\n")
}

const AGAIN = ", again"

/**
 * Each host of before and of now, as ratios round by round. Processes of the same code are some per cent apart, too: of before there are
 * two, and now is slower where it is farther from the first than they are from each other.
 */
const besideBefore = (sides: ReadonlyArray<Side>): string => {
  const rows = sides.filter(({ name }) => name.endsWith("before")).flatMap((before) => {
    const again = sides.find(({ name }) => name === `${before.name}${AGAIN}`)
    const now = sides.find(({ host, name }) => host === before.host && name.endsWith("now"))
    if (again === undefined || now === undefined) return []
    return Object.keys(figures).filter(isFigure).map((figure, i) => {
      const { unit } = figures[figure]
      // As what one takes, also of the throughput.
      const taken = (of: Side) => ratiosOf(of, before, figure).map((ratio) => unit === "MB/s" ? 1 / ratio : ratio)
      const same = taken(again)
      const other = taken(now)
      const isSlower = median(other) > 1.05 && quantile(other, 0.25) > Math.max(median(same), 1)
      return [
        i === 0 ? before.host.name : "",
        `${figure}, ${unit}`,
        number(median(samplesOf(before, figure))),
        number(median(samplesOf(now, figure))),
        times(other),
        `${quantile(other, 0.25).toFixed(2)} to ${quantile(other, 0.75).toFixed(2)}`,
        times(same),
        `${quantile(same, 0.25).toFixed(2)} to ${quantile(same, 0.75).toFixed(2)}`,
        isSlower ? "slower" : "unchanged"
      ]
    })
  })
  return columns([["HOST", "", "BEFORE", "NOW", "TAKES", "25 to 75 %", "BEFORE AGAIN", "25 to 75 %", ""], ...rows])
}

export interface Options {
  readonly quick: boolean
  /** Names of hosts; empty: all. */
  readonly only: ReadonlyArray<string>
  /** Another checkout. */
  readonly before: string | null
  /** File for every sample. */
  readonly json: string | null
}

export const run = async ({ before, json, only, quick }: Options): Promise<void> => {
  const stranger = only.find((one) => !hosts.some(({ name }) => name === one))
  if (stranger !== undefined) {
    process.stderr.write(`bench: there is no host ${stranger}. There are ${hosts.map(({ name }) => name).join(", ")}.\n`)
    process.exitCode = 1
    return
  }
  const say = (what: string) => process.stderr.isTTY && process.stderr.write(`\r\u001b[2K${what}`)
  const rounds = before === null ? quick ? 3 : 12 : quick ? 5 : 20
  const amounts = quick ? QUICK : AMOUNTS
  const wanted = hosts.filter(({ name, way }) => (only.length === 0 || only.includes(name)) && (before === null || way !== "machines"))
  const there = wanted.filter(({ absent }) => absent === undefined)
  return Interruptible.run(
    Effect.gen(function*() {
      const home = yield* Checkout.temporaryFolder
      say("bundling the runner")
      const needsRunner = there.some(({ machines }) => machines !== undefined)
      const runner = needsRunner ? yield* Effect.promise(() => bundleRunner(path.join(home, "bundle"))) : ""
      const sides: Array<Side> = []
      for (const host of there) {
        const program = yield* machinesIn(home, host, runner)
        const sidesOfHost = before === null
          ? [[host.name, OWN]] as const
          : [
            [`${host.name} before`, path.resolve(before)],
            [`${host.name} now`, OWN],
            [`${host.name} before${AGAIN}`, path.resolve(before)]
          ] as const
        for (const [name, checkout] of sidesOfHost) {
          say(`starting ${name}`)
          sides.push(yield* begin(host, name, { checkout, folder: path.join(home, `boxes-${sides.length}`), program }))
        }
      }
      yield* Effect.promise(() => takeTurns(sides, rounds, amounts, say))
      say("")
      const counted = `${rounds} rounds, in each of which all take turns: ${amounts.boots} boots, ${amounts.spawns} programs, ` +
        `${amounts.lines} lines of 200 bytes, ${amounts.bytes / 2 ** 20} MiB of output, a home of 1 MB ${amounts.homes} times`
      const table = before === null ? byHost(sides) : besideBefore(sides)
      const absent = wanted.flatMap(({ absent, name }) => absent === undefined ? [] : [`${name} is left out: ${absent}\n`])
      process.stdout.write(`${machine()}, ${new Date().toISOString().slice(0, 10)}\n${counted}\n\n${table}\n`)
      if (absent.length > 0) process.stdout.write(`\n${absent.join("")}`)
      if (json !== null) {
        const samples = sides.map(({ name, rounds }) => ({ name, rounds }))
        writeFileSync(
          json,
          `${JSON.stringify({ machine: machine(), at: new Date().toISOString(), amounts, sides: samples, absent }, null, 2)}\n`
        )
      }
    }).pipe(Effect.scoped)
  )
}
