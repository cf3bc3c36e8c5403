import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Redacted } from "effect"
import * as PreviewPass from "../src/server/preview/PreviewPass.ts"
import * as PreviewOrigin from "../src/server/PreviewOrigin.ts"

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
