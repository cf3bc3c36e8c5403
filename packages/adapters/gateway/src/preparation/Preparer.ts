/**
 * Prepares requests: small ones on the main thread, large ones on another thread, so that they do not block other requests. Each runs
 * one request at a time, and sessions take turns: many requests of one session delay another session by a single request.
 */
import * as FairScheduler from "@slipway/machine/node/FairScheduler"
import { Effect, type Scope } from "effect"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import { type AddressRule, type Asked, type Fetching, prepare, type Prepared } from "./Preparation.ts"
import type { Task } from "./PreparationThread.main.ts"
import * as Transfer from "./Transfer.ts"

/** Takes less than 5 ms in the worst case (2026-11). */
const SMALL_BYTES = 64 * 1024

/** Twice the memory of the largest request within the limits of {@link prepare}. */
const THREAD_MEGABYTES = 768

/** A request waits for earlier ones of its session, and for one request of each other session per turn. */
const TURN_WITHIN = "1 minute"

const thread = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./PreparationThread.main.ts" : "./PreparationThread.main.js", import.meta.url)
)

interface Done {
  readonly id: number
  readonly prepared: Prepared | Fetching | null
}

/** `null`: the request is invalid. Fails if its turn did not come in time. `session`: the session whose turn it takes. */
export type Prepare = (session: string, asked: Asked) => Effect.Effect<Prepared | Fetching | null, "too busy">

const nextTurn = Effect.callback<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

export const make = (addresses: AddressRule): Effect.Effect<Prepare, never, Scope.Scope> =>
  Effect.gen(function*() {
    let worker: Worker | null = null
    let next = 0
    const waiting = new Map<number, (prepared: Prepared | Fetching | null) => void>()
    const here = FairScheduler.make({ atOnce: 1, perGroup: 1 })
    const there = FairScheduler.make({ atOnce: 1, perGroup: 1 })

    const started = (): Worker => {
      if (worker !== null) return worker
      const made = new Worker(thread, { env: {}, execArgv: [], resourceLimits: { maxOldGenerationSizeMb: THREAD_MEGABYTES } })
      made.unref()
      made.on("message", ({ id, prepared }: Done) => {
        waiting.get(id)?.(prepared)
        waiting.delete(id)
      })
      // The thread's request exceeded its memory; the next request gets a new thread.
      made.on("error", () => {})
      made.on("exit", () => {
        if (worker === made) worker = null
        for (const answer of waiting.values()) answer(null)
        waiting.clear()
      })
      worker = made
      return made
    }

    yield* Effect.addFinalizer(() => Effect.promise(async () => worker?.terminate()))

    return (session, asked) => {
      const { bytes } = asked
      const id = next++
      const isSmall = bytes.length <= SMALL_BYTES
      const work = isSmall
        // Other main-thread work runs before the next request.
        ? Effect.tap(Effect.sync(() => prepare(asked, addresses)), nextTurn)
        : Effect.callback<Prepared | Fetching | null>((resume) => {
          waiting.set(id, (prepared) => resume(Effect.succeed(prepared)))
          const task: Task = { id, asked, addresses }
          started().postMessage(task, Transfer.of(bytes))
        })
      // Not interruptible: the turn ends when the thread is done, not with the session.
      return (isSmall ? here : there)(session, `${id}`, TURN_WITHIN)(Effect.uninterruptible(work), () => "too busy" as const)
    }
  })
