/**
 * Facts about a request and its reply below HTTP's objects: raw header lines, the other end of the connection, and how much of the
 * reply the reader has taken. Node knows all of them. The host of a web `Request` has read the lines and keeps the connection.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { type Cause, Effect, Queue, Stream } from "effect"
import type { HttpServerRequest } from "effect/http"
import { type IncomingMessage, ServerResponse } from "node:http"
import type { Socket } from "node:net"

/** Somebody who is sent bytes. */
export interface Reader {
  /** Bytes that were sent and that the reader did not take yet. */
  readonly waiting: number
  /** Those that it took. */
  readonly taken: number
  /** Breaks the reply off. */
  cut(): void
}

/** Where the bytes of a reply go that are written as they come. */
export interface Outlet {
  /** Takes it in any case, text as UTF-8. `false`: as much is waiting as should; `onDrain` tells when the reader took it. */
  write(text: string | Uint8Array): boolean
  /** Calls this once, when the reader took what was waiting. */
  onDrain(listener: () => void): void
}

export interface Wire {
  /** The request as its host has it. */
  readonly source: object
  readonly reader: Reader
  /** The version of HTTP that the request names; `null`: its host read it, and says where it ends. */
  readonly version: string | null
  /** The beginning of the request's path that a framework took off. */
  readonly mount: string
  /** The other end of the connection, empty if that is gone; `null`: the host does not tell. */
  readonly peer: string | null
  /** Whether more was written than is sent at once. */
  readonly stalled: boolean
  /** Lines of a header as they came. Node keeps the first of some headers and joins others; web hosts join all. */
  lines(name: string): ReadonlyArray<string>
  /** Bytes of the address and of all headers, where the host does not limit them. */
  headBytes(): number
  /** No other request is read from this connection. */
  closeAfter(): void
  /**
   * The body of a reply, of what `fill` writes, until that is done. Interrupted when the reader leaves. No fiber runs for a
   * write: who has something to say to many readers says it to each at once.
   */
  body(fill: (outlet: Outlet) => Effect.Effect<void>): Stream.Stream<Uint8Array>
  /** Breaks the reply off. */
  cut(): void
  /** Calls this when the reply was sent, or broken off. */
  onClose(listener: () => void): void
}

/** Counters of the handle beneath a socket, which Node's own timeouts use; not in its types. */
interface Handle {
  /** Handed to the system, or waiting for it. */
  readonly bytesWritten: number
  /** Waiting for it. */
  readonly writeQueueSize: number
}

export class SocketReader implements Reader {
  readonly #socket: Socket
  constructor(socket: Socket) {
    this.#socket = socket
  }
  get #handle() {
    return (this.#socket as Socket & { readonly _handle?: Handle | null })._handle ?? null
  }
  get waiting() {
    return this.#handle?.writeQueueSize ?? 0
  }
  get taken() {
    return (this.#handle?.bytesWritten ?? 0) - this.waiting
  }
  cut() {
    this.#socket.destroy()
  }
}

const chunks = new WeakMap<Uint8Array, Buffer>()

/** A chunk of a body, as HTTP/1.1 frames it; of bytes that many readers share, once for all. */
const chunkOf = (text: string | Uint8Array): string | Buffer => {
  if (typeof text === "string") return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
  const known = chunks.get(text)
  if (known !== undefined) return known
  const chunk = Buffer.concat([Buffer.from(`${text.byteLength.toString(16)}\r\n`), text, Buffer.from("\r\n")])
  chunks.set(text, chunk)
  return chunk
}

class NodeWire implements Wire, Outlet {
  readonly #message: IncomingMessage & { readonly baseUrl?: unknown }
  readonly #response: ServerResponse
  /** Node was given the first piece, and the head before it. */
  #begun = false
  constructor(message: IncomingMessage, response: ServerResponse) {
    this.#message = message
    this.#response = response
  }
  get source() {
    return this.#message
  }
  get reader() {
    return new SocketReader(this.#message.socket)
  }
  get version() {
    return this.#message.httpVersion
  }
  get mount() {
    // Express says it; what has no such field took nothing off.
    const { baseUrl } = this.#message
    return typeof baseUrl === "string" ? baseUrl : ""
  }
  get peer() {
    return this.#message.socket.remoteAddress ?? ""
  }
  get stalled() {
    return this.#response.writableNeedDrain || this.#direct?.writableNeedDrain === true
  }
  lines(name: string) {
    const { rawHeaders } = this.#message
    const lines: Array<string> = []
    for (let i = 0; i < rawHeaders.length; i += 2) {
      if (rawHeaders[i]?.length === name.length && rawHeaders[i]?.toLowerCase() === name) lines.push(rawHeaders[i + 1] ?? "")
    }
    return lines
  }
  headBytes() {
    return 0
  }
  closeAfter() {
    this.#response.shouldKeepAlive = false
  }
  /** Past the stream, which is asked for when the head is written, and which is empty. */
  body(fill: (outlet: Outlet) => Effect.Effect<void>) {
    return Stream.fromEffectDrain(fill(this))
  }
  /**
   * The connection, where chunks may go past Node, which hands the system each in three pieces: that takes 8 µs, one in one piece 6
   * (2026-11-24). Not where a framework has put something into the way, as Express' compression does.
   */
  get #direct() {
    const response = this.#response
    return this.#begun && response.chunkedEncoding && !response.writableEnded && response.write === ServerResponse.prototype.write
      ? response.socket
      : null
  }
  write(text: string | Uint8Array) {
    const socket = text.length === 0 ? null : this.#direct
    if (socket !== null) return socket.write(chunkOf(text))
    this.#begun = true
    return this.#response.write(text)
  }
  onDrain(listener: () => void) {
    const emitter = this.#direct ?? this.#response
    emitter.once("drain", listener)
  }
  cut() {
    this.#response.destroy()
  }
  onClose(listener: () => void) {
    this.#response.on("close", listener)
  }
}

/** Bytes of a web reply that may wait before it counts as stalled: as many as in a socket of Node. */
const WEB_BUFFER_BYTES = 64 * 1024

const utf8 = new TextEncoder()

/** A request as a web host hands it over. */
export class WebWire implements Wire, Reader {
  readonly version = null
  readonly mount = ""
  readonly peer: string | null
  readonly #request: Request
  readonly #listeners: Array<() => void> = []
  #body: { readonly controller: ReadableStreamDefaultController<Uint8Array>; readonly abandon: () => void } | null = null
  #written = 0
  #closed = false

  /** `peer`: the client's address, or that of a proxy; `null`: unknown. */
  constructor(request: Request, peer: string | null) {
    this.#request = request
    this.peer = peer
    ofRequests.set(request, this)
  }
  get source() {
    return this.#request
  }
  get reader() {
    return this
  }
  get waiting() {
    return this.#body === null ? 0 : WEB_BUFFER_BYTES - (this.#body.controller.desiredSize ?? WEB_BUFFER_BYTES)
  }
  get taken() {
    return this.#written - this.waiting
  }
  get stalled() {
    return this.waiting >= WEB_BUFFER_BYTES
  }
  lines(name: string) {
    const line = this.#request.headers.get(name)
    return line === null ? [] : [line]
  }
  headBytes() {
    let bytes = this.#request.url.length
    // As on the wire, with `: ` between them and a line's end.
    for (const [name, value] of this.#request.headers) bytes += name.length + value.length + 4
    return bytes
  }
  closeAfter() {}
  body(fill: (outlet: Outlet) => Effect.Effect<void>) {
    return Stream.suspend(() => {
      let waiting = 0
      let drained = () => {}
      const outlet = (queue: Queue.Queue<Uint8Array, Cause.Done>): Outlet => ({
        write: (text) => {
          const bytes = typeof text === "string" ? utf8.encode(text) : text
          waiting += bytes.byteLength
          Queue.offerUnsafe(queue, bytes)
          return waiting < WEB_BUFFER_BYTES
        },
        onDrain: (listener) => {
          drained = listener
        }
      })
      return Stream.callback<Uint8Array>((queue) => Effect.andThen(fill(outlet(queue)), Queue.end(queue))).pipe(
        Stream.rechunk(1),
        Stream.tap((bytes) =>
          Effect.sync(() => {
            waiting -= bytes.byteLength
            if (waiting === 0) drained()
          })
        )
      )
    })
  }
  onClose(listener: () => void) {
    if (this.#closed) listener()
    else this.#listeners.push(listener)
  }
  closed() {
    this.#closed = true
    for (const listener of this.#listeners.splice(0)) listener()
  }
  cut() {
    if (this.#closed) return
    this.#body?.controller.error(new Error("the reply was broken off"))
    this.#body?.abandon()
    this.closed()
  }
  /** The same bytes, so that it shows how many the host took. */
  watched(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
    const source = body.getReader()
    const abandon = () => void source.cancel().catch(() => {})
    const { signal } = this.#request
    signal.addEventListener("abort", () => this.cut(), { once: true })
    const watched = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#body = { controller, abandon }
      },
      pull: async (controller) => {
        try {
          const { done, value } = await source.read()
          if (done) {
            controller.close()
            return this.closed()
          }
          this.#written += value.byteLength
          controller.enqueue(value)
        } catch (error) {
          controller.error(error)
          this.closed()
        }
      },
      cancel: () => {
        abandon()
        this.closed()
      }
    }, new ByteLengthQueuingStrategy({ highWaterMark: WEB_BUFFER_BYTES }))
    if (signal.aborted) this.cut()
    return watched
  }
}

const ofRequests = new WeakMap<object, WebWire>()

export const ofNode = (message: IncomingMessage, response: ServerResponse): Wire => new NodeWire(message, response)

export const of = (request: HttpServerRequest.HttpServerRequest): Wire => {
  const { source } = request
  if ("rawHeaders" in source) {
    // We serve no HTTP/2: its objects only look the same.
    const message = NodeHttpServerRequest.toIncomingMessage(request) as IncomingMessage
    return ofNode(message, NodeHttpServerRequest.toServerResponse(request) as ServerResponse)
  }
  return ofRequests.get(source) ?? new WebWire(source as Request, null)
}
