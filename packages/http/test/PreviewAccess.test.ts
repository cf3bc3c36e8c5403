/** The rights to a preview, and how long they last. The server in the sandbox is played. */
import { assert, layer } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Cause, Effect, Fiber, Queue, Redacted, Stream } from "effect"
import { Previews } from "../src/server/preview/Previews.ts"
import { ask, joined, layer as http, mintKey } from "../testing/Harness.ts"

/** Requests for `/hold` that the server in the sandbox has had. */
let holding = 0

/** Answers `/hold` with a part of an answer, and everything else with a whole one. */
const ports = {
  connect: () =>
    Effect.map(Queue.unbounded<Uint8Array, Cause.Done>(), (answer) => ({
      received: Stream.fromQueue(answer),
      send: (bytes: Uint8Array) => {
        const isHeld = Buffer.from(bytes).toString().startsWith("GET /hold ")
        if (isHeld) holding++
        const length = isHeld ? 9 : 2
        return Effect.asVoid(Queue.offer(answer, Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\nhi`)))
      },
      endInput: Effect.void
    }))
}

const target = { sandboxId: SandboxId.make("c_abcdefgh2345"), port: 3000 }
const host = "3000-abcdefgh2345.localhost"
const settings = { previews: { origins: { scheme: "http", suffix: ".localhost" }, key: Redacted.make("key") } } as const

/** A member with a session in a grant, as the page of previews tells of them. */
const visitor = Effect.fnUntraced(function*(login: string) {
  const { grant } = yield* mintKey({ grant: login })
  const userId = yield* joined(login)
  yield* (yield* Members).add(null, login, "member")
  const { session, token } = yield* (yield* Sessions).signIn(userId, null)
  return { token, viewer: { userId, sessionId: session.id, grantId: grant.id } }
})
type Visitor = Effect.Success<ReturnType<typeof visitor>>

const ticket = Effect.fnUntraced(function*(of: Visitor) {
  const { pathname, search } = new URL(Redacted.value((yield* (yield* Previews).admit(of.viewer, target)) ?? assert.fail("off")))
  return pathname + search
})
const open = (address: string) => ask(address, { headers: { host } })
const cookieOf = Effect.fnUntraced(function*(of: Visitor) {
  return (yield* open(yield* ticket(of))).headers["set-cookie"]?.[0]?.split(";")[0] ?? ""
})
const look = (cookie: string, path = "/") => ask(path, { headers: { host, cookie } })

/** Repeats the request until the preview is closed, for at least four seconds: an answer about a session is believed for one. */
const untilClosed = Effect.fnUntraced(function*(cookie: string) {
  let { status } = yield* look(cookie)
  for (let tries = 0; tries < 200 && status === 200; tries++) status = (yield* Effect.delay(look(cookie), "20 millis")).status
  return status
})

const losses: ReadonlyArray<
  readonly [name: string, lose: (of: Visitor, login: string) => Effect.Effect<unknown, unknown, Sessions | Members>]
> = [
  ["signs out", ({ token }) => Effect.flatMap(Sessions, (sessions) => sessions.signOut(token))],
  ["leaves", (_, login) => Effect.flatMap(Members, (members) => members.remove(null, login))],
  ["becomes a viewer", (_, login) => Effect.flatMap(Members, (members) => members.add(null, login, "viewer"))]
]

layer(http({ ports, settings }), { excludeTestServices: true })("a preview", (it) => {
  it.effect("is opened once by a ticket, which then is in the audit log without its text", () =>
    Effect.gen(function*() {
      const person = yield* visitor("tina")
      const address = yield* ticket(person)
      const opened = Effect.map((yield* AuditLog).list({ since: null, limit: 1000 }), (all) =>
        all.filter(({ action }) => action === "preview.opened"))
      assert.lengthOf(yield* opened, 0)
      const statuses = yield* Effect.replicateEffect(
        Effect.map(open(address), ({ status }) =>
          status),
        4,
        { concurrency: 4 }
      )
      assert.deepStrictEqual(statuses.sort(), [303, 401, 401, 401])
      const [entry, ...more] = yield* opened
      assert.lengthOf(more, 0)
      const { grantId, userId } = person.viewer
      assert.deepStrictEqual(entry?.actor, { _tag: "User", userId })
      assert.deepStrictEqual(entry?.subjects, { sandboxId: target.sandboxId, grantId, port: "3000" })
      assert.strictEqual(entry?.origin?.address, "127.0.0.1")
    }))

  it.effect.each(losses)("is closed to requests, open answers and tickets when its person %s", ([name, lose]) =>
    Effect.gen(function*() {
      const login = name.replaceAll(" ", "-")
      const person = yield* visitor(login)
      const [cookie, unused] = [yield* cookieOf(person), yield* ticket(person)]
      assert.strictEqual((yield* look(cookie)).status, 200)
      const before = holding
      const held = yield* Effect.forkChild(Effect.exit(look(cookie, "/hold")))
      while (holding === before) yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      yield* lose(person, login)
      assert.strictEqual(yield* untilClosed(cookie), 401)
      assert.strictEqual((yield* open(unused)).status, 401)
      // It ends only by being cut.
      assert.strictEqual((yield* Fiber.join(held))._tag, "Failure")
    }), 20_000)
})
