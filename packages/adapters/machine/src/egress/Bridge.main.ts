/**
 * Runs inside a box: a port of its loopback interface that leads to the unix socket of the sandbox's proxy, for programs
 * that know only ports. Writes a line to descriptor 9 when it listens, and closes it.
 *
 *     node Bridge.main.ts PORT SOCKET
 *
 * Imports nothing: a box sees this file alone.
 */
import { closeSync, writeSync } from "node:fs"
import { connect, createServer } from "node:net"

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
})
