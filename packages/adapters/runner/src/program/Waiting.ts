/**
 * A runner whose sandbox is not known yet. It lets in who has the key of its pool's worker, and hears one thing: the settings of the
 * sandbox that the machine is for from then on. They are on its disk before it says so; started again it has them, and waits no more.
 */
import { createPrivateKey, X509Certificate } from "node:crypto"
import { once } from "node:events"
import { chmodSync, mkdirSync } from "node:fs"
import type { IncomingMessage, ServerResponse } from "node:http"
import { createServer } from "node:https"
import { TLSSocket } from "node:tls"
import { type Adoption, BODY_BYTES, PATH, PATIENCE_MILLIS } from "../wire/Adoption.ts"
import { isPeer, secureContext } from "../wire/Identity.ts"
import type * as RunnerSettings from "../wire/RunnerSettings.ts"
import { isCount } from "../wire/Wire.ts"
import * as Durable from "./Durable.ts"
import * as Fence from "./Fence.ts"
import * as Runner from "./Runner.ts"
import * as Settings from "./Settings.ts"

const NAME = "adopted.json"

/** Who looks whether it is there, and workers that try at once. */
const MOST_CONNECTIONS = 16

interface Adopted {
  readonly fence: number
  readonly settings: RunnerSettings.Settings
}

/** What it asks is refused, with why. */
class Refused extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Throws where it is none for this machine. */
const decode = (text: string, { listen, state }: RunnerSettings.Waiting, machine: string | null): Adopted => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The parser's own words quote what it read.
    throw new Error("it is no JSON")
  }
  const asked: Partial<Record<keyof Adoption, unknown>> = typeof value === "object" && value !== null ? value : {}
  if (machine !== null && asked.machine !== machine) throw new Error("another machine is meant")
  if (!isCount(asked.fence)) throw new Error("it has no fence")
  const settings = Settings.decode({ ...Object(asked.settings), listen })
  if (settings.state !== state) throw new Error("the runner's own folder is another")
  const { identity: { certificate, peer, privateKey } } = settings
  const own = new X509Certificate(certificate)
  if (!own.checkPrivateKey(createPrivateKey(privateKey))) throw new Error("the certificate is of another key")
  secureContext({ certificate, peer, privateKey })
  return { fence: asked.fence, settings }
}

/** Node's own words about a key or a certificate say where it is wrong: of a secret nobody is told. */
const wordsOf = (error: unknown): string => error instanceof Error && !("code" in error) ? error.message : "its identity is none"

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  let length = 0
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue
    length += chunk.length
    if (length > BODY_BYTES) throw new Refused(413, `it has more than ${BODY_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString("utf8")
}

const run = async ({ fence, settings }: Adopted): Promise<Runner.Runner> => {
  if (Fence.read(settings.state) < fence) Fence.write(settings.state, fence)
  return Runner.start(settings)
}

export interface Waiting {
  readonly address: { readonly host: string; readonly port: number }
  /** The sandbox's runner, once it listens. Rejects where it cannot begin: started again, it may. */
  readonly adopted: Promise<Runner.Runner>
  /** Waits no more. */
  readonly close: () => void
}

/**
 * Resolves once it listens: with the runner of the sandbox that it was adopted for before it was started this time, or as one that
 * waits. `machine`: what whoever adopts it has to call it; `null`: it does not know.
 */
export const start = async (waiting: RunnerSettings.Waiting, machine: string | null): Promise<Runner.Runner | Waiting> => {
  const { identity, listen, state } = waiting
  mkdirSync(state, { recursive: true, mode: 0o700 })
  chmodSync(state, 0o700)
  const kept = Durable.read(state, NAME)
  if (kept !== null) return run(decode(kept, waiting, null))

  const { promise: adopted, reject, resolve } = Promise.withResolvers<Runner.Runner>()
  // Whoever started it may have left before.
  adopted.catch(() => {})
  let isTaken = false

  const adopt = async (own: TLSSocket, request: IncomingMessage, response: ServerResponse) => {
    if (request.method !== "POST" || request.url !== PATH) throw new Refused(404, "it hears nothing else")
    const text = await bodyOf(request)
    // From here on nothing is waited for until it is settled who was first.
    if (isTaken) throw new Refused(409, "it was adopted")
    let asked: Adopted
    try {
      asked = decode(text, waiting, machine)
    } catch (error) {
      throw new Refused(422, wordsOf(error))
    }
    try {
      Durable.write(state, NAME, text)
    } catch {
      throw new Refused(507, "its disk does not take it")
    }
    isTaken = true
    server.close()
    for (const socket of sockets) if (socket !== own) socket.destroy()
    try {
      const runner = await run({ ...asked, settings: { ...asked.settings, listen: address } })
      response.end()
      resolve(runner)
    } catch (error) {
      own.destroy()
      reject(error)
    }
  }

  const sockets = new Set<TLSSocket>()
  const server = createServer({
    ...secureContext(identity),
    requestCert: true,
    rejectUnauthorized: true,
    handshakeTimeout: PATIENCE_MILLIS,
    headersTimeout: PATIENCE_MILLIS,
    requestTimeout: PATIENCE_MILLIS,
    connectionsCheckingInterval: 1000,
    maxHeaderSize: 4096
  }, (request, response) => {
    // Node takes it off the request when it is over.
    const { socket } = request
    if (!(socket instanceof TLSSocket) || !isPeer(socket, identity)) {
      socket.destroy()
      return
    }
    response.setHeader("connection", "close")
    adopt(socket, request, response).catch((error: unknown) => {
      if (!(error instanceof Refused)) {
        socket.destroy()
        return
      }
      response.statusCode = error.status
      // What it still sends is not read.
      response.end(`${error.message}\n`, () => socket.destroySoon())
    })
  })
  server.maxConnections = MOST_CONNECTIONS
  server.on("secureConnection", (socket: TLSSocket) => {
    sockets.add(socket)
    socket.on("close", () => sockets.delete(socket))
  })
  server.on("tlsClientError", () => {})
  server.listen(listen)
  await once(server, "listening")
  const address = Runner.portOf(server)
  return {
    address,
    adopted,
    close: () => {
      server.close()
      server.closeAllConnections()
    }
  }
}
