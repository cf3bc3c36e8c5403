/**
 * A process that watches another one, beside those who attack it: memory and `/healthz` ten times a second, and how long
 * another tenant waits. Arguments: pid, address, and the tenant's key or nothing. Writes a line of JSON for each sample.
 */
import { readFileSync } from "node:fs"
import { Agent, get } from "node:http"

const PERIOD_MILLIS = 100
/** What is not answered by then counts as this. */
const PATIENCE_MILLIS = 30_000

const [pid = "", address = "", key = ""] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true, maxSockets: 32 })

/** Milliseconds until the whole answer was there; `null`: there is none. */
const ask = (path: string, headers: Record<string, string> = {}) =>
  new Promise<number | null>((resolve) => {
    const start = performance.now()
    const request = get(address + path, { agent, headers, timeout: PATIENCE_MILLIS }, (response) => {
      response.resume()
      response.on("end", () => resolve(response.statusCode === 200 ? performance.now() - start : null))
      response.on("error", () => resolve(null))
    })
    request.on("timeout", () => {
      request.destroy()
      resolve(PATIENCE_MILLIS)
    })
    request.on("error", () => resolve(null))
  })

const rss = () => {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/mu.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024
  } catch {
    return 0
  }
}

let due = performance.now()
let n = 0
setInterval(() => {
  const now = performance.now()
  // How busy the machine is: what this process was late cannot be told from what it waited.
  const late = Math.max(0, now - due)
  due = now + PERIOD_MILLIS
  const at = Date.now()
  const tell = (sample: object) => process.stdout.write(`${JSON.stringify({ at, late, ...sample })}\n`)
  tell({ rss: rss() })
  void ask("/healthz").then((healthz) => tell({ healthz, until: Date.now() }))
  if (key !== "" && n++ % 3 === 0) {
    void ask("/api/public/v1/sandboxes", { authorization: `Bearer ${key}` }).then((tenant) => tell({ tenant, until: Date.now() }))
  }
}, PERIOD_MILLIS)
