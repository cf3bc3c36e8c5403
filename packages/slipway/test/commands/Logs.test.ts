import { assert, describe, it } from "@effect/vitest"
import { Redaction, Redactor } from "@slipway/domain/environment/redaction/Redaction"
import * as RequestSpan from "@slipway/http/server/edge/RequestSpan"
import { Cause, ConfigProvider, Console, Effect, Redacted, References, Schema, Tracer } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Logs from "../../src/service/Logs.ts"

const SECRET = "correct-horse/battery+staple"

/** Log lines of the effect, as they are written to standard error. */
const written = (self: Effect.Effect<unknown>, settings: Readonly<Record<string, string>> = {}) =>
  Effect.suspend(() => {
    const lines: Array<string> = []
    const redactor = new Redactor()
    redactor.learn(SECRET)
    const console = { ...globalThis.console, error: (line: string) => lines.push(line), log: () => assert.fail("a log on standard output") }
    return self.pipe(
      Logs.atLeast("Info"),
      Effect.provide(Logs.layer),
      Effect.provideService(References.TracerEnabled, false),
      Effect.provideService(Redaction, redactor),
      Effect.provideService(Console.Console, console),
      Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ SLIPWAY_LOG_FORMAT: "json", ...settings }))),
      Effect.as(lines)
    )
  })

const parsed = (lines: ReadonlyArray<string>): ReadonlyArray<Record<string, unknown>> =>
  lines.map((line) => {
    assert.notInclude(line, "\n")
    assert.isAtMost(Buffer.byteLength(line), 16_384)
    return JSON.parse(line)
  })

class Broken extends Schema.TaggedError<Broken>()("Broken", { cause: Schema.Defect() }) {
  override get message() {
    return `broken by ${SECRET}`
  }
}

describe("a JSON line", () => {
  it.effect("has time, level and message, and what belongs to the entry under its own names", () =>
    Effect.gen(function*() {
      const [entry] = parsed(
        yield* written(
          Effect.logWarning("two", "words", {
            count: 3,
            at: new Date(0),
            none: null,
            list: [1, "a"],
            key: Redacted.make("abc"),
            deep: { a: { b: { c: { d: { e: 1 } } } } }
          }).pipe(
            Effect.annotateLogs({ requestId: "req_1" })
          )
        )
      )
      const { time, ...rest } = entry ?? {}
      assert.strictEqual(time, "1970-01-01T00:00:00.000Z")
      assert.deepStrictEqual(rest, {
        level: "warning",
        message: "two words",
        requestId: "req_1",
        count: 3,
        at: "1970-01-01T00:00:00.000Z",
        none: null,
        list: [1, "a"],
        key: "[redacted]",
        deep: { a: { b: { c: { d: "{ e: 1 }" } } } }
      })
    }))

  it.effect("no field takes the place of what a line says of itself, and an error has one shape", () =>
    Effect.gen(function*() {
      const [first, second] = parsed(
        yield* written(Effect.andThen(
          Effect.logInfo("one", { time: "never", level: "none", message: "two" }),
          Effect.logInfo("two", { error: "why" })
        ))
      )
      assert.deepStrictEqual([first?.["level"], first?.["message"], first?.["time"]], ["info", "one", "1970-01-01T00:00:00.000Z"])
      assert.deepStrictEqual(second?.["error"], { message: "why" })
    }))

  it.effect("tells of an error its name, message and stack with every cause, whether it was logged as such or in a cause", () =>
    Effect.gen(function*() {
      const error = new Broken({ cause: new TypeError("deep inside", { cause: new Error("the root") }) })
      for (
        const logged of [Effect.logError("failed", error), Effect.logError("failed", Cause.fail(error)), Effect.logError(Cause.die(error))]
      ) {
        const [entry] = parsed(yield* written(logged))
        const { message, name, stack } = Object(entry?.["error"])
        assert.deepStrictEqual([name, message], ["Broken", "broken by [redacted]"])
        for (const part of ["Broken", "deep inside", "the root", "Logs.test.ts"]) assert.include(stack, part)
        assert.include(["failed", "broken by [redacted]"], entry?.["message"])
      }
    }))

  it.effect("is one line of 16 KiB at most, whatever was logged", () =>
    Effect.gen(function*() {
      const long = "\u0001ä\n".repeat(40_000)
      const many = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`field${i}`, long]))
      const loop: Record<string, unknown> = {}
      loop["self"] = loop
      const hostile = {
        get trap() {
          throw new Error("no")
        }
      }
      const entries = parsed(
        yield* written(Effect.gen(function*() {
          yield* Effect.logError(long, new Error(long))
          yield* Effect.logError("many", many).pipe(Effect.annotateLogs(many))
          yield* Effect.logError("loop", loop, 1n, Symbol("s"), () => 1, new Map([[1, long]]))
          yield* Effect.logError("hostile", hostile)
        }))
      )
      assert.deepStrictEqual(entries.map(({ message }) => String(message).slice(0, 4)), ["\u0001ä\n\u0001", "many", "loop", "an e"])
    }))

  it.effect("shows no secret, in whatever part of the entry it is", () =>
    Effect.gen(function*() {
      const places: ReadonlyArray<Effect.Effect<void>> = [
        Effect.logError(`a ${SECRET} b`),
        Effect.logError("x", { nested: [{ deep: encodeURIComponent(SECRET) }], [SECRET]: 1 }),
        Effect.logError("x").pipe(Effect.annotateLogs({ [SECRET]: SECRET, about: Buffer.from(SECRET).toString("base64") })),
        Effect.logError("x", new Error(SECRET, { cause: new Error(SECRET) })),
        Effect.logError("x", Cause.die({ what: SECRET })),
        Effect.logError("x", new Map([["k", SECRET]]), new URL(`https://u:${encodeURIComponent(SECRET)}@h/`)),
        Effect.logError({ password: "shorty", accessToken: "shorty2" }),
        Effect.logError("x").pipe(Effect.withParentSpan(Tracer.externalSpan({ traceId: SECRET, spanId: SECRET })))
      ]
      for (const format of ["json", "pretty"]) {
        const lines = yield* written(Effect.all(places), { SLIPWAY_LOG_FORMAT: format })
        assert.strictEqual(lines.length, places.length)
        for (const line of lines) {
          assert.include(line, "[redacted]")
          for (const form of [SECRET, encodeURIComponent(SECRET), Buffer.from(SECRET).toString("base64"), "shorty"]) {
            assert.notInclude(line, form)
          }
        }
      }
    }))
})

it.effect("people get a line with the same, the stack below it, and nothing that controls their terminal", () =>
  Effect.gen(function*() {
    const lines = yield* written(
      Effect.andThen(
        Effect.logInfo("said \u001B[2Jand gone", { count: 3, where: { a: 1 } }).pipe(Effect.annotateLogs({ sandboxId: "sbx" })),
        Effect.logError("failed", new Error("why"))
      ),
      { SLIPWAY_LOG_FORMAT: "pretty" }
    )
    assert.strictEqual(lines[0], "00:00:00.000 INFO said ⟨ESC⟩[2Jand gone sandboxId=sbx count=3 where={\"a\":1}")
    assert.match(lines[1] ?? "", /^00:00:00\.000 ERROR failed\nError: why\n {4}at /u)
  }))

it.effect("what Node warns of is an entry like all others, as long as the log is there", () =>
  Effect.gen(function*() {
    const before = [process.listeners("warning"), process.listeners("uncaughtException")]
    const [entry] = parsed(yield* written(Effect.sync(() => process.emit("warning", new Error(`old, like ${SECRET}`)))))
    assert.deepStrictEqual([entry?.["level"], entry?.["message"]], ["warning", "Node warns"])
    assert.strictEqual(Object(entry?.["error"]).message, "old, like [redacted]")
    assert.deepStrictEqual([process.listeners("warning"), process.listeners("uncaughtException")], before)
  }))

describe("the settings", () => {
  it.effect("SLIPWAY_LOG_LEVEL is the least that is logged, whatever the command's own is", () =>
    Effect.gen(function*() {
      const all = Effect.all([Effect.logDebug("debug"), Effect.logInfo("info"), Effect.logWarning("warning"), Effect.logError("error")])
      const told = (settings: Readonly<Record<string, string>>) =>
        Effect.map(written(all, settings), (lines) => parsed(lines).map(({ level }) => level))
      assert.deepStrictEqual(yield* told({}), ["info", "warning", "error"])
      assert.deepStrictEqual(yield* told({ SLIPWAY_LOG_LEVEL: "debug" }), ["debug", "info", "warning", "error"])
      assert.deepStrictEqual(yield* told({ SLIPWAY_LOG_LEVEL: "error" }), ["error"])
    }))

  it.effect("what is neither a format nor a level is refused by name", () =>
    Effect.gen(function*() {
      for (const [name, expected] of [["SLIPWAY_LOG_LEVEL", "debug, info"], ["SLIPWAY_LOG_FORMAT", "auto, pretty"]] as const) {
        const error = yield* Effect.flip(written(Effect.void, { [name]: "loud" }))
        assert.include(error.message, `${name} must be ${expected}`)
      }
    }))
})

describe("a request's entries", () => {
  const logged = (headers: Record<string, string>) =>
    Effect.map(
      written(Effect.gen(function*() {
        const request = HttpServerRequest.fromWeb(new Request("http://localhost/", { headers }))
        const spanOf = yield* RequestSpan.make
        yield* Effect.all([Effect.logInfo("one"), Effect.logInfo("two").pipe(Effect.withSpan("inner"))]).pipe(
          Effect.as(HttpServerResponse.empty()),
          spanOf(request, null)
        )
        yield* Effect.logInfo("outside")
      })),
      parsed
    )

  it.effect("have one trace and one span, and no other entry has", () =>
    Effect.gen(function*() {
      const [one, two, outside] = yield* logged({})
      assert.match(String(one?.["traceId"]), /^[0-9a-f]{32}$/u)
      assert.match(String(one?.["spanId"]), /^[0-9a-f]{16}$/u)
      assert.deepStrictEqual([two?.["traceId"], two?.["spanId"]], [one?.["traceId"], one?.["spanId"]])
      assert.notProperty(outside, "traceId")
      assert.notStrictEqual((yield* logged({}))[0]?.["traceId"], one?.["traceId"])
    }))

  it.effect("have the caller's trace when its traceparent is well-formed, and only then", () =>
    Effect.gen(function*() {
      const traceId = "0af7651916cd43dd8448eb211c80319c"
      const [good] = yield* logged({ traceparent: `00-${traceId}-b7ad6b7169203331-01` })
      assert.strictEqual(good?.["traceId"], traceId)
      assert.notStrictEqual(good?.["spanId"], "b7ad6b7169203331")
      const malformed = [
        traceId,
        `00-${traceId.toUpperCase()}-b7ad6b7169203331-01`,
        `00-${traceId}-b7ad6b7169203331`,
        `ff-${traceId}-b7ad6b7169203331-01`,
        `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
        `00-${traceId}-${"0".repeat(16)}-01`,
        `00-${traceId}-b7ad6b7169203331-01-x`
      ]
      for (const traceparent of malformed) assert.notStrictEqual((yield* logged({ traceparent }))[0]?.["traceId"], traceId, traceparent)
    }))
})
