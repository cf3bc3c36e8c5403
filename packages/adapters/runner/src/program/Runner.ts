/**
 * The runner: lets one worker in at a time, as the fences of leases say, and does for it what its channels ask. It knows no rule of
 * what may run or be read; the machine that it is in is the box.
 */
import { once } from "node:events"
import { rmSync } from "node:fs"
import { createServer } from "node:https"
import type { Server } from "node:net"
import { TLSSocket } from "node:tls"
import { type WebSocket, WebSocketServer } from "ws"
import * as Carriers from "../wire/Carriers.ts"
import { isPeer, secureContext } from "../wire/Identity.ts"
import { type Carrier, Peer } from "../wire/Peer.ts"
import type { Address, Settings, Way } from "../wire/RunnerSettings.ts"
import { encode, type Hello, type Message, PROTOCOL, type RefusalCode } from "../wire/Wire.ts"
import * as Fence from "./Fence.ts"
import * as Files from "./Files.ts"
import * as Folders from "./Folders.ts"
import * as Homes from "./Homes.ts"
import * as Processes from "./Processes.ts"
import { ProcessRecords } from "./ProcessRecords.ts"
import * as SandboxUser from "./SandboxUser.ts"
import * as Ways from "./Ways.ts"

/** A connection has so long for TLS, for its upgrade and for its hello. */
const GREETING_MILLIS = 10_000

/** Those that have not said hello count. A worker has one, and another while it believes that one to be broken. */
const MOST_CONNECTIONS = 16

interface Held {
  readonly hello: Hello
  attempt: number
  heardAt: number
  /** Its worker said goodbye: nothing else is heard of it. */
  isLeaving: boolean
  /** It is held only until its processes have ended: no session begins beside them. */
  isOver: boolean
  readonly peer: Peer
  readonly processes: Processes.Processes
}

export interface Runner {
  readonly address: Address
  readonly ways: ReadonlyArray<Way>
  /** Ends all processes, then listens no more. */
  readonly close: () => Promise<void>
}

/** Of a server that listens on a port. */
export const portOf = (server: Server) => {
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("it does not listen on a port")
  return { host: address.address, port: address.port }
}

/** Resolves once it listens. Rejects where it cannot, or where its state cannot be read. */
export const start = async (settings: Settings): Promise<Runner> => {
  const { beatMillis, home, identity, listen, silenceMillis, state, tree, user, ways } = settings
  if (user !== undefined) SandboxUser.check(user)
  Folders.make(settings)
  const records = new ProcessRecords(state)
  records.endOld()
  if (user?.marks !== undefined) await SandboxUser.endAll(user)
  let highest = Fence.read(state)
  let held: Held | undefined

  /** What an earlier session still writes is written before. */
  const homes = Homes.accept(home === undefined ? undefined : { home, owner: user ?? null })

  /** One hello, and one end, after the other. */
  let turn: Promise<unknown> = Promise.resolve()
  const inTurn = (action: () => Promise<void>) => {
    const done = turn.then(action)
    turn = done.catch(() => {})
    return done
  }

  /** As `inTurn`. Where processes survive, the session stays held, and its end is tried again. */
  const later = (action: () => Promise<void>) => {
    inTurn(action).catch((error: unknown) => {
      process.stderr.write(`runner: ${error instanceof Error ? error.message : String(error)}\n`)
    })
  }

  /** Rejects where processes survive: the session is held until a later call finds none. */
  const end = async (session: Held, code: string) => {
    session.isOver = true
    session.peer.finish({ code, message: "the session is over" })
    await session.processes.endAll()
    if (held === session) held = undefined
  }

  const begin = (hello: Hello): Held => {
    const processes = Processes.make({ tree, user, records })
    const peer = new Peer({
      side: "runner",
      accept: { process: processes.accept, file: Files.accept(tree), home: homes },
      onViolation: () => later(() => end(session, "violation"))
    })
    const session: Held = { hello, attempt: 0, heardAt: performance.now(), isLeaving: false, isOver: false, peer, processes }
    return session
  }

  /** Who closes the connection last tells the worker that none of its processes is there any more. */
  const leave = (session: Held) => {
    session.isLeaving = true
    later(async () => {
      try {
        await session.processes.endAll()
        if (held === session) held = undefined
        session.peer.finish({ code: "bye", message: "the session is over" })
      } catch (error) {
        // Its worker is told nothing, and stops waiting.
        session.isOver = true
        throw error
      }
    })
  }

  const refuse = (carrier: Carrier, code: RefusalCode) => {
    // Closed by the side that reads it: what is closed here may be lost on its way.
    carrier.send(encode({ type: "refused", code, fence: highest }), () => {})
  }

  const greet = async (carrier: Carrier, hello: Hello, isThere: () => boolean): Promise<Held | undefined> => {
    if (!isThere()) return undefined
    if (hello.protocol !== PROTOCOL) {
      refuse(carrier, "protocol")
      return undefined
    }
    if (hello.fence < highest) {
      refuse(carrier, "fence")
      return undefined
    }
    if (hello.fence > highest) {
      Fence.write(state, hello.fence)
      highest = hello.fence
    }
    const isAnother = held !== undefined && (held.hello.fence < hello.fence || held.hello.session !== hello.session && !hello.resumes)
    if (held !== undefined && (isAnother || held.isOver)) await end(held, "fence")
    if (held?.hello.session === hello.session) {
      if (hello.attempt <= held.attempt) {
        refuse(carrier, "stale")
        return undefined
      }
    } else if (hello.resumes) {
      refuse(carrier, "session")
      return undefined
    } else held = begin(hello)
    held.attempt = hello.attempt
    held.heardAt = performance.now()
    carrier.send(encode({ type: "welcome", received: held.peer.received }), () => {})
    held.peer.attach(carrier, hello.received)
    return held
  }

  const meet = (socket: WebSocket) => {
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
        if (message.type === "bye") leave(session)
        else session.peer.receive(carrier, message)
        return
      }
      if (message.type !== "hello" || isGreeting) {
        close()
        return
      }
      isGreeting = true
      later(async () => {
        try {
          session = await greet(carrier, message.hello, () => isThere)
        } catch (error) {
          // Its disk does not take the fence: nobody is let in on a promise that a restart would forget. Or processes of the session before
          // survive: nobody is let in beside them.
          close()
          throw error
        }
        if (session !== undefined) clearTimeout(waiting)
      })
    }
    const carrier = Carriers.carrierOf(socket, {
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
  const sockets = new WebSocketServer({ ...Carriers.options, noServer: true, clientTracking: false })
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => {})
    if (!(socket instanceof TLSSocket) || !isPeer(socket, identity)) socket.destroy()
    else sockets.handleUpgrade(request, socket, head, meet)
  })
  server.on("tlsClientError", () => {})
  if ("path" in listen) rmSync(listen.path, { force: true })
  server.listen(listen)
  await once(server, "listening")

  const opened = await Promise.all(ways.map((way) => Ways.open(way, () => held?.isOver === true ? undefined : held?.peer.channels)))

  const beats = setInterval(() => {
    held?.peer.beat()
  }, beatMillis)
  let isEnding = false
  const looks = setInterval(() => {
    const silent = held
    if (silent === undefined || isEnding || !silent.isOver && performance.now() - silent.heardAt < silenceMillis) return
    isEnding = true
    later(async () => {
      try {
        // It may have been heard while others had their turn.
        if (held === silent && (silent.isOver || performance.now() - silent.heardAt >= silenceMillis)) await end(silent, "silence")
      } finally {
        isEnding = false
      }
    })
  }, Math.max(10, Math.min(1000, silenceMillis / 4)))

  return {
    address: "path" in listen ? listen : portOf(server),
    ways: ways.map(({ name }, i) => ({ name, port: opened[i] === undefined ? 0 : portOf(opened[i]).port })),
    close: async () => {
      clearInterval(beats)
      clearInterval(looks)
      for (const way of opened) way.close()
      server.close()
      try {
        await inTurn(async () => {
          if (held !== undefined) await end(held, "closing")
        })
      } finally {
        server.closeAllConnections()
      }
    }
  }
}
