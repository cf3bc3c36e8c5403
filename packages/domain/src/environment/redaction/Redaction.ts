/**
 * Takes secrets out of text before it leaves the process: the values it was told of, in every form they travel in, and
 * whatever has the shape of a secret, which needs no telling. What it finds too much is the price of finding enough.
 */
import * as Context from "effect/Context"
import { formsOf, partsOf, SHORTEST } from "./Forms.ts"
import { shapes } from "./Shapes.ts"

export const SHOWN = "[redacted]"

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
export const Redaction = Context.Reference<Redactor>("@slipway/domain/Redaction", { defaultValue: () => new Redactor() })
