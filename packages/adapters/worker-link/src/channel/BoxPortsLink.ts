/** `BoxPorts` over channels to workers. */
import { BoxNotRunning, WorkerUnreachable } from "@slipway/domain/sandbox/ports/BoxConnection"
import { BoxPorts, type LocalBoxPorts } from "@slipway/domain/sandbox/ports/BoxPorts"
import { Effect, Layer } from "effect"
import * as ChannelClient from "./ChannelClient.ts"

export interface Options {
  /** The worker in this process, whose boxes need no channel. */
  readonly own: { readonly worker: string; readonly here: LocalBoxPorts["Service"] } | null
  readonly limits?: Partial<ChannelClient.TimeLimits>
}

export const layer = ({ own, ...options }: Options) =>
  Layer.effect(
    BoxPorts,
    Effect.map(ChannelClient.make({ ...options, own: own?.worker ?? null }), ({ open }) =>
      BoxPorts.of({
        connect: (sandboxId, port) =>
          Effect.catchTag(
            open(sandboxId, { wanted: { operation: "port", port }, here: own?.here.connect(sandboxId, port) ?? new BoxNotRunning() }),
            "TerminalUnavailable",
            // No answer to a port.
            () => new WorkerUnreachable()
          )
      }))
  )
