/** SHA-1 and SHA-256 (FIPS 180-4) in plain code, so that derived ids need no cryptography of the platform. */

const utf8 = new TextEncoder()

/** The message with its padding: one bit, zeros, and its length in bits. */
const padded = (message: Uint8Array): DataView => {
  const bytes = new Uint8Array(Math.ceil((message.length + 9) / 64) * 64)
  bytes.set(message)
  bytes[message.length] = 0x80
  const view = new DataView(bytes.buffer)
  view.setUint32(bytes.length - 8, Math.floor(message.length / 0x2000_0000))
  view.setUint32(bytes.length - 4, message.length << 3)
  return view
}

const left = (word: number, bits: number) => word << bits | word >>> 32 - bits
const right = (word: number, bits: number) => word >>> bits | word << 32 - bits
const hex = (words: Iterable<number>) => Array.from(words, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("")

/** 40 lower-case hex digits. Only where a standard names it: UUIDv5. */
export const sha1 = (message: Uint8Array): string => {
  const view = padded(message)
  const hash = new Int32Array([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0])
  const w = new Int32Array(80)
  for (let block = 0; block < view.byteLength; block += 64) {
    let [a = 0, b = 0, c = 0, d = 0, e = 0] = hash
    for (let t = 0; t < 80; t++) {
      w[t] = t < 16 ? view.getInt32(block + 4 * t) : left(w[t - 3]! ^ w[t - 8]! ^ w[t - 14]! ^ w[t - 16]!, 1)
      const [f, k] = t < 20
        ? [b & c | ~b & d, 0x5a827999]
        : t < 40
        ? [b ^ c ^ d, 0x6ed9eba1]
        : t < 60
        ? [b & c | b & d | c & d, 0x8f1bbcdc]
        : [b ^ c ^ d, 0xca62c1d6]
      const next = left(a, 5) + f + e + k + w[t]! | 0
      e = d
      d = c
      c = left(b, 30)
      b = a
      a = next
    }
    for (const [i, word] of [a, b, c, d, e].entries()) hash[i]! += word
  }
  return hex(hash)
}

/** First 32 bits of the fractions of the square roots of the first 8 primes, and of the cube roots of the first 64. */
const SQUARE_ROOTS = [
  0x6a09e667,
  0xbb67ae85,
  0x3c6ef372,
  0xa54ff53a,
  0x510e527f,
  0x9b05688c,
  0x1f83d9ab,
  0x5be0cd19
]
const CUBE_ROOTS = [
  0x428a2f98,
  0x71374491,
  0xb5c0fbcf,
  0xe9b5dba5,
  0x3956c25b,
  0x59f111f1,
  0x923f82a4,
  0xab1c5ed5,
  0xd807aa98,
  0x12835b01,
  0x243185be,
  0x550c7dc3,
  0x72be5d74,
  0x80deb1fe,
  0x9bdc06a7,
  0xc19bf174,
  0xe49b69c1,
  0xefbe4786,
  0x0fc19dc6,
  0x240ca1cc,
  0x2de92c6f,
  0x4a7484aa,
  0x5cb0a9dc,
  0x76f988da,
  0x983e5152,
  0xa831c66d,
  0xb00327c8,
  0xbf597fc7,
  0xc6e00bf3,
  0xd5a79147,
  0x06ca6351,
  0x14292967,
  0x27b70a85,
  0x2e1b2138,
  0x4d2c6dfc,
  0x53380d13,
  0x650a7354,
  0x766a0abb,
  0x81c2c92e,
  0x92722c85,
  0xa2bfe8a1,
  0xa81a664b,
  0xc24b8b70,
  0xc76c51a3,
  0xd192e819,
  0xd6990624,
  0xf40e3585,
  0x106aa070,
  0x19a4c116,
  0x1e376c08,
  0x2748774c,
  0x34b0bcb5,
  0x391c0cb3,
  0x4ed8aa4a,
  0x5b9cca4f,
  0x682e6ff3,
  0x748f82ee,
  0x78a5636f,
  0x84c87814,
  0x8cc70208,
  0x90befffa,
  0xa4506ceb,
  0xbef9a3f7,
  0xc67178f2
]

/** 64 lower-case hex digits. */
export const sha256 = (message: Uint8Array): string => {
  const view = padded(message)
  const hash = new Int32Array(SQUARE_ROOTS)
  const w = new Int32Array(64)
  for (let block = 0; block < view.byteLength; block += 64) {
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = hash
    for (let t = 0; t < 64; t++) {
      if (t < 16) w[t] = view.getInt32(block + 4 * t)
      else {
        const [early, late] = [w[t - 15]!, w[t - 2]!]
        w[t] = w[t - 16]! + (right(early, 7) ^ right(early, 18) ^ early >>> 3) + w[t - 7]! +
          (right(late, 17) ^ right(late, 19) ^ late >>> 10)
      }
      const one = h + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + (e & f ^ ~e & g) + CUBE_ROOTS[t]! + w[t]! | 0
      const two = (right(a, 2) ^ right(a, 13) ^ right(a, 22)) + (a & b ^ a & c ^ b & c) | 0
      h = g
      g = f
      f = e
      e = d + one | 0
      d = c
      c = b
      b = a
      a = one + two | 0
    }
    for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) hash[i]! += word
  }
  return hex(hash)
}

/** SHA-256 of the UTF-8 bytes of `text`, hex. */
export const digest = (text: string): string => sha256(utf8.encode(text))

/** RFC 9562, section 5.5. */
export const uuid5 = (namespace: string, name: string): string => {
  const space = Uint8Array.from(namespace.replaceAll("-", "").match(/../gu) ?? [], (pair) => Number.parseInt(pair, 16))
  const hash = sha1(new Uint8Array([...space, ...utf8.encode(name)]))
  const variant = (Number.parseInt(hash.slice(16, 18), 16) & 0x3f | 0x80).toString(16)
  return [hash.slice(0, 8), hash.slice(8, 12), `5${hash.slice(13, 16)}`, variant + hash.slice(18, 20), hash.slice(20, 32)].join("-")
}
