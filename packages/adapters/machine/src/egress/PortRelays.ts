/**
 * The way into boxes whose processes have networks of their own: the bridge beside each process asks, over the sandbox's socket, to be told
 * of ports to connect to, and opens a connection of the socket for each. Everything that comes from a bridge may come from any process of
 * the sandbox: at worst the sandbox answers for itself.
 *
 *     CONNECT ports.slipway:1           from then on we write lines, PORT and NONCE, and read a line with the NONCE of each closed port
 *                                       and of each connection that broke off: its own end would look like the end of its bytes
 *     CONNECT NONCE.port.slipway:1      from then on the bytes of the connection
 */
import { randomUUID } from "node:crypto"
import type { Duplex } from "node:stream"

const CONTROL = "ports.slipway:1"
const DATA = /^(?<nonce>[0-9a-f-]{36})\.port\.slipway:1$/u

/** Bridges of one sandbox: one for each process that was started in it. */
const MAX_BRIDGES = 64
/** Characters of an unfinished line of a bridge. */
const MAX_LINE = 256
const ANSWER_MILLIS = 5_000
/** For all bridges together, since a sandbox may have many that are silent. */
const OPEN_MILLIS = 10_000
const ESTABLISHED = "HTTP/1.1 200 Connection established\r\n\r\n"

interface Asked {
  readonly bridge: Duplex
  /** `null`: the port is closed, or there was no answer. */
  readonly answer: (connection: Duplex | null) => void
}

export interface PortRelays {
  /** Takes a `CONNECT` of a bridge. `false`: it is for something else. */
  readonly take: (target: string, client: Duplex, head: Buffer) => boolean
  /** A connection to the port, of the newest process that has it; `null`: no bridge said so in time. The caller destroys it. */
  readonly open: (port: number) => Promise<Duplex | null>
  /** Whether a process of the sandbox has a bridge now. */
  readonly hasBridge: () => boolean
}

export const make = (): PortRelays => {
  const bridges = new Set<Duplex>()
  const asked = new Map<string, Asked>()
  /** By nonce. */
  const opened = new Map<string, { readonly bridge: Duplex; readonly connection: Duplex }>()

  const answer = (nonce: string, bridge: Duplex | null, connection: Duplex | null) => {
    const found = asked.get(nonce)
    if (found === undefined || bridge !== null && found.bridge !== bridge) return false
    asked.delete(nonce)
    if (connection !== null) {
      opened.set(nonce, { bridge: found.bridge, connection })
      connection.once("close", () => opened.delete(nonce))
    }
    found.answer(connection)
    return true
  }

  const told = (nonce: string, bridge: Duplex) => {
    const open = opened.get(nonce)
    if (open?.bridge === bridge) open.connection.destroy()
    else answer(nonce, bridge, null)
  }

  const listen = (bridge: Duplex) => {
    if (bridges.size >= MAX_BRIDGES) return void bridge.destroy()
    bridges.add(bridge)
    bridge.once("close", () => {
      bridges.delete(bridge)
      for (const [nonce, one] of asked) if (one.bridge === bridge) answer(nonce, bridge, null)
    })
    let text = ""
    bridge.on("data", (chunk: Buffer) => {
      const lines = (text + chunk.toString("latin1")).split("\n")
      text = lines.pop() ?? ""
      for (const line of lines) told(line, bridge)
      if (text.length > MAX_LINE) bridge.destroy()
    })
    bridge.write(ESTABLISHED)
  }

  const ask = (bridge: Duplex, port: number, millis: number) =>
    new Promise<Duplex | null>((resolve) => {
      const nonce = randomUUID()
      const timer = setTimeout(() => answer(nonce, bridge, null), millis)
      asked.set(nonce, {
        bridge,
        answer: (connection) => {
          clearTimeout(timer)
          resolve(connection)
        }
      })
      bridge.write(`${port} ${nonce}\n`)
    })

  return {
    take: (target, client, head) => {
      client.on("error", () => {})
      if (target === CONTROL) {
        listen(client)
        return true
      }
      const nonce = DATA.exec(target)?.groups?.["nonce"]
      if (nonce === undefined) return false
      if (head.length > 0) client.unshift(head)
      client.write(ESTABLISHED)
      if (!answer(nonce, null, client)) client.destroy()
      return true
    },
    hasBridge: () => bridges.size > 0,
    open: async (port) => {
      const until = Date.now() + OPEN_MILLIS
      for (const bridge of [...bridges].toReversed()) {
        const left = until - Date.now()
        if (left <= 0) return null
        const connection = await ask(bridge, port, Math.min(left, ANSWER_MILLIS))
        if (connection !== null) return connection
      }
      return null
    }
  }
}
