/** PNGs as Chromium takes them, with a palette: a quarter of the size for pages, which have few colours. */
import { crc32, deflateSync, inflateSync } from "node:zlib"

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
/** Bytes of a pixel by the colour type of its picture (PNG, section 11.2.2): RGB, and RGB with transparency. */
const CHANNELS = { 2: 3, 6: 4 }

const chunk = (type, content) => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), content])
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(content.length)
  check.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, check])
}

const paeth = (left, above, corner) => {
  const [a, b, c] = [Math.abs(above - corner), Math.abs(left - corner), Math.abs(left + above - 2 * corner)]
  return a <= b && a <= c ? left : b <= c ? above : corner
}

/** Its pixels, row by row, without transparency. */
export const decode = (png) => {
  const parts = []
  let header
  for (let at = SIGNATURE.length; at < png.length;) {
    const length = png.readUInt32BE(at)
    const type = png.toString("latin1", at + 4, at + 8)
    const content = png.subarray(at + 8, at + 8 + length)
    if (type === "IHDR") header = content
    if (type === "IDAT") parts.push(content)
    at += length + 12
  }
  const [width, height, channels] = [header.readUInt32BE(0), header.readUInt32BE(4), CHANNELS[header[9]]]
  if (header[8] !== 8 || channels === undefined || header[12] !== 0) throw new Error("not a PNG as Chromium takes them")
  const raw = inflateSync(Buffer.concat(parts))
  const stride = width * channels
  const pixels = new Uint32Array(width * height)
  let above = new Uint8Array(stride)
  for (let y = 0; y < height; y++) {
    const from = y * (stride + 1)
    const row = new Uint8Array(raw.subarray(from + 1, from + 1 + stride))
    for (let x = 0; x < stride; x++) {
      const left = x < channels ? 0 : row[x - channels]
      const corner = x < channels ? 0 : above[x - channels]
      row[x] += [0, left, above[x], (left + above[x]) >> 1, paeth(left, above[x], corner)][raw[from]]
    }
    for (let x = 0; x < width; x++) {
      pixels[y * width + x] = (row[x * channels] << 16) | (row[x * channels + 1] << 8) | row[x * channels + 2]
    }
    above = row
  }
  return { width, height, pixels }
}

const distance = (one, other) =>
  ((one >> 16) - (other >> 16)) ** 2 + ((one >> 8 & 255) - (other >> 8 & 255)) ** 2 + ((one & 255) - (other & 255)) ** 2

/** The picture in its most frequent colours, at most 256; every other pixel gets the nearest of them. */
export const encode = ({ height, pixels, width }, colours = 256) => {
  const counts = new Map()
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1)
  const palette = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, colours).map(([pixel]) => pixel)
  const indexes = new Map(palette.map((pixel, index) => [pixel, index]))
  const indexOf = (pixel) => {
    const known = indexes.get(pixel)
    if (known !== undefined) return known
    let nearest = 0
    for (let i = 1; i < palette.length; i++) if (distance(pixel, palette[i]) < distance(pixel, palette[nearest])) nearest = i
    indexes.set(pixel, nearest)
    return nearest
  }
  const rows = Buffer.alloc(height * (width + 1))
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = indexOf(pixels[y * width + x])
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // 8 bits of palette index each.
  header.set([8, 3, 0, 0, 0], 8)
  const table = Buffer.from(palette.flatMap((pixel) => [pixel >> 16, pixel >> 8 & 255, pixel & 255]))
  const data = deflateSync(rows, { level: 9 })
  return Buffer.concat([SIGNATURE, chunk("IHDR", header), chunk("PLTE", table), chunk("IDAT", data), chunk("IEND", Buffer.alloc(0))])
}

/** With as many colours as fit into so many bytes. */
export const within = (png, maximumBytes) => {
  const picture = decode(png)
  for (const colours of [256, 128, 64, 32, 16]) {
    const encoded = encode(picture, colours)
    if (encoded.length <= maximumBytes) return encoded
  }
  throw new Error(`a picture of ${picture.width} by ${picture.height} does not fit into ${maximumBytes} bytes`)
}
