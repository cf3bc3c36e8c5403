import * as AccessStoreMemory from "@slipway/domain/memory/access/AccessStoreMemory"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import { AccessFixture, suite } from "@slipway/testing/contracts/access/AccessStoreContract"
import * as DateTime from "effect/DateTime"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"

const Fixture = Layer.succeed(AccessFixture, AccessFixture.of({ elapse: TestClock.adjust, now: DateTime.now }))

export const layer = AccessStoreMemory.layer.pipe(Layer.provideMerge(IdsMemory.layer))

export const suites = () => [suite("memory", Layer.mergeAll(layer, Fixture))]
