/** The terminals of a process: those of its worker's boxes, and the way to those of all workers. */
import { LocalTerminals, Terminals } from "@slipway/domain/sandbox/ports/Terminals"
import * as TerminalsLink from "@slipway/worker-link/channel/TerminalsLink"
import * as TerminalsOfBoxes from "@slipway/worker/terminal/TerminalsOfBoxes"
import { Context, Effect, Layer } from "effect"
import type { Settings } from "../settings/Settings.ts"

/**
 * Layers that the worker and the server look for; empty where terminals are switched off. `worker`: the name of this process's worker;
 * `null`: it has none.
 */
export const make = Effect.fnUntraced(function*({ databaseUrl, terminal }: Settings, worker: string | null) {
  if (terminal === "off") return { ofWorker: Layer.empty, ofAll: Layer.empty }
  // One for both sides of this process.
  const built = yield* Layer.build(TerminalsOfBoxes.layer)
  const here = Context.get(built, LocalTerminals)
  return {
    ofWorker: Layer.succeedContext(built),
    ofAll: databaseUrl === null
      ? Layer.succeed(Terminals, { attach: here.attach })
      : TerminalsLink.layer({ own: worker === null ? null : { worker, here } })
  }
})
