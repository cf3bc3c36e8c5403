/** Loaded into a process under attack: writes down the longest time that its event loop was held, five times a second. */
import { appendFileSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"

const folder = process.env.ABUSE_LOOP_DELAYS
if (folder !== undefined) {
  const delays = monitorEventLoopDelay({ resolution: 5 })
  delays.enable()
  setInterval(() => {
    appendFileSync(`${folder}/${process.pid}`, `${Date.now()} ${Math.round(delays.max / 1e6)}\n`)
    delays.reset()
  }, 200).unref()
}
