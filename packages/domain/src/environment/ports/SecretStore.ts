/** Port: secrets of repositories, which setup gets and nobody reads again, and the refs that get them. */
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

/** Secrets of one repository in one grant (ours). */
export const MAX_SECRETS = 100
/** Secrets of one grant, in all repositories (ours). */
export const MAX_SECRETS_OF_GRANT = 1000
/** Of one value, in UTF-8. Linux takes no variable of more than 128 KiB (execve(2), MAX_ARG_STRLEN). */
export const MAX_VALUE_BYTES = 64 * 1024
/** Of the values of one repository together. Linux gives all variables of a process a quarter of its stack: 2 MiB by default. */
export const MAX_VALUES_BYTES = 1024 * 1024

/** Characters of the shortest value that is redacted by value: shorter ones would be found everywhere. */
export const SHORTEST_REDACTED = 8

const isValue = Schema.makeFilter((value: string) => {
  if (value === "" || value.length > MAX_VALUE_BYTES || value.includes("\0") || !value.isWellFormed()) return false
  return utf8Length(value) <= MAX_VALUE_BYTES
}, { expected: "1 byte to 64 KiB of UTF-8 without NUL" })

/** What an environment variable can hold. */
export const SecretValue = Schema.String.check(isValue)

/** No secret of the repository has this name. */
export class SecretNotFound extends Schema.TaggedError<SecretNotFound>()("SecretNotFound", {}) {
  override get message() {
    return "There is no such secret."
  }
}

/** The repository's secrets, or the grant's, are as many, or as large together, as they may be. One has to be removed first. */
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

/** What is stored cannot be decrypted, or nothing can be encrypted: an operator has to act. `problem` says how, and no secret. */
export class SecretsUnusable extends Schema.TaggedError<SecretsUnusable>()("SecretsUnusable", { problem: Schema.String }) {
  override get message() {
    return this.problem
  }
}

/** The secrets of a repository in a grant. Of `repo` the case does not count. */
export interface SecretsOf {
  readonly grantId: string
  readonly repo: RepoName
}

/** A secret as its grant names it. */
export interface SecretKey extends SecretsOf {
  readonly name: SecretName
}

/** What is told of a secret: everything but its value. */
export interface SecretRecord {
  /** As it was written when the value was set. */
  readonly repo: RepoName
  readonly name: SecretName
  readonly createdAt: DateTime.Utc
  /** When its value was set the last time. */
  readonly setAt: DateTime.Utc
}

/** A ref whose commits a setup may have its secrets for, beside the default branch (`SetupTrust`). */
export interface TrustedRefRecord {
  /** As it was written when it was listed. */
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

/** The repository has as many listed refs as it may. One has to be removed first. */
export class TooManyTrustedRefs extends Schema.TaggedError<TooManyTrustedRefs>()("TooManyTrustedRefs", {}) {
  override get message() {
    return `A repository may have ${MAX_TRUSTED_REFS} listed refs.`
  }
}

/** The entry of a ref that was listed, or is not any more. */
export const refTold = (
  action: Extract<Action, `trusted_ref.${string}`>,
  { grantId, repo }: SecretsOf,
  ref: TrustedRef,
  at: DateTime.Utc
): SecurityEvent => ({ action, at, subjects: { grantId, repo, ref } })

/** The entry of something that happened to a secret. */
export const told = (action: Extract<Action, `secret.${string}`>, { grantId, name, repo }: SecretKey, at: DateTime.Utc): SecurityEvent => ({
  action,
  at,
  subjects: { grantId, repo, secret: name }
})

/**
 * Checked by `SecretStoreContract`. A grant that is revoked has no secrets: they are gone for good. What changes a
 * secret is in the audit log.
 */
export class SecretStore extends Context.Service<SecretStore, {
  /** Whatever the value was before is gone. */
  set(
    key: SecretKey,
    value: Redacted.Redacted,
    at: DateTime.Utc
  ): Effect.Effect<SecretRecord, GrantNotFound | TooManySecrets | SecretsUnusable | StoreUnavailable>
  /** By repository and name; of one repository when named. */
  list(grantId: string, repo: RepoName | null): Effect.Effect<ReadonlyArray<SecretRecord>, StoreUnavailable>
  remove(key: SecretKey, at: DateTime.Utc): Effect.Effect<void, SecretNotFound | StoreUnavailable>
  /** The values by name, for setup alone: all of them, or none. */
  reveal(
    of: SecretsOf,
    names: ReadonlyArray<SecretName>
  ): Effect.Effect<ReadonlyMap<SecretName, Redacted.Redacted>, SecretsMissing | SecretsUnusable | StoreUnavailable>
  /** Lists a ref. One that is listed stays as it is. */
  trustRef(of: SecretsOf, ref: TrustedRef, at: DateTime.Utc): Effect.Effect<
    TrustedRefRecord,
    GrantNotFound | TooManyTrustedRefs | StoreUnavailable
  >
  /** By repository and ref; of one repository when named. */
  trustedRefs(grantId: string, repo: RepoName | null): Effect.Effect<ReadonlyArray<TrustedRefRecord>, StoreUnavailable>
  /** From now on no setup has secrets because of it. */
  distrustRef(of: SecretsOf, ref: TrustedRef, at: DateTime.Utc): Effect.Effect<void, TrustedRefNotFound | StoreUnavailable>
}>()("@slipway/domain/SecretStore") {
}
