/** The pages of webhooks as HTML: whom they serve, what they show and escape, and what their forms do. */
import { assert, layer } from "@effect/vitest"
import { AccessStore } from "@slipway/domain/access/ports/AccessStore"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Ids } from "@slipway/domain/ids/Ids"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import type { NextOfLine } from "@slipway/domain/partner/rules/Notification"
import { EVENT_TYPES, type Next, type Outcome } from "@slipway/domain/partner/rules/Webhook"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { DateTime, Effect, Redacted } from "effect"
import { owner, type Visitor, visitorAs, type Fields, redirected, textOf } from "../testing/Browser.ts"
import { ask, failed, joined, layer as http, mintKey, type Reply, withoutNames } from "../testing/Harness.ts"

const URL = "https://hooks.example.com/slipway"
const HOSTILE = `"'><script>alert(1)</script>`
const absent = "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff"

const isPage = (reply: Reply, status = 200, title?: string) => {
  assert.strictEqual(reply.status, status, reply.text)
  assert.deepStrictEqual([reply.headers["content-type"], reply.headers["cache-control"]], ["text/html; charset=utf-8", "no-store"])
  assert.match(String(reply.headers["content-security-policy"]), /default-src 'none'; script-src 'self'; style-src 'self'/u)
  assert.notMatch(reply.text, /<script(?! type="module" src="\/assets\/)|style="|\son\w+="/u)
  if (title !== undefined) assert.include(reply.text, `<title>${title} · Slipway</title>`)
}

const register = Effect.fnUntraced(function*({ post }: Visitor, fields: Fields = {}) {
  const reply = yield* post("/webhooks", { url: URL, type: EVENT_TYPES, ...fields })
  isPage(reply, 200, "Endpoint registered")
  return { id: /data-then="\/webhooks\/([0-9a-f-]{36})"/u.exec(reply.text)?.[1] ?? "", secret: secretOf(reply), reply }
})
const secretOf = ({ text }: Reply) => /id="secret" [^>]*value="(whsec_[\w+/]{43}=)"/u.exec(text)?.[1] ?? assert.fail("no secret is shown")

const endpointsOf = ({ grantId }: Visitor) => Effect.flatMap(WebhookStore, (store) => store.list(grantId))

/** Tells the grant's feed of a new claim; the event's id. */
const tell = Effect.fnUntraced(function*({ grantId }: Visitor) {
  const partners = yield* PartnerStore
  yield* partners.createClaim({ claimId: yield* (yield* Ids).uuid7, grantId, leadId: "lead", variant: "b", creditAmount: 1 })
  return (yield* partners.feed(grantId, 0, 1000)).at(-1)?.id ?? ""
})
/** Makes the endpoint's next attempt, with that outcome. */
const attempt = Effect.fnUntraced(function*(id: string, outcome: Outcome, next: Next, durationMillis = 12) {
  const store = yield* WebhookStore
  const at = yield* DateTime.now
  const claimed = (yield* store.take(at, 1000)).find(({ endpointId }) => endpointId === id)
  assert(claimed !== undefined)
  yield* store.record(claimed, { at, durationMillis, outcome }, next, at)
  return claimed
})
const answered = (status: number, body: string | null = null): Outcome => ({ _tag: "Answered", status, retryAfter: null, body })

/** The rows of a table, as text. */
const rowsOf = ({ text }: Reply) =>
  Array.from(
    (/<tbody>(.*)<\/tbody>/su.exec(text)?.[1] ?? "").matchAll(/<tr>(.*?)<\/tr>/gsu),
    ([, row = ""]) =>
      Array.from(row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gsu), ([, cell = ""]) =>
        cell.replaceAll(/<[^>]*>/gu, " ").replaceAll(/\s+/gu, " ").trim())
  )

layer(http(), { excludeTestServices: true })("the pages of webhooks", (it) => {
  it.effect("are an owner's: a member is told so, and changes nothing", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { id } = yield* register(mine)
      const event = yield* tell(mine)
      const member = yield* visitorAs(yield* joined("grace"))
      const paths = ["", `/${id}`, `/${absent}`, "/x", `/${id}/rotate-secret`, `/${id}/remove`]
      for (const path of paths) isPage(yield* member.get(`/webhooks${path}`), 403, "Webhooks are for owners")
      for (const path of ["", `/${id}/rotate-secret`, `/${id}/remove`, `/${id}/enable`, `/${id}/deliveries/${event}/redeliver`]) {
        isPage(yield* member.post(`/webhooks${path}`, { url: URL, type: EVENT_TYPES }), 403, "Webhooks are for owners")
      }
      assert.deepStrictEqual(yield* endpointsOf(member), [])
      for (const [{ get }, isShown] of [[mine, true], [member, false]] as const) {
        assert.strictEqual((yield* get("/keys")).text.includes(`<a href="/webhooks">Webhooks</a>`), isShown)
      }
      assert.include((yield* mine.get("/webhooks")).text, `<a href="/webhooks" aria-current="page">`)
      redirected(yield* ask(`/webhooks/${id}`), `/sign-in?next=${encodeURIComponent(`/webhooks/${id}`)}`)
    }))

  it.effect("register one with a secret that is shown once", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      yield* tell(mine)
      const empty = yield* mine.get("/webhooks")
      isPage(empty, 200, "Webhooks")
      assert.include(textOf(empty), "No webhooks yet.")
      assert.strictEqual(Array.from(empty.text.matchAll(/name="type" value="[\w.]+" checked>/gu)).length, EVENT_TYPES.length)

      const all = yield* register(mine, { url: "  https://HOOKS.example.com?a=1&b=2 " })
      const some = yield* register(mine, { type: ["conversion.paid", "task.started"] })
      const notified = yield* register(mine, { type: ["sandbox.ended"] })
      assert.notStrictEqual(all.secret, some.secret)
      const endpoints = yield* endpointsOf(mine)
      assert.deepStrictEqual(endpoints.map(({ id, types, url }) => [id, types, url]), [
        [all.id, null, "https://hooks.example.com/?a=1&b=2"],
        [some.id, ["task.started", "conversion.paid"], URL],
        [notified.id, ["sandbox.ended"], URL]
      ])
      const list = yield* mine.get("/webhooks")
      assert.deepStrictEqual(rowsOf(list).map((cells) => cells.slice(0, 4)), [
        ["https://hooks.example.com/?a=1&amp;b=2", "all of the feed", "enabled", "event 1"],
        [URL, "task.started, conversion.paid".replace(",", " ,"), "enabled", "event 1"],
        [URL, "sandbox.ended", "enabled", "not of the feed"]
      ])
      for (const reply of [list, yield* mine.get(`/webhooks/${all.id}`)]) assert.notInclude(reply.text, "whsec_")
      const [entry] = (yield* (yield* AuditLog).list({ since: null, limit: 100_000 })).filter(({ subjects }) =>
        subjects["endpointId"] === all.id
      )
      assert.deepStrictEqual([entry?.action, entry?.actor._tag, entry?.origin?.requestId], ["webhook.registered", "User",
        all.reply.headers["x-request-id"]])
    }))

  it.effect("refuse an address that is not https and public, in the form as it was filled in", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const addresses = [
        "",
        "   ",
        "http://hooks.example.com/",
        "ftp://hooks.example.com/",
        "hooks.example.com",
        "https://user:pass@hooks.example.com/",
        "https://hooks.example.com/#x",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://private.example.com/",
        `https://hooks.example.com/${"x".repeat(2000)}`
      ]
      for (const url of addresses) {
        const reply = yield* mine.post("/webhooks", { url, type: ["task.started"] })
        isPage(reply, 400, "Webhooks")
        assert.include(reply.text, `id="url" name="url" value="${url.trim()}"`)
        assert.match(reply.text, /<p class="problem" role="alert" id="problem">This address cannot be used: (?!url)[^<]+\.<\/p>/u)
        assert.match(reply.text, /value="task.started" checked>/u)
        assert.match(reply.text, /value="conversion.paid">/u)
      }
      const attack = yield* mine.post("/webhooks", { url: HOSTILE, type: EVENT_TYPES })
      isPage(attack, 400)
      assert.include(attack.text, "value=\"&quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\"")
      assert.deepStrictEqual(yield* endpointsOf(mine), [])
    }))

  it.effect("refuse types that there are not, and forms that are none of theirs", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const wrong: ReadonlyArray<Fields> = [
        { url: URL, type: [] },
        { url: URL, type: "nothing.happened" },
        { url: URL, type: ["task.started", "task.started"] },
        { url: URL, type: "all" },
        { type: EVENT_TYPES },
        { url: [URL, URL], type: EVENT_TYPES },
        { url: `${URL}\0`, type: EVENT_TYPES }
      ]
      for (const fields of wrong) isPage(yield* mine.post("/webhooks", fields), 400)
      assert.deepStrictEqual(yield* endpointsOf(mine), [])
    }))

  it.effect("are 20 of a grant at most", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      for (let n = 0; n < 20; n++) yield* register(mine)
      const reply = yield* mine.post("/webhooks", { url: URL, type: EVENT_TYPES })
      isPage(reply, 409, "Webhooks")
      assert.include(textOf(reply), "A grant may have 20 endpoints. Remove one first.")
      assert.include(reply.text, `value="${URL}"`)
      assert.lengthOf(yield* endpointsOf(mine), 20)
    }))

  it.effect("do nothing for a form of another grant", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { id } = yield* register(mine)
      const event = yield* tell(mine)
      const before = yield* endpointsOf(mine)
      for (const path of ["", `/${id}/rotate-secret`, `/${id}/remove`, `/${id}/enable`, `/${id}/deliveries/${event}/redeliver`]) {
        isPage(yield* mine.post(`/webhooks${path}`, { url: URL, type: EVENT_TYPES, place: "other" }), 409, "You switched to another grant")
      }
      assert.deepStrictEqual(yield* endpointsOf(mine), before)
    }))

  it.effect("do nothing for a form of another session or site", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { id } = yield* register(mine)
      const event = yield* tell(mine)
      const before = yield* endpointsOf(mine)
      for (const path of ["", `/${id}/rotate-secret`, `/${id}/remove`, `/${id}/enable`, `/${id}/deliveries/${event}/redeliver`]) {
        const fields = { url: URL, type: EVENT_TYPES }
        for (const csrf of ["", "x", []]) isPage(yield* mine.post(`/webhooks${path}`, { ...fields, csrf }), 403, "This page expired")
        isPage(yield* mine.post(`/webhooks${path}`, fields, { "sec-fetch-site": "cross-site" }), 403, "Request from another site blocked")
      }
      assert.deepStrictEqual(yield* endpointsOf(mine), before)
      const claimed = yield* attempt(id, answered(200), { _tag: "Delivered" })
      assert.deepStrictEqual([claimed.manual, claimed.secrets.length], [false, 1])
    }))

  it.effect("tell of every attempt in words, newest first, page by page", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { id } = yield* register(mine, { type: ["credit_claim.created"] })
      assert.include(textOf(yield* mine.get(`/webhooks/${id}`)), "No attempts yet.")
      const events = [yield* tell(mine), yield* tell(mine)]
      const retry: Next = { _tag: "Retry", at: yield* DateTime.now }
      yield* attempt(id, answered(500, HOSTILE), retry)
      yield* attempt(id, answered(301), retry, 1500)
      for (
        const trouble of ["timeout", "name_not_resolved", "address_not_allowed", "tls", "connection", "event_unreadable",
          "secret_unreadable"] as const
      ) {
        yield* attempt(id, { _tag: "Failed", trouble }, retry)
      }
      yield* attempt(id, answered(204), { _tag: "Delivered" })
      yield* attempt(id, answered(200, "thanks"), { _tag: "Delivered" })
      redirected(yield* mine.post(`/webhooks/${id}/deliveries/${events[0]}/redeliver`), `/webhooks/${id}?done=redelivering`)
      assert.include((yield* attempt(id, answered(200), { _tag: "Delivered" })).event.id, events[0] ?? "")

      const page = yield* mine.get(`/webhooks/${id}?done=redelivering`)
      isPage(page, 200, "Endpoint")
      assert.include(textOf(page), "Sending the event again.")
      assert.deepStrictEqual(
        rowsOf(page).map(([, ...cells]) => cells),
        [
          ["1 credit_claim.created", "manual", "delivered answered 200", "12 ms", "Send again"],
          ["2 credit_claim.created", "1", "delivered answered 200 Response thanks", "12 ms", "Send again"],
          ["1 credit_claim.created", "10", "delivered answered 204", "12 ms", ""],
          ["1 credit_claim.created", "9", "failed the service cannot open the endpoint&#39;s secret: rotate it", "12 ms", ""],
          ["1 credit_claim.created", "8", "failed the service cannot read the event: a newer version recorded it, or it is damaged",
            "12 ms", ""],
          ["1 credit_claim.created", "7", "failed no connection, or no HTTP", "12 ms", ""],
          ["1 credit_claim.created", "6", "failed TLS error", "12 ms", ""],
          ["1 credit_claim.created", "5", "failed its host name has a private address", "12 ms", ""],
          ["1 credit_claim.created", "4", "failed its host name has no address", "12 ms", ""],
          ["1 credit_claim.created", "3", "failed no response within 15 s", "12 ms", ""],
          ["1 credit_claim.created", "2", "failed answered 301, and redirects are not followed", "1.5 s", ""],
          ["1 credit_claim.created", "1", "failed answered 500 Response &quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;", "12 ms", ""]
        ]
      )
      assert.match(page.text, /<time datetime="([\d-]+)T([\d:]+)\.\d{3}Z">\1 \2 UTC<\/time>/u)

      for (let n = 0; n < 20; n++) {
        yield* tell(mine)
        yield* attempt(id, answered(200), { _tag: "Delivered" })
      }
      const newest = yield* mine.get(`/webhooks/${id}`)
      const older = /href="(\/webhooks\/[^"]+\?before=\d+)" rel="next"/u.exec(newest.text)?.[1] ?? ""
      const oldest = yield* mine.get(older)
      assert.deepStrictEqual([rowsOf(newest).length, rowsOf(oldest).length], [25, 7])
      assert.strictEqual(
        rowsOf(oldest).at(-1)?.[3],
        "failed answered 500 Response &quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"
      )
      assert.include(oldest.text, `<a href="/webhooks/${id}">Newest</a>`)
      assert.notInclude(oldest.text, "rel=\"next\"")
      assert.include(textOf(yield* mine.get(`/webhooks/${id}?before=0`)), "No older attempts.")
      for (const before of ["", "x", "-1", "1.5", "9007199254740992", "99999999999999999999", "1e2"]) {
        isPage(yield* mine.get(`/webhooks/${id}?before=${before}`), 400)
      }
    }))

  it.effect("tell of attempts at notifications, with their sandboxes, and send one again", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { id: endpointId } = yield* register(mine, { type: ["turn.completed", "sandbox.failed"] })
      const grant = (yield* AccessStore.use(({ listGrants }) => listGrants)).find(({ id }) => id === mine.grantId)?.name
      const { key } = yield* mintKey({ grant: grant ?? "" })
      const id = yield* failed(key)
      const store = yield* WebhookStore
      const at = yield* DateTime.now
      /** Makes the endpoint's next attempt at a notification. */
      const notify = Effect.fnUntraced(function*(outcome: Outcome, next: NextOfLine, times = 1) {
        for (let n = 0; n < times; n++) {
          const taken = (yield* store.takeNotifications(DateTime.add(at, { days: 1 }), 1000)).find((one) => one.endpointId === endpointId)
          assert(taken !== undefined)
          yield* store.recordNotification(taken, { at, durationMillis: 12, outcome }, next, at)
        }
      })
      yield* notify(answered(302), { _tag: "Retry", at }, 9)
      yield* notify({ _tag: "Failed", trouble: "timeout" }, { _tag: "Skip" })
      yield* notify(answered(200, HOSTILE), { _tag: "Delivered" })
      const log = yield* SandboxStore.use((sandboxes) => sandboxes.log(id, 0, 100))
      const [turn, end] = [log.find(({ type }) => type === "turn.completed")?.seq, log.at(-1)?.seq]
      const page = yield* mine.get(`/webhooks/${endpointId}`)
      isPage(page, 200, "Endpoint")
      const rows = rowsOf(page).map(([, ...cells]) => cells)
      assert.deepStrictEqual([rows.length, ...rows.slice(0, 3)], [
        11,
        [`${end} sandbox.failed of ${id}`, "1", "delivered answered 200 Response &quot;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
          "12 ms", "Send again"],
        [`${turn} turn.completed of ${id}`, "10", "failed no response within 15 s; skipped", "12 ms", "Send again"],
        [`${turn} turn.completed of ${id}`, "9", "failed answered 302, and redirects are not followed", "12 ms", ""]
      ])
      assert.include(page.text, `<a href="/sandboxes/${id}">${id}</a>`)
      const [newest] = yield* store.deliveries({ grantId: mine.grantId, id: endpointId }, { before: null, limit: 1 })
      redirected(
        yield* mine.post(`/webhooks/${endpointId}/deliveries/${newest?.eventId}/redeliver`),
        `/webhooks/${endpointId}?done=redelivering`
      )
      yield* notify(answered(204), { _tag: "Delivered" })
      const [manual] = rowsOf(yield* mine.get(`/webhooks/${endpointId}`))
      assert.deepStrictEqual(manual?.slice(1), [`${end} sandbox.failed of ${id}`, "manual", "delivered answered 204", "12 ms",
        "Send again"])
    }))

  it.effect("tell what is in the way of events, and go on when they are told to", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { id } = yield* register(mine)
      const stands = Effect.map(mine.get("/webhooks"), (list) => rowsOf(list)[0]?.[2] ?? "")
      yield* tell(mine)
      assert.notInclude((yield* mine.get(`/webhooks/${id}`)).text, "/enable")
      yield* attempt(id, answered(500), { _tag: "Retry", at: DateTime.makeUnsafe("2190-01-01T00:00:00Z") })
      assert.strictEqual(yield* stands, "retrying 1 failed attempt at the next event; next attempt 2190-01-01 00:00 UTC")
      assert.include(textOf(yield* mine.get(`/webhooks/${id}`)), "Try again now")
      redirected(yield* mine.post(`/webhooks/${id}/enable`), `/webhooks/${id}?done=enabled`)
      yield* attempt(id, answered(410), { _tag: "Disable", reason: "gone" })
      assert.match(yield* stands, /^disabled since [\d-]+ [\d:]+ UTC \. The endpoint returned 410 Gone\.$/u)
      const disabled = yield* mine.get(`/webhooks/${id}`)
      assert.include(textOf(disabled), "Enable")
      assert.include(textOf(disabled), "Delivered up to start")
      redirected(yield* mine.post(`/webhooks/${id}/enable`), `/webhooks/${id}?done=enabled`)
      assert.strictEqual(yield* stands, "enabled")
      assert.include(textOf(yield* mine.get(`/webhooks/${id}?done=enabled`)), "Resuming")
      yield* attempt(id, answered(500), { _tag: "Disable", reason: "retries_exhausted" })
      assert.include(yield* stands, "Every attempt at the next event failed, for three days.")
    }))

  it.effect("replace a secret after a question; the old one stays valid", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { id, secret } = yield* register(mine)
      const question = yield* mine.get(`/webhooks/${id}/rotate-secret`)
      isPage(question, 200, "Replace the secret?")
      assert.include(textOf(question), "The old secret stays valid for 24 hours")
      const reply = yield* mine.post(`/webhooks/${id}/rotate-secret`)
      isPage(reply, 200, "Secret replaced")
      assert.include(textOf(reply), "The old secret stays valid for 24 hours.")
      assert.include(reply.text, `data-then="/webhooks/${id}"`)
      yield* tell(mine)
      const { secrets } = yield* attempt(id, answered(200), { _tag: "Delivered" })
      assert.deepStrictEqual(secrets.map(({ value }) => Redacted.value(value)), [secretOf(reply), secret])
      assert.notInclude(reply.text, secret)
    }))

  it.effect("remove one after a question", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { id } = yield* register(mine)
      isPage(yield* mine.get(`/webhooks/${id}/remove`), 200, "Remove this endpoint?")
      assert.lengthOf(yield* endpointsOf(mine), 1)
      redirected(yield* mine.post(`/webhooks/${id}/remove`), "/webhooks?done=removed")
      assert.deepStrictEqual(yield* endpointsOf(mine), [])
      assert.include(textOf(yield* mine.get("/webhooks?done=removed")), "Endpoint removed")
      isPage(yield* mine.post(`/webhooks/${id}/remove`), 404, "Not found")
    }))

  it.effect("answer alike for another grant's endpoint and a missing one", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const theirs = yield* owner
      const { id } = yield* register(theirs)
      const event = yield* tell(theirs)
      const foreignEvent = yield* tell(mine)
      const before = yield* endpointsOf(theirs)
      const areAlike = (replies: ReadonlyArray<Reply>) => {
        const [first, ...others] = replies.map((reply) => {
          isPage(reply, 404, "Not found")
          return { ...withoutNames(reply), text: reply.text.replace(/Request req_\w+/u, "") }
        })
        for (const other of others) assert.deepStrictEqual(other, first)
      }
      for (const path of ["", "?before=1", "/rotate-secret", "/remove"]) {
        areAlike([yield* mine.get(`/webhooks/${id}${path}`), yield* mine.get(`/webhooks/${absent}${path}`),
          yield* mine.get(`/webhooks/nonsense${path}`)])
      }
      for (
        const path of ["/rotate-secret", "/remove", "/enable", `/deliveries/${event}/redeliver`, `/deliveries/${foreignEvent}/redeliver`,
          "/deliveries/x/redeliver"]
      ) {
        areAlike([yield* mine.post(`/webhooks/${id}${path}`), yield* mine.post(`/webhooks/${absent}${path}`),
          yield* mine.post(`/webhooks/%27${path}`)])
      }
      assert.deepStrictEqual(yield* endpointsOf(theirs), before)
      assert.isFalse((yield* attempt(id, answered(200), { _tag: "Delivered" })).manual)

      const own = yield* register(mine)
      for (const unknown of [event, absent, "x", "%27"]) {
        isPage(yield* mine.post(`/webhooks/${own.id}/deliveries/${unknown}/redeliver`), 404, "Not found")
      }
      isPage(yield* mine.get(`/webhooks/${own.id.toUpperCase()}`))
    }))

  it.effect("answer to their methods only", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const { id } = yield* register(mine)
      const addresses = [
        ["/webhooks", "GET, HEAD, POST, OPTIONS"],
        [`/webhooks/${id}`, "GET, HEAD, OPTIONS"],
        [`/webhooks/${id}/rotate-secret`, "GET, HEAD, POST, OPTIONS"],
        [`/webhooks/${id}/remove`, "GET, HEAD, POST, OPTIONS"],
        [`/webhooks/${id}/enable`, "POST, OPTIONS"],
        [`/webhooks/${id}/deliveries/${absent}/redeliver`, "POST, OPTIONS"]
      ] as const
      for (const [path, allow] of addresses) {
        const reply = yield* ask(path, { method: "DELETE" })
        assert.deepStrictEqual([reply.status, reply.headers["allow"]], [405, allow])
      }
      assert.lengthOf(yield* endpointsOf(mine), 1)
    }))
})
