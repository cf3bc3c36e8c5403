import { assert, layer } from "@effect/vitest"
import { MAX_FILE_BYTES } from "@slipway/domain/files/rules/UploadedFile"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { MAX_UNUSED_BYTES } from "@slipway/domain/sandbox/ports/PromptFiles"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { gzipSync } from "node:zlib"
import { ask, create, drive, json, layer as http, mintKey, postJson, refused, running, SANDBOXES } from "../testing/Harness.ts"

const FILES = "/api/public/v1/files"
const MISSING = "file_aaaaaaaaaaaa"
const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==", "base64")
const HOUR = 3_600_000

const upload = (key: string, body: string | Uint8Array, headers: Record<string, string> = {}) =>
  ask(FILES, { key, body, headers: { "content-type": "text/plain", ...headers } })

const uploaded = Effect.fnUntraced(function*(key: string, body: string | Uint8Array = "hello", headers: Record<string, string> = {}) {
  const reply = yield* upload(key, body, headers)
  assert.strictEqual(reply.status, 201, reply.text)
  return json(reply)
})

layer(http(), { excludeTestServices: true })("uploads", (it) => {
  it.effect("are stored as they came, and are there for a day", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => i * 7)
      const file = yield* uploaded(key, bytes, {
        "content-type": "application/x-thing; a=b",
        "content-disposition": "attachment; filename=\"plain\"; filename*=UTF-8''%C3%BC%20b%2F..%2Fc.bin"
      })
      assert.match(file.id, /^file_[a-z2-9]{12}$/u)
      const { createdAt, expiresAt, id, ...rest } = file
      assert.deepStrictEqual(rest, {
        object: "file",
        name: "c.bin",
        mediaType: "application/x-thing",
        size: bytes.length,
        sha256: createHash("sha256").update(bytes).digest("hex")
      })
      assert.strictEqual(Date.parse(expiresAt) - Date.parse(createdAt), 24 * HOUR)
      assert.deepStrictEqual(json(yield* ask(`${FILES}/${id}`, { key })), file)
      const { bytes: read, headers, status } = yield* ask(`${FILES}/${id}/content`, { key })
      assert.strictEqual(status, 200)
      assert.isTrue(Buffer.from(bytes).equals(read))
      assert.strictEqual(headers["content-length"], String(bytes.length))
    }))

  it.effect("are named by the header in any of its forms, or not at all", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const names: ReadonlyArray<readonly [string | undefined, string]> = [
        [undefined, "file"],
        ["inline", "file"],
        ["attachment; filename=a.png", "a.png"],
        ["attachment; filename=\"a \\\"b\\\".png\"", "a \"b\".png"],
        ["form-data; name=\"x\"; filename=\"../../etc/passwd\"", "passwd"],
        ["attachment; filename*=UTF-8''%E2%82%AC.txt", "€.txt"],
        ["attachment; filename*=UTF-8''%E2%82; filename=b.txt", "b.txt"]
      ]
      for (const [header, name] of names) {
        const file = yield* uploaded(key, "x", header === undefined ? {} : { "content-disposition": header })
        assert.strictEqual(file.name, name, header)
      }
    }))

  it.effect("are images by their bytes alone, and nothing of them runs in a browser", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>"
      const cases = [
        [PNG, "text/html", "image/png", "image/png"],
        ["<script>alert(1)</script>", "image/png", "application/octet-stream", "application/octet-stream"],
        [svg, "image/svg+xml", "image/svg+xml", "application/octet-stream"],
        ["<script>alert(1)</script>", "text/html", "text/html", "application/octet-stream"]
      ] as const
      for (const [body, said, known, served] of cases) {
        const file = yield* uploaded(key, body, { "content-type": said, "content-disposition": "attachment; filename=\"x.html\"" })
        assert.strictEqual(file.mediaType, known)
        const { headers } = yield* ask(`${FILES}/${file.id}/content`, { key })
        assert.strictEqual(headers["content-type"], served)
        assert.match(String(headers["content-disposition"]), /^attachment; filename="x\.html"/u)
        assert.strictEqual(headers["x-content-type-options"], "nosniff")
        assert.strictEqual(headers["content-security-policy"], "default-src 'none'; sandbox")
      }
    }))

  it.effect("have at most 20 MiB, announced or not", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const whole = new Uint8Array(MAX_FILE_BYTES)
      assert.strictEqual((yield* uploaded(key, whole)).size, MAX_FILE_BYTES)
      const more = new Uint8Array(MAX_FILE_BYTES + 1)
      refused(yield* ask(FILES, { key, body: more, chunked: true }), 413, "file_too_large")
      refused(yield* ask(FILES, { key, method: "POST", headers: { "content-length": String(MAX_FILE_BYTES + 1) } }), 413, "file_too_large")
      assert.strictEqual((yield* uploaded(key, "")).size, 0)
    }))

  it.effect("are never decoded: a body that is encoded is refused, and a compressed file stays compressed", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const bomb = gzipSync(new Uint8Array(50 * 1024 * 1024))
      refused(yield* upload(key, bomb, { "content-encoding": "gzip" }), 415, "unsupported_media_type")
      const file = yield* uploaded(key, bomb, { "content-type": "application/gzip" })
      assert.strictEqual(file.size, bomb.length)
    }))

  it.effect("are those of their grant alone", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { key: other } = yield* mintKey({ grant: "other" })
      const { id } = yield* uploaded(key)
      for (const path of [`${FILES}/${id}`, `${FILES}/${id}/content`]) {
        const foreign = yield* ask(path, { key: other })
        refused(foreign, 404, "file_not_found")
        const missing = yield* ask(path.replace(id, MISSING), { key: other })
        assert.strictEqual(foreign.text.replace(id, MISSING), missing.text)
      }
      const files = [{ id }]
      refused(yield* postJson(SANDBOXES, other, { repos: [{ fullName: "acme/shop" }], prompt: "Look.", files }), 404, "file_not_found")
      refused(yield* ask(`${FILES}/nonsense`, { key }), 400, "invalid_request")
    }))

  it.effect("take no more room unused than a grant may have", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ grant: "room" })
      const whole = new Uint8Array(MAX_FILE_BYTES)
      for (let used = 0; used < MAX_UNUSED_BYTES; used += MAX_FILE_BYTES) yield* uploaded(key, whole)
      refused(yield* upload(key, "x"), 409, "files_limit_exceeded")
    }))
})

layer(http(), { excludeTestServices: true })("files of prompts", (it) => {
  it.effect("are in the creation's turn, in the list of messages, and stay with the sandbox", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const [one, two] = [yield* uploaded(key, PNG), yield* uploaded(key, "log")]
      const { id } = yield* running(key, { files: [{ id: two.id }, { id: one.id }] })
      const attached = [two, one].map(({ id, mediaType, name, size }) => ({ id, name, mediaType, size }))
      const { data } = json(yield* ask(`${SANDBOXES}/${id}/events`, { key }))
      const started = data.find(({ type }: { readonly type: string }) => type === "turn.started")
      assert.deepStrictEqual(started.data.files, attached)
      const messages = json(yield* ask(`${SANDBOXES}/${id}/messages`, { key })).data
      assert.deepStrictEqual(messages.map(({ files }: { readonly files: unknown }) => files), [attached])
      assert.isNull(json(yield* ask(`${FILES}/${one.id}`, { key })).expiresAt)
    }))

  it.effect("are in messages, queued ones too, under the key of the message", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id, turn } = yield* running(key)
      const file = yield* uploaded(key)
      const files = [{ id: file.id }]
      const send = (body: object, name = "k") =>
        postJson(`${SANDBOXES}/${id}/messages`, key, { prompt: "See this.", ...body }, { "idempotency-key": name })
      refused(yield* send({ files }), 409, "turn_active")
      assert.strictEqual(json(yield* ask(`${FILES}/${file.id}`, { key })).expiresAt === null, false, "it was given back")
      assert.strictEqual((yield* send({ files, whenBusy: "queue" })).status, 201)
      const again = yield* send({ files, whenBusy: "queue" })
      assert.deepStrictEqual([again.status, json(again).outcome], [200, "duplicate"])
      refused(yield* send({ files: [], whenBusy: "queue" }), 409, "idempotency_conflict")
      yield* drive(id, [{ _tag: "EndTurn", turnId: turn, state: "succeeded" }])
      yield* drive(id, [{ _tag: "StartTurn", turnId: json(again).turnId }])
      const { data } = json(yield* ask(`${SANDBOXES}/${id}/messages`, { key }))
      assert.deepStrictEqual(data.map(({ files }: { readonly files: ReadonlyArray<object> }) => files.length), [0, 1])
    }))

  it.effect("are 10 at most, different and known", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* uploaded(key)
      const post = (files: unknown) => postJson(SANDBOXES, key, { repos: [{ fullName: "acme/shop" }], prompt: "Look.", files })
      for (const files of [[{ id }, { id }], [{}], [id], { id }, [{ id: "x" }], [{ id, name: "a" }]]) {
        refused(yield* post(files), 400, "invalid_request")
      }
      const eleven = yield* Effect.forEach(Array.from({ length: 11 }), () => Effect.map(uploaded(key), ({ id }) => ({ id })))
      refused(yield* post(eleven), 400, "invalid_request")
      assert.strictEqual((yield* post(eleven.slice(1))).status, 201)
      refused(yield* post([{ id }, { id: MISSING }]), 404, "file_not_found")
      yield* create(key, { files: [] })
    }))

  it.effect("may be used by several sandboxes, and a repeated creation finds its sandbox", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const { id } = yield* uploaded(key)
      const body = { repos: [{ fullName: "acme/shop" }], prompt: "Look.", files: [{ id }] }
      const first = yield* postJson(SANDBOXES, key, body, { "idempotency-key": "files" })
      const again = yield* postJson(SANDBOXES, key, body, { "idempotency-key": "files" })
      assert.deepStrictEqual([first.status, again.status, json(again).id], [201, 200, json(first).id])
      assert.notStrictEqual(yield* create(key, { files: [{ id }] }), json(first).id)
      refused(yield* postJson(SANDBOXES, key, { ...body, files: [] }, { "idempotency-key": "files" }), 409, "idempotency_conflict")
    }))
})

const blind = { default: "blind", models: [{ ...offlineDemo, id: "blind", images: false }] }

layer(http({ catalogue: blind }), { excludeTestServices: true })("a model without images", (it) => {
  it.effect("is given no image, and any other file", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const [picture, text] = [yield* uploaded(key, PNG), yield* uploaded(key, "GIF", { "content-type": "image/gif" })]
      const post = (files: unknown) => postJson(SANDBOXES, key, { repos: [{ fullName: "acme/shop" }], prompt: "Look.", files })
      refused(yield* post([{ id: text.id }, { id: picture.id }]), 400, "files_unsupported")
      assert.strictEqual((yield* post([{ id: text.id }])).status, 201)
      const { id } = yield* running(key)
      const message = { prompt: "Look.", whenBusy: "queue", files: [{ id: picture.id }] }
      refused(yield* postJson(`${SANDBOXES}/${id}/messages`, key, message), 400, "files_unsupported")
      assert.notStrictEqual(json(yield* ask(`${FILES}/${picture.id}`, { key })).expiresAt, null)
    }))
})
