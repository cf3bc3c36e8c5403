/** `Checkpoints` in memory, and the metrics of a sandbox's checkpoints. */
import { assert, it } from "@effect/vitest"
import { count, declare } from "@slipway/domain/sandbox/usecases/SandboxMetrics"
import { reach, recordCheckpoint } from "@slipway/testing/histories/Histories"
import { register } from "@slipway/testing/runners/Vitest"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { suites } from "./Checkpoints.suites.ts"

register(...suites())

it.effect("counts checkpoints that were taken and that were not, what is stored of them, and restores by their cause", () =>
  Effect.gen(function*() {
    yield* declare
    const history = reach("idle")
    const moments = [
      history.system(recordCheckpoint(1)),
      history.system({ _tag: "RecordCheckpoint", data: { error: "No." } }),
      history.system({ _tag: "RecordRestore", data: { checkpoint: 1, cause: "machine_lost" } }),
      history.person({ _tag: "Restore", checkpoint: 1 }),
      history.system({ _tag: "FailRestore", error: "It is cut.", damaged: [1] })
    ]
    for (const { after, before, events } of moments) yield* count({ before, events, sandbox: after })
    const series = (yield* Metric.snapshot).filter(({ id }) => /^slipway_(?:checkpoint|restore)/u.test(id))
    const seen = series.map(({ attributes, id, state, type }) => [
      [id, ...Object.values(attributes ?? {})].join(" "),
      type === "Counter" ? Number(state.count) : type === "Histogram" ? [state.count, state.sum] : null
    ])
    assert.deepStrictEqual(Object.fromEntries(seen), {
      "slipway_checkpoints_total taken": 1,
      "slipway_checkpoints_total failed": 1,
      "slipway_checkpoint_bytes": [1, 1234],
      "slipway_checkpoint_duration_seconds": [1, 0.005],
      "slipway_restores_total machine_lost": 1,
      "slipway_restores_total machine_drained": 0,
      "slipway_restores_total command": 0,
      "slipway_restores_total fork": 0
    })
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))
