/**
 * The least that could do it: `node:http` and `pg`, no authentication, no framework. Streams are woken by the commit itself in this process
 * and by NOTIFY in others; one read and one encoding is for all readers of a sandbox. Transactions are as few round trips as they need.
 */
import { createServer, type ServerResponse } from "node:http"
import { Client, Pool, type PoolClient } from "pg"
import * as Creation from "./Creation.ts"
import * as Notify from "./Notify.ts"
import * as Protocol from "./Protocol.ts"

const { databaseUrl } = Protocol.options<Protocol.ServerOptions>()
const OPTIONS = {
  connectionString: databaseUrl,
  options: "-c search_path=slipway -c TimeZone=UTC -c lock_timeout=5s -c statement_timeout=30s"
}

const pool = new Pool({ ...OPTIONS, max: 10 })
// The database may end first.
pool.on("error", () => {})

// ---------------------------------------------------------------------------------------------------------------
// Streams

const LOG = { name: "log", text: "SELECT seq, wire FROM sandbox_events WHERE sandbox_id = $1 AND seq > $2 ORDER BY seq LIMIT $3" }
const HEAD = { name: "head", text: "SELECT status, last_seq AS seq FROM sandboxes WHERE id = $1" }
/** Events of one read. */
const PAGE = 1000
const HEARTBEAT_MILLIS = 15_000

interface Entry {
  readonly seq: string
  readonly wire: string
}

interface Watched {
  readonly readers: Set<ServerResponse>
  cursor: number
  reading: boolean
  again: boolean
}

const read = async (id: string, after: number) => (await pool.query<Entry>({ ...LOG, values: [id, after, PAGE] })).rows
const encode = (rows: ReadonlyArray<Entry>) => Buffer.from(rows.map(({ seq, wire }) => `id: ${seq}\ndata: ${wire}\n\n`).join(""))

const watched = new Map<string, Watched>()
const open = new Set<ServerResponse>()
setInterval(() => {
  for (const response of open) response.write(": hb\n\n")
}, HEARTBEAT_MILLIS).unref()

const spread = async (id: string): Promise<void> => {
  const all = watched.get(id)
  if (all === undefined) return
  all.again = true
  if (all.reading) return
  all.reading = true
  while (all.again) {
    all.again = false
    const rows = await read(id, all.cursor)
    if (rows.length === 0) continue
    all.cursor = Number(rows.at(-1)?.seq)
    const bytes = encode(rows)
    for (const reader of all.readers) reader.write(bytes)
    all.again ||= rows.length === PAGE
  }
  all.reading = false
}

/** Tells its own notifications apart. */
const origin = crypto.randomUUID()
const notify = Notify.by((topics) =>
  pool.query({ name: "notify", text: "SELECT pg_notify('slipway_bench', $1)", values: [`${origin} ${topics}`] })
)
const listening = new Client(OPTIONS)
listening.on("error", () => {})
listening.on("notification", ({ payload = "" }) => {
  const [from, ...topics] = payload.split(" ")
  if (from !== origin) { for (const id of topics) void spread(id) }
})
await listening.connect()
await listening.query("LISTEN slipway_bench")
const publish = (id: string) => {
  void spread(id)
  notify(id)
}

/** All after the cursor, a page for each time that the socket has drained. */
const replay = async (response: ServerResponse, id: string, since: number) => {
  for (let cursor = since;;) {
    const rows = await read(id, cursor)
    if (rows.length === 0) return cursor
    cursor = Number(rows.at(-1)?.seq)
    if (!response.write(encode(rows))) await new Promise((resolve) => response.once("drain", resolve))
  }
}

const stream = async (response: ServerResponse, id: string, since: number | null) => {
  const { rows: [head] } = await pool.query<{ readonly status: string; readonly seq: string }>({ ...HEAD, values: [id] })
  if (head === undefined) {
    response.writeHead(404).end()
    return
  }
  response.writeHead(200, {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-type": "text/event-stream; charset=utf-8",
    "x-accel-buffering": "no"
  })
  const status = { object: "sandbox.event", version: "v1", sandbox_id: id, type: "sandbox.status", data: { status: head.status } }
  response.write(`retry: 2000\n\n${since === null ? `data: ${JSON.stringify(status)}\n\n` : ""}`)
  const cursor = since === null ? Number(head.seq) : await replay(response, id, since)
  const all = watched.get(id) ?? { readers: new Set(), cursor, reading: false, again: false }
  watched.set(id, all)
  all.readers.add(response)
  open.add(response)
  response.once("close", () => {
    open.delete(response)
    all.readers.delete(response)
    if (all.readers.size === 0) watched.delete(id)
  })
}

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "", "http://localhost")
  const [, id] = /^\/api\/public\/v1\/sandboxes\/(c_[a-z2-9]{12})\/events\/stream$/u.exec(pathname) ?? []
  if (id === undefined) {
    response.writeHead(404).end()
    return
  }
  const since = searchParams.get("since")
  stream(response, id, since === null ? null : Number(since)).catch((error: unknown) => {
    response.destroy(error instanceof Error ? error : new Error(String(error)))
  })
})

// ---------------------------------------------------------------------------------------------------------------
// Transactions

const LOCK = { name: "lock", text: "SELECT turn, last_seq AS seq, log_bytes AS bytes FROM sandboxes WHERE id = $1 FOR UPDATE" }
const APPEND = {
  name: "append",
  text: `
    WITH logged AS (
      INSERT INTO sandbox_events (sandbox_id, seq, at, type, part_id, wire)
      SELECT $1, e.seq, $2, e.type, e.part, e.wire
      FROM jsonb_to_recordset($3::jsonb) AS e(seq bigint, type text, part text, wire text)
    )
    UPDATE sandboxes SET turn = $4::jsonb, last_seq = $5, log_bytes = $6, work_seq = $5 WHERE id = $1`
}

const commit = async (client: PoolClient, id: string, events: number): Promise<number> => {
  await client.query("BEGIN")
  const { rows: [row] } = await client.query<{ readonly turn: object; readonly seq: string; readonly bytes: string }>({
    ...LOCK,
    values: [id]
  })
  if (row === undefined) throw new Error(`no sandbox ${id}`)
  const at = new Date().toISOString()
  const message = `${Protocol.TURN}-message`
  const part = `${message}:text`
  const first = Number(row.seq) + 1
  const entries = Array.from({ length: events }, (_, i) => ({
    seq: first + i,
    type: "message.updated",
    part,
    wire: JSON.stringify({
      object: "sandbox.event",
      version: "v1",
      id: String(first + i),
      ts: at,
      sandbox_id: id,
      type: "message.updated",
      turn_id: Protocol.TURN,
      data: { part_id: part, message_id: message, kind: "text", text: Protocol.SAID }
    })
  }))
  const seq = first + events - 1
  const bytes = entries.reduce((sum, { wire }) => sum + Buffer.byteLength(wire), Number(row.bytes))
  const turn = JSON.stringify({ ...row.turn, speaking: message, spokeAt: seq })
  await client.query({ ...APPEND, values: [id, at, JSON.stringify(entries), turn, seq, bytes] })
  await client.query("COMMIT")
  return seq
}

const append = async (id: string, commits: number, perCommit: number): Promise<Protocol.Appended> => {
  const began = Protocol.now()
  let seq = 0
  const client = await pool.connect()
  try {
    for (let i = 0; i < commits; i++) {
      seq = await commit(client, id, perCommit)
      publish(id)
    }
    return { began, at: Protocol.now(), seq }
  } finally {
    client.release()
  }
}

const create = async (by: Protocol.Creator, connections: number, millis: number): Promise<Protocol.Loaded> => {
  const creators = new Pool({ ...OPTIONS, max: connections })
  const clients = await Promise.all(Array.from({ length: connections }, () => creators.connect()))
  const times: Array<number> = []
  const began = Protocol.now()
  const until = began + millis * 1e6
  await Promise.all(clients.map(async (client) => {
    for (let at = Protocol.now(); at < until;) {
      const body = {
        repos: [{ fullName: "acme/shop", ref: "main" }],
        prompt: `${times.length} ${Protocol.PROMPT}`,
        metadata: { ticket: `T-${times.length}`, team: "payments" }
      }
      const { rows } = await client.query(Creation.of(by, body, null).statement)
      if (rows.length !== 1) throw new Error("nothing was created")
      const done = Protocol.now()
      times.push(done - at)
      at = done
    }
    client.release()
  }))
  const took = (Protocol.now() - began) / 1e6
  await creators.end()
  return { requests: times.length, millis: took, ...Protocol.quantiles(times) }
}

server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  Protocol.answer(async (ask) => {
    switch (ask._tag) {
      case "Cpu":
        return Protocol.cpu()
      case "Memory":
        return await Protocol.memory()
      case "Append":
        return await append(ask.sandboxId, ask.commits, ask.perCommit)
      case "Create":
        return await create(ask.by, ask.connections, ask.millis)
      default:
        throw new Error(`a server cannot ${ask._tag}`)
    }
  })
  Protocol.ready(typeof address === "object" && address !== null ? address.port : 0)
})
