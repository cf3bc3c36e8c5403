/**
 * Takes secrets out of text before it leaves the process: the values it was told of, in every form they travel in, and
 * whatever has the shape of a secret, which needs no telling. What it finds too much is the price of finding enough.
 */
import { Context } from "effect"

export const SHOWN = "[redacted]"

/** Shorter ones would be found everywhere. */
const SHORTEST = 8

/** The characters of base64 that say nothing but `bytes`, wherever these begin in what was encoded. */
const inBase64 = (bytes: Buffer): ReadonlyArray<string> =>
  [0, 1, 2].map((before) =>
    Buffer.concat([Buffer.alloc(before), bytes]).toString("base64").slice(Math.ceil(before * 8 / 6), Math.floor((before + bytes.length) * 8 / 6)))

/** The value and its encodings. Those that differ in upper and lower case only are one. */
const formsOf = (value: string): ReadonlyArray<string> => {
  const secret = value.toWellFormed()
  const bytes = Buffer.from(secret)
  const hex = bytes.toString("hex")
  const base64 = inBase64(bytes)
  return [
    value,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    new URLSearchParams([["", secret]]).toString().slice(1),
    hex.replace(/../gu, "%$&"),
    hex,
    ...base64,
    ...base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"))
  ]
}

/**
 * What must not be shown of a secret: of an address its password, of a text of several lines, such as a private key,
 * each line.
 */
const partsOf = (secret: string): ReadonlyArray<string> => {
  if (URL.canParse(secret) && secret.includes("://")) {
    const { password, searchParams } = new URL(secret)
    const written = [password, searchParams.get("password") ?? ""]
    return written.flatMap((part) => {
      try {
        return [part, decodeURIComponent(part)]
      } catch {
        return [part]
      }
    })
  }
  return secret.split(/\\n|\r?\n/u).map((line) => line.trim()).filter((line) => !line.startsWith("-----"))
}

/**
 * Each alternative either takes at least one step for each character it looks at and starts at no other's middle, or is
 * bounded: the time is linear in the text, whoever wrote it. The first groups are what is kept.
 */
const SHAPES = new RegExp([
  // `password=…`, `"token": "…"`, `__Host-slipway_session=…`, `cookie: '…'`; `?code=…&state=…` of a sign-in
  String.raw`((?:passw(?:or)?d|secret|token|session|cookie|oauth|verifier|csrf|api[_-]?key|authorization)[\\"']{0,2}\s{0,4}(?:=|%3D|:\s{0,4}[\\"']{1,2})[\\"']{0,2}|[?&](?:code|state)=)[^\s"'&;,\\]+`,
  String.raw`(authorization\s{0,4}:\s{0,4}(?:[a-z]{1,20}\s{1,4})?)[^\s"',;\\]+`,
  String.raw`(bearer(?:\s|%20|\+){1,4})[^\s"',;\\]+`,
  // Of an address: up to the last @ before the path.
  String.raw`(\/\/)[^\s/?#"']+(?=@)`,
  String.raw`-----BEGIN[A-Z ]{0,40}PRIVATE KEY-----[^]*?(?:-----END[A-Z ]{0,40}PRIVATE KEY-----|$)`,
  // Slipway's, webhook secrets, GitHub's, providers', JWTs.
  String.raw`sbx_(?:live|test)_[\w-]+|whsec_[\w+/=%-]+|gh[a-z]_\w{16,}|github_pat_\w+|\bsk-[\w-]{16,}|(?<![\w-])eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*`,
  // Tokens of sessions, of links that sign in and of the model gateway: 43 characters of base62. No digest in hex.
  String.raw`(?<![a-z0-9])(?![0-9a-f]+(?![a-z0-9]))[a-z0-9]{43,}`
].join("|"), "gi")

/** Never matches. */
const NOTHING = /(?!)/u

export class Redactor {
  readonly #secrets = new Set<string>()
  /** `null`: to be made of the secrets. */
  #values: RegExp | null = NOTHING

  /** From now on the secret is not shown. One of less than 8 characters is not remembered. */
  learn(secret: string): void {
    for (const part of partsOf(secret)) {
      if (part.length < SHORTEST || this.#secrets.has(part) || SHOWN.includes(part)) continue
      this.#secrets.add(part)
      this.#values = null
    }
  }

  /** The text without secrets. */
  redact(text: string): string {
    // First the values: a shape may end in the middle of one.
    return text.replace(this.#values ??= this.#build(), SHOWN)
      .replace(SHAPES, (_, named = "", header = "", bearer = "", address = "") => `${named}${header}${bearer}${address}${SHOWN}`)
  }

  #build(): RegExp {
    const forms = new Set([...this.#secrets].flatMap(formsOf))
    // The longest first: one may begin another.
    const ordered = [...forms].toSorted((a, b) => b.length - a.length)
    return new RegExp(ordered.map((form) => form.replaceAll(/[\\^$.*+?()[\]{}|/]/gu, "\\$&")).join("|"), "gi")
  }
}

/** The one of this process, unless another one is provided. */
export const Redaction = Context.Reference<Redactor>("@slipway/adapters/Redaction", { defaultValue: () => new Redactor() })
