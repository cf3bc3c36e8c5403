/** The pages of secrets as HTML: whom they serve, what they show and what not, and what their forms do. */
import { assert, layer } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { MAX_SECRETS, SecretStore } from "@slipway/domain/environment/ports/SecretStore"
import { DateTime, Effect, Redacted } from "effect"
import { owner, type Visitor, visitorAs, encoded, type Fields, redirected, textOf } from "../testing/Browser.ts"
import { ask, joined, layer as http, type Reply } from "../testing/Harness.ts"

const CANARY = "canary-9f2Kq-<'\">&-7Qm2"
const HOSTILE = `"'><script>alert(1)</script>`

const isPage = (reply: Reply, status = 200, title?: string) => {
  assert.strictEqual(reply.status, status, reply.text)
  assert.deepStrictEqual([reply.headers["content-type"], reply.headers["cache-control"]], ["text/html; charset=utf-8", "no-store"])
  assert.notMatch(reply.text, /<script(?! type="module" src="\/assets\/)|style="|\son\w+="/u)
  assert.notInclude(reply.text, "7Qm2")
  if (title !== undefined) assert.include(reply.text, `<title>${title} · Slipway</title>`)
}

const secret = { repo: "acme/shop", name: "NPM_TOKEN", value: CANARY }
const secretsOf = ({ grantId }: Visitor) =>
  Effect.map(SecretStore.use((store) => store.list(grantId, null)), (all) => all.map(({ name, repo }) => `${repo} ${name}`))
const valueOf = ({ grantId }: Visitor, name = "NPM_TOKEN") =>
  Effect.map(
    SecretStore.use((store) => store.reveal({ grantId, repo: "acme/shop" }, [name])),
    (values) => Redacted.value(values.get(name) ?? Redacted.make(""))
  )

layer(http(), { excludeTestServices: true })("the pages of secrets", (it) => {
  it.effect("are an owner's: a member is told so, sees none and changes nothing; who is not signed in signs in first", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      redirected(yield* mine.post("/secrets", secret), "/secrets?done=set")
      const member = yield* visitorAs(yield* joined("grace"))
      for (const path of ["/secrets", "/secrets/remove", "/secrets/remove?repo=acme%2Fshop&name=NPM_TOKEN"]) {
        isPage(yield* member.get(path), 403, "Secrets are for owners")
        isPage(yield* member.post(path, secret), 403, "Secrets are for owners")
        redirected(yield* ask(path), `/sign-in?next=${encodeURIComponent(path)}`)
        assert.strictEqual(
          (yield* ask(path, { body: encoded(secret), headers: { "content-type": "application/x-www-form-urlencoded" } })).status,
          303
        )
      }
      assert.deepStrictEqual([yield* secretsOf(member), yield* secretsOf(mine)], [[], ["acme/shop NPM_TOKEN"]])
      for (const [{ get }, isShown] of [[mine, true], [member, false]] as const) {
        assert.strictEqual((yield* get("/keys")).text.includes(`<a href="/secrets">Secrets</a>`), isShown)
      }
      assert.include((yield* mine.get("/secrets")).text, `<a href="/secrets" aria-current="page">`)
    }))

  it.effect("set and remove one of all repositories of the grant by a star in place of the repository", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      redirected(yield* mine.post("/secrets", { repo: "*", name: "SHARED", value: CANARY }), "/secrets?done=set")
      assert.strictEqual(yield* valueOf(mine, "SHARED"), CANARY)
      const list = yield* mine.get("/secrets")
      assert.match(textOf(list), /SHARED all repositories [\d-]+/u)
      isPage(yield* mine.get("/secrets/remove?repo=*&name=SHARED"), 200, "Remove SHARED?")
      redirected(yield* mine.post("/secrets/remove", { repo: "*", name: "SHARED" }), "/secrets?done=removed")
      assert.deepStrictEqual(yield* secretsOf(mine), [])
    }))

  it.effect("set one, which is told by name and time and never shown again", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const empty = yield* mine.get("/secrets?repo=acme/shop")
      isPage(empty, 200, "Secrets")
      assert.include(textOf(empty), "No secrets yet.")
      assert.include(empty.text, `name="repo" value="acme/shop"`)
      const reply = yield* mine.post("/secrets", { ...secret, repo: " acme/shop ", name: " NPM_TOKEN" })
      redirected(reply, "/secrets?done=set")
      assert.strictEqual(yield* valueOf(mine), CANARY)
      const list = yield* mine.get("/secrets?done=set")
      isPage(list, 200)
      assert.include(textOf(list), "Secret saved.")
      assert.match(textOf(list), /NPM_TOKEN acme\/shop [\d-]+ [\d:]+ UTC [\d-]+ [\d:]+ UTC Remove/u)
      // Another value in its place; each line break stays as typed.
      redirected(yield* mine.post("/secrets", { ...secret, value: "first line\r\nsecond\r\n" }), "/secrets?done=set")
      assert.strictEqual(yield* valueOf(mine), "first line\nsecond\n")
      assert.deepStrictEqual(yield* secretsOf(mine), ["acme/shop NPM_TOKEN"])
      const entries = (yield* (yield* AuditLog).list({ since: null, limit: 100_000 })).filter(({ subjects }) =>
        subjects["grantId"] === mine.grantId
      )
      const told = entries.filter(({ action }) => action.startsWith("secret."))
      assert.deepStrictEqual(told.map(({ action, actor }) => [action, actor._tag]), [["secret.set", "User"], ["secret.set", "User"]])
      assert.strictEqual(told[0]?.origin?.requestId, reply.headers["x-request-id"])
      assert.notInclude(JSON.stringify(entries), "7Qm2")
    }))

  it.effect("refuse what cannot be one, in the form as it was filled in but for the value", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const wrong: ReadonlyArray<readonly [Fields, RegExp]> = [
        [{ repo: "" }, /The repository cannot be used: owner\/name expected\./u],
        [{ repo: "shop" }, /The repository cannot be used:/u],
        [{ repo: HOSTILE }, /The repository cannot be used:/u],
        [{ name: "npm_token" }, /The name cannot be used: a name of capital letters/u],
        [{ name: "PATH" }, /The name cannot be used: a name that the service does not set itself/u],
        [{ name: HOSTILE }, /The name cannot be used:/u],
        [{ value: "" }, /The value cannot be used: 1 byte to 64 KiB of UTF-8 without NUL expected\./u]
      ]
      for (const [fields, told] of wrong) {
        const reply = yield* mine.post("/secrets", { ...secret, ...fields })
        isPage(reply, 400, "Secrets")
        assert.match(textOf(reply), told)
        assert.include(reply.text, "aria-errormessage=\"problem\"></textarea>")
        if (fields["repo"] === undefined) assert.include(reply.text, `name="repo" value="acme/shop"`)
      }
      const { name: _, ...nameless } = secret
      for (const fields of [nameless, { ...secret, value: [CANARY, CANARY] }, { ...secret, value: "7Qm2\0" }]) {
        isPage(yield* mine.post("/secrets", fields), 400)
      }
      isPage(yield* mine.post("/secrets", { ...secret, value: "7Qm2".repeat(20_000) }), 413)
      assert.deepStrictEqual(yield* secretsOf(mine), [])
    }))

  it.effect("are so many of a repository at most", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const store = yield* SecretStore
      const at = yield* DateTime.now
      for (let i = 0; i < MAX_SECRETS; i++) {
        yield* store.set({ grantId: mine.grantId, repo: "acme/shop", name: `TOKEN_${i}` }, Redacted.make("v"), at)
      }
      const reply = yield* mine.post("/secrets", secret)
      isPage(reply, 409, "Secrets")
      assert.include(textOf(reply), "A repository may have 100 secrets")
    }))

  it.effect("do nothing for a form of another grant, session or site", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      redirected(yield* mine.post("/secrets", secret), "/secrets?done=set")
      const before = (yield* SecretStore).list(mine.grantId, null)
      const known = yield* before
      for (const [path, fields] of [["/secrets", { ...secret, name: "OTHER" }], ["/secrets/remove", secret]] as const) {
        isPage(yield* mine.post(path, { ...fields, place: "other" }), 409, "You switched to another grant")
        for (const csrf of ["", "x", []]) isPage(yield* mine.post(path, { ...fields, csrf }), 403, "This page expired")
        isPage(yield* mine.post(path, fields, { "sec-fetch-site": "cross-site" }), 403, "Request from another site blocked")
      }
      assert.deepStrictEqual(yield* before, known)
      assert.strictEqual(yield* valueOf(mine), CANARY)
    }))

  it.effect("remove one after a question; another grant's is not found", () =>
    Effect.gen(function*() {
      const [mine, other] = [yield* owner, yield* owner]
      redirected(yield* mine.post("/secrets", secret), "/secrets?done=set")
      const link = /href="(\/secrets\/remove\?[^"]+)"/u.exec((yield* mine.get("/secrets")).text)?.[1]?.replaceAll("&amp;", "&") ?? ""
      isPage(yield* other.get(link), 404)
      isPage(yield* other.post("/secrets/remove", secret), 404)
      for (
        const query of ["", "?repo=acme%2Fshop", "?repo=acme%2Fshop&name=OTHER", `?repo=${encodeURIComponent(HOSTILE)}&name=NPM_TOKEN`]
      ) {
        isPage(yield* mine.get(`/secrets/remove${query}`), 404, "Not found")
      }
      const question = yield* mine.get(link)
      isPage(question, 200, "Remove NPM_TOKEN?")
      assert.deepStrictEqual(yield* secretsOf(mine), ["acme/shop NPM_TOKEN"])
      redirected(yield* mine.post("/secrets/remove", { repo: "acme/shop", name: "NPM_TOKEN" }), "/secrets?done=removed")
      assert.deepStrictEqual(yield* secretsOf(mine), [])
      isPage(yield* mine.post("/secrets/remove", secret), 404)
      assert.include(textOf(yield* mine.get("/secrets?done=removed")), "Secret removed.")
    }))

  it.effect("say that there is no grant any more when it was revoked", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      redirected(yield* mine.post("/secrets", secret), "/secrets?done=set")
      yield* (yield* AccessStore).revokeGrant(mine.grantId, yield* DateTime.now)
      assert.include([403, 409], (yield* mine.post("/secrets", secret)).status)
      assert.deepStrictEqual(yield* secretsOf(mine), [])
    }))

  it.effect("list the refs whose setups have secrets, say what cannot be listed, and remove them", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const refs = Effect.map(SecretStore.use((store) => store.trustedRefs(mine.grantId, null)), (all) => all.map(({ ref }) => ref))
      redirected(yield* mine.post("/secrets/refs", { repo: " acme/shop ", ref: " release/* " }), "/secrets?done=trusted")
      const shown = yield* mine.get("/secrets?done=trusted")
      isPage(shown, 200, "Secrets")
      assert.include(textOf(shown), "Branch or tag added.")
      assert.include(shown.text, "<code>release/*</code>")
      for (const ref of ["slipway/c_bbbbbbbbbbbb", `a ${HOSTILE}`, "a".repeat(40)]) {
        const refused = yield* mine.post("/secrets/refs", { repo: "acme/shop", ref })
        isPage(refused, 400, "Secrets")
        assert.include(textOf(refused), "The ref cannot be used: ")
        assert.notInclude(refused.text, HOSTILE)
      }
      assert.include(textOf(yield* mine.post("/secrets/refs", { repo: "shop", ref: "x" })), "The repository cannot be used: ")
      const member = yield* visitorAs(yield* joined("ada"))
      for (const path of ["/secrets/refs", "/secrets/refs/remove"]) {
        isPage(yield* member.post(path, { repo: "acme/shop", ref: "release/*" }), 403, "Secrets are for owners")
      }
      assert.deepStrictEqual(yield* refs, ["release/*"])
      redirected(yield* mine.post("/secrets/refs/remove", { repo: "acme/shop", ref: "release/*" }), "/secrets?done=distrusted")
      assert.strictEqual((yield* mine.post("/secrets/refs/remove", { repo: "acme/shop", ref: "release/*" })).status, 404)
      assert.deepStrictEqual(yield* refs, [])
    }))
})
