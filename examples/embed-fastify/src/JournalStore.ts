/**
 * A `SandboxStore` in memory that survives a restart: what was decided is appended to a file before it takes effect, and
 * read back at the start. For one process. Leases end with the process, and keys are kept for their time from its start on.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import * as SandboxStoreMemory from "@slipway/domain/memory/sandbox/SandboxStoreMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import type { Verdict } from "@slipway/domain/sandbox/rules/Command"
import { Rejection } from "@slipway/domain/sandbox/schema/Command"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import { Creation } from "@slipway/domain/sandbox/schema/Sandbox"
import { SandboxEvent } from "@slipway/domain/sandbox/schema/SandboxEvent"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { DateTime, Effect, Layer, Result, Schema, Semaphore } from "effect"
import { appendFileSync, existsSync, readFileSync, truncateSync } from "node:fs"

const Keyed = Schema.NullOr(Schema.Struct({ key: IdempotencyKey, fingerprint: Schema.String }))

/** Whose trace a request belongs to. */
const Trace = Schema.optionalKey(Schema.NullOr(Schema.String))

/** One line of the file. */
const Entry = Schema.fromJsonString(Schema.TaggedUnion({
  Created: { creation: Creation, keyed: Keyed, trace: Trace },
  Changed: { id: SandboxId, at: Schema.DateTimeUtcFromString, events: Schema.Array(SandboxEvent) },
  Commanded: {
    id: SandboxId,
    grantId: Schema.String,
    at: Schema.DateTimeUtcFromString,
    commandId: Schema.String,
    keyed: Keyed,
    trace: Trace,
    events: Schema.NullOr(Schema.Array(SandboxEvent)),
    rejection: Schema.NullOr(Rejection)
  }
}))
const encode = Schema.encodeSync(Entry)
const decode = Schema.decodeResult(Entry)

/** A decision as it was made: nothing is decided again when the file is read. */
const verdictOf = (events: ReadonlyArray<SandboxEvent> | null, rejection: Rejection | null): Verdict =>
  events !== null ? { outcome: "applied", events } : rejection !== null ? { outcome: "rejected", rejection } : { outcome: "duplicate" }

/** The journal cannot be used. The operator has to look at it. */
export class JournalUnreadable extends Error {}

/**
 * The entries, and the bytes that hold them. A process that died while it wrote left a part of a line at the end, which was
 * never acknowledged: it is cut off. Anything else that cannot be read is no accident of ours, and nothing is skipped.
 */
const read = (file: string) => {
  if (!existsSync(file)) return { entries: [], length: 0 }
  const bytes = readFileSync(file)
  const length = bytes.lastIndexOf("\n") + 1
  if (length < bytes.length) truncateSync(file, length)
  const entries = bytes.subarray(0, length).toString().split("\n").slice(0, -1).map((line, i) => {
    const entry = decode(line)
    if (Result.isFailure(entry)) throw new JournalUnreadable(`Line ${i + 1} of ${file} cannot be read: ${entry.failure.message}`)
    return entry.success
  })
  return { entries, length }
}

const journaled = (file: string, write: typeof appendFileSync) =>
  Effect.gen(function*() {
    const memory = yield* SandboxStore
    const one = yield* Semaphore.make(1)
    /** One write at a time, whole: the lines are in the order of what they record. */
    const writing = <A, E, R>(write: Effect.Effect<A, E, R>) => one.withPermit(Effect.uninterruptible(write))
    const { entries, length } = read(file)
    let size = length
    /** A line is there whole or not at all: after a part of a failed line, the next one could not be read. */
    const append = (entry: Parameters<typeof encode>[0]) => {
      const line = Buffer.from(`${encode(entry)}\n`)
      try {
        write(file, line, { flush: true })
      } catch (error) {
        if (existsSync(file)) truncateSync(file, size)
        throw error
      }
      size += line.length
    }

    for (const entry of entries) {
      switch (entry._tag) {
        case "Created":
          yield* memory.create(entry)
          break
        case "Changed":
          yield* memory.change(entry.id, "policy", () => Result.succeed(entry.events), entry.at)
          break
        case "Commanded":
          yield* memory.command(
            entry,
            {
              identity: () => entry.commandId,
              approvalId: null,
              decide: () => Result.succeed(verdictOf(entry.events, entry.rejection))
            },
            entry.at,
            entry.keyed ?? undefined,
            entry.trace
          )
      }
    }

    return SandboxStore.of({
      ...memory,
      create: (request) =>
        writing(Effect.tap(memory.create(request), ({ replayed }) =>
          // Acknowledged only once it is in the file; a process that dies before forgets it.
          Effect.sync(() => !replayed && append({ _tag: "Created", ...request })))),
      change: (id, by, decide, at) =>
        writing(memory.change(
          id,
          by,
          (sandbox) =>
            Result.map(decide(sandbox), (events) => {
              if (events.length > 0) append({ _tag: "Changed", id, at, events })
              return events
            }),
          at
        )),
      command: (key, command, at, keyed, trace = null) =>
        writing(memory.command(
          key,
          {
            ...command,
            decide: (current) =>
              Result.map(command.decide(current), (verdict) => {
                if (verdict.outcome !== "duplicate") {
                  append({
                    _tag: "Commanded",
                    id: key.id,
                    grantId: key.grantId,
                    at: DateTime.toUtc(at),
                    commandId: command.identity(current.sandbox),
                    keyed: keyed ?? null,
                    trace,
                    events: verdict.outcome === "applied" ? verdict.events : null,
                    rejection: verdict.outcome === "rejected" ? verdict.rejection : null
                  })
                }
                return verdict
              })
          },
          at,
          keyed,
          trace
        ))
    })
  })

/** With the leases and the maintenance of the memory beneath it: they end with the process. `write`: for tests, in which it fails. */
export const layer = (file: string, memory = SandboxStoreMemory.layer, write = appendFileSync) =>
  Layer.effect(SandboxStore, journaled(file, write)).pipe(Layer.provideMerge(memory))

/** The stores of this service and its worker, for one process. */
export const stores = (file: string) => layer(file).pipe(Layer.provideMerge(Layer.merge(HintsMemory.layer, IdsNode.layer)))
