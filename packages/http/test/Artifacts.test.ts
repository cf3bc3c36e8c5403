/** The files that agents leave for people, over HTTP. */
import { assert, describe, it as plain, layer } from "@effect/vitest"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { rangeOf } from "@slipway/http/server/reply/ArtifactReply"
import { DateTime, Effect } from "effect"
import { createHash } from "node:crypto"
import { ask, create, drive, json, layer as http, leave, mintKey, refused, running, SANDBOXES } from "../testing/Harness.ts"

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==", "base64")
const PAGE = Buffer.from("<!doctype html><script>alert(1)</script>")

describe("a range", () => {
  plain.each<[header: string | undefined, range: readonly [number, number] | null]>([
    ["bytes=0-0", [0, 1]],
    ["bytes=2-", [2, 10]],
    ["bytes=2-99", [2, 10]],
    ["bytes=-3", [7, 10]],
    ["bytes=-99", [0, 10]],
    ["bytes=9-9", [9, 10]],
    ["bytes=10-", null],
    ["bytes=-0", null],
    ["bytes=5-4", null],
    ["bytes=-", null],
    ["bytes=0-1,4-5", null],
    ["items=0-1", null],
    ["bytes=0-1\r\nx", null],
    [undefined, null]
  ])("%s of ten bytes is %j", (header, range) => {
    const found = rangeOf(header, 10)
    assert.deepStrictEqual(found, range === null ? null : { start: range[0], end: range[1] })
  })
})

layer(http(), { excludeTestServices: true })("artifacts", (it) => {
  it.effect("are listed with what is known of them, for the grant of the sandbox alone", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      assert.deepStrictEqual(json(yield* ask(`${SANDBOXES}/${id}/artifacts`, { key })), { data: [], leftOut: null })
      const [stored] = yield* leave(id, [{ name: "shots/ä.png", bytes: PNG }], "One was left out.")
      const list = json(yield* ask(`${SANDBOXES}/${id}/artifacts`, { key }))
      assert.deepStrictEqual(list, {
        data: [{
          name: "shots/ä.png",
          mediaType: "image/png",
          size: PNG.length,
          sha256: createHash("sha256").update(PNG).digest("hex"),
          turnId: stored?.turnId,
          createdAt: DateTime.formatIso(stored?.createdAt ?? assert.fail("nothing is stored"))
        }],
        leftOut: "One was left out."
      })
      const stranger = yield* mintKey({ grant: "strangers" })
      for (const place of ["artifacts", "artifacts/shots%2F%C3%A4.png"]) {
        refused(yield* ask(`${SANDBOXES}/${id}/${place}`, { key: stranger.key }), 404, "not_found")
        refused(yield* ask(`${SANDBOXES}/${id}/${place}`), 401, "unauthorized")
      }
    }))

  it.effect("are attachments that no browser runs, whatever they are and are called", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const files = [{ name: "a.png", bytes: PNG }, { name: "x/../y", bytes: PAGE }, { name: "p'\"; a=b.html", bytes: PAGE }, {
        name: "empty",
        bytes: new Uint8Array(0)
      }]
      yield* leave(id, files)
      for (const { bytes, name } of files) {
        const reply = yield* ask(`${SANDBOXES}/${id}/artifacts/${encodeURIComponent(name)}`, { key })
        assert.strictEqual(reply.status, 200, name)
        assert.isTrue(Buffer.from(bytes).equals(reply.bytes), name)
        assert.strictEqual(reply.headers["content-type"], "application/octet-stream")
        assert.strictEqual(reply.headers["content-length"], String(bytes.length))
        assert.strictEqual(reply.headers["x-content-type-options"], "nosniff")
        assert.strictEqual(reply.headers["content-security-policy"], "default-src 'none'; sandbox; frame-ancestors 'none'")
        assert.match(String(reply.headers["content-disposition"]), /^attachment; filename="[\w. -]+"; filename\*=UTF-8''[\w%.-]+$/u)
      }
      for (const unknown of ["b.png", "..%2F..%2Fetc%2Fpasswd", "a.png%00", "A.png"]) {
        refused(yield* ask(`${SANDBOXES}/${id}/artifacts/${unknown}`, { key }), 404, "file_not_found")
      }
    }))

  it.effect("are sent in ranges, unless their bytes changed", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      const bytes = Buffer.from("0123456789")
      yield* leave(id, [{ name: "a.txt", bytes }])
      const get = (headers: Record<string, string>) => ask(`${SANDBOXES}/${id}/artifacts/a.txt`, { key, headers })
      const { headers: { etag } } = yield* get({})
      assert.strictEqual(etag, `"${createHash("sha256").update(bytes).digest("hex")}"`)
      for (const headers of [{ range: "bytes=3-5" }, { range: "bytes=3-5", "if-range": String(etag) }]) {
        const part = yield* get(headers)
        assert.deepStrictEqual([part.status, part.text, part.headers["content-range"], part.headers["content-length"]], [
          206,
          "345",
          "bytes 3-5/10",
          "3"
        ])
      }
      for (const headers of [{ range: "bytes=3-5", "if-range": `"other"` }, { range: "bytes=10-" }]) {
        const whole = yield* get(headers)
        assert.deepStrictEqual([whole.status, whole.text, whole.headers["content-range"]], [200, "0123456789", undefined])
      }
    }))

  it.effect("are kept when their sandbox has ended, and gone with a deleted one", () =>
    Effect.gen(function*() {
      const store = yield* SandboxStore
      const { grantId, key } = yield* Effect.map(mintKey(), ({ key, record }) => ({ key, grantId: record.grantId }))
      const { id } = yield* running(key)
      yield* leave(id, [{ name: "a.txt", bytes: Buffer.from("kept") }])
      yield* drive(id, [{ _tag: "Fail", reason: "agent_lost", error: "It is gone.", retryable: false }])
      assert.strictEqual((yield* ask(`${SANDBOXES}/${id}/artifacts/a.txt`, { key })).text, "kept")
      yield* store.delete({ grantId, id }, yield* DateTime.now)
      for (const place of ["artifacts", "artifacts/a.txt"]) refused(yield* ask(`${SANDBOXES}/${id}/${place}`, { key }), 404, "not_found")
    }))
})
