/** The rows of `npm run bench`: which there are, and which module measures them. */
import type { Measurement } from "./Measurement.ts"

/** What is measured of a module's rows, and how. */
export interface Options {
  /** Shorter rounds, of which `--quick` and `--keep` make their ratios; as many of them. */
  readonly quick: boolean
  /** The ids of this module's rows that are wanted: never empty. Whoever measures another row on the way leaves it out. */
  readonly only: ReadonlySet<string>
  /** Folder for CPU profiles of our processes; `null`: none. */
  readonly profile: string | null
  /** Tells on standard error how far it is: for what takes more than some seconds. */
  readonly say: (line: string) => void
}

export interface RowsModule {
  /** In the order of the table. Rejects if a side does not answer as it must: a measurement of something else is none. */
  measure(options: Options): Promise<ReadonlyArray<Measurement>>
}

export interface Row {
  /** As of its `Measurement`. */
  readonly id: string
  /** One line for `--help`. */
  readonly what: string
  /** Whether a short version of it says something: what takes minutes to set up is not in `--quick`. */
  readonly quick: boolean
}

/** Rows that share what is costly to set up. */
export interface Group {
  /** `npm run bench -- NAME` runs these alone. */
  readonly name: string
  readonly rows: ReadonlyArray<Row>
  /** Loaded only if one of its rows is wanted. */
  readonly load: () => Promise<RowsModule>
}

/** Samples of a row and side, each of a round in which the sides take turns. */
export const ROUNDS = 5

export const groups: ReadonlyArray<Group> = [
  {
    name: "api",
    rows: [
      { id: "get", what: "GET of a sandbox, 16 clients, beside Fastify + pg", quick: true },
      { id: "list", what: "list of 100 sandboxes, 16 clients, beside Fastify + pg", quick: true },
      { id: "malformed", what: "401 of a malformed key, beside Fastify", quick: true },
      { id: "unknown", what: "401 of an unknown key, beside Fastify + pg", quick: true },
      { id: "limited", what: "429 of a key at its limit, beside Fastify + pg", quick: true },
      { id: "create", what: "creations, 16 clients, beside Fastify + pg", quick: true },
      { id: "create-bare", what: "creations, 16 clients, beside their bare transaction by pg on 16 connections", quick: true },
      { id: "append", what: "events of one turn, one transaction each, beside that transaction by pg", quick: true },
      { id: "frame-1", what: "from the commit to the frame of one reader, p50, beside node:http + pg", quick: true },
      { id: "frame-100", what: "the same with 100 readers", quick: true },
      { id: "frame-1000", what: "the same with 1,000 readers", quick: true },
      { id: "frame-1000-p99", what: "the slowest hundredth of those", quick: true },
      { id: "fan-out", what: "events of a busy sandbox to 1,000 readers, beside node:http + pg", quick: true },
      { id: "replay", what: "100,000 events to one reader, beside a select and node:http", quick: true },
      { id: "stream-memory", what: "memory of an idle stream, 5,000 open, beside parked responses of node:http", quick: true }
    ],
    load: () => import("./api/Api.ts")
  },
  {
    name: "large",
    rows: [
      { id: "list-large", what: "list of 100 sandboxes of 1,000,000, beside that of 1,000", quick: false },
      { id: "append-large", what: "events of one turn where 10,000,000 are, beside where 10,000 are", quick: false }
    ],
    load: () => import("./api/Large.ts")
  }
]
