/** Prepares requests: small ones at once, large ones on a thread of their own, so that nobody else waits for them. */
import type { Upstream } from "@slipway/domain/models/ModelCatalogue"
import { Effect, type Scope } from "effect"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import { prepare, type Prepared } from "./Preparation.ts"
import type { Task } from "./PreparationThread.ts"

/** Takes less than 20 ms (2026-11, the worst of what this many bytes can hold). */
const SMALL_BYTES = 256 * 1024

/** What the largest request takes with {@link prepare}'s bound on its values, twice. */
const THREAD_MEGABYTES = 768

const thread = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./PreparationThread.ts" : "./PreparationThread.js", import.meta.url)
)

interface Done {
  readonly id: number
  readonly prepared: Prepared | null
}

/** `null`: the request cannot be read. */
type Prepare = (bytes: Uint8Array, upstream: Upstream, free: boolean) => Effect.Effect<Prepared | null>

export const make: Effect.Effect<Prepare, never, Scope.Scope> = Effect.gen(function*() {
  let worker: Worker | null = null
  let next = 0
  const waiting = new Map<number, (prepared: Prepared | null) => void>()

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

  return (bytes, upstream, free) =>
    bytes.length <= SMALL_BYTES
      ? Effect.sync(() => prepare(bytes, upstream, free))
      : Effect.callback<Prepared | null>((resume) => {
        const id = next++
        waiting.set(id, (prepared) => resume(Effect.succeed(prepared)))
        const task: Task = { id, bytes, upstream, free }
        started().postMessage(task)
      })
})
