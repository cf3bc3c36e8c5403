/** Port: the operator's names for repositories of several source hosts. Checked by `RepositoryAliasesContract`. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { RepoName } from "../schema/RepoRef.ts"
import type { HostName, HostPath, RepositoryAlias } from "../schema/RepositoryAlias.ts"

/** Aliases of a service (our choice). */
export const MAX_ALIASES = 1000

/** Nothing was changed. `limit`: another alias has to go first. `path`: the repository has the alias `name`, which has to go first. */
export class AliasRefused extends Schema.TaggedError<AliasRefused>()("AliasRefused", {
  reason: Schema.Literals(["limit", "path"]),
  name: Schema.NullOr(RepoName)
}) {
  override get message() {
    return this.reason === "limit"
      ? `There are ${MAX_ALIASES} aliases. Remove one with: slipway repos unalias OWNER/NAME`
      : `The repository has the alias ${this.name}. Remove it with: slipway repos unalias ${this.name}`
  }
}

/** The security event for a change: `SecurityEvent` of `access`, which is a later folder. */
export const aliasChanged = (
  action: "repository_alias.set" | "repository_alias.removed",
  { host, name, path }: RepositoryAlias,
  at: DateTime.Utc
) => ({ action, at, subjects: { repo: name, sourceHost: host, path } })

/** Names, hosts and paths are compared in any case of letters. Changes are in the audit log. */
export class RepositoryAliases extends Context.Service<RepositoryAliases, {
  /** Sets the repository of a name. A repository has at most one alias. Setting what is set changes nothing. */
  set(alias: RepositoryAlias, at: DateTime.Utc): Effect.Effect<void, AliasRefused | StoreUnavailable>
  /** `false`: there was no such alias. */
  remove(name: RepoName, at: DateTime.Utc): Effect.Effect<boolean, StoreUnavailable>
  find(name: RepoName): Effect.Effect<RepositoryAlias | null, StoreUnavailable>
  /** The alias of the repository. */
  at(host: HostName, path: HostPath): Effect.Effect<RepositoryAlias | null, StoreUnavailable>
  /** In order of name. */
  readonly list: Effect.Effect<ReadonlyArray<RepositoryAlias>, StoreUnavailable>
}>()("@slipway/domain/RepositoryAliases") {}
