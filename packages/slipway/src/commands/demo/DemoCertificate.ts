/** A self-signed certificate for the few seconds of a demo: X.509 (RFC 5280) in DER, with a P-256 key. */
import { generateKeyPairSync, randomBytes, sign } from "node:crypto"

const tlv = (tag: number, ...parts: ReadonlyArray<Uint8Array>): Buffer => {
  const content = Buffer.concat(parts)
  const size = content.length
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff]
  return Buffer.concat([Buffer.from([tag, ...length]), content])
}
const sequence = (...parts: ReadonlyArray<Uint8Array>) => tlv(0x30, ...parts)
const text = (tag: number, value: string) => tlv(tag, Buffer.from(value))
const oid = (hex: string) => tlv(0x06, Buffer.from(hex, "hex"))
const bits = (bytes: Uint8Array) => tlv(0x03, Buffer.from([0]), bytes)

const COMMON_NAME = oid("550403")
const ECDSA_WITH_SHA256 = sequence(oid("2a8648ce3d040302"))
const SUBJECT_ALTERNATIVE_NAME = oid("551d11")
const BASIC_CONSTRAINTS = oid("551d13")
const TRUE = tlv(0x01, Buffer.from([0xff]))

/** UTCTime: `YYMMDDHHMMSSZ`. */
const utc = (millis: number) => text(0x17, `${new Date(millis).toISOString().replaceAll(/[-:T]/gu, "").slice(2, 14)}Z`)

const HOUR = 3_600_000

/** Valid for a name and for 127.0.0.1, for a day from an hour ago. In PEM. */
export const certificate = (name: string, now: number): { readonly key: string; readonly cert: string } => {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" })
  const who = sequence(tlv(0x31, sequence(COMMON_NAME, text(0x0c, "Slipway demo"))))
  const serial = randomBytes(16)
  // The serial number must be positive and of fixed length: the first bit is its sign, and DER forbids a leading zero.
  serial[0] = 0x40 | (serial[0] ?? 0) & 0x3f
  const names = sequence(text(0x82, name), tlv(0x87, Buffer.from([127, 0, 0, 1])))
  const extensions = sequence(
    sequence(BASIC_CONSTRAINTS, TRUE, tlv(0x04, sequence(TRUE))),
    sequence(SUBJECT_ALTERNATIVE_NAME, tlv(0x04, names))
  )
  const signed = sequence(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, serial),
    ECDSA_WITH_SHA256,
    who,
    sequence(utc(now - HOUR), utc(now + 24 * HOUR)),
    who,
    publicKey.export({ type: "spki", format: "der" }),
    tlv(0xa3, extensions)
  )
  const der = sequence(signed, ECDSA_WITH_SHA256, bits(sign("sha256", signed, privateKey)))
  const lines = der.toString("base64").replaceAll(/.{1,64}/gu, "$&\n")
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}-----END CERTIFICATE-----\n`
  }
}
