/** Authentication, rates and ownership. */
import { answered, type Ask, errorBody, refused, type Reply, summary } from "../client/Client.ts"
import { holds, same, Skip } from "../client/Expect.ts"
import { API, SANDBOXES, UNKNOWN, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

/** The challenge without a key. */
export const REALM = "Bearer realm=\"slipway\""
/** The challenge to a bad key. */
export const INVALID = `${REALM}, error="invalid_token", error_description="The API key is not valid."`

const rule = rulesOf("authentication", "docs/decisions/9")
const owned = rulesOf("ownership", "docs/decisions/1")

/** Misses the rule unless the reply is a 401 with this challenge. */
export const unauthorized = (reply: Reply, challenge: string, to: string) => {
  refused(reply, 401, "unauthorized", to)
  same(reply.header("www-authenticate"), challenge, `WWW-Authenticate to ${to}:`)
  return reply
}

/** Misses the rule unless the reply is a 403 for a missing scope. */
export const insufficientScope = (reply: Reply) => {
  refused(reply, 403, "insufficient_scope", "a key without the scope")
  same(reply.header("www-authenticate"), `${REALM}, error="insufficient_scope", scope="sandboxes"`, "WWW-Authenticate:")
}

/** The key with its last character changed. */
const altered = ({ options: { key } }: World) => `${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`

const withAuthorization = (world: World, authorization: string | ReadonlyArray<string>, path = SANDBOXES) =>
  world.http.ask(path, { key: null, headers: { authorization } })

const endpoints: ReadonlyArray<readonly [method: string, path: string]> = [
  ["GET", SANDBOXES],
  ["POST", SANDBOXES],
  ["GET", UNKNOWN],
  ["POST", `${UNKNOWN}/terminate`],
  ["POST", `${UNKNOWN}/interrupt`],
  ["POST", `${UNKNOWN}/restore`],
  ["POST", `${UNKNOWN}/fork`],
  ["POST", `${UNKNOWN}/approvals/a`],
  ["POST", `${UNKNOWN}/questions/a`],
  ["GET", `${UNKNOWN}/messages`],
  ["GET", `${UNKNOWN}/checkpoints`],
  ["GET", `${UNKNOWN}/setup`],
  ["POST", `${UNKNOWN}/messages`],
  ["GET", `${UNKNOWN}/events`],
  ["GET", `${UNKNOWN}/events/stream`],
  ["GET", `${UNKNOWN}/files/tree`],
  ["GET", `${UNKNOWN}/files/download`],
  ["GET", `${UNKNOWN}/files/content`],
  ["GET", `${UNKNOWN}/files/diff`],
  ["GET", `${UNKNOWN}/pull-request`],
  ["POST", `${UNKNOWN}/pull-request`],
  ["GET", `${API}/events`]
]

/** Paths that the interface does not name, which are our own. */
const OWN = /\/(?:restore|fork|messages|checkpoints|setup|content|diff)$/u
const endpointsOf = ({ options: { contract } }: World) =>
  endpoints.filter(([method, path]) => !contract || !OWN.test(path) && `${method} ${path}` !== `GET ${UNKNOWN}/pull-request`)

const before = (name: string, what: string, path: string, ask: Ask) =>
  rule(`before-${name}`, `A request without a key is 401 before ${what}.`, async (world) => {
    refused(
      await world.http.ask(path, { ...ask, key: null }),
      401,
      "unauthorized",
      `${ask.method ?? "a request"} without a key`
    )
  }, { source: "docs/decisions/1" })

const authentication = [
  rule("missing", "No key: 401 with a Bearer challenge that names the realm and no error.", async (world) => {
    unauthorized(await world.http.ask(SANDBOXES, { key: null }), REALM, "a request without a key")
  }),
  rule("other-scheme", "Another scheme, or none, is answered like no key.", async (world) => {
    for (const value of ["Basic dXNlcjpwYXNz", world.options.key]) {
      unauthorized(await withAuthorization(world, value), REALM, "another scheme")
    }
  }),
  rule("invalid", "A key that is not valid: 401 with error=\"invalid_token\".", async (world) => {
    unauthorized(await withAuthorization(world, `Bearer ${altered(world)}`), INVALID, "an altered key")
    unauthorized(await withAuthorization(world, "Bearer nonsense"), INVALID, "a malformed key")
  }),
  rule("same-answer", "Malformed and unknown keys get the same words.", async (world) => {
    const replies = [
      await withAuthorization(world, `Bearer ${altered(world)}`),
      await withAuthorization(world, "Bearer x")
    ]
    same(replies[1]?.text, replies[0]?.text, "body for a malformed key:")
  }),
  rule("one-space", "One space after the scheme and nothing after the key.", async (world) => {
    const { key } = world.options
    for (const value of [`Bearer  ${key}`, `Bearer ${key} x`, `Bearer ${key},`, "Bearer"]) {
      unauthorized(await withAuthorization(world, value), INVALID, value.replace(key, "<key>"))
    }
  }),
  rule("two-headers", "Two Authorization headers are 401.", async (world) => {
    const { key } = world.options
    unauthorized(
      await withAuthorization(world, [`Bearer ${key}`, `Bearer ${key}`]),
      INVALID,
      "two Authorization headers"
    )
  }),
  rule("scheme-case", "The scheme is taken in any case.", async (world) => {
    for (const scheme of ["bearer", "BEARER"]) {
      answered(await withAuthorization(world, `${scheme} ${world.options.key}`, `${SANDBOXES}?limit=1`), 200, scheme)
    }
  }),
  rule("query", "Keys in the query are never read.", async (world) => {
    const { key } = world.options
    refused(
      await world.http.ask(`${SANDBOXES}?access_token=${key}&key=${key}&api_key=${key}`, { key: null }),
      401,
      "unauthorized",
      "a key in the query"
    )
  }),
  rule("every-endpoint", "Every endpoint needs a key.", async (world) => {
    for (const [method, path] of endpointsOf(world)) {
      refused(
        await world.http.ask(path, { method, key: null }),
        401,
        "unauthorized",
        `${method} ${path.slice(API.length)} without a key`
      )
    }
  }, { source: "docs/interface.md 4" }),
  before("404", "an unknown route", "/api/nothing", {}),
  before("405", "a wrong method", SANDBOXES, { method: "DELETE" }),
  before("400", "an invalid query", `${SANDBOXES}?limit=0`, {}),
  before("413", "a body that is too large", SANDBOXES, { body: " ".repeat(2 ** 20 + 1) }),
  before("415", "a body of another type", SANDBOXES, { body: "x", headers: { "content-type": "text/plain" } }),
  rule("scope", "A key without the scope: 403 with a challenge that names it.", async (world) => {
    insufficientScope(await world.http.ask(SANDBOXES, { key: world.options.noScopeKey }))
  }, { needs: ["no-scope-key"] }),
  rule("scope-before-404", "A key without the scope is 403 before an unknown route or sandbox.", async (world) => {
    for (const path of ["/api/nothing", UNKNOWN]) {
      refused(await world.http.ask(path, { key: world.options.noScopeKey }), 403, "insufficient_scope", path)
    }
  }, { needs: ["no-scope-key"], source: "docs/decisions/1" })
]

const rate = rulesOf("rates", "docs/decisions/10")

const POLICY = /^"default";q=(\d+);w=60$/u
const LIMIT = /^"default";r=(\d+);t=(\d+)$/u

const left = (reply: Reply) => {
  const found = LIMIT.exec(reply.header("ratelimit") ?? "")
  holds(found !== null, "RateLimit as \"default\";r=<left>;t=<seconds>", reply.header("ratelimit"))
  return Number(found?.[1])
}

const rates = [
  rate("policy", "RateLimit-Policy says how many requests a key has in 60 seconds.", async (world) => {
    const value = (await world.http.ask(`${SANDBOXES}?limit=1`)).header("ratelimit-policy")
    holds(Number(POLICY.exec(value ?? "")?.[1]) >= 1, "RateLimit-Policy as \"default\";q=<requests>;w=60", value)
  }),
  rate("left", "RateLimit says how many are left and when it grows.", async (world) => {
    const reply = await world.http.ask(`${SANDBOXES}?limit=1`)
    const q = Number(POLICY.exec(reply.header("ratelimit-policy") ?? "")?.[1] ?? Number.POSITIVE_INFINITY)
    holds(left(reply) < q, "fewer left than there were", reply.header("ratelimit"))
  }),
  rate("counts", "Each accepted request takes one.", async (world) => {
    // A slot may become free in between, so one of several pairs is enough.
    const seen: Array<number> = []
    for (let i = 0; i < 4; i++) seen.push(left(await world.http.ask(UNKNOWN)))
    holds(
      seen.some((value, i) => value === (seen[i - 1] ?? Number.NaN) - 1),
      "the number that is left to fall by one",
      seen
    )
  }),
  rate("on-refusals", "Refusals with a known key carry the rate headers, too.", async (world) => {
    for (const reply of [await world.http.ask("/api/nothing"), await world.http.ask(`${SANDBOXES}?limit=0`)]) {
      holds(
        POLICY.test(reply.header("ratelimit-policy") ?? ""),
        `RateLimit-Policy with ${summary(reply)}`,
        reply.header("ratelimit-policy")
      )
      left(reply)
    }
  }),
  rate("retry-after", "Each 429 that was met says when to come back, in seconds.", async (world) => {
    await world.http.ask(`${SANDBOXES}?limit=1`)
    if (world.refusals.length === 0) throw new Skip("no 429 was met, and none is provoked")
    for (const reply of world.refusals) {
      errorBody(reply, "429")
      refused(reply, 429, "rate_limited", "too many requests")
      holds(
        /^[1-9]\d*$/u.test(reply.header("retry-after") ?? ""),
        "Retry-After of at least 1 s",
        reply.header("retry-after")
      )
      // Limits other than the key's rate limit have no RateLimit header, or a positive one.
      const [, left, grows] = LIMIT.exec(reply.header("ratelimit") ?? "") ?? []
      if (left === "0") same(grows, reply.header("retry-after"), "t of RateLimit")
    }
  }, { source: "docs/interface.md 7" })
]

const ofSandboxes: ReadonlyArray<readonly [name: string, method: string, path: string, body?: object]> = [
  ["sandbox", "GET", ""],
  ["terminate", "POST", "/terminate"],
  ["interrupt", "POST", "/interrupt"],
  ["restore", "POST", "/restore", { checkpoint: 1 }],
  ["sync", "POST", "/sync"],
  ["feedback", "POST", "/feedback", { text: "x" }],
  ["resume-feedback", "POST", "/feedback/resume"],
  ["fork", "POST", "/fork", { prompt: "x" }],
  ["approval", "POST", "/approvals/<approval>", { decision: "approve" }],
  ["send-message", "POST", "/messages", { prompt: "x" }],
  ["messages", "GET", "/messages"],
  ["checkpoints", "GET", "/checkpoints"],
  ["setup", "GET", "/setup"],
  ["events", "GET", "/events"],
  ["stream", "GET", "/events/stream"],
  ["tree", "GET", "/files/tree"],
  ["download", "GET", "/files/download?path=README.md"],
  ["content", "GET", "/files/content?path=README.md"],
  ["diff", "GET", "/files/diff"],
  ["publish", "POST", "/pull-request", {}],
  ["pull-request", "GET", "/pull-request"]
]

/** The parts of a reply that do not differ between any two. */
const told = ({ headers, status, text }: Reply) => {
  const { date: _date, ratelimit: _ratelimit, "x-request-id": _id, ...rest } = headers
  return { status, headers: rest, text }
}

const foreign = async (world: World, method: string, path: string, body?: object) => {
  const { approval, box } = await world.foreign()
  const ask = { method, ...(body === undefined ? {} : { body }), key: world.options.key }
  const rest = path.replace("<approval>", encodeURIComponent(approval))
  return {
    theirs: await world.http.ask(`${box.path}${rest}`, ask),
    nobodys: await world.http.ask(`${UNKNOWN}${rest}`, ask)
  }
}

/** Another grant's sandbox must give exactly the answers of a sandbox that does not exist. */
const ownership = [
  ...ofSandboxes.map(([name, method, path, body]) =>
    owned(
      name,
      `${method} ${path === "" ? "of the sandbox" : path.replace(/\?.*/u, "")} answers for another grant's sandbox as for an unknown one.`,
      async (world) => {
        const { nobodys, theirs } = await foreign(world, method, path, body)
        refused(theirs, 404, "not_found", "another grant's sandbox")
        same(told(theirs), told(nobodys), "the answer:")
      },
      { needs: ["repo", "other-key"] }
    )
  ),
  owned("untouched", "Commands of another grant change nothing.", async (world) => {
    const { box } = await world.foreign()
    for (const [, method, path, body] of ofSandboxes) if (method === "POST") await foreign(world, method, path, body)
    const json = answered(await world.get(box), 200, "the sandbox").json
    same([json.at("status").value, json.at("turn").value], ["running", { active: true }], "status and turn")
  }, { needs: ["repo", "other-key"] })
]

/** The rules of this file. */
export const rules = [...authentication, ...rates, ...ownership]
