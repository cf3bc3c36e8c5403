/** Port: connections to servers that run in the box of a running sandbox, from any process. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { BoxNotRunning, type ByteConnection, PortClosed, TooManyConnections, WorkerUnreachable } from "./BoxConnection.ts"
import { SandboxHost } from "./SandboxHost.ts"

export const ConnectFailure = Schema.Union([BoxNotRunning, PortClosed, TooManyConnections, WorkerUnreachable])
export type ConnectFailure = typeof ConnectFailure.Type

/** Connects to 127.0.0.1 or [::1] of the box, and to nothing else. The connection lasts as long as the scope. */
type Connect<E> = (sandboxId: SandboxId, port: number) => Effect.Effect<ByteConnection, E, Scope.Scope>

/** The boxes of this process. */
export class LocalBoxPorts extends Context.Service<LocalBoxPorts, {
  readonly connect: Connect<Exclude<ConnectFailure, WorkerUnreachable>>
}>()("@slipway/domain/LocalBoxPorts") {
  static readonly layer = Layer.effect(
    LocalBoxPorts,
    Effect.map(SandboxHost, (host) =>
      LocalBoxPorts.of({
        connect: Effect.fnUntraced(function*(sandboxId, port) {
          const box = Option.getOrNull(yield* host.find(sandboxId))
          return box?.connect === undefined ? yield* new BoxNotRunning() : yield* box.connect(port)
        })
      }))
  )
}

/** The boxes of all workers. */
export class BoxPorts extends Context.Service<BoxPorts, {
  readonly connect: Connect<ConnectFailure | StoreUnavailable>
}>()("@slipway/domain/BoxPorts") {
  /** For a service with one worker, in this process. */
  static readonly layerLocal = Layer.effect(BoxPorts, Effect.map(LocalBoxPorts, BoxPorts.of))
}
