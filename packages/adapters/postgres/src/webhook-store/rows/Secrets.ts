/** Secrets of endpoints, encrypted in their rows. */
import type { Secret } from "@slipway/domain/partner/rules/Webhook"
import { DateTime, type Redacted, Schema } from "effect"
import { isSealed, type Key } from "../../secret-store/SecretsKey.ts"

export const Secrets = Schema.Array(Schema.Struct({
  value: Schema.RedactedFromValue(Schema.String),
  until: Schema.NullOr(Schema.DateTimeUtcFromString)
}))
/** Encrypted for this endpoint only: in the row of another endpoint no key opens them. */
export const secretsText = (secrets: ReadonlyArray<Secret>, endpointId: string, key: Key): string =>
  JSON.stringify(secrets.map(({ until, value }) => ({
    value: key.seal(value, aboutOf(endpointId)),
    until: until === null ? null : DateTime.formatIso(until)
  })))
/** The plain secrets. Dies when no key opens one. */
export const opened = (secrets: ReadonlyArray<Secret>, endpointId: string, key: Key): ReadonlyArray<Secret> =>
  secrets.map(({ until, value }) => ({ value: key.unseal(value, aboutOf(endpointId)), until }))
/** The plain secrets of those that a key opens. */
export const openable = (secrets: ReadonlyArray<Secret>, endpointId: string, key: Key): ReadonlyArray<Secret> =>
  secrets.filter(({ value }) => isOpenable(value, endpointId, key)).map((secret) => opened([secret], endpointId, key)).flat()
const isOpenable = (value: Redacted.Redacted, endpointId: string, key: Key): boolean =>
  !isSealed(value) || key.open(value, aboutOf(endpointId)) !== null
/** The purpose that a secret is encrypted for. */
export const aboutOf = (endpointId: string) => `webhook/${endpointId}`

export const decodeSecrets = Schema.decodeUnknownOption(Secrets)
