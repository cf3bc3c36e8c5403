/**
 * A store of our own: any other one, with the sandboxes that were read last kept in memory. It looks harmless, and is wrong
 * as soon as one write forgets to say so; hence the tests beside it.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxNotFound, SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { Effect, Layer } from "effect"

const cached = Effect.map(SandboxStore, (store) => {
  const known = new Map<SandboxId, Sandbox>()
  const forget = <A, E, R>(id: SandboxId, write: Effect.Effect<A, E, R>) => Effect.ensuring(write, Effect.sync(() => known.delete(id)))
  return SandboxStore.of({
    ...store,
    find: ({ grantId, id }) => {
      const sandbox = known.get(id)
      if (sandbox === undefined) {
        return Effect.tap(store.find({ grantId, id }), (found) => Effect.sync(() => known.set(id, found)))
      }
      return sandbox.grantId === grantId ? Effect.succeed(sandbox) : Effect.fail(new SandboxNotFound())
    },
    change: (id, by, decide, now) => forget(id, store.change(id, by, decide, now)),
    command: (key, command, now, keyed, trace) => forget(key.id, store.command(key, command, now, keyed, trace))
  })
})

/** Caches the store it is given, for one process. Leases and maintenance are the given store's own. */
export const layer = Layer.effect(SandboxStore, cached)
