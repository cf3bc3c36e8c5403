/**
 * For each rule of the suite at least one defect that it must notice. What a defect is called says what the planted
 * server does wrong; what it does is as small as that.
 */
import { randomUUID } from "node:crypto"
import type { Answer, Asked, Plant } from "./PlantedServer.ts"

// ---------------------------------------------------------------------------------------------------------------
// Ways to spoil

type Where = (asked: Asked, answer: Answer) => boolean

const pathOf = ({ path }: Asked) => path.replace(/\?.*$/su, "")
const at = (path: RegExp, method?: string): Where => (asked) =>
  path.test(pathOf(asked)) && (method === undefined || asked.method === method)
const always: Where = () => true
const asks = (text: string | RegExp): Where => ({ body, path }) => {
  const all = `${path}\n${body.toString("utf8")}`
  return typeof text === "string" ? all.includes(text) : text.test(all)
}
const both = (a: Where, b: Where): Where => (asked, answer) => a(asked, answer) && b(asked, answer)
/** The query does not name the parameter. */
const lacks = (name: string): Where => ({ path }) => !path.includes(`${name}=`)
const failed: Where = (_asked, { status }) => status >= 400

const CREATE = at(/\/sandboxes$/u, "POST")
const LIST = at(/\/sandboxes$/u, "GET")
const ONE = at(/\/sandboxes\/[^/]+$/u)
const EVENTS = at(/\/events$/u, "GET")
const STREAM = at(/\/events\/stream$/u)
const FEED = at(/\/v1\/events$/u)
const TREE = at(/\/files\/tree$/u)
const DOWNLOAD = at(/\/files\/download$/u)
const CONTENT = at(/\/files\/content$/u)
const DIFF = at(/\/files\/diff$/u)
const PULL = at(/\/pull-request$/u)
const UPLOAD = at(/\/v1\/files$/u, "POST")
const UPLOADED = at(/\/v1\/files\/[^/]+$/u)
const UPLOADED_BYTES = at(/\/v1\/files\/[^/]+\/content$/u)
const REVIEWS = at(/\/pull-request\/reviews$/u)
const AUTOMATIONS = at(/\/automations$/u, "GET")
const AUTOMATE = at(/\/automations$/u, "POST")
const AUTOMATION = at(/\/automations\/[^/]+$/u)
const ANY_AUTOMATION = at(/\/automations\//u)
const RUNS = at(/\/automations\/[^/]+\/runs$/u)
const TRIGGER = at(/\/automations\/[^/]+\/trigger$/u)
const PUBLISH = at(/\/pull-request$/u, "POST")
const MESSAGES = at(/\/messages$/u)
const CHECKPOINTS = at(/\/checkpoints$/u)
const SETUP = at(/\/setup$/u)
const SEND = at(/\/messages$/u, "POST")
const TAKE_BACK = at(/\/messages\/[^/]+$/u, "DELETE")
const TERMINATE = at(/\/terminate$/u)
const INTERRUPT = at(/\/interrupt$/u)
const RESTORE = at(/\/restore$/u)
const FORK = at(/\/fork$/u)
const SYNC = at(/\/sync$/u)
const FEEDBACK = at(/\/feedback$/u)
const RESUME = at(/\/feedback\/resume$/u)
const DECIDE = at(/\/approvals\//u)
const ANSWER = at(/\/questions\//u)
const OPENAPI = at(/^\/openapi\.json$/u)
const ENVIRONMENT = at(/^\/schemas\/environment\.json$/u)

const reply = (where: Where, change: (answer: Answer, asked: Asked) => Answer): Plant => ({
  reply: (answer, asked) => where(asked, answer) ? change(answer, asked) : answer
})
const ask = (change: (asked: Asked) => Asked | Answer): Plant => ({ ask: change })

/** Sets a header of the answer, or drops it. */
const header = (name: string, value: string | null | ((asked: Asked) => string), where: Where = always) =>
  reply(where, (answer, asked) => {
    const { [name]: _old, ...rest } = answer.headers
    return {
      ...answer,
      headers: value === null ? rest : { ...rest, [name]: typeof value === "string" ? value : value(asked) }
    }
  })

const bodyOf = (answer: Answer, value: unknown): Answer => ({ ...answer, body: Buffer.from(JSON.stringify(value)) })
const refusal = (answer: Answer, status: number, code: string): Answer => ({
  ...bodyOf(answer, { error: { code, message: "Planted." } }),
  status
})

/** Answers of one status become refusals of another. */
const instead = (of: number, status: number, code: string, where: Where = always) =>
  reply((asked, answer) => answer.status === of && where(asked, answer), (answer) => refusal(answer, status, code))
/** Requests are refused, and do not reach the real server. */
const refuses = (status: number, code: string, where: Where) => {
  const none: Answer = { status: 0, headers: { "content-type": "application/json" }, body: Buffer.alloc(0) }
  return ask((asked) => where(asked, none) ? refusal(none, status, code) : asked)
}
/** Answers of one status get another, body and headers as they are. */
const status = (of: number, to: number, where: Where = always) =>
  reply((asked, answer) => answer.status === of && where(asked, answer), (answer) => ({ ...answer, status: to }))
const code = (to: string, where: Where = failed) => reply(both(failed, where), (answer) => refusal(answer, answer.status, to))
/** Refusals become a success with that body. */
const succeeds = (of: number, body: unknown, where: Where = always) =>
  reply(
    (asked, answer) => answer.status === of && where(asked, answer),
    (answer) => ({ ...bodyOf(answer, body), status: 200 })
  )
const EMPTY_PAGE = { data: [], nextCursor: null }
const EMPTY_FEED = { data: [], nextCursor: 0 }

type Change = (old: unknown, parent: unknown) => unknown
/** Changes what a path leads to; `*` stands for every item. What becomes `undefined` is gone. */
const editIn = (value: unknown, path: ReadonlyArray<string>, change: Change, parent: unknown = undefined): unknown => {
  const [key, ...rest] = path
  if (key === undefined) return change(value, parent)
  if (key === "*") return Array.isArray(value) ? value.map((item) => editIn(item, rest, change, value)) : value
  if (Array.isArray(value)) return value.map((item, i) => String(i) === key ? editIn(item, rest, change, value) : item)
  const object: object = typeof value === "object" && value !== null ? value : {}
  if (rest.length > 0 && !Object.hasOwn(object, key)) return value
  return { ...object, [key]: editIn(Reflect.get(object, key), rest, change, object) }
}
const edit = (path: string, change: Change, where: Where = always): Plant =>
  reply(where, (answer) => {
    const { headers, body } = answer
    if (headers["content-type"]?.startsWith("application/json") !== true || body.length === 0) return answer
    return bodyOf(answer, editIn(JSON.parse(body.toString("utf8")), path === "" ? [] : path.split("."), change))
  })
const set = (path: string, value: unknown, where?: Where) => edit(path, () => value, where)
const reversed = (path: string, where?: Where) => edit(path, (old) => Array.isArray(old) ? [...old].reverse() : old, where)
const text = (old: unknown) => typeof old === "string" ? old : ""
const number = (old: unknown) => typeof old === "number" ? old : 0

const query = (change: (query: string) => string, where: (asked: Asked) => boolean = () => true) =>
  ask((asked) => {
    if (!where(asked)) return asked
    const [path = "", given] = asked.path.split(/\?(.*)/su)
    if (given === undefined) return asked
    const left = change(given)
    return { ...asked, path: left === "" ? path : `${path}?${left}` }
  })
const without = (name: string) => query((given) => given.split("&").filter((pair) => !pair.startsWith(`${name}=`)).join("&"))

/** Changes headers of the request. */
const headers = (change: (lines: Asked["headers"]) => Asked["headers"]) => ask((asked) => ({ ...asked, headers: change(asked.headers) }))
const withoutHeader = (name: string) => headers((lines) => lines.filter(([other]) => other.toLowerCase() !== name))
const setHeader = (name: string, value: (lines: Asked["headers"]) => string | undefined) =>
  headers((lines) => {
    const given = value(lines)
    return given === undefined ? lines : [...lines.filter(([other]) => other.toLowerCase() !== name), [name, given]]
  })
const lineOf = (lines: Asked["headers"], name: string) => lines.find(([other]) => other.toLowerCase() === name)?.[1]
const body = (change: (body: string) => string) => ask((asked) => ({ ...asked, body: Buffer.from(change(asked.body.toString("utf8"))) }))

interface LogEvent {
  readonly id?: string
  readonly type: string
  readonly ts: string
  readonly turn_id?: string
  readonly data: Readonly<Record<string, unknown>>
}
/** Changes the list of events. */
const log = (change: (events: ReadonlyArray<LogEvent>) => ReadonlyArray<object>) =>
  edit(
    "data",
    (old) => change(old as ReadonlyArray<LogEvent>),
    (asked, answer) => EVENTS(asked, answer) && answer.status === 200
  )
/** Changes or drops each event of a type. */
const each = (type: string, change: (event: LogEvent) => object | null) =>
  log((events) => events.flatMap((event) => event.type === type ? change(event) ?? [] : event))
const dataOf = (type: string, name: string, value: unknown) => each(type, (event) => ({ ...event, data: { ...event.data, [name]: value } }))
/** A log that ends with what was used, in these tokens. */
const used = (tokens: object) =>
  log((events) =>
    events.length === 0 ? events : [...events, {
      ...events.at(-1),
      type: "usage.updated",
      data: { usage: { llmRequestCount: 1, costMicroUsd: 2, creditsChargedMicros: 0 }, tokens }
    }]
  )
const first = (events: ReadonlyArray<LogEvent>, type: string, change: (event: LogEvent) => ReadonlyArray<object>) => {
  const i = events.findIndex((event) => event.type === type)
  return events.flatMap((event, j) => i === j ? change(event) : event)
}
const last = (events: ReadonlyArray<LogEvent>, type: string, change: (event: LogEvent) => ReadonlyArray<object>) => {
  const i = events.findLastIndex((event) => event.type === type)
  return events.flatMap((event, j) => i === j ? change(event) : event)
}

/** Changes the command that approvals show. */
const previews = (change: (command: string) => string) =>
  each("approval.requested", (event) => {
    const preview = event.data["preview"] as { readonly command?: string } | undefined
    return { ...event, data: { ...event.data, preview: { ...preview, command: change(preview?.command ?? "") } } }
  })

const feed = (page: unknown) => page as { readonly data: ReadonlyArray<object> }
/** Changes the data of the feed's events of a type. */
const told = (type: string, change: (data: object) => object) =>
  edit("data.*", (old) => {
    const event = old as { readonly type: string; readonly data: object }
    return event.type === type ? { ...event, data: change(event.data) } : event
  }, FEED)

/** The feed without a query as if with that one. */
const unasked = (query: string) => ask((asked) => asked.path.endsWith("/v1/events") ? { ...asked, path: `${asked.path}?${query}` } : asked)

const blocks = (block: Plant["block"] & {}): Plant => ({ block })
/** Changes the data of transient events of a type. */
const transient = (type: string, path: string, change: Change) =>
  blocks((block) => [
    block.startsWith("data:") && block.includes(`"type":"${type}"`)
      ? `data: ${JSON.stringify(editIn(JSON.parse(block.slice(5)), path.split("."), change))}`
      : block
  ])
const isDurable = (block: string) => block.startsWith("id:")
/** Does something to the n-th durable frame. */
const durable = (n: number, change: (block: string) => ReadonlyArray<string>): Plant => {
  let seen = 0
  return blocks((block, i) => {
    if (i === 0) seen = 0
    return isDurable(block) && seen++ === n ? change(block) : [block]
  })
}

const ANOTHER_UUID = "6ba7b810-9dad-51d1-80b4-00c04fd430c8"
/** As an id that was drawn, not derived. */
const drawn = (name: string, where: Where) => set(name, ANOTHER_UUID, where)

const INVALID = "Bearer realm=\"slipway\", error=\"invalid_token\", error_description=\"The API key is not valid.\""
const isProbe = CREATE

/** Takes bodies that it should refuse; what is good goes through. */
const lenient = instead(400, 409, "idempotency_conflict", isProbe)
/** Refuses bodies that it should take. */
const strict = instead(409, 400, "invalid_request", isProbe)
const edges = { "takes what is beyond the limit": lenient, "refuses what is within the limit": strict }

/** Tells another grant's sandbox from a missing one. */
const tells = (where: Where) => ({
  "refuses instead of not finding": instead(
    404,
    403,
    "forbidden",
    both(where, (asked) => !asked.path.includes("zzzz"))
  ),
  "says more": reply(
    both(where, (asked, answer) => answer.status === 404 && !asked.path.includes("zzzz")),
    (answer) => bodyOf(answer, { error: { code: "not_found", message: "It is another grant's." } })
  )
})

export interface Keys {
  readonly key: string
  readonly otherKey: string
}

// ---------------------------------------------------------------------------------------------------------------

/** By rule, the defects by what they are. */
export const plants = ({ key, otherKey }: Keys): Readonly<Record<string, Readonly<Record<string, Plant>>>> => ({
  "wire.timestamps": {
    "no fraction": set("createdAt", "2026-11-21T02:41:00Z", CREATE),
    "an offset": set("data.*.createdAt", "2026-11-21T02:41:00.123+00:00", LIST)
  },
  "wire.request-id": {
    "no request id": header("x-request-id", null),
    "one for all": header("x-request-id", "req_01ARZ3NDEKTSV4RRFFQ69G5FAV")
  },
  "wire.request-id-own": {
    "echoes the caller's": header("x-request-id", (asked) => lineOf(asked.headers, "x-request-id") ?? "")
  },
  "wire.no-store": { "may be cached": header("cache-control", null, failed) },
  "wire.nosniff": { "may be sniffed": header("x-content-type-options", null) },
  "wire.content-type": { "no charset": header("content-type", "application/json") },
  "wire.error-body": {
    "one member more": set("error.detail", "x", failed),
    "no message": set("error.message", undefined, failed),
    "HTML for unknown routes": reply(
      (_asked, { status }) => status === 404,
      (answer) => ({ ...answer, body: Buffer.from("<h1>Not found</h1>") })
    )
  },
  "wire.unknown-route": { "another code": code("route_not_found") },
  "wire.unknown-object": { "410": instead(404, 410, "gone") },
  "wire.wrong-method": {
    "no Allow": header("allow", null),
    "404": instead(405, 404, "not_found"),
    "another Allow": header("allow", "GET, POST")
  },
  "wire.405-before-400": { "the id first": instead(405, 400, "invalid_request") },
  "wire.too-large": { "400": instead(413, 400, "invalid_request") },
  "wire.too-large-chunked": {
    "looks at Content-Length only": instead(
      413,
      400,
      "invalid_request",
      ({ headers }) => lineOf(headers, "transfer-encoding") !== undefined
    )
  },
  "wire.not-too-large": { "a byte too strict": instead(409, 413, "payload_too_large") },
  "wire.media-type": { "does not look": setHeader("content-type", () => "application/json") },
  "wire.charset": {
    "does not look": setHeader("content-type", () => "application/json"),
    "takes none": instead(200, 415, "unsupported_media_type")
  },
  "wire.content-encoding": { "does not look": withoutHeader("content-encoding") },
  "wire.415-before-400": { "the body first": instead(415, 400, "invalid_request") },
  "wire.400-before-404": { "the sandbox first": instead(400, 404, "not_found") },
  "wire.no-json": { "fails": instead(400, 500, "internal_error") },
  "wire.no-utf8": { "reads it somehow": body((given) => given) },
  "wire.bom": { "drops it": body((given) => given.replace("\ufeff", "")) },
  "wire.nesting": { "fails": instead(400, 500, "internal_error") },
  "wire.unknown-property": { "drops it": body((given) => given.replaceAll(",\"color\":\"red\"", "")) },
  "wire.wrong-type": { "converts": lenient },
  "wire.duplicate-keys": {
    "the first counts": body((given) => given.replace(/("prompt":"another",)(.*)"prompt":"[^"]*",/u, "$1$2"))
  },
  "wire.proto-key": { "drops it": body((given) => given.replace("\"__proto__\":\"x\"", "")) },
  "wire.bodyless": {
    "does not look": ask((asked) => ({ ...asked, body: Buffer.alloc(0) })),
    "refuses {}": instead(404, 400, "invalid_request", ({ body }) => body.length > 0)
  },
  "wire.empty-body-type": { "looks at the type all the same": instead(404, 415, "unsupported_media_type") },
  "wire.unknown-query": { "refuses it": instead(200, 400, "invalid_request", asks("color")) },
  "wire.repeated-query": { "the last counts": query((given) => given.replace("limit=1&", "")) },
  "wire.empty-query": { "as if it were not there": query((given) => given.replace(/^\w+=$/u, "")) },
  "wire.query-integers": { "reads any number": query((given) => given.replace(/limit=(?!one).*/u, "limit=1")) },
  "wire.query-overflow": { "fails": instead(400, 500, "internal_error") },
  "wire.head": {
    "no type": header("content-type", null, ({ method }) => method === "HEAD"),
    "another status": status(404, 200, ({ method }) => method === "HEAD")
  },
  "wire.head-stream": { "200": status(405, 200) },
  "wire.options": { "200": status(204, 200), "no Allow": header("allow", null) },
  "wire.options-key": { "answers anybody": status(401, 204) },
  "wire.malformed-id": { "404": instead(400, 404, "not_found") },
  "wire.broken-encoding": { "404": instead(400, 404, "not_found") },
  "wire.decoded-length": {
    "counts before decoding": instead(404, 400, "invalid_request", ({ path }) => path.length > 400),
    "does not count": instead(400, 404, "not_found")
  },
  "wire.links": {
    "follow Host": reply(ONE, (answer, asked) => {
      const host = lineOf(asked.headers, "host")
      return {
        ...answer,
        body: Buffer.from(answer.body.toString("utf8").replaceAll(/https?:\/\/[^/"]+/gu, `http://${host}`))
      }
    }),
    "relative": edit("links.self", (old) => text(old).replace(/^https?:\/\/[^/]+/u, ""), CREATE)
  },
  "wire.parser": { "what Node says by itself": {} },
  "wire.headers-too-large": { "what Node says by itself": {} },
  "wire.host": {
    "takes the first": setHeader("host", (lines) => lineOf(lines, "host") ?? "a"),
    "does not look at it": headers((lines) =>
      lines.map(([name, value]) => [name, name.toLowerCase() === "host" && value !== "" ? "a" : value])
    )
  },
  "wire.transfer-encoding": { "what Node says by itself": {} },
  "wire.http-version": { "what Node says by itself": {} },
  "wire.in-order": { "what Node says by itself": {} },
  "wire.trailing-slash": {
    "drops it": ask((asked) => ({ ...asked, path: asked.path.replace(/\/$/u, "") })),
    "drops it for POST": ask((asked) => asked.method === "POST" ? { ...asked, path: asked.path.replace(/\/$/u, "") } : asked),
    "takes it for a malformed id": instead(404, 400, "invalid_request")
  },

  "authentication.missing": {
    "no challenge": header("www-authenticate", null),
    "another one": header("www-authenticate", "Bearer")
  },
  "authentication.other-scheme": { "calls it an invalid token": header("www-authenticate", INVALID) },
  "authentication.invalid": { "no error": header("www-authenticate", "Bearer realm=\"slipway\"") },
  "authentication.same-answer": {
    "tells malformed keys": set(
      "error.message",
      "That is no key.",
      ({ headers }) => lineOf(headers, "authorization") === "Bearer x"
    )
  },
  "authentication.one-space": {
    "takes it apart kindly": setHeader("authorization", (lines) => lineOf(lines, "authorization")?.replace(/^(\w+) +(\w+).*$/u, "$1 $2"))
  },
  "authentication.two-headers": {
    "the first counts": setHeader("authorization", (lines) => lineOf(lines, "authorization"))
  },
  "authentication.scheme-case": {
    "only Bearer": instead(200, 401, "unauthorized", ({ headers }) => lineOf(headers, "authorization")?.startsWith("Bearer") === false)
  },
  "authentication.query": {
    "reads the query": ask((asked) => {
      const given = /access_token=(\w+)/u.exec(asked.path)?.[1]
      return given === undefined
        ? asked
        : { ...asked, headers: [...asked.headers, ["authorization", `Bearer ${given}`]] }
    })
  },
  "authentication.every-endpoint": { "one is open": instead(401, 404, "not_found", CONTENT) },
  "authentication.before-404": { "routes first": instead(401, 404, "not_found") },
  "authentication.before-405": { "routes first": instead(401, 405, "method_not_allowed") },
  "authentication.before-400": { "decodes first": instead(401, 400, "invalid_request") },
  "authentication.before-413": { "reads first": instead(401, 413, "payload_too_large") },
  "authentication.before-415": { "reads first": instead(401, 415, "unsupported_media_type") },
  "authentication.automation-unsigned": {
    "starts a run": succeeds(401, {}, TRIGGER),
    "tells that it is unsigned": instead(401, 403, "forbidden", TRIGGER)
  },
  "authentication.scope": {
    "no challenge": header("www-authenticate", null),
    "401": instead(403, 401, "unauthorized"),
    "does not look": setHeader("authorization", () => `Bearer ${key}`)
  },
  "authentication.scope-before-404": { "routes first": instead(403, 404, "not_found") },

  "creation.accepted": {
    "no Location": header("location", null, CREATE),
    "202": status(201, 202),
    "calls it replayed": header("idempotent-replayed", "true", CREATE)
  },
  "creation.fields": {
    "one less": set("usage", undefined, CREATE),
    "one more": set("grantId", "x", CREATE),
    "one less later": set("error", undefined, ONE)
  },
  "creation.initial": {
    "is creating": set("status", "creating", CREATE),
    "has a turn": set("turn", { active: true }, CREATE)
  },
  "creation.worktree": { "another": set("worktreeId", "w_aaaaaaaaaaaa", CREATE) },
  "creation.verbatim": {
    "trims": edit("title", (old) => text(old).trim(), CREATE),
    "normalises": edit("title", (old) => text(old).normalize(), CREATE)
  },
  "creation.model": { "null": set("model", null, CREATE) },
  "creation.metadata-default": { "null": set("metadata", null, CREATE) },
  "creation.repos": {
    "ref is null": edit("repos.*", (old) => ({ ref: null, ...old as object }), CREATE),
    "ref is gone": set("repos.*.ref", undefined, CREATE)
  },
  "creation.title-derived": { "spaces stay": set("title", "Fix   the\t  bug", CREATE) },
  "creation.title-cut": { "UTF-16": edit("title", (old) => text(old).slice(0, 120), CREATE) },
  "creation.title-untitled": { "empty": set("title", "", CREATE) },
  "creation.required": { "takes less": lenient },
  "creation.unknown-repo": {
    "is accepted": reply(both(CREATE, (_asked, { status }) => status === 403), (answer) => ({ ...bodyOf(answer, {}), status: 201 })),
    "another code": code("forbidden", CREATE),
    "does not say which": set("error.message", "Not accessible.", failed),
    "binds the key": instead(201, 409, "idempotency_conflict", CREATE)
  },
  "creation.unknown-model": { "another code": code("invalid_request"), "takes it": lenient },
  "creation.efforts": { "lacks one": instead(409, 400, "invalid_request", asks("xhigh")), "takes any": lenient },
  "creation.mcp-servers": edges,
  "creation.approval-mode": {
    "takes any": lenient,
    "lacks one": instead(409, 400, "approvals_unsupported", asks("\"prompt\"}"))
  },
  "creation.environment": {
    "drops it": body((given) => given.replace(/,"environment":\{[^}]*\}/u, "")),
    "drops what a shell could read": body((given) => given.replace(" $HOME", ""))
  },

  "limits.prompt": edges,
  "limits.title": edges,
  "limits.code-points": edges,
  "limits.model": { "takes what is beyond the limit": lenient, "knows one code": code("invalid_request") },
  "limits.metadata-key": edges,
  "limits.metadata-value": edges,
  "limits.metadata-pairs": edges,
  "limits.repos": edges,
  "limits.repos-distinct": edges,
  "limits.full-name": edges,
  "limits.full-name-rules": edges,
  "limits.ref": edges,
  "limits.ref-rules": edges,
  "limits.budget": edges,
  "limits.environment-names": edges,
  "limits.environment-values": edges,
  "limits.environment-size": edges,
  "limits.not-storable": { "takes them": lenient, "fails": instead(400, 500, "internal_error") },
  "limits.all-at-once": { "cuts": edit("title", (old) => text(old).slice(0, 100), CREATE) },

  "idempotency.replayed": {
    "does not say so": header("idempotent-replayed", null),
    "201": status(200, 201, CREATE),
    "no Location": header("location", null),
    "another sandbox": withoutHeader("idempotency-key")
  },
  "idempotency.current": {
    "as it was": set("status", "queued", CREATE),
    "as it was, mostly": set("startedAt", "2026-11-21T02:41:00.123Z", CREATE)
  },
  "idempotency.changed": { "replays": status(409, 200) },
  "idempotency.spelling": { "compares bytes": instead(200, 409, "idempotency_conflict") },
  "idempotency.model": { "fills it in": status(409, 200) },
  "idempotency.array-order": { "sorts": status(409, 200) },
  "idempotency.normalisation": { "normalises": status(409, 200) },
  "idempotency.concurrent": {
    "makes one each": withoutHeader("idempotency-key"),
    "refuses the others": instead(200, 409, "idempotency_conflict")
  },
  "idempotency.key-rules": { "takes any": withoutHeader("idempotency-key"), "another code": code("invalid_request") },
  "idempotency.raw-key": {
    "folds case": setHeader("idempotency-key", (lines) => lineOf(lines, "idempotency-key")?.toLowerCase())
  },
  "idempotency.refused-attempt": { "remembers it": instead(201, 409, "idempotency_conflict") },
  "idempotency.no-key": { "makes one up": setHeader("idempotency-key", () => "planted") },
  "idempotency.other-grant": {
    "one for all": instead(
      201,
      409,
      "idempotency_conflict",
      ({ headers }) => lineOf(headers, "authorization") === `Bearer ${otherKey}`
    )
  },

  "list.shape": { "one member more": set("total", 1, LIST), "other sandboxes": set("data.*.title", "x", LIST) },
  "list.order": { "oldest first": reversed("data", LIST) },
  "list.newest": {
    "late": ask((asked) => ({ ...asked, path: asked.path.replace("limit=1", "limit=2") })),
    "one missing": edit("data", (old) => Array.isArray(old) ? old.slice(1) : old, LIST)
  },
  "list.pages": {
    "each page is the first": without("after"),
    "overlap": edit("data", (old) => Array.isArray(old) && old.length === 2 ? [old[0], old[0]] : old, LIST),
    "short": edit("data", (old) => Array.isArray(old) && old.length === 2 ? [old[0]] : old, LIST)
  },
  "list.last-page": { "never null": set("nextCursor", "x", LIST) },
  "list.limit": {
    "takes any": query((given) => given.replace("limit=101", "limit=100").replace("limit=0", "limit=1")),
    "looks at none": without("limit")
  },
  "list.status": { "does not look": without("status") },
  "list.status-unknown": { "does not look": without("status") },
  "list.repo": {
    "does not look": without("repo"),
    "minds the case": reply(both(LIST, asks("ACME")), (answer) => bodyOf(answer, EMPTY_PAGE))
  },
  "list.repo-any": { "the first only": reply(LIST, (answer) => bodyOf(answer, EMPTY_PAGE)) },
  "list.repo-malformed": { "does not look": without("repo") },
  "list.cursor-filter": { "bound to a filter": instead(200, 400, "invalid_cursor", asks("status=")) },
  "list.cursor-tampered": { "takes forged ones": succeeds(400, EMPTY_PAGE), "another code": code("invalid_request") },
  "list.cursor-length": { "does not look": without("after"), "fails": instead(400, 500, "internal_error") },
  "list.cursor-foreign": { "takes it": succeeds(400, EMPTY_PAGE) },
  "list.own": { "everybody's": setHeader("authorization", () => `Bearer ${key}`) },

  "lifecycle.boot": {
    "never creating": log((events) => events.filter(({ data, type }) => type !== "sandbox.status" || data["status"] !== "creating")),
    "another cause": dataOf("sandbox.status", "initiator", "system")
  },
  "lifecycle.setup": {
    "one more": set("told", "x", SETUP),
    "began, but does not exist": set("startedAt", "2026-11-21T02:41:00.123Z", SETUP)
  },
  "lifecycle.first-turn": {
    "a turn before running": each("sandbox.boot", (event) => ({ ...event, turn_id: ANOTHER_UUID }))
  },
  "lifecycle.turn": {
    "not started": each("turn.started", () => null),
    "ends twice": each("turn.completed", (event) => [event, event])
  },
  "lifecycle.running-persists": { "ends with its turn": set("status", "succeeded", ONE) },
  "lifecycle.active-turn": { "not active": set("turn", { active: false }, ONE) },
  "lifecycle.awaiting-approval": {
    "not active": set("turn", { active: false }, ONE),
    "does not say so": dataOf("turn.updated", "state", "running")
  },
  "lifecycle.started-at": {
    "not started": set("startedAt", null, ONE),
    "completed": set("completedAt", "2026-11-21T02:41:00.123Z", ONE)
  },
  "lifecycle.completed-at": {
    "not completed": set("completedAt", null, ONE),
    "anew each time": edit(
      "completedAt",
      () => new Date().toISOString().replace(/\d{3}Z/u, `${String(Math.floor(Math.random() * 1000)).padStart(3, "0")}Z`),
      ONE
    )
  },
  "lifecycle.terminated": {
    "no reason": dataOf("sandbox.status", "reason", null),
    "at once": log((events) => events.filter(({ data, type }) => type !== "sandbox.status" || data["status"] !== "terminating"))
  },
  "lifecycle.terminated-final": {
    "goes on": log((events) => events.length === 0 ? events : [...events, { ...events.at(-1), type: "sandbox.boot" }])
  },
  "lifecycle.terminate-turn": {
    "approval stays": each("approval.resolved", () => null),
    "turn succeeded": dataOf("turn.completed", "state", "succeeded")
  },
  "lifecycle.failed-turn": {
    "succeeded": dataOf("turn.completed", "state", "succeeded"),
    "sandbox failed": set("status", "failed", ONE)
  },
  "lifecycle.failed": {
    "no error": set("error", null, ONE),
    "started": set("startedAt", "2026-11-21T02:41:00.123Z", ONE)
  },
  "lifecycle.no-error": { "an error": set("error", "x", ONE) },

  "commands.shape": {
    "one more": set("sandboxId", "x", TERMINATE),
    "rejection null": set("rejection", null, TERMINATE),
    "no rejection": set("rejection", undefined, INTERRUPT)
  },
  "commands.terminate": { "drawn id": drawn("commandId", TERMINATE) },
  "commands.terminate-again": {
    "applied again": set("outcome", "applied", TERMINATE),
    "another revision": edit("revision", (old) => number(old) + 1, TERMINATE),
    "drawn id": drawn("commandId", TERMINATE)
  },
  "commands.terminate-concurrent": {
    "all applied": set("outcome", "applied", TERMINATE),
    "none applied": set("outcome", "duplicate", TERMINATE)
  },
  "commands.terminate-failed": {
    "stays failed": set("status", "failed", ONE),
    "rejected": set("outcome", "rejected", TERMINATE)
  },
  "commands.interrupt": {
    "drawn id": drawn("commandId", INTERRUPT),
    "turn failed": dataOf("turn.completed", "state", "failed")
  },
  "commands.interrupt-again": {
    "applied again": set("outcome", "applied", INTERRUPT),
    "another revision": edit(
      "",
      (old) => (old as LogEvent & { outcome: string }).outcome === "duplicate" ? { ...old as object, revision: 1 } : old,
      INTERRUPT
    )
  },
  "commands.interrupt-nothing": {
    "applied": set("outcome", "applied", INTERRUPT),
    "drawn id": drawn("commandId", INTERRUPT)
  },
  "commands.interrupt-over": { "another rejection": set("rejection", "no_active_turn", INTERRUPT) },
  "commands.revision": {
    "counts all": edit("revision", (old) => number(old) + 1, SEND),
    "counts all, too": edit("revision", (old) => number(old) + 1, INTERRUPT)
  },
  "commands.approve": {
    "drawn id": drawn("commandId", DECIDE),
    "denies": body((given) => given.replace("approve", "deny"))
  },
  "commands.deny": {
    "drawn id": drawn("commandId", DECIDE),
    "approves": body((given) => given.replace("deny", "approve"))
  },
  "commands.decide-again": { "applied again": set("outcome", "applied", DECIDE) },
  "commands.first-decision": {
    "the last one wins": edit("", (old) => ({ ...old as object, outcome: "applied", rejection: undefined }), DECIDE),
    "another rejection": edit("rejection", (old) => old === undefined ? old : "approval_expired", DECIDE)
  },
  "commands.decide-concurrent": {
    "all applied": edit("", (old) => ({ ...old as object, outcome: "applied", rejection: undefined }), DECIDE)
  },
  "commands.interrupt-denies": {
    "does not": set("rejection", "approval_expired", DECIDE),
    "by the user": dataOf("approval.resolved", "by", "user")
  },
  "commands.decide-over": { "another rejection": set("rejection", "approval_already_resolved", DECIDE) },
  "commands.approval-unknown": {
    "rejected": succeeds(404, {
      commandId: ANOTHER_UUID,
      revision: 1,
      outcome: "rejected",
      rejection: "approval_expired"
    })
  },
  "commands.denial-reason": {
    "forgets it": body((given) => given.replace(/,"reason":"[^"]*"/u, "")),
    "keeps it from the agent": each("message.updated", (event) => ({
      ...event,
      data: { ...event.data, text: text(event.data["text"]).replace(/Not there: .*/u, "") }
    }))
  },
  "commands.approve-turn": {
    "approves one": body((given) => given.replace(",\"scope\":\"turn\"", "")),
    "as if people had": dataOf("approval.resolved", "by", "user")
  },
  "commands.decision-body": {
    "takes more": body((given) => given.replace(",\"always\":true", "")),
    "takes any": instead(400, 404, "not_found")
  },
  "commands.approval-id": {
    "takes longer": instead(400, 404, "not_found"),
    "takes shorter": instead(404, 400, "invalid_request")
  },

  "commands.question": {
    "asks without an end": each("question.asked", ({ data, ...event }) => ({ ...event, data: { ...data, expires_at: undefined } })),
    "not in the snapshot": transient("snapshot", "data.pending_questions", () => []),
    "as an approval": transient("snapshot", "data.turn.state", () => "awaiting_approval")
  },
  "commands.answer": {
    "drawn id": drawn("commandId", ANSWER),
    "the last one wins": edit("", (old) => ({ ...old as object, outcome: "applied", rejection: undefined }), ANSWER),
    "another rejection": edit("rejection", (old) => old === undefined ? old : "question_expired", ANSWER),
    "chooses for the person": body((given) => given.replace("second", "first")),
    "keeps the answer to itself": each("question.answered", ({ data, ...event }) => ({ ...event, data: { ...data, answers: undefined } }))
  },
  "commands.answer-concurrent": {
    "all applied": edit("", (old) => ({ ...old as object, outcome: "applied", rejection: undefined }), ANSWER)
  },
  "commands.dismiss": {
    "answers": dataOf("question.answered", "answers", { 1: { labels: ["first"] } }),
    "by time": dataOf("question.answered", "by", "timeout")
  },
  "commands.interrupt-question": {
    "answers": dataOf("question.answered", "answers", { 1: { labels: ["first"] } }),
    "by the user": dataOf("question.answered", "by", "user"),
    "takes an answer": edit("", (old) => ({ ...old as object, outcome: "applied", rejection: undefined }), ANSWER)
  },
  "commands.answer-misfit": { "takes any": instead(400, 404, "not_found", ANSWER) },
  "commands.question-unknown": {
    "rejected": succeeds(404, { commandId: ANOTHER_UUID, revision: 1, outcome: "rejected", rejection: "question_expired" }, ANSWER)
  },
  "commands.answer-body": {
    "takes more": body((given) => given.replace(",\"by\":\"user\"", "")),
    "takes any": instead(400, 404, "not_found", ANSWER)
  },
  "commands.question-id": {
    "takes longer": instead(400, 404, "not_found", ANSWER),
    "takes shorter": instead(404, 400, "invalid_request", ANSWER)
  },

  "checkpoints.restore-body": {
    "takes more": body((given) => given.replace(",\"force\":true", "")),
    "takes any": instead(400, 404, "not_found"),
    "takes none": instead(404, 400, "invalid_request")
  },
  "checkpoints.restore-unknown": {
    "rejected": succeeds(404, { commandId: ANOTHER_UUID, revision: 1, outcome: "rejected", rejection: "turn_active" }, RESTORE)
  },
  "checkpoints.restore-active": {
    "applied": edit("", (old) => ({ ...old as object, outcome: "applied", rejection: undefined }), RESTORE),
    "refused": instead(200, 409, "turn_active", RESTORE)
  },
  "checkpoints.restore-files": {
    "leaves a change": edit("working.content", (old) => old === "first\n" ? "second\n" : old, CONTENT),
    "leaves a file": edit("working", (old) => old ?? { content: "second\n" }, CONTENT)
  },
  "checkpoints.restore-log": {
    "forgets what came after": log((events) => events.filter(({ id }) => Number(id) < 20)),
    "says nothing when it is accepted": each("sandbox.restoring", () => null),
    "says nothing when it is done": each("sandbox.restored", () => null),
    "another checkpoint": dataOf("sandbox.restored", "checkpoint", 2),
    "another cause": dataOf("sandbox.restored", "cause", "machine_lost")
  },
  "checkpoints.fork-files": {
    "starts afresh": edit("working", (old) => text(Reflect.get(old ?? {}, "content")) === "first\n" ? null : old, CONTENT),
    "has the newest": edit("working.content", (old) => old === "first\n" ? "second\n" : old, CONTENT),
    "works in its origin": edit("working", (old) => old ?? { content: "fork\n" }, CONTENT)
  },
  "checkpoints.fork-log": {
    "says it late": log((
      events
    ) => [...events.filter(({ type }) => type !== "sandbox.forked"), ...events.filter(({ type }) => type === "sandbox.forked")]),
    "of another": dataOf("sandbox.forked", "sandbox_id", "c_zzzzzzzzzzzz"),
    "another checkpoint": dataOf("sandbox.forked", "checkpoint", 2),
    "with the turns of its origin": log((events) => first(events, "turn.started", (event) => [event, event]))
  },
  "checkpoints.restore-over": {
    "another rejection": set("rejection", "turn_active", RESTORE),
    "goes back": edit("", (old) => ({ ...old as object, outcome: "applied", rejection: undefined }), RESTORE),
    "refused": instead(200, 409, "sandbox_not_running", RESTORE)
  },
  "checkpoints.fork-body": {
    "takes repos": body((given) => given.replace(/,"repos":\[[^\]]*\]/u, "")),
    "takes any": instead(400, 404, "not_found"),
    "takes none": instead(404, 400, "invalid_request")
  },
  "checkpoints.fork-key": {
    "takes longer": withoutHeader("idempotency-key"),
    "takes shorter": instead(404, 400, "invalid_idempotency_key")
  },
  "checkpoints.fork-none": {
    "not found": instead(409, 404, "not_found", FORK),
    "another code": code("sandbox_not_running", FORK)
  },
  "checkpoints.diff": {
    "another type": header("content-type", "text/plain", DIFF),
    "shows protected files": reply(DIFF, (answer) => ({ ...answer, body: Buffer.concat([answer.body, Buffer.from("+SECRET=1\n")]) })),
    "shows nothing": reply(DIFF, (answer) => ({ ...answer, body: Buffer.alloc(0) }))
  },
  "checkpoints.diff-versions": {
    "takes any": instead(400, 404, "not_found", DIFF),
    "takes none": instead(404, 400, "invalid_request", DIFF)
  },
  "checkpoints.diff-running": { "shows it": reply(both(DIFF, failed), (answer) => ({ ...answer, status: 200, body: Buffer.alloc(0) })) },
  "checkpoints.diff-over": {
    "shows it": reply(both(DIFF, failed), (answer) => ({ ...answer, status: 200, body: Buffer.alloc(0) })),
    "shows what checkpoints have": reply(
      both(both(DIFF, failed), asks("&to=")),
      (answer) => ({ ...answer, status: 200, body: Buffer.alloc(0) })
    ),
    "knows no checkpoint any more": reply(
      both(both(DIFF, failed), asks("from=")),
      (answer) => refusal(answer, 404, "not_found")
    )
  },
  "checkpoints.fork-over": {
    "refuses": instead(201, 409, "sandbox_not_running", FORK),
    "starts afresh": edit("working", (old) => text(Reflect.get(old ?? {}, "content")) === "second\n" ? null : old, CONTENT),
    "starts with the first one": edit("working.content", (old) => old === "second\n" ? "first\n" : old, CONTENT),
    "of another checkpoint": dataOf("sandbox.forked", "checkpoint", 1),
    "brings it back": set("status", "running", ONE)
  },
  "checkpoints.fork-unknown": { "conflict": instead(404, 409, "conflict", FORK) },

  "branches.body": {
    "takes more": body((given) => given.replace(",\"force\":true", "")),
    "takes both": body((given) => given.replace(",\"branch\":\"slipway/c_zzzzzzzzzzzz\"", "")),
    "takes a ref": body((given) => given.replace(",\"ref\":\"main\"", "")),
    "takes none": instead(409, 400, "invalid_request", CREATE)
  },
  "branches.not-writable": {
    "another code": code("conflict", CREATE),
    "starts from the default branch": body((given) => given.replace(/,"continue":\{[^}]*\}/u, ""))
  },
  "branches.files": {
    "starts from the base": edit("working", () => null, CONTENT),
    "does not say where it starts": edit("repos.0.ref", () => undefined, ONE)
  },
  "branches.log": {
    "says it late": log((
      events
    ) => [...events.filter(({ type }) => type !== "sandbox.continued"), ...events.filter(({ type }) => type === "sandbox.continued")]),
    "another branch": dataOf("sandbox.continued", "branch", "main"),
    "no pull request": dataOf("sandbox.continued", "pull_request", undefined),
    "says nothing of the pull request": each("pull_request.updated", () => null)
  },
  "branches.publish": {
    "opens another": edit("pullRequest.number", (old) => number(old) + 1, PUBLISH),
    "to a branch of its own": set("pullRequest.headRef", "slipway/c_zzzzzzzzzzzz", PUBLISH),
    "pushes nothing": set("pullRequest.changedFiles", 1, PUBLISH)
  },
  "branches.sync": {
    "rejected": edit("", (old) => ({ ...old as object, outcome: "rejected", rejection: "turn_active" }), SYNC),
    "says nothing when it is accepted": each("sandbox.syncing", () => null),
    "says nothing when it is done": each("sandbox.synced", () => null),
    "without the branch": dataOf("sandbox.synced", "branches", []),
    "without commits": each("sandbox.synced", (event) => ({
      ...event,
      data: { branches: (event.data["branches"] as ReadonlyArray<object>).map((one) => ({ ...one, sha: "" })) }
    }))
  },
  "branches.sync-active": {
    "waits": succeeds(409, { commandId: ANOTHER_UUID, revision: 1, outcome: "applied" }, SYNC),
    "another code": code("conflict", SYNC)
  },
  "branches.sync-over": {
    "another rejection": set("rejection", "turn_active", SYNC),
    "refused": instead(200, 409, "sandbox_not_running", SYNC)
  },
  "branches.sync-unknown": { "another code": instead(404, 409, "sandbox_not_running", SYNC) },

  "feedback.body": {
    "takes nothing": body((given) => given === "{}" ? "{\"text\":\"x\"}" : given),
    "takes more": body((given) => given.replace(",\"another\":true", "")),
    "takes a line 0": body((given) => given.replace("\"line\":0", "\"line\":1")),
    "another code": code("conflict", FEEDBACK)
  },
  "feedback.round": {
    "says nothing when it is received": each("feedback.received", () => null),
    "received twice": log((events) => last(events, "feedback.received", (event) => [event, event])),
    "no turn": each("feedback.received", ({ turn_id: _turn, ...event }) => event),
    "counts other items": dataOf("feedback.received", "count", 1),
    "as a comment": dataOf("feedback.received", "kind", "comment"),
    "does not quote": each("turn.started", (event) => ({
      ...event,
      data: { ...event.data, text: text(event.data["text"]).replace("> Please.", "Please.") }
    })),
    "replies twice": log((events) => last(events, "feedback.replied", (event) => [event, event])),
    "of another sandbox": set("sandboxId", "c_zzzzzzzzzzzz", FEEDBACK)
  },
  "feedback.checks": {
    "another code": code("conflict", FEEDBACK),
    "takes it": succeeds(409, { commandId: ANOTHER_UUID, revision: 1, outcome: "applied", turnId: ANOTHER_UUID }, FEEDBACK)
  },
  "feedback.over": { "another code": code("conflict", FEEDBACK) },
  "feedback.resume": {
    "rejected": set("outcome", "rejected", RESUME),
    "conflict the second time": instead(200, 409, "conflict", RESUME)
  },
  "feedback.unknown": {
    "another code": instead(404, 409, "sandbox_not_running", FEEDBACK),
    "continues it": succeeds(404, { commandId: ANOTHER_UUID, revision: 1, outcome: "applied" }, RESUME)
  },

  "automations.made": {
    "200": status(201, 200, AUTOMATE),
    "paused": set("state", "paused", AUTOMATE),
    "forgets a default": set("maxPerDay", undefined, AUTOMATE),
    "shows the secret again": set("secret", `whsec_${"A".repeat(32)}`, AUTOMATION),
    "lists none": set("data", [], AUTOMATIONS)
  },
  "automations.schedule": {
    "another zone": set("trigger.timeZone", "Europe/Berlin", AUTOMATE),
    "no next time": set("nextRunAt", null, AUTOMATE),
    "has an address": set("url", "https://example.com", AUTOMATE)
  },
  "automations.replaced": {
    "keeps what is left out": set("maxRunning", 3, at(/\/automations\/[^/]+$/u, "PUT")),
    "stores nothing": set("name", "Conformance", at(/\/automations\/[^/]+$/u, "GET")),
    "changes the trigger": succeeds(400, {}, AUTOMATION)
  },
  "automations.deleted": {
    "200": status(204, 200, AUTOMATION),
    "says that it was there": instead(404, 403, "forbidden", ANY_AUTOMATION),
    "runs it": succeeds(401, {}, TRIGGER)
  },
  "automations.foreign": {
    "says that it is another's": instead(404, 403, "forbidden", ANY_AUTOMATION),
    "does not look": setHeader("authorization", () => `Bearer ${key}`)
  },
  "automations.limits": {
    "takes less": refuses(400, "invalid_request", asks(/"name":"n{120}"/u)),
    "takes more a day": succeeds(400, {}, both(AUTOMATE, asks("\"maxPerDay\":201"))),
    "takes a longer name": succeeds(400, {}, both(AUTOMATE, asks(/"name":"n{121}"/u))),
    "takes unknown members": succeeds(400, {}, both(AUTOMATE, asks("\"unknown\""))),
    "another code": instead(400, 422, "invalid_request", AUTOMATE)
  },
  "automations.schedules": {
    "takes a day that never comes": succeeds(400, {}, both(AUTOMATE, asks("30 2 *"))),
    "takes any zone": succeeds(400, {}, both(AUTOMATE, asks("Nowhere/City"))),
    "takes seconds": succeeds(400, {}, both(AUTOMATE, asks("0 0 7 * * *")))
  },
  "automations.placeholders": { "takes any": succeeds(400, {}, both(AUTOMATE, asks("{{nonsense}}"))) },
  "automations.run": {
    "starts another one": edit("id", () => randomUUID(), TRIGGER),
    "starts none": set("outcome", "skipped", TRIGGER),
    "lists it twice": edit("data", (old) => Array.isArray(old) ? [...old, ...old] : old, RUNS)
  },
  "automations.full": {
    "starts it": set("outcome", "started", TRIGGER),
    "names no limit": set("limit", null, TRIGGER)
  },
  "automations.forged": {
    "does not look": succeeds(401, {}, TRIGGER),
    "does not look at the time": succeeds(
      401,
      {},
      both(TRIGGER, ({ headers }) => Math.abs(Date.now() / 1000 - Number(lineOf(headers, "webhook-timestamp") ?? 0)) > 400)
    ),
    "starts a run": set("data", [{}], RUNS)
  },
  "automations.rotated": {
    "no secret": set("secret", null, at(/\/rotate-secret$/u)),
    "takes no secret any more": refuses(401, "unauthorized", TRIGGER)
  },
  "automations.paused": {
    "starts a run": succeeds(409, {}, TRIGGER),
    "another code": instead(409, 409, "conflict", TRIGGER),
    "stays paused": set("state", "paused", at(/\/enable$/u))
  },

  "events.envelope": {
    "one more": log((events) => events.map((event) => ({ ...event, sequence: 1 }))),
    "another version": log((events) => events.map((event) => ({ ...event, version: "v2" }))),
    "no ts": log((events) => events.map(({ ts: _ts, ...event }) => event))
  },
  "events.ids": {
    "twice": log((events) => first(events, "sandbox.boot", (event) => [event, event])),
    "backwards": log((events) => [...events].reverse()),
    "padded": log((events) => events.map((event) => ({ ...event, id: `0${event.id}` }))),
    "from 0": log((events) => events.map((event) => ({ ...event, id: String(Number(event.id) - 1) })))
  },
  "events.time": {
    "goes back": log((events) => last(events, "turn.completed", (event) => [{ ...event, ts: "2020-11-21T02:41:00.123Z" }]))
  },
  ...Object.fromEntries(
    [
      "sandbox.status",
      "sandbox.boot",
      "sandbox.error",
      "turn.started",
      "turn.updated",
      "turn.completed",
      "message.updated",
      "message.completed",
      "message.queued",
      "message.steered",
      "message.cancelled",
      "tool.updated",
      "plan.updated",
      "approval.requested",
      "approval.resolved",
      "sandbox.forked",
      "sandbox.restoring",
      "sandbox.restored",
      "sandbox.continued",
      "sandbox.syncing",
      "sandbox.synced"
    ].map((type) => [`events.data-${type}`, {
      "nothing in it": each(type, (event) => ({ ...event, data: {} })),
      "members of other types": each(
        type,
        (event) => ({ ...event, data: Object.fromEntries(Object.keys(event.data).map((name) => [name, -1])) })
      )
    }])
  ),
  // All of its members may be missing.
  "events.data-sandbox.checkpoint": {
    "no number": dataOf("sandbox.checkpoint", "checkpoint", "1"),
    "trees without a repository": dataOf("sandbox.checkpoint", "repos", [{ sha: "0" }]),
    "an unknown turn": dataOf("sandbox.checkpoint", "turn_id", 1)
  },
  "events.data-usage.updated": {
    "no usage": log((events) =>
      events.length === 0
        ? events
        : [...events, { ...events.at(-1), type: "usage.updated", data: { llmRequestCount: 1 } }]
    ),
    "tokens are no counters": used({ input: "1", cachedInput: 0, output: 0 }),
    "more was cached than there was": used({ input: 1, cachedInput: 2, output: 0 })
  },
  "events.turn-id": {
    "tools have none": each("tool.updated", ({ turn_id: _turn, ...event }) => event),
    "boots have one": each("sandbox.boot", (event) => ({ ...event, turn_id: ANOTHER_UUID }))
  },
  "events.turn-id-derived": {
    "drawn": log((events) => events.map((event) => event.turn_id === undefined ? event : { ...event, turn_id: ANOTHER_UUID })),
    "another prompt id": dataOf("turn.started", "prompt_id", ANOTHER_UUID)
  },
  "events.prompt": { "cut": dataOf("turn.started", "text", "Conformance: work.") },
  "events.turn-end": {
    "goes on": log((events) => last(events, "turn.completed", (event) => [event, { ...event, type: "tool.updated" }]))
  },
  "events.message-order": {
    "another message": dataOf("message.completed", "message_id", "m"),
    "never completed": log((events) => last(events, "message.completed", () => [])),
    "each message": log((events) =>
      first(events, "message.updated", (event) => [
        event,
        { ...event, type: "message.completed", data: { message_id: event.data["message_id"], finish: "end_turn" } }
      ])
    ),
    "in the middle of the turn": each("message.completed", (event) => ({ ...event, id: "1" }))
  },
  "events.waiting": {
    "in the turn": each("message.queued", (event) => ({ ...event, turn_id: ANOTHER_UUID })),
    "all are first": dataOf("message.queued", "position", 1),
    "lost": each("message.cancelled", () => null),
    "twice": each("message.steered", (event) => [event, event]),
    "of no turn": each("message.steered", ({ turn_id: _turn, ...event }) => event),
    "another one's text": dataOf("message.steered", "text", "x")
  },
  "events.part-order": {
    "its final text comes late": log((events) => {
      const text = events.find(({ type }) => type === "message.updated")
      return last(events, "message.completed", (event) => [...(text === undefined ? [] : [text]), event])
    })
  },
  "events.answer": {
    "a message for each": each("message.updated", (event) => ({
      ...event,
      data: { ...event.data, message_id: `${String(event.data["message_id"])}-${String(event.data["kind"])}` }
    })),
    "one message for all": dataOf("message.updated", "message_id", "m")
  },
  "events.approval-whole": {
    "in one line": previews((command) => command.replaceAll("\n", " ")),
    "cut": previews((command) => command.slice(0, 200)),
    "turned round": previews((command) => command.replace(/\u27e8[^\u27e9]*\u27e9/u, "\u202e")),
    "left out": previews((command) => command.replace(/\u27e8[^\u27e9]*\u27e9/u, "")),
    "the title only": each("approval.requested", ({ data: { preview: _preview, ...data }, ...event }) => ({ ...event, data }))
  },
  "events.tool-detail": {
    "none": each("tool.updated", ({ data: { detail: _detail, ...data }, ...event }) => ({ ...event, data })),
    "no output": each("tool.updated", (event) => ({
      ...event,
      data: { ...event.data, detail: { ...event.data["detail"] as object, output: undefined } }
    }))
  },
  "events.whole-text": {
    "the last word only": each(
      "message.updated",
      (event) => ({ ...event, data: { ...event.data, text: String(event.data["text"]).trim().split(" ").at(-1) } })
    )
  },
  "events.kinds": { "all text": dataOf("message.updated", "kind", "text") },
  "events.message-parts": {
    "one part": each(
      "message.updated",
      (event) => ({ ...event, data: { ...event.data, part_id: event.data["message_id"] } })
    )
  },
  "events.tool-parts": {
    "another": dataOf("tool.updated", "part_id", "tool"),
    "another message": dataOf("tool.updated", "message_id", "tools")
  },
  "events.plan": {
    "the first step alone": each("plan.updated", (event) => ({
      ...event,
      data: { ...event.data, entries: (event.data["entries"] as ReadonlyArray<unknown>).slice(0, 1) }
    })),
    "a part of its own each time": dataOf("plan.updated", "part_id", "plan")
  },
  "events.tool-ends": { "one does not": log((events) => last(events, "tool.updated", () => [])) },
  "events.throttled": {
    "each word": log((events) => events.flatMap((event) => event.type === "message.updated" ? [event, event, event, event] : event))
  },
  "events.completed-ids": {
    "one id for both": log((events) => {
      const id = events.findLast(({ type }) => type === "message.completed")?.id
      return last(events, "turn.completed", (event) => [{ ...event, id }])
    })
  },
  "events.approval-call": {
    "another id": dataOf("approval.requested", "approval_id", "a"),
    "expired": dataOf("approval.requested", "expires_at", "2020-11-21T02:41:00.123Z")
  },
  "events.no-arguments": { "the content": dataOf("tool.updated", "input", "content=canary-5d41402a") },
  "events.page": {
    "one too many": query((given) => given.replace("limit=3", "limit=4")),
    "another cursor": edit("nextCursor", (old) => String(Number(old) - 1), EVENTS),
    "inclusive": query((given) => given.replace(/after=([1-9]\d*)/u, (_, after) => `after=${Number(after) - 1}`))
  },
  "events.page-bytes": {
    "by count only": each("message.updated", (event) => ({ ...event, data: { ...event.data, text: text(event.data["text"]).repeat(4) } })),
    "leaves out what a page had no room for": edit("nextCursor", (old) => String(Number(old) + 1), EVENTS),
    "never ends": edit("nextCursor", (_old, page) => {
      const { data } = page as { readonly data: ReadonlyArray<LogEvent> }
      return data.at(-2)?.id ?? "0"
    }, EVENTS)
  },
  "events.after-0": { "leaves one out": query((given) => given.replace("after=0", "after=1")) },
  "events.empty-page": {
    "loses it": edit("nextCursor", () => "0", EVENTS),
    "null": edit("nextCursor", () => null, EVENTS)
  },
  "events.ahead": { "an empty page": succeeds(400, EMPTY_PAGE), "another code": code("invalid_request") },
  "events.malformed": { "not found": instead(400, 404, "not_found"), "another code": code("invalid_request") },
  "events.limit": {
    "takes any": instead(400, 404, "not_found"),
    "does not look": query((given) => given.replace("limit=1", "limit=2"))
  },

  "stream.headers": {
    "no charset": header("content-type", "text/event-stream"),
    "may be buffered": header("x-accel-buffering", null),
    "may be stored": header("cache-control", "no-cache")
  },
  "stream.retry": {
    "none": blocks((block, i) => i === 0 ? [] : [block]),
    "another": blocks((block, i) => [i === 0 ? "retry: 3000" : block])
  },
  "stream.snapshot": {
    "none": blocks((block) => block.includes("\"snapshot\"") ? [] : [block]),
    "no approvals": transient("snapshot", "data.pending_approvals", () => undefined),
    "cursor is a number": transient("snapshot", "data.resume_cursor", Number),
    "fewer than no tokens": transient("snapshot", "data.tokens.input", () => -1)
  },
  "stream.snapshot-sandbox": { "another status": transient("snapshot", "data.sandbox.status", () => "running") },
  "stream.snapshot-cursor": {
    "one early": transient("snapshot", "data.resume_cursor", (old) => String(Number(old) - 1))
  },
  "stream.snapshot-turn": {
    "null": transient("snapshot", "data.turn", () => null),
    "never null": transient("snapshot", "data.turn", (old) => old ?? {})
  },
  "stream.snapshot-waiting": {
    "none": transient("snapshot", "data.waiting_messages", () => []),
    "left out": transient("snapshot", "data.waiting_messages", () => undefined),
    "places of before": transient("snapshot", "data.waiting_messages.*.position", (old) => number(old) + 1)
  },
  "stream.snapshot-approvals": { "none": transient("snapshot", "data.pending_approvals", () => []) },
  "stream.status": {
    "says more": transient("sandbox.status", "data.previous", () => null),
    "has an id": blocks((block, i) => i === 2 ? [`id: 1\n${block}`, block] : [block])
  },
  "stream.transient": {
    "has an id": transient("snapshot", "id", () => "1"),
    "no ts": transient("snapshot", "ts", () => undefined)
  },
  "stream.replay": {
    "one missing": durable(3, () => []),
    "one twice": durable(3, (block) => [block, block]),
    "one changed": durable(3, (block) => [block.replace("sandbox.event", "event")]),
    "with a snapshot": blocks((block, i) => i === 1 ? ["data: {\"type\":\"snapshot\"}", block] : [block])
  },
  "stream.caught-up": {
    "too early": blocks((block, i) => i === 1 ? ["data: {\"type\":\"sandbox.status\",\"data\":{\"status\":\"running\"}}", block] : [block]),
    "says more": transient("sandbox.status", "data.previous", () => null)
  },
  "stream.since": {
    "one early": query((given) => given.replace("since=5", "since=4")),
    "does not look": query((given) => given.replace("since=5", "since=0"))
  },
  "stream.last-event-id": { "does not look": withoutHeader("last-event-id") },
  "stream.both": { "since wins": withoutHeader("last-event-id") },
  "stream.malformed": { "another code": code("invalid_request"), "not found": instead(400, 404, "not_found") },
  "stream.ahead": { "204": status(400, 204) },
  "stream.framing": {
    "names events": blocks((block) => [isDurable(block) ? `event: message\n${block}` : block]),
    "another id": blocks((block) => [block.replace(/^id: (\d+)/u, (_, id) => `id: ${Number(id) + 1}`)]),
    "two lines": blocks((block) => [isDurable(block) ? block.replace("\ndata: {", "\ndata: {\ndata: ") : block])
  },
  "stream.seam": {
    "one missing": durable(0, () => []),
    "one twice": durable(0, (block) => [block, block]),
    "one missing later": durable(4, () => []),
    "out of order": (() => {
      // Heartbeats come in between whenever they like.
      let held: string | null = null
      let swapped = false
      return blocks((block, i) => {
        if (i === 0) [held, swapped] = [null, false]
        if (!isDurable(block) || swapped) return [block]
        if (held === null) {
          held = block
          return []
        }
        swapped = true
        return [block, held]
      })
    })()
  },
  "stream.live": {
    "late": blocks(async (block) => {
      if (isDurable(block)) await new Promise((resolve) => setTimeout(resolve, 2_000))
      return [block]
    })
  },
  "stream.finished-replay": {
    "one missing": blocks((block) => block.includes("\"terminated\"") && isDurable(block) ? [] : [block])
  },
  "stream.finished-fresh": { "no patience": blocks((block) => block === "retry: 30000" ? [] : [block]) },
  "stream.finished-resume": { "200": status(204, 200) },
  "stream.heartbeat": {
    "none": blocks((block) => block.startsWith(":") ? [] : [block]),
    "another": blocks((block) => [block.replace(": hb", ": ping")])
  },

  "uploads.stored": {
    "200": status(201, 200, UPLOAD),
    "keeps folders in names": set("name", "../a b.log", UPLOAD),
    "another hash": set("sha256", "0".repeat(64), UPLOAD),
    "expires at once": edit("expiresAt", (_, file) => (file as { readonly createdAt: string }).createdAt, UPLOAD),
    "another type later": set("mediaType", "text/plain", UPLOADED)
  },
  "uploads.bytes": {
    "shows it": header("content-disposition", "inline", UPLOADED_BYTES),
    "as what it says it is": header("content-type", "image/svg+xml", UPLOADED_BYTES),
    "lets browsers guess": header("x-content-type-options", null, UPLOADED_BYTES),
    "runs scripts": header("content-security-policy", "default-src 'self'", UPLOADED_BYTES),
    "knows no image": set("mediaType", "application/octet-stream", UPLOAD)
  },
  "uploads.claims": { "believes it": set("mediaType", "image/png", UPLOAD) },
  "uploads.size": {
    "takes more": instead(413, 201, "file_too_large", UPLOAD),
    "another code": code("payload_too_large", UPLOAD)
  },
  "uploads.encoded": { "takes it": instead(415, 400, "invalid_request", UPLOAD) },
  "uploads.foreign": {
    "another code": code("not_found", UPLOADED),
    "says more": reply(
      both(UPLOADED_BYTES, (asked, answer) => answer.status === 404 && !asked.path.includes("zzzz")),
      (answer) => bodyOf(answer, { error: { code: "file_not_found", message: "It is another grant's." } })
    )
  },
  "uploads.refs": { ...edges, "another code": code("not_found", CREATE) },
  "uploads.prompt": {
    "no files in the turn": dataOf("turn.started", "files", []),
    "no files in messages": set("data.*.files", [], MESSAGES),
    "expires all the same": set("expiresAt", "2026-11-30T06:00:00.000Z", UPLOADED),
    "sees no images": each("message.updated", () => null)
  },
  "files.tree": {
    "one more": set("total", 1, TREE),
    "no warnings": set("partialWarnings", undefined, TREE),
    "one less in entries": set("entries.*.mtimeMs", undefined, TREE)
  },
  "files.tree-root": { "empty": set("entries", [], both(TREE, asks("directory="))) },
  "files.tree-order": { "another order": reversed("entries", TREE) },
  "files.tree-git": { "is there": edit("entries", (old) => [...old as ReadonlyArray<object>, { name: ".git" }], TREE) },
  "files.tree-depth": {
    "depth from 1": edit("entries.*.depth", (old) => number(old) + 1, TREE),
    "as it came": set("directory", "./conformance//dir/../dir/", TREE)
  },
  "files.tree-untracked": {
    "added": set("entries.*.status", "added", TREE),
    "no size": set("entries.*.size", null, TREE)
  },
  "files.tree-modified": {
    "no status": set("entries.*.status", null, TREE),
    "no lines": set("entries.*.additions", 0, TREE)
  },
  "files.tree-protected": {
    "its size": set("entries.*.size", 9, TREE),
    "left out": edit("entries", (old) => (old as ReadonlyArray<{ name: string }>).filter(({ name }) => name !== ".env"), TREE)
  },
  "files.tree-links": { "followed": set("entries.*.kind", "file", TREE) },
  "files.tree-file": { "200": succeeds(400, {}) },
  "files.missing": { "another code": code("not_found"), "empty": succeeds(404, {}) },
  "files.traversal": {
    "not found": instead(400, 404, "file_not_found"),
    "protected": instead(400, 403, "file_protected")
  },
  "files.nul": { "cuts there": query((given) => given.replace(/%00.*$/u, "")) },
  "files.normalised": { "refuses dots": instead(200, 400, "invalid_path") },
  "files.protected": {
    "looks at the disk first": instead(403, 404, "file_not_found", asks("mcp.json")),
    "minds the case": instead(403, 404, "file_not_found", asks(/\.ENV|\.GIT/u)),
    "gives it": succeeds(403, {})
  },
  "files.not-protected": {
    "too careful": instead(200, 403, "file_protected"),
    "too careful with names": instead(404, 403, "file_protected", asks("CLAUDE.md"))
  },
  "files.no-links": { "followed": succeeds(403, {}) },
  "files.no-hard-links": { "given": succeeds(403, {}) },
  "files.no-devices": { "given": succeeds(403, {}) },
  "files.directory": { "not found": instead(400, 404, "file_not_found") },
  "files.bytes": {
    "one more": reply(DOWNLOAD, (answer) => ({ ...answer, body: Buffer.concat([answer.body, Buffer.from("\n")]) })),
    "as text": reply(
      DOWNLOAD,
      (answer) => ({ ...answer, body: Buffer.from(answer.body.toString("utf8").replace("\0", "")) })
    )
  },
  "files.headers": {
    "an ETag": header("etag", "\"x\""),
    "takes ranges": header("accept-ranges", "bytes"),
    "by its kind": header("content-type", "text/plain"),
    "may be sniffed": header("x-content-type-options", null)
  },
  "files.range": { "206": reply(DOWNLOAD, (answer) => ({ ...answer, status: 206, body: answer.body.subarray(0, 2) })) },
  "files.disposition": {
    "inline": header("content-disposition", "inline"),
    "as it is": header("content-disposition", (asked) => {
      const name = decodeURIComponent(asked.path.split("%2F").at(-1) ?? "").replace(/[^\x20-\x7e]/gu, "?")
      return `attachment; filename="${name}"; filename*=UTF-8''${name}`
    }, DOWNLOAD)
  },
  "files.too-large": { "given": succeeds(413, {}), "too strict": instead(200, 413, "file_too_large") },
  "files.path-length": {
    "takes longer": instead(400, 404, "file_not_found"),
    "takes shorter": instead(404, 400, "invalid_request")
  },
  "files.not-running": { "404": instead(409, 404, "not_found"), "another code": code("agent_disconnected") },
  "files.repo": { "does not look": without("repo"), "minds the case": instead(200, 404, "repo_not_found") },
  "files.repo-required": {
    "takes the first": instead(400, 404, "file_not_found"),
    "another code": code("invalid_request")
  },
  "files.content": {
    "one less": set("reviewHead", undefined, CONTENT),
    "base is the new one": edit(
      "base",
      () => ({ content: "", text: "", hash: "0", ref: "0", size: 0, binary: false }),
      CONTENT
    ),
    "text alone": edit("working", (old) => ({ ...(old as object), content: undefined }), CONTENT),
    "no status": set("status", undefined, CONTENT)
  },
  "files.content-base": { "the new one": set("base.content", "", CONTENT) },
  "files.content-hash": {
    "of the bytes alone": set("working.hash", "0".repeat(40), CONTENT),
    "a branch": set("base.ref", "main", CONTENT)
  },
  "files.content-missing": { "not found": instead(200, 404, "file_not_found", asks("missing")) },
  "files.content-binary": { "as text": set("working.content", "", CONTENT) },
  "files.content-too-large": { "given": succeeds(413, {}) },
  "files.large-bytes": {
    "cut": reply(DOWNLOAD, (answer) => ({ ...answer, body: answer.body.subarray(0, 2 ** 20) })),
    "spoilt": reply(
      DOWNLOAD,
      (answer) => ({ ...answer, body: Buffer.concat([answer.body.subarray(1), Buffer.from("x")]) })
    )
  },

  "pull-request.before": {
    "another state": set("actionState", "none", PULL),
    "an empty one": set("pullRequest", {}, PULL)
  },
  "pull-request.draft": {
    "no draft": set("pullRequest.draft", false, PULL),
    "another branch": set("pullRequest.headRef", "main", PULL),
    "another title": set("pullRequest.title", "x", PULL)
  },
  "pull-request.shape": {
    "one less": set("checks.label", undefined, PULL),
    "one less in it": set("pullRequest.nodeId", undefined, PULL),
    "one more": set("branch", "x", PULL)
  },
  "pull-request.once": {
    "another each time": (() => {
      let n = 100
      return edit("pullRequest.number", () => n++, PUBLISH)
    })()
  },
  "pull-request.get": { "another": set("pullRequest.number", 0, PULL), "none": set("pullRequest", null, PULL) },
  "pull-request.update": {
    "does not push": ask((asked) => PUBLISH(asked, { status: 0, headers: {}, body: asked.body }) ? { ...asked, method: "GET" } : asked)
  },
  "pull-request.ready": {
    "leaves the draft": set("pullRequest.draft", true, PULL),
    "opens another one": edit("pullRequest.number", (old, parent) => Reflect.get(parent as object, "draft") === false ? 0 : old, PUBLISH),
    "forgets it": set("pullRequest.draft", true, at(/\/pull-request$/u, "GET"))
  },
  "pull-request.events": {
    "none": each("pull_request.updated", () => null),
    "no number": dataOf("pull_request.updated", "number", undefined)
  },
  "pull-request.nothing": {
    "another code": code("conflict"),
    "an empty one": succeeds(409, {}),
    "another message": set("error.message", "Nothing.", PULL)
  },
  "pull-request.body": {
    "takes more": body((given) => given.replace("\"draft\":false", "")),
    "takes any ready": body((given) => given.replace("\"ready\":\"yes\"", "")),
    "knows one 404": code("not_found")
  },
  "pull-request.reviews": {
    "of another": set("pullRequest.number", 0, REVIEWS),
    "counts one more": edit("commentCount", (old) => number(old) + 1, REVIEWS),
    "no checks": set("checks", undefined, REVIEWS),
    "one more": set("branch", "x", REVIEWS)
  },
  "pull-request.reviews-before": {
    "a pull request": set("pullRequest", { number: 1, url: "x", title: "", state: "open" }, REVIEWS),
    "a check": set("checks.data", [{ name: "x", status: "x", conclusion: null, url: "x" }], REVIEWS)
  },
  "pull-request.repo-required": { "another code": code("invalid_request"), "takes the first": succeeds(400, {}) },
  "pull-request.not-running": { "404": instead(409, 404, "not_found") },

  "messages.sent": {
    "200": status(201, 200, SEND),
    "no turn": set("turnId", undefined, SEND),
    "one more": set("sandboxId", "x", SEND)
  },
  "messages.derived": { "drawn id": drawn("commandId", SEND), "drawn turn": edit("turnId", () => ANOTHER_UUID, SEND) },
  "messages.turn-active": { "another code": code("conflict"), "queues": succeeds(409, {}) },
  "messages.queued": {
    "200": status(201, 200, SEND),
    "no turn": set("turnId", undefined, SEND),
    "not told": each("message.queued", () => null),
    "counts from 0": each(
      "message.queued",
      (event) => ({ ...event, data: { ...event.data, position: number(event.data["position"]) - 1 } })
    )
  },
  "messages.queue-order": {
    "the newest first": log((events) => [...events].reverse()),
    "cancels with the turn": instead(201, 409, "turn_active", SEND)
  },
  "messages.taken-back": {
    "never twice": set("outcome", "applied", TAKE_BACK),
    "keeps it": ask((asked) => asked.method === "DELETE" ? { ...asked, path: `${asked.path}0` } : asked),
    "not told": each("message.cancelled", () => null),
    "another code": code("conflict", TAKE_BACK)
  },
  "messages.queue-full": { "another code": code("turn_active", SEND), "takes all": succeeds(409, {}, SEND) },
  "messages.steered": {
    "another code": instead(201, 409, "turn_active", SEND),
    "lost": log((events) => events.filter(({ type }) => type !== "message.steered" && type !== "turn.started"))
  },
  "messages.when-busy": {
    "takes any": instead(400, 404, "not_found"),
    "queues": succeeds(409, {}, SEND),
    "finds any": instead(404, 200, "x", TAKE_BACK)
  },
  "messages.not-running": { "another code": code("turn_active") },
  "messages.body": { "takes any": instead(400, 404, "not_found"), "too strict": instead(404, 400, "invalid_request") },
  "messages.replayed": {
    "does not say so": header("idempotent-replayed", null),
    "201": status(200, 201, SEND),
    "sends again": withoutHeader("idempotency-key")
  },
  "messages.changed": { "replays": status(409, 200), "sends it": withoutHeader("idempotency-key") },
  "messages.key-scope": { "one scope for all": instead(201, 409, "idempotency_conflict", SEND) },
  "messages.list": { "newest first": reversed("data", MESSAGES), "one more": set("data.*.author", "x", MESSAGES) },
  "messages.list-steered": {
    "by when they came": edit("data", (old) => Array.isArray(old) ? old.toSorted((a, b) => a.role < b.role ? 1 : -1) : old, MESSAGES)
  },
  "messages.texts": { "cut": edit("data.*.text", (old) => text(old).slice(0, 10), MESSAGES) },
  "messages.pages": {
    "each page is the first": without("after"),
    "one missing": edit("data", (old) => Array.isArray(old) && old.length === 2 ? [old[1]] : old, MESSAGES)
  },
  "messages.query": { "does not look": instead(400, 404, "not_found") },

  "checkpoints.list": { "one more": set("total", 1, CHECKPOINTS), "bare": edit("", (old) => [old], CHECKPOINTS) },
  "checkpoints.pages": { "always another page": set("nextCursor", "1", CHECKPOINTS) },
  "checkpoints.list-over": {
    "none": set("data", [], CHECKPOINTS),
    "the first alone": edit("data", (old) => Array.isArray(old) ? old.slice(0, 1) : old, CHECKPOINTS)
  },
  "checkpoints.query": { "does not look": instead(400, 404, "not_found") },

  "feed.page": {
    "one member more": set("total", 1, FEED),
    "a cursor like that of a log": edit("nextCursor", String, FEED),
    "no cursor on an empty page": edit("", (old) => feed(old).data.length > 0 ? old : EMPTY_PAGE, FEED)
  },
  "feed.event": {
    "one more": set("data.*.object", "event", FEED),
    "one less": set("data.*.createdAt", undefined, FEED),
    "the sequence as text": edit("data.*.sequence", String, FEED),
    "an id that is no UUID": edit("data.*.id", (old) => `evt_${text(old)}`, FEED),
    "no fraction": set("data.*.createdAt", "2026-11-21T02:41:00Z", FEED)
  },
  "feed.payload": {
    ...Object.fromEntries(
      [
        "credit_claim.created",
        "credit_claim.claimed",
        "project.connected",
        "task.started",
        "pull_request.opened",
        "conversion.paid"
      ].map((type) => [`nothing in ${type}`, told(type, () => ({}))])
    ),
    "claimed when created": told("credit_claim.created", (data) => ({ ...data, status: "claimed" })),
    "claimed at when created": told("credit_claim.created", (data) => ({ ...data, claimedAt: "2026-11-21T02:41:00.123Z" })),
    "no credits": told("credit_claim.created", (data) => ({ ...data, creditAmount: 0 })),
    "pending when claimed": told("credit_claim.claimed", (data) => ({ ...data, status: "pending" })),
    "not claimed at any time": told("credit_claim.claimed", (data) => ({ ...data, claimedAt: null })),
    "no project connected": told("project.connected", (data) => ({ ...data, projectId: null })),
    "a task that is no sandbox": told("task.started", (data) => ({ ...data, taskId: "t" })),
    "no project left out": told("task.started", (data) => ({ ...data, projectId: undefined })),
    "a pull request by its number": told("pull_request.opened", (data) => ({ ...data, pullRequestId: "7" })),
    "no task": told("pull_request.opened", (data) => ({ ...data, taskId: undefined })),
    "a conversion of another form": told("conversion.paid", (data) => ({ ...data, conversionId: "c" })),
    "happened at no time": told("conversion.paid", (data) => ({ ...data, occurredAt: null }))
  },
  "feed.sequence": {
    "newest first": reversed("data", FEED),
    "a gap": edit("data.*.sequence", (old) => number(old) * 2 - 1, FEED),
    "from 0": edit("data.*.sequence", (old) => number(old) - 1, FEED),
    "one twice": edit("data", (old) => Array.isArray(old) ? old.toSpliced(1, 0, old[0]) : old, FEED)
  },
  "feed.ids": {
    "drawn when read": edit("data.*.id", () => randomUUID(), FEED),
    "one for all": set("data.*.id", ANOTHER_UUID, FEED)
  },
  "feed.after-0": {
    "begins at the head": reply(both(FEED, lacks("after")), (answer) => bodyOf(answer, { data: [], nextCursor: 103 })),
    "begins late": unasked("after=1"),
    "no cursor where nothing is": reply(
      FEED,
      (answer, asked) => bodyOf(answer, lacks("after")(asked, answer) ? EMPTY_PAGE : EMPTY_FEED)
    )
  },
  "feed.pages": {
    "each page is the first": without("after"),
    "inclusive": query((given) => given.replace(/after=([1-9]\d*)/u, (_, after) => `after=${Number(after) - 1}`)),
    "the cursor of the next": edit("nextCursor", (old) => number(old) + 1, FEED),
    "one missing": edit("data", (old) => Array.isArray(old) && old.length === 2 ? [old[1]] : old, FEED),
    "nothing after the first": reply(
      both(FEED, asks(/after=[1-9]/u)),
      (answer) => bodyOf(answer, { data: [], nextCursor: 2 })
    )
  },
  "feed.empty-page": {
    "loses it": edit("", (old) => feed(old).data.length > 0 ? old : EMPTY_FEED, FEED),
    "null": edit("", (old) => feed(old).data.length > 0 ? old : EMPTY_PAGE, FEED),
    "refuses it": instead(200, 400, "invalid_cursor", both(FEED, asks("after=103")))
  },
  "feed.ahead": {
    "refuses it": instead(200, 400, "invalid_cursor", FEED),
    "the head": edit("nextCursor", () => 103, FEED),
    "an int of 32 bits": instead(200, 500, "internal_error", both(FEED, asks(/after=\d{10}/u)))
  },
  "feed.malformed": {
    "another code": code("invalid_request"),
    "does not look": without("after"),
    "fails on large ones": instead(400, 500, "internal_error", asks(/after=9{20}/u)),
    "as if it were not there": query((given) => given.replace(/^after=$/u, ""))
  },
  "feed.limit": {
    "does not look": without("limit"),
    "cuts it": query((given) => given.replace("limit=101", "limit=100")),
    "counts wrong": query((given) => given.replace(/limit=1$/u, "limit=2"))
  },
  "feed.limit-default": {
    "50": unasked("limit=50"),
    "none": edit("data", (old) => Array.isArray(old) ? [...old, old[0]] : old, both(FEED, lacks("limit")))
  },
  "feed.repeated-query": {
    "the last counts": query((given) => given.replace(/^(?:limit|after)=1&/u, "")),
    "the last cursor counts": query((given) => given.replace("after=1&", ""))
  },
  "feed.unknown-query": { "refuses it": instead(200, 400, "invalid_request", asks("color")) },
  "feed.key": {
    "no challenge": header("www-authenticate", null),
    "one for all": header("www-authenticate", INVALID),
    "open": setHeader("authorization", () => `Bearer ${key}`)
  },
  "feed.scope": {
    "no challenge": header("www-authenticate", null),
    "401": instead(403, 401, "unauthorized"),
    "does not look": setHeader("authorization", () => `Bearer ${key}`)
  },
  "feed.own": { "one for all": setHeader("authorization", () => `Bearer ${key}`) },
  "feed.wrong-method": {
    "no Allow": header("allow", null),
    "404": instead(405, 404, "not_found"),
    "another Allow": header("allow", "GET"),
    "takes POST": reply(both(FEED, ({ method }) => method === "POST"), (answer) => ({ ...answer, status: 200 }))
  },

  "ownership.sandbox": tells(ONE),
  "ownership.terminate": tells(TERMINATE),
  "ownership.interrupt": tells(INTERRUPT),
  "ownership.restore": tells(RESTORE),
  "ownership.sync": tells(SYNC),
  "ownership.feedback": tells(FEEDBACK),
  "ownership.resume-feedback": tells(RESUME),
  "ownership.fork": tells(FORK),
  "ownership.approval": tells(DECIDE),
  "ownership.send-message": tells(MESSAGES),
  "ownership.messages": tells(MESSAGES),
  "ownership.checkpoints": tells(CHECKPOINTS),
  "ownership.setup": tells(SETUP),
  "ownership.events": tells(EVENTS),
  "ownership.stream": tells(STREAM),
  "ownership.tree": tells(TREE),
  "ownership.download": tells(DOWNLOAD),
  "ownership.content": tells(CONTENT),
  "ownership.diff": tells(DIFF),
  "ownership.publish": tells(PULL),
  "ownership.pull-request": tells(PULL),
  "ownership.untouched": {
    "terminates it": set(
      "status",
      "terminating",
      both(ONE, ({ headers }) => lineOf(headers, "authorization") === `Bearer ${otherKey}`)
    ),
    "interrupts it": set("turn", { active: false }, ONE)
  },

  "documents.openapi": {
    "3.0": set("openapi", "3.0.3", OPENAPI),
    "needs a key": instead(200, 401, "unauthorized", OPENAPI)
  },
  "documents.environment": {
    "another draft": set("$schema", "http://json-schema.org/draft-07/schema#", ENVIRONMENT),
    "takes any key": set("$defs.EnvironmentFile.additionalProperties", true, ENVIRONMENT),
    "lacks a key": set("$defs.EnvironmentFile.properties.setup", undefined, ENVIRONMENT),
    "needs a key": instead(200, 401, "unauthorized", ENVIRONMENT)
  },
  "documents.operations": {
    "lacks a path": edit(
      "paths",
      (old) => Object.fromEntries(Object.entries(old as object).filter(([path]) => !path.endsWith("/interrupt"))),
      OPENAPI
    ),
    "lacks the feed": set("paths./api/public/v1/events", undefined, OPENAPI),
    "lacks a method": edit(
      "paths",
      (old) =>
        Object.fromEntries(
          Object.entries(old as object).map(([path, item]) => [path, { get: (item as { get?: object }).get }])
        ),
      OPENAPI
    )
  },
  "documents.references": { "leads nowhere": set("components.schemas.Sandbox", undefined, OPENAPI) },
  "documents.strict": {
    "open": set("components.schemas.CreateSandbox.additionalProperties", true, OPENAPI),
    "all optional": set("components.schemas.CreateSandbox.required", [], OPENAPI)
  },
  "documents.health": {
    "other words": set("status", "up", at(/^\/healthz$/u)),
    "needs a key": instead(200, 401, "unauthorized")
  },
  "documents.ready": {
    "another status": instead(200, 500, "internal_error"),
    "no body": reply(always, (answer) => ({ ...answer, status: 503, body: Buffer.from("{}") }))
  },

  "rates.policy": { "none": header("ratelimit-policy", null), "another form": header("ratelimit-policy", "120;w=60") },
  "rates.left": {
    "none": header("ratelimit", null),
    "as many as ever": header("ratelimit", "\"default\";r=100000;t=1")
  },
  "rates.counts": { "never less": header("ratelimit", "\"default\";r=5;t=1") },
  "rates.on-refusals": { "none": header("ratelimit", null, failed) },
  "rates.retry-after": {
    "does not say when": (() => {
      let refused = false
      return reply(always, (answer) => {
        if (refused) return answer
        refused = true
        return refusal(answer, 429, "rate_limited")
      })
    })()
  }
})
