import { answered, type Ask, errorBody, refused, type Reply, summary } from "../client/Client.ts"
import { fits, holds, listOf, same, timestamp, uri } from "../client/Expect.ts"
import { API, SANDBOXES, UNKNOWN, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("wire", "docs/decisions/1")

const REQUEST_ID = /^req_[0-9A-HJKMNP-TV-Z]{26}$/u
const BODY = { repos: [{ fullName: "conformance/example" }], prompt: "x" }

/** One reply of every kind, by request. */
const samples = (world: World) =>
  world.evidence("samples", async () => {
    const asked: ReadonlyArray<readonly [what: string, path: string, ask: Ask]> = [
      ["a list", `${SANDBOXES}?limit=1`, {}],
      ["the partner feed", `${API}/events?limit=1`, {}],
      ["a request without a key", SANDBOXES, { key: null }],
      ["an unknown route under /api/", "/api/nothing", {}],
      ["an unknown route", "/nothing", { key: null }],
      ["an unknown sandbox", UNKNOWN, {}],
      ["a wrong method", SANDBOXES, { method: "DELETE" }],
      ["a body that is no JSON", SANDBOXES, { body: "{" }],
      ["a body of another type", SANDBOXES, { body: "x", headers: { "content-type": "text/plain" } }],
      ["a body above 1 MiB", SANDBOXES, { body: " ".repeat(2 ** 20 + 1) }],
      ["a limit of 0", `${SANDBOXES}?limit=0`, {}]
    ]
    const found: Array<readonly [string, Reply]> = []
    for (const [what, path, ask] of asked) found.push([what, await world.http.ask(path, ask)])
    return found
  })

const everySample = (name: string, wanted: (value: string | undefined) => boolean, expected: string) => async (world: World) => {
  for (const [what, reply] of await samples(world)) {
    holds(wanted(reply.header(name)), `${name} of the answer to ${what} to be ${expected}`, reply.header(name))
  }
}

/** A request to an endpoint without a body, for a sandbox that does not exist. */
const bodyless = (world: World, body: unknown, more: Ask = {}) =>
  world.http.ask(`${UNKNOWN}/interrupt`, { method: "POST", ...(body === undefined ? {} : { body }), ...more })

/** Text as bytes of HTTP, with line ends and the server's host. */
const bytes = (world: World, text: string) => {
  const { host, pathname } = new URL(world.http.options.url)
  return text.replaceAll("<host>", host).replaceAll("<base>", pathname.replace(/\/$/u, "")).replaceAll("\n", "\r\n")
}

const raw = (world: World, head: string) => world.http.raw(bytes(world, head))

const HEALTH = "GET <base>/healthz HTTP/1.1\nConnection: close\n"

/** Invalid HTTP is refused before routing, and the connection is closed. */
const refusesRaw = async (world: World, heads: ReadonlyArray<string>) => {
  for (const head of heads) {
    const what = JSON.stringify(head)
    errorBody(refused(await raw(world, head), 400, "invalid_request", what), what)
  }
}

/** The rules of this file. */
export const rules = [
  rule("timestamps", "Timestamps are UTC with exactly three fraction digits.", async (world) => {
    const { json } = await world.created()
    fits(json.at("createdAt").value, timestamp, "createdAt")
    const listed = answered(await world.http.ask(`${SANDBOXES}?limit=5`), 200, "a list").json.at("data").items
    fits(
      listed.flatMap((item) => ["createdAt", "startedAt", "completedAt"].map((name) => item.at(name).value)).filter((
        at
      ) => at !== null),
      listOf(timestamp),
      "timestamps"
    )
  }),
  rule("request-id", "Every reply has an X-Request-Id of its own, req_ and a ULID.", async (world) => {
    await everySample("x-request-id", (value) => REQUEST_ID.test(value ?? ""), "req_ and a ULID")(world)
    const ids = (await samples(world)).map(([, reply]) => reply.header("x-request-id"))
    holds(new Set(ids).size === ids.length, "request ids that differ", ids)
  }),
  rule("request-id-own", "The caller's X-Request-Id is never echoed.", async (world) => {
    const given = "req_01ARZ3NDEKTSV4RRFFQ69G5FAV"
    const reply = await world.http.ask("/healthz", { key: null, headers: { "x-request-id": given } })
    holds(reply.header("x-request-id") !== given, "a request id of the server's own", given)
  }),
  rule(
    "no-store",
    "Replies are not cached: Cache-Control: no-store.",
    everySample("cache-control", (value) => value === "no-store", "no-store")
  ),
  rule(
    "nosniff",
    "Replies carry X-Content-Type-Options: nosniff.",
    everySample("x-content-type-options", (value) => value === "nosniff", "nosniff")
  ),
  rule(
    "content-type",
    "JSON replies, errors included, are application/json; charset=utf-8.",
    everySample(
      "content-type",
      (value) => value === "application/json; charset=utf-8",
      "application/json; charset=utf-8"
    )
  ),
  rule("error-body", "The body of every error is {error: {code, message}} and nothing else.", async (world) => {
    for (const [what, reply] of await samples(world)) if (reply.status >= 400) errorBody(reply, `the answer to ${what}`)
  }, { source: "docs/interface.md 7" }),
  rule("unknown-route", "An unknown route is 404 not_found.", async (world) => {
    refused(await world.http.ask("/api/nothing"), 404, "not_found", "an unknown route under /api/")
    refused(await world.http.ask(`${SANDBOXES.replace("v1", "v2")}`), 404, "not_found", "an unknown version")
    refused(
      await world.http.ask("/nothing", { key: null }),
      404,
      "not_found",
      "an unknown route outside /api/, without a key"
    )
  }),
  rule("unknown-object", "A sandbox that does not exist is 404 not_found.", async (world) => {
    refused(await world.http.ask(UNKNOWN), 404, "not_found", "an unknown sandbox")
  }),
  rule("wrong-method", "A wrong method is 405 method_not_allowed with Allow.", async (world) => {
    for (const method of ["PUT", "PATCH", "DELETE"]) {
      const reply = refused(await world.http.ask(SANDBOXES, { method }), 405, "method_not_allowed", method)
      const allow = (reply.header("allow") ?? "").split(",").map((method) => method.trim()).sort()
      same(allow, ["GET", "HEAD", "OPTIONS", "POST"], "Allow")
    }
  }),
  rule("405-before-400", "A wrong method is refused before a malformed id.", async (world) => {
    refused(
      await world.http.ask(`${SANDBOXES}/nonsense/terminate`),
      405,
      "method_not_allowed",
      "GET terminate of a malformed id"
    )
  }),
  rule("too-large", "A body above 1 MiB is 413 payload_too_large.", async (world) => {
    refused(
      await world.http.ask(SANDBOXES, { body: " ".repeat(2 ** 20 + 1) }),
      413,
      "payload_too_large",
      "1 MiB and a byte"
    )
  }, { source: "docs/decisions/12" }),
  rule("too-large-chunked", "A body above 1 MiB is 413 too when it does not say its length.", async (world) => {
    refused(
      await world.http.ask(SANDBOXES, { body: " ".repeat(2 ** 20 + 1), chunked: true }),
      413,
      "payload_too_large",
      "1 MiB and a byte in chunks"
    )
  }, { source: "docs/decisions/12" }),
  rule("not-too-large", "A body of exactly 1 MiB is taken.", async (world) => {
    const body = JSON.stringify(world.creation({ prompt: "probe" })).padEnd(2 ** 20)
    const reply = await world.probeRaw(body)
    holds(
      reply.status === 201 || reply.status === 200 || reply.status === 409,
      "a body of 1 MiB to be accepted",
      summary(reply)
    )
  }, { source: "docs/decisions/12" }),
  rule("media-type", "A body that is not declared application/json is 415 unsupported_media_type.", async (world) => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", null]) {
      const reply = await world.http.ask(SANDBOXES, { body: BODY, headers: { "content-type": type } })
      refused(reply, 415, "unsupported_media_type", `content-type ${type ?? "left out"}`)
    }
  }),
  rule("charset", "The charset may be left out or utf-8; another one is 415.", async (world) => {
    const { body, key } = await world.keyed()
    for (const type of ["application/json; charset=utf-8", "application/json;charset=UTF-8"]) {
      answered(
        await world.http.ask(SANDBOXES, { body, headers: { "content-type": type, "idempotency-key": key } }),
        200,
        type
      )
    }
    const latin = { "content-type": "application/json; charset=iso-8859-1" }
    refused(
      await world.http.ask(SANDBOXES, { body: BODY, headers: latin }),
      415,
      "unsupported_media_type",
      "charset=iso-8859-1"
    )
  }),
  rule("content-encoding", "A Content-Encoding other than identity is 415.", async (world) => {
    for (const encoding of ["gzip", "br"]) {
      const reply = await world.http.ask(SANDBOXES, { body: BODY, headers: { "content-encoding": encoding } })
      refused(reply, 415, "unsupported_media_type", `content-encoding: ${encoding}`)
    }
  }),
  rule("415-before-400", "The media type is refused before what is wrong in the body.", async (world) => {
    const reply = await world.http.ask(SANDBOXES, { body: "{", headers: { "content-type": "text/plain" } })
    refused(reply, 415, "unsupported_media_type", "broken JSON as text/plain")
  }),
  rule("400-before-404", "A body is refused before its sandbox is looked for.", async (world) => {
    refused(
      await world.http.ask(`${UNKNOWN}/messages`, { body: {} }),
      400,
      "invalid_request",
      "an invalid message to a sandbox that does not exist"
    )
  }),
  rule("no-json", "A body that is not JSON is 400 invalid_request.", async (world) => {
    for (const body of ["{", "nonsense", "[1,]", "{\"repos\":[],}", "\"text\"", "[]", "null"]) {
      refused(await world.http.ask(SANDBOXES, { body }), 400, "invalid_request", body)
    }
  }),
  rule("no-utf8", "A body that is not UTF-8 is 400 invalid_request.", async (world) => {
    const body = Buffer.concat([
      Buffer.from(`{"repos":[{"fullName":"${world.repo}"}],"prompt":"`),
      Buffer.from([0xff]),
      Buffer.from("\"}")
    ])
    refused(await world.probeRaw(body), 400, "invalid_request", "a byte that is no UTF-8")
  }),
  rule("bom", "A byte order mark is 400 invalid_request.", async (world) => {
    refused(
      await world.probeRaw(`\ufeff${JSON.stringify(world.creation())}`),
      400,
      "invalid_request",
      "a byte order mark"
    )
  }),
  rule("nesting", "Nesting without end is 400 invalid_request.", async (world) => {
    refused(
      await world.http.ask(SANDBOXES, { body: "[".repeat(100_000) + "]".repeat(100_000) }),
      400,
      "invalid_request",
      "100000 arrays in each other"
    )
  }),
  rule("unknown-property", "An unknown property of a body is 400 invalid_request.", async (world) => {
    await world.refuses({ color: "red" }, "an unknown property")
    await world.refuses({ repos: [{ fullName: world.repo, color: "red" }] }, "one within repos")
  }, { source: "docs/interface.md 4.2" }),
  rule("wrong-type", "A property of another type is 400 invalid_request.", async (world) => {
    for (
      const more of [{ prompt: 1 }, { title: null }, { repos: {} }, { repos: ["a/b"] }, { metadata: [] }, {
        metadata: { a: 1 }
      }]
    ) {
      await world.refuses(more, JSON.stringify(more))
    }
  }),
  rule("duplicate-keys", "Of a key that is there twice the last one counts.", async (world) => {
    const { body, key } = await world.keyed()
    const twice = JSON.stringify(body).replace("{", "{\"prompt\":\"another\",")
    answered(
      await world.http.ask(SANDBOXES, { body: twice, headers: { "idempotency-key": key } }),
      200,
      "an equal creation with a prompt before its prompt"
    )
  }),
  rule("proto-key", "A metadata key __proto__ is 400 invalid_request.", async (world) => {
    const body = JSON.stringify(world.creation({ metadata: {} })).replace(
      "\"metadata\":{}",
      "\"metadata\":{\"__proto__\":\"x\"}"
    )
    refused(await world.probeRaw(body), 400, "invalid_request", "metadata with the key __proto__")
  }),
  rule("bodyless", "An endpoint without a body takes none or {}, and refuses another.", async (world) => {
    refused(await bodyless(world, undefined), 404, "not_found", "no body")
    refused(await bodyless(world, {}), 404, "not_found", "{}")
    refused(await bodyless(world, { force: true }), 400, "invalid_request", "{force: true}")
  }),
  rule("empty-body-type", "An empty body needs no content type.", async (world) => {
    refused(
      await bodyless(world, undefined, { headers: { "content-type": "text/plain" } }),
      404,
      "not_found",
      "no body as text/plain"
    )
  }),
  rule("unknown-query", "Unknown query parameters are ignored.", async (world) => {
    answered(await world.http.ask(`${SANDBOXES}?limit=1&color=red&color=blue`), 200, "an unknown parameter")
  }),
  rule("repeated-query", "A known query parameter that is repeated is 400.", async (world) => {
    refused(await world.http.ask(`${SANDBOXES}?limit=1&limit=1`), 400, "invalid_request", "limit twice")
  }),
  rule("empty-query", "A known query parameter that is empty is 400.", async (world) => {
    for (const name of ["limit", "status", "repo"]) {
      refused(await world.http.ask(`${SANDBOXES}?${name}=`), 400, "invalid_request", `${name}=`)
    }
  }),
  rule("query-integers", "Integers in queries are digits and nothing else.", async (world) => {
    for (const value of ["1e1", "%2B1", "-1", "%201", "1.0", "0x1", "one"]) {
      refused(await world.http.ask(`${SANDBOXES}?limit=${value}`), 400, "invalid_request", `limit=${value}`)
    }
  }),
  rule("query-overflow", "An integer above 2^53-1 is 400.", async (world) => {
    for (const value of ["9007199254740992", "9".repeat(400)]) {
      refused(
        await world.http.ask(`${UNKNOWN}/events?after=${value}`),
        400,
        "invalid_cursor",
        `after=${value.slice(0, 20)}`
      )
    }
  }, { source: "docs/decisions/12" }),
  rule("head", "HEAD has the status and headers of GET and no body.", async (world) => {
    for (const path of [UNKNOWN, `${SANDBOXES}?limit=0`, "/healthz"]) {
      const get = await world.http.ask(path)
      const head = await world.http.ask(path, { method: "HEAD" })
      same(head.status, get.status, `status of HEAD ${path}`)
      same(head.header("content-type"), get.header("content-type"), `content-type of HEAD ${path}`)
      same(head.header("content-length"), get.header("content-length"), `content-length of HEAD ${path}`)
    }
  }),
  rule("head-stream", "HEAD on the stream is 405.", async (world) => {
    same((await world.http.ask(`${UNKNOWN}/events/stream`, { method: "HEAD" })).status, 405, "status")
  }),
  rule("options", "OPTIONS on a known path is 204 with Allow, without a body.", async (world) => {
    const reply = answered(await world.http.ask(UNKNOWN, { method: "OPTIONS" }), 204, "OPTIONS")
    same((reply.header("allow") ?? "").split(",").map((method) => method.trim()).sort(), ["GET", "HEAD", "OPTIONS"], "Allow")
    refused(await world.http.ask("/api/nothing", { method: "OPTIONS" }), 404, "not_found", "OPTIONS on an unknown path")
  }),
  rule("options-key", "OPTIONS needs a key like any other method.", async (world) => {
    refused(
      await world.http.ask(SANDBOXES, { method: "OPTIONS", key: null }),
      401,
      "unauthorized",
      "OPTIONS without a key"
    )
  }),
  rule("malformed-id", "A malformed id in the path is 400 invalid_request.", async (world) => {
    for (const id of ["c_short", "C_zzzzzzzzzzzz", "c_zzzzzzzzzzz1", "c_zzzzzzzzzzzzz", "x".repeat(500), "%00"]) {
      refused(await world.http.ask(`${SANDBOXES}/${id}`), 400, "invalid_request", `the id ${id.slice(0, 20)}`)
    }
  }),
  rule("broken-encoding", "Broken percent-encoding is 400 invalid_request.", async (world) => {
    for (const path of [`${SANDBOXES}/%zz`, `${SANDBOXES}/%ff`, `${SANDBOXES}?repo=%zz`]) {
      refused(await world.http.ask(path), 400, "invalid_request", path)
    }
  }),
  rule("decoded-length", "Lengths in the path count after percent-decoding, by code points.", async (world) => {
    const path = (characters: number) => `${UNKNOWN}/approvals/${encodeURIComponent("\u{1f600}".repeat(characters))}`
    refused(
      await world.http.ask(path(300), { body: { decision: "deny" } }),
      404,
      "not_found",
      "an approval id of 300 characters"
    )
    refused(await world.http.ask(path(301), { body: { decision: "deny" } }), 400, "invalid_request", "one of 301")
  }),
  rule("links", "Links are absolute and never follow the Host header.", async (world) => {
    const created = (await world.created()).json
    const id = created.at("id").string
    for (const [name, path] of [["self", ""], ["events", "/events"], ["messages", "/messages"]] as const) {
      const link = created.at("links").at(name)
      fits(link.value, uri, `links.${name}`)
      holds(
        link.string.endsWith(`${SANDBOXES}/${id}${path}`),
        `links.${name} to end in ${SANDBOXES}/<id>${path}`,
        link.value
      )
    }
    const elsewhere = await world.http.ask(`${SANDBOXES}/${id}`, {
      headers: { host: "elsewhere.invalid", "x-forwarded-host": "elsewhere.invalid" }
    })
    same(elsewhere.json.at("links").value, created.at("links").value, "links asked for with another Host:")
  }),
  rule("parser", "What is no HTTP gets 400 and the error body, too.", async (world) => {
    for (const head of ["nonsense\n\n", "GET / HTTP/1.1\nHost: <host>\nBad Header: x\n\n"]) {
      const reply = refused(await raw(world, head), 400, "invalid_request", JSON.stringify(head))
      errorBody(reply, JSON.stringify(head))
      holds(REQUEST_ID.test(reply.header("x-request-id") ?? ""), "an X-Request-Id", reply.header("x-request-id"))
    }
  }),
  rule("headers-too-large", "Headers above 16 KiB are 431 headers_too_large.", async (world) => {
    const reply = await raw(world, `GET /healthz HTTP/1.1\nHost: <host>\nX-Long: ${"x".repeat(17 * 1024)}\n\n`)
    errorBody(refused(reply, 431, "headers_too_large", "17 KiB of headers"), "17 KiB of headers")
  }),
  rule("host", "A request has one Host line, and it is a host: else 400.", (world) =>
    refusesRaw(
      world,
      [
        "",
        "Host: <host>\nHost: <host>\n",
        "Host: <host>\nHost: elsewhere.invalid\n",
        ...["a,b", "a b", "a/b", "a@b", "a:b", "[::1", ""].map((host) => `Host: ${host}\n`)
      ].map((lines) => `${HEALTH}${lines}\n`)
    )),
  rule("transfer-encoding", "A Transfer-Encoding other than chunked is 400: the end of the body would be unknown.", (world) =>
    refusesRaw(
      world,
      ["gzip, chunked", "identity, chunked", "chunked, chunked"].map((encoding) =>
        `POST <base>/healthz HTTP/1.1\nHost: <host>\nConnection: close\nTransfer-Encoding: ${encoding}\n\n0\n\n`
      )
    )),
  rule("http-version", "A request line that names another version than HTTP/1 is 400.", (world) =>
    refusesRaw(
      world,
      ["HTTP/2.0", "HTTP/0.9"].map((version) => `${HEALTH.replace("HTTP/1.1", version)}Host: <host>\n\n`)
    )),
  rule(
    "in-order",
    "Requests on one connection are answered in their order, and a bad one takes no answer away from those before it.",
    async (world) => {
      const asked = (path: string) => `GET <base>${path} HTTP/1.1\nHost: <host>\nAuthorization: Bearer ${world.options.key}\n\n`
      const good = asked(UNKNOWN) + asked(`${SANDBOXES}?limit=1`) + asked("/healthz")
      const chunked = asked(SANDBOXES).replace("GET", "POST").replace(
        "\n\n",
        "\nContent-Type: application/json\nTransfer-Encoding: chunked\n\n"
      )
      for (const bad of ["nonsense\n\n", `${chunked}nonsense\n`]) {
        const replies = await world.http.pipelined(bytes(world, good + bad))
        const what = "an unknown sandbox, a list, /healthz and what is no HTTP on one connection"
        same(replies.map(({ status }) => status), [404, 200, 200, 400], `the answers to ${what}`)
      }
    }
  ),
  rule("trailing-slash", "A slash at the end makes another path, where nothing is: 404 for every method.", async (world) => {
    for (const path of [`${SANDBOXES}/`, `${UNKNOWN}/`]) {
      refused(await world.http.ask(path), 404, "not_found", `GET ${path}`)
      refused(await world.http.ask(path, { body: {} }), 404, "not_found", `POST ${path}`)
    }
  })
]
