// Says its address and a key on one line, and serves until its input ends.
import { createServer } from "node:http"
import { key, slipway } from "./slipway.mjs"

const server = createServer(slipway.node).listen(0, "127.0.0.1", () => {
  process.stdout.write(`${JSON.stringify({ SLIPWAY_URL: `http://127.0.0.1:${server.address().port}/slipway`, SLIPWAY_API_KEY: key })}\n`)
})
process.stdin.resume().on("end", async () => {
  await slipway.close()
  process.exit()
})
