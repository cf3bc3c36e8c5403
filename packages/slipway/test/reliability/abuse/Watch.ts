/**
 * A process that watches another one, beside those who attack it: memory and `/healthz` ten times a second, and how long
 * another tenant waits. Arguments: pid, address, and the tenant's key or nothing. Writes a line of JSON for each sample.
 */
import { readFileSync } from "node:fs"
import { Agent, get } from "node:http"

const PERIOD_MILLIS = 100
const LOOK_MILLIS = 10
/** The time after which a missing answer counts as this. */
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

/** Milliseconds that the process's first thread waited for a processor so far, which others had; 0: the kernel does not count them. */
const delayed = () => {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1] ?? 0) / 1e6
  } catch {
    return 0
  }
}

let due = performance.now()
/** How busy the machine is: what this process was late cannot be told from what it waited. */
let latest: Array<{ readonly at: number; readonly late: number }> = []
setInterval(() => {
  const now = performance.now()
  latest = [...latest.filter(({ at }) => at > now - PATIENCE_MILLIS), { at: now, late: Math.max(0, now - due) }]
  due = now + LOOK_MILLIS
}, LOOK_MILLIS)

const tell = (sample: object) => process.stdout.write(`${JSON.stringify({ at: Date.now(), ...sample })}\n`)

/** With how late this process was, at most, while it waited. */
const timed = async (what: "healthz" | "tenant", asking: Promise<number | null>) => {
  const [start, at, before] = [performance.now(), Date.now(), delayed()]
  const waited = await asking
  const queued = delayed() - before
  setTimeout(() => {
    const late = latest.reduce((most, look) => look.at >= start ? Math.max(most, look.late) : most, 0)
    tell({ at, until: at + (waited ?? performance.now() - start), late, queued, [what]: waited })
  }, 2 * LOOK_MILLIS)
}

let n = 0
setInterval(() => {
  tell({ rss: rss() })
  void timed("healthz", ask("/healthz"))
  if (key !== "" && n++ % 3 === 0) void timed("tenant", ask("/api/public/v1/sandboxes", { authorization: `Bearer ${key}` }))
}, PERIOD_MILLIS)
