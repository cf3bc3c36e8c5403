import { assert, describe, it } from "@effect/vitest"
import { type SignedRequest, WebhookSender } from "@slipway/domain/partner/ports/WebhookSender"
import type { Outcome, Trouble } from "@slipway/domain/partner/rules/Webhook"
import { DateTime, Deferred, Duration, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { Webhook, WebhookVerificationError } from "standardwebhooks"
import * as WebhookSenderHttp from "../../src/webhooks/WebhookSenderHttp.ts"
import { hang, type Received, type Receiver, reset, start, status } from "../../testing/WebhookReceiver.ts"
import { certificate } from "./Certificate.ts"
import * as NameServer from "./NameServer.ts"

const secretOf = (n: number) => `whsec_${Buffer.alloc(32, n).toString("base64")}`
const [first, second] = [secretOf(1), secretOf(2)]
const body = `{"id":"0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1e00","text":"é \u{1F680}"}`

const sending = Effect.fnUntraced(
  function*(url: string, options: Partial<WebhookSenderHttp.Options> = {}, more: Partial<SignedRequest> = {}) {
    // Receivers look at the clock.
    yield* TestClock.setTime(Date.now())
    const request = {
      url,
      id: "0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1e00",
      at: yield* DateTime.now,
      body,
      secrets: [Redacted.make(first)],
      ...more
    }
    return yield* Effect.provide(
      WebhookSender.use((sender) => sender.send(request)),
      WebhookSenderHttp.layer({ allowPrivate: true, ...options })
    )
  }
)
/** To a receiver that was told nothing else. */
const sent = Effect.fnUntraced(function*(receiver: Receiver, more: Partial<SignedRequest> = {}) {
  return yield* sending(`http://127.0.0.1:${receiver.port}/hook?a=1`, {}, more)
})
const admit = (url: string, options: Partial<WebhookSenderHttp.Options> = { lookup: async () => ["93.184.215.14"] }) =>
  Effect.result(
    Effect.provide(WebhookSender.use((sender) => sender.admit(url)), WebhookSenderHttp.layer({ allowPrivate: false, ...options }))
  )
const refusalOf = (url: string, options?: Partial<WebhookSenderHttp.Options>) =>
  Effect.map(admit(url, options), (result) => result._tag === "Failure" ? result.failure.reason : assert.fail(`${url} was admitted`))

const verify = ({ body, headers }: Received, secret: string) => new Webhook(secret).verify(body, headers as Record<string, string>)
const answered = (code: number, body: string | null = null): Outcome => ({ _tag: "Answered", status: code, retryAfter: null, body })
const failed = (trouble: Trouble): Outcome => ({ _tag: "Failed", trouble })

describe("a request", () => {
  it.effect("is signed so that the library of the standard accepts it, and nothing that was changed", () =>
    Effect.gen(function*() {
      const receiver = yield* start()
      assert.deepStrictEqual(yield* sent(receiver), answered(204))
      const received = yield* receiver.next
      assert.deepStrictEqual(verify(received, first), JSON.parse(body))
      assert.strictEqual(received.body.toString(), body)
      const { path, headers } = received
      assert.strictEqual(path, "/hook?a=1")
      assert.deepInclude(headers, {
        "content-type": "application/json",
        "user-agent": "Slipway-Webhooks/1",
        host: `127.0.0.1:${receiver.port}`
      })
      assert.match(headers["webhook-timestamp"] as string, /^\d{10}$/u)
      assert.throws(() => verify(received, second), WebhookVerificationError)
      assert.throws(() => verify({ ...received, body: Buffer.from(body.replace("é", "e")) }, first), WebhookVerificationError)
      for (
        const [name, value] of [["webhook-id", "other"], ["webhook-timestamp", String(Number(headers["webhook-timestamp"]) - 1)]] as const
      ) {
        assert.throws(() => verify({ ...received, headers: { ...headers, [name]: value } }, first), WebhookVerificationError)
      }
    }))

  it.effect("is signed with each of several secrets", () =>
    Effect.gen(function*() {
      const receiver = yield* start()
      yield* sent(receiver, { secrets: [Redacted.make(second), Redacted.make(first)] })
      const received = yield* receiver.next
      assert.match(received.headers["webhook-signature"] as string, /^v1,[\w+/]{43}= v1,[\w+/]{43}=$/u)
      for (const secret of [first, second]) verify(received, secret)
      assert.throws(() => verify(received, secretOf(3)), WebhookVerificationError)
    }))

  it.effect("goes over TLS only to a server with the certificate of the name", () =>
    Effect.gen(function*() {
      const tls = yield* certificate
      const receiver = yield* start(tls)
      const options = { allowPrivate: false, lookup: async () => ["127.0.0.1"], mayConnect: () => true }
      const to = (name: string, ca?: string) =>
        sending(`https://${name}:${receiver.port}/`, ca === undefined ? options : { ...options, ca })
      assert.deepStrictEqual(yield* to("receiver.test", tls.cert), answered(204))
      assert.strictEqual((yield* receiver.next).headers.host, `receiver.test:${receiver.port}`)
      assert.deepStrictEqual(yield* to("other.test", tls.cert), failed("tls"))
      assert.deepStrictEqual(yield* to("receiver.test"), failed("tls"))
      const plain = yield* start()
      assert.deepStrictEqual(yield* sending(`https://receiver.test:${plain.port}/`, options), failed("tls"))
      assert.deepStrictEqual([receiver.received.length, plain.received.length], [1, 0])
    }))
})

describe("an answer", () => {
  it.effect("is told by its status, its wait and the beginning of its body", () =>
    Effect.gen(function*() {
      const receiver = yield* start()
      for (const code of [200, 202, 400, 410, 500, 599]) {
        receiver.answers.push(status(code, {}, "why\u0000"))
        assert.deepStrictEqual(yield* sent(receiver), answered(code, "why"))
      }
      const soon = new Date(Date.now() + 90_000).toUTCString()
      for (
        const [header, least, most] of [["120", 120, 120], ["0", 0, 0], [soon, 80, 91], ["Thu, 01 Jan 1970 00:00:00 GMT", 0, 0]] as const
      ) {
        receiver.answers.push(status(429, { "retry-after": header }))
        const outcome = yield* sent(receiver)
        assert(outcome._tag === "Answered" && outcome.retryAfter !== null)
        assert(outcome.retryAfter >= least && outcome.retryAfter <= most, `${header}: ${outcome.retryAfter}`)
      }
      for (const header of ["soon", "-5", "1.5", ""]) {
        receiver.answers.push(status(503, { "retry-after": header }))
        assert.deepStrictEqual(yield* sent(receiver), answered(503))
      }
      receiver.answers.push(status(200, {}, "é".repeat(5000)))
      const long = yield* sent(receiver)
      assert(long._tag === "Answered")
      assert.strictEqual(long.body, "é".repeat(512))
    }))

  it.effect("that leads elsewhere is not followed", () =>
    Effect.gen(function*() {
      const elsewhere = yield* start()
      const receiver = yield* start()
      for (const code of [301, 302, 303, 307, 308]) {
        receiver.answers.push(status(code, { location: `http://127.0.0.1:${elsewhere.port}/` }))
        assert.deepStrictEqual(yield* sent(receiver), answered(code))
      }
      assert.deepStrictEqual([receiver.received.length, elsewhere.received.length], [5, 0])
    }))

  it.effect("without an end is cut at 64 KiB", () =>
    Effect.gen(function*() {
      const receiver = yield* start()
      let written = 0
      let cut = false
      receiver.answers.push((response) => {
        response.writeHead(200)
        response.on("close", () => {
          cut = true
        })
        const more = () => {
          if (cut) return
          written += 16_384
          if (response.write(Buffer.alloc(16_384, "x"))) setImmediate(more)
          else response.once("drain", more)
        }
        more()
      })
      assert.deepStrictEqual(yield* sent(receiver), answered(200, "x".repeat(1024)))
      // No more than the buffers of two sockets hold.
      assert.isBelow(written, 16 * 1024 * 1024)
    }))

  it.effect("that does not come within 15 seconds is a failure", () =>
    Effect.gen(function*() {
      const receiver = yield* start()
      receiver.answers.push(hang)
      const sending = yield* Effect.forkChild(sent(receiver))
      yield* receiver.next
      yield* TestClock.adjust("14999 millis")
      assert.isUndefined(sending.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(sending), failed("timeout"))
    }))

  it.effect("whose body drips counts by its status after a second, and the next event does not wait for the rest", () =>
    Effect.gen(function*() {
      const receiver = yield* start()
      receiver.answers.push((response) => void response.writeHead(201).write("so far"))
      // No attempt of a day: what ends it is the second that the body has.
      const slow = sending(`http://127.0.0.1:${receiver.port}/`, { attemptTime: Duration.days(1) })
      const begun = Date.now()
      const attempt = yield* Effect.forkChild(slow)
      yield* receiver.next
      // Slowly, so that the client has the status long before.
      while (attempt.pollUnsafe() === undefined) {
        yield* Effect.promise(() => new Promise((resume) => setImmediate(resume)))
        yield* TestClock.adjust("5 millis")
      }
      const outcome = yield* Fiber.join(attempt)
      assert(outcome._tag === "Answered")
      assert.strictEqual(outcome.status, 201)
      assert.isBelow((yield* DateTime.now).epochMilliseconds - begun, Duration.toMillis("1 hour"))
    }))

  it.effect("that is invalid is an error of the connection", () =>
    Effect.gen(function*() {
      const receiver = yield* start()
      const nonsense = (bytes: string) => receiver.answers.push((response) => void response.socket?.end(bytes))
      receiver.answers.push(reset)
      for (
        const bytes of ["", "SSH-2.0-OpenSSH\r\n", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
          `HTTP/1.1 200 OK\r\nx: ${"y".repeat(20_000)}\r\n\r\n`]
      ) nonsense(bytes)
      for (const _ of [1, 2, 3, 4, 5]) assert.deepStrictEqual(yield* sent(receiver), failed("connection"))
      receiver.answers.push((response) => {
        response.writeHead(200, { "content-length": "100" }).write("cut")
        setImmediate(() => response.socket?.resetAndDestroy())
      })
      const cut = yield* sent(receiver)
      assert(cut._tag === "Answered" && cut.status === 200)
      assert.deepStrictEqual(yield* sending("http://127.0.0.1:1/"), failed("connection"))
    }))
})

const PRIVATE = [
  "127.0.0.1",
  "127.1",
  "0x7f.1",
  "2130706433",
  "0177.0.0.1",
  "0.0.0.0",
  "10.1.2.3",
  "172.16.0.1",
  "192.168.1.1",
  "169.254.169.254",
  "100.64.0.1",
  "192.0.2.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "168.63.129.16",
  "%31%32%37.0.0.1",
  "①②⑦.0.0.1",
  "[::]",
  "[::1]",
  "[::ffff:10.0.0.1]",
  "[::ffff:7f00:1]",
  "[64:ff9b::7f00:1]",
  "[fe80::1]",
  "[fd00::1]",
  "[fec0::1]",
  "[ff02::1]",
  "[2001:db8::1]",
  "[2002:7f00:1::]"
]

describe("an address", () => {
  it.effect("is admitted when it is https and public, in the form it is kept", () =>
    Effect.gen(function*() {
      for (
        const [given, kept] of [
          ["https://hooks.example.com", "https://hooks.example.com/"],
          ["https://HOOKS.example.com:8443/a b?c=d#", null],
          ["https://hooks.example.com:8443/a b?c=d", "https://hooks.example.com:8443/a%20b?c=d"],
          ["https://93.184.215.14/", "https://93.184.215.14/"],
          ["https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/", "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/"]
        ] as const
      ) {
        if (kept === null) yield* refusalOf(given)
        else assert.deepInclude(yield* admit(given), { success: kept })
      }
    }))

  it.effect("that is no https address is refused, without being repeated", () =>
    Effect.gen(function*() {
      for (
        const [url, reason] of [
          ["", "2000 characters"],
          ["hooks.example.com", "2000 characters"],
          ["https://", "2000 characters"],
          [`https://hooks.example.com/${"x".repeat(2000)}`, "2000 characters"],
          ["http://hooks.example.com/", "https"],
          ["ftp://hooks.example.com/", "https"],
          ["file:///etc/passwd", "https"],
          ["javascript:alert(1)", "https"],
          ["https://user:password@hooks.example.com/", "user"],
          ["https://user@hooks.example.com/", "user"],
          ["https://hooks.example.com/#part", "fragment"]
        ] as const
      ) {
        const told = yield* refusalOf(url)
        assert.include(told, reason, url)
        assert.notInclude(told, "hooks.example.com")
      }
    }))

  it.effect("that is not public is refused, however it is spelled, and so is a name that has one", () =>
    Effect.gen(function*() {
      for (const host of PRIVATE) assert.include(yield* refusalOf(`https://${host}/`), "public", host)
      for (const address of ["127.0.0.1", "::1", "10.0.0.1", "::ffff:10.0.0.1", "fd00::1"]) {
        assert.include(
          yield* refusalOf("https://hooks.example.com/", { lookup: async () => ["93.184.215.14", address] }),
          "public",
          address
        )
      }
    }))

  it.effect("of a name that has none yet is admitted, also when nobody says so in time", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        (yield* admit("https://hooks.example.com/", {
          lookup: async () => {
            throw new Error("no such name")
          }
        }))._tag,
        "Success"
      )
      const waiting = yield* Effect.forkChild(admit("https://hooks.example.com/", { lookup: () => new Promise(() => {}) }), {
        startImmediately: true
      })
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "Success")
    }))

  it.effect("that is private or plain is admitted where the operator allows it", () =>
    Effect.gen(function*() {
      for (const url of ["http://127.0.0.1:8080/", "http://localhost/", "https://10.0.0.1/"]) {
        assert.deepInclude(yield* admit(url, { allowPrivate: true }), { success: url })
      }
      assert.include(yield* refusalOf("ftp://127.0.0.1/", { allowPrivate: true }), "https")
    }))

  it.effect("is looked up once for each attempt, and the connection goes where the look-up said", () =>
    Effect.gen(function*() {
      const receiver = yield* start()
      const asked: Array<string> = []
      // A name that is public when it is checked, and private whenever it is asked again.
      const rebinding = async (name: string) => {
        asked.push(name)
        return [asked.length === 1 ? "127.0.0.1" : "127.0.0.2"]
      }
      const options = { allowPrivate: true, lookup: rebinding }
      assert.deepStrictEqual(yield* sending(`http://rebinding.test:${receiver.port}/`, options), answered(204))
      assert.strictEqual((yield* receiver.next).headers.host, `rebinding.test:${receiver.port}`)
      assert.deepStrictEqual(asked, ["rebinding.test"])
    }))

  it.effect("that turned private since is not sent to, and neither is one among public ones", () =>
    Effect.gen(function*() {
      const receiver = yield* start()
      for (const addresses of [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::ffff:127.0.0.1"]]) {
        const outcome = yield* sending(`https://hooks.example.com:${receiver.port}/`, {
          allowPrivate: false,
          lookup: async () => addresses
        })
        assert.deepStrictEqual(outcome, failed("address_not_allowed"))
      }
      for (const url of [`https://127.0.0.1:${receiver.port}/`, `https://[::1]:${receiver.port}/`]) {
        assert.deepStrictEqual(yield* sending(url, { allowPrivate: false }), failed("address_not_allowed"))
      }
      const plain = { allowPrivate: false, lookup: async () => ["127.0.0.1"], mayConnect: () => true }
      assert.deepStrictEqual(yield* sending(`http://hooks.example.com:${receiver.port}/`, plain), failed("address_not_allowed"))
      assert.deepStrictEqual(
        yield* sending("https://hooks.example.com/", { allowPrivate: false, lookup: async () => [] }),
        failed("name_not_resolved")
      )
      assert.deepStrictEqual(receiver.received, [])
      // It was there to be reached.
      assert.deepStrictEqual(yield* sent(receiver), answered(204))
    }))

  it.effect("is what name servers say of a name, and nothing of this machine's own names", () =>
    Effect.gen(function*() {
      const { at } = yield* NameServer.start({
        "private.test": ["93.184.215.14", "10.0.0.1"],
        "public.test": ["93.184.215.14"],
        "none.test": [],
        "receiver.test": ["127.0.0.1"]
      })
      const asking = { nameServers: [at] }
      assert.strictEqual(yield* refusalOf("https://private.test/", asking), "url: a public address expected")
      for (const name of ["public.test", "public.test.", "none.test"]) {
        assert.strictEqual((yield* admit(`https://${name}/`, asking))._tag, "Success")
      }
      const tls = yield* certificate
      const receiver = yield* start(tls)
      const options = {
        allowPrivate: false,
        ca: tls.cert,
        nameServers: [at],
        mayConnect: () => true
      }
      assert.deepStrictEqual(yield* sending(`https://receiver.test:${receiver.port}/`, options), answered(204))
      assert.deepStrictEqual(yield* sending(`https://none.test:${receiver.port}/`, options), failed("name_not_resolved"))
    }))

  it.effect("is waited for by any number at once, while name servers are silent", () =>
    Effect.gen(function*() {
      const all = yield* Deferred.make<void>()
      const names = Array.from({ length: 16 }, (_, i) => `silent-${i}.test`)
      const asked = new Set<string>()
      const { at } = yield* NameServer.start({}, (name) => {
        if (asked.add(name).size === names.length) Deferred.doneUnsafe(all, Effect.void)
      })
      // A process has four threads for whatever waits for the system.
      const waiting = yield* Effect.forkScoped(
        Effect.forEach(names, (name) => admit(`https://${name}/`, { nameServers: [at] }), { concurrency: "unbounded" })
      )
      yield* Deferred.await(all)
      assert.sameMembers([...asked], names)
      yield* Fiber.interrupt(waiting)
    }))
})
