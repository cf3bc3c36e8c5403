/** Partners are told of tasks and pull requests by whatever store keeps the sandboxes: the suite of the feed runs with ours. */
import { Access } from "@slipway/domain/access/Access"
import { AccessStore } from "@slipway/domain/access/AccessStore"
import { Hints } from "@slipway/domain/Hints"
import { Ids } from "@slipway/domain/Ids"
import { PartnerStore } from "@slipway/domain/partner/PartnerStore"
import { PartnerFixture, suite } from "@slipway/domain/testing/PartnerStoreContract"
import { Effect, Layer } from "effect"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as JournalStore from "../src/JournalStore.ts"

const Fixture = Layer.effect(
  PartnerFixture,
  Effect.gen(function*() {
    const access = yield* Access
    const ids = yield* Ids
    return PartnerFixture.of({
      grant: Effect.orDie(Effect.flatMap(ids.uuid7, (name) => Effect.map(access.createGrant(name), ({ grant }) => grant.id))),
      linger: Effect.yieldNow,
      rolledBack: () => Effect.yieldNow,
      overlapping: (first, second) => Effect.asVoid(Effect.andThen(first, second))
    })
  })
)

const journal = path.join(mkdtempSync(path.join(tmpdir(), "slipway-journal-")), "journal")

suite(
  "beside a journal file",
  Layer.merge(JournalStore.layer(journal), Fixture).pipe(
    Layer.provideMerge(PartnerStore.layerMemory),
    Layer.provideMerge(Access.layer),
    Layer.provideMerge(AccessStore.layerMemory),
    Layer.provideMerge(Layer.mergeAll(Hints.layerMemory, Ids.layerMemory))
  )
)
