/**
 * Removes secrets from text before it leaves the process: learned values in every encoding, and any text with the shape of a secret. It
 * hides too much rather than too little.
 */
import * as Context from "effect/Context"
import { formsOf, partsOf, SHORTEST } from "./Forms.ts"
import { shapes } from "./Shapes.ts"

/** Stands in the place of a secret. */
export const SHOWN = "[redacted]"

const SHAPES = new RegExp(Object.values(shapes).join("|"), "gi")

/** Never matches. */
const NOTHING = /(?!)/u

/** Redacts text. Learned values are kept for the life of the redactor. */
export class Redactor {
  readonly #secrets = new Set<string>()
  /** `null`: to be rebuilt from the secrets. */
  #values: RegExp | null = NOTHING

  /** Hides the secret from now on. Secrets shorter than 8 characters are ignored. */
  learn(secret: string): void {
    for (const part of partsOf(secret)) {
      if (part.length < SHORTEST || this.#secrets.has(part) || SHOWN.includes(part)) continue
      this.#secrets.add(part)
      this.#values = null
    }
  }

  /** Removes learned values only. For texts that people judge: redaction by shape could hide more, such as the command in `token=$(…)`. */
  redactValues(text: string): string {
    return text.replace(this.#values ??= this.#build(), SHOWN)
  }

  /** Removes learned values and all texts with the shape of a secret. */
  redact(text: string): string {
    // Values come first: a shape may end within a value.
    return this.redactValues(text)
      // At most one group matches. The position and the text follow the groups.
      .replace(SHAPES, (_, ...groups: ReadonlyArray<unknown>) => `${groups.slice(0, -2).find((kept) => kept !== undefined) ?? ""}${SHOWN}`)
  }

  #build(): RegExp {
    const forms = new Set([...this.#secrets].flatMap(formsOf))
    // Longest first: a short form may be the beginning of a longer one.
    const ordered = [...forms].toSorted((a, b) => b.length - a.length)
    return new RegExp(ordered.map((form) => form.replaceAll(/[\\^$.*+?()[\]{}|/]/gu, "\\$&")).join("|"), "gi")
  }
}

/** The redactor of this process, unless another one is provided. */
export const Redaction = Context.Reference<Redactor>("@slipway/domain/Redaction", { defaultValue: () => new Redactor() })
