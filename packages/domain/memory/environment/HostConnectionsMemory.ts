/** `HostConnections` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import { connectionChanged, type HostConnection, HostConnections } from "../../src/environment/ports/HostConnections.ts"
import * as AuditLogMemory from "../access/AuditLogMemory.ts"

/** Process-local. */
export const layer = Layer.effect(
  HostConnections,
  Effect.gen(function*() {
    const audit = yield* AuditLog
    /** By name in lower case. */
    const all = new Map<string, HostConnection>()
    const lock = yield* Semaphore.make(1)

    return HostConnections.of({
      set: (host, connection, at) =>
        Effect.suspend(() => {
          all.set(host.toLowerCase(), connection)
          return audit.append([connectionChanged("source_host.connected", host, at)])
        }),
      remove: (host, at) =>
        Effect.suspend(() =>
          all.delete(host.toLowerCase())
            ? Effect.as(audit.append([connectionChanged("source_host.disconnected", host, at)]), true)
            : Effect.succeed(false)
        ),
      current: (host, by, renew) =>
        Effect.gen(function*() {
          const found = all.get(host.toLowerCase()) ?? null
          if (found?.expiresAt == null || DateTime.isGreaterThanOrEqualTo(found.expiresAt, by)) return found
          const renewed = yield* renew(found)
          all.set(host.toLowerCase(), renewed)
          return renewed
        }).pipe(lock.withPermits(1), Effect.uninterruptible)
    })
  })
).pipe(Layer.provideMerge(AuditLogMemory.layer))
