/** `Hints` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as Layer from "effect/Layer"
import { Hints, makeLocal } from "../../src/store/Hints.ts"

/** Within one process. */
export const layer = Layer.sync(Hints, () => Hints.of(makeLocal()))
