/**
 * The server of a command that uses HTTP: its address, the key for it, and what its refusals mean. Loads no Effect, which takes most of
 * the start of a command that only asks a server.
 */
import { SlipwayClient, SlipwayError } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { ProxyFailed } from "@slipway/machine/network/ProxyTunnel"
import * as FindService from "../../../service/FindService.ts"
import * as Defaults from "../../../settings/Defaults.ts"
import { ExitCode } from "../../terminal/ExitCodes.ts"
import * as StoredKeys from "./StoredKeys.ts"

/** The parts of a failed request. */
interface Failure {
  readonly detail: string
  readonly exitCode: number
  /** The server's code of a refusal. */
  readonly code?: string
}

/** The command failed. The message is one line that says what to do, and is safe for a terminal. */
export class Failed extends Error {
  readonly failure: Failure

  constructor(failure: Failure) {
    super(visible(failure.detail))
    this.failure = failure
  }
}

/** Without a service of this user. */
const DEFAULT_URL = `http://127.0.0.1:${Defaults.port.default}`

/** The server's address in the form of stored keys. `given`: by the person; otherwise the only service that this user runs. */
export const addressOf = async (given: string | undefined): Promise<string> => {
  const address = given === undefined || given === "" ? await FindService.addressHere() ?? DEFAULT_URL : given
  const server = StoredKeys.serverOf(address)
  if (server !== null) return server
  throw new Failed({
    detail: `${address} is not the address of a server, such as ${DEFAULT_URL} (--url, SLIPWAY_URL).`,
    exitCode: ExitCode.unclear
  })
}

const exitCodeOf = ({ code, status }: SlipwayError): number => {
  if (status === 401 || code === "insufficient_scope" || code === "forbidden") return ExitCode.unauthorized
  if (status === 404) return ExitCode.notFound
  if (status < 400 || status === 429 || status >= 500) return ExitCode.unreachable
  return ExitCode.refused
}

const UNTRUSTED = /^(?:CERT_|DEPTH_ZERO|UNABLE_TO|SELF_SIGNED|ERR_TLS_CERT)/u

/** Why there was no connection, with advice; `null`: unknown. */
const connectionProblem = (server: string, error: unknown): string | null => {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ProxyFailed) return `${server} is not reached. ${cause.message}`
    const code = "code" in cause ? String(cause.code) : ""
    if (UNTRUSTED.test(code)) {
      return `the certificate of ${server} is not trusted (${code}). ` +
        `Name the file of your certificate authority in ${Defaults.caFile.name}.`
    }
  }
  return null
}

/** `error`: that of the connection. */
export const unanswered = (server: string, error: unknown = null): Failure => ({
  detail: connectionProblem(server, error) ??
    `nothing answers at ${server}. Does it run (slipway serve), and is the address right (--url, SLIPWAY_URL)?`,
  exitCode: ExitCode.unreachable
})

/** The command that gets a valid key for the server. */
export const signInHint = (server: string): string => `slipway auth login --url ${server}, or set SLIPWAY_API_KEY.`

/** The failure with advice. `keyFrom`: the source of the key. */
const failureOf = (server: string, keyFrom: string, error: SlipwayError): Failure => {
  const exitCode = exitCodeOf(error)
  const { code, message, requestId, retryAfter } = error
  if (code === "unreachable" || code === "timeout") return unanswered(server, error)
  if (error.status === 401) {
    return { detail: `${server} does not accept the key ${keyFrom}. Sign in again: ${signInHint(server)}`, exitCode }
  }
  const later = retryAfter === undefined ? "" : ` Try again in ${retryAfter} s.`
  const detail = `${server} says: ${message} (${code}${requestId === undefined ? "" : `, ${requestId}`})${later}`
  return { detail, exitCode, code }
}

/** A server answers within ten seconds, whatever the state of its database (docs/decisions/4). */
export const PATIENCE_MILLIS = 20_000

/** The server with its key. */
export interface ServerAccess {
  readonly url: string
  readonly client: SlipwayClient
  /** The failure of a request; `null`: the error is a defect. */
  readonly failureOf: (error: unknown) => Failure | null
  /** Runs a request of the client. Rejects with {@link Failed}, also after 20 seconds, including retries. */
  readonly call: <A>(request: (signal: AbortSignal) => Promise<A>) => Promise<A>
  /** The JSON of an address outside the public API; `null`: an empty reply. `body`: JSON. Rejects like `call`. */
  readonly send: (path: string, method?: "GET" | "POST" | "DELETE", body?: unknown) => Promise<unknown>
  /** An open WebSocket to an address of the server, which gives bytes as `ArrayBuffer`. Rejects like `call`. */
  readonly webSocket: (path: string) => Promise<WebSocket>
}

/**
 * The status of a refused handshake cannot be read, so the server is asked first without an upgrade. It then answers 426, or why it
 * refuses.
 */
const webSocketAt = async (url: string, path: string, apiKey: string, send: ServerAccess["send"]): Promise<WebSocket> => {
  await send(path).catch((error: unknown) => {
    if (!(error instanceof Failed) || error.failure.code !== "upgrade_required") throw error
  })
  // Node's own takes headers, which its types do not say, and goes through the same proxies as `fetch`.
  const Open = WebSocket as unknown as new(url: string, init: { readonly headers: Record<string, string> }) => WebSocket
  const socket = new Open(url.replace(/^http/u, "ws") + path, { headers: { authorization: `Bearer ${apiKey}` } })
  socket.binaryType = "arraybuffer"
  return await new Promise((resolve, reject) => {
    socket.addEventListener("open", () => resolve(socket), { once: true })
    socket.addEventListener("error", () => reject(new Failed(unanswered(url))), { once: true })
  })
}

/** One request. Redirects are not followed, because the key is for this server only. */
const jsonAt = async (address: string, apiKey: string, method: string, body: unknown, signal: AbortSignal): Promise<unknown> => {
  const headers = { authorization: `Bearer ${apiKey}`, ...(body === undefined ? {} : { "content-type": "application/json" }) }
  const sent = body === undefined ? {} : { body: JSON.stringify(body) }
  const response = await fetch(address, { method, headers, ...sent, redirect: "error", signal }).catch((cause: unknown) => {
    throw new SlipwayError("No reply.", { status: 0, code: "unreachable", cause })
  })
  const reply: unknown = await response.json().catch(() => null)
  if (response.ok) return reply
  const { code, message } = Object.assign(
    { code: "invalid_reply", message: response.statusText },
    (reply as { error?: object } | null)?.error
  )
  throw new SlipwayError(message, { status: response.status, code })
}

/** A server and the key for it. */
export interface Keyed {
  readonly url: string
  readonly key: string
  /** The place of the key, for messages. */
  readonly keyFrom: string
}

/** Sends no request. Rejects with {@link Failed}. */
export const keyFor = async (given: string | undefined): Promise<Keyed> => {
  const url = await addressOf(given)
  const inEnvironment = process.env["SLIPWAY_API_KEY"] ?? ""
  const key = inEnvironment === "" ? keptFor(url) : inEnvironment
  if (key === undefined) {
    throw new Failed({ detail: `there is no key for ${url}. Sign in: ${signInHint(url)}`, exitCode: ExitCode.unauthorized })
  }
  return { url, key, keyFrom: inEnvironment === "" ? `kept in ${StoredKeys.file()}` : "in SLIPWAY_API_KEY" }
}

/** Sends no request. Rejects with {@link Failed}. */
export const connect = async (given: string | undefined): Promise<ServerAccess> => {
  const { key: apiKey, keyFrom, url } = await keyFor(given)
  const client = clientOf(url, apiKey, keyFrom)
  const failed = (error: unknown) => error instanceof SlipwayError ? failureOf(url, keyFrom, error) : null
  const call: ServerAccess["call"] = async (request) => {
    const signal = AbortSignal.timeout(PATIENCE_MILLIS)
    try {
      return await request(signal)
    } catch (error) {
      const failure = signal.aborted ? unanswered(url) : failed(error)
      throw failure === null ? error : new Failed(failure)
    }
  }
  const send: ServerAccess["send"] = (path, method = "GET", body) => call((signal) => jsonAt(url + path, apiKey, method, body, signal))
  return {
    url,
    client,
    failureOf: failed,
    call,
    send,
    webSocket: (path) => webSocketAt(url, path, apiKey, send)
  }
}

const keptFor = (url: string): string | undefined => {
  try {
    return StoredKeys.find(url)
  } catch (error) {
    throw error instanceof StoredKeys.Refused ? new Failed({ detail: error.message, exitCode: 1 }) : error
  }
}

const clientOf = (baseUrl: string, apiKey: string, keyFrom: string): SlipwayClient => {
  try {
    return new SlipwayClient({ baseUrl, apiKey })
  } catch {
    throw new Failed({ detail: `what stands ${keyFrom} cannot be a key.`, exitCode: ExitCode.unauthorized })
  }
}
