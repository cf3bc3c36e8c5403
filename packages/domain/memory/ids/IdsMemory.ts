/** `Ids` of Effect's `Random`: for tests and for embedding. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import { drawnFrom } from "../../src/ids/DrawnIds.ts"
import { Ids } from "../../src/ids/Ids.ts"

const make = Effect.map(Random.Random, (random) => drawnFrom(() => random.nextDoubleUnsafe()))

/** Uses Effect's `Random`, which is not cryptographic: keys minted with it can be guessed. */
export const layer = Layer.effect(Ids, make)

/** Gives the same ids in the same order for the same seed and clock. For tests. */
export const layerSeeded = (seed: string | number) => Layer.effect(Ids, Random.withSeed(make, seed))
