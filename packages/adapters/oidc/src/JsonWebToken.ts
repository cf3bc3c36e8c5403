/** Signed JSON Web Tokens (RFC 7515 and 7519): their parts, and whether a published key signed them. */
import { createPublicKey, type JsonWebKey, type KeyObject, verify } from "node:crypto"

type Json = Readonly<Record<string, unknown>>

/** UTF-16 units of a token. Those of GitHub have 1,500, of GitLab 2,500. */
const MAX_LENGTH = 16_384

/** Signature algorithms of public keys (RFC 7518, section 3.1). Not `none`, and no shared secrets. */
const ALGORITHMS: Readonly<Record<string, { readonly kty: string; readonly hash: string; readonly curve?: string }>> = {
  RS256: { kty: "RSA", hash: "sha256" },
  RS384: { kty: "RSA", hash: "sha384" },
  RS512: { kty: "RSA", hash: "sha512" },
  ES256: { kty: "EC", hash: "sha256", curve: "prime256v1" },
  ES384: { kty: "EC", hash: "sha384", curve: "secp384r1" }
}

/** Bits of an RSA key (RFC 7518, section 3.3). */
const MIN_MODULUS = 2048

/** An unchecked token. */
export interface Token {
  readonly algorithm: string
  readonly keyId: string
  readonly claims: Json
  readonly content: string
  readonly signature: Buffer
}

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const objectIn = (part: string): Json | null => {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"))
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

/** `null`: the text is not a token, or has extensions that must be understood. */
export const parse = (text: string): Token | null => {
  if (text.length > MAX_LENGTH || !/^(?:[\w-]+\.){2}[\w-]+$/u.test(text)) return null
  const [first = "", second = "", third = ""] = text.split(".")
  const [header, claims] = [objectIn(first), objectIn(second)]
  if (header === null || claims === null || Object.hasOwn(header, "crit")) return null
  const { alg, kid } = header
  if (typeof alg !== "string" || typeof kid !== "string") return null
  return { algorithm: alg, keyId: kid, claims, content: `${first}.${second}`, signature: Buffer.from(third, "base64url") }
}

/** The published key that the token names; `null`: no such key for its algorithm. */
export const keyFor = ({ algorithm, keyId }: Token, keys: ReadonlyArray<unknown>): KeyObject | null => {
  const wanted = Object.hasOwn(ALGORITHMS, algorithm) ? ALGORITHMS[algorithm] : undefined
  if (wanted === undefined) return null
  for (const key of keys) {
    if (!isObject(key) || key["kid"] !== keyId || key["kty"] !== wanted.kty) continue
    if ((key["use"] ?? "sig") !== "sig" || (key["alg"] ?? algorithm) !== algorithm) continue
    try {
      const found = createPublicKey({ key: key as JsonWebKey, format: "jwk" })
      const { modulusLength = 0, namedCurve } = found.asymmetricKeyDetails ?? {}
      if (wanted.curve === undefined ? modulusLength >= MIN_MODULUS : namedCurve === wanted.curve) return found
    } catch {
      // Not a key: others may have the same id.
    }
  }
  return null
}

/** Whether the key signed the token. The key is one of {@link keyFor}. */
export const isSignedBy = ({ algorithm, content, signature }: Token, key: KeyObject): boolean =>
  verify(ALGORITHMS[algorithm]?.hash, Buffer.from(content), { key, dsaEncoding: "ieee-p1363" }, signature)

/** Whether the token is valid at `now`. `tolerance`: by how much the clocks may differ. Both in seconds. */
export const isTimely = ({ exp, iat, nbf }: Json, now: number, tolerance: number): boolean =>
  typeof exp === "number" && now < exp + tolerance &&
  typeof iat === "number" && iat <= now + tolerance &&
  (nbf === undefined || typeof nbf === "number" && nbf <= now + tolerance)
