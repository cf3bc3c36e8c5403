/**
 * `Hints` between processes: NOTIFY after commit, batched, carrying topics only; one LISTEN a process. A tick covers
 * what is lost on the way, and only for topics that somebody watches.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import { EVERY, Hints, makeLocal, type Topic, WORK } from "@slipway/domain/store/Hints"
import { Effect, Layer, Queue, Schedule } from "effect"
import { textArray } from "./sql/TextArray.ts"

const CHANNEL = "slipway_hints"
/** A payload must stay below 8000 bytes (PostgreSQL, NOTIFY); topics are at most 40 characters. */
const TOPICS_PER_NOTIFY = 150
/** A lost hint costs at most this (docs/decisions/5). */
const TICK = "1 second"

export const layer = Layer.effect(
  Hints,
  Effect.gen(function*() {
    const pg = yield* PgClient.PgClient
    const local = makeLocal()
    const outbox = yield* Queue.unbounded<Topic>()
    /** Tells our own notifications apart: they were delivered here when they were published. */
    const origin = crypto.randomUUID()

    yield* Effect.forever(Effect.gen(function*() {
      const topics = [...new Set(yield* Queue.takeBetween(outbox, 1, TOPICS_PER_NOTIFY))]
      yield* Effect.ignore(pg.notify(CHANNEL, `${origin} ${topics.join(" ")}`))
    })).pipe(Effect.forkScoped)

    yield* pg.listen(CHANNEL).pipe(
      // Hints from before the connection are lost.
      Effect.tap(local.publish([EVERY])),
      Effect.flatMap((notifications) =>
        Effect.forever(Effect.gen(function*() {
          const [from, ...topics] = (yield* Queue.take(notifications)).payload.split(" ")
          if (from !== origin) yield* local.publish(topics)
        }))
      ),
      Effect.scoped,
      // The connection was lost: the tick goes on until there is a new one.
      Effect.retry(Schedule.spaced(TICK)),
      Effect.forkScoped
    )

    const heads = new Map<Topic, bigint>()
    yield* Effect.gen(function*() {
      const watched = new Set(local.topics())
      const sandboxes = [...watched].filter((topic) => topic.startsWith("c_"))
      for (const topic of heads.keys()) if (!watched.has(topic)) heads.delete(topic)
      const changed = watched.has(WORK) ? [WORK] : []
      if (sandboxes.length > 0) {
        const rows = yield* pg<{ readonly id: string; readonly last_seq: bigint }>`
          SELECT id, last_seq FROM sandboxes WHERE id = ANY(${textArray(sandboxes)}::text[])`
        for (const { id, last_seq } of rows) {
          // The first look counts as a change: what happened since its watcher last read is not known.
          if (heads.get(id) !== last_seq) changed.push(id)
          heads.set(id, last_seq)
        }
      }
      yield* local.publish(changed)
    }).pipe(Effect.ignore, Effect.repeat(Schedule.spaced(TICK)), Effect.forkScoped)

    return Hints.of({
      watch: local.watch,
      listen: local.listen,
      publish: (topics, note) => Effect.andThen(local.publish(topics, note), Queue.offerAll(outbox, topics))
    })
  })
)
