/** `DeviceLoginStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { AccessStore } from "../src/access/AccessStore.ts"
import { AuditLog } from "../src/access/AuditLog.ts"
import {
  ask,
  type DeviceLogin,
  deviceLoginExpiresAt,
  deviceLoginForgottenAt,
  DeviceLoginRefused,
  INTERVAL,
  isOpen
} from "../src/access/DeviceLogin.ts"
import { decided, DeviceLoginStore } from "../src/access/DeviceLoginStore.ts"
import * as AccessStoreMemory from "./AccessStoreMemory.ts"

interface Stored {
  readonly user: string
  login: DeviceLogin
}

/** Process-local, for tests and for embedding without a database. */
export const layer = Layer.effect(
  DeviceLoginStore,
  Effect.gen(function*() {
    const audit = yield* AuditLog
    const access = yield* AccessStore
    /** By the digest of the device code. */
    const logins = new Map<string, Stored>()
    const openWith = (userDigest: string, now: DateTime.Utc) =>
      Array.from(logins.values()).find(({ login, user }) => user === userDigest && isOpen(login, now))

    return DeviceLoginStore.of({
      begin: (login, { device, user }, most) =>
        Effect.sync(() => {
          for (const [digest, other] of logins) {
            if (DateTime.isLessThanOrEqualTo(deviceLoginForgottenAt(other.login), login.createdAt)) logins.delete(digest)
          }
          const isTaken = logins.has(device) || Array.from(logins.values()).some((other) => other.user === user)
          const waiting = Array.from(logins.values()).filter((other) =>
            DateTime.isGreaterThan(deviceLoginExpiresAt(other.login), login.createdAt)
          )
          if (isTaken || waiting.length >= most) return false
          logins.set(device, { user, login: { ...login, decision: null, pace: { interval: INTERVAL, lastAskedAt: null } } })
          return true
        }),
      find: (userDigest, now) => Effect.sync(() => openWith(userDigest, now)?.login ?? null),
      decide: Effect.fnUntraced(function*(userDigest, decision, at) {
        const found = openWith(userDigest, at)
        if (found === undefined) return null
        found.login = { ...found.login, decision }
        yield* audit.append([decided(decision, found.login, at)])
        return found.login
      }),
      ask: Effect.fnUntraced(function*(deviceDigest, now) {
        const found = logins.get(deviceDigest)
        if (found === undefined) return yield* new DeviceLoginRefused({ because: "invalid_grant" })
        const { answer, pace } = ask(found.login, now)
        found.login = { ...found.login, pace }
        const { grantId, userId } = yield* Effect.fromResult(answer)
        return { machine: found.login.machine, userId, grantId }
      }),
      redeem: Effect.fnUntraced(function*(deviceDigest, key, keyDigest, mostKeys) {
        const found = logins.get(deviceDigest)
        if (found?.login.decision?._tag !== "Approved") return null
        logins.delete(deviceDigest)
        return yield* access.createKey(key, keyDigest, mostKeys).pipe(
          Effect.tapError(() => Effect.sync(() => logins.set(deviceDigest, found)))
        )
      })
    })
  })
).pipe(Layer.provideMerge(AccessStoreMemory.layer))
