/** The checkpoints of a sandbox, which outlive its machine. A server without checkpoints has an empty list. */
import { answered, refused } from "../client/Client.ts"
import { count, filled, fits, holds, listOf, nullOr, object, same, text, timestamp, uuid } from "../client/Expect.ts"
import { UNKNOWN, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("checkpoints", "docs/decisions/16")
const running = { needs: ["repo"] } as const

const list = async (world: World, query = "") =>
  answered(await world.get(await world.worked(), `/checkpoints${query}`), 200, `checkpoints${query}`).json

/** The rules of this file. */
export const rules = [
  rule("list", "Checkpoints are {checkpoint, turnId, createdAt, bytes, repos: [{repo, sha}]}, oldest first.", async (world) => {
    const json = await list(world)
    const tree = object({ repo: filled, sha: filled })
    fits(
      json.value,
      object({
        data: listOf(object({ checkpoint: count, turnId: nullOr(uuid), createdAt: timestamp, bytes: count, repos: listOf(tree) })),
        nextCursor: nullOr(text)
      }),
      ""
    )
    const numbers = json.at("data").items.map((item) => Number(item.at("checkpoint").value))
    same(numbers, [...new Set(numbers)].sort((a, b) => a - b), "their numbers")
    holds(numbers.every((number) => number > 0), "numbers from 1", numbers)
  }, running),
  rule("pages", "Pages give each checkpoint once, and nextCursor is null on the last.", async (world) => {
    const whole = (await list(world)).at("data").items.map((item) => item.at("checkpoint").value)
    const found: Array<unknown> = []
    for (let after = ""; found.length <= whole.length;) {
      const page = await list(world, `?limit=1${after}`)
      found.push(...page.at("data").items.map((item) => item.at("checkpoint").value))
      if (page.at("nextCursor").value === null) break
      same(page.at("data").items.length, 1, "checkpoints of a page that has a next one")
      after = `&after=${page.at("nextCursor").string}`
    }
    same(found, whole, "checkpoints of all pages")
  }, running),
  rule("list-over", "Of a sandbox that is over the last checkpoint is listed still.", async (world) => {
    const { checkpoint, origin } = await world.forkedLate()
    const { json } = answered(await world.get(origin, "/checkpoints"), 200, "checkpoints")
    same(json.at("data").items.at(-1)?.at("checkpoint").value, checkpoint, "the last listed one")
  }, running),
  rule("query", "limit is 1 to 100, and after an integer.", async (world) => {
    for (const limit of [0, 101]) {
      refused(await world.http.ask(`${UNKNOWN}/checkpoints?limit=${limit}`), 400, "invalid_request", `limit=${limit}`)
    }
    refused(await world.http.ask(`${UNKNOWN}/checkpoints?after=x`), 400, "invalid_cursor", "after=x")
  })
]
