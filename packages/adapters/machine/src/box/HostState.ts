/** The state of a host of boxes, shared by its operations. */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, type Scope } from "effect"
import type * as Egress from "../egress/Egress.ts"
import type * as SandboxFolder from "../files/SandboxFolder.ts"
import type { ServiceFolder } from "../files/ServiceFolder.ts"
import type { Limits } from "../host/Limits.ts"
import type * as Processors from "../kernel/Processors.ts"
import type * as LoopbackConnection from "../ports/LoopbackConnection.ts"
import type * as Ownership from "../users/Ownership.ts"
import type { Kind, Options } from "./BoxKind.ts"

/** One sandbox of this process. */
export interface Live {
  readonly box: Box
  readonly scope: Scope.Closeable
  /** Ends each process that runs. */
  readonly running: Set<Effect.Effect<void>>
}

/** The programs and folders that boxes of a sandbox are made of. */
export interface Prepared {
  readonly folder: SandboxFolder.SandboxFolder
  readonly workspace: string
  readonly user: Ownership.User | null
  /** Names of its files in `/etc`. */
  readonly etcFiles: ReadonlyArray<string>
  readonly isSized: boolean
  readonly processors: string | null
}

/** The readers of a sandbox. */
export interface Visits {
  count: number
  /** A box of their own, while they have one. */
  own: { readonly spawn: Box["spawn"]; readonly running: Set<Effect.Effect<void>> } | null
}

export interface HostState extends Pick<Options, "diskGlanceMillis" | "diskLookMillis" | "folders" | "workspaceOf"> {
  readonly directory: string
  readonly uids: ServiceFolder["uids"]
  readonly kind: Kind
  readonly limits: Limits
  /** Host paths that every box sees. */
  readonly readOnly: ReadonlyArray<string>
  readonly egress: Egress.Egress["Service"]
  /** The scope of the host. */
  readonly scope: Scope.Scope
  readonly lives: Map<SandboxId, Live>
  readonly visits: Map<SandboxId, Visits>
  readonly processors: ReturnType<typeof Processors.make>
  /** Sandboxes of which this process ended everything, and has started nothing since: there is nothing to look for. */
  readonly still: Set<SandboxId>
  /** How many starts are under way. */
  readonly starting: Map<SandboxId, number>
  /** Counts connections to ports of a box. */
  readonly counted: ReturnType<typeof LoopbackConnection.counter>
  locked(sandboxId: SandboxId): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** Ends all these processes. */
export const endAll = (running: ReadonlySet<Effect.Effect<void>>) =>
  Effect.forEach([...running], (end) => end, { concurrency: "unbounded", discard: true })

/** Notes a start that is under way: a search for what runs may miss its process. */
export const noted = ({ starting, still }: HostState, sandboxId: SandboxId) => <A, E>(start: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      still.delete(sandboxId)
      starting.set(sandboxId, (starting.get(sandboxId) ?? 0) + 1)
    }),
    () => start,
    () =>
      Effect.sync(() => {
        const left = (starting.get(sandboxId) ?? 1) - 1
        if (left > 0) starting.set(sandboxId, left)
        else starting.delete(sandboxId)
      })
  )
