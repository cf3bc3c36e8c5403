// A server as one is easily written: it hands a long event stream to the socket at once, without waiting for the reader.
import { createServer } from "node:http"

const MIB = 2 ** 20
const frame = `id: 1\ndata: {"type":"message.updated","text":"${"x".repeat(MIB)}"}\n\n`

createServer((_, response) => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  for (let i = 0; i < 20; i++) response.write(Buffer.from(frame))
}).listen(0, "127.0.0.1", function() {
  process.stdout.write(`${this.address().port}\n`)
})
