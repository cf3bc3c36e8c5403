/** A proxy in front of the real server that spoils what goes through it, in one way at a time. */
import { Effect } from "effect"
import { createServer, type IncomingMessage, request as send, type ServerResponse } from "node:http"

/** A request on its way to the real server. */
export interface Asked {
  readonly method: string
  /** With its query, as it came. */
  readonly path: string
  /** Names as they came; several lines of one name are several pairs. */
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  readonly body: Buffer
}

/** An answer on its way back. Names are in lower case. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** The fault of the planted server. */
export interface Plant {
  /** Changes the request, or answers it instead of the real server. */
  readonly ask?: (asked: Asked) => Asked | Answer
  /** Changes the answer; of a stream and of a large download there are only the headers. */
  readonly reply?: (answer: Answer, asked: Asked) => Answer
  /** Changes a block of an event stream; `i` counts from 0. Some, one or no blocks come of it. */
  readonly block?: (block: string, i: number) => ReadonlyArray<string> | Promise<ReadonlyArray<string>>
}

/** Answers with more than this are passed on as they come. */
const LARGE = 8 * 2 ** 20

const read = async (message: IncomingMessage) => {
  const chunks: Array<Buffer> = []
  for await (const chunk of message) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

const pairs = (raw: ReadonlyArray<string>) =>
  raw.flatMap((name, i): ReadonlyArray<readonly [string, string]> => i % 2 === 0 ? [[name, raw[i + 1] ?? ""]] : [])

/** Headers that belong to one connection, or follow from the body. */
const OWN = new Set(["connection", "keep-alive", "transfer-encoding", "content-length"])

const forward = (to: string, { body, headers, method, path }: Asked, to2: ServerResponse) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    const { hostname, port } = new URL(to)
    const chunked = headers.some(([name]) => name.toLowerCase() === "transfer-encoding")
    const length = body.length > 0 || method === "POST"
      ? chunked ? ["Transfer-Encoding", "chunked"] : ["Content-Length", String(body.length)]
      : []
    const given = headers.filter(([name]) => !OWN.has(name.toLowerCase())).flat()
    let answered = false
    const request = send({ hostname, port, method, path, agent: false, headers: [...given, ...length] }, (response) => {
      answered = true
      resolve(response)
    })
    request.on("error", (error) => answered ? undefined : reject(error))
    to2.on("close", () => request.destroy())
    request.end(body)
  })

const pass = async (url: string, plant: Plant, request: IncomingMessage, response: ServerResponse) => {
  const asked: Asked = {
    method: request.method ?? "",
    path: request.url ?? "",
    headers: pairs(request.rawHeaders),
    body: await read(request)
  }
  const spoilt = plant.ask?.(asked) ?? asked
  const write = ({ body, headers, status }: Answer, whole = true) => {
    const { "content-length": length, ...rest } = headers
    // HEAD tells the length of what it does not send.
    const own = !whole ? {} : { "content-length": asked.method === "HEAD" ? length ?? "0" : String(body.length) }
    response.writeHead(status, {
      ...rest,
      ...(length === undefined && asked.method === "HEAD" || status === 204 ? {} : own)
    })
  }
  if ("status" in spoilt) {
    write(spoilt)
    response.end(spoilt.body)
    return
  }
  const upstream = await forward(url, spoilt, response)
  const { connection: _connection, "keep-alive": _keepAlive, "transfer-encoding": _encoding, ...headers } = Object
    .fromEntries(
      pairs(upstream.rawHeaders).map(([name, value]) => [name.toLowerCase(), value])
    )
  const status = upstream.statusCode ?? 0
  const change = plant.reply ?? ((answer: Answer) => answer)
  if (headers["content-type"]?.startsWith("text/event-stream") === true) {
    const answer = change({ status, headers, body: Buffer.alloc(0) }, asked)
    write(answer, false)
    response.flushHeaders()
    let text = ""
    let i = 0
    for await (const chunk of upstream) {
      const blocks = (text + (chunk as Buffer).toString("utf8")).split("\n\n")
      text = blocks.pop() ?? ""
      for (const block of blocks) {
        for (const out of await plant.block?.(block, i++) ?? [block]) response.write(`${out}\n\n`)
      }
    }
    response.end()
    return
  }
  if (Number(headers["content-length"]) > LARGE && asked.method !== "HEAD") {
    const answer = change({ status, headers, body: Buffer.alloc(0) }, asked)
    response.writeHead(answer.status, { ...answer.headers })
    upstream.pipe(response)
    return
  }
  const answer = change({ status, headers, body: await read(upstream) }, asked)
  write(answer)
  response.end(asked.method === "HEAD" ? undefined : answer.body)
}

/** Starts the proxy; `plant` chooses what it does wrong from then on. */
export const start = (url: string) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; plant(plant: Plant): void; readonly stop: () => void }>((resume) => {
      let current: Plant = {}
      const server = createServer({ requireHostHeader: false }, (request, response) => {
        pass(url, current, request, response).catch(() => response.destroy())
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({
          url: `http://127.0.0.1:${port}`,
          plant: (plant) => {
            current = plant
          },
          stop: () => {
            server.closeAllConnections()
            server.close()
          }
        }))
      })
    }),
    ({ stop }) => Effect.sync(stop)
  )
