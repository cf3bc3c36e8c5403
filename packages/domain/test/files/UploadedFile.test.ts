import { assert, it } from "@effect/vitest"
import { boxNames, fileName, imageType, mediaType } from "@slipway/domain/files/rules/UploadedFile"

const bytes = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0))

const images = {
  "image/png": "\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
  "image/jpeg": "\xff\xd8\xff\xe0\0\x10JFIF\0",
  "image/gif": "GIF89a\x01\0\x01\0\0\0",
  "image/webp": "RIFF\x24\0\0\0WEBPVP8 "
}

it.each(Object.entries(images))("knows %s by its first bytes, whatever the upload says", (type, head) => {
  assert.strictEqual(imageType(bytes(head)), type)
  for (const said of [undefined, "text/html", "image/png", "image/svg+xml", "nonsense"]) {
    assert.strictEqual(mediaType(said, bytes(head)), type)
  }
  assert.isNull(imageType(bytes(head.slice(0, 2))))
  assert.isNull(imageType(bytes(`x${head}`)))
})

it("goes by the bytes of a file that claims to be an image, and keeps other types as they were said", () => {
  const text = bytes("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
  for (const said of ["image/png", "image/jpeg; q=1", "IMAGE/GIF", "image/webp", "", "text", "a/b/c", "text/html\u0000", undefined]) {
    assert.strictEqual(mediaType(said, text), "application/octet-stream", said)
  }
  assert.strictEqual(mediaType("image/svg+xml", text), "image/svg+xml")
  assert.strictEqual(mediaType("Text/HTML; charset=utf-8", text), "text/html")
  assert.strictEqual(mediaType(`text/${"x".repeat(65)}`, text), "application/octet-stream")
})

it("makes a name without a folder and without hidden characters", () => {
  assert.strictEqual(fileName("../../etc/passwd"), "passwd")
  assert.strictEqual(fileName("C:\\Users\\me\\shot 1.png"), "shot 1.png")
  assert.strictEqual(fileName("a\u0000b\nc\u202egnp.exe"), "abcgnp.exe")
  assert.strictEqual(fileName(" Ünïcode \u{1F680}.txt "), "Ünïcode \u{1F680}.txt")
  for (const none of ["", " ", ".", "..", "a/", "\u200b"]) assert.strictEqual(fileName(none), "file")
  const long = fileName(`${"ü".repeat(300)}.tar.gz`)
  assert.isAtMost(Buffer.byteLength(long), 200)
  assert.isTrue(long.endsWith("ü.tar.gz"))
})

it("gives each file of a sandbox its own name, which later files do not change", () => {
  const names = ["a.png", "a.png", "A.PNG", "a-2.png", "Makefile", "Makefile", ".env", ".env"]
  const files = names.map((name, i) => ({ id: `file_${i}`, name }))
  const all = [...boxNames(files).values()]
  assert.deepStrictEqual(all, ["a.png", "a-2.png", "A-3.PNG", "a-2-2.png", "Makefile", "Makefile-2", ".env", ".env-2"])
  for (let n = 0; n < files.length; n++) assert.deepStrictEqual([...boxNames(files.slice(0, n)).values()], all.slice(0, n))
})
