/** `WebhookStore` on Postgres. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import {
  TAKEN_TIME,
  type TakenAttempt,
  type Attempt,
  EndpointNotFound,
  type EndpointKey,
  PartnerEventNotFound,
  told,
  TooManyEndpoints,
  WebhookStore
} from "@slipway/domain/partner/ports/WebhookStore"
import {
  afterAttempt,
  atHead,
  DisabledReason,
  enabled,
  type Endpoint,
  MAX_ENDPOINTS,
  type Next,
  type Outcome,
  rotated,
  type Secret,
  type DeliveryProgress,
  standingAfter,
  Trouble,
  WantedTypes
} from "@slipway/domain/partner/rules/Webhook"
import { type PartnerEvent, PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { DateTime, Duration, Effect, Layer, Option, Redacted, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { isSealed, type Key, SecretsKey } from "../secret-store/SecretsKey.ts"
import { Instant } from "../sql/Instant.ts"
import { Int8 } from "../sql/Int8.ts"
import { guard } from "../sql/SqlFailure.ts"
import { textArray } from "../sql/TextArray.ts"

const EndpointRow = Schema.Struct({
  id: Schema.String,
  grantId: Schema.String,
  url: Schema.String,
  types: Schema.NullOr(WantedTypes),
  createdAt: Instant,
  cursor: Int8,
  failures: Schema.Int,
  dueAt: Instant,
  disabledAt: Schema.NullOr(Instant),
  disabledReason: Schema.NullOr(DisabledReason)
})
const ENDPOINT = `e.id, e.grant_id AS "grantId", e.url, e.types, e.created_at AS "createdAt", e.cursor, e.failures, e.due_at AS "dueAt",
  e.disabled_at AS "disabledAt", e.disabled_reason AS "disabledReason"`

const toEndpoint = ({ disabledAt: at, disabledReason: reason, ...row }: typeof EndpointRow.Type): Endpoint => ({
  ...row,
  disabled: at === null || reason === null ? null : { at, reason }
})

/** Why an attempt was not made, beside `trouble`, whose values processes of the version before know. */
const Unread = Schema.Literals(["event_unreadable", "secret_unreadable"])
type Unread = typeof Unread.Type

const Secrets = Schema.Array(Schema.Struct({
  value: Schema.RedactedFromValue(Schema.String),
  until: Schema.NullOr(Schema.DateTimeUtcFromString)
}))
/** Encrypted, for the endpoint alone: copied into another one's row they open nothing. */
const secretsText = (secrets: ReadonlyArray<Secret>, endpointId: string, key: Key): string =>
  JSON.stringify(secrets.map(({ until, value }) => ({
    value: key.seal(value, aboutOf(endpointId)),
    until: until === null ? null : DateTime.formatIso(until)
  })))
const opened = (secrets: ReadonlyArray<Secret>, endpointId: string, key: Key): ReadonlyArray<Secret> =>
  secrets.map(({ until, value }) => ({ value: key.unseal(value, aboutOf(endpointId)), until }))
/** Those that a key opens. */
const openable = (secrets: ReadonlyArray<Secret>, endpointId: string, key: Key): ReadonlyArray<Secret> =>
  secrets.filter(({ value }) => isOpenable(value, endpointId, key)).map((secret) => opened([secret], endpointId, key)).flat()
const isOpenable = (value: Redacted.Redacted, endpointId: string, key: Key): boolean =>
  !isSealed(value) || key.open(value, aboutOf(endpointId)) !== null
const aboutOf = (endpointId: string) => `webhook/${endpointId}`

const DeliveryRow = Schema.Struct({
  position: Int8,
  eventId: Schema.String,
  sequence: Int8,
  attempt: Schema.Int,
  manual: Schema.Boolean,
  at: Instant,
  durationMillis: Schema.Int,
  status: Schema.NullOr(Schema.Int),
  retryAfter: Schema.NullOr(Schema.Int),
  body: Schema.NullOr(Schema.String),
  trouble: Schema.NullOr(Trouble),
  unread: Schema.NullOr(Unread)
})

const toDelivery = ({ body, retryAfter, status, trouble, unread, ...row }: typeof DeliveryRow.Type): Attempt => ({
  ...row,
  outcome: status === null ? { _tag: "Failed", trouble: unread ?? trouble ?? "connection" } : { _tag: "Answered", status, retryAfter, body }
})

const columnsOf = (outcome: Outcome) => {
  if (outcome._tag === "Answered") {
    return { status: outcome.status, retry_after: outcome.retryAfter, body: outcome.body, trouble: null, unread: null }
  }
  const unread = Schema.is(Unread)(outcome.trouble) ? outcome.trouble : null
  return { status: null, retry_after: null, body: null, trouble: unread === null ? outcome.trouble : "connection", unread }
}

const ClaimedRow = Schema.Struct({
  endpointId: Schema.String,
  url: Schema.String,
  // Decoded row by row, as the event is.
  secrets: Schema.Unknown,
  failures: Schema.Int,
  dueAt: Instant,
  fence: Int8,
  eventId: Schema.NullOr(Schema.String),
  sequence: Schema.NullOr(Int8),
  type: Schema.NullOr(Schema.String),
  data: Schema.Unknown,
  recordedAt: Schema.NullOr(Instant)
})
const decodeFact = Schema.decodeUnknownOption(PartnerFact)
const decodeSecrets = Schema.decodeUnknownOption(Secrets)

/** An attempt that was taken and cannot be made. */
interface Unreadable extends Omit<TakenAttempt, "event" | "secrets"> {
  readonly event: Pick<PartnerEvent, "id" | "sequence">
  readonly trouble: Unread
}

/** `null`: of what is new, the endpoint wants nothing. */
const toClaimed = (row: typeof ClaimedRow.Type, manual: boolean, key: Key): TakenAttempt | Unreadable | null => {
  const { data, dueAt, endpointId, eventId: id, failures, fence, recordedAt: createdAt, sequence, type, url } = row
  if (id === null || sequence === null || createdAt === null) return null
  const taken = { endpointId, url, attempt: manual ? 1 : failures + 1, manual, dueAt, fence }
  const fact = decodeFact({ type, data })
  if (Option.isNone(fact)) return { ...taken, event: { id, sequence }, trouble: "event_unreadable" }
  const secrets = Option.match(decodeSecrets(row.secrets), { onNone: () => [], onSome: (stored) => openable(stored, endpointId, key) })
  if (!secrets.some(({ until }) => until === null)) return { ...taken, event: { id, sequence }, trouble: "secret_unreadable" }
  return { ...taken, secrets, event: { ...fact.value, id, sequence, createdAt } }
}

const iso = DateTime.formatIso

/** Encrypts what versions before this one stored as it is. Safe to do twice, and beside others. */
export const sealEarlier = Effect.fn("WebhookStorePostgres.sealEarlier")(
  function*() {
    const sql = yield* SqlClient.SqlClient
    const plain = yield* SqlSchema.findAll({
      Request: Schema.Void,
      Result: Schema.Struct({ id: Schema.String, secrets: Secrets }),
      execute: () => sql`SELECT id, secrets FROM webhook_endpoints WHERE secrets::text LIKE '%"whsec\\_%' FOR NO KEY UPDATE`
    })(undefined)
    if (plain.length === 0) return
    const key = yield* (yield* SecretsKey).get
    for (const { id, secrets } of plain) {
      yield* sql`UPDATE webhook_endpoints SET secrets = ${secretsText(opened(secrets, id, key), id, key)}::jsonb WHERE id = ${id}`
    }
  },
  (self) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(self)),
  guard
)

/** Encrypts with the first key what another one encrypted. What no key opens stays as it is. Safe to do twice, and beside others. */
export const reseal = Effect.fn("WebhookStorePostgres.reseal")(
  function*(key: Key) {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* SqlSchema.findAll({
      Request: Schema.Void,
      Result: Schema.Struct({ id: Schema.String, secrets: Secrets }),
      execute: () => sql`SELECT id, secrets FROM webhook_endpoints ORDER BY id FOR NO KEY UPDATE`
    })(undefined)
    for (const { id, secrets } of rows) {
      const about = aboutOf(id)
      if (secrets.every(({ value }) => key.isCurrent(value, about) || key.open(value, about) === null)) continue
      const anew = secrets.map(({ until, value }) => {
        const secret = key.open(value, about)
        return { value: secret === null ? Redacted.value(value) : key.seal(secret, about), until: until === null ? null : iso(until) }
      })
      yield* sql`UPDATE webhook_endpoints SET secrets = ${JSON.stringify(anew)}::jsonb WHERE id = ${id}`
    }
  },
  (self) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(self)),
  guard
)

export const layer = Layer.effect(
  WebhookStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* AuditLog
    // Whoever starts a service that cannot use the key is told; it is no answer to anybody else.
    const key = Effect.catchTag((yield* SecretsKey).get, "SecretsKeyUnusable", Effect.die)

    const endpoints = (rows: Statement.Fragment) =>
      Effect.map(
        SqlSchema.findAll({ Request: Schema.Void, Result: EndpointRow, execute: () => sql`${rows}` })(undefined),
        (found) => found.map(toEndpoint)
      )
    const columns = sql.literal(ENDPOINT)
    const one = Effect.fnUntraced(function*({ grantId, id }: EndpointKey, lock: Statement.Fragment) {
      const [endpoint] = yield* endpoints(
        sql`SELECT ${columns} FROM webhook_endpoints e WHERE id = ${id} AND grant_id = ${grantId} ${lock}`
      )
      return endpoint ?? (yield* new EndpointNotFound())
    })
    const find = (key: EndpointKey) => one(key, sql``)
    /** What happens to an endpoint happens one after the other. */
    const locked = (key: EndpointKey) => one(key, sql`FOR NO KEY UPDATE`)

    const standing = ({ cursor, disabled, dueAt, failures }: DeliveryProgress) =>
      sql`
      cursor = ${cursor}, failures = ${failures}, due_at = ${iso(dueAt)},
      disabled_at = ${disabled === null ? null : iso(disabled.at)}, disabled_reason = ${disabled?.reason ?? null}`

    const secretsOf = SqlSchema.findAll({
      Request: Schema.String,
      Result: Schema.Struct({ secrets: Schema.Unknown }),
      execute: (id) => sql`SELECT secrets FROM webhook_endpoints WHERE id = ${id}`
    })
    const heads = SqlSchema.findAll({
      Request: Schema.String,
      Result: Schema.Struct({ head: Int8 }),
      execute: (grantId) => sql`SELECT last_sequence AS head FROM partner_feeds WHERE grant_id = ${grantId}`
    })

    const until = sql`clock_timestamp() + make_interval(secs => ${Duration.toSeconds(TAKEN_TIME)})`
    const event = sql.literal(`p.id AS "eventId", p.sequence, p.type, p.data, p.created_at AS "recordedAt"`)
    const taken = sql.literal(`e.id AS "endpointId", e.url, e.secrets, e.failures, e.due_at AS "dueAt"`)
    const heard = sql.literal(`
      JOIN grants g ON g.id = e.grant_id AND g.revoked_at IS NULL
      JOIN organizations o ON o.id = g.organization_id AND o.suspended_at IS NULL`)

    const manual = SqlSchema.findAll({
      Request: Schema.Int,
      Result: ClaimedRow,
      execute: (limit) =>
        sql`
        WITH first AS (
          SELECT DISTINCT ON (endpoint_id) endpoint_id, event_id FROM webhook_redeliveries ORDER BY endpoint_id, asked_at, event_id
        ), due AS (
          SELECT r.endpoint_id, r.event_id FROM first JOIN webhook_redeliveries r USING (endpoint_id, event_id)
          JOIN webhook_endpoints e ON e.id = r.endpoint_id ${heard}
          WHERE r.claimed_until IS NULL OR r.claimed_until <= clock_timestamp()
          ORDER BY r.asked_at LIMIT ${limit} FOR NO KEY UPDATE OF r SKIP LOCKED
        )
        UPDATE webhook_redeliveries r SET fence = r.fence + 1, claimed_until = ${until}
        FROM due, webhook_endpoints e, partner_events p
        WHERE (r.endpoint_id, r.event_id) = (due.endpoint_id, due.event_id) AND e.id = r.endpoint_id AND p.id = r.event_id
        RETURNING ${taken}, ${event}, r.fence`
    })
    // One statement, so that the head and the events are seen at the same moment: what is not wanted up to the head is
    // passed over, and what comes after the head is found the next time.
    const ordered = SqlSchema.findAll({
      Request: Schema.Struct({ now: Schema.String, limit: Schema.Int }),
      Result: ClaimedRow,
      execute: ({ limit, now }) =>
        sql`
        WITH due AS (
          SELECT e.id, e.grant_id, e.cursor, e.types, f.last_sequence
          FROM webhook_endpoints e JOIN partner_feeds f ON f.grant_id = e.grant_id AND f.last_sequence > e.cursor ${heard}
          WHERE e.disabled_at IS NULL AND e.due_at <= ${now} AND (e.claimed_until IS NULL OR e.claimed_until <= clock_timestamp())
          ORDER BY e.due_at LIMIT ${limit} FOR NO KEY UPDATE OF e SKIP LOCKED
        ), next AS (
          SELECT due.id AS endpoint, due.last_sequence, p.* FROM due LEFT JOIN LATERAL (
            SELECT * FROM partner_events p
            WHERE p.grant_id = due.grant_id AND p.sequence > due.cursor AND (due.types IS NULL OR p.type = ANY (due.types))
            ORDER BY p.sequence LIMIT 1
          ) p ON true
        )
        UPDATE webhook_endpoints e SET
          cursor = coalesce(p.sequence - 1, p.last_sequence),
          fence = e.fence + 1,
          claimed_until = CASE WHEN p.id IS NOT NULL THEN ${until} END
        FROM next p WHERE e.id = p.endpoint
        RETURNING ${taken}, ${event}, e.fence`
    })

    const record = Effect.fn("WebhookStore.record")(
      function*(
        taken: Pick<TakenAttempt, "attempt" | "dueAt" | "endpointId" | "fence" | "manual"> & {
          readonly event: Pick<PartnerEvent, "id" | "sequence">
        },
        made: Pick<Attempt, "at" | "durationMillis" | "outcome">,
        next: Next,
        at: DateTime.Utc
      ) {
        const { attempt, dueAt, endpointId, event, fence, manual } = taken
        let isDisabled = false
        if (manual) {
          const held = yield* sql`
            DELETE FROM webhook_redeliveries WHERE endpoint_id = ${endpointId} AND event_id = ${event.id} AND fence = ${fence} RETURNING 1`
          if (held.length === 0) return false
        } else {
          const [held] = yield* endpoints(sql`
            SELECT ${columns} FROM webhook_endpoints e
            WHERE id = ${endpointId} AND fence = ${fence} AND claimed_until IS NOT NULL FOR NO KEY UPDATE`)
          if (held === undefined) return false
          const after = standingAfter({ attempt, sequence: event.sequence, dueAt }, next, at, held.dueAt)
          yield* sql`UPDATE webhook_endpoints SET ${standing(after)}, claimed_until = NULL WHERE id = ${endpointId}`
          isDisabled = after.disabled !== null
        }
        const delivery = {
          endpoint_id: endpointId,
          event_id: event.id,
          sequence: event.sequence,
          attempt,
          manual,
          at: iso(made.at),
          duration_ms: made.durationMillis,
          ...columnsOf(made.outcome)
        }
        yield* sql`INSERT INTO webhook_deliveries ${sql.insert(delivery)}`
        if (isDisabled && next._tag === "Disable") {
          const [endpoint] = yield* endpoints(sql`SELECT ${columns} FROM webhook_endpoints e WHERE id = ${endpointId}`)
          if (endpoint !== undefined) yield* audit.append([told("webhook.disabled", endpoint, at, { reason: next.reason })])
        }
        return true
      },
      sql.withTransaction,
      guard
    )

    /** Of what cannot be read nothing is sent: that is an attempt that failed. */
    const fail = Effect.fnUntraced(function*({ trouble, ...taken }: Unreadable, at: DateTime.Utc) {
      const outcome: Outcome = { _tag: "Failed", trouble }
      const next = afterAttempt(taken.attempt, outcome, at, 0)
      yield* record(taken, { at, durationMillis: 0, outcome }, next, at)
      const what = trouble === "event_unreadable" ? "an event of the feed cannot be read" : "no key opens the secret of a webhook endpoint"
      yield* Effect.logError(`${what}, so it is not delivered`, { next: next._tag }).pipe(
        Effect.annotateLogs({ endpointId: taken.endpointId, eventId: taken.event.id, sequence: taken.event.sequence })
      )
    })

    return WebhookStore.of({
      register: Effect.fn("WebhookStore.register")(
        function*(endpoint, secret) {
          const { createdAt, grantId, id, types, url } = endpoint
          yield* sql`SELECT pg_advisory_xact_lock(hashtextextended(${`webhooks/${grantId}`}, 0))`
          if (
            (yield* sql`SELECT FROM webhook_endpoints WHERE grant_id = ${grantId}`).length >= MAX_ENDPOINTS
          ) return yield* new TooManyEndpoints()
          const [feed] = yield* heads(grantId)
          const registered: Endpoint = { ...endpoint, ...atHead(feed?.head ?? 0, createdAt) }
          yield* sql`
          INSERT INTO webhook_endpoints (id, grant_id, url, types, secrets, created_at, cursor, due_at)
          VALUES (${id}, ${grantId}, ${url}, ${types === null ? null : textArray(types)}::text[],
            ${secretsText([{ value: secret, until: null }], id, yield* key)}::jsonb,
            ${iso(createdAt)}, ${registered.cursor}, ${iso(registered.dueAt)})`
          yield* audit.append([told("webhook.registered", endpoint, createdAt)])
          return registered
        },
        sql.withTransaction,
        guard
      ),

      list: Effect.fn("WebhookStore.list")(
        (grantId) => endpoints(sql`SELECT ${columns} FROM webhook_endpoints e WHERE grant_id = ${grantId} ORDER BY created_at, id`),
        guard
      ),

      find: Effect.fn("WebhookStore.find")((key) => find(key), guard),

      remove: Effect.fn("WebhookStore.remove")(
        function*(key, at) {
          yield* locked(key)
          yield* sql`DELETE FROM webhook_endpoints WHERE id = ${key.id}`
          yield* audit.append([told("webhook.deleted", key, at)])
        },
        sql.withTransaction,
        guard
      ),

      rotate: Effect.fn("WebhookStore.rotate")(
        function*(of, secret, at) {
          const endpoint = yield* locked(of)
          const { id } = endpoint
          const [known] = yield* secretsOf(id)
          const sealing = yield* key
          const stored = Option.getOrElse(decodeSecrets(known?.secrets), () => [])
          // What no key opens signs nothing any more, and this is how its endpoint gets another one.
          const secrets = rotated(openable(stored, id, sealing), secret, at)
          yield* sql`UPDATE webhook_endpoints SET secrets = ${secretsText(secrets, id, sealing)}::jsonb WHERE id = ${id}`
          yield* audit.append([told("webhook.secret_rotated", of, at)])
          return endpoint
        },
        sql.withTransaction,
        guard
      ),

      enable: Effect.fn("WebhookStore.enable")(
        function*(key, at) {
          const endpoint = yield* locked(key)
          const again = { ...endpoint, ...enabled(endpoint, at) }
          yield* sql`UPDATE webhook_endpoints SET ${standing(again)} WHERE id = ${key.id}`
          if (endpoint.disabled !== null) yield* audit.append([told("webhook.enabled", key, at)])
          return again
        },
        sql.withTransaction,
        guard
      ),

      deliveries: Effect.fn("WebhookStore.deliveries")(function*(key, { before, limit }) {
        const { id } = yield* find(key)
        const rows = yield* SqlSchema.findAll({
          Request: Schema.Void,
          Result: DeliveryRow,
          execute: () =>
            sql`
            SELECT position, event_id AS "eventId", sequence, attempt, manual, at, duration_ms AS "durationMillis", status,
              retry_after AS "retryAfter", body, trouble, unread
            FROM webhook_deliveries WHERE endpoint_id = ${id} ${before === null ? sql`` : sql`AND position < ${before}`}
            ORDER BY position DESC LIMIT ${limit}`
        })(undefined)
        return rows.map(toDelivery)
      }, guard),

      redeliver: Effect.fn("WebhookStore.redeliver")(
        function*(key, eventId, at) {
          yield* locked(key)
          if ((yield* sql`SELECT FROM partner_events WHERE id = ${eventId} AND grant_id = ${key.grantId}`).length === 0) {
            return yield* new PartnerEventNotFound()
          }
          yield* sql`
          INSERT INTO webhook_redeliveries (endpoint_id, event_id, asked_at)
          VALUES (${key.id}, ${eventId}, ${iso(at)}) ON CONFLICT DO NOTHING`
        },
        sql.withTransaction,
        guard
      ),

      take: Effect.fn("WebhookStore.take")(function*(now, limit) {
        const inLine = (limit: number) => limit === 0 ? Effect.succeed([]) : ordered({ now: iso(now), limit })
        const half = Math.ceil(limit / 2)
        const due = yield* inLine(half)
        const asked = yield* manual(limit - due.length)
        const more = due.length < half ? [] : yield* inLine(limit - due.length - asked.length)
        if (asked.length + due.length + more.length === 0) return []
        const sealing = yield* key
        const taken = [
          ...asked.map((row) => toClaimed(row, true, sealing)),
          ...[...due, ...more].map((row) => toClaimed(row, false, sealing))
        ].filter((delivery) => delivery !== null)
        yield* Effect.forEach(taken.filter((delivery) => "trouble" in delivery), (unreadable) => fail(unreadable, now), { discard: true })
        return taken.filter((delivery): delivery is TakenAttempt => !("trouble" in delivery))
      }, guard),

      record,

      purge: Effect.fn("WebhookStore.purge")(function*(before, limit) {
        const purged = yield* sql`
          DELETE FROM webhook_deliveries WHERE position IN (
            SELECT position FROM webhook_deliveries WHERE at < ${iso(before)} ORDER BY at LIMIT ${limit} FOR UPDATE SKIP LOCKED
          ) RETURNING 1`
        return purged.length
      }, guard)
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
