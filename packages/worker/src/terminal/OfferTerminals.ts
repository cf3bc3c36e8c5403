/** Offers terminals of a leased sandbox's box, with the programs and variables of its agent. */
import { type Box, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { TerminalEnd } from "@slipway/domain/sandbox/ports/Terminals"
import { type Duration, Effect, Option } from "effect"
import * as RunSetup from "../setup/RunSetup.ts"
import type { LeasedSandbox } from "../shared/LeasedSandbox.ts"
import { OfferedTerminals } from "./TerminalsOfBoxes.ts"

/** Why the box is given up. */
const reasonOf = (leased: LeasedSandbox): Effect.Effect<TerminalEnd> =>
  Effect.map(
    leased.view,
    ({ detached, draining, sandbox }) => sandbox.status !== "running" ? "finished" : draining || detached ? "moved" : "rested"
  )

/** Offers them until it is interrupted. Without `OfferedTerminals` this process offers none. */
export const offering = Effect.fnUntraced(function*(leased: LeasedSandbox, box: Box) {
  const offered = yield* Effect.serviceOption(OfferedTerminals)
  if (Option.isNone(offered)) return yield* Effect.never
  const context = yield* Effect.context<Effect.Services<ReturnType<typeof RunSetup.recall>>>()
  yield* offered.value.offer(
    leased.id,
    (command) =>
      RunSetup.recall(leased, box).pipe(
        Effect.provideContext(context),
        Effect.mapError(() => new HostError({ operation: "spawn", detail: "its environment could not be read.", retryable: true })),
        Effect.flatMap(({ env, programs }) => box.spawn({ ...command, programs, env: { ...env, ...command.env } }))
      ),
    reasonOf(leased)
  )
  return yield* Effect.never
}, Effect.scoped)

/** Waits until no key was typed in the sandbox's terminals for this time: its box stays while a person works there. */
export const unused = ({ id }: Pick<LeasedSandbox, "id">, time: Duration.Duration) =>
  Effect.flatMap(Effect.serviceOption(OfferedTerminals), (offered) => Option.isNone(offered) ? Effect.void : offered.value.unused(id, time))
