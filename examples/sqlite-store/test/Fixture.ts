/** The stores on files of their own, and what only SQLite can do: it lets time pass for a row alone. */
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { Ids } from "@slipway/domain/ids/Ids"
import * as AccessStoreMemory from "@slipway/domain/memory/access/AccessStoreMemory"
import * as AuditLogMemory from "@slipway/domain/memory/access/AuditLogMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import * as StoreKit from "@slipway/domain/sandbox/kit/StoreKit"
import type { Maintenance } from "@slipway/domain/sandbox/ports/Maintenance"
import type { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Hints } from "@slipway/domain/store/Hints"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { DateTime, Effect, Layer } from "effect"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { Database, type Row } from "../src/Database.ts"
import * as Statements from "../src/Statements.ts"

const DAY = 24 * 60 * 60_000

const fixture = (database: Database) =>
  Layer.effect(
    StoreFixture,
    Effect.gen(function*() {
      const services = yield* Effect.context<AccessStore | Hints | Ids>()
      const access = yield* AccessStore
      const ids = yield* Ids
      const write = (text: string, parameters: Row) => Effect.asVoid(Effect.orDie(database.run(text, parameters)))
      return StoreFixture.of({
        grant: Effect.gen(function*() {
          const id = yield* ids.uuid7
          yield* access.createGrant({ id, name: id, organizationId: "acme", createdAt: yield* DateTime.now })
          return id
        }).pipe(Effect.orDie),
        ageLease: (id, seconds) => write("UPDATE leases SET until = until - :millis WHERE id = :id", { id, millis: seconds * 1000 }),
        ageWork: (ids, seconds) =>
          Effect.flatMap(DateTime.now, (now) =>
            write(
              "UPDATE sandboxes SET workSince = :since WHERE id IN (SELECT value FROM json_each(:ids)) AND work IS NOT NULL",
              { ids: JSON.stringify(ids), since: now.epochMilliseconds - seconds * 1000 }
            )),
        ageKeys: (grantId, until) =>
          write("UPDATE keys SET boundAt = boundAt - :millis WHERE grantId = :grantId", {
            grantId,
            millis: until === "before" ? RETENTION_DAYS * DAY : 1
          }),
        under: (limits, use) => {
          const other: Layer.Layer<SandboxStore | Maintenance> = StoreKit.layer(Statements.make(database)).pipe(
            Layer.provide(Layer.succeed(Policy, limits)),
            Layer.provide(Layer.succeedContext(services))
          )
          return Effect.provide(use, other)
        },
        revoke: (id) => Effect.flatMap(DateTime.now, (now) => Effect.orDie(Effect.asVoid(access.revokeGrant(id, now))))
      })
    })
  )

/** In memory, where the machine has such a folder: the rules are about what is written, not about how long a disk takes for it. */
const place = existsSync("/dev/shm") ? "/dev/shm" : tmpdir()

/** A folder that goes with the scope. */
export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(place, "slipway-sqlite-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)

export const over = (...parameters: Parameters<typeof Database.open>) =>
  Layer.unwrap(
    Effect.map(Database.open(...parameters), (database) => Layer.merge(StoreKit.layer(Statements.make(database)), fixture(database)))
  ).pipe(
    Layer.provideMerge(Layer.mergeAll(HintsMemory.layer, IdsMemory.layer)),
    Layer.provide(Layer.provide(AccessStoreMemory.layer, Layer.merge(AuditLogMemory.layer, IdsMemory.layer)))
  )

export const layer = Layer.unwrap(Effect.map(folder, (folder) => over(path.join(folder, "stores.db"))))
