/**
 * The cost of many sandboxes on one machine, and of moving one: each figure beside that of another checkout, such as the version before.
 * The agent is the offline one, so all of the cost is the service's own.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { cpSync, existsSync } from "node:fs"
import path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { columns } from "../../packages/slipway/src/commands/terminal/Output.ts"
import * as Interruptible from "../Interruptible.ts"
import * as Checkout from "./Checkout.ts"

/** A turn of a second: four words, one every 250 ms. */
const SECOND = "[[slow 4 250]]"
const LONGEST = 90

interface Row {
  readonly name: string
  readonly value: string
  readonly reach: string
}

const median = (values: ReadonlyArray<number>): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
const seconds = (millis: number): string => `${(millis / 1000).toFixed(2)} s`
const millis = (value: number): string => `${value.toFixed(0)} ms`

/** When the sandbox's n-th event of a type was recorded. */
const when = async (service: Checkout.Service, id: string, type: string, n = 1): Promise<number | undefined> =>
  (await service.events(id)).filter((event) => event.type === type)[n - 1]?.at

const ended = (service: Checkout.Service, id: string, n = 1) =>
  Checkout.until(`turn ${n} of ${id}`, LONGEST, () => when(service, id, "turn.completed", n))

/** On a machine of its own with one repository. */
const onMachine = <A>(
  checkout: string,
  files: number,
  use: (fleet: Checkout.Fleet, machine: string) => Promise<A>
): Promise<A> =>
  Effect.gen(function*() {
    // First: it goes last, when nothing mounts in it any more.
    const home = yield* Checkout.temporaryFolder
    const fleet = yield* Checkout.make(checkout)
    const repository = Checkout.makeRepository(path.join(home, "repositories/shop"), files)
    return yield* Effect.promise(async () => {
      const machine = path.join(home, "machine")
      const first = await fleet.start(machine)
      await fleet.command(machine, "repos", "add", "acme/shop", repository)
      await first.stop("SIGTERM")
      return use(fleet, machine)
    })
  }).pipe(Effect.scoped, Interruptible.run)

/** Sandboxes that have had their turn need no slot. */
const twentyOnEight = (checkout: string) =>
  onMachine(checkout, 20, async (fleet, machine): Promise<ReadonlyArray<Row>> => {
    const service = await fleet.start(machine, { SLIPWAY_WORKER_SLOTS: "8" })
    const began = Date.now()
    const ids = await Promise.all(Array.from({ length: 20 }, () => service.create(SECOND)))
    const ends = await Promise.all(ids.map((id) => Checkout.until(id, 60, () => when(service, id, "turn.completed")).catch(() => null)))
    const known = ends.filter((end) => end !== null)
    return [
      { name: "20 turns of a second on 8 slots: ended within a minute", value: String(known.length), reach: "20" },
      { name: "the last of them", value: seconds(Math.max(...known) - began), reach: "" }
    ]
  })

/** One alone, then a hundred at once. */
const hundredAtOnce = (checkout: string) =>
  onMachine(checkout, 20, async (fleet, machine): Promise<ReadonlyArray<Row>> => {
    const service = await fleet.start(machine, { SLIPWAY_WORKER_SLOTS: "200" })
    const alone: Array<number> = []
    for (let i = 0; i < 5; i++) {
      const began = Date.now()
      const id = await service.create("[[say hello]]")
      alone.push((await Checkout.until(id, LONGEST, () => when(service, id, "turn.started"))) - began)
      await ended(service, id)
    }
    const one = median(alone)
    const began = Date.now()
    const answers: Array<number> = []
    const ids = await Promise.all(Array.from({ length: 100 }, async () => {
      const id = await service.create("[[say hello]]")
      answers.push(Date.now() - began)
      return id
    }))
    const starts: Array<number> = []
    for (const id of ids) starts.push((await Checkout.until(id, LONGEST * 2, () => when(service, id, "turn.started"))) - began)
    const first = Math.min(...starts)
    return [
      { name: "one creation to its turn's start", value: seconds(one), reach: "" },
      {
        name: "100 creations: answered, median and slowest",
        value: `${millis(median(answers))}, ${millis(Math.max(...answers))}`,
        reach: ""
      },
      { name: "100 creations: to the first turn's start", value: `${seconds(first)} (${(first / one).toFixed(2)} x)`, reach: "<= 1.5 x" },
      { name: "100 creations: to the last turn's start", value: seconds(Math.max(...starts)), reach: "" }
    ]
  })

/** The offline agent by hand: from spawn to its answer to the first request. */
const bareStart = async (checkout: string): Promise<number> => {
  const taken: Array<number> = []
  const folder = path.join(checkout, "packages/adapters/agents/src/offline")
  // An earlier version has it as main.ts.
  const agent = path.join(folder, existsSync(path.join(folder, "main.ts")) ? "main.ts" : "OfflineAgent.main.ts")
  for (let i = 0; i < 5; i++) {
    const began = performance.now()
    const child = spawn(path.join(checkout, "node_modules/.bin/node"), [agent], { stdio: ["pipe", "pipe", "ignore"] })
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } })}\n`)
    await new Promise<void>((resolve) => child.stdout.once("data", () => resolve()))
    taken.push(performance.now() - began)
    child.kill("SIGKILL")
  }
  return median(taken)
}

/** Copies of a sandbox at rest, each a row and its folder. */
const multiply = (fleet: Checkout.Fleet, machine: string, count: number) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const trees = path.join(machine, "trees/sandboxes")
    const [kept] = yield* sql<{ readonly id: string }>`SELECT id FROM sandboxes LIMIT 1`
    const columnsOf = yield* sql<{ readonly name: string }>`
      SELECT column_name AS name FROM information_schema.columns
      WHERE table_name = 'sandboxes' AND column_name <> 'id' AND is_generated = 'NEVER' ORDER BY ordinal_position`
    const names = sql.literal(columnsOf.map(({ name }) => name).join(", "))
    for (let i = 0; i < count; i++) {
      const id = `c_${i.toString(8).replaceAll("0", "8").replaceAll("1", "9").padStart(12, "a")}`
      yield* sql`INSERT INTO sandboxes (id, ${names}) SELECT ${id}, ${names} FROM sandboxes WHERE id = ${kept?.id ?? ""}`
      cpSync(path.join(trees, kept?.id ?? ""), path.join(trees, id), { recursive: true })
    }
  }).pipe(
    Effect.provide(
      PgClient.layer({ url: Redacted.make(fleet.databaseUrl), startupParameters: { TimeZone: "UTC", search_path: "slipway, public" } })
    ),
    Effect.runPromise
  )

/** The least that a process uses in a period. */
const watch = async (pid: number, forSeconds: number) => {
  const before = Checkout.processorOf(pid)
  let resident = Number.POSITIVE_INFINITY
  for (let i = 0; i < forSeconds; i++) {
    await sleep(1000)
    resident = Math.min(resident, Checkout.residentOf(pid))
  }
  return { resident, cpu: (Checkout.processorOf(pid) - before) / forSeconds }
}

/** Many sandboxes at rest, one of which is woken. */
const atRest = (checkout: string, count: number) =>
  onMachine(checkout, 20, async (fleet, machine): Promise<ReadonlyArray<Row>> => {
    const service = await fleet.start(machine, { SLIPWAY_AGENT_IDLE_MINUTES: "1", SLIPWAY_WORKER_SLOTS: "8" })
    const ids: Array<string> = []
    for (let i = 0; i < 6; i++) ids.push(await service.create("[[say hello]]"))
    for (const id of ids) await ended(service, id)
    // Until every agent was without work for a minute.
    await sleep(80_000)
    const empty = await watch(service.pid, 70)
    await multiply(fleet, machine, count)
    await sleep(10_000)
    // Longer than from one look at what the machine holds to the next.
    const full = await watch(service.pid, 70)
    const wakes: Array<number> = []
    for (const id of ids) {
      const began = Date.now()
      await service.send(id, "[[say hello]]")
      wakes.push((await Checkout.until(id, LONGEST, () => when(service, id, "turn.started", 2))) - began)
      // Each alone, as the agent by hand is: what the one before still does is over.
      await Checkout.until(id, LONGEST, () => when(service, id, "sandbox.checkpoint", 2))
    }
    const bare = await bareStart(checkout)
    const limit = 1.2 * bare + 100
    return [
      {
        name: `${count} at rest: memory beyond an empty worker, each`,
        value: `${((full.resident - empty.resident) / count).toFixed(2)} KiB`,
        reach: "<= 2 KiB"
      },
      {
        name: `${count} at rest: processor time beyond an empty worker`,
        value: `${(full.cpu - empty.cpu).toFixed(1)} ms/s (${empty.cpu.toFixed(1)} empty)`,
        reach: "none"
      },
      {
        name: "from rest: message to the turn's start",
        value: millis(median(wakes)),
        reach: `<= ${millis(limit)} (agent: ${millis(bare)})`
      }
    ]
  })

/** A tree of 5,000 files, ten changed by each turn. */
const checkpoints = (checkout: string) =>
  onMachine(checkout, 5000, async (fleet, machine): Promise<ReadonlyArray<Row>> => {
    const service = await fleet.start(machine)
    const edits = (round: number) =>
      Array.from({ length: 10 }, (_, i) => `[[write path=src/part-${i}/file-${i * 100 + round}.txt content=round-${round}]]`).join(" ")
    const id = await service.create(edits(0))
    await ended(service, id)
    for (let round = 1; round < 12; round++) {
      await service.send(id, edits(round))
      await ended(service, id, round + 1)
    }
    const taken = await Checkout.until("checkpoints", 30, async () => {
      const found = (await service.events(id)).filter(({ type }) => type === "sandbox.checkpoint")
      return found.length >= 11 ? found : undefined
    }).catch(() => [])
    const times = taken.flatMap(({ data }) => typeof data["ms"] === "number" ? [data["ms"]] : [])
    return [{
      name: "checkpoint, 10 of 5,000 files changed",
      value: times.length === 0 ? "none taken" : millis(median(times)),
      reach: "<= 150 ms"
    }]
  })

/** A machine leaves, and another one goes on. */
const moving = (checkout: string) =>
  onMachine(checkout, 1000, async (fleet, machine): Promise<ReadonlyArray<Row>> => {
    const other = path.join(path.dirname(machine), "other")
    const taken: Array<number> = []
    const second = await fleet.start(other)
    const warm = await second.create("[[say hello]]")
    await ended(second, warm)
    await second.stop("SIGTERM")
    for (let i = 0; i < 5; i++) {
      const first = await fleet.start(machine)
      const id = await first.create("[[write path=a.txt content=b]]")
      await ended(first, id)
      await first.stop("SIGTERM")
      const next = await fleet.start(other)
      const began = Date.now()
      await next.send(id, "[[say hello]]")
      const start = await Checkout.until(id, 30, () => when(next, id, "turn.started", 2)).catch(() => null)
      await next.stop("SIGTERM")
      if (start === null) return [{ name: "on another machine: message to the turn's start", value: "not in 30 s", reach: "" }]
      taken.push(start - began)
    }
    return [{ name: "on another machine: message to the turn's start", value: millis(median(taken)), reach: "" }]
  })

const parts = { slots: twentyOnEight, burst: hundredAtOnce, rest: atRest, checkpoint: checkpoints, moving }

export const run = async (
  options: { readonly quick: boolean; readonly only: ReadonlyArray<string>; readonly before: string | null }
): Promise<void> => {
  const own = path.resolve(import.meta.dirname, "../..")
  const checkouts = [...(options.before === null ? [] : [path.resolve(options.before)]), own]
  const rows: Array<ReadonlyArray<string>> = [["WHAT", ...(options.before === null ? [] : ["BEFORE"]), "NOW", "REACH"]]
  for (const [name, part] of Object.entries(parts)) {
    if (options.only.length > 0 && !options.only.includes(name)) continue
    const found: Array<ReadonlyArray<Row>> = []
    for (const checkout of checkouts) {
      if (process.stderr.isTTY) process.stderr.write(`\r\u001b[2K${name} of ${checkout}`)
      found.push(await part(checkout, options.quick ? 200 : 2000))
    }
    const now = found.at(-1) ?? []
    rows.push(...now.map(({ name, reach }, i) => [name, ...found.map((of) => of[i]?.value ?? "-"), reach]))
  }
  if (process.stderr.isTTY) process.stderr.write("\r\u001b[2K")
  process.stdout.write(`${columns(rows)}\n`)
}
