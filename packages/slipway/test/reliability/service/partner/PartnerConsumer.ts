/** `examples/partner-consumer` as its user runs it: a process of its own, with a database of its own. */
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import { Effect, Layer } from "effect"
import path from "node:path"
import pg from "pg"
import { folder } from "../../../commands/SlipwayProcess.ts"

const main = path.resolve(import.meta.dirname, "../../../../../../examples/partner-consumer/src/main.ts")

export interface Running {
  readonly kill: (signal: NodeJS.Signals) => void
  /** Its end: an exit code, or the signal that ended it. */
  readonly ended: Effect.Effect<number | NodeJS.Signals>
  readonly output: () => string
}

/** The rows of the consumer's database. */
export interface Processed {
  readonly cursor: number
  /** Ids and sequences in the order in which they were processed. */
  readonly ids: ReadonlyArray<string>
  readonly sequences: ReadonlyArray<number>
  /** Credits by lead. */
  readonly credits: Readonly<Record<string, number>>
}

/** The consumer of one grant's feed. Starting it again is what its supervisor would do. */
export const make = Effect.fnUntraced(function*(apiKey: string) {
  const databaseUrl = yield* TestPostgres.database(Layer.empty)
  // Halves the time a start takes, once one of them has ended by itself.
  const compiled = yield* folder
  const query = <R extends pg.QueryResultRow>(sql: string) =>
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: databaseUrl })
      await client.connect()
      try {
        return (await client.query<R>(sql)).rows
      } finally {
        await client.end()
      }
    })

  return {
    /** With more settings, or others. Killed with the scope if it still runs. */
    start: (url: string, args: ReadonlyArray<string> = [], settings: Readonly<Record<string, string>> = {}) =>
      Effect.map(
        SpawnedProgram.scoped(process.execPath, [main, ...args], {
          env: {
            PATH: process.env["PATH"],
            NODE_COMPILE_CACHE: compiled,
            SLIPWAY_URL: url,
            SLIPWAY_API_KEY: apiKey,
            DATABASE_URL: databaseUrl,
            POLL_SECONDS: "0.02",
            ...settings
          }
        }),
        ({ child, ended, stderr }): Running => ({
          kill: (signal) => void child.kill(signal),
          ended: Effect.promise(async () => {
            const { code, signal } = await ended
            return signal ?? code ?? -1
          }),
          output: stderr
        })
      ),
    /** Its cursor; 0 while it has made no tables. */
    seen: Effect.gen(function*() {
      const [found] = yield* query<{ made: boolean }>("SELECT to_regclass('slipway_cursor') IS NOT NULL AS made")
      const [row] = found?.made === true ? yield* query<{ cursor: string }>("SELECT cursor FROM slipway_cursor") : []
      return Number(row?.cursor ?? 0)
    }),
    processed: Effect.gen(function*() {
      const [row] = yield* query<{ cursor: string }>("SELECT cursor FROM slipway_cursor")
      const events = yield* query<{ id: string; sequence: string }>("SELECT id, sequence FROM slipway_events ORDER BY place")
      const leads = yield* query<{ lead_id: string; credits: string }>("SELECT lead_id, credits FROM leads")
      const processed: Processed = {
        cursor: Number(row?.cursor),
        ids: events.map(({ id }) => id),
        sequences: events.map(({ sequence }) => Number(sequence)),
        credits: Object.fromEntries(leads.map(({ credits, lead_id }) => [lead_id, Number(credits)]))
      }
      return processed
    })
  }
})
