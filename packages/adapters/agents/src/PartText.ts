/** The growing text of one message part, well-formed for the store and never longer than its limit. */
import { PART_BYTES, recordable } from "@slipway/domain/sandbox/rules/OutputLimit"
import { utf8Length } from "@slipway/domain/text/Utf8"

export class PartText {
  #text = ""
  #bytes = 0
  /** First half of a character that the next piece completes. */
  #half = ""
  #full = false

  /** The text so far. */
  get text(): string {
    return this.#text
  }

  /** `false`: the text is full. It examines only the piece, because agents send texts word by word. */
  add(piece: string): boolean {
    if (this.#full || piece === "") return false
    const joined = this.#half + piece
    this.#half = /[\uD800-\uDBFF]$/u.test(joined.slice(-1)) ? joined.slice(-1) : ""
    const whole = joined.slice(0, joined.length - this.#half.length)
    // The rest of a much longer text need not be examined.
    const added = (whole.length > PART_BYTES ? whole.slice(0, PART_BYTES + 1) : whole).toWellFormed().replaceAll("\0", "\uFFFD")
    this.#bytes += utf8Length(added)
    this.#full = this.#bytes > PART_BYTES
    this.#text += added
    if (this.#full) this.#text = recordable(this.#text)
    return true
  }
}
