/** Registering and changing endpoints. Each change is one transaction with its entry in the audit log. */
import { type EndpointKey, told, TooManyEndpoints } from "@slipway/domain/partner/ports/WebhookStore"
import { atHead, enabled, type Endpoint, MAX_ENDPOINTS, rotated } from "@slipway/domain/partner/rules/Webhook"
import { type DateTime, Effect, Option, type Redacted } from "effect"
import { inTransaction } from "../sql/Transaction.ts"
import { decodeSecrets, openable, secretsText } from "./rows/Secrets.ts"
import { countOfGrant, deleteEndpoint, findLocked, insertEndpoint, lockGrant, updateEnabled } from "./statements/endpoints.ts"
import { enableLines } from "./statements/notifications.ts"
import { secretsOf, updateSecrets } from "./statements/secrets.ts"
import type { Store } from "./Store.ts"

/** A new endpoint begins at the head of its grant's feed. */
export const register = Effect.fn("WebhookStore.register")(
  function*(
    { audit, feedHead, key, sql }: Store,
    endpoint: Pick<Endpoint, "id" | "grantId" | "url" | "types" | "createdAt">,
    secret: Redacted.Redacted
  ) {
    const { createdAt, grantId, id } = endpoint
    yield* lockGrant(sql, grantId)
    if ((yield* countOfGrant(sql, grantId)).length >= MAX_ENDPOINTS) return yield* new TooManyEndpoints()
    const [feed] = yield* feedHead(grantId)
    const registered: Endpoint = { ...endpoint, ...atHead(feed?.head ?? 0, createdAt, endpoint.types), refusingSince: null }
    yield* insertEndpoint(sql, registered, secretsText([{ value: secret, until: null }], id, yield* key))
    yield* audit.append([told("webhook.registered", endpoint, createdAt)])
    return registered
  },
  inTransaction
)

export const remove = Effect.fn("WebhookStore.remove")(
  function*({ audit, sql }: Store, key: EndpointKey, at: DateTime.Utc) {
    yield* findLocked(sql, key)
    yield* deleteEndpoint(sql, key.id)
    yield* audit.append([told("webhook.deleted", key, at)])
  },
  inTransaction
)

/** A stored secret that no key opens signs nothing any more: rotating replaces it. */
export const rotate = Effect.fn("WebhookStore.rotate")(
  function*({ audit, key, sql }: Store, of: EndpointKey, secret: Redacted.Redacted, at: DateTime.Utc) {
    const endpoint = yield* findLocked(sql, of)
    const { id } = endpoint
    const [known] = yield* secretsOf(sql, id)
    const sealing = yield* key
    const stored = Option.getOrElse(decodeSecrets(known?.secrets), () => [])
    const secrets = rotated(openable(stored, id, sealing), secret, at)
    yield* updateSecrets(sql, id, secretsText(secrets, id, sealing))
    yield* audit.append([told("webhook.secret_rotated", of, at)])
    return endpoint
  },
  inTransaction
)

export const enable = Effect.fn("WebhookStore.enable")(
  function*({ audit, sql }: Store, key: EndpointKey, at: DateTime.Utc) {
    const endpoint = yield* findLocked(sql, key)
    const again = { ...endpoint, ...enabled(endpoint, at), refusingSince: null }
    yield* updateEnabled(sql, key.id, again)
    yield* enableLines(sql, key.id, at)
    if (endpoint.disabled !== null) yield* audit.append([told("webhook.enabled", key, at)])
    return again
  },
  inTransaction
)
