/** Every refusal of an identity, at every endpoint of the API: the printed table is the checked one. */
import { assert, layer } from "@effect/vitest"
import { Api } from "@slipway/api/Api"
import { InternalApi } from "@slipway/api/InternalApi"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import type { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { hint, mint } from "@slipway/domain/access/rules/ApiKey"
import { Scope } from "@slipway/domain/access/schema/Principal"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Ids } from "@slipway/domain/ids/Ids"
import { Console, Effect, Redacted } from "effect"
import { HttpApi } from "effect/http-api"
import { ask, type Ask, COOKIE, joined, layer as http, mintKey, refused, SANDBOXES } from "../testing/Harness.ts"

/** Columns as wide as their widest cell. */
const columns = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const width = (i: number) => Math.max(...rows.map((row) => row[i]?.length ?? 0))
  return rows.map((row) => row.map((cell, i) => cell.padEnd(width(i))).join("  ").trimEnd()).join("\n")
}

interface Endpoint {
  readonly method: string
  /** With something in the place of each parameter: who calls comes before what is asked for. */
  readonly path: string
}

const endpoints: Array<Endpoint> = []
const reflecting = {
  onGroup: () => {},
  onEndpoint: ({ endpoint: { method, path } }: { readonly endpoint: Endpoint }) => {
    if (path.startsWith("/api/") || path === "/metrics") endpoints.push({ method, path: path.replaceAll(/:\w+/gu, "x") })
  }
}
HttpApi.reflect(Api, reflecting)
HttpApi.reflect(InternalApi, reflecting)

/** Stated here again, so that a scope that is looked for elsewhere is seen (docs/decisions/9 and 11). */
const scopeAt = (path: string): Scope =>
  path === "/api/internal/v1/sandboxes/x"
    ? "sandboxes:delete"
    : path.startsWith("/api/internal/v1/sandboxes/")
    ? "sandboxes"
    : path === "/metrics"
    ? "metrics:read"
    : path.startsWith("/api/internal/v1/webhook-endpoints")
    ? "webhooks"
    : path.startsWith("/api/internal/v1/automations")
    ? "automations"
    : /^\/api\/internal\/v1\/(?:trusted-refs|repository-settings|mcp-servers)/u.test(path)
    ? "secrets"
    : path === "/api/internal/v1/audit"
    ? "audit:read"
    : path.startsWith("/api/internal/v1/models")
    ? "models"
    : path.startsWith("/api/internal/")
    ? "partner:ingest"
    : "sandboxes"

const MISSING = `Bearer realm="slipway"`
const INVALID = `${MISSING}, error="invalid_token", error_description="The API key is not valid."`
const scopeChallenge = (scope: string) => `${MISSING}, error="insufficient_scope", scope="${scope}"`
const LACKING = scopeChallenge("<the endpoint's>")

/** The headers of a request, after the preparation that leads to its refusal. */
type Given = Effect.Effect<Pick<Ask, "headers">, unknown, Access | AccessStore | Ids | MemberStore | Members | Sessions>

interface Row {
  readonly name: string
  readonly given: Given
  /** `null`: not refused for who calls. */
  readonly refusal: readonly [status: number, code: string, challenge: string | undefined] | null
  /** Endpoints of these scopes alone; those of others are left out. */
  readonly scopes?: ReadonlyArray<Scope>
  /** Endpoints of these methods alone. */
  readonly methods?: ReadonlyArray<string>
}

const header = (authorization: string | ReadonlyArray<string>) => ({ headers: { authorization } })
const bearer = (key: string) => header(`Bearer ${key}`)
const fixed = (authorization: string) => Effect.succeed(header(authorization))

const cookie = (token: string) => ({ headers: { cookie: `theme=dark; ${COOKIE}=${token}` } })

/** A person with a session, as a page of ours would ask. */
const visitor = Effect.fnUntraced(function*(login: string, standing: "member" | "approved") {
  const sessions = yield* Sessions
  yield* mintKey()
  const members = yield* Members
  const { user } = yield* members.add(null, login, "member")
  if (standing === "approved") yield* members.approve(user.id)
  const { token } = yield* sessions.signIn(user.id, null)
  const { headers } = cookie(Redacted.value(token))
  return { token, request: { headers: { ...headers, "x-csrf-token": Redacted.value(sessions.csrfToken(token)) } } }
})

/** A viewer, with a session and with a key that was made for a member. */
const viewer = Effect.fnUntraced(function*(login: string) {
  const { request } = yield* visitor(login, "approved")
  const members = yield* Members
  const { key } = yield* mintKey({ userId: (yield* members.user(login)).id, scopes: Scope.literals })
  yield* members.add(null, login, "viewer")
  return { request, key }
})

const unknownKey = Effect.gen(function*() {
  return Redacted.value(yield* mint(yield* Ids, "live"))
})
const otherThanLast = (key: string) => key.slice(0, -1) + (key.endsWith("0") ? "1" : "0")

const rows: ReadonlyArray<Row> = [
  { name: "no header", given: Effect.succeed({}), refusal: [401, "unauthorized", MISSING] },
  { name: "empty header", given: fixed(""), refusal: [401, "unauthorized", MISSING] },
  { name: "other scheme", given: fixed("Basic dXNlcjpwYXNz"), refusal: [401, "unauthorized", MISSING] },
  { name: "key without a scheme", given: Effect.map(mintKey(), ({ key }) => header(key)), refusal: [401, "unauthorized", MISSING] },
  { name: "scheme without a key", given: fixed("Bearer"), refusal: [401, "unauthorized", INVALID] },
  { name: "malformed key", given: fixed("Bearer nonsense"), refusal: [401, "unauthorized", INVALID] },
  {
    name: "wrong checksum",
    given: Effect.map(mintKey(), ({ key }) => bearer(otherThanLast(key))),
    refusal: [401, "unauthorized", INVALID]
  },
  {
    name: "two headers",
    given: Effect.map(mintKey(), ({ key }) => header([`Bearer ${key}`, `Bearer ${key}`])),
    refusal: [401, "unauthorized", INVALID]
  },
  { name: "unknown key", given: Effect.map(unknownKey, bearer), refusal: [401, "unauthorized", INVALID] },
  {
    name: "expired key",
    given: Effect.gen(function*() {
      const store = yield* AccessStore
      const ids = yield* Ids
      const { record } = yield* mintKey()
      const key = yield* unknownKey
      const more = { id: yield* ids.uuid7, ...hint(Redacted.make(key)), expiresAt: record.createdAt }
      yield* store.createKey({ ...record, ...more }, ids.digest(key), 1_000_000)
      return bearer(key)
    }),
    refusal: [401, "unauthorized", INVALID]
  },
  {
    name: "revoked key",
    given: Effect.gen(function*() {
      const { key, record } = yield* mintKey()
      yield* (yield* Access).revokeKey(record.id)
      return bearer(key)
    }),
    refusal: [401, "unauthorized", INVALID]
  },
  {
    name: "revoked grant",
    given: Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "gone" })
      yield* (yield* Access).revokeGrant("gone")
      return bearer(key)
    }),
    refusal: [401, "unauthorized", INVALID]
  },
  {
    name: "no scope",
    given: Effect.map(mintKey({ scopes: [] }), ({ key }) => bearer(key)),
    refusal: [403, "insufficient_scope", LACKING]
  },
  ...Scope.literals.map((lacking): Row => ({
    name: `every scope but ${lacking}`,
    given: Effect.map(mintKey({ scopes: Scope.literals.filter((scope) => scope !== lacking) }), ({ key }) => bearer(key)),
    refusal: [403, "insufficient_scope", LACKING],
    scopes: [lacking]
  })).filter(({ scopes }) => endpoints.some(({ path }) => scopes?.includes(scopeAt(path)))),
  {
    name: "removed member",
    given: Effect.gen(function*() {
      const { key } = yield* mintKey({ userId: yield* joined("ada") })
      yield* (yield* Members).remove(null, "ada")
      return bearer(key)
    }),
    refusal: [403, "forbidden", undefined]
  },
  { name: "good key", given: Effect.map(mintKey({ scopes: Scope.literals }), ({ key }) => bearer(key)), refusal: null },
  { name: "unknown session", given: Effect.succeed(cookie("0".repeat(43))), refusal: [401, "unauthorized", MISSING] },
  { name: "malformed session", given: Effect.succeed(cookie("nonsense")), refusal: [401, "unauthorized", MISSING] },
  {
    name: "ended session",
    given: Effect.gen(function*() {
      const { request, token } = yield* visitor("signed-out", "approved")
      yield* (yield* Sessions).signOut(token)
      return request
    }),
    refusal: [401, "unauthorized", MISSING]
  },
  {
    name: "session of an unapproved user",
    given: Effect.map(visitor("new", "member"), ({ request }) => request),
    refusal: [403, "forbidden", undefined]
  },
  {
    name: "session of a removed member",
    given: Effect.gen(function*() {
      const { request } = yield* visitor("left", "approved")
      yield* (yield* Members).remove(null, "left")
      return request
    }),
    refusal: [403, "forbidden", undefined]
  },
  {
    name: "session without its CSRF token",
    given: Effect.map(visitor("forged", "approved"), ({ request: { headers: { cookie } } }) => ({ headers: { cookie } })),
    refusal: [403, "forbidden", undefined],
    methods: ["POST", "PUT", "DELETE"]
  },
  {
    name: "good session, public",
    given: Effect.map(visitor("guest", "approved"), ({ request }) => request),
    refusal: null,
    scopes: ["sandboxes"]
  },
  {
    name: "good session, elsewhere",
    given: Effect.map(visitor("curious", "approved"), ({ request }) => request),
    refusal: [403, "insufficient_scope", LACKING],
    scopes: ["partner:ingest", "webhooks", "secrets", "metrics:read", "models", "automations", "audit:read"]
  },
  ...["session", "key"].flatMap((kind): ReadonlyArray<Row> => {
    const given = (login: string) => Effect.map(viewer(`${kind}-${login}`), ({ key, request }) => kind === "key" ? bearer(key) : request)
    return [
      { name: `viewer's ${kind}, reading`, given: given("reads"), refusal: null, scopes: ["sandboxes"], methods: ["GET"] },
      {
        name: `viewer's ${kind}, changing`,
        given: given("changes"),
        refusal: [403, "forbidden", undefined],
        scopes: ["sandboxes"],
        methods: ["POST", "PUT", "PATCH", "DELETE"]
      },
      {
        name: `viewer's ${kind}, elsewhere`,
        given: given("elsewhere"),
        refusal: [403, "insufficient_scope", LACKING],
        scopes: Scope.literals.filter((scope) => scope !== "sandboxes")
      }
    ]
  }),
  // The last one: every other key is of this organization too.
  {
    name: "suspended organization",
    given: Effect.gen(function*() {
      const { key } = yield* mintKey()
      yield* (yield* Members).suspend("default")
      return bearer(key)
    }),
    refusal: [403, "forbidden", undefined]
  }
]

layer(http(), { excludeTestServices: true })("who calls comes before everything else", (it) => {
  it.effect("at every endpoint, with the exact status, code and challenge", () =>
    Effect.gen(function*() {
      assert.includeMembers(endpoints.map(({ method, path }) => `${method} ${path}`), [
        `POST ${SANDBOXES}/x/approvals/x`,
        `POST ${SANDBOXES}/x/questions/x`,
        `POST ${SANDBOXES}/x/messages`,
        `DELETE ${SANDBOXES}/x/messages/x`,
        `POST ${SANDBOXES}/x/sync`,
        `POST ${SANDBOXES}/x/feedback`,
        `POST ${SANDBOXES}/x/feedback/resume`,
        "POST /api/public/v1/files",
        "GET /api/public/v1/files/x",
        "GET /api/public/v1/files/x/content",
        "DELETE /api/internal/v1/sandboxes/x",
        "GET /api/internal/v1/sandboxes/archived",
        "POST /api/internal/v1/sandboxes/x/archive",
        "POST /api/internal/v1/sandboxes/x/unarchive",
        "POST /api/internal/v1/webhook-endpoints",
        "POST /api/internal/v1/webhook-endpoints/x/deliveries/x/redeliver",
        "GET /api/internal/v1/repository-settings",
        "PUT /api/internal/v1/repository-settings",
        "PUT /api/internal/v1/mcp-servers",
        "DELETE /api/internal/v1/mcp-servers",
        "POST /api/internal/v1/automations",
        "PUT /api/internal/v1/automations/x",
        "DELETE /api/internal/v1/automations/x",
        "POST /api/internal/v1/automations/x/run",
        "GET /api/internal/v1/automations/x/runs",
        "GET /api/internal/v1/sandboxes/x/pull-request/reviews",
        "GET /metrics"
      ])
      const statuses = new Map(endpoints.map((endpoint) => [endpoint, new Array<string>()]))
      for (const { given, methods, name, refusal, scopes } of rows) {
        const request = yield* given
        for (const [endpoint, cells] of statuses) {
          const scope = scopeAt(endpoint.path)
          if (scopes?.includes(scope) === false || methods?.includes(endpoint.method) === false) {
            cells.push("-")
            continue
          }
          const reply = yield* ask(endpoint.path, { ...request, method: endpoint.method })
          const where = `${name}: ${endpoint.method} ${endpoint.path}`
          cells.push(String(reply.status))
          if (refusal === null) {
            assert.notInclude([401, 403, 405, 429], reply.status, where)
            continue
          }
          const [status, code, challenge] = refusal
          assert.strictEqual(reply.status, status, where)
          refused(reply, status, code)
          assert.strictEqual(reply.headers["www-authenticate"], challenge === LACKING ? scopeChallenge(scope) : challenge, where)
        }
      }
      yield* Console.log([
        columns([["", "", "STATUS", "CODE", "WWW-AUTHENTICATE"], ...rows.map(({ name, refusal }, i) => [
          String(i + 1),
          name,
          ...(refusal === null ? ["", "not refused"] : [String(refusal[0]), refusal[1], refusal[2] ?? "none"])
        ])]),
        columns([["ENDPOINT", ...rows.map((_, i) => String(i + 1))],
          ...Array.from(statuses, ([{ method, path }, cells]) => [`${method} ${path}`, ...cells])])
      ].join("\n\n"))
    }).pipe(Effect.orDie), 60_000)
})
