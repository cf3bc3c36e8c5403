/** Faults that happen by themselves, while faults are on. */
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Chance } from "../chance/Chance.ts"
import type { Release } from "../stores/Versions.ts"
import { goDown, isRunning, launch, lose, skewOf } from "./WorkerSlots.ts"
import { limitsOf, TROUBLE_MILLIS, type World } from "./World.ts"

/** Spontaneous faults, and their frequency. */
const TROUBLES = [
  [5, "agentDied"],
  [1, "workerKilled"],
  [2, "workerStopped"],
  [1, "clockSet"],
  [1, "takenBack"],
  [3, "machineLost"],
  [2, "machineAway"],
  [2, "machineDrained"],
  [4, "checkpointDamaged"]
] as const

/** Outages of the processes that answer: one is gone, earlier ones come back, a clock is set. */
export const outages = Effect.fnUntraced(function*(world: World) {
  const { chance, faults, servers } = world
  const own = chance.fork()
  while (faults.on) {
    yield* Effect.sleep(own.between(200, 8_000))
    if (!faults.on) return
    servers.startAll((name) => faults.happens("clockSet", name) ? skewOf(own) : 0)
    const up = servers.processes
    if (up.length > 0 && own.is(0.5) && faults.happens("httpKilled", "http")) world.kill(own.pick(up))
  }
})

/** Faults of workers, their machines, agents and checkpoints. */
export const troubles = Effect.fnUntraced(function*(world: World) {
  const { chance, faults, slots, started, timeline, witness } = world
  const own = chance.fork()
  while (faults.on) {
    yield* Effect.sleep(own.between(200, 6_000))
    if (!faults.on) return
    // Often a process with something to lose.
    const precious = slots.filter(({ process }) => process !== null && witness.losesWork(process))
    const slot = own.pick(precious.length > 0 && own.is(0.4) ? precious : slots)
    const { process, stop } = slot
    if (process === null || !process.alive) {
      if (own.is(0.6) && timeline.now >= slot.downUntil) launch(world, slot)
      continue
    }
    const [one] = started.get(process) ?? []
    if (own.is(0.2)) slot.downUntil = timeline.now + own.between(10_000, 60_000)
    const recorded = Array.from(witness.sandboxes).filter(([, { state }]) => state.checkpoint > 0)
    switch (own.weighted(TROUBLES)) {
      case "machineLost":
        if (!faults.happens("machineLost", slot.machine.name)) break
        lose(world, slot, own.is(0.5) ? own.between(500, 5_000) : own.between(1_000, 40_000))
        break
      case "machineAway":
        if (faults.happens("machineAway", slot.machine.name)) goDown(world, slot, own.between(5_000, 60_000))
        break
      case "machineDrained":
        if (!faults.happens("machineDrained", slot.machine.name)) break
        for (const other of slots) {
          if (other.machine !== slot.machine) continue
          if (other.stop !== null) yield* Deferred.succeed(other.stop, undefined)
          other.downUntil = timeline.now + own.between(5_000, 40_000)
        }
        break
      case "checkpointDamaged": {
        const [id, seen] = recorded.length === 0 ? [] : own.pick(recorded)
        if (id === undefined || seen === undefined) break
        if (faults.happens("checkpointDamaged", `${id} ${seen.state.checkpoint}`)) {
          witness.trees.damaged.add(`${id}/${seen.state.checkpoint}`)
        }
        break
      }
      case "agentDied":
        if (one !== undefined && faults.happens("agentDied", process.name)) {
          one.agent.running = false
          yield* one.end
        }
        break
      case "takenBack": {
        const others = slots.filter((other) => other.machine !== slot.machine && isRunning(other))
        if (others.length === 0 || !faults.happens("takenBack", process.name)) break
        // Its sandboxes go elsewhere, and come back as soon as it continues.
        const millis = own.between(30_000, 45_000)
        timeline.pause(process, millis)
        const stopAll = Effect.forEach(others, (other) => other.stop === null ? Effect.void : Deferred.succeed(other.stop, undefined))
        timeline.at(world.process, timeline.now + millis + own.between(-3_000, 1_000), () => {
          if (faults.on) timeline.run(Context.empty(), stopAll)
        })
        break
      }
      case "workerKilled":
        if (faults.happens("workerKilled", process.name)) world.kill(process)
        break
      case "workerStopped":
        if (faults.happens("workerStopped", process.name) && stop !== null) yield* Deferred.succeed(stop, undefined)
        break
      case "clockSet":
        if (faults.happens("clockSet", process.name)) process.skewMillis = skewOf(own)
    }
  }
})

/** An operator changes limits and, in some seeds, the version: process by process, and sometimes back again. */
export const releases = Effect.fnUntraced(function*(world: World) {
  const { chance, changes, faults, trace, versions } = world
  const own = chance.fork()
  for (let left = changes; left > 0; left--) {
    yield* Effect.sleep(own.between(1_000, TROUBLE_MILLIS / 2))
    if (!faults.on) return
    const before = versions.newest
    const next = { limits: own.is(0.2) ? before.limits : limitsOf(own), isEarlier: false }
    const places = shuffled(own, versions.places)
    const isBack = own.is(0.3)
    const changed = isBack ? places.slice(0, own.between(1, places.length)) : places
    yield* spread(world, own, next, changed)
    if (!isBack || !faults.on) continue
    trace.count("changes that were taken back")
    yield* spread(world, own, before, changed)
  }
})

/** Brings a release to these places, at once or one after the other. */
const spread = Effect.fnUntraced(function*(world: World, own: Chance, next: Release, places: ReadonlyArray<string>) {
  const { faults, slots, trace, versions } = world
  tellChange(world, next)
  versions.newest = next
  const pace = own.pick([0, 4_000, 12_000])
  for (const place of places) {
    if (pace > 0) yield* Effect.sleep(own.between(1, pace))
    if (!faults.on) return
    versions.move(place, next)
    const process = versions.at(place)
    const isSame = process?.release?.isEarlier === next.isEarlier
    if (process === undefined) continue
    if (isSame && own.is(0.6)) {
      process.release = next
      continue
    }
    trace.count(isSame ? "processes restarted for other limits" : "processes restarted for another version")
    const slot = slots.find((one) => one.process === process)
    if (slot?.stop != null && own.is(0.7)) yield* Deferred.succeed(slot.stop, undefined)
    else world.kill(process)
  }
})

const tellChange = ({ trace, versions }: World, { isEarlier, limits }: Release) => {
  const names = Object.keys(limits) as ReadonlyArray<keyof Limits>
  for (const name of names) {
    const [was, is] = [versions.newest.limits[name], limits[name]].map((limit) => Duration.toMillis(limit)) as [number, number]
    if (was !== is) trace.count(is > was ? "limits that were raised" : "limits that were lowered")
  }
  const told = names.map((name) => `${name} ${Duration.toSeconds(limits[name])} s`).join(", ")
  trace.add(`the ${isEarlier ? "earlier" : "present"} version is to run everywhere, with ${told}`)
}

const shuffled = <A>(own: Chance, items: ReadonlyArray<A>): ReadonlyArray<A> =>
  items.map((item) => ({ item, at: own.next() })).toSorted((a, b) => a.at - b.at).map(({ item }) => item)
