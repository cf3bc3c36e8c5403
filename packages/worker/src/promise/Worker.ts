/** A worker for programs without Effect: it runs the sandboxes of the stores, with an agent that may be an async function. */
import type { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import type { AgentRuntime } from "@slipway/domain/sandbox/ports/AgentRuntime"
import type { ThisMachine } from "@slipway/domain/sandbox/ports/Leases"
import type { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { Effect, Layer, ManagedRuntime } from "effect"
import * as DeliverWebhooks from "../jobs/DeliverWebhooks.ts"
import * as WorkerNode from "../WorkerNode.ts"
import { type Agent, runtimeOf } from "./Agent.ts"

export type { Agent, AgentTurn } from "./Agent.ts"

type Ports = Layer.Services<ReturnType<typeof WorkerNode.layerHere>>

/**
 * The ports of a worker's machine and its source host: `LocalMachine` of `@slipway/git` with `SourceHostLocal` of `@slipway/local-source`,
 * or in memory `MemoryMachine` of `@slipway/domain/memory`.
 */
export type MachinePorts = SandboxHost | SourceHost | ThisMachine | WorkingTrees

/** The ports of a worker's stores: `Stores` of `@slipway/postgres`, or in memory `Stores` of `@slipway/domain/memory`. */
export type StorePorts = Exclude<Ports, MachinePorts | AgentRuntime>

/** The parts and the capacity of a worker. */
export interface Options<Stores, Machine> extends Pick<WorkerNode.Options, "slots" | "agents" | "boots"> {
  /**
   * One layer of all stores. In a process that also has an open `Slipway` take its `stores`: stores in memory are shared by that alone.
   * With a `WebhookStore` and a `WebhookSender` the worker also delivers webhooks.
   */
  readonly stores: Layer.Layer<Stores | StorePorts, unknown>
  readonly machine: Layer.Layer<Machine | MachinePorts, unknown, NoInfer<Stores> | StorePorts>
  /** A function, or a layer such as `AgentRuntimeProfiles` of `@slipway/agents`. */
  readonly agent: Agent | Layer.Layer<AgentRuntime, unknown, NoInfer<Machine | Stores> | MachinePorts | StorePorts>
}

/** A worker that runs. */
export interface Worker {
  /**
   * Takes no more work, lets turns end for 8 s, interrupts the others, saves all sandboxes, gives them back, and releases its parts. Safe
   * to call twice.
   */
  close(): Promise<void>
}

const delivering = Layer.unwrap(Effect.gen(function*() {
  const parts = yield* Effect.all([Effect.serviceOption(WebhookStore), Effect.serviceOption(WebhookSender)])
  const [store, sender] = parts
  if (store._tag === "None" || sender._tag === "None") return Layer.empty
  return DeliverWebhooks.layer.pipe(Layer.provide([Layer.succeed(WebhookStore, store.value), Layer.succeed(WebhookSender, sender.value)]))
}))

/** The worker and its machine, over stores. */
export const layer = <Stores = never, Machine = never>({ agent, machine, ...capacity }: Omit<Options<Stores, Machine>, "stores">) => {
  const runtime: Layer.Layer<AgentRuntime, unknown, Machine | MachinePorts | Stores | StorePorts> = typeof agent === "function"
    ? runtimeOf(agent)
    : agent
  return Layer.merge(WorkerNode.layerHere(capacity), delivering).pipe(Layer.provide(runtime), Layer.provideMerge(machine))
}

/** Starts a worker. Rejects if a part cannot be opened. */
export const start = async <Stores = never, Machine = never>({ stores, ...options }: Options<Stores, Machine>): Promise<Worker> => {
  const runtime = ManagedRuntime.make(Layer.provide(layer<Stores, Machine>(options), stores))
  await runtime.context()
  return { close: () => runtime.dispose() }
}
