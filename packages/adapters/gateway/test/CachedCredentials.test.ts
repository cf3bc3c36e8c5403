import { assert, describe, it } from "@effect/vitest"
import { CachedCredentials, type Fetched, SourceTimeout } from "../src/credentials/CachedCredentials.ts"

const MINUTE = 60_000

/** A source with a clock of the test. Each answer is as `next` says. */
const source = () => {
  let count = 0
  const state = {
    now: 1_000_000,
    /** How long the next credentials are valid; `"fail"`: there are none; `"hang"`: no answer. */
    next: 60 * MINUTE as number | "fail" | "hang",
    get asked() {
      return count
    }
  }
  const cache = new CachedCredentials<string>({
    now: () => state.now,
    timeoutMillis: 20,
    fetch: (): Promise<Fetched<string>> => {
      count++
      const { next } = state
      if (next === "hang") return new Promise(() => {})
      if (next === "fail") return Promise.reject(new Error("no credentials"))
      return Promise.resolve({ value: `credentials ${count}`, expiresAt: state.now + next })
    }
  })
  return { state, cache }
}

const failure = (cache: CachedCredentials<string>) => cache.get().then(() => assert.fail("credentials"), (error: unknown) => error)
const settled = () => new Promise((resolve) => setImmediate(resolve))

describe("credentials that expire", () => {
  it("are asked for once, however many requests need them", async () => {
    const { cache, state } = source()
    assert.deepStrictEqual(await Promise.all([cache.get(), cache.get(), cache.get()]), Array(3).fill("credentials 1"))
    state.now += 50 * MINUTE
    assert.strictEqual(await cache.get(), "credentials 1")
    assert.strictEqual(state.asked, 1)
  })

  it("are replaced five minutes before they expire, without a request that waits", async () => {
    const { cache, state } = source()
    await cache.get()
    state.now += 56 * MINUTE
    assert.strictEqual(await cache.get(), "credentials 1")
    await settled()
    assert.strictEqual(await cache.get(), "credentials 2")
    assert.strictEqual(state.asked, 2)
  })

  it("are waited for when they expire within two minutes", async () => {
    const { cache, state } = source()
    await cache.get()
    state.now += 59 * MINUTE
    assert.strictEqual(await cache.get(), "credentials 2")
  })

  it("are used to their end while there are no new ones, and not a moment longer", async () => {
    const { cache, state } = source()
    await cache.get()
    state.next = "fail"
    state.now += 59 * MINUTE
    assert.strictEqual(await cache.get(), "credentials 1")
    state.now += MINUTE
    assert.strictEqual(String(await failure(cache)), "Error: no credentials")
  })

  it("are asked for again only some seconds after a failure", async () => {
    const { cache, state } = source()
    state.next = "fail"
    await failure(cache)
    state.next = 60 * MINUTE
    await failure(cache)
    assert.strictEqual(state.asked, 1)
    state.now += 5000
    assert.strictEqual(await cache.get(), "credentials 2")
  })

  it("are given up when their source hangs", async () => {
    const { cache, state } = source()
    state.next = "hang"
    assert.instanceOf(await failure(cache), SourceTimeout)
    state.now += 5000
    state.next = 60 * MINUTE
    assert.strictEqual(await cache.get(), "credentials 2")
  })

  it("are forgotten when the provider refuses them", async () => {
    const { cache } = source()
    await cache.get()
    cache.refuse()
    assert.strictEqual(await cache.get(), "credentials 2")
  })
})

it("credentials without an end are read again after ten minutes", async () => {
  const { cache, state } = source()
  state.next = Infinity
  await cache.get()
  state.now += 9 * MINUTE
  assert.strictEqual(await cache.get(), "credentials 1")
  state.now += MINUTE
  await cache.get()
  await settled()
  assert.strictEqual(await cache.get(), "credentials 2")
})
