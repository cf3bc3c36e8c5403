/** HTTP as bytes: requests are sent unchanged, and replies are kept whole. */
import http, { type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from "node:http"
import https from "node:https"
import net from "node:net"
import tls from "node:tls"
import { Json, Miss, same, shown } from "./Expect.ts"
import { inBody, inPath, isCode, type Names, OURS } from "./Names.ts"

/** A request, with every fault that a rule may need. */
export interface Ask {
  readonly method?: string
  /** `null`: no Authorization. Absent: the client's own key. */
  readonly key?: string | null
  /** An array sends one line per item; `null` leaves out a default header. */
  readonly headers?: Readonly<Record<string, string | ReadonlyArray<string> | null>>
  /** Bytes and text are sent unchanged; other values as JSON. */
  readonly body?: unknown
  /** Leaves Content-Length out. */
  readonly chunked?: boolean
  /** Closes the connection after the headers. */
  readonly headersOnly?: boolean
}

/** An answer with its whole body. */
export class Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly bytes: Buffer
  /** The server's names. */
  readonly names: Names
  constructor(status: number, headers: IncomingHttpHeaders, bytes: Buffer, names: Names) {
    this.names = names
    this.status = status
    this.headers = headers
    this.bytes = bytes
  }
  get text(): string {
    return this.bytes.toString("utf8")
  }
  get json(): Json {
    try {
      return new Json(JSON.parse(this.text))
    } catch {
      throw new Miss("a JSON body", undefined, `${this.status} ${shown(this.text)}`)
    }
  }
  header(name: string): string | undefined {
    const value = this.headers[name]
    return Array.isArray(value) ? value.join(", ") : value
  }
}

/** `status code` of a refusal; only the status of other answers and of foreign ones. */
export const summary = ({ bytes, status, text }: Reply): string => {
  if (bytes.length === 0) return String(status)
  try {
    const code = new Json(JSON.parse(text)).at("error").at("code").value
    return typeof code === "string" ? `${status} ${code}` : String(status)
  } catch {
    return `${status} ${shown(text)}`
  }
}

const otherThan = (expected: string, reply: Reply) => new Miss(expected, undefined, summary(reply))

/** The reply, if it has the status; the rule is missed otherwise. `to` names the request. */
export const answered = (reply: Reply, status: number, to: string): Reply => {
  if (reply.status !== status) throw otherThan(`${status} to ${to}`, reply)
  return reply
}

/** Whether the reply has the contract's error body with this status and code. */
export const isRefusal = (reply: Reply, status: number, code: string): boolean => isCode(reply.names, summary(reply), status, code)

/** A refusal with that status and one of the codes. */
export const refused = (reply: Reply, status: number, code: string | ReadonlyArray<string>, to: string): Reply => {
  const codes = typeof code === "string" ? [code] : code
  if (!codes.some((wanted) => isRefusal(reply, status, wanted))) {
    throw otherThan(`${status} ${codes.join(" or ")} to ${to}`, reply)
  }
  return reply
}

/** One block of an event stream. */
export interface Block {
  /** Its lines as received. */
  readonly lines: ReadonlyArray<string>
  readonly id: string | undefined
  readonly data: Json | undefined
  readonly retry: string | undefined
}

const parseBlock = (text: string): Block => {
  const lines = text.split("\n").map((line) => line.replace(/\r$/u, ""))
  const field = (name: string) => {
    const found = lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /u, ""))
    return found.length === 0 ? undefined : found.join("\n")
  }
  const data = field("data")
  return {
    lines,
    id: field("id"),
    retry: field("retry"),
    data: data === undefined ? undefined : new Json(parseData(data))
  }
}
const parseData = (data: string): unknown => {
  try {
    return JSON.parse(data)
  } catch {
    throw new Miss("data of an event to be JSON", data)
  }
}

/** An open event stream. */
export class EventStream {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly #response: IncomingMessage
  readonly #blocks: Array<string> = []
  #text = ""
  #over = false
  #tell = () => {}

  constructor(response: IncomingMessage) {
    this.status = response.statusCode ?? 0
    this.headers = response.headers
    this.#response = response
    response.setEncoding("utf8")
    response.on("data", (chunk: string) => {
      const parts = (this.#text + chunk).split("\n\n")
      this.#text = parts.pop() ?? ""
      this.#blocks.push(...parts)
      this.#tell()
    })
    response.on("error", () => {})
    response.on("close", () => {
      this.#over = true
      this.#tell()
    })
  }

  get body(): string {
    return [...this.#blocks, this.#text].join("\n\n")
  }

  /** The next block, comments included; `null`: the stream ended. */
  async next(within: number): Promise<Block | null> {
    const until = Date.now() + within
    while (this.#blocks.length === 0 && !this.#over) {
      const left = until - Date.now()
      if (left <= 0) throw new Miss(`another block of the stream within ${within} ms`, undefined)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left)
        this.#tell = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    const block = this.#blocks.shift()
    return block === undefined ? null : parseBlock(block)
  }

  close(): void {
    this.#response.destroy()
  }
}

/** The service under test. */
export interface ClientOptions {
  /** The base address without a slash at its end. */
  readonly url: string
  readonly key: string
  /** The longest time of a request, including a wait of the server. */
  readonly timeoutMillis: number
  readonly names?: Names
  /** Called before a wait for the server's rate limit. */
  readonly onWait: (seconds: number) => void
  /** Sends each attempt of a request, or refuses to. */
  readonly around?: (
    ask: Ask & { readonly path: string; readonly key: string | null },
    send: () => Promise<Reply>
  ) => Promise<Reply>
  /** Gets every 429. */
  readonly onRefusal?: (reply: Reply) => void
}

/** The longest total wait for one request. */
const MAX_WAIT_SECONDS = 180
/** Seconds until the next try; a server that does not say gets 1. */
const delayOf = (retryAfter: string | undefined): number => Math.max(1, Number(/^\d{1,6}$/u.exec(retryAfter ?? "")?.[0] ?? 1))

/** Requests to the service under test. It retries nothing. */
export class Client {
  readonly options: ClientOptions
  readonly #agent: http.Agent
  readonly #names: Names
  constructor(options: ClientOptions) {
    this.options = options
    this.#names = options.names ?? OURS
    this.#agent = options.url.startsWith("https:")
      ? new https.Agent({ keepAlive: true })
      : new http.Agent({ keepAlive: true })
  }

  /** Sends one request; waits and repeats it after a 429. */
  async ask(ours: string, asked: Ask = {}): Promise<Reply> {
    const path = inPath(this.#names, ours)
    const ask = { ...asked, ...(asked.body === undefined ? {} : { body: inBody(this.#names, ours, asked.body) }) }
    const key = ask.key === undefined ? this.options.key : ask.key
    for (let waited = 0;;) {
      const send = () => this.#once(path, ask, key)
      const reply = await (this.options.around?.({ ...ask, path, key }, send) ?? send())
      if (reply.status !== 429) return reply
      this.options.onRefusal?.(reply)
      const seconds = delayOf(reply.header("retry-after"))
      waited += seconds
      if (waited > MAX_WAIT_SECONDS) {
        throw otherThan(`an answer within ${MAX_WAIT_SECONDS} s of waiting for the rate limit`, reply)
      }
      this.options.onWait(seconds)
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    }
  }

  /** Opens an event stream, whatever its status. */
  async stream(ours: string, ask: Pick<Ask, "key" | "headers"> = {}): Promise<EventStream> {
    const path = inPath(this.#names, ours)
    const key = ask.key === undefined ? this.options.key : ask.key
    for (let waited = 0;;) {
      const stream = await this.#send<EventStream>(
        path,
        { ...ask, method: "GET" },
        key,
        false,
        (response, resolve) => resolve(new EventStream(response))
      )
      if (stream.status !== 429) return stream
      stream.close()
      const seconds = delayOf(stream.headers["retry-after"])
      waited += seconds
      if (waited > MAX_WAIT_SECONDS) return stream
      this.options.onWait(seconds)
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    }
  }

  /** Writes bytes to a new connection and returns the first answer. Status 0: the server did not answer. */
  async raw(bytes: string | Uint8Array): Promise<Reply> {
    return parseRaw(await this.#exchange(bytes), this.#names)[0]
  }

  /** Writes several requests at once to a new connection and returns all answers in order. Repeats it after a 429. */
  async pipelined(bytes: string): Promise<ReadonlyArray<Reply>> {
    for (let waited = 0;;) {
      const replies: Array<Reply> = []
      for (let rest = await this.#exchange(bytes); rest.length > 0;) {
        const [reply, after] = parseRaw(rest, this.#names)
        replies.push(reply)
        rest = after
      }
      const refusal = replies.find(({ status }) => status === 429)
      if (refusal === undefined) return replies
      this.options.onRefusal?.(refusal)
      const seconds = delayOf(refusal.header("retry-after"))
      waited += seconds
      if (waited > MAX_WAIT_SECONDS) return replies
      this.options.onWait(seconds)
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    }
  }

  /** Writes bytes to a new connection and reads until it is closed. */
  #exchange(bytes: string | Uint8Array): Promise<Buffer> {
    const { hostname, port, protocol } = new URL(this.options.url)
    const secure = protocol === "https:"
    const host = hostname.replace(/^\[|\]$/gu, "")
    const to = { host, port: Number(port === "" ? secure ? 443 : 80 : port) }
    return new Promise((resolve, reject) => {
      const socket = secure ? tls.connect({ ...to, servername: host }) : net.connect(to)
      const chunks: Array<Buffer> = []
      socket.setTimeout(this.options.timeoutMillis, () => socket.destroy(new Error("no answer")))
      socket.once(secure ? "secureConnect" : "connect", () => socket.write(bytes))
      socket.on("data", (chunk: Buffer) => chunks.push(chunk))
      socket.on("error", (error) => chunks.length > 0 ? socket.destroy() : reject(error))
      socket.on("close", () => resolve(Buffer.concat(chunks)))
    })
  }

  /** Closes idle connections. */
  close(): void {
    this.#agent.destroy()
  }

  #once(path: string, ask: Ask, key: string | null): Promise<Reply> {
    return this.#send(path, ask, key, true, (response, resolve, reject) => {
      const chunks: Array<Buffer> = []
      const done = () => resolve(new Reply(response.statusCode ?? 0, response.headers, Buffer.concat(chunks), this.#names))
      if (ask.headersOnly === true) {
        done()
        response.destroy()
        return
      }
      response.on("data", (chunk: Buffer) => chunks.push(chunk))
      response.on("error", reject)
      response.on("end", done)
    })
  }

  #send<A>(
    path: string,
    { body, chunked = false, headers = {}, method = body === undefined ? "GET" : "POST" }: Ask,
    key: string | null,
    reuse: boolean,
    take: (response: IncomingMessage, resolve: (value: A) => void, reject: (error: Error) => void) => void
  ): Promise<A> {
    const { hostname, port, protocol, pathname } = new URL(this.options.url)
    const bytes = body === undefined || typeof body === "string" || body instanceof Uint8Array
      ? body
      : JSON.stringify(body)
    const lines: Record<string, string | number | ReadonlyArray<string> | null> = {
      ...(bytes === undefined ? {} : { "content-type": "application/json" }),
      ...(bytes === undefined
        ? method === "POST" ? { "content-length": 0 } : {}
        : chunked
        ? { "transfer-encoding": "chunked" }
        : { "content-length": Buffer.byteLength(bytes) }),
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...headers
    }
    const options: RequestOptions = {
      protocol,
      hostname: hostname.replace(/^\[|\]$/gu, ""),
      port,
      // Without URL, which would normalise deliberately odd paths.
      path: `${pathname.replace(/\/$/u, "")}${path}`,
      method,
      headers: Object.fromEntries(
        Object.entries(lines).flatMap(([name, value]) => value === null ? [] : [[name, typeof value === "object" ? [...value] : value]])
      ),
      agent: reuse ? this.#agent : false
    }
    return new Promise((resolve, reject) => {
      let answered = false
      const request = (protocol === "https:" ? https : http).request(options, (response) => {
        answered = true
        take(response, resolve, reject)
      })
      const { timeoutMillis } = this.options
      if (reuse) request.setTimeout(timeoutMillis, () => request.destroy(new Error(`no answer within ${timeoutMillis / 1000} s`)))
      // A server may answer, and close, before it has read a body that is too large.
      request.on("error", (error) => answered ? undefined : reject(error))
      request.end(bytes)
    })
  }
}

/** The first answer of these bytes, and the bytes after it. */
const parseRaw = (bytes: Buffer, names: Names): readonly [reply: Reply, rest: Buffer] => {
  const end = bytes.indexOf("\r\n\r\n")
  const [line = "", ...rest] = bytes.subarray(0, end < 0 ? bytes.length : end).toString("latin1").split("\r\n")
  const headers = Object.fromEntries(rest.map((header) => {
    const colon = header.indexOf(":")
    return [header.slice(0, colon).toLowerCase(), header.slice(colon + 1).trim()]
  }))
  const after = end < 0 ? Buffer.alloc(0) : bytes.subarray(end + 4)
  const [body, others] = headers["transfer-encoding"] === undefined
    ? split(after, Number(headers["content-length"] ?? after.length))
    : dechunked(after)
  return [new Reply(Number(line.split(" ")[1] ?? 0), headers, body, names), others]
}

const split = (bytes: Buffer, at: number) => [bytes.subarray(0, at), bytes.subarray(at)] as const

/** The content of chunks, and the bytes after the last one. */
const dechunked = (bytes: Buffer): readonly [body: Buffer, rest: Buffer] => {
  const found: Array<Buffer> = []
  for (let rest = bytes;;) {
    const line = rest.indexOf("\r\n")
    const size = Number.parseInt(rest.subarray(0, Math.max(line, 0)).toString("latin1"), 16)
    if (!(size > 0)) return [Buffer.concat(found), rest.subarray(line < 0 ? rest.length : line + 4)]
    found.push(rest.subarray(line + 2, line + 2 + size))
    rest = rest.subarray(line + 2 + size + 2)
  }
}

/** The body of every error, and nothing else. */
export const errorBody = (reply: Reply, to: string): void => {
  const { json } = reply
  same(json.keys, ["error"], `members of the body of ${to}`)
  same([...json.at("error").keys].sort(), ["code", "message"], `members of error of ${to}`)
  if (json.at("error").at("code").string === "" || json.at("error").at("message").string === "") {
    throw new Miss(`code and message of ${to}`, reply.text)
  }
}
