/** A cable to another network namespace that loses, delays, doubles and reorders packets, and can be cut without a word to either end. */
import { Effect, type Scope } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { attempt, noNamespaces } from "./Cable.ts"

const program = fileURLToPath(new URL("troubled-cable.pl", import.meta.url))

/** Faults of packets, in each direction. */
export interface Trouble {
  /** Rates are from 0 to 1. */
  readonly lost: number
  /** The longest that one waits. */
  readonly delayMillis: number
  /** The share of packets that do not wait, and so overtake all that do. */
  readonly overtaking: number
  /** The second one comes after the longest delay. */
  readonly doubled: number
}

export const NONE: Trouble = { lost: 0, delayMillis: 0, overtaking: 0, doubled: 0 }

/** The faults of a bad line that TCP still takes for a working one. */
export const BAD: Trouble = { lost: 0.02, delayMillis: 5, overtaking: 0.1, doubled: 0.02 }

/** Packets of one direction, since there is a cable. */
export interface Counts {
  readonly took: number
  /** Those that came while it was cut, too. */
  readonly lost: number
  readonly doubled: number
  /** How many of those that waited were overtaken, each as often as it was. */
  readonly overtook: number
  readonly gave: number
  readonly waiting: number
}

export interface Told {
  readonly toThere: Counts
  readonly toHere: Counts
  /** How often `breakAt` came about. */
  readonly breaks: number
  readonly isCut: boolean
}

export interface TroubledCable {
  /** The name of the namespace. */
  readonly name: string
  readonly address: string
  readonly tell: Effect.Effect<Told>
  /** Carries nothing from now on, until it is mended; what is on its way arrives. */
  readonly cut: Effect.Effect<Told>
  readonly mend: Effect.Effect<Told>
  /**
   * Carries nothing from this packet with data of TCP on, numbered from 1 over both directions from now, until somebody dials for so many
   * times: that dial comes through. Neither end is told: what each believes of its connections is its own business.
   */
  readonly breakAt: (packet: number, dials: number) => Effect.Effect<Told>
}

/** The number of cables of this process, so far. */
let cables = 0

/** `seed` chooses the fate of each packet, in each direction in the order of arrival. */
export const troubledCable = (trouble: Trouble, seed = 1): Effect.Effect<TroubledCable, never, Scope.Scope> =>
  Effect.gen(function*() {
    const own = `${process.pid}x${++cables}`
    const name = `slipway-troubled-${own}`
    // Four addresses that no cable before had: TCP sends again what the other end of that one did not take, long after its programs ended.
    const block = 4 * ((16 * process.pid + cables) % 2 ** 14)
    const addressOf = (end: number) => `10.234.${block >> 8}.${(block & 255) + end}`
    const address = addressOf(2)
    const { delayMillis, doubled, lost, overtaking } = trouble
    const args = [name, `st${own}a`, `st${own}b`, addressOf(1), address, ...[seed, lost, delayMillis, overtaking, doubled].map(String)]
    const { ask, ready } = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const child = spawn("perl", [program, ...args], { stdio: ["pipe", "pipe", "inherit"] })
        const exited = once(child, "exit")
        const gone = exited.then(([code]): never => {
          throw new Error(`the cable is gone (${code})`)
        })
        // It is waited for by who asks.
        gone.catch(() => {})
        const lines = createInterface({ input: child.stdout })
        const answer = () => Promise.race([once(lines, "line").then(([line]): Told => JSON.parse(line)), gone])
        let turn = answer()
        turn.catch(() => {})
        const ask = (line: string) => {
          turn = turn.then(() => {
            const answered = answer()
            child.stdin.write(`${line}\n`)
            return answered
          })
          return turn
        }
        return { ask, ready: turn, end: () => (child.stdin.end(), exited) }
      }),
      ({ end }) => Effect.promise(end)
    )
    yield* Effect.promise(() => ready)
    const asking = (line: string) => Effect.promise(() => ask(line))
    return {
      name,
      address,
      tell: asking("tell"),
      cut: asking("cut"),
      mend: asking("mend"),
      breakAt: (packet, dials) => asking(`break ${packet} ${dials}`)
    }
  })

const missing = attempt(() => void execFileSync("perl", [program], { stdio: "pipe" }))

/** Why there are none here; `undefined`: there are. */
export const noTrouble = noNamespaces ?? (missing === undefined ? undefined : `needs perl and TUN devices: ${missing}`)
