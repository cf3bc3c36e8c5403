/** An egress tunnel of a sandbox's machine as a stream of Node, for its proxy. */
import type { Serve } from "@slipway/machine/egress/Egress"
import { Effect, Exit, Stream } from "effect"
import { Duplex } from "node:stream"
import type { EgressTunnel } from "../client/EgressTunnel.ts"

/** Hands the tunnel over, and succeeds once the proxy is done with it. */
export const carry = (serve: Serve, out: EgressTunnel): Effect.Effect<void> =>
  Effect.gen(function*() {
    const run = Effect.runForkWith(yield* Effect.context<never>())
    let wake: () => void = () => {}
    const after = (effect: Effect.Effect<void>, done: (error?: Error) => void) =>
      void run(effect).addObserver((exit) => done(Exit.isSuccess(exit) ? undefined : new Error("the sandbox's side is gone")))
    const duplex = new Duplex({
      read: () => wake(),
      write: (bytes: Buffer, _, done) => after(out.write(bytes), done),
      final: (done) => after(out.end, done)
    })
    duplex.on("error", () => {})
    const push = (bytes: Uint8Array) =>
      Effect.callback<void>((resume) => {
        if (duplex.destroyed || duplex.push(bytes)) resume(Effect.void)
        else wake = () => resume(Effect.void)
      })
    const closed = Effect.callback<void>((resume) => {
      duplex.once("close", () => resume(Effect.void))
    })
    const heard = Effect.andThen(Stream.runForEach(out.bytes, push), Effect.sync(() => void duplex.push(null)))
    yield* Effect.forkChild(heard)
    serve(duplex)
    yield* Effect.ensuring(closed, Effect.sync(() => duplex.destroy()))
  })
