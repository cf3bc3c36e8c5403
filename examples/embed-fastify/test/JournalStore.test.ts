/** The store proves itself with the suite that every store of Slipway runs. */
import { Ids } from "@slipway/domain/Ids"
import * as AuditLogMemory from "@slipway/domain/memory/AuditLogMemory"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import * as SandboxRows from "@slipway/domain/memory/SandboxRows"
import * as SandboxStoreMemory from "@slipway/domain/memory/SandboxStoreMemory"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import * as LeasesContract from "@slipway/domain/testing/LeasesContract"
import { StoreFixture } from "@slipway/domain/testing/SandboxStates"
import { suite } from "@slipway/domain/testing/SandboxStoreContract"
import * as UpkeepContract from "@slipway/domain/testing/UpkeepContract"
import { DateTime, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as JournalStore from "../src/JournalStore.ts"

const almostKept = RETENTION_DAYS * 24 * 60 - 1

/** Its leases are of the memory beneath it: `rows` lets one of them age alone. */
const fixture = ({ rows }: SandboxRows.SandboxRows) =>
  Layer.effect(
    StoreFixture,
    Effect.map(Ids, (ids) =>
      StoreFixture.of({
        grant: ids.uuid7,
        ageLease: (id, seconds) =>
          Effect.sync(() => {
            const row = rows.get(id)
            if (row?.leaseUntil) row.leaseUntil = DateTime.subtract(row.leaseUntil, { seconds })
          }),
        ageKeys: (_grantId, until) => TestClock.adjust(`${until === "before" ? almostKept : 2} minutes`)
      }))
  )

const journal = path.join(mkdtempSync(path.join(tmpdir(), "slipway-journal-")), "journal")

const layer = Layer.unwrap(Effect.sync(() => {
  const rows = SandboxRows.make()
  return Layer.merge(JournalStore.layer(journal, SandboxStoreMemory.over(rows)), fixture(rows))
})).pipe(
  Layer.provideMerge(Layer.mergeAll(AuditLogMemory.layer, HintsMemory.layer, IdsMemory.layer))
)

suite("journal file", layer)
LeasesContract.suite("journal file", layer)
UpkeepContract.suite("journal file", layer)
