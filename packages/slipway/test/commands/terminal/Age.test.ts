import { assert, describe, it } from "@effect/vitest"
import * as Age from "../../../src/commands/terminal/Age.ts"

const now = Date.parse("2026-11-29T12:00:00.000Z")

describe("a time for people", () => {
  it("is told by how long ago it was", () => {
    const times = ["2026-11-29T11:59:31Z", "2026-11-29T12:00:05Z", "2026-11-29T11:55:00Z", "2026-11-28T12:00:00Z", "2026-11-20T12:00:00Z"]
    assert.deepStrictEqual(times.map((time) => Age.ago(time, now)), ["just now", "just now", "5 min ago", "24 h ago", "9 days ago"])
  })

  it("is told by how long it will take", () => {
    const times = ["2026-11-29T12:30:00Z", "2026-11-30T12:00:00Z", "2026-12-29T12:00:00Z", "2026-11-28T12:00:00Z"]
    assert.deepStrictEqual(times.map((time) => Age.until(time, now)), ["in 1 h", "in 24 h", "in 30 days", "24 h ago"])
  })

  it("is read as a duration before now, or as an ISO time, and as nothing else", () => {
    const read = ["10m", "2h", "1d", "2026-11-29", "2026-11-29T11:00:00Z", "10", "yesterday", "1w", "-1h", "29"].map((text) =>
      Age.since(text, now)
    )
    const hour = 3_600_000
    assert.deepStrictEqual(read, [now - hour / 6, now - 2 * hour, now - 24 * hour, now - 12 * hour, now - hour, ...Array(5).fill(null)])
  })
})
