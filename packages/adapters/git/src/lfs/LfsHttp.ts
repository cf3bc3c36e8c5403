/**
 * Requests to servers of Git LFS. A server may name any address for a content, so a request goes to the repository's own source host, or
 * by https to public addresses alone: the name is resolved once, every address that it has is checked, and the connection is made to one
 * of those. Redirects are not followed. Behind the operator's proxy a name that this machine cannot resolve is left to the proxy.
 */
import { destinationOf } from "@slipway/domain/mcp/rules/McpDestination"
import { isPublic, pinnedTo } from "@slipway/machine/egress/Addresses"
import { isResolvedByProxy, proxyFailureIn, request, whenConnected } from "@slipway/machine/network/OutgoingRequest"
import { lookup as resolve } from "node:dns/promises"
import type { IncomingMessage } from "node:http"
import { isIP } from "node:net"

/** Why a server gave no usable answer: a sentence for people, without addresses or secrets. */
export class LfsFailed extends Error {
  /** A later try may succeed. `false`: the server refuses, or it is not used. */
  readonly retryable: boolean
  constructor(detail: string, retryable: boolean) {
    super(detail)
    this.retryable = retryable
  }
}

export interface Destinations {
  /** `host:port` of private addresses and of `http` that contents may come from, beside the source host. */
  readonly privates: ReadonlySet<string>
  /** Every address of a name. Default: as the system resolves it. */
  readonly lookup?: (name: string) => Promise<ReadonlyArray<string>>
  /** Default: public addresses. */
  readonly mayConnect?: (address: string) => boolean
  readonly times?: Times
}

interface Times {
  readonly connectMillis: number
  /** Without a byte, in either direction. */
  readonly idleMillis: number
}

const TIMES: Times = { connectMillis: 10_000, idleMillis: 60_000 }
/** Characters of an address: signed ones of object stores have some thousands. */
const MAX_URL = 16_384
/** Bytes of a request or answer other than contents. */
const MAX_ANSWER_BYTES = 4_194_304

const addressesOf = async (name: string): Promise<ReadonlyArray<string>> =>
  (await resolve(name, { all: true })).map(({ address }) => address)

const within = <A>(promise: Promise<A>, millis: number): Promise<A> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new LfsFailed("The name of a server is not resolved in time.", true)), millis)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

/** The addresses that a connection may be made to; `undefined`: any of the source host, as git itself connects to it. */
const admitted = async (
  url: URL,
  source: URL,
  { lookup = addressesOf, mayConnect = isPublic, privates }: Destinations,
  millis: number
): Promise<ReadonlyArray<string> | undefined> => {
  if (url.username !== "" || url.password !== "") throw new LfsFailed("The server names an address with a user.", false)
  if (url.origin === source.origin) return undefined
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new LfsFailed("The server names an address that is not https.", false)
  const isListed = privates.has(destinationOf(url.href))
  if (url.protocol !== "https:" && !isListed) throw new LfsFailed("The server names an address that is not https.", false)
  const host = url.hostname.replace(/^\[|\]$/gu, "")
  const addresses = isIP(host) === 0
    ? await within(
      lookup(host).catch(() => []),
      millis
    )
    : [host]
  if (addresses.length === 0 && isResolvedByProxy(url)) return undefined
  if (addresses.length === 0) throw new LfsFailed("The name of a server cannot be resolved.", true)
  // One private address is enough: the owner of the name could choose among them.
  if (!isListed && !addresses.every(mayConnect)) throw new LfsFailed("The server names an address that is not public.", false)
  return addresses
}

export interface LfsRequest {
  readonly method: "GET" | "POST" | "PUT"
  readonly url: string
  /** The repository at its source host. */
  readonly source: URL
  readonly headers: Readonly<Record<string, string>>
  /** Writes the body, in full. Resolves when it is written. */
  readonly body?: { readonly size: number; readonly write: (take: (bytes: Uint8Array) => Promise<void>) => Promise<void> }
  readonly destinations: Destinations
  readonly signal: AbortSignal
}

/** Sends the request. Resolves with the answer at its head; a silent answer is ended. Rejects with {@link LfsFailed}. */
export const send = async (
  { body, destinations, headers, method, signal, source, url: text }: LfsRequest
): Promise<IncomingMessage> => {
  if (text.length > MAX_URL || !URL.canParse(text)) throw new LfsFailed("The server names an invalid address.", false)
  const url = new URL(text)
  const { connectMillis, idleMillis } = destinations.times ?? TIMES
  const addresses = await admitted(url, source, destinations, connectMillis)
  signal.throwIfAborted()
  const isSecure = url.protocol === "https:"
  return await new Promise<IncomingMessage>((done, failed) => {
    const outgoing = request(url, {
      method,
      signal,
      ...addresses === undefined ? {} : { lookup: pinnedTo(addresses) },
      headers: {
        ...headers,
        "accept-encoding": "identity",
        "user-agent": "slipway",
        ...body === undefined ? {} : { "content-length": body.size }
      }
    })
    const end = (reason: string) => outgoing.destroy(new LfsFailed(reason, true))
    const timer = setTimeout(() => end("A server cannot be reached in time."), connectMillis)
    outgoing.once("socket", (socket) => whenConnected(socket, isSecure, () => clearTimeout(timer)))
    outgoing.setTimeout(idleMillis, () => end("A server stopped answering."))
    outgoing.once("response", (answer) => {
      clearTimeout(timer)
      // The reader gets the error from the answer itself.
      answer.on("error", () => {})
      outgoing.setTimeout(idleMillis, () => answer.destroy(new LfsFailed("A server stopped in the middle of its answer.", true)))
      done(answer)
    })
    outgoing.once("upgrade", (_, socket) => {
      socket.destroy()
      end("The answer of a server is invalid.")
    })
    outgoing.on("error", (error) => {
      clearTimeout(timer)
      if (error instanceof LfsFailed) return failed(error)
      failed(new LfsFailed(proxyFailureIn(error)?.plain ?? "A server cannot be reached.", true))
    })
    outgoing.once("close", () => {
      clearTimeout(timer)
      failed(new LfsFailed("A server closed the connection.", true))
    })
    if (body === undefined) return void outgoing.end()
    const take = (bytes: Uint8Array) =>
      outgoing.destroyed || outgoing.write(bytes)
        ? Promise.resolve()
        : new Promise<void>((resumed) => {
          const go = () => {
            outgoing.off("drain", go).off("close", go)
            resumed()
          }
          outgoing.once("drain", go).once("close", go)
        })
    body.write(take).then(
      () => outgoing.end(),
      (cause: unknown) => outgoing.destroy(cause instanceof LfsFailed ? cause : new LfsFailed("A content could not be read.", true))
    )
  })
}

/** Gives each piece to `take`. Rejects with {@link LfsFailed} if the answer is incomplete, or with what `take` rejects with. */
export const read = async (answer: IncomingMessage, take: (bytes: Buffer) => Promise<void> | void): Promise<void> => {
  const pieces = answer[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next: IteratorResult<Buffer> = await pieces.next().catch((error: unknown) => {
        throw error instanceof LfsFailed ? error : new LfsFailed("A server closed the connection in the middle of its answer.", true)
      })
      if (next.done === true) return
      await take(next.value)
    }
  } finally {
    answer.destroy()
  }
}

/** The whole text of an answer. */
export const textOf = async (answer: IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  let length = 0
  await read(answer, (chunk) => {
    length += chunk.length
    if (length > MAX_ANSWER_BYTES) throw new LfsFailed(`The answer of the server has more than ${MAX_ANSWER_BYTES} bytes.`, false)
    chunks.push(chunk)
  })
  return Buffer.concat(chunks).toString("utf8")
}

/** The error of an answer with this status; `undefined`: it is a success. */
export const problemOf = ({ statusCode = 0 }: IncomingMessage, what: string): LfsFailed | undefined => {
  if (statusCode >= 200 && statusCode < 300) return undefined
  if (statusCode >= 300 && statusCode < 400) return new LfsFailed(`${what} redirects to another address, which is not followed.`, false)
  if (statusCode === 401 || statusCode === 403) return new LfsFailed(`${what} refuses access (status ${statusCode}).`, false)
  return new LfsFailed(`${what} answers with status ${statusCode}.`, statusCode >= 500 && statusCode !== 501 || statusCode === 429)
}
