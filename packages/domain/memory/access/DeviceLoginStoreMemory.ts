/** `DeviceLoginStore` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { AccessStore } from "../../src/access/ports/AccessStore.ts"
import { AuditLog } from "../../src/access/ports/AuditLog.ts"
import { decided, DeviceLoginStore } from "../../src/access/ports/DeviceLoginStore.ts"
import { ask, type DeviceLogin, deviceLoginForgottenAt, DeviceLoginRefused, INTERVAL, isOpen } from "../../src/access/rules/DeviceLogin.ts"
import { networkOf } from "../../src/access/rules/Network.ts"
import * as AccessStoreMemory from "./AccessStoreMemory.ts"

interface Stored {
  readonly user: string
  login: DeviceLogin
}
type Entry = readonly [digest: string, stored: Stored]

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

    const forgetOldest = (from: ReadonlyArray<Entry>, count: number) => {
      const oldestFirst = from.toSorted(([, a], [, b]) => DateTime.Order(a.login.createdAt, b.login.createdAt))
      for (const [digest] of oldestFirst.slice(0, Math.max(0, count))) logins.delete(digest)
    }
    const ofFullest = (open: ReadonlyArray<Entry>): ReadonlyArray<Entry> => {
      const byNetwork = Map.groupBy(open, ([, { login }]) => networkOf(login.address))
      const most = Math.max(...Array.from(byNetwork, ([network, entries]) => network === "" ? 1 : entries.length))
      return open.filter(([, { login }]) => (login.address === "" ? 1 : byNetwork.get(networkOf(login.address))?.length) === most)
    }

    return DeviceLoginStore.of({
      begin: (login, { device, user }, most) =>
        Effect.sync(() => {
          for (const [digest, other] of logins) {
            if (DateTime.isLessThanOrEqualTo(deviceLoginForgottenAt(other.login), login.createdAt)) logins.delete(digest)
          }
          const isTaken = logins.has(device) || Array.from(logins.values()).some((other) => other.user === user)
          if (isTaken) return false
          const open = () => Array.from(logins).filter(([, other]) => isOpen(other.login, login.createdAt))
          const network = networkOf(login.address)
          const ofNetwork = open().filter(([, other]) => network !== "" && networkOf(other.login.address) === network)
          forgetOldest(ofNetwork, ofNetwork.length + 1 - most.ofNetwork)
          const ofAll = open()
          forgetOldest(ofFullest(ofAll), ofAll.length + 1 - most.ofAll)
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
