/** The stores on files of their own, and what only SQLite can do: it lets time pass for a row alone. */
import { Ids } from "@slipway/domain/ids/Ids"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as HintsMemory from "@slipway/domain/memory/store/HintsMemory"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Hints } from "@slipway/domain/store/Hints"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { DateTime, Effect, Layer, Result } from "effect"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { Database } from "../src/Database.ts"
import * as MaintenanceSqlite from "../src/MaintenanceSqlite.ts"
import * as SandboxStoreSqlite from "../src/SandboxStoreSqlite.ts"
import * as Stores from "../src/Stores.ts"

const DAY = 24 * 60 * 60_000

const fixture = Layer.effect(
  StoreFixture,
  Effect.gen(function*() {
    const services = yield* Effect.context<Database | Hints | Ids>()
    const ids = yield* Ids
    const database = yield* Database
    const write = (...parameters: Parameters<Parameters<Parameters<typeof database.write>[0]>[0]["run"]>) =>
      Effect.orDie(database.write((sql) => Result.succeed(void sql.run(...parameters))))
    return StoreFixture.of({
      grant: ids.uuid7,
      ageLease: (id, seconds) =>
        write("UPDATE sandboxes SET lease_until = lease_until - :millis WHERE id = :id", { id, millis: seconds * 1000 }),
      ageWork: (ids, seconds) =>
        Effect.flatMap(DateTime.now, (now) =>
          write(
            "UPDATE sandboxes SET work_since = :since WHERE id IN (SELECT value FROM json_each(:ids)) AND work IS NOT NULL",
            { ids: JSON.stringify(ids), since: now.epochMilliseconds - seconds * 1000 }
          )),
      ageKeys: (grantId, until) =>
        write("UPDATE keys SET bound_at = bound_at - :millis WHERE grant_id = :grantId", {
          grantId,
          millis: until === "before" ? RETENTION_DAYS * DAY : 1
        }),
      under: (limits, use) =>
        Effect.provide(
          use,
          Layer.fresh(Layer.merge(SandboxStoreSqlite.layer, MaintenanceSqlite.layer)).pipe(
            Layer.provide(Layer.succeed(Policy, limits)),
            Layer.provide(Layer.succeedContext(services)),
            Layer.orDie
          )
        ),
      revoke: (grantId) => write("INSERT INTO revoked_grants (grant_id) VALUES (:grantId)", { grantId })
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

export const over = (...parameters: Parameters<typeof Stores.layer>) =>
  fixture.pipe(
    Layer.provideMerge(Stores.layer(...parameters)),
    Layer.provideMerge(Layer.merge(HintsMemory.layer, IdsMemory.layer))
  )

export const layer = Layer.unwrap(Effect.map(folder, (folder) => over(path.join(folder, "stores.db"))))
