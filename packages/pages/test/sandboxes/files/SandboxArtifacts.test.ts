/** The files that agents leave for people, on pages. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { visitor } from "../../../testing/Browser.ts"
import { ask, create, layer as http, leave, running } from "../../../testing/Harness.ts"

const HOSTILE = `"><script>alert(1)<`
const ESCAPED = "&quot;&gt;&lt;script&gt;alert(1)&lt;"
const PNG = Buffer.from("89504e470d0a1a0a00", "hex")
const WEBM = Buffer.from("\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm", "latin1")
const SVG = Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`)

const FILES = [
  { name: "a.png", bytes: PNG },
  { name: "b.webm", bytes: WEBM },
  { name: "c.svg", bytes: SVG },
  { name: "d.png", bytes: SVG },
  { name: `e${HOSTILE}.txt`, bytes: Buffer.from(`${HOSTILE}\nsecond line\n`) },
  { name: "f.html", bytes: Buffer.from("text") },
  { name: "long.txt", bytes: Buffer.from("line\n".repeat(3_000)) }
]

layer(http(), { excludeTestServices: true })("the artifacts of a sandbox", (it) => {
  it.effect("are on its page and on a page of their own: images and videos shown, others as downloads", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("looker")
      const { id } = yield* running(key)
      assert.include((yield* get(`/sandboxes/${id}?view=artifacts`)).text, "No artifacts.")
      yield* leave(id, FILES, `Left out ${HOSTILE}`)
      for (const address of [`/sandboxes/${id}?view=artifacts`, `/sandboxes/${id}/artifacts`]) {
        const { status, text } = yield* get(address)
        assert.strictEqual(status, 200)
        assert.include(text, `<img class="picture" src="/sandboxes/${id}/artifacts/media?name=a.png" loading="lazy"`)
        assert.include(text, `<video class="picture" src="/sandboxes/${id}/artifacts/media?name=b.webm" controls`)
        assert.include(text, `<p class="warning">Left out ${ESCAPED}</p>`)
        for (const { name } of FILES) assert.include(text, `/artifacts/download?${new URLSearchParams({ name })}"`)
        for (const name of ["c.svg", "d.png", "f.html"]) assert.notInclude(text, `media?name=${name}`)
        assert.notInclude(text, HOSTILE)
      }
    }))

  it.effect("are shown as escaped text, line by line, if they are text", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reader")
      const { id } = yield* running(key)
      yield* leave(id, FILES)
      const at = (name: string, more = "") => get(`/sandboxes/${id}/artifacts?${new URLSearchParams({ name })}${more}`)
      const page = yield* at(`e${HOSTILE}.txt`)
      assert.strictEqual(page.status, 200)
      assert.include(page.text, ESCAPED)
      assert.include(page.text, `<td class="number">2</td>`)
      assert.notInclude(page.text, HOSTILE)
      assert.include((yield* at("long.txt")).text, "Only lines 1 to 2000 are shown.")
      assert.include((yield* at("long.txt", "&after=2000")).text, `<tr id="L3000">`)
      for (const name of ["c.svg", "d.png", "f.html"]) {
        const only = yield* at(name)
        assert.include(only.text, "This file can only be downloaded.")
        assert.notInclude(only.text, "<svg")
      }
      assert.strictEqual((yield* at("none")).status, 404)
    }))

  it.effect("reach a browser with the type of their first bytes, or not at all, and nothing can make a page of them", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("browser")
      const { id } = yield* running(key)
      yield* leave(id, FILES)
      const inert = ["default-src 'none'; sandbox; frame-ancestors 'none'", "nosniff"]
      const headersOf = (headers: Readonly<Record<string, unknown>>) =>
        ["content-type", "content-disposition", "content-security-policy", "x-content-type-options"].map((name) => headers[name])
      for (const [name, type] of [["a.png", "image/png"], ["b.webm", "video/webm"]] as const) {
        const media = yield* get(`/sandboxes/${id}/artifacts/media?name=${name}`)
        assert.strictEqual(media.status, 200)
        assert.deepStrictEqual(headersOf(media.headers), [type, "inline", ...inert])
      }
      const part = yield* get(`/sandboxes/${id}/artifacts/media?name=b.webm`, { range: "bytes=0-3" })
      assert.deepStrictEqual([part.status, part.bytes.length], [206, 4])
      for (const name of ["c.svg", "d.png", "f.html", "long.txt", "none"]) {
        const refused = yield* get(`/sandboxes/${id}/artifacts/media?name=${name}`)
        assert.strictEqual(refused.status, 404, name)
        assert.strictEqual(refused.headers["content-type"], "text/html; charset=utf-8", name)
      }
      for (const { bytes, name } of FILES) {
        const saved = yield* get(`/sandboxes/${id}/artifacts/download?${new URLSearchParams({ name })}`)
        assert.isTrue(bytes.equals(saved.bytes))
        const [type, disposition, ...rest] = headersOf(saved.headers)
        assert.deepStrictEqual([type, ...rest], ["application/octet-stream", ...inert])
        assert.match(String(disposition), /^attachment; filename="/u)
      }
    }))

  it.effect("are for members of the grant alone", () =>
    Effect.gen(function*() {
      const { key } = yield* visitor("owner")
      const id = yield* create(key)
      yield* leave(id, FILES)
      const stranger = yield* visitor("stranger")
      for (const place of ["artifacts", "artifacts?name=a.png", "artifacts/media?name=a.png", "artifacts/download?name=a.png"]) {
        assert.strictEqual((yield* stranger.get(`/sandboxes/${id}/${place}`)).status, 404, place)
        assert.strictEqual((yield* ask(`/sandboxes/${id}/${place}`)).status, 303, place)
      }
    }))
})
