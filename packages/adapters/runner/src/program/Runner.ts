/**
 * The runner: lets one worker in at a time, as the fences of leases say, and does for it what its channels ask. It knows no rule of
 * what may run or be read; the machine that it is in is the box.
 */
import { ARTIFACTS_FOLDER } from "@slipway/domain/files/rules/ArtifactsFolder"
import * as HomeFiles from "@slipway/machine/home/HomeFiles"
import { once } from "node:events"
import { rmSync } from "node:fs"
import { createServer, type Server as SecureServer } from "node:https"
import type { Server } from "node:net"
import { TLSSocket } from "node:tls"
import { type WebSocket, WebSocketServer } from "ws"
import { isPeer, secureContext } from "../wire/Identity.ts"
import type { Address, Settings, Way } from "../wire/RunnerSettings.ts"
import * as WebSocketCarrier from "../wire/WebSocketCarrier.ts"
import type { Message } from "../wire/Wire.ts"
import * as Fence from "./Fence.ts"
import * as Folders from "./Folders.ts"
import * as Homes from "./Homes.ts"
import { ProcessRecords } from "./ProcessRecords.ts"
import { end, greet, type Held, inTurn, later, leave, type RunnerState } from "./RunnerSession.ts"
import * as SandboxUser from "./SandboxUser.ts"
import * as TunnelListener from "./TunnelListener.ts"

/** A connection has so long for TLS, for its upgrade and for its hello. */
const GREETING_MILLIS = 10_000

/** Those that have not said hello count. A worker has one, and another while it believes that one to be broken. */
const MOST_CONNECTIONS = 16

export interface Runner {
  readonly address: Address
  readonly ways: ReadonlyArray<Way>
  /** Ends all processes, then listens no more. */
  readonly close: () => Promise<void>
}

const portOf = (server: Server) => {
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("it does not listen on a port")
  return { host: address.address, port: address.port }
}

/** One connection. */
const meet = (state: RunnerState, socket: WebSocket) => {
  let session: Held | undefined
  let isGreeting = false
  let isThere = true
  const close = () => {
    isThere = false
    carrier.close()
  }
  const waiting = setTimeout(close, GREETING_MILLIS)
  const onMessage = (message: Message) => {
    if (session !== undefined) {
      if (session.isLeaving || session.isOver || !session.peer.isOn(carrier)) return
      session.heardAt = performance.now()
      if (message.type === "bye") leave(state, session)
      else session.peer.receive(carrier, message)
      return
    }
    if (message.type !== "hello" || isGreeting) {
      close()
      return
    }
    isGreeting = true
    later(state, async () => {
      try {
        session = await greet(state, carrier, message.hello, () => isThere)
      } catch (error) {
        // The disk does not take the fence: a restart would forget it, so the worker is not let in. Or processes of the session before
        // survive: no worker is let in beside them.
        close()
        throw error
      }
      if (session !== undefined) clearTimeout(waiting)
    })
  }
  const carrier = WebSocketCarrier.carrierOf(socket, {
    onMessage,
    onViolation: (violation) => {
      session?.peer.violated(violation)
    },
    onClose: () => {
      isThere = false
      clearTimeout(waiting)
      session?.peer.lost(carrier)
    }
  })
}

const listenFor = async (state: RunnerState): Promise<SecureServer> => {
  const { identity, listen } = state.settings
  const server = createServer({
    ...secureContext(identity),
    requestCert: true,
    rejectUnauthorized: true,
    handshakeTimeout: GREETING_MILLIS,
    headersTimeout: GREETING_MILLIS,
    requestTimeout: GREETING_MILLIS,
    connectionsCheckingInterval: 1000,
    maxHeaderSize: 4096
  }, (_, response) => response.writeHead(426).end())
  server.maxConnections = MOST_CONNECTIONS
  const sockets = new WebSocketServer({ ...WebSocketCarrier.options, noServer: true, clientTracking: false })
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => {})
    if (!(socket instanceof TLSSocket) || !isPeer(socket, identity)) socket.destroy()
    else sockets.handleUpgrade(request, socket, head, (connected) => meet(state, connected))
  })
  server.on("tlsClientError", () => {})
  if ("path" in listen) rmSync(listen.path, { force: true })
  server.listen(listen)
  await once(server, "listening")
  return server
}

/** Ends a session whose worker is silent for too long, or whose processes survived an earlier end. */
const watchSilence = (state: RunnerState, silenceMillis: number): NodeJS.Timeout => {
  let isEnding = false
  return setInterval(() => {
    const silent = state.held
    if (silent === undefined || isEnding || !silent.isOver && performance.now() - silent.heardAt < silenceMillis) return
    isEnding = true
    later(state, async () => {
      try {
        // It may have been heard while others had their turn.
        if (state.held === silent && (silent.isOver || performance.now() - silent.heardAt >= silenceMillis)) {
          await end(state, silent, "silence")
        }
      } finally {
        isEnding = false
      }
    })
  }, Math.max(10, Math.min(1000, silenceMillis / 4)))
}

/** Resolves once it listens. Rejects where it cannot, or where its state cannot be read. */
export const start = async (settings: Settings): Promise<Runner> => {
  const { beatMillis, home, listen, silenceMillis, user, ways } = settings
  if (user !== undefined) SandboxUser.check(user)
  Folders.make(settings)
  if (home !== undefined) await HomeFiles.makeFolder(home, ARTIFACTS_FOLDER, user ?? null)
  const records = new ProcessRecords(settings.state)
  records.endOld()
  if (user?.marks !== undefined) await SandboxUser.endAll(user)
  const state: RunnerState = {
    settings,
    records,
    highest: Fence.read(settings.state),
    held: undefined,
    // One for all sessions: writes of an earlier session finish first.
    homes: Homes.accept(home === undefined ? undefined : { home, owner: user ?? null }),
    turn: Promise.resolve()
  }
  const server = await listenFor(state)

  const opened = await Promise.all(
    ways.map((way) => TunnelListener.open(way, () => state.held?.isOver === true ? undefined : state.held?.peer.channels))
  )

  const beats = setInterval(() => {
    state.held?.peer.beat()
  }, beatMillis)
  const looks = watchSilence(state, silenceMillis)

  return {
    address: "path" in listen ? listen : portOf(server),
    ways: ways.map(({ name }, i) => ({ name, port: opened[i] === undefined ? 0 : portOf(opened[i]).port })),
    close: async () => {
      clearInterval(beats)
      clearInterval(looks)
      for (const way of opened) way.close()
      server.close()
      try {
        await inTurn(state, async () => {
          if (state.held !== undefined) await end(state, state.held, "closing")
        })
      } finally {
        server.closeAllConnections()
      }
    }
  }
}
