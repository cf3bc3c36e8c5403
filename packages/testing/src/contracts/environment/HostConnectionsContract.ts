/**
 * The rules that every `HostConnections` must keep. An adapter proves itself by running this suite against its layer; a rule that is
 * missing here is not part of the port. Fresh hosts make it repeatable on one database.
 */
import type { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { type HostConnection, HostConnections } from "@slipway/domain/environment/ports/HostConnections"
import { Ids } from "@slipway/domain/ids/Ids"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"
import { appended } from "../access/AuditLogContract.ts"

const at = DateTime.makeUnsafe("2026-11-30T20:10:00.123Z")
const inHours = (hours: number) => DateTime.add(at, { hours })

const newHost = Effect.map(Effect.flatMap(Ids, ({ uuid7 }) => uuid7), (id) => `Git-${id}.example.com`)
const connectionOf = (name: string, expiresAt: DateTime.Utc | null, refreshToken: string | null = `refresh-${name}`): HostConnection => ({
  accessToken: Redacted.make(`access-${name}`),
  refreshToken: refreshToken === null ? null : Redacted.make(refreshToken),
  expiresAt
})
const shown = (connection: HostConnection | null) =>
  connection === null ? null : [
    Redacted.value(connection.accessToken),
    connection.refreshToken === null ? null : Redacted.value(connection.refreshToken),
    connection.expiresAt === null ? null : DateTime.formatIso(connection.expiresAt)
  ]
const never = () => Effect.die("was renewed")
const current = (host: string, by = at, renew: (connection: HostConnection) => Effect.Effect<HostConnection, string> = never) =>
  Effect.map(HostConnections.use((port) => port.current(host, by, renew)), shown)
const set = (host: string, connection: HostConnection) => HostConnections.use((port) => port.set(host, connection, at))

const keeping = (it: Writer<HostConnections | AuditLog | Ids>) => {
  it.effect("gives the connection as it was set, in any case of the host's letters, and replaces it", () =>
    Effect.gen(function*() {
      const [host, other] = [yield* newHost, yield* newHost]
      assert.isNull(yield* current(host))
      const first = connectionOf("é", inHours(2))
      yield* set(host, first)
      for (const spelled of [host, host.toUpperCase()]) assert.deepStrictEqual(yield* current(spelled), shown(first))
      assert.isNull(yield* current(other))
      const second = connectionOf("2", null, null)
      yield* set(host.toUpperCase(), second)
      assert.deepStrictEqual(yield* current(host, inHours(1000)), shown(second))
    }))

  it.effect("removes a connection once", () =>
    Effect.gen(function*() {
      const port = yield* HostConnections
      const host = yield* newHost
      yield* set(host, connectionOf("1", null))
      assert.isTrue(yield* port.remove(host.toUpperCase(), at))
      assert.isFalse(yield* port.remove(host, at))
      assert.isNull(yield* current(host))
    }))

  it.effect("records in the audit log who connects and disconnects, and never a token", () =>
    Effect.gen(function*() {
      const port = yield* HostConnections
      const host = yield* newHost
      const entries = yield* appended(Effect.gen(function*() {
        yield* set(host, connectionOf("canary", at))
        yield* port.current(host, inHours(1), () => Effect.succeed(connectionOf("canary2", inHours(3))))
        yield* port.remove(host, inHours(1))
        yield* port.remove(host, inHours(1))
      }))
      assert.deepStrictEqual(entries, [
        { action: "source_host.connected", at, subjects: { sourceHost: host } },
        { action: "source_host.disconnected", at: inHours(1), subjects: { sourceHost: host } }
      ])
    }))
}

const renewing = (it: Writer<HostConnections | AuditLog | Ids>) => {
  it.effect("renews a connection that expires before the given time, and stores the new one", () =>
    Effect.gen(function*() {
      const host = yield* newHost
      const [first, second] = [connectionOf("1", inHours(2)), connectionOf("2", inHours(4))]
      yield* set(host, first)
      assert.deepStrictEqual(yield* current(host, inHours(2)), shown(first))
      const given: Array<unknown> = []
      const renew = (connection: HostConnection) => {
        given.push(shown(connection))
        return Effect.succeed(second)
      }
      assert.deepStrictEqual(yield* current(host, inHours(3), renew), shown(second))
      assert.deepStrictEqual(given, [shown(first)])
      assert.deepStrictEqual(yield* current(host, inHours(3)), shown(second))
    }))

  it.effect("keeps the connection where renewing fails", () =>
    Effect.gen(function*() {
      const host = yield* newHost
      const first = connectionOf("1", inHours(2))
      yield* set(host, first)
      assert.strictEqual(yield* Effect.flip(current(host, inHours(3), () => Effect.fail("refused"))), "refused")
      assert.deepStrictEqual(yield* current(host), shown(first))
    }))

  it.effect("renews once for all who ask at the same time", () =>
    Effect.gen(function*() {
      const host = yield* newHost
      yield* set(host, connectionOf("1", at))
      let renewals = 0
      const second = connectionOf("2", inHours(2))
      const renew = () =>
        Effect.suspend(() => {
          renewals++
          return Effect.as(Effect.yieldNow, second)
        })
      const all = yield* Effect.forEach([1, 2, 3, 4], () => current(host, inHours(1), renew), { concurrency: "unbounded" })
      assert.deepStrictEqual(all, [1, 2, 3, 4].map(() => shown(second)))
      assert.strictEqual(renewals, 1)
    }))

  it.effect("stores a renewed connection although its caller was interrupted", () =>
    Effect.gen(function*() {
      const host = yield* newHost
      yield* set(host, connectionOf("1", at))
      const [begun, answered] = [yield* Deferred.make<void>(), yield* Deferred.make<HostConnection>()]
      const renew = () => Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(answered))
      const caller = yield* Effect.forkChild(current(host, inHours(1), renew))
      yield* Deferred.await(begun)
      const interrupted = yield* Effect.forkChild(Fiber.interrupt(caller))
      const second = connectionOf("2", inHours(2))
      yield* Deferred.succeed(answered, second)
      yield* Fiber.join(interrupted)
      assert.deepStrictEqual(yield* current(host, inHours(1)), shown(second))
    }))
}

export const suite = (name: string, layer: Layer.Layer<HostConnections | AuditLog | Ids, unknown>) =>
  defineLive(`HostConnections (${name})`, layer, (it) => {
    keeping(it)
    renewing(it)
  })
