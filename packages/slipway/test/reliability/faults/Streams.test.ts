/** Event streams that are cut anywhere, not read, asked for by the thousand, and clients that take their time. */
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect } from "effect"
import { EventSource } from "eventsource"
import { createServer as createHttpServer } from "node:http"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import path from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import type { Random } from "../../../testing/Random.ts"
import { chance, fault, type Found, plant, ROUNDS } from "./Battery.ts"
import type { Answer, Urls, World } from "./World.ts"
import * as Worlds from "./World.ts"

const { SANDBOXES, descriptorsOf, eventually, rssOf, tally, times } = Worlds

const world = Worlds.shared(Effect.succeed({
  name: "streams",
  settings: { SLIPWAY_STREAMS_PER_USER: "5000" }
}))
const { both, swept } = Worlds.cases(world)

const onWorld = (run: (real: World) => Promise<Found>) =>
  Effect.flatMap(
    world,
    (real) => Effect.tryPromise({ try: () => run(real), catch: (error) => error instanceof Error ? error : new Error(String(error)) })
  )

const quantile = (values: ReadonlyArray<number>, q: number) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))] ?? 0

// ---------------------------------------------------------------------------------------------------------------

/** Leads each connection to one of the servers and cuts it after so many bytes of its answers, as long as there are cuts left. */
const cutting = async (urls: Urls, random: Random, cuts: number, most: number) => {
  let left = cuts
  const server = createServer((client) => {
    const upstream = connect(Number(new URL(random.pick(urls)).port), "127.0.0.1")
    let bytes = left > 0 ? 1 + random.below(most) : Infinity
    for (const [one, other] of [[client, upstream], [upstream, client]] as const) {
      one.on("error", () => {})
      one.on("close", () => other.destroy())
    }
    client.pipe(upstream)
    upstream.on("data", (chunk: Buffer) => {
      if (chunk.length < bytes) {
        bytes -= chunk.length
        // A retry time of two seconds would make this case long: 10 ms, in a text of the same length.
        client.write(chunk.toString("latin1").replace("retry: 2000", "retry: 0010"), "latin1")
        return
      }
      left--
      client.write(chunk.subarray(0, bytes), () => client.resetAndDestroy())
      upstream.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    done: () => cuts - Math.max(0, left),
    close: () => server.close()
  }
}

const CLIENTS = 4
/** Bytes: a few thousand events are some hundred thousand. */
const LONGEST = 40_000

both("11 streams that are cut at random bytes, at both processes, read by the eventsource package", {
  "an event is left out now and then": {
    plant: { block: (block, i) => i === 30 ? [] : [block] },
    tells: /never seen/u
  },
  "the last event is repeated after a cut": {
    plant: {
      block: (() => {
        let last = ""
        return (block: string, i: number) => {
          const before = last
          if (block.startsWith("id:")) last = block
          return i === 1 && before !== "" ? [before, block] : [block]
        }
      })()
    },
    tells: /came after/u
  }
}, async (real, urls, rounds) => {
  const random = chance("cuts")
  const cuts = 5 * Math.max(4, rounds)
  const id = await Worlds.create(
    real,
    `${"[[say one]] [[shell true]] ".repeat(100)} [[slow 300 10]] ${"[[say two]] [[shell true]] ".repeat(100)}`
  )
  await Worlds.event(real, id, ({ type }) => type === "turn.started")
  const lost: Array<string> = []
  const clients = await Promise.all(
    times(CLIENTS).map(async () => {
      const line = await cutting(urls, random, Math.ceil(cuts / CLIENTS), LONGEST)
      const seen = new Map<number, string>()
      let last = 0
      const source = new EventSource(`${line.url}${SANDBOXES}/${id}/events/stream?since=0`, {
        fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, authorization: `Bearer ${real.key}` } })
      })
      source.onmessage = ({ data, lastEventId }) => {
        // A transient event repeats the id before it.
        if (JSON.parse(data).id === undefined) return
        const seq = Number(lastEventId)
        if (seq <= last) lost.push(`${seq} came after ${last}`)
        last = seq
        seen.set(seq, data)
      }
      return { seen, source, line, last: () => last }
    })
  )
  await Worlds.turnEnd(real, id)
  const replay = await Worlds.logOf(real, id)
  const head = Number(replay.at(-1)?.id)
  await eventually(
    "all readers at the end of the log",
    60_000,
    async () => clients.every(({ last, source }) => last() >= head || source.readyState === source.CLOSED) ? true : null
  ).catch(() => lost.push("some never came to the end"))
  for (const { last, line, seen, source } of clients) {
    if (source.readyState === source.CLOSED) lost.push(`a client gave up at ${last()} of ${head}`)
    source.close()
    line.close()
    for (const event of replay) {
      const data = seen.get(Number(event.id))
      if (data === undefined) lost.push(`${event.id} was never seen`)
      else if (JSON.stringify(JSON.parse(data)) !== JSON.stringify(event)) lost.push(`${event.id} was another one`)
    }
  }
  const done = clients.reduce((sum, { line }) => sum + line.done(), 0)
  await Worlds.terminate(real, id)
  return { done: `${CLIENTS} readers of ${replay.length} events, cut ${done} times`, lost }
})

// ---------------------------------------------------------------------------------------------------------------

const MIB = 2 ** 20
const GROWTH_MIB = 64
/** How long a reader may take nothing of what it was sent (docs/decisions/5), and how often that is looked at. */
const DROPPED_MILLIS = 30_000 + 2_000

interface Stalled {
  readonly socket: Socket
  /** The text that it read before it stopped. */
  readonly text: () => string
}

/** A reader that reads so many bytes and then no more. */
const stall = (url: string, address: string, key: string, bytes: number): Promise<Stalled> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    let text = ""
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1")
      if (text.length < bytes) return
      socket.pause()
      resolve({ socket, text: () => text })
    })
    socket.once("error", reject)
    socket.on("error", () => {})
    socket.write(`GET ${address} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`)
  })

/** Samples of a process's memory, in MiB, until it is stopped. */
const memory = (pid: number) => {
  const samples: Array<{ readonly at: number; readonly mebibytes: number }> = []
  const looking = setInterval(() => samples.push({ at: Date.now(), mebibytes: rssOf(pid) }), 100)
  return () => {
    clearInterval(looking)
    return samples
  }
}
const tooMuch = (mebibytes: number) => mebibytes > GROWTH_MIB ? [`memory grew by ${mebibytes.toFixed(0)} MiB`] : []

plant(
  "12 fifty readers that stop reading: a server hands everything to the socket at once",
  [],
  Effect.gen(function*() {
    const { pid, says } = yield* SpawnedProgram.scoped(process.execPath, [path.join(import.meta.dirname, "Buffering.mjs")])
    return yield* Effect.promise(async () => {
      const port = await says((output) => /^(\d+)\n/u.exec(output)?.[1])
      const before = rssOf(pid)
      const stalled = await Promise.all(times(10).map(() => stall(`http://127.0.0.1:${port}`, "/", "", 1)))
      await pause(500)
      const mebibytes = rssOf(pid) - before
      for (const { socket } of stalled) socket.destroy()
      return { done: "10 readers of 20 MiB each", lost: tooMuch(mebibytes) }
    })
  })
)

/** Milliseconds of requests, one after the other. */
const waits = async (real: World, id: string, many: number) => {
  const all: Array<number> = []
  for (const _ of times(many)) {
    const elapsed = Worlds.stopwatch(real.http[0].pid())
    const { status } = await real.ask(real.urls[0], `${SANDBOXES}/${id}/events?limit=10`, { key: real.key })
    all.push(status === 200 ? elapsed() : Infinity)
    await pause(10)
  }
  return all
}

/**
 * How long each reader was kept, from when the kernel took nothing more for it; `from`: when it was so for all, `to`: when the first
 * one was dropped.
 */
const leaving = async (url: string, stalled: ReadonlyArray<Stalled>) => {
  const last = new Map<Stalled, { readonly bytes: number; readonly at: number }>()
  const dropped = new Map<Stalled, number>()
  let to = Infinity
  for (const end = Date.now() + 3 * DROPPED_MILLIS; dropped.size < stalled.length && Date.now() < end; await pause(100)) {
    const open = Worlds.carried(url)
    for (const reader of stalled) {
      const bytes = open.get(reader.socket.localPort ?? 0)
      const before = last.get(reader)
      if (bytes === undefined) {
        if (!dropped.has(reader)) dropped.set(reader, Date.now() - (before?.at ?? end))
        to = Math.min(to, Date.now())
      } else if (before?.bytes !== bytes) last.set(reader, { bytes, at: Date.now() })
    }
  }
  const from = Math.max(...Array.from(last.values(), ({ at }) => at))
  return { dropped: stalled.map((reader) => dropped.get(reader) ?? Infinity), from, to }
}

const STALLED = 50
/** The time that does not count as waiting: others use the machine too. */
const JITTER_MILLIS = 50

fault(
  "12 fifty readers of 20 MiB that stop reading: memory, others, and what they find when they come back (long)",
  [],
  onWorld(async (real) => {
    const [server] = real.http
    const url = real.urls[0]
    // An event of 64 KB for each time it is recalled; a tool call between two makes each an event of its own.
    const id = await Worlds.create(real, `[[say Ready.]] ${"\u{1f600}".repeat(16_000)}`)
    await Worlds.turnEnd(real, id)
    const sent = await real.ask(url, `${SANDBOXES}/${id}/messages`, {
      key: real.key,
      body: { prompt: "[[recall]] [[write path=a content=b]] ".repeat(330) }
    })
    if (sent.status !== 201) throw new Error(sent.text)
    let ends = 0
    await Worlds.event(real, id, ({ type }) => type === "turn.completed" && ++ends === 2)
    const log = await Worlds.logOf(real, id)
    const bytes = log.reduce((sum, event) => sum + Buffer.byteLength(JSON.stringify(event)), 0)
    const small = await Worlds.create(real, "[[say small]]")
    await Worlds.turnEnd(real, small)
    const stream = `${SANDBOXES}/${id}/events/stream?since=0`
    const head = Number(log.at(-1)?.id)
    const alone = await waits(real, small, 200)
    // The process keeps memory for readers: it has it before and meanwhile.
    await Promise.all(times(10).map(() => resume(real, url, id, 0, head)))
    const before = rssOf(server.pid())
    const stop = memory(server.pid())
    const stalled = await Promise.all(times(STALLED).map((i) => stall(url, stream, real.key, 1 + i * 20_000)))
    const [{ dropped, from, to }, meanwhile] = await Promise.all([leaving(url, stalled), waits(real, small, 200)])
    const samples = stop()
    const still = samples.filter(({ at }) => at > from && at < to).map(({ mebibytes }) => mebibytes)
    const mebibytes = quantile(still, 0.5) - before
    const peak = Math.max(...samples.map(({ mebibytes }) => mebibytes)) - before
    const lost = tooMuch(mebibytes)
    const [p99, p99Alone] = [quantile(meanwhile, 0.99), quantile(alone, 0.99)]
    if (p99 > 2 * p99Alone + JITTER_MILLIS) lost.push(`others waited ${p99.toFixed(0)} ms, ${p99Alone.toFixed(0)} ms before`)
    const latest = Math.max(...dropped)
    if (latest > DROPPED_MILLIS) lost.push(`a reader was dropped after ${latest} ms`)
    for (const { text } of stalled.filter((_, i) => i % 10 === 0)) {
      const ids = [...text().matchAll(/^id: (\d+)\ndata: .*\n\n/gmu)].map(([, seq]) => Number(seq))
      ids.push(...await resume(real, real.urls[1], id, ids.at(-1) ?? 0, head))
      if (log.some((event) => !ids.includes(Number(event.id)))) {
        lost.push(`a reader that came back has ${ids.length} events of ${log.length}`)
      }
      if (new Set(ids).size !== ids.length) lost.push("a reader that came back has an event twice")
    }
    const others = `others' p99 ${p99.toFixed(0)} ms (${p99Alone.toFixed(0)} ms before)`
    const grown = `memory grew by ${mebibytes.toFixed(0)} MiB (${peak.toFixed(0)} at the most)`
    const told = `${grown}, ${others}, dropped within ${(latest / 1000).toFixed(1)} s`
    return { done: `${STALLED} readers of ${(bytes / MIB).toFixed(0)} MiB: ${told}`, lost }
  })
)

/** Ids after the one, to the head. */
const resume = (real: World, url: string, id: string, after: number, head: number) =>
  new Promise<ReadonlyArray<number>>((resolve) => {
    const ids: Array<number> = []
    let rest = ""
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    socket.on("error", () => {})
    socket.on("close", () => resolve(ids))
    socket.on("data", (chunk: Buffer) => {
      const frames = (rest + chunk.toString("latin1")).split("\n\n")
      rest = frames.pop() ?? ""
      for (const frame of frames) {
        const seq = /^id: (\d+)$/mu.exec(frame)?.[1]
        if (seq !== undefined) ids.push(Number(seq))
      }
      // Later events of the turn, such as its checkpoint, may come with it.
      if ((ids.at(-1) ?? 0) >= head) socket.destroy()
    })
    const address = `${SANDBOXES}/${id}/events/stream?since=${after}`
    socket.write(`GET ${address} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${real.key}\r\n\r\n`)
  })

// ---------------------------------------------------------------------------------------------------------------

const DESCRIPTORS = 1024
const STREAMS = 2_000

/** Asks for a stream and keeps it where it is given: the status, or 0 where the connection was not taken. */
const askStream = (url: string, address: string, key: string, from: string, kept: Array<Socket>): Promise<number> =>
  new Promise((resolve) => {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port), localAddress: from })
    socket.on("error", () => {})
    socket.once("close", () => resolve(0))
    socket.once("data", (chunk: Buffer) => {
      const status = Number(/^HTTP\/1\.1 (\d+)/u.exec(chunk.toString("latin1"))?.[1])
      if (status === 200) kept.push(socket.resume())
      else socket.destroy()
      resolve(status)
    })
    socket.write(`GET ${address} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`)
  })

fault(
  "13 two thousand streams asked of a process that may open 1,024 files",
  [],
  onWorld(async (real) => {
    const small = await real.service.http("http-small", {}, DESCRIPTORS)
    const keys = await Promise.all(times(10).map(() => real.mint("--grant", "shop")))
    const id = await Worlds.create(real, "[[hang]]")
    const address = `${SANDBOXES}/${id}/events/stream`
    const probe = async (): Promise<Answer> => Worlds.call(small.url, "/healthz", { from: "127.5.0.9" })
    await probe()
    const before = descriptorsOf(small.pid())
    const kept: Array<Socket> = []
    const statuses: Array<number> = []
    const lost: Array<string> = []
    let [most, isOver, probes] = [before, false, 0]
    const probing = (async () => {
      while (!isOver) {
        const { status } = await probe()
        probes++
        if (status !== 200) lost.push(`/healthz was answered ${status}`)
        most = Math.max(most, descriptorsOf(small.pid()))
        await pause(50)
      }
    })()
    const next = times(STREAMS).values()
    await Promise.all(
      times(50).map(async () => {
        for (const i of next) statuses.push(await askStream(small.url, address, keys[i % keys.length]?.key ?? "", "127.5.0.1", kept))
      })
    )
    isOver = true
    await probing
    const strange = statuses.filter((status) => ![0, 200, 429, 503].includes(status))
    if (strange.length > 0) lost.push(`answered ${tally(strange)}`)
    if (!statuses.includes(429) && !statuses.includes(503)) lost.push("no request was refused")
    for (const socket of kept) socket.destroy()
    const began = Date.now()
    await eventually("descriptors as before", 20_000, async () => descriptorsOf(small.pid()) <= before + 10 ? true : null)
      .catch(() => lost.push(`${descriptorsOf(small.pid())} descriptors are open, ${before} were before`))
    const again: Array<Socket> = []
    const status = await askStream(small.url, address, keys[0]?.key ?? "", "127.5.0.1", again)
    if (status !== 200) lost.push(`afterwards a stream is answered ${status}`)
    const backMillis = [Date.now() - began]
    for (const socket of again) socket.destroy()
    await Worlds.terminate(real, id)
    await small.stop()
    return { done: `${tally(statuses)}; ${probes} looks at /healthz; ${most} descriptors at most, ${before} before`, lost, backMillis }
  })
)

// ---------------------------------------------------------------------------------------------------------------

const SLOW = 500
const SLOW_HEADERS_MILLIS = 15_000
const PROBE_MILLIS = 1_000

/** Sends one piece each second, and reads hardly anything. */
const slow = (url: string, pid: number, from: string, begin: string, piece: string) => {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), localAddress: from, noDelay: true })
  const elapsed = Worlds.stopwatch(pid)
  let lasted: number | null = null
  const dripping = setInterval(() => {
    if (piece !== "") socket.write(piece)
    socket.read(1)
  }, 1_000)
  // A reset is noticed by who reads; a byte at a time.
  socket.on("readable", () => {
    if (piece !== "") socket.resume()
  })
  socket.on("error", () => {})
  socket.on("close", () => {
    lasted = elapsed()
    clearInterval(dripping)
  })
  socket.write(begin)
  return { socket, lasted: () => lasted }
}

/** How long each of many connections lasted whose headers never end; `Infinity`: longer than they may. */
const slowHeaders = async (url: string, pid: number, many: number) => {
  const elapsed = Worlds.stopwatch(pid)
  const all = times(many).map(() => slow(url, pid, "127.6.0.1", "GET / HTTP/1.1\r\nHost: x\r\n", "X-More: x\r\n"))
  while (elapsed() < SLOW_HEADERS_MILLIS && all.some(({ lasted }) => lasted() === null)) await pause(100)
  for (const { socket } of all) socket.destroy()
  return all.map(({ lasted }) => lasted() ?? Infinity)
}
const tooLong = (lasted: ReadonlyArray<number>) => {
  const late = lasted.filter((millis) => millis > SLOW_HEADERS_MILLIS)
  return late.length === 0 ? [] : [`${late.length} connections whose headers never end were open for more than 15 s`]
}

plant(
  "24 clients that send headers slowly: a server waits for headers for ever",
  [],
  Effect.gen(function*() {
    const server = yield* Effect.acquireRelease(
      Effect.promise(async () => {
        const made = createHttpServer({ headersTimeout: 0, requestTimeout: 0 })
        await new Promise<void>((resolve) => made.listen(0, "127.0.0.1", resolve))
        return made
      }),
      (made) =>
        Effect.sync(() => {
          made.closeAllConnections()
          made.close()
        })
    )
    const lasted = yield* Effect.promise(() => slowHeaders(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, process.pid, 10))
    return { done: "10 connections whose headers never end", lost: tooLong(lasted) }
  })
)

fault(
  "24 clients that send headers slowly, send bodies slowly and read slowly, 500 each (long)",
  [],
  onWorld(async (real) => {
    const [server] = real.http
    const url = real.urls[0]
    const before = descriptorsOf(server.pid())
    const lost: Array<string> = []
    const head = [
      `POST ${SANDBOXES} HTTP/1.1`,
      "Host: x",
      `Authorization: Bearer ${real.key}`,
      "Content-Type: application/json",
      "Content-Length: 100000",
      "",
      "{"
    ].join("\r\n")
    let isOver = false
    const waited: Array<number> = []
    const probing = (async () => {
      while (!isOver) {
        const elapsed = Worlds.stopwatch(server.pid())
        const { status } = await Worlds.call(url, "/healthz", { from: "127.6.0.9" })
        waited.push(status === 200 ? elapsed() : Infinity)
        await pause(100)
      }
    })()
    const bodies = times(SLOW).map(() => slow(url, server.pid(), "127.6.0.2", head, " "))
    const readers = times(SLOW).map(() =>
      slow(url, server.pid(), "127.6.0.3", "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20), "")
    )
    const lasted = await slowHeaders(url, server.pid(), SLOW)
    lost.push(...tooLong(lasted))
    await pause(Math.max(0, 3_000 * Math.min(20, ROUNDS) - SLOW_HEADERS_MILLIS) / 4)
    isOver = true
    await probing
    const most = Math.max(...waited)
    if (most > PROBE_MILLIS) lost.push(`/healthz took ${most.toFixed(0)} ms`)
    for (const { socket } of [...bodies, ...readers]) socket.destroy()
    const began = Date.now()
    await eventually("descriptors as before", 20_000, async () => descriptorsOf(server.pid()) <= before + 10 ? true : null)
      .catch(() => lost.push(`${descriptorsOf(server.pid())} descriptors are open, ${before} were before`))
    const headers = `slow headers were closed after ${(Math.max(...lasted) / 1000).toFixed(1)} s at most`
    return {
      done: `${headers}; ${waited.length} looks at /healthz, the longest ${most.toFixed(0)} ms`,
      lost,
      backMillis: [Date.now() - began]
    }
  })
)

swept()
