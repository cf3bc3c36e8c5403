/** `SandboxHost` in memory: for tests and for embedding without a database. State dies with the layer. */
import { type Cause, Deferred, Effect, Layer, Option, Queue, Stream } from "effect"
import { type BoxProcess, type Box, SandboxHost } from "../src/sandbox/SandboxHost.ts"
import type { SandboxId } from "../src/SandboxId.ts"

/**
 * Boxes without programs, for tests and for embedding: whatever is spawned gives back what is written to it, and ends
 * with code 0 when its input ends. Passes `lifecycle` of the contract suite; the rest needs real processes.
 */
export const layer = Layer.sync(SandboxHost, () => {
  const boxes = new Map<SandboxId, { readonly box: Box; readonly kill: Set<Effect.Effect<unknown>> }>()
  let pids = 0

  const spawn = (kill: Set<Effect.Effect<unknown>>) =>
    Effect.gen(function*() {
      const output = yield* Queue.unbounded<Uint8Array, Cause.Done>()
      const exit = yield* Deferred.make<{ readonly code: number | null; readonly signal: string | null }>()
      const end = (code: number | null, signal: string | null) =>
        Effect.andThen(Queue.end(output), Deferred.succeed(exit, { code, signal }))
      const killed = end(null, "SIGKILL")
      yield* Effect.acquireRelease(
        Effect.sync(() => kill.add(killed)),
        () => Effect.andThen(killed, Effect.sync(() => kill.delete(killed)))
      )
      const process: BoxProcess = {
        pid: ++pids,
        write: (bytes) => Effect.asVoid(Queue.offer(output, typeof bytes === "string" ? utf8.encode(bytes) : bytes)),
        endInput: Effect.asVoid(end(0, null)),
        stdout: Stream.fromQueue(output),
        stderrTail: Effect.succeed(""),
        exited: Deferred.await(exit)
      }
      return process
    })

  return SandboxHost.of({
    isolation: "none",
    provision: ({ sandboxId, workspace }) =>
      Effect.gen(function*() {
        yield* Effect.forEach(boxes.get(sandboxId)?.kill ?? [], (kill) => kill, { discard: true })
        const kill = new Set<Effect.Effect<unknown>>()
        const known = boxes.get(sandboxId) ??
          { box: { sandboxId, workspace, home: `/memory/home/${sandboxId}`, spawn: () => spawn(kill) }, kill }
        boxes.set(sandboxId, known)
        return known.box
      }),
    find: (sandboxId) => Effect.sync(() => Option.map(Option.fromNullishOr(boxes.get(sandboxId)), ({ box }) => box)),
    stop: (sandboxId) =>
      Effect.suspend(() => {
        const known = boxes.get(sandboxId)
        boxes.delete(sandboxId)
        return Effect.forEach(known?.kill ?? [], (kill) => kill, { discard: true })
      }),
    list: Effect.sync(() => Array.from(boxes.keys()))
  })
})

const utf8 = new TextEncoder()
