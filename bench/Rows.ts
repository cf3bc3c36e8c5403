/** The rows of `npm run bench`: which there are, and which module measures them. */
import type { Measurement } from "./Measurement.ts"

/** The rows of a module to measure, and how. */
export interface Options {
  /** Shorter rounds, of which `--quick` and `--keep` make their ratios; as many of them. */
  readonly quick: boolean
  /** The ids of this module's rows that are wanted: never empty. A row that is only measured on the way is left out of the results. */
  readonly only: ReadonlySet<string>
  /** Folder for CPU profiles of our processes; `null`: none. */
  readonly profile: string | null
  /** Tells on standard error how far it is: for what takes more than some seconds. */
  readonly say: (line: string) => void
  /** A row cannot be measured here: `reason` says why, and the command that helps. It is no failure. */
  readonly skip: (id: string, reason: string) => void
}

export interface RowsModule {
  /** In the order of the table. Rejects if a side gives a wrong answer: a measurement of it would be worthless. */
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
  /** How long all of its rows may take on a busy machine; what takes longer is given up. */
  readonly minutes: number
  readonly rows: ReadonlyArray<Row>
  /** Loaded only if one of its rows is wanted. */
  readonly load: () => Promise<RowsModule>
}

/** Samples of a row and side, each of a round in which the sides take turns. */
export const ROUNDS = 5

export const groups: ReadonlyArray<Group> = [
  {
    name: "api",
    minutes: 40,
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
    minutes: 90,
    rows: [
      { id: "list-large", what: "list of 100 sandboxes of 1,000,000, beside that of 1,000", quick: false },
      { id: "append-large", what: "events of one turn where 10,000,000 are, beside where 10,000 are", quick: false }
    ],
    load: () => import("./api/Large.ts")
  },
  {
    name: "imports",
    minutes: 10,
    rows: [
      { id: "rules-ms", what: "import of the domain's rules as they are published, beyond bare Node: processor time", quick: true },
      { id: "rules-mb", what: "the same: memory", quick: true },
      { id: "rules-sources-ms", what: "the same of their sources, of which Node strips the types: processor time", quick: true },
      { id: "rules-sources-mb", what: "the same: memory", quick: true }
    ],
    load: () => import("./imports/Imports.ts")
  },
  // Real agents come from where `slipway agents install` put them: `.slipway` of the checkout, or SLIPWAY_DATA_DIR. An agent that is not
  // installed is left out; nothing is downloaded.
  {
    name: "boot",
    minutes: 20,
    rows: [
      {
        id: "boot-offline",
        what: "creation to its turn's start, offline agent, beside worktree, spawn and handshake by a script",
        quick: true
      },
      { id: "boot-codex", what: "the same, codex", quick: true },
      { id: "boot-offline-bubblewrap", what: "the same, offline agent in a box, beside bwrap by the script", quick: true },
      { id: "boot-codex-bubblewrap", what: "the same, codex in a box", quick: true }
    ],
    load: () => import("./boot/Boot.ts")
  },
  {
    name: "interactive",
    minutes: 20,
    rows: [
      { id: "interactive", what: "creation to the output of the first command, in a box of bubblewrap, in sequence", quick: true },
      { id: "interactive-p99", what: "the slowest hundredth of those", quick: true },
      { id: "interactive-burst", what: "the same, 100 at once", quick: true }
    ],
    load: () => import("./boot/Interactive.ts")
  },
  {
    name: "start",
    minutes: 30,
    rows: [
      { id: "start", what: "npm start to the first 200, beside node and pg by hand on the same embedded Postgres", quick: false },
      { id: "start-memory", what: "memory of that process at rest", quick: false },
      { id: "start-bundle", what: "the same of the built server, where there is one", quick: false },
      { id: "start-bundle-memory", what: "memory of that process at rest", quick: false }
    ],
    load: () => import("./start/Start.ts")
  },
  {
    name: "lifecycles",
    minutes: 30,
    rows: [
      { id: "lifecycles-1", what: "create, turn with an edit, draft pull request, end: a minute, 1 client, beside a script", quick: true },
      { id: "lifecycles-4", what: "the same, 4 clients", quick: false },
      { id: "lifecycles-cpu", what: "processor time of all processes of one of those", quick: true }
    ],
    load: () => import("./lifecycles/Lifecycles.ts")
  },
  {
    name: "notifications",
    minutes: 10,
    rows: [
      {
        id: "notified-create",
        what: "processor time of a creation with 3 listening endpoints, 16 clients, beside one without",
        quick: true
      },
      {
        id: "notified-change",
        what: "processor time of a change with one notification and 3 listening endpoints, beside one without",
        quick: true
      }
    ],
    load: () => import("./notifications/Notifications.ts")
  },
  {
    name: "polling",
    minutes: 10,
    rows: [
      { id: "polling-requests", what: "requests for 1,000 open pull requests of 100 repositories, for each of them a minute", quick: true }
    ],
    load: () => import("./polling/Polling.ts")
  }
]
