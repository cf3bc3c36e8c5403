/**
 * Loaded into a process under attack: writes down the longest time that its event loop was held, ten times a second. Who shares the
 * machine holds it too: none was held longer than its thread had a processor.
 */
import { appendFileSync } from "node:fs"

const LOOK_MILLIS = 5
const WRITE_MILLIS = 100

const folder = process.env.ABUSE_LOOP_DELAYS
if (folder !== undefined) {
  let at = performance.now()
  let used = process.threadCpuUsage()
  let most = 0
  setInterval(() => {
    const now = performance.now()
    const { system, user } = process.threadCpuUsage(used)
    most = Math.max(most, Math.min(now - at - LOOK_MILLIS, (system + user) / 1000))
    at = now
    used = process.threadCpuUsage()
  }, LOOK_MILLIS).unref()
  setInterval(() => {
    appendFileSync(`${folder}/${process.pid}`, `${Date.now()} ${Math.round(most)}\n`)
    most = 0
  }, WRITE_MILLIS).unref()
}
