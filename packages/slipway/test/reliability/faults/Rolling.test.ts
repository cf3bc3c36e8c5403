/** Processes that are restarted one after the other, as an upgrade does, while people work. */
import { Effect } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import * as Random from "../../../testing/Random.ts"
import * as Readers from "../../../testing/Readers.ts"
import { fault, type Found } from "./Battery.ts"
import * as Load from "./Load.ts"
import * as Service from "./Service.ts"

const STREAMS = 100
const PER_SECOND = 100
/** The time that an http process needs to leave: docs/operating/processes.md. */
const LEAVE_MILLIS = 10_000
const RESUME_MILLIS = 30_000

fault(
  "15 all processes are restarted one after the other",
  [],
  Effect.gen(function*() {
    const service = yield* Service.make({ name: "rolling", http: 2 })
    return yield* Effect.promise(async (): Promise<Found> => {
      // Like a balancer: a process that is about to leave gets no new requests, and its open ones are to be answered.
      const open = [...service.urls]
      const load = Load.start({ urls: open, key: service.key, name: "rolling", perSecond: PER_SECOND })
      const ids: Array<string> = []
      const known = setInterval(() => ids.splice(0, ids.length, ...load.created.values()), 100)
      let over = false
      const readers = Readers.make(open, service.key, ids, () => over, Random.make(1))
      const reading = Promise.all(Array.from({ length: STREAMS }, () => readers.follow()))
      await sleep(2_000)
      const lost: Array<string> = []
      let slowest = 0
      for (const process of [...service.front, ...service.back]) {
        const at = open.indexOf(process.url)
        if (at !== -1) {
          open.splice(at, 1)
          // Requests on their way to it have arrived by then.
          await sleep(1_000)
        }
        const began = performance.now()
        await process.stop().catch((error: unknown) => lost.push(String(error)))
        const millis = performance.now() - began
        if (service.front.includes(process)) slowest = Math.max(slowest, millis)
        await process.start()
        if (at !== -1) open.push(process.url)
        await sleep(1_000)
      }
      await load.stop()
      // Every interrupted reader has resumed, and has all events by now.
      const told = new Map(
        (await service.rows("SELECT sandbox_id, count(*)::int AS count FROM sandbox_events GROUP BY 1")).map((row) => [
          row["sandbox_id"],
          Number(row["count"])
        ])
      )
      const behind = () => readers.seen.filter(({ events, sandboxId }) => events.size < (told.get(sandboxId) ?? 0)).length
      for (const end = Date.now() + RESUME_MILLIS; behind() > 0 && Date.now() < end;) await sleep(100)
      if (behind() > 0) lost.push(`${behind()} readers have not resumed to the end of their log`)
      over = true
      clearInterval(known)
      await Promise.all([...service.front].map((process) => process.stop()))
      await reading
      if (slowest > LEAVE_MILLIS) lost.push(`a process took ${(slowest / 1000).toFixed(1)} s to leave`)
      for (const [cause, n] of load.replies) {
        if (!/^(?:2..|429|503|ECONNREFUSED)$/u.test(cause)) lost.push(`${n} requests were lost before their answer: ${cause}`)
      }
      for (const process of service.front) await process.start()
      lost.push(...readers.wrong, ...await Readers.logs(service.rows, readers.seen), ...await service.verdict(load))
      const frames = readers.seen.reduce((sum, { events }) => sum + events.size, 0)
      const streams = `${STREAMS} streams (${frames} events, ${readers.resumed()} resumed)`
      const seconds = (slowest / 1000).toFixed(1)
      return { done: `two http processes and a worker, under ${streams}; they left within ${seconds} s; ${Service.summary(load)}`, lost }
    })
  })
)
