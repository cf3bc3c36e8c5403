/** The `node:http` server: its limits, and the error body for what Node would answer by itself (reliability, clientError). */
import { createServer, type Server, STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import { descriptorLimit } from "./DescriptorLimit.ts"
import { HeadersTooLarge, InvalidRequest, NotFound, type Refusal, RequestTimeout } from "../api/Errors.ts"

const limits = {
  headersTimeout: 10_000,
  /** The whole request, not its answer. */
  requestTimeout: 30_000,
  connectionsCheckingInterval: 2_000,
  maxHeaderSize: 16 * 1024,
  /** Nothing here speaks another protocol, so an offer to change it is ignored (RFC 9110, section 7.8). */
  shouldUpgradeCallback: () => false,
  /** `Edge` refuses such a request, with a body. */
  requireHostHeader: false
}

const refusalOf = (code: string | undefined): Refusal =>
  code === "ERR_HTTP_REQUEST_TIMEOUT"
    ? RequestTimeout.make("The request did not arrive in time.")
    : code === "HPE_HEADER_OVERFLOW"
    ? HeadersTooLarge.make("The headers are larger than 16 KiB.")
    : InvalidRequest.make("The request is not valid HTTP.")

/** Writes the refusal past a response object, because there is none, and closes. */
const refuse = (socket: Socket, { code, message, status }: Refusal, requestId: string) => {
  const body = JSON.stringify({ error: { code, message } })
  socket.end([
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    `X-Request-Id: ${requestId}`,
    "Connection: close",
    "",
    body
  ].join("\r\n"))
  // A client that goes on sending must not keep the connection.
  socket.once("finish", () => socket.destroySoon())
}

/** The response Node has under way on a connection, if any. Not in its types; its own `clientError` default looks there too. */
interface Answering {
  readonly _httpMessage?: { readonly headersSent: boolean } | null
}

/** Of the descriptors this process may open, those that connections may take. */
const CONNECTIONS_SHARE = 0.9

/** `newRequestId` names a request that no handler ever saw. */
export const make = (newRequestId: () => string) => (): Server => {
  const server = createServer(limits)
  // Beyond this, connections are dropped: files, the store and open streams need descriptors too.
  const descriptors = descriptorLimit()
  if (Number.isFinite(descriptors)) server.maxConnections = Math.floor(descriptors * CONNECTIONS_SHARE)
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket & Answering) => {
    if (error.code === "ECONNRESET" || !socket.writable || socket._httpMessage?.headersSent === true) return socket.destroy()
    return refuse(socket, refusalOf(error.code), newRequestId())
  })
  // Node would answer 417 to any expectation but 100-continue; they may be ignored (RFC 9110, section 10.1.1).
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  server.on("connect", (_request, socket: Socket) => refuse(socket, NotFound.make("There is nothing at this address."), newRequestId()))
  return server
}
