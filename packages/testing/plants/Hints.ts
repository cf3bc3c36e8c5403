import { type Plants, plantsIn } from "./Plant.ts"

const publish = "for (const topic of topics) listeners.get(topic)?.forEach((listener) => listener(note, topic))"
const watch = "const latch = Latch.makeUnsafe(false)"
const wait = "Effect.andThen(latch.await, latch.close)"

export const plants: Plants = {
  port: "Hints",
  subject: "packages/testing/test/store/Hints.suites.ts",
  plants: plantsIn("packages/domain/src/store/Hints.ts", [
    ["sends no hint", publish, ""],
    ["tells the first topic alone", publish, "listeners.get(topics[0])?.forEach((listener) => listener(note, topics[0]))"],
    ["tells one watcher of a topic alone", publish,
      "for (const topic of topics) for (const listener of listeners.get(topic) ?? []) { listener(note, topic); break }"],
    ["tells the watchers of every topic", publish,
      "for (const known of listeners.values()) known.forEach((listener) => listener(note, topics[0]))"],
    ["keeps a note from listeners", publish, publish.replace("(note, topic)", "(undefined, topic)")],
    ["tells those who hear every topic of none", "listeners.get(EVERY)?.forEach((listener) => listener(note, topic))", "{}"],
    ["tells those who hear every topic twice of a hint for all", "if (topic !== EVERY) ", ""],
    [
      "watches from the first wait on",
      "return Effect.as(listen(topic, () => latch.openUnsafe()), Effect.andThen(latch.await, latch.close))",
      "let on = false; const heard = Effect.andThen(latch.await, latch.close); " +
      "const begin = (context) => Effect.provide(listen(topic, () => latch.openUnsafe()), context); " +
      "return Effect.contextWith((context) => " +
      "Effect.succeed(Effect.suspend(() => Effect.andThen(on ? Effect.void : (on = true, begin(context)), heard))))"
    ],
    ["has a hint before it watches count", watch, "const latch = Latch.makeUnsafe(true)"],
    ["wakes for every wait after one hint", wait, "latch.await"],
    ["forgets a hint that came between two waits", wait, "Effect.andThen(latch.close, latch.await)"],
    ["goes on with listeners whose scope is closed", "known?.delete(own)", ""],
    ["forgets all listeners of a topic with one of them", "if (known?.size === 0) listeners.delete(topic)", "listeners.delete(topic)"],
    ["takes two listeners that are one function for one", "const own: Listener = (note, topic) => listener(note, topic)",
      "const own: Listener = listener"]
  ])
}
