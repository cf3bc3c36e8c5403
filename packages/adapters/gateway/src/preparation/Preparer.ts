/**
 * Prepares requests: small ones here, large ones on a thread of their own, so that nobody else waits for them. Either way one after
 * the other, and sessions take turns: many requests of one session delay another one's by a single request.
 */
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import * as FairScheduler from "@slipway/machine/node/FairScheduler"
import { Effect, type Scope } from "effect"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import { type AddressRule, type Fetching, prepare, type Prepared } from "./Preparation.ts"
import type { Task } from "./PreparationThread.ts"
import * as Transfer from "./Transfer.ts"

/** Takes less than 5 ms (2026-11, the worst of what this many bytes can hold). */
const SMALL_BYTES = 64 * 1024

/** What the largest request takes with {@link prepare}'s bound on its values, twice. */
const THREAD_MEGABYTES = 768

/** A session's own requests are before it, and one of each other session for each of them. */
const TURN_WITHIN = "1 minute"

const thread = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./PreparationThread.ts" : "./PreparationThread.js", import.meta.url)
)

interface Done {
  readonly id: number
  readonly prepared: Prepared | Fetching | null
}

/** `null`: the request cannot be read. Fails where its turn did not come in time. `session`: whose turn it is. */
export type Prepare = (
  session: string,
  bytes: Uint8Array,
  upstream: Upstream,
  free: boolean
) => Effect.Effect<Prepared | Fetching | null, "too busy">

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
      // What it was working on was too much for it; the next request gets a new one.
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

    return (session, bytes, upstream, free) => {
      const id = next++
      const isSmall = bytes.length <= SMALL_BYTES
      const work = isSmall
        // Whatever else came meanwhile is before the next one.
        ? Effect.tap(Effect.sync(() => prepare(bytes, upstream, free, addresses)), nextTurn)
        : Effect.callback<Prepared | Fetching | null>((resume) => {
          waiting.set(id, (prepared) => resume(Effect.succeed(prepared)))
          const task: Task = { id, bytes, upstream, free, addresses }
          started().postMessage(task, Transfer.of(bytes))
        })
      // Not interruptible: its turn is over when the thread is done, not when the session is.
      return (isSmall ? here : there)(session, `${id}`, TURN_WITHIN)(Effect.uninterruptible(work), () => "too busy" as const)
    }
  })
