/**
 * Processes of two versions and of two sets of limits over the same stores, as during a rolling restart: which process has which, and what
 * the earlier version writes and reads.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { SandboxRows } from "@slipway/domain/memory/sandbox/SandboxRows"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Limits } from "@slipway/domain/sandbox/rules/Policy"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { Sandbox as StoredSandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"

/** The limits and the version that a process is started with. */
export interface Release {
  readonly limits: Limits
  /** It neither writes nor knows the optional fields that the present version added to what is stored. */
  readonly isEarlier: boolean
}

/** A process as far as its release is concerned. */
export interface Deployed {
  readonly name: string
  readonly alive: boolean
  /** Calls that are carried out whatever becomes of the process. */
  callsUnderWay: number
  /** `null`: it is no process of the service. Its limits may change while it runs. */
  release: Release | null
}

/** The process that calls a store; `null`: none of the service. */
export const Caller = Context.Reference<Deployed | null>("@slipway/testing/Caller", { defaultValue: () => null })

/** The release of each place for a process, and of each process. */
export class Versions<P extends Deployed = Deployed> {
  /** The release that all places are to have in the end. */
  newest: Release
  /** The limits of the process that calls a store. Their fields are read at each use. */
  readonly ofCaller: Limits
  /** `id seq`: the events after which the earlier version wrote the row. */
  readonly earlierRows = new Set<string>()
  readonly #places = new Map<string, Release>()
  readonly #processes = new Set<P>()

  constructor(first: Release) {
    this.newest = first
    this.ofCaller = this.#read(() => Fiber.getCurrent()?.getRef(Caller)?.release?.limits)
  }

  /** The names of all places, in each of which one process follows another. */
  get places(): ReadonlyArray<string> {
    return Array.from(this.#places.keys())
  }

  /** A process starts with the release of its place. */
  starts(process: P): void {
    const place = placeOf(process)
    const release = this.#places.get(place) ?? this.newest
    this.#places.set(place, release)
    this.#processes.add(process)
    process.release = release
  }

  /** From now on, processes start there with this release. */
  move(place: string, release: Release): void {
    this.#places.set(place, release)
  }

  /** The process that is alive there; `undefined`: none. */
  at(place: string): P | undefined {
    return Array.from(this.#processes).find((process) => process.alive && placeOf(process) === place)
  }

  /** The change reaches all places at once. Running processes get the limits, and keep their version. */
  spread(): void {
    for (const place of this.#places.keys()) this.move(place, this.newest)
    for (const process of this.#processes) {
      if (process.release !== null) process.release = { limits: this.newest.limits, isEarlier: process.release.isEarlier }
    }
  }

  /** All limits by which a process judges now, or by which a call of a process that is gone may still be carried out. */
  get inForce(): ReadonlyArray<Limits> {
    const found = new Set(Array.from(this.#places.values(), ({ limits }) => limits))
    for (const process of this.#processes) {
      if (!process.alive && process.callsUnderWay === 0) this.#processes.delete(process)
      else if (process.release !== null) found.add(process.release.limits)
    }
    return Array.from(found)
  }

  /** The limits of a process, read at each use. */
  limitsOf(process: Deployed): Limits {
    return this.#read(() => process.release?.limits)
  }

  #read(limits: () => Limits | undefined): Limits {
    const read = (name: keyof Limits) => (limits() ?? this.newest.limits)[name]
    const names = Object.keys(this.newest.limits) as ReadonlyArray<keyof Limits>
    return Object.defineProperties(
      {},
      Object.fromEntries(names.map((name) => [name, { enumerable: true, get: () => read(name) }]))
    ) as Limits
  }
}

const placeOf = ({ name }: Deployed): string => name.split(".", 1)[0] ?? name

/** The sandbox without the fields that the earlier version does not know: those that rows of earlier versions lack. */
export const earlierSandbox = (sandbox: Sandbox): Sandbox => {
  const { publications, turn } = sandbox
  return {
    ...sandbox,
    turn: turn === null ? null : without(turn, "after", "began", "spokeAt"),
    publications: publications.map((publication) => without(publication, "url", "pullRequest", "pushed")),
    recordedAt: null
  }
}

const without = <A extends object, const K extends keyof A>(value: A, ...names: ReadonlyArray<K>): Omit<A, K> => {
  const rest = { ...value }
  for (const name of names) delete rest[name]
  return rest
}

/**
 * The events as the earlier version decides them. They are changed in place: a worker looks for the events that it decided in the log,
 * and the earlier version would find its own.
 */
const earlierEvents = (events: ReadonlyArray<SandboxEvent>): ReadonlyArray<SandboxEvent> => {
  for (const event of events) {
    if (event.type === "pull_request.updated") Object.assign(event, { data: without(event.data, "pull_request") })
    if (event.type === "usage.updated") Object.assign(event, { data: without(event.data, "tokens") })
  }
  return events
}

/** A row as the earlier version reads it. The store dates its events as any others, so their predecessor's time stays. */
const read = (sandbox: Sandbox): Sandbox => ({ ...earlierSandbox(sandbox), recordedAt: sandbox.recordedAt })

/** The store as a process of the earlier version has it. */
export const earlierStore = (store: SandboxStore["Service"]): SandboxStore["Service"] =>
  SandboxStore.of({
    ...store,
    find: (key) => Effect.map(store.find(key), read),
    command: (key, command, now, keyed, trace) =>
      store.command(
        key,
        { ...command, decide: (current) => command.decide({ ...current, sandbox: read(current.sandbox) }) },
        now,
        keyed,
        trace
      ),
    change: (id, by, decide, now) => store.change(id, by, (sandbox) => Result.map(decide(read(sandbox)), earlierEvents), now)
  })

const encode = Schema.encodeSync(StoredSandbox)
const decode = Schema.decodeUnknownSync(StoredSandbox)

/** The row as the earlier version stores it and the present one reads it: through the schema, with the keys left out. */
const reread = (sandbox: Sandbox): Sandbox => {
  const { recordedAt: _recordedAt, ...row } = encode(earlierSandbox(sandbox))
  return decode(JSON.parse(JSON.stringify(row)))
}

/**
 * The store, to which processes of the earlier version write rows of its shape. `kept`: the rows in memory; `null`: the store has others,
 * which stay as they are. `written`: see `earlierRows`.
 */
export const writtenByVersions = (
  store: SandboxStore["Service"],
  kept: SandboxRows | null,
  written: Set<string>
): SandboxStore["Service"] => {
  /** Nothing happens between the write and the change of its row. */
  const shaped = <A extends { readonly sandbox: Sandbox }, E>(write: Effect.Effect<A, E>, isWrite: (result: A) => boolean) =>
    Effect.gen(function*() {
      const result = yield* write
      const caller = yield* Caller
      const row = kept?.rows.get(result.sandbox.id)
      if (caller?.release?.isEarlier !== true || row === undefined || !isWrite(result)) return result
      row.sandbox = reread(row.sandbox)
      written.add(rowKey(row.sandbox.id, row.sandbox.lastSeq))
      return { ...result, sandbox: row.sandbox }
    }).pipe(Effect.provideService(Scheduler.PreventSchedulerYield, true))
  return SandboxStore.of({
    ...store,
    create: (request) => shaped(store.create(request), ({ replayed }) => !replayed),
    command: (key, command, now, keyed, trace) => shaped(store.command(key, command, now, keyed, trace), ({ events }) => events.length > 0),
    change: (id, by, decide, now) => shaped(store.change(id, by, decide, now), ({ events }) => events.length > 0)
  })
}

/** The name of a row as of this event in `earlierRows`. */
export const rowKey = (id: SandboxId, seq: number): string => `${id} ${seq}`
