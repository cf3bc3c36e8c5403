/** `Terminals` over channels to workers. */
import { type LocalTerminals, notRunning, type TerminalRequest, Terminals, unreachable } from "@slipway/domain/sandbox/ports/Terminals"
import { Effect, Layer } from "effect"
import * as ChannelClient from "./ChannelClient.ts"
import * as TerminalChannel from "./TerminalChannel.ts"

export interface Options {
  /** The worker in this process, whose terminals need no channel. */
  readonly own: { readonly worker: string; readonly here: LocalTerminals["Service"] } | null
  readonly limits?: Partial<ChannelClient.TimeLimits>
}

export const layer = ({ own, ...options }: Options) =>
  Layer.effect(
    Terminals,
    Effect.map(ChannelClient.make({ ...options, own: own?.worker ?? null }), ({ open }) =>
      Terminals.of({
        attach: (id, request: TerminalRequest) =>
          open(id, {
            wanted: { operation: "terminal", ...request },
            here: Effect.suspend(() => own === null ? notRunning() : own.here.attach(id, request))
          }).pipe(
            Effect.flatMap((opened) => "terminal" in opened ? Effect.succeed(opened) : TerminalChannel.attachmentOf(opened)),
            Effect.catchTags({
              BoxNotRunning: notRunning,
              PortClosed: unreachable,
              PortsUnsupported: unreachable,
              TooManyConnections: unreachable,
              WorkerUnreachable: unreachable
            })
          )
      }))
  )
