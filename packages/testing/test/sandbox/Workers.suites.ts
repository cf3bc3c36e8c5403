import { suite, WorkersFixture } from "@slipway/testing/contracts/sandbox/WorkersContract"
import * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { layer } from "./Stores.ts"

const Fixture = Layer.succeed(WorkersFixture, { age: (seconds) => TestClock.adjust(Duration.seconds(seconds)) })

export const suites = () => [suite("memory", Layer.merge(layer, Fixture))]
