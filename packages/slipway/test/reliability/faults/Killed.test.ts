/** Processes that are killed, frozen and thawed at the worst moments. */
import { Effect } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import * as Partner from "../../../testing/Partner.ts"
import type { Process } from "../../../testing/ServiceCluster.ts"
import { chance, fault, type Found, plant, ROUNDS } from "./Battery.ts"
import * as Checks from "./Checks.ts"
import * as Liar from "./Liar.ts"
import * as Load from "./Load.ts"
import * as Sandboxes from "./Sandboxes.ts"
import * as Service from "./Service.ts"

const PER_SECOND = 200
const KILLS = Math.ceil(ROUNDS / 2)
/** Starting a process takes a second or two of a processor, which it shares with those that go on. */
const START_MILLIS = 30_000

/** Creations go to both processes, one of which is killed again and again, until all were acknowledged. */
const killed = Effect.gen(function*() {
  const service = yield* Service.make({ name: "killed-http", http: 2, workers: 0 })
  return yield* Effect.promise(async (): Promise<Found> => {
    const random = chance("kills of an http process")
    const load = service.load({ name: "killed", perSecond: PER_SECOND })
    const [victim] = service.front
    const backMillis: Array<number> = []
    for (let i = 0; i < KILLS; i++) {
      await sleep(random.below(600))
      await victim?.kill()
      const began = performance.now()
      await victim?.start()
      backMillis.push(performance.now() - began)
    }
    await load.stop()
    return {
      done: `one of two killed ${KILLS} times under ${PER_SECOND} creations a second; ${Service.summary(load)}`,
      lost: await service.verdict(load),
      backMillis,
      withinMillis: START_MILLIS
    }
  })
})

fault("2 an http process is killed while it creates (long)", [], killed)

plant(
  "2 a server that lies",
  [],
  Effect.gen(function*() {
    const service = yield* Service.make({ name: "planted", workers: 0 })
    const found: Array<string> = []
    const missed: Array<string> = []
    for (const lie of Liar.LIES) {
      const url = yield* Liar.make(service.urls[0] ?? "", lie)
      const [first] = yield* Effect.promise(async () => {
        const load = Load.start({ urls: [url], key: service.key, name: lie.replaceAll(" ", "-"), perSecond: 20 })
        await sleep(1_000)
        await load.stop()
        return [...load.wrong, ...await Checks.stored(service.rows, load), ...await Checks.answered([url], service.key, load)]
      })
      if (first === undefined) missed.push(lie)
      else found.push(first)
    }
    return { done: `a feed that ${Liar.LIES.join(", ")}`, lost: missed.length === 0 ? found : [] }
  })
)

/** Restarts a worker and says how long that took. */
const again = async (worker: Process | undefined, wait: number) => {
  await worker?.kill()
  await sleep(wait)
  const began = performance.now()
  await worker?.start()
  return performance.now() - began
}

fault(
  "8 the worker is killed between accepting a message and delivering it",
  [],
  Effect.gen(function*() {
    const service = yield* Service.make({ name: "killed-worker" })
    return yield* Effect.promise(async (): Promise<Found> => {
      const [worker] = service.back
      const sandboxes = Sandboxes.make(service.urls[0] ?? "", service.key)
      const rounds = Math.ceil(ROUNDS / 5)
      const ids = await Promise.all([1, 2, 3, 4].map(() => sandboxes.create("[[say ready]]")))
      await Promise.all(ids.map((id) => sandboxes.turns(id, 1)))
      const lost: Array<string> = []
      const backMillis: Array<number> = []
      for (let round = 1; round <= rounds; round++) {
        // Nothing of what is accepted now has been seen by it.
        worker?.freeze()
        const accepted = await Promise.all(ids.map((id) => sandboxes.send(id, `[[shell echo ${round} >> rounds.txt]]`)))
        await again(worker, 0)
        const began = performance.now()
        for (const [i, id] of ids.entries()) {
          const ends = await sandboxes.turns(id, round + 1)
          const mine = ends.filter((end) => end.turnId === accepted[i])
          if (mine.length !== 1) lost.push(`${id}: message ${round} was accepted, and its turn ended ${mine.length} times`)
          if (mine[0]?.state !== "succeeded") lost.push(`${id}: the turn of message ${round} ended as ${mine[0]?.state}`)
        }
        backMillis.push(performance.now() - began)
      }
      for (const id of ids) {
        const read = await sandboxes.file(id, "rounds.txt")
        const wanted = Array.from({ length: rounds }, (_, i) => `${i + 1}\n`).join("")
        if (read !== wanted) lost.push(`${id}: its agent was told ${JSON.stringify(read)}`)
        lost.push(...await sandboxes.gaps(id))
      }
      lost.push(...Checks.ended([...service.front, ...service.back]))
      return {
        done: `${rounds} rounds with ${ids.length} messages each, accepted while it was frozen`,
        lost,
        backMillis,
        withinMillis: START_MILLIS
      }
    })
  })
)

fault(
  "18 the worker is killed between telling a partner and recording that it was told",
  [],
  Effect.gen(function*() {
    const service = yield* Service.make({ name: "killed-teller" })
    return yield* Effect.acquireUseRelease(
      Effect.promise(async () => {
        const [user] = await service.rows("SELECT user_id FROM api_keys WHERE label = 'faults'")
        const [worker] = service.back
        const random = chance("kills while a webhook is told")
        /** Every third is taken, and its answer never arrives. */
        let told = 0
        const partner = await Partner.make(service.service, service.key, String(user?.["user_id"]), async () => {
          if (++told % 3 === 0) void worker?.kill()
          return 204
        })
        return { partner, random, worker, kills: () => Math.floor(told / 3) }
      }),
      ({ kills, partner, random, worker }) =>
        Effect.promise(async (): Promise<Found> => {
          const sandboxes = Sandboxes.make(service.urls[0] ?? "", service.key)
          const feed = () => partner.feed(service.urls[0] ?? "", service.key)
          const facts = Math.ceil(ROUNDS / 4)
          const ids = await Promise.all(Array.from({ length: facts }, () => sandboxes.create("[[say told]]")))
          const seen = new Map<number, string>()
          const lost: Array<string> = []
          for (const end = Date.now() + 120_000; Date.now() < end;) {
            if (worker?.isUp() === false) {
              // An attempt has one taker for a while, and no other.
              await service.rows("UPDATE webhook_endpoints SET claimed_until = now() WHERE claimed_until > now()")
              await worker.start()
            }
            // A reader that lost its cursor reads all of it again.
            const all = await feed()
            for (const event of all) {
              const [body, before] = [JSON.stringify(event), seen.get(event.sequence)]
              if (before !== undefined && before !== body) lost.push(`event ${event.sequence} was ${before}, and is ${body}`)
              seen.set(event.sequence, body)
            }
            if (all.length >= facts && partner.taken.length >= all.length && worker?.isUp() === true) break
            await partner.hurry()
            await sleep(200 + random.below(300))
          }
          const all = await feed()
          const started = all.filter(({ type }) => type === "task.started").length
          if (started !== ids.length) lost.push(`${ids.length} sandboxes were created, and the feed tells of ${started}`)
          if (all.some(({ sequence }, i) => sequence !== i + 1)) lost.push("the feed has gaps")
          if (new Set(all.map(({ id }) => id)).size !== all.length) lost.push("two events have one id")
          const order = partner.taken.map((id) => all.findIndex((event) => event.id === id))
          if (order.length !== all.length || order.some((at, i) => at !== i)) {
            lost.push(`webhooks brought ${order.join(" ")} of ${all.length}`)
          }
          lost.push(...partner.changed.map((id) => `${id} was told again with another body`))
          lost.push(...Checks.ended(service.front))
          return { done: `killed ${kills()} times; ${all.length} events, told again ${partner.repeats()} times with the same id`, lost }
        }),
      ({ partner }) => Effect.sync(() => partner.close())
    )
  })
)

/** Longer than a lease (30 s). */
const FROZEN_MILLIS = 40_000

fault(
  "a worker is frozen for longer than its leases, then thawed (long)",
  [],
  Effect.gen(function*() {
    const service = yield* Service.make({
      name: "frozen",
      workers: 2,
      settings: { SLIPWAY_MACHINE_LOST_SECONDS: "1", SLIPWAY_WORKER_SLOTS: "4" }
    })
    return yield* Effect.promise(async (): Promise<Found> => {
      const sandboxes = Sandboxes.make(service.urls[0] ?? "", service.key)
      const ids = await Promise.all([1, 2, 3, 4].map(() => sandboxes.create("[[write path=kept.txt content=kept]]")))
      await Promise.all(ids.map((id) => sandboxes.turns(id, 1)))
      await Promise.all(ids.map((id) => sandboxes.event(id, "sandbox.checkpoint")))
      for (const id of ids) await sandboxes.send(id, "[[slow 600 100]]")
      await Promise.all(ids.map((id) => sandboxes.event(id, "message.updated", 2)))
      const [frozen] = service.back
      const of = await service.rows("SELECT id, worker FROM sandboxes WHERE worker IS NOT NULL")
      frozen?.freeze()
      await sleep(FROZEN_MILLIS)
      frozen?.thaw()
      const began = performance.now()
      const lost: Array<string> = []
      // The new workers end the turns of these, once each.
      for (const id of ids) await sandboxes.interrupt(id)
      for (const id of ids) {
        const ends = await sandboxes.turns(id, 2)
        if (ends.length !== 2) lost.push(`${id}: ${ends.length} turns ended, of 2`)
        await sandboxes.send(id, "[[say goes on]]")
        const after = await sandboxes.turns(id, 3)
        if (after.at(-1)?.state !== "succeeded") lost.push(`${id}: its next turn ended as ${after.at(-1)?.state}`)
        if ((await sandboxes.file(id, "kept.txt")).trim() !== "kept") lost.push(`${id}: its file is lost`)
        lost.push(...await sandboxes.gaps(id))
      }
      const backMillis = [performance.now() - began]
      lost.push(...Checks.ended([...service.front, ...service.back]))
      const moved = new Set(of.map((row) => row["worker"])).size
      return {
        done: `frozen for ${FROZEN_MILLIS / 1000} s with turns under way on ${moved} workers`,
        lost,
        backMillis,
        withinMillis: START_MILLIS
      }
    })
  })
)

fault(
  "an http process is frozen for longer than anybody waits, then thawed",
  [],
  Effect.gen(function*() {
    const service = yield* Service.make({ name: "frozen-http", http: 2, workers: 0 })
    return yield* Effect.promise(async (): Promise<Found> => {
      const load = service.load({ name: "frozen", perSecond: 40 })
      await sleep(1_000)
      // Less than a client's patience: what it was asked before is answered when it thaws.
      service.front[0]?.freeze()
      await sleep(8_000)
      service.front[0]?.thaw()
      const backMillis = [await Checks.back(service.urls)]
      await load.stop()
      return { done: `one of two frozen for 8 s; ${Service.summary(load)}`, lost: await service.verdict(load), backMillis }
    })
  })
)
