/** The log of an agent's standard error. */
import { assert, describe, it } from "@effect/vitest"
import { StderrTail } from "@slipway/machine/node/StderrTail"
import { examples } from "@slipway/testing/redaction/SecretExamples"
import { Effect, Logger } from "effect"
import * as CodexSession from "../src/codex/CodexSession.ts"
import { make } from "../testing/FakeProcess.ts"
import { approving, converse, options } from "../testing/Session.ts"

describe("an agent's standard error", () => {
  it.live("has no secret of any known shape when it is logged, by whatever logger", () =>
    Effect.gen(function*() {
      const secrets = Object.values(examples).flat()
      const lines: Array<string> = []
      yield* Effect.gen(function*() {
        const fake = yield* make((frame) => {
          if (frame.method === "initialize") return [{ id: frame.id, result: {} }]
          if (frame.method === "thread/start") return [{ id: frame.id, result: { thread: { id: "t1" } } }]
          return []
        })
        const stderr = secrets.map(({ text }) => `error: ${text}\n`).join("")
        const session = yield* CodexSession.open({ ...fake.process, stderrTail: Effect.succeed(stderr) }, options)
        const begun = Effect.suspend(() =>
          fake.received.some(({ method }) => method === "turn/start") ? Effect.void : Effect.fail("not begun")
        )
        yield* Effect.forkScoped(Effect.andThen(Effect.eventually(begun), fake.end(1)))
        yield* converse(session, approving(session))
      }).pipe(Effect.scoped, Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(JSON.stringify(message)))])))
      const logged = lines.filter((line) => line.includes("agent ended")).join()
      assert.include(logged, "error: ")
      for (const { secret } of secrets) assert.notInclude(logged, secret)
    }))

  it("begins with a whole line where it was too long to be kept: half a secret looks like nothing", () => {
    const tail = new StderrTail()
    tail.add(Buffer.from("first\nsecond\n"))
    assert.strictEqual(tail.text, "first\nsecond\n")
    tail.add(Buffer.from(`${"x".repeat(4000)}\n${"y".repeat(4200)}`))
    assert.strictEqual(tail.text, "y".repeat(4200))
    tail.add(Buffer.from("z".repeat(9000)))
    assert.strictEqual(tail.text, "")
  })
})
