import { assert, it } from "@effect/vitest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { GitHubFailed } from "../src/GitHubApi.ts"
import * as Installations from "../src/Installations.ts"

const shop = RepoName.make("Acme/shop")
const other = RepoName.make("other/shop")

/** GitHub's list of accounts, which changes, and how often it was asked for it. */
const make = Effect.gen(function*() {
  const gitHub = { accounts: new Set(["acme"]), looks: 0, fails: false }
  const accounts = Effect.suspend(() => {
    gitHub.looks++
    return gitHub.fails
      ? Effect.fail(new GitHubFailed({ status: null, detail: "away", retryable: true }))
      : Effect.succeed<ReadonlySet<string>>(new Set(gitHub.accounts))
  })
  const { missing } = yield* Installations.make({ accounts })
  return { gitHub, missing: (...repos: ReadonlyArray<RepoName>) => missing(repos) }
})

it.effect("callers do not wait for GitHub: until its first answer nothing is known", () =>
  Effect.gen(function*() {
    const { gitHub, missing } = yield* make
    yield* TestClock.adjust("1 hour")
    assert.strictEqual(gitHub.looks, 0)
    assert.isNull(yield* missing(other))
    yield* TestClock.adjust("1 second")
    assert.strictEqual(yield* missing(shop, other), other)
    assert.isNull(yield* missing(shop))
    assert.strictEqual(gitHub.looks, 1)
  }))

it.effect("a refused user can install the App and come back in a moment; however often, GitHub is asked every 5 seconds at most", () =>
  Effect.gen(function*() {
    const { gitHub, missing } = yield* make
    yield* missing(other)
    yield* TestClock.adjust("10 seconds")
    assert.strictEqual(gitHub.looks, 1)
    for (let i = 0; i < 100; i++) assert.strictEqual(yield* missing(other), other)
    gitHub.accounts.add("other")
    yield* TestClock.adjust("5 seconds")
    assert.isNull(yield* missing(other))
    assert.strictEqual(gitHub.looks, 2)
  }))

it.effect("a list that cannot be had anew says nothing after 15 minutes", () =>
  Effect.gen(function*() {
    const { gitHub, missing } = yield* make
    yield* missing()
    yield* TestClock.adjust("1 second")
    gitHub.fails = true
    yield* TestClock.adjust("14 minutes")
    assert.strictEqual(yield* missing(other), other)
    yield* TestClock.adjust("2 minutes")
    assert.isNull(yield* missing(other))
    gitHub.fails = false
    yield* TestClock.adjust("5 minutes")
    assert.strictEqual(yield* missing(other), other)
  }))
