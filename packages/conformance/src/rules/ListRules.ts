import { answered, refused } from "../client/Client.ts"
import { holds, type Json, same, Skip, nullOr, filled, fits } from "../client/Expect.ts"
import { SANDBOXES, unique, type World } from "../world/World.ts"
import { statuses } from "./CreationRules.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("list", "docs/interface.md 4.1")

const list = async (world: World, query = "", key?: string) =>
  answered(await world.http.ask(`${SANDBOXES}${query}`, key === undefined ? {} : { key }), 200, `a list${query}`).json

/** Several sandboxes that do not change any more. */
const few = (world: World) =>
  world.session.fixture("few", async () => {
    for (let i = 0; i < 5; i++) {
      await world.session.setup.ask(SANDBOXES, { body: world.creation({ prompt: `Conformance: list ${i}` }) })
    }
    await world.session.tidy()
  })

const ids = (json: Json) => json.at("data").items.map((item) => item.at("id").string)

/** A cursor after the first sandbox. */
const cursor = async (world: World) => {
  await few(world)
  return (await list(world, "?limit=1")).at("nextCursor").string
}

/** The rules of this file. */
export const rules = [
  rule("shape", "A list is {data, nextCursor} of sandboxes as they are read alone.", async (world) => {
    await few(world)
    const json = await list(world, "?limit=3")
    same([...json.keys].sort(), ["data", "nextCursor"], "members")
    fits(json.at("nextCursor").value, nullOr(filled), "nextCursor")
    const last = json.at("data").items.at(-1)
    const alone = answered(await world.http.ask(`${SANDBOXES}/${last?.at("id").string}`), 200, "the sandbox").json
    same(last?.keys, alone.keys, "fields")
    for (const name of ["id", "title", "repos", "createdAt", "links"]) {
      same(last?.at(name).value, alone.at(name).value, name)
    }
  }),
  rule("order", "Sandboxes are listed by createdAt, then id, both descending.", async (world) => {
    await few(world)
    const places = (await list(world)).at("data").items.map((item) => `${item.at("createdAt").string} ${item.at("id").string}`)
    same(places, [...places].sort().reverse(), "order")
  }, { source: "docs/decisions/1" }),
  rule("newest", "A sandbox is listed first once it is created.", async (world) => {
    const { json } = answered(await world.create(), 201, "a creation")
    same(ids(await list(world, "?limit=1")), [json.at("id").value], "first")
  }),
  rule("pages", "Pages give each sandbox once, in the order of the whole.", async (world) => {
    await few(world)
    const whole = ids(await list(world)).slice(0, 6)
    const found: Array<string> = []
    let after = ""
    while (found.length < whole.length) {
      const page = await list(world, `?limit=2${after}`)
      same(page.at("data").items.length, 2, "length of a page of 2")
      found.push(...ids(page))
      if (page.at("nextCursor").value === null) break
      after = `&after=${encodeURIComponent(page.at("nextCursor").string)}`
    }
    same(found.slice(0, whole.length), whole, "the sandboxes of three pages")
  }),
  rule("last-page", "nextCursor is null on the last page.", async (world) => {
    let page = await list(world)
    for (let i = 0; page.at("nextCursor").value !== null; i++) {
      if (i === 20) throw new Skip("the grant has more than 2000 sandboxes")
      holds(page.at("data").items.length > 0, "something on a page that has a next one", page.at("data").value)
      page = await list(world, `?after=${encodeURIComponent(page.at("nextCursor").string)}`)
    }
    holds(ids(page).length > 0, "a last page with something on it", page.at("data").value)
  }),
  rule("limit", "limit is 1 to 100.", async (world) => {
    for (const limit of [0, 101]) {
      refused(await world.http.ask(`${SANDBOXES}?limit=${limit}`), 400, "invalid_request", `limit=${limit}`)
    }
    await few(world)
    for (const limit of [1, 100]) {
      holds(ids(await list(world, `?limit=${limit}`)).length <= limit, `at most ${limit}`, limit)
    }
    same(ids(await list(world, "?limit=1")).length, 1, "number of sandboxes for limit=1")
  }),
  rule("status", "status lists only sandboxes in that status.", async (world) => {
    await few(world)
    for (const status of ["terminated", "queued"]) {
      const found = (await list(world, `?status=${status}`)).at("data").items.map((item) => item.at("status").value)
      same(found.filter((other) => other !== status), [], `other statuses for status=${status}`)
    }
    for (const status of statuses) await list(world, `?limit=1&status=${status}`)
  }),
  rule("status-unknown", "A status that does not exist is 400.", async (world) => {
    for (const status of ["nonsense", "Running"]) {
      refused(await world.http.ask(`${SANDBOXES}?status=${status}`), 400, "invalid_request", status)
    }
  }),
  rule("repo", "repo lists only sandboxes with that repository, whatever the case.", async (world) => {
    const { id } = await world.keyed()
    const found = (await list(world, `?repo=${encodeURIComponent(world.repo.toUpperCase())}`)).at("data").items
    holds(found.length > 0, "sandboxes with the repository in upper case", found.length)
    for (const item of found) {
      const names = item.at("repos").items.map((repo) => repo.at("fullName").string.toLowerCase())
      holds(names.includes(world.repo.toLowerCase()), `only sandboxes with ${world.repo}`, names)
    }
    same(
      ids(await list(world, `?repo=conformance/${unique()}`)),
      [],
      `sandboxes of an unused repository (${id})`
    )
  }, { source: "docs/decisions/1" }),
  rule("repo-any", "repo matches any of a sandbox's repositories.", async (world) => {
    const { id } = await world.keyed()
    holds(
      ids(await list(world, `?repo=${encodeURIComponent(world.secondRepo)}`)).includes(id),
      "a sandbox by its second repository",
      id
    )
  }, { needs: ["second-repo"], source: "docs/decisions/1" }),
  rule("repo-malformed", "A repo that cannot be one is 400.", async (world) => {
    const ours = world.options.contract ? [] : ["-a/b", "a/b.git"]
    for (const repo of ["x", "a/b/c", ...ours, `o/${"n".repeat(200)}`]) {
      refused(await world.http.ask(`${SANDBOXES}?repo=${repo}`), 400, "invalid_request", repo.slice(0, 20))
    }
  }),
  rule("cursor-filter", "A cursor may be used with any filter.", async (world) => {
    const after = encodeURIComponent(await cursor(world))
    for (const filter of ["status=running", `repo=${world.repo}`, "limit=7"]) {
      await list(world, `?after=${after}&${filter}`)
    }
  }, { source: "docs/decisions/1" }),
  rule("cursor-tampered", "A cursor that was tampered with is 400 invalid_cursor.", async (world) => {
    const good = await cursor(world)
    const middle = Math.floor(good.length / 2)
    const swap = (at: number) => `${good.slice(0, at)}${good[at] === "A" ? "B" : "A"}${good.slice(at + 1)}`
    for (const bad of [swap(0), swap(middle), swap(good.length - 3), `${good}AAAA`, good.slice(0, -4), "nonsense"]) {
      refused(
        await world.http.ask(`${SANDBOXES}?after=${encodeURIComponent(bad)}`),
        400,
        "invalid_cursor",
        "a tampered cursor"
      )
    }
  }, { source: "docs/decisions/1" }),
  rule("cursor-length", "A cursor has 1 to 1000 characters.", async (world) => {
    for (const after of ["", "A".repeat(1000), "A".repeat(1001)]) {
      refused(
        await world.http.ask(`${SANDBOXES}?after=${after}`),
        400,
        ["invalid_cursor", "invalid_request"],
        `a cursor of ${after.length} characters`
      )
    }
  }),
  rule("cursor-foreign", "Another grant's cursor is 400 invalid_cursor.", async (world) => {
    const after = await world.session.fixture("foreign cursor", async () => {
      const { setup } = world.session
      for (let i = 0; i < 2; i++) await setup.ask(SANDBOXES, { body: world.creation(), key: world.otherKey })
      return (await setup.ask(`${SANDBOXES}?limit=1`, { key: world.otherKey })).json.at("nextCursor").string
    })
    await list(world, `?after=${encodeURIComponent(after)}`, world.otherKey)
    refused(
      await world.http.ask(`${SANDBOXES}?after=${encodeURIComponent(after)}`),
      400,
      "invalid_cursor",
      "another grant's cursor"
    )
  }, { needs: ["other-key"], source: "docs/decisions/1" }),
  rule("own", "Only sandboxes of the key's grant are listed.", async (world) => {
    // The newest sandbox is on the first page of every caller who sees it.
    const id = (await world.created()).json.at("id").string
    holds(!ids(await list(world, "", world.otherKey)).includes(id), "no sandbox of another grant", id)
  }, { needs: ["other-key"], source: "docs/interface.md 4.1" })
]
