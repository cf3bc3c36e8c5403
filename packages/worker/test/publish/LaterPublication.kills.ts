import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Kills from "./Kills.ts"
import * as World from "./World.ts"

it.live("a worker that is killed at any step of a later publication to GitHub leaves one branch and one pull request", () =>
  Effect.gen(function*() {
    const { requests, steps } = yield* Kills.later(yield* World.gitHubOrigin())
    assert.isAbove(steps.length, 60)
    assert.isAbove(requests.length, 10)
  }).pipe(Effect.provide(World.Database.layer)))

it.live("a worker that is killed at any step of a later publication to GitLab leaves one branch and one merge request", () =>
  Effect.gen(function*() {
    const { requests, steps } = yield* Kills.later(yield* World.gitLabOrigin)
    assert.isAbove(steps.length, 60)
    assert.isAbove(requests.length, 10)
  }).pipe(Effect.provide(World.Database.layer)))

it.live("a worker that is killed at any step of a later publication to a local repository leaves one branch and one pull request", () =>
  Effect.gen(function*() {
    const { steps } = yield* Kills.later(yield* World.localOrigin)
    assert.isAbove(steps.length, 60)
  }).pipe(Effect.provide(World.Database.layer)))

it.live("a worker that is killed at any step of a later publication to Forgejo leaves one branch and one pull request", () =>
  Effect.gen(function*() {
    const { requests, steps } = yield* Kills.later(yield* World.forgejoOrigin)
    assert.isAbove(steps.length, 60)
    assert.isAbove(requests.length, 8)
  }).pipe(Effect.provide(World.Database.layer)))
