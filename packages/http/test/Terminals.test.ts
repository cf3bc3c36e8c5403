/** The WebSocket of terminals: who may open one, its messages and its bounds. The terminal itself is played. */
import * as NodeWS from "@effect/platform-node/NodeWS"
import { assert, layer } from "@effect/vitest"
import { WINDOW_BYTES } from "@slipway/api/schema/TerminalMessages"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Access } from "@slipway/domain/access/usecases/Access"
import { Members } from "@slipway/domain/access/usecases/Members"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { type TerminalOutput, type TerminalSize, type TerminalRequest, TerminalUnavailable } from "@slipway/domain/sandbox/ports/Terminals"
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { type Cause, Duration, Effect, Queue, Redacted, Stream } from "effect"
import { TestClock } from "effect/testing"
import { address, ask, COOKIE, drive, joined, json, layer as http, mintKey, PUBLIC_URL, running, SANDBOXES } from "../testing/Harness.ts"
import { parse } from "../testing/PrometheusText.ts"

/** The terminals that were attached to, in order. */
interface Played {
  readonly request: TerminalRequest
  readonly output: Queue.Queue<TerminalOutput, Cause.Done>
  readonly written: Array<string>
  readonly sizes: Array<TerminalSize>
  isEnded: boolean
  isDetached: boolean
}
const played: Array<Played> = []
let refusal: TerminalUnavailable | null = null
const terminals = {
  attach: (_id: unknown, request: TerminalRequest) =>
    Effect.gen(function*() {
      if (refusal !== null) return yield* refusal
      const output = yield* Queue.unbounded<TerminalOutput, Cause.Done>()
      const one: Played = { request, output, written: [], sizes: [], isEnded: false, isDetached: false }
      played.push(one)
      yield* Effect.addFinalizer(() => Effect.sync(() => one.isDetached = true))
      return {
        terminal: request.terminal === "new" ? 2 : request.terminal,
        output: Stream.fromQueue(output),
        write: (bytes: Uint8Array) => Effect.sync(() => void one.written.push(Buffer.from(bytes).toString())),
        resize: (size: TerminalSize) => Effect.sync(() => void one.sizes.push(size)),
        end: Effect.sync(() => one.isEnded = true)
      }
    })
}

interface Open {
  readonly socket: NodeWS.WebSocket
  /** The next message: text parsed, bytes as a number of them. */
  readonly next: Effect.Effect<any>
  readonly closed: Effect.Effect<number>
  say(message: object): void
}

/** Opens a WebSocket; the status of the refusal, if the server refuses. */
const connect = Effect.fnUntraced(function*(path: string, headers: Record<string, string>) {
  const { host, port } = yield* address
  const messages = yield* Queue.unbounded<unknown>()
  const closed = yield* Queue.unbounded<number>()
  const socket = yield* Effect.acquireRelease(
    Effect.sync(() => new NodeWS.WebSocket(`ws://${host}:${port}${path}`, { headers })),
    (open) => Effect.sync(() => open.terminate())
  )
  socket.on("message", (data, isBinary) => Queue.offerUnsafe(messages, isBinary ? (data as Buffer).length : JSON.parse(String(data))))
  socket.on("close", (code) => Queue.offerUnsafe(closed, code))
  return yield* Effect.callback<Open, number>((resume) => {
    socket.on("error", () => {})
    socket.once("unexpected-response", (_request, response) => resume(Effect.fail(response.statusCode ?? 0)))
    socket.once("open", () =>
      resume(Effect.succeed({
        socket,
        next: Queue.take(messages),
        closed: Queue.take(closed),
        say: (message) => socket.send(JSON.stringify(message))
      })))
  })
})

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
const pathOf = (id: string, query = "") => `${SANDBOXES}/${id}/terminal${query}`
/** Runs until it holds: what the server does with a message of ours has no answer. */
const until = (holds: () => boolean) =>
  Effect.promise(async () => {
    while (!holds()) await new Promise((resolve) => setImmediate(resolve))
  })

const opened = Effect.fnUntraced(function*(grant: string, query = "", scopes: ReadonlyArray<Scope> = ["sandboxes"]) {
  const minted = yield* mintKey({ grant, scopes })
  const { id } = yield* running(minted.key)
  const open = yield* connect(pathOf(id, query), bearer(minted.key))
  const attached = yield* open.next
  const terminal = played.at(-1) ?? assert.fail("nothing was attached to")
  return { ...minted, ...open, attached, id, terminal }
})

/** A session of a new member with this role, in the grant. */
const signedIn = Effect.fnUntraced(function*(login: string, grantId: string, role: "member" | "viewer") {
  const sessions = yield* Sessions
  const userId = yield* joined(login)
  yield* (yield* Members).add(null, login, role)
  const { session, token } = yield* sessions.signIn(userId, null)
  yield* sessions.chooseGrant(session, grantId)
  return { userId, token, cookie: `${COOKIE}=${Redacted.value(token)}` }
})

layer(http({ terminals, settings: { heartbeat: Duration.millis(100), terminalsPerKey: 2 } }), { excludeTestServices: true })(
  "a terminal",
  (it) => {
    it.effect("carries keys, sizes and output, and says how it ended", () =>
      Effect.gen(function*() {
        const { attached, closed, id, key, next, say, socket, terminal } = yield* opened("talk", "?terminal=new&columns=100&rows=30")
        assert.deepStrictEqual(attached, { type: "attached", terminal: 2 })
        assert.deepStrictEqual(terminal.request, { terminal: "new", size: { columns: 100, rows: 30 } })
        socket.send(Buffer.from("ls\r"))
        say({ type: "resize", columns: 132, rows: 40 })
        yield* until(() => terminal.sizes.length === 1)
        assert.deepStrictEqual([terminal.written, terminal.sizes], [["ls\r"], [{ columns: 132, rows: 40 }]])
        yield* Queue.offer(terminal.output, { _tag: "Bytes", bytes: Buffer.from("a file") })
        assert.strictEqual(yield* next, 6)
        yield* Queue.offer(terminal.output, { _tag: "Skipped", count: 7 })
        yield* Queue.offer(terminal.output, { _tag: "Ended", reason: "exited", code: 3 })
        yield* Queue.end(terminal.output)
        assert.deepStrictEqual(yield* next, { type: "skipped", bytes: 7 })
        assert.deepStrictEqual(yield* next, { type: "ended", reason: "exited", code: 3 })
        assert.strictEqual(yield* closed, 1000)
        const entries = yield* (yield* AuditLog).list({ since: null, limit: 1000 })
        const last = entries.findLast(({ action }) => action === "terminal.opened")
        assert.strictEqual(last?.subjects["sandboxId"], id)
        assert.strictEqual(last?.subjects["terminal"], "2")
        assert.strictEqual(last?.actor._tag, "Key")
        assert.isNotEmpty(key)
      }))

    it.effect("sends no more than its window until the client says that it took something", () =>
      Effect.gen(function*() {
        const { closed, next, say, terminal } = yield* opened("window")
        const chunk = new Uint8Array(WINDOW_BYTES / 4)
        for (let i = 0; i < 6; i++) yield* Queue.offer(terminal.output, { _tag: "Bytes", bytes: chunk })
        for (let i = 0; i < 4; i++) assert.strictEqual(yield* next, chunk.length)
        // Silence: the next message is no output.
        assert.deepStrictEqual(yield* next, { type: "heartbeat" })
        say({ type: "taken", bytes: 1 })
        let message = yield* next
        while (typeof message !== "number") message = yield* next
        assert.strictEqual(message, chunk.length)
        say({ type: "taken", bytes: WINDOW_BYTES })
        say({ type: "taken", bytes: WINDOW_BYTES })
        assert.strictEqual(yield* closed, 1008)
        yield* until(() => terminal.isDetached)
      }))

    it.effect("is closed for an invalid or too long message, and for a client that answers no heartbeat", () =>
      Effect.gen(function*() {
        for (
          const [grant, message, code] of [["odd", "{}", 1008], ["size", "{\"type\":\"resize\",\"columns\":0,\"rows\":1}", 1008]] as const
        ) {
          const { closed, socket } = yield* opened(grant)
          socket.send(message)
          assert.strictEqual(yield* closed, code)
        }
        const long = yield* opened("long")
        long.socket.send(new Uint8Array(64 * 1024 + 1))
        assert.strictEqual(yield* long.closed, 1009)
        const silent = yield* opened("silent")
        assert.strictEqual(yield* silent.closed, 4408)
        yield* until(() => silent.terminal.isDetached)
      }))

    it.effect("ends for all when the client asks for it, and only for the client when it leaves", () =>
      Effect.gen(function*() {
        const { say, terminal } = yield* opened("end")
        say({ type: "end" })
        yield* until(() => terminal.isEnded)
        const left = yield* opened("leave")
        left.socket.close()
        yield* until(() => left.terminal.isDetached)
        assert.isFalse(left.terminal.isEnded)
      }))

    it.effect("is closed at once when its key is revoked", () =>
      Effect.gen(function*() {
        const { closed, terminal, ...minted } = yield* opened("revoked")
        yield* (yield* Access).revokeKey(minted.record.id)
        assert.strictEqual(yield* closed, 4401)
        yield* until(() => terminal.isDetached)
      }))

    it.effect("is closed when its sandbox is deleted, and no other one is", () =>
      Effect.gen(function*() {
        const gone = yield* opened("deleting", "", ["sandboxes", "sandboxes:delete"])
        const kept = yield* opened("keeping")
        yield* drive(gone.id, [{ _tag: "Fail", reason: "agent_lost", error: "Gone.", retryable: false }])
        const reply = yield* ask(`/api/internal/v1/sandboxes/${gone.id}`, { key: gone.key, method: "DELETE" })
        assert.strictEqual(reply.status, 204, reply.text)
        assert.strictEqual(yield* gone.closed, 4404)
        yield* until(() => gone.terminal.isDetached)
        kept.say({ type: "resize", columns: 99, rows: 9 })
        yield* until(() => kept.terminal.sizes.length === 1)
      }))

    it.effect("is counted while it is open", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey({ grant: "counting", scopes: ["metrics:read"] })
        const count = Effect.map(
          ask("/metrics", { key }),
          ({ text }) => parse(text).values.get(`slipway_http_open_responses{kind="terminal"}`) ?? assert.fail("it is not counted")
        )
        const before = yield* count
        const { closed, say, socket } = yield* opened("counted")
        assert.strictEqual(yield* count, before + 1)
        say({ type: "heartbeat" })
        socket.close()
        yield* closed
        yield* Effect.repeat(count, { until: (now) => now === before })
      }))

    it.effect("is for owners and members, from our own pages alone", () =>
      Effect.gen(function*() {
        const { grant, key } = yield* mintKey({ grant: "people" })
        const { id } = yield* running(key)
        const member = yield* signedIn("terry", grant.id, "member")
        const viewer = yield* signedIn("vera", grant.id, "viewer")
        const from = (cookie: string, origin?: string) => connect(pathOf(id), { cookie, ...(origin === undefined ? {} : { origin }) })
        assert.strictEqual(yield* Effect.flip(from(viewer.cookie, PUBLIC_URL)), 403)
        assert.strictEqual(yield* Effect.flip(from(member.cookie)), 403)
        for (const origin of ["null", "https://3000-c1.preview.slipway.test", "https://slipway.test.evil.example", "http://slipway.test"]) {
          assert.strictEqual(yield* Effect.flip(from(member.cookie, origin)), 403, origin)
        }
        const { closed, next } = yield* from(member.cookie, PUBLIC_URL)
        assert.strictEqual((yield* next).type, "attached")
        yield* (yield* Sessions).signOut(member.token)
        assert.strictEqual(yield* closed, 4401)
      }))

    it.effect("is refused as the rest of the API refuses", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey({ grant: "refusals" })
        const other = yield* mintKey({ grant: "others" })
        const metrics = yield* mintKey({ grant: "metrics", scopes: ["metrics:read"] })
        const { id } = yield* running(key)
        assert.strictEqual(yield* Effect.flip(connect(pathOf(id), {})), 401)
        assert.strictEqual(yield* Effect.flip(connect(pathOf(id), bearer(metrics.key))), 403)
        assert.strictEqual(yield* Effect.flip(connect(pathOf(id), bearer(other.key))), 404)
        assert.strictEqual(yield* Effect.flip(connect(pathOf("c_aaaaaaaaaaaa"), bearer(key))), 404)
        for (const query of ["?terminal=5", "?terminal=0", "?columns=0", "?rows=1001", "?rows=1e1"]) {
          assert.strictEqual(yield* Effect.flip(connect(pathOf(id, query), bearer(key))), 400, query)
        }
        const plain = yield* ask(pathOf(id), { key })
        assert.deepStrictEqual([plain.status, json(plain).error.code], [426, "upgrade_required"])
        // Elsewhere an offer to change the protocol is ignored.
        assert.strictEqual((yield* ask(SANDBOXES, { key, headers: { connection: "Upgrade", upgrade: "websocket" } })).status, 200)
        yield* connect(pathOf(id), bearer(key))
        yield* connect(pathOf(id), bearer(key))
        assert.strictEqual(yield* Effect.flip(connect(pathOf(id), bearer(key))), 429)
      }))

    it.effect("gives its refusals after the handshake, because browsers show no other refusal", () =>
      Effect.gen(function*() {
        const { key } = yield* mintKey({ grant: "resting" })
        const { id } = yield* running(key)
        refusal = new TerminalUnavailable({ reason: "not_running", detail: "It rests." })
        const { closed, next } = yield* connect(pathOf(id), bearer(key))
        assert.deepStrictEqual(yield* next, { type: "refused", code: "sandbox_not_running", message: "It rests." })
        refusal = null
        assert.strictEqual(yield* closed, 1000)
      }))
  }
)

/** Whether the store of access answers who has which grant. */
let answers = true

layer(
  http({
    terminals,
    // Only the looks count here.
    settings: { heartbeat: Duration.hours(1) },
    access: (store) => ({
      ...store,
      listGrants: Effect.suspend(() => answers ? store.listGrants : new StoreUnavailable({ cause: "the test" }))
    })
  })
)("a terminal of a person who loses the right to it", (it) => {
  /** Terminals of a session and of a key of one member, whose looks have begun. */
  const both = Effect.fnUntraced(function*(login: string) {
    const { cookie, userId } = yield* signedIn(login, (yield* mintKey({ grant: login })).grant.id, "member")
    const { key } = yield* mintKey({ grant: login, userId })
    const { id } = yield* running(key)
    const open = Effect.fnUntraced(function*(headers: Record<string, string>) {
      const connection = yield* connect(pathOf(id), headers)
      yield* connection.next
      const terminal = played.at(-1) ?? assert.fail("nothing was attached to")
      const answer = Effect.suspend(() => {
        const sizes = terminal.sizes.length
        connection.say({ type: "resize", columns: 90, rows: 9 })
        return until(() => terminal.sizes.length > sizes)
      })
      yield* answer
      return { ...connection, answer, terminal }
    })
    return [yield* open({ cookie, origin: PUBLIC_URL }), yield* open(bearer(key))] as const
  })

  it.effect("is closed within ten seconds after the person became a viewer", () =>
    Effect.gen(function*() {
      const terminals = yield* both("wendy")
      yield* TestClock.adjust("10 seconds")
      // A member still is one after a look.
      for (const { answer } of terminals) yield* answer
      yield* (yield* Members).add(null, "wendy", "viewer")
      yield* TestClock.adjust("10 seconds")
      for (const { closed, terminal } of terminals) {
        assert.strictEqual(yield* closed, 4401)
        yield* until(() => terminal.isDetached)
      }
    }), 30_000)

  it.effect("is closed within ten seconds after the membership ended", () =>
    Effect.gen(function*() {
      const terminals = yield* both("xena")
      yield* (yield* Members).remove(null, "xena")
      yield* TestClock.adjust("10 seconds")
      for (const { closed } of terminals) assert.strictEqual(yield* closed, 4401)
    }), 30_000)

  it.effect("stays open while it is unknown, and is closed when the store answers again", () =>
    Effect.gen(function*() {
      const terminals = yield* both("yara")
      yield* (yield* Members).add(null, "yara", "viewer")
      answers = false
      yield* TestClock.adjust("1 minute")
      for (const { answer } of terminals) yield* answer
      answers = true
      yield* TestClock.adjust("10 seconds")
      for (const { closed } of terminals) assert.strictEqual(yield* closed, 4401)
    }), 30_000)
})

layer(http(), { excludeTestServices: true })("a service without terminals", (it) => {
  it.effect("refuses with an error of its own", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "off" })
      const { id } = yield* running(key)
      assert.strictEqual(yield* Effect.flip(connect(pathOf(id), bearer(key))), 403)
      const plain = yield* ask(pathOf(id), { key })
      assert.deepStrictEqual([plain.status, json(plain).error.code], [403, "terminal_off"])
    }))
})
