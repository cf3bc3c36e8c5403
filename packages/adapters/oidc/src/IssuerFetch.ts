/**
 * JSON of issuers that trusts in CIs name: from public addresses over https, without redirects, and small. The name is resolved once for
 * each request, every address that it has is checked, and the connection is made to one of those. Behind the operator's proxy a
 * name that this machine cannot resolve is left to the proxy.
 */
import { destinationOf } from "@slipway/domain/mcp/rules/McpDestination"
import { isPublic, pinnedTo } from "@slipway/machine/egress/Addresses"
import { isResolvedByProxy, proxyFailureIn, request } from "@slipway/machine/network/OutgoingRequest"
import { lookup as resolve } from "node:dns/promises"
import { once } from "node:events"
import type { IncomingMessage } from "node:http"
import { isIP } from "node:net"

/** Bytes of an answer. Metadata have 2 KB, keys 10 KB. */
const MAX_ANSWER_BYTES = 262_144

/** Why an issuer gave no usable answer: a sentence for the operator. */
export class IssuerFailed extends Error {}

export interface IssuerOptions {
  /** `host:port` of issuers that may use http or have private addresses. */
  readonly privates: ReadonlySet<string>
  /** The name of the option for them, for the operator. */
  readonly option: string
  readonly lookup?: (name: string) => Promise<ReadonlyArray<string>>
  readonly mayConnect?: (address: string) => boolean
  /** For metadata and keys together. Default 5 seconds. */
  readonly timeoutMillis?: number
}

const addressesOf = async (name: string): Promise<ReadonlyArray<string>> =>
  (await resolve(name, { all: true })).map(({ address }) => address)

/** Rejects when the signal aborts. */
const unless = <A>(signal: AbortSignal, promise: Promise<A>): Promise<A> =>
  new Promise((done, failed) => {
    const late = () => failed(new IssuerFailed("It does not answer in time."))
    if (signal.aborted) return late()
    signal.addEventListener("abort", late, { once: true })
    promise.then(done, failed).finally(() => signal.removeEventListener("abort", late))
  })

const admitted = async (url: URL, { lookup = addressesOf, mayConnect = isPublic, option, privates }: IssuerOptions) => {
  const isListed = privates.has(destinationOf(url.href))
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isListed)) throw new IssuerFailed("It names an address that is not https.")
  const host = url.hostname.replace(/^\[|\]$/gu, "")
  const addresses = isIP(host) === 0 ? await lookup(host).catch(() => []) : [host]
  if (addresses.length === 0 && isResolvedByProxy(url)) return undefined
  if (addresses.length === 0) throw new IssuerFailed("Its name cannot be resolved.")
  // One private address is enough: the owner of the name could choose among them.
  if (!isListed && !addresses.every(mayConnect)) {
    throw new IssuerFailed(`It has no public address. ${option} can allow ${destinationOf(url.href)}.`)
  }
  return addresses
}

const bodyOf = async (answer: IncomingMessage) => {
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Uint8Array>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) throw new IssuerFailed("Its answer is too long.")
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString("utf8")
}

const fetched = async (text: string, options: IssuerOptions, signal: AbortSignal): Promise<unknown> => {
  if (!URL.canParse(text)) throw new IssuerFailed("It names an invalid address.")
  const url = new URL(text)
  const addresses = await admitted(url, options)
  signal.throwIfAborted()
  const outgoing = request(url, {
    signal,
    ...addresses === undefined ? {} : { lookup: pinnedTo(addresses) },
    headers: { accept: "application/json", "accept-encoding": "identity", "user-agent": "slipway" }
  })
  try {
    outgoing.end()
    const [answer]: [IncomingMessage] = await once(outgoing, "response", { signal }) as [IncomingMessage]
    if (answer.statusCode !== 200) throw new IssuerFailed(`It answers with status ${answer.statusCode}.`)
    return JSON.parse(await bodyOf(answer))
  } finally {
    // A later error has no listener any more.
    outgoing.on("error", () => {})
    outgoing.destroy()
  }
}

/** The JSON at the address. Rejects with {@link IssuerFailed}, also when the signal aborts. */
export const json = (url: string, options: IssuerOptions, signal: AbortSignal): Promise<unknown> =>
  unless(signal, fetched(url, options, signal)).catch((error: unknown) => {
    if (error instanceof IssuerFailed) throw error
    if (error instanceof SyntaxError) throw new IssuerFailed("Its answer is not JSON.")
    throw new IssuerFailed(proxyFailureIn(error)?.message ?? "It cannot be reached.")
  })
