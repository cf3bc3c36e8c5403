/**
 * Port: how the setup of a sandbox went, and what it wrote (docs/decisions/17). The newest run of each sandbox. Checked by
 * `SetupsContract`.
 */
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

/** Bytes of a setup's output that are kept, the last ones (docs/decisions/17). */
export const MAX_SETUP_OUTPUT = 2 ** 20

/** Whether what setup fills was there already: `hit`, `miss`, or `none` where nothing is cached. */
export const SetupCache = Schema.Literals(["hit", "miss", "none"])
export type SetupCache = typeof SetupCache.Type

/** `none`: no repository of the sandbox has one, or it has not begun. */
export const SetupState = Schema.Literals(["none", "running", "succeeded", "failed"])
export type SetupState = typeof SetupState.Type

/** A run of all repositories' setups. */
export interface SetupRecord {
  /** `running` also of one that was broken off: whoever works for the sandbox next begins again. */
  readonly state: Exclude<SetupState, "none">
  readonly startedAt: DateTime.Utc
  /** `null` while it runs. */
  readonly ms: number | null
  readonly cache: SetupCache
  /** Of the command that failed, else 0; `null`: none has ended so, or a signal ended it. */
  readonly exitCode: number | null
  /** The end of what the commands wrote, at most {@link MAX_SETUP_OUTPUT} bytes in UTF-8, free of secrets. */
  readonly output: string
  /** What agents are told of it, Markdown; `null`: nothing. */
  readonly told: string | null
}

/** As it is shown to those whose sandbox it is. */
export const SetupStatus = Schema.Struct({
  state: SetupState.annotateKey({ description: "`none`: no repository of the sandbox has a setup, it has not begun, or it is forgotten." }),
  startedAt: Schema.NullOr(Timestamp).annotateKey({ description: "When it began." }),
  ms: Schema.NullOr(Counter).annotateKey({ description: "How long it took, milliseconds; `null` while it runs." }),
  cache: SetupCache.annotateKey({ description: "Whether what it fills was there already; `none` where nothing is cached." }),
  exitCode: Schema.NullOr(Schema.Int).annotateKey({
    description: "Of the command that failed, else 0; `null` while none has ended so, or where a signal or the time ended it."
  }),
  output: Schema.String.annotateKey({ description: "The last MiB of what its commands wrote, without the values of secrets." })
}).annotate({ identifier: "Setup" })
export type SetupStatus = typeof SetupStatus.Type

/** `isOver`: nobody works for the sandbox any more, so that nothing of it runs. */
export const statusOf = (record: SetupRecord | null, isOver: boolean): SetupStatus => {
  if (record === null) return { state: "none", startedAt: null, ms: null, cache: "none", exitCode: null, output: "" }
  const { told: _told, ...status } = record
  return status.state === "running" && isOver ? { ...status, state: "failed" } : status
}

/** Checked by `SetupsContract`. `StoreUnavailable`: retrying helps, and is safe. */
export class Setups extends Context.Service<Setups, {
  /** In the place of what was saved of the sandbox before. */
  save(lease: Lease, record: SetupRecord): Effect.Effect<void, StaleLease | StoreUnavailable>
  /** `null`: nothing was saved, or it went with the sandbox's events. The caller has checked whose sandbox it is. */
  find(id: SandboxId): Effect.Effect<SetupRecord | null, StoreUnavailable>
  /**
   * Whether a sandbox, of whatever grant, ever published this commit as the head of a pull request that was not merged since. Of `repo`
   * the case does not count. Outlives the sandbox's events.
   */
  wasPushedUnmerged(repo: RepoName, sha: string): Effect.Effect<boolean, StoreUnavailable>
}>()("@slipway/domain/Setups") {
}
