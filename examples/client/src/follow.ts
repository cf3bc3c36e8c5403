/** The events of a sandbox as lines of JSON. Started again, it goes on after the last one: `npm run follow -- <sandbox> [file]`. */
import { SlipwayClient } from "@slipway/client"
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs"

const { SLIPWAY_API_KEY = "", SLIPWAY_URL = "http://127.0.0.1:4000" } = process.env
const [id = "", file = `${id}.last`] = process.argv.slice(2)
const client = new SlipwayClient({ baseUrl: SLIPWAY_URL, apiKey: SLIPWAY_API_KEY })

const stop = new AbortController()
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort())

const write = (line: string) =>
  new Promise<void>((done, fail) => process.stdout.write(line, (error) => error == null ? done() : fail(error)))

const since = existsSync(file) ? readFileSync(file, "utf8") : 0
const onLost = (error: Error, waitMillis: number) => process.stderr.write(`${error.message} Again in ${Math.ceil(waitMillis / 1000)} s.\n`)
for await (const event of client.streamEvents(id, { since, signal: stop.signal, onLost })) {
  if (!("id" in event)) continue
  await write(`${JSON.stringify(event)}\n`)
  // A kill between these two writes one event again: what must not happen twice belongs in one transaction with the id.
  writeFileSync(`${file}.new`, event.id)
  renameSync(`${file}.new`, file)
}
