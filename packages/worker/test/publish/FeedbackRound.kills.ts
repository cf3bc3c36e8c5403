import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Kills from "./Kills.ts"
import * as World from "./World.ts"

const WHO = "a worker that is killed at any step of a round of feedback that publishes to a continued branch"

it.live(`${WHO} leaves one turn, one push and one reply on GitHub`, () =>
  Effect.gen(function*() {
    const { requests, steps } = yield* Kills.rounds(yield* World.gitHubOrigin())
    assert.isAbove(steps.length, 80)
    assert.isAbove(requests.length, 20)
  }).pipe(Effect.provide(World.Database.layer)))

it.live(`${WHO} leaves one turn, one push and one reply on GitLab`, () =>
  Effect.gen(function*() {
    const { requests, steps } = yield* Kills.rounds(yield* World.gitLabOrigin)
    assert.isAbove(steps.length, 80)
    assert.isAbove(requests.length, 20)
  }).pipe(Effect.provide(World.Database.layer)))

it.live(`${WHO} leaves one turn, one push and one reply in a local repository`, () =>
  Effect.gen(function*() {
    const { steps } = yield* Kills.rounds(yield* World.localOrigin)
    assert.isAbove(steps.length, 80)
  }).pipe(Effect.provide(World.Database.layer)))

it.live(`${WHO} leaves one turn, one push and one reply on Forgejo`, () =>
  Effect.gen(function*() {
    const { requests, steps } = yield* Kills.rounds(yield* World.forgejoOrigin)
    assert.isAbove(steps.length, 80)
    assert.isAbove(requests.length, 15)
  }).pipe(Effect.provide(World.Database.layer)))
