/** `WebhookStore` on Postgres. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { SecretsKey } from "../secret-store/SecretsKey.ts"
import { guard } from "../sql/SqlFailure.ts"
import * as Deliveries from "./deliveries.ts"
import * as Endpoints from "./endpoints.ts"
import * as Notifications from "./notifications.ts"
import { feedHead, find, selectOfGrant } from "./statements/endpoints.ts"
import { selectLine, takeLines, takeManualNotifications } from "./statements/notifications.ts"
import { takeManual, takeOrdered } from "./statements/take.ts"
import type { Store } from "./Store.ts"

export { sealEarlier } from "./seal.ts"

export const layer = Layer.effect(
  WebhookStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const store: Store = {
      sql,
      audit: yield* AuditLog,
      key: Effect.catchTag((yield* SecretsKey).get, "SecretsKeyUnusable", Effect.die),
      feedHead: feedHead(sql),
      takeManual: takeManual(sql),
      takeOrdered: takeOrdered(sql),
      takeManualNotifications: takeManualNotifications(sql),
      takeLines: takeLines(sql),
      selectLine: selectLine(sql)
    }
    return WebhookStore.of({
      register: (endpoint, secret) => Endpoints.register(store, endpoint, secret),
      list: Effect.fn("WebhookStore.list")((grantId: string) => selectOfGrant(sql, grantId), guard),
      find: Effect.fn("WebhookStore.find")((key) => find(sql, key), guard),
      remove: (key, at) => Endpoints.remove(store, key, at),
      rotate: (key, secret, at) => Endpoints.rotate(store, key, secret, at),
      enable: (key, at) => Endpoints.enable(store, key, at),
      deliveries: (key, page) => Deliveries.deliveries(store, key, page),
      redeliver: (key, eventId, at) => Deliveries.redeliver(store, key, eventId, at),
      take: (now, limit) => Deliveries.take(store, now, limit),
      record: (taken, attempt, next, at) => Deliveries.record(store, taken, attempt, next, at),
      purge: (before, limit) => Deliveries.purge(store, before, limit),
      takeNotifications: (now, limit) => Notifications.takeNotifications(store, now, limit),
      recordNotification: (taken, attempt, next, at) => Notifications.recordNotification(store, taken, attempt, next, at),
      purgeNotifications: (before, limit) => Notifications.purgeNotifications(store, before, limit)
    })
  })
).pipe(Layer.provideMerge(AuditLogPostgres.layer))
