/**
 * Faults at a port: calls that come late, are refused, are carried out without an answer, or twice; processes that stall or are killed in
 * between.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Chance } from "../chance/Chance.ts"
import type { Process, Timeline } from "./Timeline.ts"
import type { Trace } from "./Trace.ts"

/** Everything that can go wrong, by name. */
export const FaultKind = [
  /** It is carried out later; the caller waits. */
  "delayed",
  /** It is on its way and is carried out later, whatever becomes of its caller. */
  "underWay",
  /** Nothing was done, and the caller is told. */
  "refused",
  /** It was done, and the caller is told that it was not. */
  "answerLost",
  "repeated",
  /** The process is gone before the call, or before its answer. */
  "killedBefore",
  "killedAfter",
  /** The process stands still. */
  "stalled",
  "hintLost",
  "hintRepeated",
  /** An agent does not do as it was asked. */
  "interruptIgnored",
  /** Its calls to the store do not come through for a while. */
  "workerCutOff",
  /** A checkpoint is cut off in the middle. */
  "putCut",
  /** The process is gone in the middle of a checkpoint, or before anything is recorded of it. */
  "diedPutting",
  /** The process is gone as soon as it has the lease of a sandbox that another machine had. */
  "diedArriving",
  /** A machine is gone with all that is on its disk as soon as the first session of a sandbox's agent is known, before its boot ends. */
  "diedBooting",
  /** A bit of a checkpoint is another one. */
  "checkpointDamaged",
  /** The files that turns left cannot go into a checkpoint. */
  "treeTooLarge",
  /** A machine is gone with all that is on its disk, and comes back without. */
  "machineLost",
  /** A machine is gone, and comes back with all that was on its disk. */
  "machineAway",
  /** All workers of a machine are asked to end, and come back later. */
  "machineDrained",
  /** A worker stands still until its sandboxes are elsewhere; then those who have them stop. */
  "takenBack",
  /** By themselves, between calls. */
  "agentDied",
  "workerKilled",
  "workerStopped",
  /** Somebody sets the clock of its machine, by seconds or by a day. */
  "clockSet",
  /** A process that answers people is gone by itself, or right when it has done what it was asked and has not said so. */
  "httpKilled",
  "diedAnswering",
  /** The caller is cut off from the callee, which goes on. */
  "connectionCut",
  /** A credential in use becomes invalid. */
  "keyRevoked",
  "grantRevoked",
  /** The receiver of an event does not answer, or answers that it has no time, that it cannot, or never more. */
  "receiverSilent",
  "receiverBusy",
  "receiverFails",
  "receiverGone",
  /** It was told, and its answer is lost. */
  "receiverCut"
] as const
export type FaultKind = typeof FaultKind[number]

/** The share of refused calls of a port that hardly works, and of a port that does not work at all. */
const SICKNESS = [0.6, 0.95] as const

/** The faults that a call may meet. */
export interface Possible<E> {
  /** How the port says that the same call may succeed later. */
  readonly error?: () => E
  /** The port says that the call is safe to repeat. */
  readonly repeatable?: boolean
  /** It happens in the process of its caller alone, and ends with it. */
  readonly isOwn?: boolean
  /** Calls that only look are not told unless something goes wrong. */
  readonly quiet?: boolean
}

/** Decides at every call of a port what goes wrong with it. */
export class Faults {
  /** Off: everything is carried out at once, and answered. */
  on = true
  /** The seed's choices for actors outside the service. */
  readonly chance: Chance
  readonly #trace: Trace
  readonly #timeline: Timeline
  readonly #network: Process
  readonly #likely: ReadonlyMap<FaultKind, number>
  readonly kill: (process: Process) => void
  /** Takes the machine of the process away, with all that is on its disk. */
  readonly lose: (process: Process) => void
  readonly #mayDie: (process: Process) => boolean
  readonly #until: number
  /** A port that hardly works. */
  readonly #sick: string | null
  readonly #sickness: number
  /** From when on; epoch milliseconds. */
  readonly #sickFrom: number

  constructor(options: {
    readonly chance: Chance
    readonly trace: Trace
    readonly timeline: Timeline
    readonly kill: (process: Process) => void
    readonly lose: (process: Process) => void
    readonly mayDie: (process: Process) => boolean
    /** When everything begins to go well; epoch milliseconds. */
    readonly until: number
  }) {
    const { chance, kill, lose, mayDie, timeline, trace, until } = options
    this.chance = chance
    this.#trace = trace
    this.#timeline = timeline
    this.kill = kill
    this.lose = lose
    this.#mayDie = mayDie
    this.#until = until
    this.#network = timeline.process("network")
    this.#sick = chance.is(0.15) ? chance.pick(["store.", "host.", "trees.", "source.", "agent.", "agent."]) : null
    this.#sickness = chance.pick(SICKNESS)
    this.#sickFrom = timeline.now + (chance.is(0.5) ? 0 : chance.between(5_000, 40_000))
    // Each seed knows some kinds only, so that one does not hide what another shows.
    const much = chance.pick([0.3, 1, 1, 2])
    const usual: Record<FaultKind, number> = {
      delayed: 0.04,
      underWay: 0.02,
      refused: 0.03,
      answerLost: 0.03,
      repeated: 0.03,
      killedBefore: 0.002,
      killedAfter: 0.002,
      stalled: 0.002,
      hintLost: 0.3,
      hintRepeated: 0.1,
      interruptIgnored: 0.5,
      putCut: 0.1,
      diedPutting: 0.04,
      diedArriving: 0.1,
      diedBooting: 0.1,
      checkpointDamaged: 0.5,
      treeTooLarge: 0.3,
      machineLost: 1,
      machineAway: 1,
      machineDrained: 1,
      takenBack: 1,
      agentDied: 1,
      workerKilled: 1,
      workerCutOff: 0.02,
      workerStopped: 1,
      clockSet: 1,
      httpKilled: 1,
      diedAnswering: 0.02,
      connectionCut: 0.02,
      keyRevoked: 1,
      grantRevoked: 0.25,
      receiverSilent: 0.05,
      receiverBusy: 0.1,
      receiverFails: 0.1,
      receiverGone: 0.05,
      receiverCut: 0.1
    }
    this.#likely = new Map(FaultKind.map((kind) => [kind, chance.is(0.6) ? Math.min(1, usual[kind] * much) : 0]))
  }

  /** Whether this goes wrong now; counted when it does. */
  happens(kind: FaultKind, who: string): boolean {
    const likely = kind === "refused" && this.#isSick(who) ? this.#sickness : this.#likely.get(kind) ?? 0
    if (!this.on || !this.chance.is(likely)) return false
    this.#trace.count(kind)
    this.#trace.add(`${who}  [${kind}]`)
    return true
  }

  /** One of them; mostly the first, while nothing goes wrong always. */
  pick<A>(items: ReadonlyArray<A>): A {
    return this.on ? this.chance.pick(items) : items[0]!
  }

  /** Mostly short, sometimes longer than a lease. */
  millis(): number {
    const drawn = this.chance.is(0.7)
      ? this.chance.between(1, 50)
      : this.chance.is(0.8)
      ? this.chance.between(50, 5_000)
      : this.chance.between(5_000, 45_000)
    return Math.max(1, Math.min(drawn, this.#until - this.#timeline.now))
  }

  /** Half of them longer than a lease. */
  longMillis(): number {
    const drawn = this.chance.is(0.5) ? this.chance.between(50, 20_000) : this.chance.between(30_000, 45_000)
    return Math.max(1, Math.min(drawn, this.#until - this.#timeline.now))
  }

  /** After how many chunks of a checkpoint something happens to it; it has four or a few more. */
  chunks(): number {
    return this.chance.between(1, 5)
  }

  /** A call of the process to a port. A killed process makes none. */
  call<A, E>(process: Process, name: string, self: Effect.Effect<A, E>, possible: Possible<E> = {}): Effect.Effect<A, E> {
    return Effect.suspend(() => {
      if (!process.alive) return Effect.never
      const who = `${process.name} ${name}`
      // In the middle of a sandbox's life, where it matters.
      if (name.includes(" by lease ") && this.happens("workerCutOff", who)) process.cutOffUntil = this.#timeline.now + this.longMillis()
      const kind = this.#isCutOff(process, name)
        ? this.chance.is(0.5) ? "refused" : "underWay"
        : this.on && possible.error !== undefined && this.#isSick(who) && this.chance.is(this.#sickness)
        ? this.chance.is(0.7) ? "refused" : "answerLost"
        : this.#draw(process, name, possible)
      if (kind !== null) this.#trace.count(kind)
      if (kind === "answerLost") this.#trace.count(`answers lost of ${name.split(" ", 1)[0]}`)
      if (kind !== null || possible.quiet !== true) this.#trace.add(kind === null ? who : `${who}  [${kind}]`)
      const { error } = possible
      switch (kind) {
        case "delayed":
          return Effect.delay(self, this.millis())
        case "underWay":
          return this.#detached(
            process,
            Effect.delay(self, this.#isCutOff(process, name) ? process.cutOffUntil - this.#timeline.now : this.millis())
          )
        case "refused":
          return error === undefined ? self : Effect.suspend(() => Effect.fail(error()))
        case "answerLost":
          return error === undefined ? self : Effect.flatMap(self, () => Effect.fail(error()))
        case "repeated":
          return Effect.andThen(self, self)
        case "killedBefore":
          this.kill(process)
          return Effect.never
        case "killedAfter":
          return Effect.andThen(
            Effect.exit(self),
            Effect.suspend(() => {
              this.kill(process)
              return Effect.never
            })
          )
        case "stalled":
          this.#timeline.pause(process, this.longMillis())
          return Effect.andThen(Effect.yieldNow, self)
        default:
          return self
      }
    })
  }

  #isCutOff(process: Process, name: string): boolean {
    return process.cutOffUntil > this.#timeline.now && name.startsWith("store.")
  }

  #isSick(who: string): boolean {
    return this.#sick !== null && this.#timeline.now >= this.#sickFrom && who.includes(` ${this.#sick}`)
  }

  #draw<E>(process: Process, name: string, { error, isOwn, repeatable }: Possible<E>): FaultKind | null {
    if (!this.on) return null
    // The other ports are called far less often.
    let at = this.chance.next() / (name.startsWith("store.") ? 1 : 5)
    for (const kind of FaultKind.slice(0, 8)) {
      if ((at -= this.#likely.get(kind) ?? 0) >= 0) continue
      const isPossible = kind === "refused" || kind === "answerLost" ?
        error !== undefined
        : kind === "repeated" ?
        repeatable === true
        : kind === "killedBefore" || kind === "killedAfter" || kind === "stalled" ?
        this.#mayDie(process)
        : kind !== "underWay" || isOwn !== true
      return isPossible ? kind : null
    }
    return null
  }

  #detached<A, E>(process: Process, self: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.callback<A, E>((resume) => {
      process.callsUnderWay += 1
      const fiber = this.#timeline.spawn(this.#network, Context.empty(), self)
      fiber.addObserver((exit) => {
        process.callsUnderWay -= 1
        this.#timeline.ready(process, () => resume(exit))
      })
    })
  }
}
