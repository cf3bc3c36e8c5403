/** Calls of tools that wait for a person. */
import type { McpAsk } from "@slipway/domain/mcp/ports/McpGateway"
import { Deferred, Effect } from "effect"

/** The answer to a call. `null`: approved. Otherwise why not, for the model. */
export type Refusal = string | null

/** Calls of one session that may wait at once. */
const MAX_WAITING = 16

const DENIED = "A person denied this call."

export interface Asking {
  readonly ask: (call: McpAsk) => Effect.Effect<Refusal>
  readonly attend: (tell: (ask: McpAsk) => Effect.Effect<void>) => Effect.Effect<never>
  readonly decide: (id: string, decision: "approve" | "deny", reason?: string) => Effect.Effect<void>
}

export const make = (): Asking => {
  const waiting = new Map<string, Deferred.Deferred<Refusal>>()
  let attending: ((ask: McpAsk) => Effect.Effect<void>) | null = null
  const settle = (id: string, refusal: Refusal) =>
    Effect.suspend(() => {
      const decided = waiting.get(id)
      return decided === undefined ? Effect.void : Effect.asVoid(Deferred.succeed(decided, refusal))
    })
  return {
    ask: (call) =>
      Effect.gen(function*() {
        const tell = attending
        if (tell === null) return "No person can be asked now: no turn is running."
        if (waiting.size >= MAX_WAITING) return "Too many calls wait for a person. Try again when one of them is decided."
        const decided = yield* Deferred.make<Refusal>()
        waiting.set(call.id, decided)
        yield* tell(call)
        return yield* Deferred.await(decided)
      }).pipe(Effect.ensuring(Effect.sync(() => waiting.delete(call.id)))),
    attend: (tell) =>
      Effect.acquireUseRelease(
        Effect.sync(() => {
          attending = tell
        }),
        () => Effect.never,
        () =>
          Effect.suspend(() => {
            attending = null
            return Effect.forEach([...waiting.keys()], (id) => settle(id, "The turn has ended."), { discard: true })
          })
      ),
    decide: (id, decision, reason) => settle(id, decision === "approve" ? null : reason === undefined ? DENIED : `${DENIED} ${reason}`)
  }
}
