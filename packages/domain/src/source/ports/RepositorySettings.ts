/** Port: what owners chose for a grant's repositories. Checked by `RepositorySettingsContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import type { RepoName } from "../schema/RepoRef.ts"
import type { RepoSettings } from "../schema/RepoSettings.ts"

/** Repositories of one grant with settings (our choice). */
export const MAX_REPOSITORIES = 1000

/** Nothing was changed. `grant`: there is none, or it is revoked. `limit`: another repository's settings have to go first. */
export class SettingsRefused extends Schema.TaggedError<SettingsRefused>()("SettingsRefused", {
  reason: Schema.Literals(["grant", "limit"])
}) {
  override get message() {
    return this.reason === "grant"
      ? "There is no such grant."
      : `A grant may have settings for ${MAX_REPOSITORIES} repositories.`
  }
}

/** The grant and the repository of settings. `repo` is not case-sensitive. */
export interface SettingsOf {
  readonly grantId: string
  readonly repo: RepoName
}

/** Stored settings. */
export interface RepositorySettingsRecord {
  /** As spelled when they were set. */
  readonly repo: RepoName
  readonly settings: RepoSettings
  readonly setAt: DateTime.Utc
}

/** The security event for a change: `SecurityEvent` of `access`, which is a later folder. */
export const changed = ({ grantId, repo }: SettingsOf, at: DateTime.Utc) => ({
  action: "repository_settings.changed" as const,
  at,
  subjects: { grantId, repo }
})

/** Checked by `RepositorySettingsContract`. Changes are in the audit log. */
export class RepositorySettings extends Context.Service<RepositorySettings, {
  /** The settings; `NO_SETTINGS` where none are stored. */
  of(of: SettingsOf): Effect.Effect<RepoSettings, StoreUnavailable>
  /** Replaces the settings. `NO_SETTINGS` deletes what is stored. Settings that are so already stay, and are not in the audit log. */
  set(of: SettingsOf, settings: RepoSettings, at: DateTime.Utc): Effect.Effect<void, SettingsRefused | StoreUnavailable>
  /** The stored settings of a grant, in order of repository. */
  list(grantId: string): Effect.Effect<ReadonlyArray<RepositorySettingsRecord>, StoreUnavailable>
}>()("@slipway/domain/RepositorySettings") {
}
