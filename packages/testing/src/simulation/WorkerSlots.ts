/** The workers of a simulation: their processes on machines, which start, stop, and get lost with their machine. */
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { Chance } from "../chance/Chance.ts"
import type { Process } from "./Timeline.ts"
import type { Machine, World } from "./World.ts"

/** A place for one worker after the other on a machine. */
export interface Slot {
  readonly machine: Machine
  incarnation: number
  process: Process | null
  stop: Deferred.Deferred<void> | null
  /** It is not started again before; epoch milliseconds. */
  downUntil: number
}

/** The error of a wrong clock in milliseconds. */
export const skewOf = (chance: Chance): number => chance.pick([-25, -1, 1, 25]) * 3_600_000 + chance.between(-20_000, 20_000)

/** The slots of all machines, at least two. */
export const slotsOf = ({ chance, machines }: World): ReadonlyArray<Slot> =>
  Array.from({ length: Math.max(machines.length, chance.between(2, 3)) }, (_, i) => ({
    machine: machines[i % machines.length]!,
    incarnation: 0,
    process: null,
    stop: null,
    downUntil: 0
  }))

/** Whether the slot's worker is alive. */
export const isRunning = (slot: Slot) => slot.process?.alive === true

/** Kills the workers of the slot's machine, which comes back after this time with its disk. */
export const goDown = (world: World, { machine }: Slot, millis: number) => {
  for (const other of world.slots) {
    if (other.machine !== machine) continue
    if (other.process !== null) world.kill(other.process)
    other.downUntil = world.timeline.now + millis
  }
}

/** As {@link goDown}, but the machine comes back without its disk. */
export const lose = (world: World, slot: Slot, millis: number) => {
  goDown(world, slot, millis)
  slot.machine.systems = world.newSystems()
}

/** Starts a worker. */
export const launch = (world: World, slot: Slot) => {
  const { agentIdle, chance, faults, options, slots, timeline, trace, versions } = world
  const { machine } = slot
  const process = timeline.process(`worker-${slots.indexOf(slot) + 1}.${++slot.incarnation}`)
  if (faults.happens("clockSet", process.name)) process.skewMillis = skewOf(chance)
  const stop = Deferred.makeUnsafe<void>()
  const alone = slots.every((other) => other === slot || other.machine !== machine || !isRunning(other))
  slot.process = process
  slot.stop = stop
  versions.starts(process)
  trace.add(`${process.name} starts on ${machine.name}`)
  // Ends leases before another worker starts there.
  if (alone && chance.is(0.5)) world.run(world.leases.endLeases(machine.name), Context.empty())
  const running = Effect.gen(function*() {
    yield* options.worker({ worker: process.name, machine: machine.name, slots: chance.between(1, 4), agentIdle })
    yield* Deferred.await(stop)
  }).pipe(Effect.scoped, Effect.provide(Publishing.layer))
  world.spawn(process, world.portsOf(process, machine), running, (exit) => {
    world.mustNotFail(exit)
    for (const { agent } of world.started.get(process) ?? []) {
      if (agent.running) trace.breaks("a worker that stopped leaves no agent", process.name)
    }
    world.kill(process)
  })
}
