/** A `BoxProcess` whose other end is the test: what an agent would write is given, what it would read is kept. */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Box, BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { type Cause, Deferred, Effect, Queue, Stream } from "effect"

export interface Frame {
  readonly id?: number | string
  readonly method?: string
  readonly params?: Record<string, unknown>
  readonly result?: unknown
  readonly error?: unknown
}

/** `answer` sees every frame the driver sends and says what the agent writes in return: frames, or raw lines. */
export const make = (answer: (frame: Frame) => ReadonlyArray<object | string>) =>
  Effect.gen(function*() {
    const output = yield* Queue.unbounded<Uint8Array, Cause.Done>()
    const exit = yield* Deferred.make<{ readonly code: number | null; readonly signal: string | null }>()
    const received: Array<Frame> = []

    const say = (...frames: ReadonlyArray<object | string>) =>
      Queue.offerAll(
        output,
        frames.map((frame) => new TextEncoder().encode(typeof frame === "string" ? frame : `${JSON.stringify(frame)}\n`))
      )
    const end = (code: number) => Effect.andThen(Queue.end(output), Deferred.succeed(exit, { code, signal: null }))

    const process: BoxProcess = {
      pid: 1,
      write: (bytes) =>
        Effect.suspend(() => {
          const frame: Frame = JSON.parse(typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes))
          received.push(frame)
          return Effect.asVoid(say(...answer(frame)))
        }),
      endInput: Effect.asVoid(Effect.suspend(() => end(0))),
      stdout: Stream.fromQueue(output),
      stderrTail: Effect.succeed(""),
      exited: Deferred.await(exit)
    }
    const sayBytes = (bytes: Uint8Array) => Queue.offer(output, bytes)
    return { process, received, say, sayBytes, end }
  })

/** A box for sessions that are given their process. */
export const box: Box = {
  sandboxId: SandboxId.make("c_aaaaaaaaaaaa"),
  workspace: "/sandbox/ws",
  home: "/sandbox/home",
  spawn: () => Effect.die("the process is given")
}
