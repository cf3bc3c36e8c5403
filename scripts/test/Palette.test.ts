/** Pictures of the documentation are as Chromium took them, in few colours. */
import { assert, describe, it } from "@effect/vitest"
import { crc32, deflateSync } from "node:zlib"
import { decode, encode, within } from "../pictures/Palette.mjs"

const chunk = (type: string, content: Buffer) => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), content])
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(content.length)
  check.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, check])
}

/** A PNG of RGB pixels, each row filtered in its own way (PNG, section 9.2). */
const png = (width: number, rows: ReadonlyArray<{ readonly filter: number; readonly bytes: ReadonlyArray<number> }>) => {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(rows.length, 4)
  header.set([8, 2, 0, 0, 0], 8)
  const raw = Buffer.from(rows.flatMap(({ bytes, filter }) => [filter, ...bytes]))
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([signature, chunk("IHDR", header), chunk("IDAT", deflateSync(raw)), chunk("IEND", Buffer.alloc(0))])
}

/** Every row is 010203, 111213: as differences to what each filter foretells. */
const filtered = png(2, [
  { filter: 0, bytes: [1, 2, 3, 17, 18, 19] },
  { filter: 1, bytes: [1, 2, 3, 16, 16, 16] },
  { filter: 2, bytes: [0, 0, 0, 0, 0, 0] },
  { filter: 3, bytes: [1, 1, 2, 8, 8, 8] },
  { filter: 4, bytes: [0, 0, 0, 0, 0, 0] }
])

describe("the palette of a picture", () => {
  it("is of pixels that every filter of PNG gives back", () => {
    const { height, pixels, width } = decode(filtered)
    assert.deepStrictEqual([width, height], [2, 5])
    assert.deepStrictEqual([...pixels], [1, 2, 3, 4, 5].flatMap(() => [0x010203, 0x111213]))
  })

  it("keeps the most frequent colours, and gives the others the nearest of them", () => {
    const picture = { width: 4, height: 2, pixels: Uint32Array.of(0xffffff, 0xffffff, 0xffffff, 0, 0, 0, 0x101010, 0xf0f0f0) }
    const encoded = encode(picture, 2)
    const at = encoded.indexOf("PLTE")
    assert.strictEqual(encoded.readUInt32BE(at - 4), 6)
    assert.strictEqual(encoded.toString("hex", at + 4, at + 10), "000000ffffff")
    assert.strictEqual(crc32(encoded.subarray(at, at + 10)), encoded.readUInt32BE(at + 10))
  })

  it("is refused where no number of colours fits", () => {
    assert.isAtMost(within(filtered, 200).length, 200)
    assert.throws(() => within(filtered, 50), /does not fit into 50 bytes/u)
  })
})
