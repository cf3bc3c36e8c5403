/**
 * The identities of a worker and a runner: a key and a certificate for each, minted for one sandbox. There is no authority: each side
 * accepts only the other's certificate, byte for byte, so its dates and names mean nothing, and no clock counts.
 */
import { constants, createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from "node:crypto"
import type { SecureContextOptions, TLSSocket } from "node:tls"

/** PEM. `privateKey` is a secret: it travels in files of mode 0600 or through descriptors, never as an argument or in an environment. */
export interface Identity {
  readonly privateKey: string
  readonly certificate: string
  /** The other side's certificate. */
  readonly peer: string
}

// DER (X.690) of the few values that a certificate is made of.

const der = (tag: number, ...contents: ReadonlyArray<Uint8Array>): Buffer => {
  const content = Buffer.concat(contents)
  const { length } = content
  const head = length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(head), content])
}

const sequence = (...contents: ReadonlyArray<Uint8Array>) => der(0x30, ...contents)
const text = (tag: number, value: string) => der(tag, Buffer.from(value, "latin1"))

/** 1.3.101.112, RFC 8410. */
const ED25519 = sequence(der(0x06, Buffer.from("2b6570", "hex")))
/** 2.5.4.3, the common name. */
const COMMON_NAME = der(0x06, Buffer.from("550403", "hex"))
/** 2.5.29.19, critical, and empty: no authority. */
const BASIC_CONSTRAINTS = sequence(der(0x06, Buffer.from("551d13", "hex")), der(0x01, Buffer.of(0xff)), der(0x04, sequence()))

/** RFC 5280, 4.1.2.5: the second means no end. */
const ALWAYS = sequence(text(0x17, "000101000000Z"), text(0x18, "99991231235959Z"))

const certificateOf = (name: string, publicKey: KeyObject, privateKey: KeyObject): string => {
  const serial = randomBytes(16)
  // Positive, and without a leading zero: RFC 5280, 4.1.2.2.
  serial[0] = (serial[0] ?? 0) & 0x7f | 0x40
  const named = sequence(der(0x31, sequence(COMMON_NAME, text(0x0c, name))))
  const toBeSigned = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, serial),
    ED25519,
    named,
    ALWAYS,
    named,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(BASIC_CONSTRAINTS))
  )
  const signature = sign(null, toBeSigned, privateKey)
  return new X509Certificate(sequence(toBeSigned, ED25519, der(0x03, Buffer.of(0), signature))).toString()
}

const one = (name: string) => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519")
  const pem = privateKey.export({ type: "pkcs8", format: "pem" })
  return { privateKey: typeof pem === "string" ? pem : pem.toString(), certificate: certificateOf(name, publicKey, privateKey) }
}

/** The two sides of one sandbox's connection, with Ed25519 keys. */
export const mint = (): { readonly worker: Identity; readonly runner: Identity } => {
  const [worker, runner] = [one("slipway worker"), one("slipway runner")]
  return { worker: { ...worker, peer: runner.certificate }, runner: { ...runner, peer: worker.certificate } }
}

/** The TLS options of both sides: version 1.3 and the other's certificate alone. Throws for an invalid key or certificate. */
export const secureContext = ({ certificate, peer, privateKey }: Identity): SecureContextOptions => {
  // OpenSSL's own messages would quote the invalid key.
  createPrivateKey(privateKey)
  return {
    key: privateKey,
    cert: certificate,
    ca: [new X509Certificate(peer).toString()],
    minVersion: "TLSv1.3",
    maxVersion: "TLSv1.3",
    // A ticket would admit its holder without a certificate.
    secureOptions: constants.SSL_OP_NO_TICKET
  }
}

/** Whether the other end of the connection has the certificate that was minted for it. TLS has checked that it has the key. */
export const isPeer = (socket: TLSSocket, { peer }: Identity): boolean =>
  socket.authorized && socket.getPeerX509Certificate()?.raw.equals(new X509Certificate(peer).raw) === true
