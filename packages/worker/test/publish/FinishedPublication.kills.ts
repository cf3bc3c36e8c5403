import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Kills from "./Kills.ts"
import * as World from "./World.ts"

const WHO = "a worker that is killed at any step of publishing a finished sandbox, whose machine is gone,"

it.live(`${WHO} leaves one branch and one pull request on GitHub`, () =>
  Effect.gen(function*() {
    const { requests, steps } = yield* Kills.finished(yield* World.gitHubOrigin())
    assert.isAbove(steps.length, 80)
    assert.isAbove(requests.length, 10)
  }).pipe(Effect.provide(World.Database.layer)))

it.live(`${WHO} leaves one branch and one merge request on GitLab`, () =>
  Effect.gen(function*() {
    const { requests, steps } = yield* Kills.finished(yield* World.gitLabOrigin)
    assert.isAbove(steps.length, 80)
    assert.isAbove(requests.length, 10)
  }).pipe(Effect.provide(World.Database.layer)))

it.live(`${WHO} leaves one branch and one pull request in a local repository`, () =>
  Effect.gen(function*() {
    const { steps } = yield* Kills.finished(yield* World.localOrigin)
    assert.isAbove(steps.length, 80)
  }).pipe(Effect.provide(World.Database.layer)))

it.live(`${WHO} leaves one branch and one pull request on Forgejo`, () =>
  Effect.gen(function*() {
    const { requests, steps } = yield* Kills.finished(yield* World.forgejoOrigin)
    assert.isAbove(steps.length, 80)
    assert.isAbove(requests.length, 8)
  }).pipe(Effect.provide(World.Database.layer)))
