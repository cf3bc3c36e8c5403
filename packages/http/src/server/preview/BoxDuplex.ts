/** A connection into a box as Node's HTTP client takes it. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import type { ByteConnection } from "@slipway/domain/sandbox/ports/BoxConnection"
import { Effect, Exit } from "effect"
import { Duplex, Writable } from "node:stream"

/** Ends with the scope. */
export const make = Effect.fnUntraced(function*({ endInput, received, send }: ByteConnection) {
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const settle = <E>(effect: Effect.Effect<void, E>, done: (error?: Error | null) => void) => {
    run(effect).addObserver((exit) => done(Exit.isSuccess(exit) ? null : new Error("The connection broke off.")))
  }
  const readable = yield* NodeStream.toReadable(received)
  const writable = new Writable({
    write: (chunk: Uint8Array, _, done) => settle(send(chunk), done),
    final: (done) => settle(endInput, done)
  })
  const duplex = Duplex.from({ readable, writable })
  // An error without a listener would end the process.
  for (const stream of [duplex, readable, writable]) stream.on("error", () => {})
  yield* Effect.addFinalizer(() => Effect.sync(() => duplex.destroy()))
  return duplex
})
