import { type Plants, plantsIn } from "./Plant.ts"

const follow = "let told = log.length\n      return Effect.sync(() => {\n        const entries = log.slice(told)\n        told = log.length"

export const plants: Plants = {
  port: "AuditLog",
  subject: "packages/testing/test/access/AuditLog.suites.ts",
  plants: plantsIn("packages/domain/memory/access/AuditLogMemory.ts", [
    ["lists the oldest entries", ".slice(-limit)", ".slice(0, limit)"],
    ["lists the newest first", ".slice(-limit)", ".slice(-limit).toReversed()"],
    ["lists by the time that was told", ".slice(-limit)",
      ".toSorted((a, b) => a.at.epochMilliseconds - b.at.epochMilliseconds).slice(-limit)"],
    ["leaves out what is as old as asked for", "log.filter(({ at }) => since === null || DateTime.isGreaterThanOrEqualTo",
      "log.filter(({ at }) => since === null || DateTime.isGreaterThan"],
    ["does not say who acted", "yield* Acting\n", "({ _tag: \"System\" })\n"],
    ["does not say by which request", "yield* ActingFrom", "null"],
    ["appends the first of many", "...events.map(", "...events.slice(0, 1).map("],
    ["appends many in the reverse order", "...events.map(", "...events.toReversed().map("],
    ["writes its own time", "{ ...event, actor, origin }", "{ ...event, at: DateTime.makeUnsafe(0), actor, origin }"],
    ["gives followers earlier entries", "let told = log.length", "let told = 0"],
    ["gives followers every entry again", "told = log.length\n        return", "return"],
    ["pages with the entry that was read last", "number > after", "number >= after"],
    ["pages the newest entries", ".slice(0, limit)\n      ),", ".slice(-limit)\n      ),"],
    ["pages whatever the time", "number > after && (", "number > after || ("],
    ["gives followers one entry of many", "log.slice(told)", "log.slice(told, told + 1)"],
    ["tells an entry to one of those who follow", follow,
      "log.told ??= log.length\n return Effect.sync(() => { const entries = log.slice(log.told); log.told = log.length"]
  ])
}
