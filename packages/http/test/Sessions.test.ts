/** A person's session at the public API: what it opens, what ends it, and what the audit log says of it. */
import { assert, layer } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { Effect, Redacted } from "effect"
import {
  ask,
  COOKIE,
  create,
  fieldsOf,
  joined,
  json,
  layer as http,
  mintKey,
  openStream,
  refused,
  running,
  SANDBOXES
} from "../testing/Harness.ts"

/** Signs a new member in, in a grant of the name. */
const signedIn = Effect.fnUntraced(function*(login: string, grant: string) {
  const sessions = yield* Sessions
  const key = yield* mintKey({ grant })
  const userId = yield* joined(login)
  const { session, token } = yield* sessions.signIn(userId, null)
  yield* sessions.chooseGrant(session, key.grant.id)
  const cookie = `${COOKIE}=${Redacted.value(token)}`
  return {
    ...key,
    session,
    token,
    userId,
    headers: { cookie },
    csrf: { cookie, "x-csrf-token": Redacted.value(sessions.csrfToken(token)) }
  }
})

const lastOf = (action: string) =>
  Effect.gen(function*() {
    return (yield* (yield* AuditLog).list({ since: null, limit: 1000 })).findLast((entry) => entry.action === action)
  })

layer(http({ settings: { requestsPerMinute: 5 } }), { excludeTestServices: true })("the rate of a session", (it) => {
  it.effect("is limited like that of a key, and told in the same headers", () =>
    Effect.gen(function*() {
      const { headers } = yield* signedIn("eager", "acme")
      const replies = yield* Effect.forEach(Array.from({ length: 6 }), () => ask(SANDBOXES, { headers }))
      assert.deepStrictEqual(replies.map(({ status }) => status), [200, 200, 200, 200, 200, 429])
      assert.match(String(replies[4]?.headers["ratelimit"]), /^"default";r=0;t=\d+$/u)
      assert.match(String(replies[5]?.headers["retry-after"]), /^\d+$/u)
    }))
})

layer(http(), { excludeTestServices: true })("a session", (it) => {
  it.effect("opens the sandboxes of the grant it works in and no others", () =>
    Effect.gen(function*() {
      const ada = yield* signedIn("ada", "ada's")
      const other = yield* mintKey({ grant: "another" })
      const [mine, theirs] = [yield* create(ada.key), yield* create(other.key)]
      const listed = yield* ask(SANDBOXES, { headers: ada.headers })
      assert.deepStrictEqual(json(listed).data.map(({ id }: { id: string }) => id), [mine])
      assert.strictEqual((yield* ask(`${SANDBOXES}/${mine}`, { headers: ada.headers })).status, 200)
      refused(yield* ask(`${SANDBOXES}/${theirs}`, { headers: ada.headers }), 404, "not_found")
      yield* (yield* Sessions).chooseGrant(ada.session, other.grant.id)
      refused(yield* ask(`${SANDBOXES}/${mine}`, { headers: ada.headers }), 404, "not_found")
      assert.strictEqual((yield* ask(`${SANDBOXES}/${theirs}`, { headers: ada.headers })).status, 200)
    }))

  it.effect("changes something only with the CSRF token of its own", () =>
    Effect.gen(function*() {
      const ada = yield* signedIn("ada", "forgery")
      const eve = yield* signedIn("eve", "forgery")
      const id = yield* create(ada.key)
      const terminate = (headers: Record<string, string>) => ask(`${SANDBOXES}/${id}/terminate`, { method: "POST", headers })
      for (const token of ["", "nonsense", Redacted.value(ada.token), eve.csrf["x-csrf-token"]]) {
        refused(yield* terminate({ ...ada.headers, "x-csrf-token": token }), 403, "forbidden")
      }
      refused(yield* terminate(ada.headers), 403, "forbidden")
      assert.strictEqual(json(yield* ask(`${SANDBOXES}/${id}`, { headers: ada.headers })).status, "queued")
      assert.strictEqual(json(yield* terminate(ada.csrf)).outcome, "applied")
    }))

  it.effect("does not stand in for a key that is not valid", () =>
    Effect.gen(function*() {
      const { headers } = yield* signedIn("both", "acme")
      refused(yield* ask(SANDBOXES, { headers, key: "nonsense" }), 401, "unauthorized")
    }))

  const opened = Effect.fnUntraced(function*(login: string) {
    const visitor = yield* signedIn(login, `${login}'s`)
    const { id } = yield* running(visitor.key)
    const reader = yield* openStream(`${SANDBOXES}/${id}/events/stream`, { headers: visitor.headers })
    for (let type = ""; type !== "sandbox.status";) type = fieldsOf(yield* reader.next).data?.type ?? ""
    return { ...visitor, ends: Effect.timeout(reader.rest, "1 second") }
  })

  it.effect("has its stream ended within a second of signing out", () =>
    Effect.gen(function*() {
      const { ends, token } = yield* opened("leaves")
      yield* (yield* Sessions).signOut(token)
      assert.deepStrictEqual(yield* ends, [])
    }))

  it.effect("has its stream ended within a second of losing the approval, the membership or the grant", () =>
    Effect.gen(function*() {
      const members = yield* Members
      const disapproved = yield* opened("disapproved")
      const removed = yield* opened("removed")
      const revoked = yield* opened("revoked")
      yield* members.disapprove("disapproved")
      assert.deepStrictEqual(yield* disapproved.ends, [])
      yield* members.remove(null, "removed")
      assert.deepStrictEqual(yield* removed.ends, [])
      yield* (yield* Access).revokeGrant(revoked.grant.id)
      assert.deepStrictEqual(yield* revoked.ends, [])
    }))
})

layer(http(), { excludeTestServices: true })("the audit log", (it) => {
  it.effect("has a request that lacked the scope, with who made it and from where", () =>
    Effect.gen(function*() {
      const { grant, key, record } = yield* mintKey({ scopes: ["metrics:read"] })
      const reply = yield* ask(SANDBOXES, { key })
      refused(reply, 403, "insufficient_scope")
      const { at: _, ...entry } = (yield* lastOf("scope.refused")) ?? assert.fail("no entry")
      assert.deepStrictEqual(entry, {
        action: "scope.refused",
        subjects: { keyId: record.id, grantId: grant.id, scope: "sandboxes" },
        actor: { _tag: "Key", keyId: record.id },
        origin: { requestId: String(reply.headers["x-request-id"]), address: "127.0.0.1" }
      })
    }))

  it.effect("names the person who did something with a session", () =>
    Effect.gen(function*() {
      const { csrf, userId } = yield* signedIn("ada", "acme")
      yield* ask("/api/internal/v1/claims/0197f1a0-0000-7000-8000-0000000000a1", { method: "PUT", headers: csrf, body: "{}" })
      assert.deepStrictEqual((yield* lastOf("scope.refused"))?.actor, { _tag: "User", userId })
    }))
})
