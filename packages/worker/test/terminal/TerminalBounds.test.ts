/** The bounds of a terminal on a virtual clock: slow readers, scrollback, terminals without attachments, boxes that answer otherwise. */
import { assert, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { BoxProcess } from "@slipway/domain/sandbox/ports/SandboxHost"
import { LocalTerminals, type TerminalOutput } from "@slipway/domain/sandbox/ports/Terminals"
import { type Cause, Duration, Effect, Exit, Fiber, Metric, Option, Queue, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Scrollback, SCROLLBACK_BYTES } from "../../src/terminal/Scrollback.ts"
import * as Terminal from "../../src/terminal/Terminal.ts"
import * as TerminalScript from "../../src/terminal/TerminalScript.ts"
import { OfferedTerminals } from "../../src/terminal/TerminalsOfBoxes.ts"
import * as TerminalsOfBoxes from "../../src/terminal/TerminalsOfBoxes.ts"
import { QUEUE_BYTES } from "../../src/terminal/Viewer.ts"

const size = { columns: 80, rows: 24 }
const bytes = (text: string) => new TextEncoder().encode(text)

/** A terminal whose box is played by the test. `isOver`: whether it has ended. */
const played = Effect.gen(function*() {
  const stdout = yield* Queue.bounded<Uint8Array, Cause.Done>(1)
  const written: Array<string> = []
  let isOver = false
  const process: BoxProcess = {
    pid: 1,
    write: (line) => Effect.sync(() => void written.push(String(line))),
    endInput: Effect.void,
    stdout: Stream.fromQueue(stdout),
    stderrTail: Effect.succeed(""),
    exited: Effect.never
  }
  const start = Effect.forkScoped(Terminal.start(1, () => Effect.succeed(process), size, () => {
    isOver = true
  }))
  return {
    process,
    start,
    say: (text: string | Uint8Array) => Queue.offer(stdout, typeof text === "string" ? bytes(text) : text),
    written,
    isOver: () => isOver
  }
})
const started = Effect.gen(function*() {
  const { start, ...rest } = yield* played
  const starting = yield* start
  yield* rest.say("slipway-terminal /dev/pts/3\r\n")
  return { ...rest, terminal: yield* Fiber.join(starting) }
})

const attached = Effect.fnUntraced(function*(terminal: Terminal.Terminal) {
  const attachment = yield* terminal.attach
  return attachment ?? assert.fail("no attachment")
})
const next = (output: Stream.Stream<TerminalOutput>, count: number) => Stream.runCollect(Stream.take(output, count))

it.effect("keys and sizes are lines of ASCII that printf turns into the same bytes", () =>
  Effect.sync(() => {
    assert.strictEqual(TerminalScript.keys(bytes("ls é\\\n\r\x00'\"")), "ils \\0303\\0251\\0134\\0012\\0015\\0000'\"\n")
    assert.deepStrictEqual(TerminalScript.keys(new Uint8Array(9000).fill(0x61)).split("\n").map((line) => line.length), [4097, 4097, 809,
      0])
    assert.strictEqual(TerminalScript.resize("/dev/pts/3", size), "r /dev/pts/3 80 24\n")
  }))

it.effect("a device whose name would be more than one word of a line is refused", () =>
  Effect.sync(() => {
    assert.isNull(TerminalScript.readGreeting("slipway-terminal /dev/pts/3 80; rm -rf /"))
    assert.isNull(TerminalScript.readGreeting("slipway-terminal /etc/passwd"))
    assert.deepStrictEqual(TerminalScript.readGreeting("slipway-terminal none"), { device: null })
  }))

it.effect("the scrollback keeps the last bytes, however they came", () =>
  Effect.sync(() => {
    const scrollback = new Scrollback(10)
    for (const text of ["0123456", "789", "abc", "", "d"]) scrollback.push(bytes(text))
    assert.strictEqual(new TextDecoder().decode(scrollback.bytes), "456789abcd")
    scrollback.push(bytes("a line that is longer"))
    assert.strictEqual(new TextDecoder().decode(scrollback.bytes), " is longer")
  }))

it.effect("a reader that takes nothing is skipped after five seconds, so that another one goes on, and is told how much it missed", () =>
  Effect.gen(function*() {
    const { say, terminal } = yield* started
    const slow = yield* attached(terminal)
    const quick = yield* attached(terminal)
    let read = 0
    const reading = yield* Effect.forkScoped(Stream.runForEach(quick.output, (one) =>
      Effect.sync(() => {
        if (one._tag === "Bytes") read += one.bytes.length
      })))
    yield* say(new Uint8Array(QUEUE_BYTES))
    // The terminal waits for the slow one: it takes one more chunk into the queue of the process, and no third.
    yield* say(new Uint8Array(1000))
    const third = yield* Effect.forkScoped(say(new Uint8Array(2000)))
    yield* TestClock.adjust("4 seconds")
    assert.strictEqual(read, QUEUE_BYTES)
    yield* TestClock.adjust("1 second")
    yield* Fiber.join(third)
    yield* terminal.end("rested")
    yield* Fiber.join(reading)
    assert.strictEqual(read, QUEUE_BYTES + 3000)
    assert.deepStrictEqual(yield* next(slow.output, 2), [
      { _tag: "Skipped", count: QUEUE_BYTES + 3000 },
      { _tag: "Ended", reason: "rested", code: null }
    ])
  }))

it.effect("a reader that comes later gets no more than the scrollback, and a missing reader does not stop the program", () =>
  Effect.gen(function*() {
    const { say, terminal } = yield* started
    for (let i = 0; i < 20; i++) yield* say(new Uint8Array(64 * 1024).fill(i))
    yield* say("the end")
    const { output } = yield* attached(terminal)
    const [first] = yield* next(output, 1)
    if (first?._tag !== "Bytes") return assert.fail("no scrollback")
    assert.strictEqual(first.bytes.length, SCROLLBACK_BYTES)
  }))

it.effect("a terminal without attachments ends after half an hour, counted from the last one", () =>
  Effect.gen(function*() {
    const { isOver, terminal } = yield* started
    yield* TestClock.adjust("29 minutes")
    const scope = yield* Scope.make()
    yield* Scope.provide(attached(terminal), scope)
    yield* TestClock.adjust("2 hours")
    assert.isFalse(isOver())
    yield* Scope.close(scope, Exit.void)
    yield* TestClock.adjust("29 minutes")
    assert.isFalse(isOver())
    yield* TestClock.adjust("1 minute")
    assert.isTrue(isOver())
  }))

it.effect("a worker's terminals are counted until they end", () =>
  Effect.gen(function*() {
    const { process, say } = yield* played
    const id = SandboxId.make("c_bbbbbbbbbbbb")
    const offered = yield* OfferedTerminals
    const count = Effect.map(Metric.snapshot, (all) => {
      const found = all.find((one) => one.id === "slipway_worker_terminals")
      return found?.type === "Gauge" ? found.state.value : assert.fail("they are not counted")
    })
    const session = yield* Scope.make()
    yield* Scope.provide(offered.offer(id, () => Effect.succeed(process), Effect.succeed("rested")), session)
    assert.strictEqual(yield* count, 0)
    const attaching = yield* Effect.forkScoped(LocalTerminals.use((local) => local.attach(id, { terminal: 2, size })))
    yield* say("slipway-terminal /dev/pts/3\n")
    yield* Fiber.join(attaching)
    assert.strictEqual(yield* count, 1)
    yield* Scope.close(session, Exit.void)
    assert.strictEqual(yield* count, 0)
  }).pipe(Effect.scoped, Effect.provide(TerminalsOfBoxes.layer)))

it.effect("a sandbox's terminals count as used until no key was typed for the time", () =>
  Effect.gen(function*() {
    const { process, say } = yield* played
    const id = SandboxId.make("c_aaaaaaaaaaaa")
    const offered = yield* OfferedTerminals
    yield* offered.offer(id, () => Effect.succeed(process), Effect.succeed("rested"))
    yield* TestClock.adjust("1 hour")
    yield* offered.unused(id, Duration.minutes(5))
    const attaching = yield* Effect.forkScoped(LocalTerminals.use((local) => local.attach(id, { terminal: 1, size })))
    yield* say("slipway-terminal /dev/pts/3\n")
    const { write } = yield* Fiber.join(attaching)
    yield* write(bytes("l"))
    const waiting = yield* Effect.forkScoped(offered.unused(id, Duration.minutes(5)))
    yield* TestClock.adjust("4 minutes")
    yield* write(bytes("s"))
    yield* TestClock.adjust("4 minutes")
    assert.isUndefined(waiting.pollUnsafe())
    yield* TestClock.adjust("1 minute")
    yield* Fiber.join(waiting)
  }).pipe(Effect.scoped, Effect.provide(TerminalsOfBoxes.layer)))

it.effect("a box without script, or with another answer, or none, says why there is no terminal", () =>
  Effect.gen(function*() {
    const refusal = (say: string | null) =>
      Effect.gen(function*() {
        const playedBox = yield* played
        const starting = yield* playedBox.start
        if (say !== null) yield* playedBox.say(say)
        yield* TestClock.adjust("30 seconds")
        const exit = yield* Fiber.await(starting)
        return Option.getOrThrow(Exit.findErrorOption(exit))
      })
    const missing = yield* refusal("slipway-terminal none\n")
    assert.strictEqual(missing.reason, "no_program")
    assert.match(missing.detail, /bsdutils/u)
    assert.strictEqual((yield* refusal("bash: welcome\n")).reason, "failed")
    assert.strictEqual((yield* refusal("x".repeat(500))).reason, "failed")
    assert.match((yield* refusal(null)).detail, /in time/u)
  }))
