/**
 * Requests to MCP servers: to the server's own address alone. The name is resolved once for each request, every address that it has is
 * checked, and the connection is made to one of those. Redirects are not followed. Through a proxy of the operator the name is checked as
 * far as it is known here.
 */
import { destinationOf } from "@slipway/domain/mcp/rules/McpDestination"
import { isPublic, pinnedTo } from "@slipway/machine/egress/Addresses"
import { isResolvedByProxy, proxyFailureIn, request, whenConnected } from "@slipway/machine/network/OutgoingRequest"
import { lookup as resolve } from "node:dns/promises"
import type { IncomingMessage } from "node:http"
import { isIP } from "node:net"

/** Why the server gave no usable answer: a sentence for people, without secrets. */
export class Unreachable extends Error {}

export interface McpLimits {
  readonly connectMillis: number
  /** From the request until the head of the answer: the time of a tool. */
  readonly firstByteMillis: number
  /** Without a byte of an answer that has begun. */
  readonly idleMillis: number
  /** For all of a look at a server. */
  readonly lookMillis: number
  /** From the start of a command until its first answer. */
  readonly startMillis: number
  /** Between two signs of life to an agent whose call waits for a person. */
  readonly waitingMillis: number
  /** Bytes of a request. */
  readonly requestBytes: number
  /** Bytes of an answer to one request. */
  readonly answerBytes: number
}

export const LIMITS: McpLimits = {
  connectMillis: 10_000,
  firstByteMillis: 600_000,
  idleMillis: 300_000,
  lookMillis: 10_000,
  startMillis: 30_000,
  waitingMillis: 15_000,
  requestBytes: 4 * 1024 * 1024,
  answerBytes: 16 * 1024 * 1024
}

export interface Destinations {
  /** `host:port` of private addresses and of `http` that servers may have. */
  readonly privates: ReadonlySet<string>
  /** The name of the option for them, for the operator. */
  readonly option: string
  readonly lookup?: (name: string) => Promise<ReadonlyArray<string>>
  readonly mayConnect?: (address: string) => boolean
  /** Certificates that are trusted instead of the system's, PEM. */
  readonly ca?: string
}

const addressesOf = async (name: string): Promise<ReadonlyArray<string>> =>
  (await resolve(name, { all: true })).map(({ address }) => address)

const within = <A>(promise: Promise<A>, millis: number): Promise<A> => {
  let timer: NodeJS.Timeout | undefined
  return Promise.race([
    promise,
    new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Unreachable("Its name is not resolved in time.")), millis)
    })
  ]).finally(() => clearTimeout(timer))
}

/** The addresses that a connection may be made to. */
const admitted = async (url: URL, { lookup = addressesOf, mayConnect = isPublic, option, privates }: Destinations, millis: number) => {
  const isListed = privates.has(destinationOf(url.href))
  if (url.protocol !== "https:" && !isListed) throw new Unreachable("Its address is not https.")
  const host = url.hostname.replace(/^\[|\]$/gu, "")
  const addresses = isIP(host) === 0
    ? await within(
      lookup(host).catch(() => []),
      millis
    )
    : [host]
  if (addresses.length === 0 && isResolvedByProxy(url)) return undefined
  if (addresses.length === 0) throw new Unreachable("Its name cannot be resolved.")
  // One private address is enough: the owner of the name could choose among them.
  if (!isListed && !addresses.every(mayConnect)) {
    throw new Unreachable(`It has no public address. The operator can allow ${destinationOf(url.href)} with ${option}.`)
  }
  return addresses
}

export interface UpstreamRequest {
  readonly url: string
  readonly method: "POST" | "GET" | "DELETE"
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly limits: McpLimits
  readonly destinations: Destinations
  readonly signal: AbortSignal
}

/** Sends the request. Returns the answer at its head; a silent answer is ended. Fails with {@link Unreachable}. */
export const send = async (
  { body, destinations, headers, limits, method, signal, url: text }: UpstreamRequest
): Promise<IncomingMessage> => {
  const url = new URL(text)
  const addresses = await admitted(url, destinations, limits.connectMillis)
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
        ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) })
      },
      ...(destinations.ca === undefined ? {} : { ca: destinations.ca })
    })
    const end = (reason: string) => outgoing.destroy(new Unreachable(reason))
    let timer = setTimeout(() => end("It cannot be reached in time."), limits.connectMillis)
    outgoing.once("socket", (socket) =>
      whenConnected(socket, isSecure, () => {
        clearTimeout(timer)
        timer = setTimeout(() => end("It does not answer in time."), limits.firstByteMillis)
      }))
    outgoing.once("response", (answer) => {
      clearTimeout(timer)
      outgoing.setTimeout(limits.idleMillis, () => answer.destroy(new Unreachable("It stopped in the middle of its answer.")))
      done(answer)
    })
    outgoing.once("upgrade", (_, socket) => {
      socket.destroy()
      end("Its answer is invalid.")
    })
    outgoing.once("error", (error) => {
      clearTimeout(timer)
      failed(error instanceof Unreachable ? error : new Unreachable(proxyFailureIn(error)?.plain ?? "It cannot be reached."))
    })
    outgoing.once("close", () => {
      clearTimeout(timer)
      failed(new Unreachable("It closed the connection."))
    })
    outgoing.end(body)
  })
}

/** The whole text of an answer. Fails with {@link Unreachable} if it is too large or incomplete. */
export const textOf = async (answer: IncomingMessage, maximum: number): Promise<string> => {
  const chunks: Array<Buffer> = []
  let length = 0
  try {
    for await (const chunk of answer) {
      length += chunk.length
      if (length > maximum) throw new Unreachable(`Its answer has more than ${maximum} bytes.`)
      chunks.push(chunk)
    }
  } catch (error) {
    throw error instanceof Unreachable ? error : new Unreachable("It closed the connection in the middle of its answer.")
  } finally {
    answer.destroy()
  }
  return Buffer.concat(chunks).toString("utf8")
}

/** Why an answer with this status is unusable; `null`: it is an answer. */
export const problemOf = ({ statusCode = 0 }: IncomingMessage): string | null => {
  if (statusCode >= 200 && statusCode < 300) return null
  if (statusCode >= 300 && statusCode < 400) return "It redirects to another address, which is not followed."
  if (statusCode === 401 || statusCode === 403) return `It refuses the credential (status ${statusCode}). An owner can set another one.`
  return `It answers with status ${statusCode}.`
}

/** Whether the answer is a stream of events. */
export const isStream = ({ headers }: IncomingMessage): boolean =>
  (headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase() === "text/event-stream"
