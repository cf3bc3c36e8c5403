/** Port: the result and the output of a sandbox's newest setup (docs/decisions/17). Checked by `SetupsContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SandboxId } from "../../ids/SandboxId.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { Counter } from "../../text/Text.ts"
import { Timestamp } from "../../time/Timestamp.ts"
import type { Lease, StaleLease } from "./Leases.ts"

/** Bytes of a setup's output that are stored, from its end (docs/decisions/17). */
export const MAX_SETUP_OUTPUT = 2 ** 20

/** Whether the cache of the setup existed: `hit`, `miss`, or `none` if nothing is cached. */
export const SetupCache = Schema.Literals(["hit", "miss", "none"])
export type SetupCache = typeof SetupCache.Type

/** `none`: no repository of the sandbox has a setup, or it has not begun. */
export const SetupState = Schema.Literals(["none", "running", "succeeded", "failed"])
export type SetupState = typeof SetupState.Type

/** One run of the setups of all repositories. */
export interface SetupRecord {
  /** Also `running` after an interruption: the next worker of the sandbox starts it again. */
  readonly state: Exclude<SetupState, "none">
  readonly startedAt: DateTime.Utc
  /** `null` while it runs. */
  readonly ms: number | null
  readonly cache: SetupCache
  /** The exit code of the failed command, otherwise 0; `null`: no command has exited, or a signal ended it. */
  readonly exitCode: number | null
  /** The end of the commands' output, at most {@link MAX_SETUP_OUTPUT} bytes in UTF-8, without secrets. */
  readonly output: string
  /** The text about it for agents, in Markdown; `null`: none. */
  readonly told: string | null
}

/** The status for readers of the sandbox. */
export const SetupStatus = Schema.Struct({
  state: SetupState.annotateKey({
    description: "`none`: no repository of the sandbox has a setup, it has not begun, or its record was deleted."
  }),
  startedAt: Schema.NullOr(Timestamp).annotateKey({ description: "The start time." }),
  ms: Schema.NullOr(Counter).annotateKey({ description: "The duration in milliseconds; `null` while it runs." }),
  cache: SetupCache.annotateKey({ description: "Whether its cache existed; `none` if nothing is cached." }),
  exitCode: Schema.NullOr(Schema.Int).annotateKey({
    description:
      "The exit code of the failed command, otherwise 0; `null` before a command has exited, or if a signal or a timeout ended it."
  }),
  output: Schema.String.annotateKey({ description: "The last MiB of the commands' output, without the values of secrets." })
}).annotate({ identifier: "Setup" })
export type SetupStatus = typeof SetupStatus.Type

/** `isOver`: no worker runs the sandbox any more, so its setup cannot be running. */
export const statusOf = (record: SetupRecord | null, isOver: boolean): SetupStatus => {
  if (record === null) return { state: "none", startedAt: null, ms: null, cache: "none", exitCode: null, output: "" }
  const { told: _told, ...status } = record
  return status.state === "running" && isOver ? { ...status, state: "failed" } : status
}

/** Checked by `SetupsContract`. After `StoreUnavailable`, retrying helps and is safe. */
export class Setups extends Context.Service<Setups, {
  /** Replaces the sandbox's record. */
  save(lease: Lease, record: SetupRecord): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** `null`: no record, or it was deleted with the sandbox's events. The caller has checked access to the sandbox. */
  find(id: SandboxId): Effect.Effect<SetupRecord | null, StoreUnavailable>
  /**
   * Whether a sandbox of any grant published this commit as the head of a pull request that was not merged since. `repo` ignores case.
   * The answer outlives the sandbox's events.
   */
  wasPushedUnmerged(repo: RepoName, sha: string): Effect.Effect<boolean, StoreUnavailable>
}>()("@slipway/domain/Setups") {
}
