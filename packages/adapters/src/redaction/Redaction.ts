/**
 * Takes secrets out of text before it leaves the process: the values it was told of, in every form they travel in, and
 * whatever has the shape of a secret, which needs no telling. What it finds too much is the price of finding enough.
 */
import { Context } from "effect"
import { shapes } from "./Shapes.ts"

export const SHOWN = "[redacted]"

/** Shorter ones would be found everywhere. */
const SHORTEST = 8

/** The characters of base64 that say nothing but `bytes`, wherever these begin in what was encoded. */
const inBase64 = (bytes: Buffer): ReadonlyArray<string> =>
  [0, 1, 2].map((before) =>
    Buffer.concat([Buffer.alloc(before), bytes]).toString("base64").slice(
      Math.ceil(before * 8 / 6),
      Math.floor((before + bytes.length) * 8 / 6)
    )
  )

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

const SHAPES = new RegExp(shapes.map(({ pattern }) => pattern).join("|"), "gi")

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

  /**
   * The text without the secrets it was told of. For what people judge: by its shape more could be made to disappear, such
   * as the command in `token=$(…)`.
   */
  redactValues(text: string): string {
    return text.replace(this.#values ??= this.#build(), SHOWN)
  }

  /** The text without secrets. */
  redact(text: string): string {
    // First the values: a shape may end in the middle of one.
    return this.redactValues(text)
      // Of the groups, one at most is there; behind them stand the place and the text.
      .replace(SHAPES, (_, ...groups: ReadonlyArray<unknown>) => `${groups.slice(0, -2).find((kept) => kept !== undefined) ?? ""}${SHOWN}`)
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
