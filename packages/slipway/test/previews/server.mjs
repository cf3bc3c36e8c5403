// A server in a sandbox: `node server.mjs PORT`. It tells everything that it was sent.
import { createHash } from "node:crypto"
import { createServer } from "node:http"

const server = createServer((request, response) => {
  const chunks = []
  request.on("data", (chunk) => chunks.push(chunk)).on("end", () => {
    const { pathname } = new URL(request.url, "http://box")
    if (pathname === "/cookies") {
      response.setHeader("set-cookie", [
        "own=1; Path=/",
        "wide=1; Domain=localhost; Path=/",
        "__Host-slipway_session=stolen; Secure; Path=/",
        "__Host-slipway_preview=stolen; Secure; Path=/"
      ])
      response.setHeader("clear-site-data", "\"cookies\"")
      response.setHeader("location", `http://localhost:${process.argv[2]}/there?a=1`)
      return void response.writeHead(302).end()
    }
    if (pathname === "/cut") {
      response.write("half")
      return void setImmediate(() => response.destroy())
    }
    const size = Number(/^\/headers\/(\d+)$/u.exec(pathname)?.[1] ?? 0)
    if (size > 0) return void response.setHeader("x-long", "x".repeat(size)).end()
    // Never ends.
    if (pathname === "/stream") return void response.write("half")
    // Answers never.
    if (pathname === "/wait") return
    if (pathname.endsWith("/worker.js")) {
      response.setHeader("content-type", "text/javascript").setHeader("cache-control", "max-age=3600").setHeader("etag", "\"1\"")
      response.setHeader("service-worker-allowed", "/")
      return void response.end("onfetch = (event) => event.respondWith(new Response('<title>Owned</title>'))")
    }
    if (pathname === "/page") return void response.setHeader("content-type", "text/html").end("<h1>From the box</h1>")
    const { headers, method, url } = request
    response.setHeader("content-type", "application/json")
    response.end(JSON.stringify({ method, url, headers, body: Buffer.concat(chunks).toString() }))
  })
})

// Speaks one frame: sends back what it is sent, unmasked.
server.on("upgrade", ({ headers }, socket) => {
  const accept = createHash("sha1").update(`${headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64")
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`)
  socket.on("error", () => {})
  socket.on("data", (frame) => {
    if ((frame[0] & 15) !== 1) return socket.end()
    const length = frame[1] & 127
    const mask = frame.subarray(2, 6)
    const text = frame.subarray(6, 6 + length).map((byte, i) => byte ^ mask[i % 4])
    socket.write(Buffer.concat([Buffer.from([0x81, length]), text]))
  })
})

server.listen(Number(process.argv[2]), "127.0.0.1")
