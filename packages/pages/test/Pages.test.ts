import { assert, describe, layer } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { IdentityProvider, IdentityProviderError, IdentityProviders, SignInRefused } from "@slipway/domain/access/ports/IdentityProvider"
import { MemberStore } from "@slipway/domain/access/ports/MemberStore"
import { AS_INVITED } from "@slipway/domain/access/rules/Entry"
import type { Identity } from "@slipway/domain/access/rules/Identity"
import { SessionLifetimes } from "@slipway/domain/access/rules/Session"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import * as IdentityProviderMemory from "@slipway/domain/memory/access/IdentityProviderMemory"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { keepsSessions } from "@slipway/pages/people/SignInPages"
import { Context, DateTime, Duration, Effect, Layer, Redacted } from "effect"
import { localPath } from "../src/layout/Page.ts"
import { ask, type Ask, COOKIE, joined, layer as http, mintKey, PUBLIC_URL, type Reply, SANDBOXES } from "../testing/Harness.ts"

// ---------------------------------------------------------------------------------------------------------------
// Browsers

interface Browser {
  readonly userId: string
  readonly csrf: string
  readonly cookie: string
  readonly get: (path: string, headers?: Ask["headers"]) => Effect.Effect<Reply, never, Layer.Success<ReturnType<typeof http>>>
  /** As a browser sends a form of the page it came from. */
  readonly post: (
    path: string,
    fields: Fields,
    headers?: Ask["headers"]
  ) => Effect.Effect<Reply, never, Layer.Success<ReturnType<typeof http>>>
}

/** An array sends the field for each. */
type Fields = Readonly<Record<string, string | ReadonlyArray<string>>>

const encoded = (fields: Fields) =>
  new URLSearchParams(Object.entries(fields).flatMap(([name, value]) => [value].flat().map((one) => [name, one]))).toString()

const FORM = { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" }

const postForm = (path: string, fields: Fields, headers: Ask["headers"] = {}) =>
  ask(path, { method: "POST", body: encoded(fields), headers: { ...FORM, ...headers } })

const signedIn = Effect.fnUntraced(function*(userId: string) {
  const sessions = yield* Sessions
  const { token } = yield* sessions.signIn(userId, null)
  const cookie = `${COOKIE}=${Redacted.value(token)}`
  const csrf = Redacted.value(sessions.csrfToken(token))
  /** The grant that the newest page was of, as its forms say. */
  const placeOf = Effect.map(ask("/keys", { headers: { cookie } }), ({ text }) => /name="place" value="([^"]*)"/u.exec(text)?.[1] ?? "")
  const browser: Browser = {
    userId,
    csrf,
    cookie,
    get: (path, headers = {}) => ask(path, { headers: { cookie, ...headers } }),
    post: (path, fields, headers = {}) =>
      Effect.flatMap(placeOf, (place) => postForm(path, { csrf, place, ...fields }, { cookie, ...headers }))
  }
  return browser
})

/** A grant to work in, and its owner's browser. */
const asOwner = Effect.gen(function*() {
  yield* (yield* Access).createGrant("acme")
  return yield* signedIn((yield* (yield* MemberStore).owner).userId)
})

const grantIdOf = (name: string) =>
  Effect.map(Effect.flatMap(AccessStore, ({ listGrants }) => listGrants), (grants) => grants.find((grant) => grant.name === name)?.id ?? "")

const keysOf = (grant: string) =>
  Effect.gen(function*() {
    return yield* (yield* AccessStore).listKeys(yield* grantIdOf(grant))
  })

/** A page of ours, with every header of one. */
const page = (reply: Reply, status: number, title?: string): void => {
  assert.strictEqual(reply.status, status, reply.text)
  const { headers } = reply
  assert.strictEqual(headers["content-type"], "text/html; charset=utf-8")
  guarded(reply)
  assert.match(reply.text, /^<!doctype html>\n<html lang="en">/u)
  if (title !== undefined) assert.include(reply.text, `<title>${title} · Slipway</title>`)
  if (status >= 400 && status !== 405) assert.include(reply.text, `Request ${headers["x-request-id"]}`)
}

const guarded = ({ headers }: Reply): void => {
  assert.strictEqual(
    headers["content-security-policy"],
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; media-src 'self'; " +
      "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
  )
  assert.deepStrictEqual(
    ["cache-control", "referrer-policy", "x-frame-options", "x-content-type-options", "cross-origin-opener-policy"].map((name) =>
      headers[name]
    ),
    ["no-store", "same-origin", "DENY", "nosniff", "same-origin"]
  )
}

const sentTo = (reply: Reply, path: string): void => {
  assert.deepStrictEqual([reply.status, reply.headers["location"]], [303, path], reply.text)
  guarded(reply)
}

const mint: Fields = { name: "laptop", scope: "sandboxes", expires: "90" }

layer(http(), { excludeTestServices: true })("pages", (it) => {
  describe("who is not signed in", () => {
    it.effect("is asked to sign in, and comes back to where they were", () =>
      Effect.gen(function*() {
        for (const path of ["/keys", "/keys?done=revoked", "/keys/x/revoke"]) {
          sentTo(yield* ask(path), `/sign-in?next=${encodeURIComponent(path)}`)
        }
        sentTo(yield* postForm("/keys", mint), "/sign-in?next=%2Fkeys")
        sentTo(yield* postForm("/keys", { name: "x".repeat(70_000) }), "/sign-in?next=%2Fkeys")
        sentTo(yield* postForm("/sign-out", {}), "/sign-in")
        for (const cookie of ["", `${COOKIE}=`, `${COOKIE}=${"x".repeat(43)}`, `${COOKIE}=%00`, `other=${"x".repeat(43)}`]) {
          sentTo(yield* ask("/keys", { headers: { cookie } }), "/sign-in?next=%2Fkeys")
        }
        page(yield* ask("/sign-in"), 200, "Sign in")
      }))

    it.effect("finds a page at an address that leads nowhere, where a program finds JSON, and everybody beneath /api/", () =>
      Effect.gen(function*() {
        const page = yield* ask("/nowhere", { headers: { accept: "text/html,application/xhtml+xml;q=0.9" } })
        assert.deepStrictEqual([page.status, page.headers["content-type"]], [404, "text/html; charset=utf-8"])
        assert.match(page.text, /<h1>Page not found<\/h1>\s*<p><a href="\/">/u)
        assert.match(String(page.headers["content-security-policy"]), /default-src 'none'/u)
        for (
          const [path, accept] of [["/nowhere", "application/json"], ["/api/nowhere", "text/html"], ["/api/public/v1/nowhere",
            "text/html"]] as const
        ) {
          const told = yield* ask(path, { headers: { accept } })
          assert.match(String(told.headers["content-type"]), /^application\/json/u, path)
          assert.isString(JSON.parse(told.text).error.code)
        }
      }))

    it.effect("is led to the pages by a browser only", () =>
      Effect.gen(function*() {
        const welcome = yield* ask("/", { headers: { accept: "text/html,*/*" } })
        assert.strictEqual(welcome.status, 200)
        assert.match(welcome.text, /<h1>Slipway<\/h1>[^]*href="\/sign-in"/u)
        assert.strictEqual((yield* ask("/")).status, 404)
      }))
  })

  describe("a one-time code", () => {
    const code = Effect.gen(function*() {
      const { userId } = yield* (yield* MemberStore).owner
      return Redacted.value(yield* (yield* Sessions).makeLink(userId))
    })

    it.effect("signs in once, under a cookie that scripts and other sites cannot use", () =>
      Effect.gen(function*() {
        yield* asOwner
        const given = yield* code
        const reply = yield* postForm("/sign-in", { code: given, next: "/keys?done=revoked" })
        sentTo(reply, "/keys?done=revoked")
        const [cookie = "", ...more] = reply.headers["set-cookie"] ?? []
        assert.deepStrictEqual(more, [])
        const [pair = "", ...attributes] = cookie.split("; ")
        assert.match(pair, /^__Host-slipway_session=[0-9A-Za-z]{43}$/u)
        assert.sameMembers(attributes, ["Max-Age=1209600", "Path=/", "HttpOnly", "Secure", "SameSite=Lax"])
        page(yield* ask("/keys", { headers: { cookie: pair } }), 200, "Keys")
        const again = yield* postForm("/sign-in", { code: given })
        assert.strictEqual(again.status, 400)
        assert.include(again.text, "Code expired or already used")
        assert.isUndefined(again.headers["set-cookie"])
      }))

    it.effect("ends the session that the browser had until then", () =>
      Effect.gen(function*() {
        const { cookie } = yield* asOwner
        sentTo(yield* postForm("/sign-in", { code: yield* code }, { cookie }), "/")
        sentTo(yield* ask("/keys", { headers: { cookie } }), "/sign-in?next=%2Fkeys")
      }))

    it.effect("may be pasted with the link around it, and is refused when it cannot be one", () =>
      Effect.gen(function*() {
        sentTo(yield* postForm("/sign-in", { code: ` ${PUBLIC_URL}/sign-in#${yield* code}\n` }), "/")
        for (const wrong of ["", "x", "x".repeat(43), "<script>", "'", "#", "é".repeat(43)]) {
          const reply = yield* postForm("/sign-in", { code: wrong })
          assert.deepStrictEqual([reply.status, reply.headers["set-cookie"]], [400, undefined])
          assert.notInclude(reply.text, "<script>")
        }
        for (const body of ["", "code=a&code=b", "code=%00", "code=%zz", "code=é"]) {
          page(yield* ask("/sign-in", { method: "POST", body, headers: FORM }), 400)
        }
      }))

    it.effect("is not taken from another site, nor used by it", () =>
      Effect.gen(function*() {
        const given = yield* code
        for (const headers of strangers) {
          page(
            yield* ask("/sign-in", {
              method: "POST",
              body: encoded({ code: given }),
              headers: { "content-type": FORM["content-type"], ...headers }
            }),
            403
          )
        }
        sentTo(yield* postForm("/sign-in", { code: given }), "/")
      }))
  })

  /** A browser's headers of a form that another site sends here. */
  const strangers: ReadonlyArray<Record<string, string>> = [
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "cross-site", origin: PUBLIC_URL },
    { origin: "https://evil.test" },
    { origin: "null" },
    { origin: `${PUBLIC_URL}.evil.test` }
  ]

  describe("a form", () => {
    it.effect("changes nothing unless it comes from a page of the same session", () =>
      Effect.gen(function*() {
        const owner = yield* asOwner
        const other = yield* asOwner
        const before = yield* keysOf("acme")
        const { cookie } = owner
        for (
          const fields of [mint, { ...mint, csrf: "" }, { ...mint, csrf: other.csrf }, { ...mint, csrf: [owner.csrf, owner.csrf] }, {
            ...mint,
            csrf: cookie.split("=")[1] ?? ""
          }]
        ) {
          page(yield* postForm("/keys", fields, { cookie }), 403, "This page expired")
        }
        for (const headers of strangers) {
          page(
            yield* ask("/keys", {
              method: "POST",
              body: encoded({ ...mint, csrf: owner.csrf }),
              headers: { cookie, "content-type": FORM["content-type"], ...headers }
            }),
            403
          )
        }
        for (const path of ["/sign-out", "/sign-out/everywhere", "/grant"]) {
          page(yield* postForm(path, { csrf: other.csrf }, { cookie }), 403)
        }
        assert.deepStrictEqual(yield* keysOf("acme"), before)
        page(yield* owner.get("/keys"), 200)
      }))

    it.effect("is taken from a browser that tells its origin alone", () =>
      Effect.gen(function*() {
        const { cookie, csrf } = yield* asOwner
        const place = yield* grantIdOf("acme")
        const headers = { cookie, origin: PUBLIC_URL, "content-type": FORM["content-type"] }
        page(yield* ask("/keys", { method: "POST", body: encoded({ ...mint, csrf, place }), headers }), 200, "Key created")
      }))

    it.effect("has at most 64 KiB, and is a form", () =>
      Effect.gen(function*() {
        const owner = yield* asOwner
        const large = encoded({ ...mint, csrf: owner.csrf, name: "x".repeat(65_536) })
        page(yield* ask("/keys", { method: "POST", body: large, headers: { cookie: owner.cookie, ...FORM } }), 413)
        page(
          yield* ask("/keys", {
            method: "POST",
            body: large,
            chunked: true,
            headers: { cookie: owner.cookie, ...FORM, "transfer-encoding": "chunked" }
          }),
          413
        )
        page(yield* owner.post("/keys", { ...mint, more: "x".repeat(65_000) }), 200)
        for (
          const type of ["application/json", "multipart/form-data; boundary=x", "text/plain",
            "application/x-www-form-urlencoded; charset=latin1"]
        ) {
          page(yield* owner.post("/keys", mint, { "content-type": type }), 415)
        }
      }))
  })

  describe("an address", () => {
    it.effect("answers to its methods only", () =>
      Effect.gen(function*() {
        const owner = yield* asOwner
        const addresses: ReadonlyArray<readonly [string, string]> = [
          ["/keys", "GET, HEAD, POST, OPTIONS"],
          ["/sign-in", "GET, HEAD, POST, OPTIONS"],
          ["/sign-out", "POST, OPTIONS"],
          ["/grant", "GET, HEAD, POST, OPTIONS"],
          ["/keys/x/revoke", "GET, HEAD, POST, OPTIONS"]
        ]
        for (const [path, allow] of addresses) {
          for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS", ...(allow.includes("GET") ? [] : ["GET"])]) {
            const reply = yield* ask(path, { method, headers: { cookie: owner.cookie } })
            assert.deepStrictEqual([reply.status, reply.headers["allow"]], [method === "OPTIONS" ? 204 : 405, allow], `${method} ${path}`)
            if (method !== "OPTIONS") page(reply, 405)
            if (method !== "OPTIONS") assert.include(reply.text, `<nav aria-label="Main">`)
          }
        }
        const nowhere = yield* ask("/nowhere", { headers: { accept: "text/html", cookie: owner.cookie } })
        assert.strictEqual(nowhere.status, 404)
        assert.include(nowhere.text, `<nav aria-label="Main">`)
        const head = yield* ask("/keys", { method: "HEAD", headers: { cookie: owner.cookie } })
        assert.deepStrictEqual([head.status, head.text, head.headers["content-type"]], [200, "", "text/html; charset=utf-8"])
      }))

    it.effect("of a file names its content, which browsers may keep for ever", () =>
      Effect.gen(function*() {
        const { text } = yield* ask("/sign-in")
        const files = Array.from(text.matchAll(/"(\/assets\/[^"]+)"/gu), ([, address = ""]) => address)
        assert.strictEqual(files.length, 3)
        for (const file of files) {
          const reply = yield* ask(file)
          assert.deepStrictEqual([reply.status, reply.headers["cache-control"]], [200, "public, max-age=31536000, immutable"])
          assert.match(reply.headers["content-type"] ?? "", /^(?:text\/css|text\/javascript|image\/svg\+xml)/u)
        }
        const owner = yield* asOwner
        const signedIn = yield* ask("/sandboxes", { headers: { cookie: owner.cookie } })
        const addresses = (named: RegExp) => Array.from(signedIn.text.matchAll(named), ([, address = ""]) => address)
        const preloads = addresses(/<link rel="modulepreload" href="([^"]+)"/gu)
        const scripts = addresses(/<script type="module" src="([^"]+)"/gu)
        const imported = new Set<string>()
        for (const script of [...scripts, ...preloads]) {
          for (const [, name] of (yield* ask(script)).text.matchAll(/ from "\.\/([^"]+)"/gu)) imported.add(`/assets/${name}`)
        }
        assert.isAbove(imported.size, 0)
        assert.sameMembers(preloads, [...imported])
        assert.strictEqual((yield* ask("/assets/../package.json")).status, 404)
        assert.strictEqual((yield* ask("/assets/tsconfig.json")).status, 404)
      }))
  })

  describe("where to go after signing in", () => {
    const hostile = [
      "https://evil.test/",
      "//evil.test/",
      "/\\evil.test",
      "\\\\evil.test",
      "/\t/evil.test",
      "/\n/evil.test",
      "javascript:alert(1)",
      "keys",
      "",
      " /keys",
      "/keys\u0000",
      "/é",
      "/./ /evil.test",
      "/.//evil.test",
      "/x/..//evil.test",
      `/${"x".repeat(2001)}`,
      "http:/keys",
      "/keys\r\nset-cookie: a=b"
    ]

    it.effect("is never another server", () =>
      Effect.gen(function*() {
        const { userId } = yield* (yield* MemberStore).owner
        for (const next of hostile) {
          assert.isNull(localPath(next), JSON.stringify(next))
          const shown = yield* ask(`/sign-in?next=${encodeURIComponent(next)}`)
          assert.notInclude(shown.text, "name=\"next\"")
          if (next.includes("\0")) continue
          const code = Redacted.value(yield* (yield* Sessions).makeLink(userId))
          sentTo(yield* postForm("/sign-in", { code, next }), "/")
        }
        assert.include((yield* ask("/sign-in?next=%2Fkeys%3Fdone%3Drevoked")).text, "name=\"next\" value=\"/keys?done=revoked\"")
      }))

    it("is kept as browsers will read it", () => {
      assert.deepStrictEqual(["/keys", "/keys/../grant", "/a?next=//b", "/keys#x"].map(localPath), ["/keys", "/grant", "/a?next=//b",
        "/keys"])
    })
  })

  describe("keys", () => {
    it.effect("are minted with a name, scopes of the role and an end, and shown once", () =>
      Effect.gen(function*() {
        const owner = yield* asOwner
        const reply = yield* owner.post("/keys", { ...mint, name: "  <b>laptop</b> 😀 ", scope: ["webhooks", "sandboxes"], expires: "30" })
        page(reply, 200, "Key created")
        const key = /value="(sbx_live_[0-9A-Za-z]+)"/u.exec(reply.text)?.[1] ?? ""
        assert.strictEqual((yield* ask(SANDBOXES, { key })).status, 200)
        const record = (yield* keysOf("acme")).find(({ last4 }) => key.endsWith(last4))
        assert(record !== undefined && record.expiresAt !== null)
        assert.deepStrictEqual([record.label, record.scopes, record.userId], ["<b>laptop</b> 😀", ["sandboxes", "webhooks"], owner.userId])
        assert.strictEqual(Duration.toDays(DateTime.distance(record.createdAt, record.expiresAt)), 30)
        const list = yield* owner.get("/keys")
        page(list, 200, "Keys")
        assert.notInclude(list.text, key)
        assert.include(list.text, "&lt;b&gt;laptop&lt;/b&gt; 😀")
        assert.include(list.text, `sbx_live_…${record.last4}`)
        const [entry] = (yield* (yield* AuditLog).list({ since: null, limit: 1000 })).filter(({ subjects }) =>
          subjects["keyId"] === record.id
        )
        assert.deepStrictEqual([entry?.actor, entry?.origin?.requestId], [{ _tag: "User", userId: owner.userId },
          reply.headers["x-request-id"]])
      }))

    it.effect("are not minted of what the form does not offer", () =>
      Effect.gen(function*() {
        const owner = yield* asOwner
        const member = yield* signedIn(yield* joined("grace"))
        const before = yield* keysOf("acme")
        const { expires: _, ...endless } = mint
        const wrong: ReadonlyArray<Fields> = [
          { ...mint, name: "" },
          { ...mint, name: "   " },
          { ...mint, name: "x".repeat(121) },
          { ...mint, name: "a\u0000b" },
          { ...mint, name: "a\nb" },
          { ...mint, name: ["a", "b"] },
          { ...mint, scope: [] },
          { ...mint, scope: "root" },
          { ...mint, scope: "partner:ingest" },
          { ...mint, scope: ["sandboxes", "sandboxes"] },
          { ...mint, scope: "toString" },
          { ...mint, expires: "1" },
          { ...mint, expires: "" },
          { ...mint, expires: ["30", "90"] },
          { ...mint, expires: "367" },
          endless
        ]
        for (const fields of wrong) page(yield* owner.post("/keys", fields), 400)
        page(yield* member.post("/keys", { ...mint, scope: "webhooks" }), 400)
        assert.notInclude((yield* member.get("/keys")).text, "value=\"webhooks\"")
        assert.deepStrictEqual(yield* keysOf("acme"), before)
        page(yield* owner.post("/keys", { ...mint, name: "😀".repeat(120) }), 200)
      }))

    it.effect("are revoked after a question, by whom they belong to or an owner", () =>
      Effect.gen(function*() {
        const owner = yield* asOwner
        const member = yield* signedIn(yield* joined("ada"))
        const minted = yield* mintKey({ userId: member.userId })
        const address = `/keys/${minted.record.id}/revoke`
        page(yield* owner.get(address), 200, "Revoke test")
        assert.strictEqual((yield* ask(SANDBOXES, { key: minted.key })).status, 200)
        const theirs = yield* mintKey()
        const foreign = yield* mintKey({ grant: "other" })
        for (const id of [theirs.record.id, foreign.record.id, "x", "%27", "../keys"]) {
          if (id === foreign.record.id) page(yield* owner.get(`/keys/${id}/revoke`), 404)
          const address = `/keys/${encodeURIComponent(id)}/revoke`
          page(yield* member.get(address), 404)
          page(yield* member.post(address, {}), 404)
        }
        for (const { key } of [theirs, foreign]) assert.strictEqual((yield* ask(SANDBOXES, { key })).status, 200)
        assert.notInclude((yield* member.get("/keys")).text, `/keys/${theirs.record.id}/revoke`)
        page(yield* postForm(address, {}, { cookie: member.cookie }), 403)
        sentTo(yield* member.post(address, {}), "/keys?done=revoked")
        assert.strictEqual((yield* ask(SANDBOXES, { key: minted.key })).status, 401)
        assert.include((yield* member.get("/keys?done=revoked")).text, "Key revoked")
        sentTo(yield* member.get(address), "/keys?done=revoked")
        sentTo(yield* owner.post(address, {}), "/keys?done=revoked")
        for (const done of ["toString", "__proto__", "<script>"]) {
          assert.notInclude((yield* owner.get(`/keys?done=${done}`)).text, "class=\"told\"")
        }
      }))

    it.effect("are minted in the grant that the form was of, or not at all", () =>
      Effect.gen(function*() {
        const owner = yield* asOwner
        const acme = yield* grantIdOf("acme")
        const [, offered] = /name="place" value="([^"]*)"/u.exec((yield* owner.get("/keys")).text) ?? []
        assert.strictEqual(offered, acme)
        // Chosen in another window, or all that is left of a membership.
        yield* mintKey({ grant: "elsewhere" })
        const elsewhere = yield* grantIdOf("elsewhere")
        sentTo(yield* owner.post("/grant", { grant: elsewhere }), "/settings?done=grant")
        const before = [yield* keysOf("acme"), yield* keysOf("elsewhere")]
        for (const place of [acme, "", "x", [elsewhere, elsewhere], []]) {
          page(yield* owner.post("/keys", { ...mint, place }), 409, "You switched to another grant")
          page(yield* owner.post(`/keys/${before[1]?.[0]?.id}/revoke`, { place }), 409, "You switched to another grant")
        }
        assert.deepStrictEqual([yield* keysOf("acme"), yield* keysOf("elsewhere")], before)
        // A user without any grant can still leave.
        sentTo(yield* owner.post("/grant", { grant: acme, place: "x" }), "/settings?done=grant")
        page(yield* owner.post("/keys", { ...mint, place: acme }), 200)
      }))

    it.effect("are those of the grant that was chosen", () =>
      Effect.gen(function*() {
        const owner = yield* asOwner
        yield* mintKey({ grant: "second" })
        const second = yield* grantIdOf("second")
        sentTo(yield* owner.post("/grant", { grant: second }), "/settings?done=grant")
        assert.include((yield* owner.get("/keys")).text, "<strong>second</strong>")
        page(yield* owner.post("/keys", { ...mint, name: "of the second" }), 200)
        assert.include((yield* keysOf("second")).map(({ label }) => label), "of the second")
        for (const grant of ["", "x", "00000000-0000-7000-8000-000000000000"]) page(yield* owner.post("/grant", { grant }), 404)
        page(yield* owner.get("/grant"), 200, "Choose a grant")
      }))

    it.effect("are named on every page with the grant it is of, and who switches goes on at the same place, if that is theirs", () =>
      Effect.gen(function*() {
        yield* mintKey({ grant: "second" })
        yield* mintKey({ grant: "elsewhere" })
        const owner = yield* asOwner
        const second = yield* grantIdOf("second")
        for (const [path, from] of [["/sandboxes", "sandboxes"], ["/keys", "keys"], ["/webhooks", "webhooks"], ["/device", ""]] as const) {
          const { text } = yield* owner.get(path)
          const header = text.slice(text.indexOf("<header>"), text.indexOf("</header>"))
          assert.match(header, /<option value="[^"]*" selected>acme<\/option>/u)
          assert.include(header, `<option value="${second}">second</option>`)
          assert.include(header, `name="from" value="${from}"`)
        }
        for (
          const [from, path] of [["sandboxes", "/sandboxes"], ["keys", "/keys"], ["secrets", "/secrets"], ["", "/sandboxes"], [
            "//evil.test",
            "/sandboxes"
          ], ["__proto__", "/sandboxes"]] as const
        ) {
          sentTo(yield* owner.post("/grant", { grant: second, from }), path)
        }
        assert.include((yield* owner.get("/sandboxes")).text, "selected>second</option>")
        page(yield* owner.post("/grant", { grant: second, from: "keys", csrf: "x" }), 403)
        const member = yield* signedIn(yield* joined("header"))
        sentTo(yield* member.post("/grant", { grant: second, from: "secrets" }), "/sandboxes")
        sentTo(yield* member.post("/grant", { grant: second, from: "keys" }), "/keys")
      }))

    it.effect("lead to a page of their own where there are too many for a list in the header", () =>
      Effect.gen(function*() {
        const access = yield* Access
        const owner = yield* asOwner
        for (let i = 0; i < 40; i++) yield* access.createGrant(`many ${i}`)
        const { text } = yield* owner.get("/secrets")
        const header = text.slice(text.indexOf("<header>"), text.indexOf("</header>"))
        assert.notInclude(header, "<select")
        assert.include(header, `href="/grant?from=secrets"`)
        const chosen = yield* grantIdOf("many 7")
        const choice = yield* owner.get("/grant?from=secrets")
        assert.include(choice.text, `name="from" value="secrets"`)
        sentTo(yield* owner.post("/grant", { grant: chosen, from: "secrets" }), "/secrets")
        for (let i = 0; i < 40; i++) yield* Effect.ignore(access.revokeGrant(`many ${i}`))
      }))
  })

  describe("who is signed in but may do nothing", () => {
    it.effect("is told why, what an administrator can do, and can sign out", () =>
      Effect.gen(function*() {
        yield* asOwner
        const members = yield* Members
        const { user } = yield* members.add(null, "linus", "member")
        const unapproved = yield* signedIn(user.id)
        const refused = yield* unapproved.get("/keys")
        page(refused, 403, "You are not approved yet")
        assert.include(refused.text, "<code>slipway users approve linus</code>")
        page(yield* unapproved.post("/keys", mint), 403, "You are not approved yet")
        yield* members.approve("linus")
        page(yield* unapproved.get("/keys"), 200)
        yield* members.remove(null, "linus")
        const nowhere = yield* unapproved.get("/keys")
        page(nowhere, 403, "You belong to no organization yet")
        assert.include(nowhere.text, "slipway members add linus")
        yield* members.add(null, "linus", "member")
        yield* members.suspend("default")
        const suspended = yield* unapproved.get("/keys")
        page(suspended, 403, "Your organization is suspended")
        assert.match(suspended.text, /slipway orgs resume [0-9a-f-]{36}/u)
        yield* members.resume("default")
        const left = yield* unapproved.post("/sign-out", {})
        sentTo(left, "/sign-in")
        assert.deepStrictEqual(left.headers["set-cookie"]?.map((cookie) => cookie.split("; ").slice(0, 2)), [[`${COOKIE}=`, "Max-Age=0"]])
        sentTo(yield* unapproved.get("/keys"), "/sign-in?next=%2Fkeys")
      }))

    it.effect("ends every session of theirs, and no other session, by signing out everywhere", () =>
      Effect.gen(function*() {
        const userId = yield* joined("barbara")
        const [one, other, stranger] = [yield* signedIn(userId), yield* signedIn(userId), yield* asOwner]
        sentTo(yield* one.post("/sign-out/everywhere", {}), "/sign-in")
        sentTo(yield* other.get("/keys"), "/sign-in?next=%2Fkeys")
        page(yield* stranger.get("/keys"), 200)
      }))
  })

  it.effect("no page shows input as markup", () =>
    Effect.gen(function*() {
      const owner = yield* asOwner
      const attack = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&lt;"
      yield* (yield* Access).createGrant(attack)
      yield* mintKey({ grant: attack })
      const replies = [
        yield* owner.get(`/keys?done=${encodeURIComponent(attack)}`),
        yield* owner.post("/keys", { ...mint, name: attack }),
        yield* owner.post("/keys", { ...mint, expires: attack }),
        yield* owner.post("/keys", { ...mint, [attack]: attack }),
        yield* owner.get("/keys"),
        yield* owner.get("/grant"),
        yield* owner.get(`/keys/${encodeURIComponent(attack)}/revoke`),
        yield* owner.post("/grant", { grant: attack }),
        yield* ask(`/sign-in?next=${encodeURIComponent(`/${attack}`)}`),
        yield* ask(`/sign-in?next=/%22%3E%3Cscript%3E`),
        yield* postForm("/sign-in", { code: attack, next: `/${attack}` })
      ]
      for (const { text } of replies) {
        assert.notMatch(text, /<script>|<img|onerror=alert\(2\)>/u)
        assert.notMatch(text, /<script(?! type="module" src="\/assets\/[\w-]+\.js">)/u)
      }
      assert.include(replies[4]?.text ?? "", "&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;")
    }))
})

layer(
  http({
    settings: { requestsPerMinute: 2 },
    access: (store) => ({ ...store, listKeys: () => Effect.fail(new StoreUnavailable({ cause: "no database at 10.1.2.3" })) })
  }),
  { excludeTestServices: true }
)("pages under load", (it) => {
  it.effect("are refused beyond the rate, and say when the store is away", () =>
    Effect.gen(function*() {
      const owner = yield* asOwner
      const away = yield* owner.get("/keys")
      page(away, 503, "Not now")
      assert.strictEqual(away.headers["retry-after"], "1")
      assert.notInclude(away.text, "10.1.2.3")
      yield* owner.get("/keys")
      const refused = yield* owner.get("/keys")
      page(refused, 429, "Too many requests")
      assert.match(refused.headers["retry-after"] ?? "", /^[1-9]\d*$/u)
    }))
})

layer(
  http({ access: (store) => ({ ...store, listKeys: () => Effect.die(new Error("secret detail")) }) }).pipe(
    Layer.provide(Layer.succeed(SessionLifetimes, { idle: Duration.hours(1), absolute: Duration.hours(1), oidc: Duration.hours(1) }))
  ),
  { excludeTestServices: true }
)("pages that go wrong", (it) => {
  it.effect("tell nothing of what went wrong", () =>
    Effect.gen(function*() {
      const owner = yield* asOwner
      const reply = yield* owner.get("/keys")
      page(reply, 500, "Something went wrong")
      assert.notInclude(reply.text, "secret detail")
    }))
})

let listed: Effect.Effect<never, StoreUnavailable> = Effect.never
layer(
  http({ dashboard: (dashboard) => ({ ...dashboard, list: () => Effect.suspend(() => listed) }) }),
  { excludeTestServices: true }
)("pages whose rail cannot be read", (it) => {
  it.effect("are sent without it, error pages too", () =>
    Effect.gen(function*() {
      const owner = yield* asOwner
      const answers = [Effect.fail(new StoreUnavailable({ cause: "no database" })), Effect.die(new Error("a fault")), Effect.never]
      for (const answer of answers) {
        listed = answer
        for (const [path, status, title] of [["/keys", 200, "Keys"], ["/nope", 404, "Page not found"]] as const) {
          const reply = yield* owner.get(path, { accept: "text/html" })
          assert.strictEqual(reply.status, status)
          assert.include(reply.text, `<title>${title} · Slipway</title>`)
          assert.include(reply.text, `<nav aria-label="Main">`)
          assert.notInclude(reply.text, `class="rail"`)
        }
      }
    }))
})

layer(
  http().pipe(Layer.provide(Layer.succeed(SessionLifetimes, { idle: Duration.hours(1), absolute: Duration.zero, oidc: Duration.zero }))),
  { excludeTestServices: true }
)("a session that expired", (it) => {
  it.effect("leads to the sign-in page", () =>
    Effect.gen(function*() {
      const owner = yield* asOwner
      sentTo(yield* owner.get("/keys"), "/sign-in?next=%2Fkeys")
      sentTo(yield* owner.post("/keys", mint), "/sign-in?next=%2Fkeys")
      assert.deepStrictEqual(yield* keysOf("acme"), [])
    }))
})

const ada = { provider: "github" as const, entry: AS_INVITED, subject: "4711", login: "ada-l", name: "Ada <b>", email: null }
const knowing = (...people: ReadonlyArray<Identity>) =>
  Layer.effect(
    IdentityProviders,
    Effect.forEach(people, (person) =>
      Effect.map(Layer.build(IdentityProviderMemory.layer(person)), (context) => ({
        ...Context.get(context, IdentityProvider),
        signOutUrl: () => Effect.succeed(person.provider === "oidc" ? "https://login.example.com/end?a=1&b=2" : null)
      })))
  ).pipe(Layer.provide(IdsNode.layer))
const knowsAda = knowing(ada)

layer(http().pipe(Layer.provide(knowsAda)), { excludeTestServices: true })("an identity provider", (it) => {
  const begin = Effect.fnUntraced(function*(next = "") {
    const reply = yield* ask(`/sign-in/github${next}`)
    assert.strictEqual(reply.status, 303)
    guarded(reply)
    const [cookie = ""] = reply.headers["set-cookie"] ?? []
    const [pair = "", ...attributes] = cookie.split("; ")
    assert.sameMembers(attributes, ["Max-Age=600", "Path=/", "HttpOnly", "Secure", "SameSite=Lax"])
    return { back: new URL(reply.headers["location"] ?? "").search, cookie: pair }
  })
  const CALLBACK = "/sign-in/github/callback"
  const isForgotten = (reply: Reply) =>
    assert(reply.headers["set-cookie"]?.some((cookie) => cookie.startsWith("__Host-slipway_oauth=; Max-Age=0; Path=/;")), reply.text)

  it.effect("is offered, and signs people in who may not do anything yet", () =>
    Effect.gen(function*() {
      assert.include((yield* ask("/sign-in?next=/grant")).text, "href=\"/sign-in/github?next=%2Fgrant\"")
      const { back, cookie } = yield* begin("?next=%2Fgrant")
      const reply = yield* ask(CALLBACK + back, { headers: { cookie } })
      sentTo(reply, "/grant")
      isForgotten(reply)
      const session = reply.headers["set-cookie"]?.find((cookie) => cookie.startsWith(COOKIE))?.split(";")[0] ?? ""
      const refused = yield* ask("/keys", { headers: { cookie: session } })
      page(refused, 403, "You are not approved yet")
      assert.include(refused.text, "Ada &lt;b&gt;")
      // The code is used up.
      const again = yield* ask(CALLBACK + back, { headers: { cookie } })
      page(again, 403, "You are not signed in")
      isForgotten(again)
    }))

  it.effect("is believed only in the browser that began", () =>
    Effect.gen(function*() {
      const [mine, theirs] = [yield* begin(), yield* begin()]
      const attempts: ReadonlyArray<readonly [string, Record<string, string>]> = [
        [mine.back, {}],
        [mine.back, { cookie: theirs.cookie }],
        [mine.back.replace(/state=[^&]*/u, "state="), { cookie: mine.cookie }],
        [mine.back.replace(/&state=.*/u, ""), { cookie: mine.cookie }],
        ["", { cookie: mine.cookie }],
        ["?state=&code=x", { cookie: "__Host-slipway_oauth=" }],
        ["?error=access_denied", { cookie: mine.cookie }]
      ]
      for (const [back, headers] of attempts) {
        const reply = yield* ask(CALLBACK + back, { headers })
        page(reply, 400, "You are not signed in")
        // Another tab of the browser may be about to come back.
        assert.isUndefined(reply.headers["set-cookie"])
      }
      const denied = yield* ask(`${CALLBACK}?error=access_denied${mine.back.replace(/^.*&state/u, "&state")}`, {
        headers: { cookie: mine.cookie }
      })
      page(denied, 403, "You are not signed in")
      isForgotten(denied)
      assert.include(denied.text, "says that you did not agree")
    }))

  it.effect("that does not take the service's word is not said to be the person's refusal", () =>
    Effect.gen(function*() {
      for (const error of ["error=redirect_uri_mismatch", "error=application_suspended", "error=%0A%1B[31m", "error=", "x"]) {
        const { back, cookie } = yield* begin()
        const reply = yield* ask(`${CALLBACK}?${error}${back.replace(/^.*&state/u, "&state")}`, { headers: { cookie } })
        page(reply, 502, "You are not signed in")
        isForgotten(reply)
        assert.include(reply.text, "Memory refuses the service. An administrator has to look at its log.")
      }
    }))

  it.effect("signs in whatever became of the rest of the cookie, which no address makes too long to be kept", () =>
    Effect.gen(function*() {
      const tampered = yield* begin()
      sentTo(yield* ask(CALLBACK + tampered.back, { headers: { cookie: `${tampered.cookie}%25` } }), "/")
      for (
        const [next, path] of [["/sandboxes?repo=a%2Fb&status=running", "/sandboxes?repo=a%2Fb&status=running"], [`/${"\"".repeat(1500)}`,
          "/"]] as const
      ) {
        const { back, cookie } = yield* begin(`?next=${encodeURIComponent(next)}`)
        assert.isBelow(cookie.length, 4000)
        sentTo(yield* ask(CALLBACK + back, { headers: { cookie } }), path)
      }
    }))

  it.effect("leads to no other server", () =>
    Effect.gen(function*() {
      const { back, cookie } = yield* begin("?next=%2F%2Fevil.test")
      sentTo(yield* ask(CALLBACK + back, { headers: { cookie } }), "/")
      const planted = yield* begin()
      sentTo(yield* ask(CALLBACK + planted.back, { headers: { cookie: `${planted.cookie}%2F%2Fevil.test` } }), "/")
    }))
})

const grace: Identity = { ...ada, provider: "oidc", subject: "https://id.test 1", login: "grace@example.com", name: "Grace" }
const turnedAway: Identity = { ...grace, entry: { _tag: "Refused", detail: "None of your groups may enter.", leaves: true } }

layer(http().pipe(Layer.provide(knowing(ada, grace))), { excludeTestServices: true })("two identity providers", (it) => {
  const begin = Effect.fnUntraced(function*(id: string) {
    const reply = yield* ask(`/sign-in/${id}`)
    return { back: new URL(reply.headers["location"] ?? ""), cookie: reply.headers["set-cookie"]?.[0]?.split(";")[0] ?? "" }
  })

  it.effect("are both offered, and each knows its own people", () =>
    Effect.gen(function*() {
      const { text } = yield* ask("/sign-in")
      for (const id of ["github", "oidc"]) {
        assert.include(text, `href="/sign-in/${id}"`)
        const { back, cookie } = yield* begin(id)
        assert.strictEqual(back.pathname, `/sign-in/${id}/callback`)
        sentTo(yield* ask(back.pathname + back.search, { headers: { cookie } }), "/")
      }
    }))

  it.effect("have sessions of their own, which can be ended after signing out where they offer it", () =>
    Effect.gen(function*() {
      for (const [id, path] of [["github", "/sign-in?left=github"], ["oidc", "/sign-in?left=oidc"]] as const) {
        const { back, cookie } = yield* begin(id)
        const entered = yield* ask(back.pathname + back.search, { headers: { cookie } })
        const session = entered.headers["set-cookie"]?.find((cookie) => cookie.startsWith(COOKIE))?.split(";")[0] ?? ""
        const csrf = /name="csrf" value="([^"]+)"/u.exec((yield* ask("/grant", { headers: { cookie: session } })).text)?.[1] ?? ""
        sentTo(yield* postForm("/sign-out", { csrf }, { cookie: session }), path)
      }
      for (const left of ["github", "other", ""]) assert.notInclude((yield* ask(`/sign-in?left=${left}`)).text, "You are signed out here")
      const { text } = yield* ask("/sign-in?left=oidc")
      assert.include(text, "href=\"https://login.example.com/end?a=1&amp;b=2\"")
    }))

  it.effect("are not asked about each other's answers", () =>
    Effect.gen(function*() {
      for (const [id, other] of [["github", "oidc"], ["oidc", "github"]] as const) {
        const { back, cookie } = yield* begin(id)
        page(yield* ask(`/sign-in/${other}/callback${back.search}`, { headers: { cookie } }), 400, "You are not signed in")
      }
    }))
})

layer(http().pipe(Layer.provide(knowing(turnedAway))), { excludeTestServices: true })("an account that may not enter", (it) => {
  it.effect("is told so, and gets no session", () =>
    Effect.gen(function*() {
      const begun = yield* ask("/sign-in/oidc")
      const { pathname, search } = new URL(begun.headers["location"] ?? "")
      const reply = yield* ask(pathname + search, { headers: { cookie: begun.headers["set-cookie"]?.[0]?.split(";")[0] ?? "" } })
      page(reply, 403, "You are not signed in")
      assert.include(reply.text, "None of your groups may enter.")
      assert.notMatch(String(reply.headers["set-cookie"]), /session=[0-9A-Za-z]/u)
    }))
})

const BEGUN = "__Host-slipway_oauth"

layer(http({ settings: { refusedKeysPerMinute: 2 } }).pipe(Layer.provide(knowsAda)), { excludeTestServices: true })(
  "codes that somebody made up",
  (it) => {
    it.effect("are not brought to the identity provider without end", () =>
      Effect.gen(function*() {
        const invented = ask("/sign-in/github/callback?code=x&state=s", { headers: { cookie: `${BEGUN}=s%20v%20` } })
        for (const status of [403, 403, 429, 429]) page(yield* invented, status, "You are not signed in")
        const { headers, text } = yield* invented
        assert.match(String(headers["retry-after"]), /^[1-9]\d?$/u)
        assert.include(text, `Try again in ${headers["retry-after"]} s.`)
      }))
  }
)

layer(http({ settings: { refusedKeysPerMinute: 2 } }), { excludeTestServices: true })("unreadable forms of strangers", (it) => {
  for (const path of ["/sign-in", "/oauth/token"]) {
    it.effect(`are refused with 429 at ${path} after some of one address, whatever their type says`, () =>
      Effect.gen(function*() {
        const send = ask(path, {
          method: "POST",
          body: "a=b",
          headers: { "sec-fetch-site": "same-origin", "content-type": `application/x-www-form-urlencoded${" ".repeat(8000)}x` }
        })
        for (const status of [415, 415, 429, 429]) assert.strictEqual((yield* send).status, status)
        assert.match(String((yield* send).headers["retry-after"]), /^[1-9]\d?$/u)
      }))
  }
})

layer(http({ settings: { refusedKeysPerMinute: 2, trustedProxies: (address) => address === "127.0.0.1" } }).pipe(Layer.provide(knowsAda)), {
  excludeTestServices: true
})(
  "made-up sign-ins behind a trusted proxy",
  (it) => {
    it.effect("stop only the address that they came from", () =>
      Effect.gen(function*() {
        const from = (address: string) =>
          ask("/sign-in/github/callback?code=x&state=s", { headers: { cookie: `${BEGUN}=s%20v%20`, "x-forwarded-for": address } })
        for (const status of [403, 403, 429, 429]) page(yield* from("198.51.100.1"), status, "You are not signed in")
        page(yield* from("198.51.100.2"), 403, "You are not signed in")
      }))
  }
)

for (
  const [error, status] of [
    [new SignInRefused({ detail: "No." }), 403],
    [new IdentityProviderError({ detail: "internal detail", retryable: true }), 502],
    [new IdentityProviderError({ detail: "internal detail", retryable: false }), 502]
  ] as const
) {
  const failing = Layer.succeed(IdentityProviders, [{
    id: "github",
    name: "GitHub",
    begin: (redirectUri) =>
      Effect.succeed({ url: `${redirectUri}?code=c&state=s`, state: Redacted.make("s"), verifier: Redacted.make("v") }),
    identify: () => Effect.fail(error),
    signOutUrl: () => Effect.succeed(null)
  }])
  layer(http().pipe(Layer.provide(failing)), { excludeTestServices: true })(`an identity provider that fails with ${status}`, (it) => {
    it.effect("is a page", () =>
      Effect.gen(function*() {
        const begun = yield* ask("/sign-in/github")
        const reply = yield* ask("/sign-in/github/callback?code=c&state=s", {
          headers: { cookie: begun.headers["set-cookie"]?.[0]?.split(";")[0] ?? "" }
        })
        page(reply, status, "You are not signed in")
        assert.notInclude(reply.text, "internal detail")
      }))
  })
}

layer(http({ settings: { publicUrl: "http://10.0.0.5:4000" } }), { excludeTestServices: true })("an address without TLS", (it) => {
  it.effect("says that browsers keep no session there", () =>
    Effect.gen(function*() {
      assert.include((yield* ask("/sign-in")).text, "You cannot stay signed in at http://10.0.0.5:4000")
    }))

  it("of the machine itself is good enough for browsers", () => {
    assert.deepStrictEqual(
      ["https://x.test", "http://localhost:1", "http://127.0.0.1", "http://[::1]:4000", "http://x.localhost", "http://x.test",
        "http://127.0.0.1.x.test", "http://localhost.x.test"].map(keepsSessions),
      [true, true, true, true, true, false, false, false]
    )
  })
})
