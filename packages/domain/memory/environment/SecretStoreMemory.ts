/** `SecretStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Scheduler from "effect/Scheduler"
import { AccessStore, GrantNotFound } from "../../src/access/ports/AccessStore.ts"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import {
  ALL_REPOSITORIES,
  MAX_SECRETS,
  MAX_SECRETS_OF_GRANT,
  MAX_VALUES_BYTES,
  type SecretKey,
  SecretNotFound,
  type SecretRecord,
  type SecretsOf,
  SecretsMissing,
  SecretStore,
  refTold,
  told,
  TooManySecrets,
  TooManyTrustedRefs,
  TrustedRefNotFound,
  type TrustedRefRecord
} from "../../src/environment/ports/SecretStore.ts"
import { MAX_TRUSTED_REFS } from "../../src/environment/rules/SetupTrust.ts"
import { sameRepo } from "../../src/source/schema/Naming.ts"
import { utf8Length } from "../../src/text/Utf8.ts"
import * as AuditLogMemory from "../access/AuditLogMemory.ts"

interface Kept {
  readonly grantId: string
  readonly record: SecretRecord
  readonly value: Redacted.Redacted
}

/** Process-local, for tests and for embedding without a database. Grants are those of the `AccessStore` beneath it, if there is one. */
export const layer = Layer.effect(
  SecretStore,
  Effect.gen(function*() {
    const audit = yield* AuditLog
    const access = Option.getOrNull(yield* Effect.serviceOption(AccessStore))
    let all: ReadonlyArray<Kept> = []
    let listed: ReadonlyArray<{ readonly grantId: string; readonly record: TrustedRefRecord }> = []

    const isGood = Effect.fnUntraced(function*(grantId: string) {
      return access === null || (yield* access.listGrants).some(({ id, revokedAt }) => id === grantId && revokedAt === null)
    })
    /** Secrets, after removing those of revoked grants. */
    const kept = Effect.fnUntraced(function*(grantId: string, repo: string | null) {
      if (!(yield* isGood(grantId))) all = all.filter((secret) => secret.grantId !== grantId)
      return all.filter((secret) => secret.grantId === grantId && (repo === null || sameRepo(secret.record.repo, repo)))
    })
    /** Like {@link kept}. */
    const refs = Effect.fnUntraced(function*(grantId: string, repo: string | null) {
      if (!(yield* isGood(grantId))) listed = listed.filter((one) => one.grantId !== grantId)
      return listed.filter((one) => one.grantId === grantId && (repo === null || sameRepo(one.record.repo, repo)))
    })
    const refOrderOf = ({ ref, repo }: TrustedRefRecord) => `${repo.toLowerCase()} ${ref}`
    const find = ({ grantId, name, repo }: SecretKey) =>
      Effect.map(kept(grantId, repo), (secrets) => secrets.find(({ record }) => record.name === name))
    const orderOf = ({ name, repo }: SecretRecord) => `${repo.toLowerCase()} ${name}`

    return SecretStore.of({
      set: Effect.fnUntraced(function*(key, value, at) {
        if (!(yield* isGood(key.grantId))) return yield* new GrantNotFound({ grant: key.grantId })
        const before = yield* find(key)
        const others = (yield* kept(key.grantId, key.repo)).filter((secret) => secret !== before)
        const bytes = [value, ...others.map(({ value }) => value)].reduce((sum, value) => sum + utf8Length(Redacted.value(value)), 0)
        const ofGrant = (yield* kept(key.grantId, null)).filter((secret) => secret !== before)
        if (others.length >= MAX_SECRETS || bytes > MAX_VALUES_BYTES || ofGrant.length >= MAX_SECRETS_OF_GRANT) {
          return yield* new TooManySecrets()
        }
        const record: SecretRecord = { repo: key.repo, name: key.name, createdAt: before?.record.createdAt ?? at, setAt: at }
        all = [...all.filter((secret) => secret !== before), { grantId: key.grantId, record, value }]
        yield* audit.append([told("secret.set", key, at)])
        return record
        // No other fiber runs between the check and the write.
      }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
      list: (grantId, repo) =>
        Effect.map(
          kept(grantId, repo),
          (secrets) => secrets.map(({ record }) => record).toSorted((a, b) => orderOf(a) < orderOf(b) ? -1 : 1)
        ),
      remove: Effect.fnUntraced(function*(key, at) {
        const found = yield* find(key)
        if (found === undefined) return yield* new SecretNotFound()
        all = all.filter((secret) => secret !== found)
        yield* audit.append([told("secret.removed", key, at)])
      }),
      reveal: Effect.fnUntraced(function*({ grantId, repo }: SecretsOf, names) {
        const found = [...yield* kept(grantId, ALL_REPOSITORIES), ...yield* kept(grantId, repo)]
        const values = new Map(found.map(({ record, value }) => [record.name, value]))
        const missing = names.filter((name) => !values.has(name))
        if (missing.length > 0) return yield* new SecretsMissing({ repo, names: missing })
        return new Map(names.flatMap((name) => {
          const value = values.get(name)
          return value === undefined ? [] : [[name, value] as const]
        }))
      }),
      trustRef: Effect.fnUntraced(function*(of, ref, at) {
        if (!(yield* isGood(of.grantId))) return yield* new GrantNotFound({ grant: of.grantId })
        const known = yield* refs(of.grantId, of.repo)
        const before = known.find(({ record }) => record.ref === ref)
        if (before !== undefined) return before.record
        if (known.length >= MAX_TRUSTED_REFS) return yield* new TooManyTrustedRefs()
        const record: TrustedRefRecord = { repo: of.repo, ref, listedAt: at }
        listed = [...listed, { grantId: of.grantId, record }]
        yield* audit.append([refTold("trusted_ref.listed", of, ref, at)])
        return record
      }, Effect.provideService(Scheduler.PreventSchedulerYield, true)),
      trustedRefs: (grantId, repo) =>
        Effect.map(
          refs(grantId, repo),
          (all) => all.map(({ record }) => record).toSorted((a, b) => refOrderOf(a) < refOrderOf(b) ? -1 : 1)
        ),
      distrustRef: Effect.fnUntraced(function*(of, ref, at) {
        const found = (yield* refs(of.grantId, of.repo)).find(({ record }) => record.ref === ref)
        if (found === undefined) return yield* new TrustedRefNotFound()
        listed = listed.filter((one) => one !== found)
        yield* audit.append([refTold("trusted_ref.removed", of, ref, at)])
      })
    })
  })
).pipe(Layer.provideMerge(AuditLogMemory.layer))
