/**
 * An SSH key that signs commits as `git` does with `gpg.format=ssh`. It stays in this process: neither a program nor a box gets it.
 * Formats: https://github.com/openssh/openssh-portable, `PROTOCOL.key` and `PROTOCOL.sshsig`.
 */
import { Effect, Schema } from "effect"
import { createHash, createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject, sign as signBytes } from "node:crypto"
import { open } from "node:fs/promises"

/** The key cannot sign. The problem is a clause for the operator and contains no part of the key. */
export class UnusableKey extends Schema.TaggedError<UnusableKey>()("UnusableKey", { problem: Schema.String }) {
  override get message() {
    return `The key for signing commits cannot be used: ${this.problem}.`
  }
}

/** A key that signs. The same bytes get the same signature. */
export interface SigningKey {
  /** `ssh-ed25519` or `ssh-rsa`. */
  readonly kind: string
  /** As `ssh-keygen -l` shows it: `SHA256:…`. */
  readonly fingerprint: string
  /** As a line of an `allowed_signers` file has it, and GitHub takes it: kind and base64. */
  readonly publicKey: string
  /** The armored signature of a commit, which ends with a line feed. */
  readonly sign: (commit: Uint8Array) => string
}

/** Bytes: an RSA key of 16,384 bits has 13 KiB. */
const MAXIMUM_BYTES = 65_536
/** Bits. Git hosts refuse shorter ones. */
const MINIMUM_RSA = 2_048

const PASSPHRASE = "it has a passphrase, and no person types it. Make a key without one: ssh-keygen -t ed25519 -N '' -f FILE"
const NO_KEY = "it is no SSH private key"

const unusable = (problem: string) => new UnusableKey({ problem })

const field = (bytes: Uint8Array | string): Buffer => {
  const content = Buffer.from(bytes)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(content.length)
  return Buffer.concat([length, content])
}

/** Reads fields of bytes, each after its length. Throws {@link UnusableKey} where they end too early. */
const reader = (bytes: Buffer) => {
  let at = 0
  const take = (length: number): Buffer => {
    if (at + length > bytes.length) throw unusable(NO_KEY)
    at += length
    return bytes.subarray(at - length, at)
  }
  const number = (): number => take(4).readUInt32BE()
  const next = (): Buffer => take(number())
  return { number, next, text: () => next().toString("latin1") }
}

const MAGIC = "openssh-key-v1\0"

const base64url = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64url")
const bigint = (bytes: Uint8Array): bigint => BigInt(`0x0${Buffer.from(bytes).toString("hex")}`)
const bytesOf = (value: bigint): Buffer => {
  const hex = value.toString(16)
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, "hex")
}

/** A key as OpenSSH writes it, for Node, whose own parser does not know the format. */
const fromOpenSsh = (bytes: Buffer): KeyObject => {
  if (bytes.subarray(0, MAGIC.length).toString("latin1") !== MAGIC) throw unusable(NO_KEY)
  const outer = reader(bytes.subarray(MAGIC.length))
  const cipher = outer.text()
  if (cipher !== "none") throw unusable(PASSPHRASE)
  outer.next()
  outer.next()
  if (outer.number() !== 1) throw unusable("it holds several keys")
  outer.next()
  const inner = reader(outer.next())
  if (inner.number() !== inner.number()) throw unusable("it is damaged")
  const kind = inner.text()
  const jwk = (key: JsonWebKey) => createPrivateKey({ key, format: "jwk" })
  if (kind === "ssh-ed25519") {
    const x = inner.next()
    return jwk({ kty: "OKP", crv: "Ed25519", x: base64url(x), d: base64url(inner.next().subarray(0, 32)) })
  }
  if (kind !== "ssh-rsa") throw unusable(otherKind(kind))
  const [n, e, d, qi, p, q] = Array.from({ length: 6 }, () => bigint(inner.next()))
  if (n === undefined || e === undefined || d === undefined || qi === undefined || p === undefined || q === undefined) {
    throw unusable(NO_KEY)
  }
  const part = (value: bigint) => base64url(bytesOf(value))
  return jwk({
    kty: "RSA",
    n: part(n),
    e: part(e),
    d: part(d),
    p: part(p),
    q: part(q),
    dp: part(d % (p - 1n)),
    dq: part(d % (q - 1n)),
    qi: part(qi)
  })
}

const otherKind = (kind: string): string => `it is of the kind ${kind.slice(0, 50)}. Slipway signs with Ed25519 and RSA keys`

const pemOf = (text: string, label: string): Buffer | undefined => {
  const found = new RegExp(`-----BEGIN ${label}-----([A-Za-z0-9+/=\\s]+)-----END ${label}-----`, "u").exec(text)
  return found?.[1] === undefined ? undefined : Buffer.from(found[1], "base64")
}

const keyIn = (text: string): KeyObject => {
  const own = pemOf(text, "OPENSSH PRIVATE KEY")
  if (own !== undefined) return fromOpenSsh(own)
  if (/^(?:ssh|ecdsa|sk)-\S+ /mu.test(text)) throw unusable("it is a public key. Name the file without .pub")
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/mu.test(text)) throw unusable(PASSPHRASE)
  if (!/-----BEGIN (?:RSA )?PRIVATE KEY-----/u.test(text)) throw unusable(NO_KEY)
  return createPrivateKey(text)
}

/** An integer without its sign: a first bit that is set gets a zero byte before it. */
const mpint = (encoded: string | undefined): Buffer => {
  const bytes = Buffer.from(encoded ?? "", "base64url")
  return field((bytes[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes)
}

const publicOf = (key: KeyObject): { readonly kind: string; readonly blob: Buffer } => {
  const { e, n, x } = createPublicKey(key).export({ format: "jwk" })
  if (key.asymmetricKeyType === "ed25519") {
    return { kind: "ssh-ed25519", blob: Buffer.concat([field("ssh-ed25519"), field(Buffer.from(x ?? "", "base64url"))]) }
  }
  if (key.asymmetricKeyType !== "rsa") throw unusable(otherKind(key.asymmetricKeyType ?? "unknown"))
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0
  if (bits < MINIMUM_RSA) throw unusable(`it is an RSA key of ${bits} bits. At least ${MINIMUM_RSA} are needed`)
  return { kind: "ssh-rsa", blob: Buffer.concat([field("ssh-rsa"), mpint(e), mpint(n)]) }
}

const SIGNATURE_MAGIC = "SSHSIG"
const NAMESPACE = "git"
const HASH = "sha512"
/** Characters of base64, without the padding. */
const FINGERPRINT = 43
/** Characters of a line of an armored signature, as OpenSSH breaks them. */
const LINE = /.{1,70}/gu

const signing = (key: KeyObject): SigningKey => {
  const { blob, kind } = publicOf(key)
  const common = [field(NAMESPACE), field(""), field(HASH)]
  return {
    kind,
    fingerprint: `SHA256:${createHash("sha256").update(blob).digest("base64").slice(0, FINGERPRINT)}`,
    publicKey: `${kind} ${blob.toString("base64")}`,
    sign: (commit) => {
      const digest = createHash(HASH).update(commit).digest()
      const said = Buffer.concat([Buffer.from(SIGNATURE_MAGIC), ...common, field(digest)])
      const [algorithm, bytes] = kind === "ssh-rsa"
        ? ["rsa-sha2-512", signBytes("sha512", said, key)] as const
        : [kind, signBytes(null, said, key)] as const
      const version = Buffer.from([0, 0, 0, 1])
      const signature = Buffer.concat([
        Buffer.from(SIGNATURE_MAGIC),
        version,
        field(blob),
        ...common,
        field(Buffer.concat([field(algorithm), field(bytes)]))
      ])
      const lines = signature.toString("base64").match(LINE) ?? []
      return `-----BEGIN SSH SIGNATURE-----\n${lines.join("\n")}\n-----END SSH SIGNATURE-----\n`
    }
  }
}

/** The key of this text, in the format of OpenSSH or as PEM. */
export const parse = (text: string): Effect.Effect<SigningKey, UnusableKey> =>
  Effect.try({
    try: () => signing(keyIn(text)),
    catch: (cause) => cause instanceof UnusableKey ? cause : unusable(NO_KEY)
  })

/** The text of a file that may have a key. */
export const readText = (file: string): Effect.Effect<string, UnusableKey> =>
  Effect.tryPromise({
    try: async () => {
      const handle = await open(file, "r")
      try {
        const bytes = Buffer.alloc(MAXIMUM_BYTES + 1)
        const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0)
        if (bytesRead > MAXIMUM_BYTES) throw unusable(NO_KEY)
        return bytes.subarray(0, bytesRead).toString("latin1")
      } finally {
        await handle.close()
      }
    },
    catch: (cause) => cause instanceof UnusableKey ? cause : unusable("the file cannot be read by the user that Slipway runs as")
  })
