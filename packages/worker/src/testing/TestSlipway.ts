/**
 * The whole service in one process, for tests of programs that use it: the use cases and a real worker, in memory, on a virtual clock.
 * Nothing waits for real time, and the same calls give the same results, with the same ids.
 */
import type { RateLimits } from "@slipway/domain/access/ports/AccessStore"
import { Scope } from "@slipway/domain/access/schema/Principal"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import * as AgentRuntimeMemory from "@slipway/domain/memory/sandbox/AgentRuntimeMemory"
import * as Stores from "@slipway/domain/memory/Stores"
import { WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import { type Caller, open, type Opened } from "@slipway/domain/promise"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import { type Limits, Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { WireEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import * as UseCases from "@slipway/domain/UseCases"
import { Duration, Effect, Layer, ManagedRuntime, Random, Record, References } from "effect"
import type { Agent } from "../promise/Agent.ts"
import * as Worker from "../promise/Worker.ts"
import { Timing } from "../shared/Timing.ts"
import * as VirtualTime from "./VirtualTime.ts"

/** The parts of the service that a test chooses. */
export interface Options {
  /** The repositories by full name, with their files by path. Default: `acme/shop` with a README. */
  readonly repositories?: MemoryMachine.Options["repositories"]
  /** Default: the offline agent, which follows the directives of a prompt, such as `[[say Hello]]` or `[[hang]]`. */
  readonly agent?: Agent
  /** Agents at work at once. Default: 4. */
  readonly slots?: number
  /** Time limits that differ from those of a service, such as `{ idle: "30 minutes" }`. */
  readonly limits?: Partial<Record<keyof Limits, Duration.Input>>
  /** The time at the start. Default: 2026-01-01T00:00:00Z. */
  readonly now?: Date
}

/** A delivered webhook. Every receiver answers 204. */
export interface SentWebhook {
  readonly url: string
  /** Its JSON. */
  readonly body: string
}

type Received<Type extends WireEvent["type"]> = Extract<WireEvent, { readonly type: Type }>

/** Waits in virtual time, at most 10 minutes of it, and rejects with what it was waiting for. Time passes a second at a time. */
export interface Until {
  /** Until the newest 100 sandboxes of `by`, or this one, have nothing to do. Rejects at once if one waits for the decision of a person. */
  idle(sandboxId?: string): Promise<void>
  /** The next event of this type, or that fits, after the event that the call before gave for the same sandbox. */
  event<Type extends WireEvent["type"]>(sandboxId: string, type: Type): Promise<Received<Type>>
  event(sandboxId: string, fits: (event: WireEvent) => boolean): Promise<WireEvent>
}

type Parts = Layer.Success<ReturnType<typeof storesOf>>

/** The promise form of the use cases, and what a test needs beside it. */
export interface TestSlipway extends Opened<Parts>, AsyncDisposable {
  /** An API key of the grant of `by`, with every scope. */
  readonly key: string
  readonly by: Caller & { readonly grantId: string }
  readonly until: Until
  /** Passes virtual time, such as `31 minutes`, with everything that becomes due. The worker looks for time limits every 10 seconds. */
  advance(duration: Parameters<VirtualTime.VirtualTime["advance"]>[0]): Promise<void>
  /** The virtual time. */
  now(): Date
  /** The webhooks so far, oldest first. */
  readonly sent: ReadonlyArray<SentWebhook>
  /** The use cases and ports in Effect, for `Embed.make` of `@slipway/http`. */
  readonly services: Layer.Layer<Layer.Success<ReturnType<typeof partsOf>>>
}

const SEED = "test"
const LIMITS: RateLimits = { credential: 1_000_000, user: 1_000_000, grant: 1_000_000 }
const PATIENCE_SECONDS = 600

const storesOf = (sent: Array<SentWebhook>) =>
  Layer.merge(
    Stores.layer({ ids: IdsMemory.layerSeeded(SEED) }),
    Layer.succeed(
      WebhookSender,
      WebhookSender.of({
        admit: Effect.succeed,
        send: ({ body, url }) =>
          Effect.sync(() => {
            sent.push({ url, body })
            return { _tag: "Answered", status: 204, retryAfter: null, body: null }
          })
      })
    )
  )

const partsOf = (
  { limits = {}, repositories = { "acme/shop": { "README.md": "# Shop\n" } }, slots = 4 }: Options,
  agent: Agent | undefined,
  sent: Array<SentWebhook>,
  time: VirtualTime.VirtualTime
) =>
  UseCases.layer.pipe(
    Layer.provideMerge(Worker.layer({ agent: agent ?? AgentRuntimeMemory.layer, machine: MemoryMachine.layer({ repositories }), slots })),
    Layer.provideMerge(storesOf(sent)),
    Layer.provideMerge(Layer.mergeAll(
      Layer.succeedContext(time.context),
      Layer.effect(Random.Random, Random.withSeed(Random.Random, SEED)),
      Layer.succeed(References.MinimumLogLevel, "Warn"),
      Layer.effect(
        Policy,
        Effect.map(
          Policy,
          (usual) => ({ ...usual, ...Record.map(limits as Readonly<Record<string, Duration.Input>>, Duration.fromInputUnsafe) })
        )
      ),
      // No hint is lost here, and looking less often makes hours pass ten times as fast.
      Layer.effect(Timing, Effect.map(Timing, (timings) => ({ ...timings, tick: Duration.seconds(10) })))
    ))
  )

/** The agent, and whether one of its turns does something that no clock waits for. A turn that waits for a person does not. */
const watched = (agent: Agent) => {
  const working = new Set<object>()
  const watching: Agent = (prompt, turn) => {
    const { signal } = turn
    const during = async <A>(state: "working" | "waiting", does: () => Promise<A>): Promise<A> => {
      const mark = (isWorking: boolean) => isWorking && !signal.aborted ? working.add(turn) : working.delete(turn)
      mark(state === "working")
      try {
        return await does()
      } finally {
        mark(state === "waiting")
      }
    }
    signal.addEventListener("abort", () => working.delete(turn))
    const approve: typeof turn.approve = (call) => during("waiting", () => turn.approve(call))
    const steps = agent(prompt, { ...turn, approve })[Symbol.asyncIterator]()
    return {
      [Symbol.asyncIterator]: () => ({
        next: () => during("working", () => steps.next()),
        return: async (value) => steps.return?.(value) ?? { done: true, value: undefined }
      })
    }
  }
  return { agent: watching, isWorking: () => working.size > 0 }
}

/** The state of a sandbox that does not become idle, for the error. */
const stateOf = ({ approvals: [approval], id, status, turn }: Sandbox): string =>
  approval === undefined
    ? `${id} is ${status}, its turn ${turn?.state ?? "did not begin"}`
    : `${id} waits for a decision about ${approval.tool}: approve or deny ${approval.approval_id}`

/** `run`: runs an effect on the stores. `isWorking`: something happens that no clock waits for, so time must not pass. */
const untilOf = (
  grantId: string,
  run: <A, E>(effect: Effect.Effect<A, E, SandboxStore>) => Promise<A>,
  time: VirtualTime.VirtualTime,
  isWorking: () => boolean
): Until => {
  const read = new Map<string, number>()
  const sandboxes = (id: string | undefined) =>
    run(SandboxStore.use((store) =>
      id === undefined
        ? store.list(grantId, { after: null, limit: 100, repo: null, status: null })
        : Effect.map(store.find({ grantId, id: SandboxId.make(id) }), (sandbox) => [sandbox])
    ))
  /** Looks again and again until there is something. `what`: what there was not, for the error. */
  const wait = async <A>(look: () => Promise<A | undefined>, what: () => Promise<string>): Promise<A> => {
    for (let seconds = 0;;) {
      await time.settle()
      const found = await look()
      if (found !== undefined) return found
      if (isWorking()) continue
      if (seconds++ === PATIENCE_SECONDS) throw new Error(`After ${PATIENCE_SECONDS} virtual seconds: ${await what()}.`)
      await time.advance("1 second")
    }
  }
  const busy = async (id: string | undefined) => (await sandboxes(id)).filter((sandbox) => workOf(sandbox) !== null)
  const states = async (id: string | undefined) => (await busy(id)).map(stateOf).join("; ")

  return {
    idle: (id) =>
      wait(
        async () => {
          const left = await busy(id)
          if (left.some(({ approvals }) => approvals.length > 0)) throw new Error(`${await states(id)}.`)
          return left.length === 0 ? null : undefined
        },
        () => states(id)
      ).then(() => {}),
    event: ((id: string, wanted: WireEvent["type"] | ((event: WireEvent) => boolean)) =>
      wait<WireEvent>(
        async () => {
          for (;;) {
            const after = read.get(id) ?? 0
            const [next] = await run(SandboxStore.use((store) => store.log(SandboxId.make(id), after, 1)))
            if (next === undefined) return undefined
            read.set(id, next.seq)
            const event: WireEvent = JSON.parse(next.wire)
            if (typeof wanted === "string" ? event.type === wanted : wanted(event)) return event
          }
        },
        async () => `no event ${typeof wanted === "string" ? wanted : "that fits"}; ${(await sandboxes(id)).map(stateOf).join()}`
      )) as Until["event"]
  }
}

/** Starts a service of its own. Close it: turns under way then get the time to end that a worker gives them. */
export const start = async (options: Options = {}): Promise<TestSlipway> => {
  const time = await VirtualTime.make((options.now ?? new Date("2026-01-01T00:00:00Z")).getTime())
  const sent: Array<SentWebhook> = []
  const { agent, isWorking } = options.agent === undefined ? { agent: undefined, isWorking: () => false } : watched(options.agent)
  const runtime = ManagedRuntime.make(partsOf(options, agent, sent, time))
  const services = Layer.succeedContext(await runtime.context())
  const slipway = await open<Parts>({ stores: services })
  const { key } = await slipway.access.createKey({ grant: "test", label: "test", scopes: Scope.literals, kind: "live" })
  const { principal: by } = (await slipway.access.admit(key, LIMITS))!

  const close = async () => {
    await slipway.close()
    let isClosed = false
    const closing = runtime.dispose().finally(() => isClosed = true)
    // A worker that stops waits for its turns, by the virtual clock.
    while (!isClosed) await time.advance("1 second")
    await closing
  }
  return {
    ...slipway,
    key,
    by,
    sent,
    services,
    until: untilOf(by.grantId, (effect) => runtime.runPromise(effect), time, isWorking),
    advance: time.advance,
    now: () => new Date(time.now()),
    close,
    [Symbol.asyncDispose]: close
  }
}
