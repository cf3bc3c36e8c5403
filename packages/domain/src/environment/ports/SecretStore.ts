/** Port: secrets of repositories, which only setup can read, and the refs whose setups get them. */
import * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { GrantNotFound } from "../../access/ports/AccessStore.ts"
import type { Action, SecurityEvent } from "../../access/ports/AuditLog.ts"
import type { RepoName } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { utf8Length } from "../../text/Utf8.ts"
import type { SecretName } from "../rules/Environment.ts"
import { MAX_TRUSTED_REFS, type TrustedRef } from "../rules/SetupTrust.ts"

/** Secrets of one repository in one grant, or of all repositories of one grant (our choice). */
export const MAX_SECRETS = 100
/** Secrets of one grant over all repositories (our choice). */
export const MAX_SECRETS_OF_GRANT = 1000
/** UTF-8 bytes of one value. Linux limits one variable to 128 KiB (execve(2), MAX_ARG_STRLEN). */
export const MAX_VALUE_BYTES = 64 * 1024
/**
 * UTF-8 bytes of all values of one repository, and of those of all repositories. Linux gives all variables of a process a quarter of its
 * stack: 2 MiB by default.
 */
export const MAX_VALUES_BYTES = 1024 * 1024

/** Characters of the shortest value that is redacted. Shorter values would match everywhere. */
export const SHORTEST_REDACTED = 8

const isValue = Schema.makeFilter((value: string) => {
  if (value === "" || value.length > MAX_VALUE_BYTES || value.includes("\0") || !value.isWellFormed()) return false
  return utf8Length(value) <= MAX_VALUE_BYTES
}, { expected: "1 byte to 64 KiB of UTF-8 without NUL" })

/** A value that an environment variable can hold. */
export const SecretValue = Schema.String.check(isValue)

/** No secret of the repository has this name. */
export class SecretNotFound extends Schema.TaggedError<SecretNotFound>()("SecretNotFound", {}) {
  override get message() {
    return "There is no such secret."
  }
}

/** The repository or the grant is at its limit of secrets or bytes. Removing a secret helps. */
export class TooManySecrets extends Schema.TaggedError<TooManySecrets>()("TooManySecrets", {}) {
  override get message() {
    return `A repository may have ${MAX_SECRETS} secrets, of ${MAX_VALUES_BYTES / 1024} KiB together; a grant ${MAX_SECRETS_OF_GRANT}.`
  }
}

/** The repository has no secrets of these names. */
export class SecretsMissing extends Schema.TaggedError<SecretsMissing>()("SecretsMissing", {
  repo: Schema.String,
  names: Schema.Array(Schema.String)
}) {
  override get message() {
    return `${this.repo} has no secret ${this.names.join(", ")}. An owner can set it.`
  }
}

/**
 * Stored secrets cannot be decrypted, or new ones cannot be encrypted. An operator has to act. `problem` describes it and holds no
 * secret.
 */
export class SecretsUnusable extends Schema.TaggedError<SecretsUnusable>()("SecretsUnusable", { problem: Schema.String }) {
  override get message() {
    return this.problem
  }
}

/** The `repo` of secrets for all repositories of a grant. No repository has this name. */
export const ALL_REPOSITORIES = "*"

/** The repository and grant that secrets belong to. `repo` is not case-sensitive. */
export interface SecretsOf {
  readonly grantId: string
  readonly repo: RepoName
}

/** The name of a secret in its grant and repository. */
export interface SecretKey extends Omit<SecretsOf, "repo"> {
  readonly repo: RepoName | typeof ALL_REPOSITORIES
  readonly name: SecretName
}

/** A secret without its value. */
export interface SecretRecord {
  /** As spelled when the value was set. */
  readonly repo: RepoName | typeof ALL_REPOSITORIES
  readonly name: SecretName
  readonly createdAt: DateTime.Utc
  /** The time when the value was last set. */
  readonly setAt: DateTime.Utc
}

/** A ref whose setups get secrets, as the default branch does (`SetupTrust`). */
export interface TrustedRefRecord {
  /** As spelled when the ref was listed. */
  readonly repo: RepoName
  readonly ref: TrustedRef
  readonly listedAt: DateTime.Utc
}

/** No such ref is listed for the repository. */
export class TrustedRefNotFound extends Schema.TaggedError<TrustedRefNotFound>()("TrustedRefNotFound", {}) {
  override get message() {
    return "The ref is not listed."
  }
}

/** The repository is at its limit of listed refs. Removing one helps. */
export class TooManyTrustedRefs extends Schema.TaggedError<TooManyTrustedRefs>()("TooManyTrustedRefs", {}) {
  override get message() {
    return `A repository may have ${MAX_TRUSTED_REFS} listed refs.`
  }
}

/** The security event for a ref that was listed or removed from the list. */
export const refTold = (
  action: Extract<Action, `trusted_ref.${string}`>,
  { grantId, repo }: SecretsOf,
  ref: TrustedRef,
  at: DateTime.Utc
): SecurityEvent => ({ action, at, subjects: { grantId, repo, ref } })

/** The security event for a change of a secret. */
export const told = (action: Extract<Action, `secret.${string}`>, { grantId, name, repo }: SecretKey, at: DateTime.Utc): SecurityEvent => ({
  action,
  at,
  subjects: { grantId, repo, secret: name }
})

/** Checked by `SecretStoreContract`. Revoking a grant deletes its secrets for good. Changes of secrets are in the audit log. */
export class SecretStore extends Context.Service<SecretStore, {
  /** Sets the value and deletes the value before it. */
  set(
    key: SecretKey,
    value: Redacted.Redacted,
    at: DateTime.Utc
  ): Effect.Effect<SecretRecord, GrantNotFound | TooManySecrets | SecretsUnusable | StoreUnavailable>
  /**
   * In order of repository and name, first those of {@link ALL_REPOSITORIES}. `repo` limits the list to one repository, without those of
   * all.
   */
  list(grantId: string, repo: RepoName | null): Effect.Effect<ReadonlyArray<SecretRecord>, StoreUnavailable>
  remove(key: SecretKey, at: DateTime.Utc): Effect.Effect<void, SecretNotFound | StoreUnavailable>
  /**
   * The values by name, for setup only. A secret of the repository goes before one of {@link ALL_REPOSITORIES} with its name. Fails unless
   * every name has a value.
   */
  reveal(
    of: SecretsOf,
    names: ReadonlyArray<SecretName>
  ): Effect.Effect<ReadonlyMap<SecretName, Redacted.Redacted>, SecretsMissing | SecretsUnusable | StoreUnavailable>
  /** Lists a ref. A ref that is listed stays unchanged. */
  trustRef(of: SecretsOf, ref: TrustedRef, at: DateTime.Utc): Effect.Effect<
    TrustedRefRecord,
    GrantNotFound | TooManyTrustedRefs | StoreUnavailable
  >
  /** In order of repository and ref. `repo` limits the list to one repository. */
  trustedRefs(grantId: string, repo: RepoName | null): Effect.Effect<ReadonlyArray<TrustedRefRecord>, StoreUnavailable>
  /** From now on this ref gives no setup its secrets. */
  distrustRef(of: SecretsOf, ref: TrustedRef, at: DateTime.Utc): Effect.Effect<void, TrustedRefNotFound | StoreUnavailable>
}>()("@slipway/domain/SecretStore") {
}
