/** The rows about whole processes, and the modules that measure them. */
import type { Measurement } from "./Measurement.ts"

export interface Options {
  readonly quick: boolean
  /** The ids of this module's rows that are wanted: never empty. */
  readonly only: ReadonlySet<string>
  /** Tells on standard error how far it is. */
  readonly say: (line: string) => void
  /** A row cannot be measured here: `reason` says why, and the command that helps. It is no failure. */
  readonly skip: (id: string, reason: string) => void
}

export interface RowsModule {
  measure(options: Options): Promise<ReadonlyArray<Measurement>>
}

/**
 * Real agents come from where `slipway agents install` put them: `.slipway` of the checkout, or SLIPWAY_DATA_DIR. Peers come from
 * where `peers/Installed.ts` says. What is not there is left out; nothing is fetched.
 */
export const groups = [
  {
    name: "boot",
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
    load: (): Promise<RowsModule> => import("./boot/Boot.ts")
  },
  {
    name: "start",
    rows: [
      { id: "start", what: "npm start to the first 200, beside node and pg by hand on the same embedded Postgres", quick: true },
      { id: "start-memory", what: "memory of that process at rest", quick: true },
      { id: "start-bundle", what: "the same of the built server, where there is one", quick: true },
      { id: "start-bundle-memory", what: "memory of that process at rest", quick: true }
    ],
    load: (): Promise<RowsModule> => import("./start/Start.ts")
  },
  {
    name: "lifecycles",
    rows: [
      { id: "lifecycles-1", what: "create, turn with an edit, draft pull request, end: a minute, 1 client, beside a script", quick: true },
      { id: "lifecycles-4", what: "the same, 4 clients", quick: true },
      { id: "lifecycles-cpu", what: "processor time of all processes of one of those", quick: true }
    ],
    load: (): Promise<RowsModule> => import("./lifecycles/Lifecycles.ts")
  },
  {
    name: "peers",
    rows: ["opencode", "sandbox-agent"].flatMap((peer) => [
      { id: `${peer}-create`, what: `create a session until it is answered, beside ${peer}`, quick: false },
      {
        id: `${peer}-first-word`,
        what: `create a session and prompt it, until the agent's first word on the stream, beside ${peer}`,
        quick: false
      },
      { id: `${peer}-read`, what: `read a session, beside ${peer}`, quick: false },
      { id: `${peer}-event`, what: `a prompt until the agent's first word on the stream, beside ${peer}`, quick: false },
      { id: `${peer}-replay`, what: `all that was said in a session of 50 turns, beside ${peer}`, quick: false }
    ]),
    load: (): Promise<RowsModule> => import("./peers/Peers.ts")
  }
]
