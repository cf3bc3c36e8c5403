/**
 * Makes requests and reads event streams, in a process of its own. On raw sockets: a general client would need as much
 * CPU as the servers it measures, on the same cores.
 */
import { connect, type Socket } from "node:net"
import * as Protocol from "./Protocol.ts"

const SANDBOXES = "/api/public/v1/sandboxes"

let material: Protocol.Material = {
  keys: [],
  unknownKeys: [],
  limitedKeys: [],
  sandboxIds: [],
  reads: [],
  followed: { sandboxIds: [], keys: [] }
}
let turn = 0
const next = <A>(items: ReadonlyArray<A>): A => {
  const item = items[turn++ % items.length]
  if (item === undefined) throw new Error("no material")
  return item
}
const run = process.pid.toString(36)

const get = (path: string, key: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nAccept: */*\r\n\r\n`

const post = (path: string, key: string, headers: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n` +
  `Content-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`

/** One request of each kind, and the status it must get. */
const targets: Record<Protocol.Target, { readonly status: number; request(): string }> = {
  get: {
    status: 200,
    request: () => {
      const [sandboxId, key] = next(material.reads)
      return get(`${SANDBOXES}/${sandboxId}`, key)
    }
  },
  malformed: { status: 401, request: () => get(`${SANDBOXES}/${next(material.sandboxIds)}`, `${next(material.keys).slice(0, -1)}_`) },
  unknown: { status: 401, request: () => get(`${SANDBOXES}/${next(material.sandboxIds)}`, next(material.unknownKeys)) },
  limited: { status: 429, request: () => get(`${SANDBOXES}/${next(material.sandboxIds)}`, next(material.limitedKeys)) },
  list: { status: 200, request: () => get(`${SANDBOXES}?limit=100`, next(material.keys)) },
  create: {
    status: 201,
    request: () =>
      post(
        SANDBOXES,
        next(material.keys),
        `Idempotency-Key: ${run}-${turn}\r\n`,
        JSON.stringify({
          repos: [{ fullName: "acme/shop", ref: "main" }],
          prompt: `${turn} ${Protocol.PROMPT}`,
          metadata: { ticket: `T-${turn}`, team: "payments" }
        })
      )
  }
}

/** Refused requests that come from one address: fewer than may come before the answer is 429 (docs/decisions/10). */
const REFUSALS_PER_ADDRESS = 50

/** Our next address; all of 127.0.0.0/8 is this machine. */
let addresses = 0
const address = () => {
  addresses++
  return `127.${1 + (addresses >> 16 & 0x7f)}.${addresses >> 8 & 0xff}.${addresses & 0xff}`
}

/** A connection that sends one request after the other. */
class Connection {
  readonly #socket: Socket
  readonly #opened: Promise<void>
  #parts: Array<Buffer> = []
  #missing = 0
  #answered: ((status: number) => void) | null = null
  #status = 0
  failed: Error | null = null

  constructor(port: number) {
    this.#socket = connect({ port, host: "127.0.0.1", localAddress: address(), noDelay: true })
    this.#opened = new Promise((resolve) => this.#socket.once("connect", resolve))
    this.#socket.on("error", (error) => this.failed = error)
    this.#socket.on("data", (chunk) => this.#take(chunk))
  }

  async request(text: string): Promise<number> {
    await this.#opened
    return await new Promise<number>((resolve) => {
      this.#answered = resolve
      this.#socket.write(text)
    })
  }

  #take(chunk: Buffer) {
    if (this.#missing > 0) {
      this.#missing -= chunk.length
    } else {
      const bytes = this.#parts.length === 0 ? chunk : Buffer.concat([...this.#parts, chunk])
      const end = bytes.indexOf("\r\n\r\n")
      if (end < 0) {
        this.#parts = [bytes]
        return
      }
      this.#parts = []
      const head = bytes.toString("latin1", 0, end)
      const length = /\r\ncontent-length: (\d+)/iu.exec(head)?.[1]
      if (length === undefined) throw new Error(`an answer without a length: ${head}`)
      this.#status = Number(head.slice(9, 12))
      this.#missing = end + 4 + Number(length) - bytes.length
    }
    if (this.#missing < 0) throw new Error("more bytes than the answer has")
    if (this.#missing === 0) this.#answered?.(this.#status)
  }

  close() {
    this.#socket.destroy()
  }
}

const load = async (port: number, target: Protocol.Target, connections: number, millis: number): Promise<Protocol.Loaded> => {
  const { request, status } = targets[target]
  const times: Array<number> = []
  const began = Protocol.now()
  const until = began + millis * 1e6
  await Promise.all(Array.from({ length: connections }, async () => {
    let connection = new Connection(port)
    let sent = 0
    for (let at = Protocol.now(); at < until;) {
      if (status === 401 && ++sent % REFUSALS_PER_ADDRESS === 0) {
        connection.close()
        connection = new Connection(port)
      }
      const got = await connection.request(request())
      if (got !== status) throw new Error(`${target}: ${got} instead of ${status}`)
      const done = Protocol.now()
      times.push(done - at)
      at = done
    }
    connection.close()
  }))
  const took = (Protocol.now() - began) / 1e6
  return { requests: times.length, millis: took, ...Protocol.quantiles(times) }
}

const ID = Buffer.from("\nid: ")

/**
 * One event stream, and the times at which its events came. It looks for the beginnings of events in the bytes as they come: decoding the
 * frames of 1,000 readers would take more of the machine than writing them.
 */
class Reader {
  readonly arrivals: Array<number> = []
  readonly opened: Promise<void>
  readonly #socket: Socket
  /** The end of the chunk before, in which an event may begin. */
  #rest = Buffer.alloc(0)
  #head = ""
  #isOpen = false
  #closed = false
  #awaited: { readonly events: number; readonly resolve: () => void } | null = null

  constructor(port: number, path: string, key: string) {
    const { promise, reject, resolve } = Promise.withResolvers<void>()
    this.opened = promise
    this.#socket = connect(
      { port, host: "127.0.0.1", localAddress: address(), noDelay: true },
      () => this.#socket.write(get(path, key))
    )
    this.#socket.on("data", (chunk) => {
      const at = Protocol.now()
      if (!this.#isOpen) this.#open(chunk, resolve)
      const seam = Buffer.concat([this.#rest, chunk.subarray(0, ID.length - 1)])
      if (seam.includes(ID)) this.arrivals.push(at)
      for (let found = chunk.indexOf(ID); found >= 0; found = chunk.indexOf(ID, found + ID.length)) this.arrivals.push(at)
      this.#rest = (chunk.length < ID.length ? seam : chunk).subarray(-(ID.length - 1))
      if (this.#awaited !== null && this.arrivals.length >= this.#awaited.events) this.#awaited.resolve()
    })
    this.#socket.once("error", reject)
    this.#socket.once("close", () => {
      if (this.#closed) return
      const error = new Error(`a stream ended early, after ${this.arrivals.length} events: ${this.#head}`)
      if (this.#isOpen) throw error
      reject(error)
    })
  }

  /** A fresh reader has a snapshot and the status, one with a cursor the events after it. */
  #open(chunk: Buffer, resolve: () => void) {
    this.#head += chunk.toString("latin1")
    if (!this.#head.startsWith("HTTP/1.1 200") && this.#head.length > 12) throw new Error(this.#head)
    this.#isOpen = this.#head.includes(`"type":"sandbox.status"`) || this.#head.includes("\nid: ")
    if (this.#isOpen) resolve()
  }

  has(events: number) {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#awaited = { events, resolve }
    if (this.arrivals.length >= events) resolve()
    return promise
  }

  close() {
    this.#closed = true
    this.#socket.destroy()
  }
}

let readers: Array<Reader> = []

const open = async (port: number, sandboxId: string | null, count: number) => {
  // A storm of connections is not what is measured.
  for (let i = 0; i < count; i += 50) {
    const some = Array.from({ length: Math.min(50, count - i) }, () => {
      const [id, key] = sandboxId === null ? next(material.reads) : [sandboxId, next(material.followed.keys)] as const
      return new Reader(port, `${SANDBOXES}/${id}/events/stream`, key)
    })
    await Promise.all(some.map((reader) => reader.opened))
    readers.push(...some)
  }
}

const arrived = async (events: number, all: boolean): Promise<Protocol.Arrivals> => {
  await Promise.all(readers.map((reader) => reader.has(events)))
  const arrivals = readers.map((reader) => reader.arrivals)
  const surplus = arrivals.find(({ length }) => length !== events)
  if (surplus !== undefined) throw new Error(`${surplus.length} events instead of ${events}`)
  return { last: arrivals.reduce((last, times) => Math.max(last, times.at(-1) ?? 0), 0), all: all ? arrivals : [] }
}

const close = () => {
  for (const reader of readers) reader.close()
  readers = []
}

const replay = async (port: number, sandboxId: string, since: number, events: number): Promise<number> => {
  const began = Protocol.now()
  const reader = new Reader(port, `${SANDBOXES}/${sandboxId}/events/stream?since=${since}`, next(material.followed.keys))
  await reader.opened
  await reader.has(events)
  reader.close()
  return ((reader.arrivals[events - 1] ?? Number.NaN) - began) / 1e6
}

Protocol.answer(async (ask) => {
  switch (ask._tag) {
    case "Material":
      material = ask.material
      return null
    case "Load":
      return await load(ask.port, ask.target, ask.connections, ask.millis)
    case "Open":
      return await open(ask.port, ask.sandboxId, ask.readers)
    case "Arrive":
      return await arrived(ask.events, ask.all)
    case "Close":
      return close()
    case "Replay":
      return await replay(ask.port, ask.sandboxId, ask.since, ask.events)
    case "Cpu":
      return Protocol.cpu()
    default:
      throw new Error(`the load cannot ${ask._tag}`)
  }
})
Protocol.ready(null)
