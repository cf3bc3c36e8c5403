/** Rows of logs and of the streams that follow them, beside `node:http` and `pg` without anything between. */
import { execFileSync } from "node:child_process"
import { setTimeout as sleep } from "node:timers/promises"
import type { Measurement } from "../Measurement.ts"
import { type Options, ROUNDS } from "../Rows.ts"
import { number } from "../Statistics.ts"
import type { At } from "./Material.ts"
import * as Protocol from "./Protocol.ts"
import { both, cpuOf, type Server, side, takeTurns } from "./Servers.ts"

interface Sides {
  readonly ours: Server
  readonly raw: Server
  readonly loader: Server
}

const append = (server: Server, sandboxId: string, commits: number, perCommit: number) =>
  server.child.ask<Protocol.Appended>({ _tag: "Append", sandboxId, commits, perCommit })

/** The latency of a turn's event that is alone in its transaction: events a second, and processor time of the writer, µs. */
export const appendOnce = async (server: Server, sandboxId: string, events: number) => {
  const [{ at, began }, cpu] = await cpuOf(server, () => append(server, sandboxId, events, 1))
  return { perSecond: events / (at - began) * 1e9, micros: (at - began) / 1e3 / events, cpu: cpu / events }
}

/** Begins the turn that what is appended is of. */
export const beginTurn = (ours: Server, sandboxId: string) => append(ours, sandboxId, 1, 0)

const appending = async ({ ours, raw }: Sides, sandboxId: string, { quick }: Options): Promise<Measurement> => {
  const events = quick ? 200 : 1000
  for (const server of [ours, raw]) await appendOnce(server, sandboxId, quick ? 100 : 500)
  const [a = [], b = []] = await takeTurns([ours, raw].map((server) => () => appendOnce(server, sandboxId, events)))
  return {
    id: "append",
    what: "event append, one turn",
    unit: "events/s",
    better: "higher",
    ours: side(ours.name, a, "perSecond"),
    theirs: side("pg", b, "perSecond"),
    reach: { times: 0.7 },
    notes: { "CPU µs": both("cpu", a, b) }
  }
}

const frames = [
  { readers: 1, commits: 50, gapMillis: 5 },
  { readers: 100, commits: 20, gapMillis: 25 },
  { readers: 1000, commits: 6, gapMillis: 200 }
]

/** From the commit to each reader that is open. */
const follow = async (
  server: Server,
  loader: Server,
  sandboxId: string,
  { commits, gapMillis, readers }: typeof frames[number]
) => {
  await loader.child.ask({ _tag: "Open", port: server.port, sandboxId, readers })
  const committed: Array<number> = []
  const [arrivals, cpu] = await cpuOf(server, async () => {
    for (let i = 0; i < commits; i++) {
      await sleep(gapMillis)
      committed.push((await append(server, sandboxId, 1, 1)).at)
    }
    return await loader.child.ask<Protocol.Arrivals>({ _tag: "Arrive", events: commits, all: true })
  })
  // Closing streams is not part of the cost of their frames.
  await loader.child.ask({ _tag: "Close" })
  // A frame may overtake the note of its commit by some microseconds.
  const latencies = arrivals.all.flatMap((times) => times.map((at, i) => Math.max(0, at - (committed[i] ?? Number.NaN))))
  return { ...Protocol.quantiles(latencies), cpu: cpu / latencies.length }
}

const following = async (
  { loader, ours, raw }: Sides,
  sandboxId: string,
  stream: typeof frames[number],
  { only, quick }: Options
): Promise<ReadonlyArray<Measurement>> => {
  const fewer = quick ? { ...stream, commits: Math.ceil(stream.commits / 2) } : stream
  for (const server of [ours, raw]) await follow(server, loader, sandboxId, fewer)
  const [a = [], b = []] = await takeTurns([ours, raw].map((server) => () => follow(server, loader, sandboxId, fewer)))
  const id = `frame-${stream.readers}`
  const what = `commit → frame, ${number(stream.readers)} reader${stream.readers === 1 ? "" : "s"}`
  const row = { unit: "ms", better: "lower" } as const
  const rows: ReadonlyArray<Measurement> = [
    {
      id,
      what,
      ...row,
      ours: side(ours.name, a, "p50"),
      theirs: side("node:http", b, "p50"),
      reach: { times: 0.9 },
      notes: { "CPU µs": both("cpu", a, b), "p99 ms": both("p99", a, b) }
    },
    {
      id: `${id}-p99`,
      what: `${what}, p99`,
      ...row,
      ours: side(ours.name, a, "p99"),
      theirs: null,
      reach: { most: 100 },
      notes: { "node:http": both("p99", b) }
    }
  ]
  return rows.filter((row) => only.has(row.id))
}

/** The load of a chatty agent: several events in each of many transactions, to all its followers. */
const EVENTS_PER_COMMIT = 20

const fanOut = async ({ loader, ours, raw }: Sides, sandboxId: string, { quick }: Options): Promise<Measurement> => {
  const readers = 1000
  const once = (commits: number) => async (server: Server) => {
    const events = commits * EVENTS_PER_COMMIT
    await loader.child.ask({ _tag: "Open", port: server.port, sandboxId, readers })
    const [[{ began, last }, cpu], loaded] = await cpuOf(loader, () =>
      cpuOf(server, async () => {
        const { began } = await append(server, sandboxId, commits, EVENTS_PER_COMMIT)
        return { began, last: (await loader.child.ask<Protocol.Arrivals>({ _tag: "Arrive", events, all: false })).last }
      }))
    await loader.child.ask({ _tag: "Close" })
    const sent = readers * events
    return { perSecond: sent / (last - began) * 1e9, cpu: cpu / sent, loaded: loaded / sent }
  }
  for (const server of [ours, raw]) await once(quick ? 3 : 10)(server)
  const [a = [], b = []] = await takeTurns([ours, raw].map((server) => () => once(quick ? 10 : 50)(server)))
  return {
    id: "fan-out",
    what: "events to 1,000 readers",
    unit: "events/s",
    better: "higher",
    ours: side(ours.name, a, "perSecond"),
    theirs: side("node:http", b, "perSecond"),
    reach: { times: 0.5 },
    notes: { "CPU µs": both("cpu", a, b), "readers' CPU µs": both("loaded", a, b) }
  }
}

const REPLAYED = 100_000
const REPLAYED_QUICK = 30_000

const replaying = async ({ loader, ours, raw }: Sides, { copyLast }: At, sandboxId: string, { quick }: Options): Promise<Measurement> => {
  const events = quick ? REPLAYED_QUICK : REPLAYED
  const { seq } = await append(ours, sandboxId, 1, 1)
  await copyLast(sandboxId, seq, events)
  const once = async (server: Server) => {
    const [millis, cpu] = await cpuOf(
      server,
      () => loader.child.ask<number>({ _tag: "Replay", port: server.port, sandboxId, since: seq, events })
    )
    return { perSecond: events / millis * 1000, cpu: cpu / events }
  }
  for (const server of [ours, raw]) await once(server)
  const [a = [], b = []] = await takeTurns([ours, raw].map((server) => () => once(server)))
  return {
    id: "replay",
    what: `replay of ${number(events)} events`,
    unit: "events/s",
    better: "higher",
    ours: side(ours.name, a, "perSecond"),
    theirs: side("node:http", b, "perSecond"),
    reach: { times: 0.5, least: 50_000 },
    notes: { "CPU µs": both("cpu", a, b) }
  }
}

const FIRST_STREAMS = 200

/** Memory of servers that have done nothing else. The growth in each further step of streams is a sample. */
export const memory = async ({ loader, ours, raw }: Sides, { quick }: Options): Promise<Measurement> => {
  const step = quick ? 300 : 1000
  const open = (server: Server, readers: number) => loader.child.ask({ _tag: "Open", port: server.port, sandboxId: null, readers })
  const remembered = ({ child }: Server) => child.ask<number>({ _tag: "Memory" })
  const sides = [ours, raw]
  // The reading process has the streams of both sides.
  const descriptors = Number(execFileSync("sh", ["-c", "ulimit -n"], { encoding: "utf8" }))
  const needed = sides.length * (FIRST_STREAMS + step * ROUNDS) + 100
  if (descriptors < needed) throw new Error(`idle streams need ${needed} descriptors, there are ${descriptors}: ulimit -n ${needed}`)
  // The first streams also cause one-time costs: compiled code, filled pools.
  for (const server of sides) await open(server, FIRST_STREAMS)
  const before = new Map<Server, number>()
  for (const server of sides) before.set(server, await remembered(server))
  const rounds = await takeTurns(
    sides.map((server) => async () => {
      await open(server, step)
      const now = await remembered(server)
      const kilobytes = (now - (before.get(server) ?? Number.NaN)) / step / 1024
      before.set(server, now)
      return { kilobytes }
    }),
    ROUNDS
  )
  const [a = [], b = []] = rounds
  await loader.child.ask({ _tag: "Close" })
  return {
    id: "stream-memory",
    what: `memory of an idle stream, ${number(step * ROUNDS)} open`,
    unit: "KB",
    better: "lower",
    ours: side(ours.name, a, "kilobytes"),
    theirs: side("node:http", b, "kilobytes"),
    reach: { times: 1 / 1.5 },
    notes: { "RSS MB": [ours, raw].map((server) => number((before.get(server) ?? Number.NaN) / 1024 ** 2)).join(" / ") }
  }
}

export const measure = async (at: At, sides: Sides, options: Options): Promise<ReadonlyArray<Measurement>> => {
  const { only, say } = options
  const [appended = "", followed = "", spread = "", replayed = ""] = at.material.followed.sandboxIds
  const measured: Array<Measurement> = []
  await sides.loader.child.ask({ _tag: "Material", material: at.material })
  for (const id of at.material.followed.sandboxIds) await beginTurn(sides.ours, id)
  if (only.has("append")) {
    say("event append")
    measured.push(await appending(sides, appended, options))
  }
  for (const stream of frames) {
    if (!only.has(`frame-${stream.readers}`) && !only.has(`frame-${stream.readers}-p99`)) continue
    say(`commit → frame, ${stream.readers}`)
    measured.push(...await following(sides, followed, stream, options))
  }
  if (only.has("fan-out")) {
    say("events to 1,000 readers")
    measured.push(await fanOut(sides, spread, options))
  }
  if (only.has("replay")) {
    say("replay")
    measured.push(await replaying(sides, at, replayed, options))
  }
  return measured
}
