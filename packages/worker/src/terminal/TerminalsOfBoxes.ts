/** The terminals of this process's boxes. Each box offers them while its sandbox's session has it. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { observed } from "@slipway/domain/observability/Metrics"
import {
  LocalTerminals,
  MAX_TERMINALS,
  notRunning,
  type TerminalAttachment,
  type TerminalEnd,
  type TerminalRequest,
  TerminalUnavailable
} from "@slipway/domain/sandbox/ports/Terminals"
import { Clock, Context, Duration, Effect, Exit, Fiber, Layer, Metric, Scope, Semaphore } from "effect"
import * as Terminal from "./Terminal.ts"

const open = Metric.gauge("slipway_worker_terminals", { description: "Terminals in boxes of this worker, with and without attachments." })

const tooMany = (what: string) => new TerminalUnavailable({ reason: "too_many", detail: what })

/** The terminals of one box. */
interface Offer {
  readonly spawn: Terminal.Spawn
  readonly scope: Scope.Closeable
  readonly terminals: Map<number, Terminal.Terminal>
  /** Held while a terminal is found or made. */
  readonly finding: Semaphore.Semaphore
  /** When a key was last typed, in epoch milliseconds. */
  typedAt: number
}

/** The worker's side: offers terminals of a box. */
export class OfferedTerminals extends Context.Service<OfferedTerminals, {
  /**
   * Offers terminals of a sandbox's box until the scope closes; then all of them end with the reason. `spawn` starts a program as the
   * agent of the sandbox would.
   */
  offer(id: SandboxId, spawn: Terminal.Spawn, reason: Effect.Effect<TerminalEnd>): Effect.Effect<void, never, Scope.Scope>
  /** Waits until no key was typed in the sandbox's terminals for this time. */
  unused(id: SandboxId, time: Duration.Duration): Effect.Effect<void>
}>()("@slipway/worker/OfferedTerminals") {}

const find = Effect.fnUntraced(function*(offer: Offer, { size, terminal: choice }: TerminalRequest) {
  const { scope, spawn, terminals } = offer
  const free = Array.from({ length: MAX_TERMINALS }, (_, index) => index + 1).find((number) => !terminals.has(number))
  const number = choice === "new" ? free : choice
  if (number === undefined) {
    return yield* tooMany(`The sandbox has ${MAX_TERMINALS} terminals already. Attach to one of them, or end one.`)
  }
  const known = terminals.get(number)
  if (known !== undefined) {
    yield* known.resize(size)
    return known
  }
  const made: Terminal.Terminal = yield* Terminal.start(number, spawn, size, () => {
    if (terminals.get(number) === made) terminals.delete(number)
  }).pipe(Scope.provide(scope))
  terminals.set(number, made)
  return made
})

const make = Effect.gen(function*() {
  const offers = new Map<SandboxId, Offer>()
  yield* observed(open, () => ({ value: Array.from(offers.values()).reduce((sum, { terminals }) => sum + terminals.size, 0) }))
  const unused: OfferedTerminals["Service"]["unused"] = Effect.fnUntraced(function*(id, time) {
    for (;;) {
      const left = (offers.get(id)?.typedAt ?? 0) + Duration.toMillis(time) - (yield* Clock.currentTimeMillis)
      if (left <= 0) return
      yield* Effect.sleep(left)
    }
  })
  const offered = OfferedTerminals.of({
    unused,
    offer: Effect.fnUntraced(function*(id, spawn, reason) {
      const offer: Offer = { spawn, scope: Scope.makeUnsafe(), terminals: new Map(), finding: Semaphore.makeUnsafe(1), typedAt: 0 }
      yield* Effect.acquireRelease(
        Effect.sync(() => offers.set(id, offer)),
        () =>
          Effect.gen(function*() {
            if (offers.get(id) === offer) offers.delete(id)
            const why = yield* reason
            yield* Effect.forEach([...offer.terminals.values()], ({ end }) => end(why), { concurrency: "unbounded", discard: true })
            // With it ends a terminal that is being made.
            yield* Scope.close(offer.scope, Exit.void)
          })
      )
    })
  })
  const local = LocalTerminals.of({
    attach: Effect.fn("Terminals.attach")(function*(id, request) {
      const offer = offers.get(id)
      if (offer === undefined) return yield* notRunning()
      // By the box, not by the caller: a caller that goes away must not leave a half-made terminal.
      const finding = yield* Effect.forkIn(offer.finding.withPermits(1)(find(offer, request)), offer.scope)
      const found = yield* Fiber.await(finding)
      // The box ended meanwhile.
      if (Exit.hasInterrupts(found)) return yield* notRunning()
      const terminal = yield* found
      const attachment = yield* terminal.attach
      if (attachment !== null) {
        const write: TerminalAttachment["write"] = (bytes) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            offer.typedAt = now
            return attachment.write(bytes)
          })
        return { ...attachment, write }
      }
      return yield* offers.get(id) === offer
        ? tooMany(`The terminal has ${Terminal.MAX_ATTACHMENTS} attachments already. Close one, or make another terminal.`)
        : notRunning()
    })
  })
  return Context.make(LocalTerminals, local).pipe(Context.add(OfferedTerminals, offered))
})

/** Both sides, of one process. */
export const layer = Layer.effectContext(make)
