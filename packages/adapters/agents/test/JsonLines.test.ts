import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import * as JsonLines from "../src/stdio/JsonLines.ts"
import * as FakeProcess from "../testing/FakeProcess.ts"

const reader = Effect.gen(function*() {
  const agent = yield* FakeProcess.make(() => [])
  return { agent, lines: yield* JsonLines.make(agent.process) }
})
const MIB = 1024 * 1024

it.effect("a line in a thousand pieces is one value, whole characters included", () =>
  Effect.gen(function*() {
    const { agent, lines } = yield* reader
    const value = { text: "é\u{1F680}".repeat(300) }
    for (const byte of new TextEncoder().encode(JSON.stringify(value))) yield* agent.sayBytes(Uint8Array.of(byte))
    yield* agent.say("\n1\n")
    assert.deepStrictEqual([yield* lines.receive, yield* lines.receive], [value, 1])
  }))

it.effect("a line of more than 8 MiB, ended or not, ends the reading; one of 7 MiB is a value", () =>
  Effect.gen(function*() {
    for (const end of ["", "\"\n"]) {
      const { agent, lines } = yield* reader
      yield* agent.say(`"${"x".repeat(7 * MIB)}"\n`)
      const value = yield* Effect.forkChild(lines.receive)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(String(yield* Fiber.join(value)).length, 7 * MIB)
      yield* agent.say(`"${"x".repeat(8 * MIB)}${end}`)
      const receiving = yield* Effect.forkChild(Effect.flip(lines.receive))
      yield* TestClock.adjust("2 seconds")
      assert.deepInclude(yield* Fiber.join(receiving), { _tag: "OutputEnded", reason: "line too long" })
    }
  }))

it.effect("a line of more values than anybody means ends the reading; what is in strings is not counted", () =>
  Effect.gen(function*() {
    const { agent, lines } = yield* reader
    const text = `"[{,\\`.repeat(30_000)
    yield* agent.say({ text })
    assert.deepStrictEqual(yield* lines.receive, { text })
    yield* agent.say(`[${"{},".repeat(100_000)}{}]\n`)
    assert.deepInclude(yield* Effect.flip(lines.receive), { reason: "line too long" })
  }))

it.effect("no more than 1,000 lines and 8 MiB are read in a second, and none is lost", () =>
  Effect.gen(function*() {
    for (const [line, many] of [["1", 2500], [`"${"x".repeat(MIB)}"`, 20]] as const) {
      const { agent, lines } = yield* reader
      yield* agent.say(`${line}\n`.repeat(many))
      let seen = 0
      const reading = yield* Effect.forkChild(
        Effect.repeat(Effect.tap(lines.receive, () => Effect.sync(() => seen++)), { times: many - 1 })
      )
      let seconds = 0
      for (; seen < many; seconds++) {
        // Everything that can be read now is, before the clock goes on.
        for (let before = -1; before !== seen;) {
          before = seen
          yield* Effect.repeat(Effect.yieldNow, { times: 2000 })
        }
        assert.isTrue(seen <= (seconds + 1) * (many === 20 ? 8 : 1000), `${seen} in ${seconds}`)
        yield* TestClock.adjust("1 second")
      }
      assert.isTrue(seconds <= 4, String(seconds))
      yield* Fiber.join(reading)
    }
  }))
