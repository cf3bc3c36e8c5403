/**
 * One scheduler and one clock for everything that is simulated. Which of the ready tasks runs next, where a fiber is
 * interrupted by another and how time passes follow from the seed alone; nothing waits for real time.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Random from "effect/Random"
import * as References from "effect/References"
import * as Scheduler from "effect/Scheduler"
import type { Chance } from "../chance/Chance.ts"
import type { Deployed, Release } from "../stores/Versions.ts"

/** Fibers that run together and die together. A killed process never runs again, not even its finalizers. */
export class Process implements Scheduler.Scheduler, Deployed {
  readonly executionMode = "sync"
  readonly name: string
  readonly clock: Clock.Clock
  alive = true
  /** The steps of its fibers so far. */
  steps = 0
  /** It stands still until then; epoch milliseconds. */
  pausedUntil = 0
  /** How far its machine's clock is ahead. */
  skewMillis = 0
  /** Its calls to the store do not come through until then; epoch milliseconds. */
  cutOffUntil = 0
  callsUnderWay = 0
  release: Release | null = null
  /** Work that is kept back while the process stands still. */
  readonly held: Array<() => void> = []
  readonly #timeline: Timeline
  readonly #dispatcher: Scheduler.SchedulerDispatcher

  constructor(timeline: Timeline, name: string) {
    this.name = name
    this.#timeline = timeline
    this.clock = clockOf(timeline, this)
    this.#dispatcher = { scheduleTask: (task) => timeline.ready(this, task), flush: () => {} }
  }

  shouldYield({ currentOpCount }: Fiber.Fiber<unknown, unknown>): boolean {
    // Effect 4.1.0 forgets the interruption of a fiber that makes room in its very first operation, which no scheduler of its own does.
    return currentOpCount > 1 && this.#timeline.preempts()
  }

  makeDispatcher(): Scheduler.SchedulerDispatcher {
    return this.#dispatcher
  }

  get paused(): boolean {
    return this.pausedUntil > this.#timeline.now
  }
}

interface Task {
  readonly process: Process
  readonly run: () => void
}

interface Timer extends Task {
  readonly at: number
  /** Orders timers of one moment. */
  readonly order: number
  cancelled: boolean
}

/**
 * One scheduler and one clock for all processes: picks what runs next by chance, and moves the clock when nothing
 * can.
 */
export class Timeline {
  /** Epoch milliseconds. */
  now = 1_795_228_860_000
  steps = 0
  readonly #processes: Array<Process> = []
  readonly #chance: Chance
  readonly #effects: Chance
  readonly #tasks: Array<Task> = []
  readonly #timers: Array<Timer> = []
  #operationsLeft = 0
  readonly #operationsBetween: number

  constructor(chance: Chance) {
    this.#chance = chance
    this.#effects = chance.fork()
    this.#operationsBetween = chance.pick([40, 200, 2000])
  }

  /** The time as it is, whatever a process's machine says. */
  get clock(): Clock.Clock {
    return clockOf(this, null)
  }

  process(name: string): Process {
    const process = new Process(this, name)
    this.#processes.push(process)
    return process
  }

  /** The process that took most of the steps. */
  get busiest(): Process | undefined {
    return this.#processes.toSorted((a, b) => b.steps - a.steps)[0]
  }

  ready(process: Process, run: () => void): void {
    if (process.alive) this.#tasks.push({ process, run })
  }

  at(process: Process, at: number, run: () => void): () => void {
    const timer: Timer = { process, run, at, order: this.#chance.next(), cancelled: false }
    push(this.#timers, timer)
    return () => {
      timer.cancelled = true
    }
  }

  /** Stands still from now on, as a process whose machine is busy does. */
  pause(process: Process, millis: number): void {
    process.pausedUntil = Math.max(process.pausedUntil, this.now + millis)
    this.at(process, process.pausedUntil, () => {})
  }

  resume(process: Process): void {
    process.pausedUntil = Math.min(process.pausedUntil, this.now)
    for (const run of process.held.splice(0)) this.ready(process, run)
  }

  preempts(): boolean {
    if (--this.#operationsLeft > 0) return false
    this.#operationsLeft = 1 + Math.floor(this.#chance.next() * 2 * this.#operationsBetween)
    return true
  }

  /** Runs an effect as a fiber of the process. */
  spawn<A, E, R>(process: Process, context: Context.Context<R>, effect: Effect.Effect<A, E, R>): Fiber.Fiber<A, E> {
    const placed = effect.pipe(
      Effect.provideService(Clock.Clock, process.clock),
      Effect.provideService(Random.Random, randomOf(this.#effects)),
      Effect.provideService(Logger.CurrentLoggers, new Set()),
      Effect.provideService(References.MinimumLogLevel, "Warn"),
      Effect.provideService(References.TracerEnabled, false)
    )
    return Effect.runForkWith(context)(placed, { scheduler: process })
  }

  /** Runs what needs no time at once. Throws what it dies with. */
  run<A, E, R>(context: Context.Context<R>, effect: Effect.Effect<A, E, R>): A {
    const exit = Effect.runSyncExitWith(context)(effect.pipe(
      Effect.provideService(Clock.Clock, clockOf(this, null)),
      Effect.provideService(Random.Random, randomOf(this.#effects))
    ))
    if (Exit.isSuccess(exit)) return exit.value
    const defect = Cause.squash(exit.cause)
    throw Cause.isAsyncFiberError(defect)
      ? new Error("A port has to answer without a promise or a timer, because time is simulated.")
      : defect
  }

  /** Runs one task, or lets time pass until there is one. False: nothing happens before `until`, which is now. */
  step(until: number): boolean {
    for (;;) {
      // A busy machine: time passes although there is something to do.
      if (this.#tasks.length > 0 && this.#chance.is(0.01)) this.#advance(Math.min(until, this.now + this.#chance.between(1, 20)))
      const { length } = this.#tasks
      if (length > 0) {
        const index = Math.floor(this.#chance.next() * length)
        const task = this.#tasks[index]!
        const last = this.#tasks.pop()!
        if (index < length - 1) this.#tasks[index] = last
        if (!task.process.alive) continue
        if (task.process.paused) {
          task.process.held.push(task.run)
          continue
        }
        this.steps++
        task.process.steps++
        task.run()
        return true
      }
      const next = this.#timers[0]
      if (next === undefined || next.at > until) {
        this.now = until
        return false
      }
      this.#advance(next.at)
    }
  }

  #advance(to: number): void {
    this.now = Math.max(this.now, to)
    for (let next = this.#timers[0]; next !== undefined && next.at <= this.now; next = this.#timers[0]) {
      pop(this.#timers)
      if (next.cancelled) continue
      if (next.process.held.length > 0 && !next.process.paused) this.resume(next.process)
      this.ready(next.process, next.run)
    }
  }
}

const clockOf = (timeline: Timeline, process: Process | null): Clock.Clock => {
  const millis = () => timeline.now + (process?.skewMillis ?? 0)
  const nanos = () => BigInt(millis()) * 1_000_000n
  // This clock is never set, and begins anywhere.
  const passed = () => BigInt(timeline.now - 1_000_000_000) * 1_000_000n
  return {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: passed,
    monotonicTimeNanos: Effect.sync(passed),
    sleep: (duration) => {
      const wait = Duration.toMillis(duration)
      if (wait <= 0) return Effect.yieldNow
      if (process === null || !Number.isFinite(wait)) return Effect.never
      return Effect.callback<void>((resume) => {
        const cancel = timeline.at(process, timeline.now + Math.ceil(wait), () => resume(Effect.void))
        return Effect.sync(cancel)
      })
    }
  }
}

const randomOf = (chance: Chance): Random.Random => ({
  nextDoubleUnsafe: () => chance.next(),
  nextIntUnsafe: () => chance.between(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
})

const isBefore = (a: Timer, b: Timer) => a.at < b.at || a.at === b.at && a.order < b.order

/** A binary heap, the earliest first. */
const push = (heap: Array<Timer>, timer: Timer): void => {
  let i = heap.push(timer) - 1
  while (i > 0) {
    const parent = i - 1 >> 1
    if (!isBefore(timer, heap[parent]!)) break
    heap[i] = heap[parent]!
    i = parent
  }
  heap[i] = timer
}

const pop = (heap: Array<Timer>): void => {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let i = 0
  for (;;) {
    let child = 2 * i + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++
    if (!isBefore(heap[child]!, last)) break
    heap[i] = heap[child]!
    i = child
  }
  heap[i] = last
}

/** A process that is killed never goes on: not between what was done and the note of it. */
export const atOnce = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.provideService(self, Scheduler.PreventSchedulerYield, true)
