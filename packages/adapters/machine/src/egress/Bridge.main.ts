/**
 * Runs inside a box: a port of its loopback interface that leads to the unix socket of the sandbox's proxy, for programs
 * that know only ports. Writes a line to descriptor 9 when it listens, and closes it. Also connects to ports of that interface for
 * previews, as `PortRelays` asks for.
 *
 *     node Bridge.main.ts PORT SOCKET
 *
 * Imports nothing: a box sees this file alone.
 */
import { closeSync, writeSync } from "node:fs"
import { connect, createServer, type Socket } from "node:net"

const [, , port, socket = ""] = process.argv
// Not standard output: Node would open that again when it is closed.
const READY = 9

createServer({ allowHalfOpen: true }, (client) => {
  const proxy = connect({ path: socket, allowHalfOpen: true })
  const end = () => {
    client.destroy()
    proxy.destroy()
  }
  client.on("error", end)
  proxy.on("error", end)
  client.pipe(proxy)
  proxy.pipe(client)
}).listen({ port: Number(port), host: "127.0.0.1" }, () => {
  writeSync(READY, "listening\n")
  closeSync(READY)
  follow()
})

/** Asks the proxy for a tunnel to `target`, which begins after the proxy's head. */
const tunnel = (target: string, begun: (proxy: Socket, rest: string) => void) => {
  const proxy = connect({ path: socket, allowHalfOpen: true })
  proxy.on("error", () => {})
  let head = ""
  const look = (chunk: Buffer) => {
    head += chunk.toString("latin1")
    const end = head.indexOf("\r\n\r\n")
    if (end < 0) return
    proxy.off("data", look)
    if (!head.startsWith("HTTP/1.1 200 ")) return void proxy.destroy()
    begun(proxy, head.slice(end + 4))
  }
  proxy.on("data", look)
  proxy.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
  return proxy
}

/** Connects to the first of the addresses that takes a connection. */
const reach = (port: number, [host, ...others]: ReadonlyArray<string>, done: (server: Socket | null) => void) => {
  if (host === undefined) return done(null)
  const server = connect({ port, host, allowHalfOpen: true })
  const refused = () => reach(port, others, done)
  server.once("error", refused)
  server.once("connect", () => {
    server.off("error", refused)
    done(server)
  })
}

/** Passes connections to ports of this box, as long as the proxy asks for them. */
const follow = () => {
  const open = (control: Socket, line: string) => {
    const [asked = "", nonce = ""] = line.split(" ")
    reach(Number(asked), ["127.0.0.1", "::1"], (server) => {
      if (server === null) return void control.write(`${nonce}\n`)
      const proxy = tunnel(`${nonce}.port.slipway:1`, (opened, rest) => {
        if (rest !== "") server.write(rest, "latin1")
        opened.pipe(server)
        server.pipe(opened)
      })
      const end = () => {
        server.destroy()
        proxy.destroy()
      }
      server.on("error", () => {
        // The proxy closes the tunnel when it is told: an end from here would look like the end of the bytes.
        if (control.destroyed) end()
        else control.write(`${nonce}\n`)
      })
      server.on("close", () => server.errored === null && proxy.readableEnded && end())
      proxy.on("error", end).on("close", end)
    })
  }
  tunnel("ports.slipway:1", (control, rest) => {
    let text = rest
    const look = (chunk: string) => {
      const lines = (text + chunk).split("\n")
      text = lines.pop() ?? ""
      for (const line of lines) open(control, line)
    }
    control.on("data", (chunk: Buffer) => look(chunk.toString("latin1")))
    look("")
    control.on("end", () => control.destroy())
  })
}
