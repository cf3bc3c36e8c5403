/** The hooks of an embedder as promises: a check of each creation, and a handler of events. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { SandboxId } from "../ids/SandboxId.ts"
import { BeforeCreate, CreationDenied, type ProposedCreation } from "../sandbox/ports/BeforeCreate.ts"
import { Maintenance } from "../sandbox/ports/Maintenance.ts"
import type { WireEvent } from "../sandbox/rules/SandboxEvent.ts"
import * as HandleEvents from "../sandbox/usecases/HandleEvents.ts"
import type { Caller } from "./Caller.ts"
import { type Plain, plain } from "./Promised.ts"

/** Why a creation is refused. `code`: for programs, up to 64 lower-case letters, digits and `_`; `message`: a sentence for people. */
export interface Denial {
  readonly code: string
  readonly message: string
}

type MaybePromise<A> = A | Promise<A>

/** A handler of events with its cursor: see `EventHandler` of `sandbox/usecases/HandleEvents`. */
export interface EventHandler {
  readonly cursor: {
    /** The saved position of each of these sandboxes. The map may have other sandboxes too. */
    load(ids: ReadonlyArray<string>): MaybePromise<ReadonlyMap<string, number>>
    /** Saves a position, after every handled event. */
    save(id: string, position: number): unknown
  }
  /** Handles an event. A rejection is retried with backoff. */
  handle(event: WireEvent): unknown
}

/** The hooks, each optional. */
export interface Hooks {
  /**
   * Runs once for each new creation and fork that nothing else refuses. A returned denial rejects the creation with `CreationDenied` and
   * leaves its idempotency key free.
   */
  readonly beforeCreate?: ((creation: Plain<ProposedCreation>, by: Caller) => MaybePromise<Denial | undefined | void>) | undefined
  /** Handles the events of all sandboxes. Needs a layer of stores that has `Maintenance`. */
  readonly onEvent?: EventHandler | undefined
}

const called = <A>(call: () => MaybePromise<A>) => Effect.tryPromise({ try: async () => call(), catch: (error) => error })

/** The setting `BeforeCreate` of the hook. */
export const beforeCreate = ({ beforeCreate: hook }: Hooks) =>
  hook === undefined ? Layer.empty : Layer.succeed(BeforeCreate, (creation, by) =>
    Effect.flatMap(
      Effect.orDie(called(() => hook(plain(creation) as Plain<ProposedCreation>, by))),
      (denial) => denial ? Effect.fail(new CreationDenied({ code: denial.code, reason: denial.message })) : Effect.void
    ))

/** Handles events as long as the layer lives. Dies if the stores have no `Maintenance`. */
export const onEvent = ({ onEvent: handler }: Hooks) =>
  handler === undefined ?
    Layer.empty :
    Layer.unwrap(Effect.map(Effect.serviceOption(Maintenance), (maintenance) =>
      Option.isNone(maintenance)
        ? Layer.effectDiscard(Effect.die(new Error("`onEvent` needs stores with `Maintenance`. Give a layer that has it.")))
        : HandleEvents.layer({
          cursor: {
            load: (ids: ReadonlyArray<SandboxId>) => called(() => handler.cursor.load(ids)),
            save: (id, position) => called(() => handler.cursor.save(id, position))
          },
          handle: (event) => called(() => handler.handle(event))
        }).pipe(Layer.provide(Layer.succeed(Maintenance, maintenance.value)))))
