/**
 * A `SandboxStore` in memory that survives a restart: what was decided is appended to a file before it takes effect, and
 * read back at the start. For one process. Leases end with the process, and keys are kept for their time from its start on.
 */
import { DateTime, Effect, Layer, Result, Schema, Semaphore } from "effect"
import { appendFileSync, existsSync, readFileSync } from "node:fs"
import { Rejection, type Verdict } from "@slipway/domain/sandbox/Command"
import { IdempotencyKey } from "@slipway/domain/sandbox/Idempotency"
import { Creation } from "@slipway/domain/sandbox/Sandbox"
import { SandboxEvent } from "@slipway/domain/sandbox/SandboxEvent"
import { SandboxId } from "@slipway/domain/sandbox/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/SandboxStore"

const Keyed = Schema.NullOr(Schema.Struct({ key: IdempotencyKey, fingerprint: Schema.String }))

/** One line of the file. */
const Entry = Schema.fromJsonString(Schema.TaggedUnion({
  Created: { creation: Creation, keyed: Keyed },
  Changed: { id: SandboxId, at: Schema.DateTimeUtcFromString, events: Schema.Array(SandboxEvent) },
  Commanded: {
    id: SandboxId,
    grantId: Schema.String,
    at: Schema.DateTimeUtcFromString,
    commandId: Schema.String,
    keyed: Keyed,
    events: Schema.NullOr(Schema.Array(SandboxEvent)),
    rejection: Schema.NullOr(Rejection)
  }
}))
const encode = Schema.encodeSync(Entry)
const decode = Schema.decodeSync(Entry)

/** A decision as it was made: nothing is decided again when the file is read. */
const verdictOf = (events: ReadonlyArray<SandboxEvent> | null, rejection: Rejection | null): Verdict =>
  events !== null ? { outcome: "applied", events } : rejection !== null ? { outcome: "rejected", rejection } : { outcome: "duplicate" }

const journaled = (file: string) =>
  Effect.gen(function*() {
    const memory = yield* SandboxStore
    const one = yield* Semaphore.make(1)
    /** One write at a time, whole: the lines are in the order of what they record. */
    const writing = <A, E, R>(write: Effect.Effect<A, E, R>) => one.withPermit(Effect.uninterruptible(write))
    const append = (entry: Parameters<typeof encode>[0]) => appendFileSync(file, `${encode(entry)}\n`, { flush: true })

    for (const line of existsSync(file) ? readFileSync(file, "utf8").split("\n").filter((line) => line !== "") : []) {
      const entry = decode(line)
      switch (entry._tag) {
        case "Created":
          yield* memory.create(entry.creation, entry.keyed)
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
            entry.keyed ?? undefined
          )
      }
    }

    return SandboxStore.of({
      ...memory,
      create: (creation, keyed, refused) =>
        writing(Effect.tap(memory.create(creation, keyed, refused), ({ replayed }) =>
          // Acknowledged only once it is in the file; a process that dies before forgets it.
          Effect.sync(() => !replayed && append({ _tag: "Created", creation, keyed })))),
      change: (id, by, decide, at) =>
        writing(memory.change(id, by, (sandbox) =>
          Result.map(decide(sandbox), (events) => {
            if (events.length > 0) append({ _tag: "Changed", id, at, events })
            return events
          }), at)),
      command: (key, command, at, keyed) =>
        writing(memory.command(key, {
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
                  events: verdict.outcome === "applied" ? verdict.events : null,
                  rejection: verdict.outcome === "rejected" ? verdict.rejection : null
                })
              }
              return verdict
            })
        }, at, keyed))
    })
  })

export const layer = (file: string) => Layer.effect(SandboxStore, journaled(file)).pipe(Layer.provide(SandboxStore.layerMemory))
