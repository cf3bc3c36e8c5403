import { assert, it } from "@effect/vitest"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Context, Deferred, Effect, Exit, Fiber, Result } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import * as Batches from "../src/sql/Batches.ts"

const client = { transactionService: SqlClient.TransactionConnection(-1) }

const refused = (code: string) =>
  new SqlError.SqlError({
    reason: new SqlError.UnknownError({ cause: Object.assign(new Error("no"), { code }), message: "no", operation: "execute" })
  })
const lost = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ cause: new Error("gone"), message: "gone", operation: "execute" })
})

class Odd extends Error {
  readonly _tag = "Odd"
}

/** Doubles what is even, in batches that go one after the other: each when it is let go. */
const doubling = (options: Partial<Batches.Options<number, number, Odd>> = {}) => {
  const batches: Array<{ readonly requests: ReadonlyArray<number>; readonly go: Deferred.Deferred<void, SqlError.SqlError> }> = []
  let came = Deferred.makeUnsafe<void>()
  const ask = Batches.make<number, number, Odd>({
    client,
    most: 4,
    underWay: 1,
    run: (requests) =>
      Effect.suspend(() => {
        const go = Deferred.makeUnsafe<void, SqlError.SqlError>()
        batches.push({ requests, go })
        Deferred.doneUnsafe(came, Exit.void)
        return Effect.as(Deferred.await(go), requests.map((n) => n % 2 === 0 ? Exit.succeed(n * 2) : Exit.fail(new Odd())))
      }),
    ...options
  })
  /** The batch that goes next, once it does. */
  const next = Effect.gen(function*() {
    while (batches.length === 0) {
      came = Deferred.makeUnsafe()
      yield* Deferred.await(came)
    }
    return batches.shift()!
  })
  const fork = (n: number) => Effect.forkChild(Effect.result(ask(n)), { startImmediately: true })
  const pass = Effect.flatMap(next, ({ go, requests }) => Effect.as(Deferred.succeed(go, undefined), requests))
  return { ask, next, fork, pass, waiting: batches }
}

it.live("what comes at once goes together, and each gets its own outcome", () =>
  Effect.gen(function*() {
    const { fork, pass } = doubling()
    const fibers = yield* Effect.forEach([2, 3, 4], fork)
    assert.deepStrictEqual(yield* pass, [2, 3, 4])
    const outcomes = yield* Effect.forEach(fibers, Fiber.join)
    assert.deepStrictEqual(outcomes.map((outcome) => Result.isSuccess(outcome) ? outcome.success : outcome.failure._tag), [4, "Odd", 8])
  }))

it.live("while one is on its way the next gathers, as many as go together", () =>
  Effect.gen(function*() {
    const { fork, next, pass } = doubling()
    yield* fork(0)
    const first = yield* next
    const fibers = yield* Effect.forEach([2, 4, 6, 8, 10], fork)
    yield* Deferred.succeed(first.go, undefined)
    assert.deepStrictEqual(yield* pass, [2, 4, 6, 8])
    assert.deepStrictEqual(yield* pass, [10])
    assert.deepStrictEqual(yield* Effect.forEach(fibers, Fiber.join), [4, 8, 12, 16, 20].map((n) => Result.succeed(n)))
  }))

it.live("a batch takes no further request once it weighs enough", () =>
  Effect.gen(function*() {
    const { fork, pass } = doubling({ weight: { of: (n) => n, most: 10 } })
    yield* Effect.forEach([8, 4, 2], fork)
    assert.deepStrictEqual([yield* pass, yield* pass], [[8, 4], [2]])
  }))

it.live("requests that are to be apart go one after the other, in their order", () =>
  Effect.gen(function*() {
    const { fork, pass } = doubling({ apart: (n) => n > 100 ? "large" : null })
    yield* Effect.forEach([102, 2, 104, 4, 106], fork)
    assert.deepStrictEqual([yield* pass, yield* pass, yield* pass], [[102, 2, 4], [104], [106]])
  }))

it.live("a waiting request that is interrupted is not sent; a sent request goes on for the others", () =>
  Effect.gen(function*() {
    const { fork, next, pass } = doubling()
    const [gone, stays] = yield* Effect.forEach([2, 4], fork)
    const first = yield* next
    const [waits, later] = yield* Effect.forEach([6, 8], fork)
    assert(gone !== undefined && stays !== undefined && waits !== undefined && later !== undefined)
    yield* Fiber.interrupt(gone)
    yield* Fiber.interrupt(waits)
    yield* Deferred.succeed(first.go, undefined)
    assert.deepStrictEqual(yield* pass, [8])
    assert.deepStrictEqual([yield* Fiber.join(stays), yield* Fiber.join(later)], [Result.succeed(8), Result.succeed(16)])
  }))

for (const [why, code] of [["a row that is refused", "23514"], ["a lock that is not had", "55P03"], ["a deadlock", "40P01"]] as const) {
  it.live(`each of a batch that failed for ${why} is tried alone`, () =>
    Effect.gen(function*() {
      const { fork, next } = doubling()
      const fibers = yield* Effect.forEach([2, 4, 6], fork)
      yield* Deferred.fail((yield* next).go, refused(code))
      const tried = [yield* next, yield* next, yield* next]
      assert.deepStrictEqual(tried.map(({ requests }) => requests), [[2], [4], [6]])
      for (const { go, requests } of tried) {
        yield* requests[0] === 4 ? Deferred.fail(go, lost) : Deferred.succeed(go, undefined)
      }
      const outcomes = yield* Effect.forEach(fibers, Fiber.join)
      assert.deepStrictEqual(
        outcomes.map((outcome) => Result.isSuccess(outcome) ? outcome.success : outcome.failure._tag),
        [4, "StoreUnavailable", 12]
      )
    }))
}

it.live("a batch whose connection is lost may have been done: it is not tried again, and the next goes", () =>
  Effect.gen(function*() {
    const { ask, fork, next, pass } = doubling()
    const fibers = yield* Effect.forEach([2, 4], fork)
    yield* Deferred.fail((yield* next).go, lost)
    for (const fiber of fibers) {
      const outcome = yield* Fiber.join(fiber)
      assert(Result.isFailure(outcome))
      assert.instanceOf(outcome.failure, StoreUnavailable)
    }
    const [after] = yield* Effect.all([ask(6), pass], { concurrency: "unbounded" })
    assert.strictEqual(after, 12)
  }))

it.live("a request within a transaction goes alone, at once, in it", () =>
  Effect.gen(function*() {
    const connection = [null, 0] as never
    const { ask } = doubling({
      run: ([n = 0]) =>
        Effect.contextWith((context: Context.Context<never>) =>
          Effect.succeed([Exit.succeed(Context.getOrUndefined(context, client.transactionService) === connection ? n * 2 : 0)])
        )
    })
    assert.strictEqual(yield* Effect.provideService(ask(2), client.transactionService, connection), 4)
    assert.strictEqual(yield* ask(2), 0)
  }))
