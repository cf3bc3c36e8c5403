/** The partner feed. A client cannot cause its events: without events, rules about them are skipped. */
import { answered, refused } from "../client/Client.ts"
import {
  anything,
  count,
  filled,
  fits,
  holds,
  is,
  type Json,
  listOf,
  matching,
  nullOr,
  object,
  positive,
  same,
  type Shape,
  Skip,
  timestamp,
  uuid
} from "../client/Expect.ts"
import { API, type World } from "../world/World.ts"
import { INVALID, insufficientScope, REALM, unauthorized } from "./AccessRules.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("feed", "docs/decisions/11.3")

const FEED = `${API}/events`

/** The most pages of 100 that are read to reach the newest event. */
const MAX_PAGES = 20

const lead = { claimId: uuid, leadId: filled, variant: filled }
const claim = { ...lead, creditAmount: positive, createdAt: timestamp }
const attributed = { ...lead, occurredAt: timestamp }
const task = matching(/^c_[a-z2-9]{12}$/u, "the id of a sandbox")
const member = { open: true }

/** The required members of each type's `data`. Members and types may be added. */
const payloads: Readonly<Record<string, Shape>> = {
  "credit_claim.created": object({ ...claim, status: is("pending"), claimedAt: is(null) }, member),
  "credit_claim.claimed": object({ ...claim, status: is("claimed"), claimedAt: timestamp }, member),
  "project.connected": object({ ...attributed, projectId: filled }, member),
  "task.started": object({ ...attributed, taskId: task, projectId: nullOr(filled) }, member),
  "pull_request.opened": object(
    { ...attributed, pullRequestId: uuid, taskId: task, projectId: nullOr(filled) },
    member
  ),
  "conversion.paid": object({ ...attributed, conversionId: uuid }, member)
}

interface Page {
  readonly json: Json
  readonly events: ReadonlyArray<Json>
  readonly nextCursor: unknown
}

const page = async (world: World, query: string, key = world.options.key): Promise<Page> => {
  const { json } = answered(await world.http.ask(`${FEED}${query}`, { key }), 200, `the feed${query}`)
  return { json, events: json.at("data").items, nextCursor: json.at("nextCursor").value }
}

/** The first page, which is not empty. */
const beginning = async (world: World): Promise<Page> => {
  const found = await page(world, "?after=0&limit=100")
  if (found.events.length === 0) throw new Skip("the grant of the key has no partner events")
  return found
}

const values = (events: ReadonlyArray<Json>) => events.map(({ value }) => value)
const ids = ({ events }: Page) => events.map((event) => event.at("id").string)

/** A later read begins with the same events as an earlier one: a feed only grows. */
const goesOn = (later: Page, earlier: Page, what: string) =>
  same(values(later.events.slice(0, earlier.events.length)), values(earlier.events), what)

/** The rules of this file. */
export const rules = [
  rule("page", "A page is {data, nextCursor} and nothing else; nextCursor is an integer.", async (world) => {
    const shape = object({ data: listOf(anything), nextCursor: count })
    for (const query of ["", "?limit=1", `?after=${Number.MAX_SAFE_INTEGER}`]) {
      fits((await page(world, query)).json.value, shape, "")
    }
  }, { source: "docs/interface.md 4.12" }),
  rule("event", "An event is {id, sequence, type, data, createdAt} and nothing else.", async (world) => {
    const shape = object({ id: uuid, sequence: positive, type: filled, data: object({}, member), createdAt: timestamp })
    fits(values((await beginning(world)).events), listOf(shape), "data")
  }, { source: "docs/interface.md 2.7" }),
  rule("payload", "The data of each event is as its type says.", async (world) => {
    for (const event of (await beginning(world)).events) {
      const type = event.at("type").string
      const shape = Object.hasOwn(payloads, type) ? payloads[type] : undefined
      if (shape !== undefined) fits(event.at("data").value, shape, `data of ${type}`)
    }
  }, { source: "docs/interface.md 6.2" }),
  rule("sequence", "Events come in the order of their sequence, from 1 and without gaps.", async (world) => {
    const sequences = (await beginning(world)).events.map((event) => event.at("sequence").value)
    same(sequences, sequences.map((_, i) => i + 1), "sequences")
  }),
  rule("ids", "An event has an id of its own, and the same whenever it is read.", async (world) => {
    const first = await beginning(world)
    holds(new Set(ids(first)).size === first.events.length, "distinct ids", ids(first))
    same(ids(await beginning(world)).slice(0, first.events.length), ids(first), "ids read again")
  }, { source: "docs/interface.md 2.7" }),
  rule("after-0", "after=0 is the beginning, and what is meant without after.", async (world) => {
    const from0 = await page(world, "?after=0")
    const plain = await page(world, "")
    goesOn(plain, from0, "without after:")
    same(plain.nextCursor, plain.events.at(-1)?.at("sequence").value ?? 0, "nextCursor without after")
  }),
  rule("pages", "A page goes on right after its cursor, and nextCursor is its last sequence.", async (world) => {
    const whole = values((await beginning(world)).events.slice(0, 6))
    const found: Array<unknown> = []
    for (let after = 0; found.length < whole.length;) {
      const { events, nextCursor } = await page(world, `?after=${after}&limit=2`)
      holds(events.length > 0, `events after ${after}`, [])
      found.push(...values(events))
      same(nextCursor, events.at(-1)?.at("sequence").value, "nextCursor")
      after = Number(nextCursor)
    }
    same(found.slice(0, whole.length), whole, "the events of several pages")
  }, { source: "docs/interface.md 4.12" }),
  rule("empty-page", "An empty page keeps the cursor.", async (world) => {
    let after: unknown = 0
    for (let i = 0;; i++) {
      if (i === MAX_PAGES) throw new Skip(`the feed has more than ${MAX_PAGES * 100} events`)
      const { events, nextCursor } = await page(world, `?after=${String(after)}`)
      if (events.length > 0) after = events.at(-1)?.at("sequence").number
      else return same(nextCursor, after, "nextCursor of an empty page")
    }
  }, { source: "docs/interface.md 4.12" }),
  rule("ahead", "A cursor ahead of the newest event is an empty page that keeps it.", async (world) => {
    for (const after of [2 ** 31, Number.MAX_SAFE_INTEGER]) {
      same((await page(world, `?after=${after}`)).json.value, { data: [], nextCursor: after }, `after=${after}:`)
    }
  }),
  rule("malformed", "A cursor that is no digits, or above 2^53-1, is 400 invalid_cursor.", async (world) => {
    for (const after of ["abc", "-1", "1.5", "1e1", "%2B1", "%201", "0x1", "", "9007199254740992", "9".repeat(400)]) {
      refused(await world.http.ask(`${FEED}?after=${after}`), 400, "invalid_cursor", `after=${after.slice(0, 20)}`)
    }
  }),
  rule("limit", "limit is 1 to 100.", async (world) => {
    for (const limit of ["0", "101", "-1", "1.0", "one", ""]) {
      refused(await world.http.ask(`${FEED}?limit=${limit}`), 400, "invalid_request", `limit=${limit}`)
    }
    for (const limit of [1, 100]) {
      const { length } = (await page(world, `?limit=${limit}`)).events
      holds(length <= limit, `at most ${limit} events for limit=${limit}`, length)
    }
  }),
  rule("limit-default", "Without limit a page is as with limit=100.", async (world) => {
    const hundred = await beginning(world)
    const plain = await page(world, "")
    goesOn(plain, hundred, "without limit:")
    holds(plain.events.length <= 100, "at most 100 events without limit", plain.events.length)
  }, { source: "docs/interface.md 4.12" }),
  rule("repeated-query", "A cursor or limit that is repeated is 400.", async (world) => {
    refused(await world.http.ask(`${FEED}?limit=1&limit=1`), 400, "invalid_request", "limit twice")
    const codes = ["invalid_cursor", "invalid_request"]
    refused(await world.http.ask(`${FEED}?after=1&after=1`), 400, codes, "after twice")
  }, { source: "docs/decisions/1" }),
  rule("unknown-query", "Unknown query parameters are ignored.", async (world) => {
    same(
      (await page(world, `?after=${Number.MAX_SAFE_INTEGER}&color=red&color=blue&since=x`)).json.value,
      { data: [], nextCursor: Number.MAX_SAFE_INTEGER },
      "the page with unknown parameters:"
    )
  }, { source: "docs/decisions/1" }),
  rule("key", "Without a valid key: 401 with the challenge.", async (world) => {
    const bare = await world.http.ask(FEED, { key: null })
    if (world.options.contract) {
      refused(bare, 401, "unauthorized", "a feed without a key")
      return holds(/^Bearer\b/u.test(bare.header("www-authenticate") ?? ""), "a Bearer challenge", bare.header("www-authenticate"))
    }
    unauthorized(bare, REALM, "a feed without a key")
    unauthorized(await world.http.ask(FEED, { key: "nonsense" }), INVALID, "a feed with a malformed key")
  }, { source: "docs/interface.md 5" }),
  rule("scope", "A key without the scope sandboxes: 403 with a challenge that names it.", async (world) => {
    insufficientScope(await world.http.ask(FEED, { key: world.options.noScopeKey }))
  }, { needs: ["no-scope-key"], source: "docs/decisions/9" }),
  rule("own", "No event is in the feeds of two grants.", async (world) => {
    const [ours, theirs] = [ids(await page(world, "")), ids(await page(world, "", world.otherKey))]
    if (ours.length + theirs.length === 0) throw new Skip("neither grant has partner events")
    same(theirs.filter((id) => ours.includes(id)), [], "events in both feeds")
  }, { needs: ["other-key"], source: "docs/interface.md 1" }),
  rule("wrong-method", "A wrong method is 405 method_not_allowed with Allow.", async (world) => {
    for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
      const reply = refused(await world.http.ask(FEED, { method }), 405, "method_not_allowed", method)
      same((reply.header("allow") ?? "").split(",").map((method) => method.trim()).sort(), ["GET", "HEAD", "OPTIONS"], "Allow")
    }
  }, { source: "docs/decisions/1" })
]
