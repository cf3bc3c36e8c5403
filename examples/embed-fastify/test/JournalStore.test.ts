/** The store proves itself with the suite that every store of Slipway runs. */
import { Ids } from "@slipway/domain/Ids"
import * as AuditLogMemory from "@slipway/domain/memory/AuditLogMemory"
import * as HintsMemory from "@slipway/domain/memory/HintsMemory"
import * as IdsMemory from "@slipway/domain/memory/IdsMemory"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/Idempotency"
import { LEASE_SECONDS } from "@slipway/domain/sandbox/Leases"
import * as LeasesContract from "@slipway/domain/testing/LeasesContract"
import { StoreFixture } from "@slipway/domain/testing/SandboxStates"
import { suite } from "@slipway/domain/testing/SandboxStoreContract"
import * as UpkeepContract from "@slipway/domain/testing/UpkeepContract"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as JournalStore from "../src/JournalStore.ts"

const almostKept = RETENTION_DAYS * 24 * 60 - 1

const Fixture = Layer.effect(
  StoreFixture,
  Effect.map(Ids, (ids) =>
    StoreFixture.of({
      grant: ids.uuid7,
      expireLease: () => TestClock.adjust(`${LEASE_SECONDS} seconds`),
      ageKeys: (_grantId, until) => TestClock.adjust(`${until === "before" ? almostKept : 2} minutes`)
    }))
)

const journal = path.join(mkdtempSync(path.join(tmpdir(), "slipway-journal-")), "journal")

const layer = Layer.mergeAll(JournalStore.layer(journal), Fixture).pipe(
  Layer.provideMerge(Layer.mergeAll(AuditLogMemory.layer, HintsMemory.layer, IdsMemory.layer))
)

suite("journal file", layer)
LeasesContract.suite("journal file", layer)
UpkeepContract.suite("journal file", layer)
