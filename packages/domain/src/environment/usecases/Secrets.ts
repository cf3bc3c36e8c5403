/** Use cases of owners: the secrets of their repositories and the refs whose setups get them. Values are never returned. */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { GrantNotFound } from "../../access/ports/AccessStore.ts"
import { RepoName } from "../../source/schema/RepoRef.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { type InvalidRequest, reader } from "../../text/InvalidRequest.ts"
import {
  ALL_REPOSITORIES,
  type SecretKey,
  SecretNotFound,
  type SecretRecord,
  SecretStore,
  type SecretsUnusable,
  type SecretsOf,
  SecretValue,
  type TooManySecrets,
  type TooManyTrustedRefs,
  TrustedRefNotFound,
  type TrustedRefRecord
} from "../ports/SecretStore.ts"
import { SecretName } from "../rules/Environment.ts"
import { TrustedRef } from "../rules/SetupTrust.ts"

const SecretRepo = Schema.Union([Schema.Literal(ALL_REPOSITORIES), RepoName])
const isSecretRepo = Schema.is(SecretRepo)
const read = reader(Schema.Struct({ repo: SecretRepo, name: SecretName, value: SecretValue }), "secret")
const readRef = reader(Schema.Struct({ repo: RepoName, ref: TrustedRef }), "trusted ref")

/**
 * The secrets of a grant's repositories, and those of all of them (`ALL_REPOSITORIES`). The caller has authorized the request and set
 * `Acting`.
 */
export class Secrets extends Context.Service<Secrets, {
  /** Sets a value. Sandboxes that boot from now on get it. */
  set(
    key: Readonly<Record<keyof SecretKey, string>>,
    value: Redacted.Redacted
  ): Effect.Effect<SecretRecord, InvalidRequest | GrantNotFound | TooManySecrets | SecretsUnusable | StoreUnavailable>
  /** In order of repository and name. `repo` limits the list to one repository. */
  list(grantId: string, repo: string | null): Effect.Effect<ReadonlyArray<SecretRecord>, StoreUnavailable>
  /** Removes a secret. Sandboxes whose file names it do not boot from now on. */
  remove(key: Readonly<Record<keyof SecretKey, string>>): Effect.Effect<void, SecretNotFound | StoreUnavailable>
  /** Trusts a ref. Setups of its commits get secrets from now on, like those of the default branch. */
  trustRef(
    of: Readonly<Record<keyof SecretsOf | "ref", string>>
  ): Effect.Effect<TrustedRefRecord, InvalidRequest | GrantNotFound | TooManyTrustedRefs | StoreUnavailable>
  /** In order of repository and ref. `repo` limits the list to one repository. */
  trustedRefs(grantId: string, repo: string | null): Effect.Effect<ReadonlyArray<TrustedRefRecord>, StoreUnavailable>
  distrustRef(of: Readonly<Record<keyof SecretsOf | "ref", string>>): Effect.Effect<void, TrustedRefNotFound | StoreUnavailable>
}>()("@slipway/domain/Secrets") {
  static readonly layer = Layer.effect(
    Secrets,
    Effect.gen(function*() {
      const store = yield* SecretStore

      return Secrets.of({
        set: Effect.fn("Secrets.set")(function*({ grantId, name, repo }, value) {
          const secret = yield* Effect.fromResult(read({ repo, name, value: Redacted.value(value) }))
          return yield* store.set({ grantId, repo: secret.repo, name: secret.name }, value, yield* DateTime.now)
        }),
        list: (grantId, repo) => repo === null || isSecretRepo(repo) ? store.list(grantId, repo) : Effect.succeed([]),
        remove: Effect.fn("Secrets.remove")(function*({ grantId, name, repo }) {
          if (!isSecretRepo(repo) || !Schema.is(SecretName)(name)) return yield* new SecretNotFound()
          yield* store.remove({ grantId, repo, name }, yield* DateTime.now)
        }),
        trustRef: Effect.fn("Secrets.trustRef")(function*({ grantId, ref, repo }) {
          const read = yield* Effect.fromResult(readRef({ repo, ref }))
          return yield* store.trustRef({ grantId, repo: read.repo }, read.ref, yield* DateTime.now)
        }),
        trustedRefs: (grantId, repo) => repo === null || Schema.is(RepoName)(repo) ? store.trustedRefs(grantId, repo) : Effect.succeed([]),
        distrustRef: Effect.fn("Secrets.distrustRef")(function*({ grantId, ref, repo }) {
          if (!Schema.is(RepoName)(repo) || !Schema.is(TrustedRef)(ref)) return yield* new TrustedRefNotFound()
          yield* store.distrustRef({ grantId, repo }, ref, yield* DateTime.now)
        })
      })
    })
  )
}
