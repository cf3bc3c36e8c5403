import { assert, describe, it } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Sessions } from "@slipway/domain/access/usecases/Sessions"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { PortClosed, TooManyConnections } from "@slipway/domain/sandbox/ports/BoxConnection"
import { BoxPorts } from "@slipway/domain/sandbox/ports/BoxPorts"
import { Effect, Fiber, Layer, Redacted } from "effect"
import type { HttpServerRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { IncomingMessage } from "node:http"
import { Socket } from "node:net"
import * as PreviewHeaders from "../src/server/preview/PreviewHeaders.ts"
import * as PreviewPass from "../src/server/preview/PreviewPass.ts"
import { Previews } from "../src/server/preview/Previews.ts"
import * as PreviewOrigin from "../src/server/PreviewOrigin.ts"
import { Settings } from "../src/server/Settings.ts"
import { given } from "../testing/Harness.ts"

const target = { sandboxId: SandboxId.make("c_abcdefgh2345"), port: 3000 }
const local: PreviewOrigin.PreviewOrigins = { scheme: "http", suffix: ".localhost:4000" }

describe("the origin of a preview", () => {
  it("is below a wildcard, with a scheme and perhaps a port", () => {
    assert.deepStrictEqual(PreviewOrigin.parse("http://*.localhost:4000"), local)
    assert.deepStrictEqual(PreviewOrigin.parse("HTTPS://*.Preview.example.com/"), { scheme: "https", suffix: ".preview.example.com" })
    for (
      const text of ["", "*.localhost", "http://localhost", "http://*", "http://*.a/b", "http://a.*.b", "ftp://*.a", "http://*.a:65536",
        "http://*.a@b"]
    ) {
      assert.isNull(PreviewOrigin.parse(text), text)
    }
  })

  it("is known by its name, in any case and at any port, and only with a port that sandboxes may have", () => {
    const host = new URL(PreviewOrigin.originOf(local, target)).host
    assert.strictEqual(host, "3000-abcdefgh2345.localhost:4000")
    for (const same of [host, host.toUpperCase(), "3000-abcdefgh2345.localhost"]) {
      assert.deepStrictEqual(PreviewOrigin.targetOf(local, same), target)
    }
    for (
      const other of [
        "",
        "localhost:4000",
        "3000-abcdefgh2345.localhost.evil.example",
        "x.3000-abcdefgh2345.localhost",
        "3000-abcdefgh234.localhost",
        "1023-abcdefgh2345.localhost",
        "65536-abcdefgh2345.localhost",
        "03000-abcdefgh2345.localhost",
        "3000-abcdefgh2345.localhost:4000:1"
      ]
    ) assert.isNull(PreviewOrigin.targetOf(local, other), other)
  })

  it("is on the person's machine by default if the service is, and must not cover the service", () => {
    assert.deepStrictEqual(PreviewOrigin.ofPublicUrl("http://127.0.0.1:4000"), local)
    assert.deepStrictEqual(PreviewOrigin.ofPublicUrl("http://localhost:4000/tools"), local)
    assert.isNull(PreviewOrigin.ofPublicUrl("https://slipway.example.com"))
    assert.isNull(PreviewOrigin.ofPublicUrl("http://localhost.example.com"))
    const wide = { scheme: "https", suffix: ".example.com" } as const
    assert.isTrue(PreviewOrigin.covers(wide, "https://slipway.example.com"))
    assert.isTrue(PreviewOrigin.isPreview(local, "anything.localhost"))
    for (const other of ["localhost:4000", "a.localhost.example.com", "alocalhost"]) {
      assert.isFalse(PreviewOrigin.isPreview(local, other), other)
    }
    assert.isFalse(PreviewOrigin.covers({ scheme: "https", suffix: ".preview.example.com" }, "https://slipway.example.com"))
  })
})

describe("a pass", () => {
  const key = Redacted.make("key")
  const viewer = { userId: "user_1", sessionId: "s", grantId: "g" }
  const pass = { kind: "ticket", ...viewer, ...target, until: 1000, once: "n" } as const
  const text = Redacted.value(PreviewPass.write(key, pass))
  const asked = { ...target, kind: "ticket", now: 999 } as const

  it("counts for its kind, sandbox and port, until it expires", () => {
    assert.deepStrictEqual(PreviewPass.read(key, text, asked), pass)
    assert.isNull(PreviewPass.read(key, text, { ...asked, now: 1000 }))
    assert.isNull(PreviewPass.read(key, text, { ...asked, kind: "cookie" }))
    assert.isNull(PreviewPass.read(key, text, { ...asked, port: 3001 }))
    assert.isNull(PreviewPass.read(key, text, { ...asked, sandboxId: SandboxId.make("c_abcdefgh2346") }))
  })

  it("is not accepted with a change, or from another key", () => {
    const [body = "", signed = ""] = text.split(".")
    const other = Buffer.from(JSON.stringify({ ...pass, userId: "user_2" })).toString("base64url")
    for (
      const wrong of ["", ".", body, `${other}.${signed}`, `${body}.${signed}.`, `${text}0`, `${body}.${"A".repeat(43)}`, "x".repeat(2000)]
    ) {
      assert.isNull(PreviewPass.read(key, wrong, asked), wrong)
    }
    assert.isNull(PreviewPass.read(Redacted.make("another"), text, asked))
  })
})

/** A message with these lines of its head. */
const messageOf = (lines: ReadonlyArray<readonly [name: string, value: string]>, method = "GET"): IncomingMessage => {
  const message = new IncomingMessage(new Socket())
  message.method = method
  message.rawHeaders = lines.flat()
  for (const [name, value] of lines) message.headers[name.toLowerCase()] = value
  return message
}

describe("the headers of a preview", () => {
  const origin = new URL(PreviewOrigin.originOf(local, target))

  it("name the box's host to the box, and carry no cookie of the service, no claim about proxies and nothing of one connection", () => {
    const message = messageOf([
      ["Host", origin.host],
      ["Cookie", "__Host-slipway_session=1; own=1; __host-SLIPWAY_preview=2"],
      ["Cookie", "__Secure-slipway_x=3; other=2"],
      ["X-Forwarded-For", "192.0.2.1"],
      ["X-Forwarded-Host", "evil.example"],
      ["Forwarded", "for=192.0.2.1"],
      ["Connection", "keep-alive, X-Mine"],
      ["X-Mine", "1"],
      ["Proxy-Authorization", "Basic x"],
      ["Accept", "text/html"]
    ])
    assert.deepStrictEqual({ ...PreviewHeaders.toBox(message, target, origin) }, {
      accept: ["text/html"],
      cookie: ["own=1; other=2"],
      host: ["localhost:3000"],
      "x-forwarded-host": [origin.host],
      "x-forwarded-proto": ["http"]
    })
    const bare = messageOf([["Cookie", "__Host-slipway_session=1"]])
    assert.notProperty(PreviewHeaders.toBox(bare, target, origin), "cookie")
  })

  it("set cookies for this host alone, none of the service, and act on nothing else", () => {
    const message = messageOf([
      ["Set-Cookie", "a=1; Domain=localhost; Path=/"],
      ["Set-Cookie", "b=2; domain ; Secure"],
      ["Set-Cookie", "__Host-slipway_session=stolen; Secure; Path=/"],
      ["Set-Cookie", " __Host-slipway_preview=stolen"],
      ["Set-Cookie", "=__Host-slipway_session=stolen"],
      ["Clear-Site-Data", "\"cookies\""],
      ["Alt-Svc", "h3=\":1\""],
      ["NEL", "{}"],
      ["Report-To", "{}"],
      ["Transfer-Encoding", "chunked"],
      ["ETag", "x"]
    ])
    assert.deepStrictEqual({ ...PreviewHeaders.fromBox(message, target) }, {
      etag: ["x"],
      "origin-agent-cluster": ["?1"],
      "set-cookie": ["a=1; Path=/", "b=2; Secure"],
      vary: ["service-worker"],
      "x-robots-tag": ["noindex"]
    })
  })

  it("lead to the preview's own address where the box names its own, and elsewhere otherwise", () => {
    const led = (location: string) => PreviewHeaders.fromBox(messageOf([["Location", location]]), target)["location"]
    assert.deepStrictEqual(led("http://localhost:3000/a?b=1#c"), ["/a?b=1#c"])
    assert.deepStrictEqual(led("http://[::1]:3000"), ["/"])
    for (const other of ["http://localhost:3001/a", "https://example.com/a", "/a", "a"]) assert.deepStrictEqual(led(other), [other])
  })

  it("of a request tell whether a page of another origin caused it, which may only lead a person there", () => {
    const isFromElsewhere = (headers: Readonly<Record<string, string>>, method = "GET") =>
      PreviewHeaders.isFromElsewhere(messageOf(Object.entries(headers), method), origin.origin)
    const site = (name: string, mode: string, dest: string) => ({
      "sec-fetch-site": name,
      "sec-fetch-mode": mode,
      "sec-fetch-dest": dest
    })
    for (const own of [{}, { origin: origin.origin }, { "sec-fetch-site": "same-origin" }, { "sec-fetch-site": "none" }]) {
      assert.isFalse(isFromElsewhere(own, "POST"), JSON.stringify(own))
    }
    assert.isFalse(isFromElsewhere(site("cross-site", "navigate", "document")))
    assert.isTrue(isFromElsewhere(site("cross-site", "navigate", "document"), "POST"))
    for (const name of ["cross-site", "same-site"]) {
      assert.isTrue(isFromElsewhere(site(name, "navigate", "iframe")))
      assert.isTrue(isFromElsewhere(site(name, "no-cors", "document")))
      assert.isTrue(isFromElsewhere(site(name, "websocket", "empty")))
    }
    for (const other of ["null", "http://3001-abcdefgh2345.localhost:4000", "http://localhost:4000"]) {
      assert.isTrue(isFromElsewhere({ origin: other }), other)
    }
  })
})

describe("the requests of a preview", () => {
  const key = Redacted.make("key")

  /** Previews of boxes that this function connects. Every session goes on. */
  const previewsOf = (connect: typeof BoxPorts.Service["connect"]) =>
    Previews.layer.pipe(
      Layer.provide(Layer.mergeAll(
        Settings.layer({ ...given, previews: { origins: local, key } }),
        Layer.succeed(BoxPorts, { connect }),
        Layer.mock(Sessions, {
          stillThere: (visits) => Effect.succeed(visits.map((visit) => ({ ...visit, role: "owner" }))),
          csrfToken: (token) => token,
          isCsrfToken: () => false
        }),
        Layer.mock(AuditLog, {})
      ))
    )

  /** The status of the answer to a person who has a cookie. */
  const statusFor = (userId: string) =>
    Effect.gen(function*() {
      const pass = { kind: "cookie", userId, sessionId: userId, grantId: "g", ...target, until: 1_000_000, once: "" } as const
      const message = messageOf([["Host", new URL(PreviewOrigin.originOf(local, target)).host]])
      message.url = "/"
      const cookies = { [PreviewHeaders.COOKIE]: Redacted.value(PreviewPass.write(key, pass)) }
      const request = { source: message, cookies } as unknown as HttpServerRequest.HttpServerRequest
      return (yield* (yield* Previews).answer(request)).status
    })

  it.effect("are at most 256 of one person at once, whatever others have open", () => {
    let connecting = 0
    const connect = () =>
      Effect.suspend(() => {
        connecting++
        return Effect.never
      })
    return Effect.gen(function*() {
      const open = yield* Effect.forEach(
        Array.from({ length: 256 }),
        () => Effect.forkChild(statusFor("user_1"), { startImmediately: true })
      )
      assert.strictEqual(connecting, 256)
      const above = yield* Effect.forkChild(statusFor("user_1"), { startImmediately: true })
      assert.strictEqual(connecting, 256)
      assert.strictEqual(yield* Fiber.join(above), 503)
      yield* Effect.forkChild(statusFor("user_2"), { startImmediately: true })
      assert.strictEqual(connecting, 257)
      // An ended request makes room for the next one, and for no more.
      yield* Fiber.interrupt(open[0] ?? assert.fail())
      yield* Effect.forkChild(statusFor("user_1"), { startImmediately: true })
      assert.strictEqual(connecting, 258)
      const another = yield* Effect.forkChild(statusFor("user_1"), { startImmediately: true })
      assert.strictEqual(connecting, 258)
      assert.strictEqual(yield* Fiber.join(another), 503)
    }).pipe(Effect.provide(previewsOf(connect)))
  })

  it.effect("wait ten seconds for a free connection of the box, and connect as soon as there is a free one", () => {
    let isFull = true
    const connect = () => Effect.suspend(() => Effect.fail(isFull ? new TooManyConnections() : new PortClosed({ port: target.port })))
    return Effect.gen(function*() {
      const first = yield* Effect.forkChild(statusFor("user_1"), { startImmediately: true })
      yield* TestClock.adjust("9900 millis")
      assert.isUndefined(first.pollUnsafe())
      yield* TestClock.adjust("200 millis")
      assert.strictEqual(yield* Fiber.join(first), 503)

      const second = yield* Effect.forkChild(statusFor("user_1"), { startImmediately: true })
      yield* TestClock.adjust("5 seconds")
      assert.isUndefined(second.pollUnsafe())
      isFull = false
      yield* TestClock.adjust("50 millis")
      assert.strictEqual(yield* Fiber.join(second), 502)
    }).pipe(Effect.provide(previewsOf(connect)))
  })
})
