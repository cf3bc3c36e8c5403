/**
 * The rules that every `Hints` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing here is
 * not part of the port.
 */
import { EVERY, Hints, type Topic } from "@slipway/domain/store/Hints"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import { assert } from "../../suite/Assert.ts"
import { define, type Writer } from "../../suite/Suite.ts"

let topics = 0
/** Named so that no layer looks at it by itself. */
const freshTopic = (): Topic => `topic-${++topics}`

const watch = (topic: Topic) => Effect.flatMap(Hints, (hints) => hints.watch(topic))
const publish = (...topics: ReadonlyArray<Topic>) => Effect.flatMap(Hints, (hints) => hints.publish(topics))

/** Asserts that it still waits, after a later hint has arrived elsewhere. */
const stillWaits = Effect.fnUntraced(function*(fiber: Fiber.Fiber<void>) {
  const fence = freshTopic()
  const passed = yield* watch(fence)
  yield* publish(fence)
  yield* passed
  yield* Effect.yieldNow
  assert.isUndefined(fiber.pollUnsafe())
})

const watching = (it: Writer<Hints>) => {
  it.effect("wakes who waits", () =>
    Effect.gen(function*() {
      const topic = freshTopic()
      const fiber = yield* Effect.forkChild(yield* watch(topic), { startImmediately: true })
      yield* publish(topic)
      yield* Fiber.join(fiber)
    }))

  it.effect("a hint between watching and waiting is not missed", () =>
    Effect.gen(function*() {
      const topic = freshTopic()
      const changed = yield* watch(topic)
      yield* publish(topic)
      yield* changed
    }))

  it.effect("a hint between two waits is not missed", () =>
    Effect.gen(function*() {
      const topic = freshTopic()
      const changed = yield* watch(topic)
      for (let i = 0; i < 3; i++) {
        yield* publish(topic)
        yield* changed
      }
    }))

  it.effect("several hints before a wait are one reason to look", () =>
    Effect.gen(function*() {
      const topic = freshTopic()
      const changed = yield* watch(topic)
      yield* publish(topic, topic)
      yield* publish(topic)
      yield* changed
      const fiber = yield* Effect.forkChild(changed, { startImmediately: true })
      yield* stillWaits(fiber)
      yield* publish(topic)
      yield* Fiber.join(fiber)
    }))

  it.effect("what was hinted before the watch began is not heard", () =>
    Effect.gen(function*() {
      const topic = freshTopic()
      yield* publish(topic)
      const fiber = yield* Effect.forkChild(yield* watch(topic), { startImmediately: true })
      yield* stillWaits(fiber)
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("wakes only the watchers of the topic", () =>
    Effect.gen(function*() {
      const [one, two] = [freshTopic(), freshTopic()]
      const waiting = yield* Effect.forkChild(yield* watch(one), { startImmediately: true })
      const woken = yield* watch(two)
      yield* publish(two)
      yield* woken
      yield* stillWaits(waiting)
      yield* publish(one)
      yield* Fiber.join(waiting)
    }))

  it.effect("wakes every watcher of every topic that is named, each once", () =>
    Effect.gen(function*() {
      const [one, two] = [freshTopic(), freshTopic()]
      const watchers = yield* Effect.forEach([one, one, two, one], watch)
      const fibers = yield* Effect.forEach(watchers, (changed) => Effect.forkChild(changed, { startImmediately: true }))
      yield* publish(one, two)
      yield* Fiber.joinAll(fibers)
      const again = yield* Effect.forEach(watchers, (changed) => Effect.forkChild(changed, { startImmediately: true }))
      for (const fiber of again) yield* stillWaits(fiber)
      yield* Fiber.interruptAll(again)
    }))

  it.effect("a watcher that is slow does not use up another one's hint", () =>
    Effect.gen(function*() {
      const topic = freshTopic()
      const [quick, slow] = [yield* watch(topic), yield* watch(topic)]
      yield* publish(topic)
      yield* quick
      yield* publish(topic)
      yield* quick
      yield* slow
    }))
}

const listening = (it: Writer<Hints>) => {
  it.effect("a watch ends with its scope, and the others go on", () =>
    Effect.gen(function*() {
      const topic = freshTopic()
      const outer = yield* watch(topic)
      const inner = yield* Effect.scoped(watch(topic))
      const fiber = yield* Effect.forkChild(inner, { startImmediately: true })
      yield* publish(topic)
      yield* outer
      yield* stillWaits(fiber)
      yield* Fiber.interrupt(fiber)
    }))

  it.effect("who listens hears every hint of the topic, with its note, before it is published, until its scope is closed", () =>
    Effect.gen(function*() {
      const hints = yield* Hints
      const topic = freshTopic()
      const heard: Array<unknown> = []
      const note = { of: topic }
      yield* Effect.scoped(Effect.gen(function*() {
        yield* hints.listen(topic, (note) => heard.push(note))
        yield* hints.publish([topic], note)
        assert.deepStrictEqual(heard, [note])
        assert.strictEqual(heard[0], note)
        yield* publish(freshTopic(), topic)
        assert.deepStrictEqual(heard, [note, undefined])
      }))
      yield* hints.publish([topic], note)
      assert.strictEqual(heard.length, 2)
    }))

  it.effect("one function that listens twice hears every hint twice, and once when one of both has ended", () =>
    Effect.gen(function*() {
      const hints = yield* Hints
      const topic = freshTopic()
      let heard = 0
      const listener = () => heard++
      yield* hints.listen(topic, listener)
      yield* Effect.scoped(Effect.gen(function*() {
        yield* hints.listen(topic, listener)
        yield* publish(topic)
        assert.strictEqual(heard, 2)
      }))
      yield* publish(topic)
      assert.strictEqual(heard, 3)
    }))

  it.effect("a listener of every topic hears each hint of each topic with its note, and a hint for every topic once", () =>
    Effect.gen(function*() {
      const hints = yield* Hints
      const [one, two] = [freshTopic(), freshTopic()]
      const heard: Array<readonly [note: unknown, topic: Topic]> = []
      yield* hints.listen(EVERY, (note, topic) => [one, two, EVERY].includes(topic) && heard.push([note, topic]))
      yield* hints.publish([one, two], "note")
      yield* publish(one)
      yield* publish(EVERY)
      assert.deepStrictEqual(heard, [["note", one], ["note", two], [undefined, one], [undefined, EVERY]])
    }))

  it.effect("a hint without a watcher has no effect", () =>
    Effect.gen(function*() {
      yield* publish(freshTopic())
      yield* publish()
    }))
}

/** For every layer. */
export const suite = (name: string, layer: Layer.Layer<Hints, unknown>) =>
  define(`Hints (${name})`, layer, (it) => {
    watching(it)
    listening(it)
  })
