/** The record of one simulation: its lines, their digest, the number of events of each kind, and the broken rule. */

/** A rule that did not hold. */
export interface Broken {
  readonly rule: string
  readonly detail: string
  readonly step: number
}

const KEPT = 30

/** The lines of the simulation, with a digest over all of them. */
export class Trace {
  readonly counts = new Map<string, number>()
  broken: Broken | null = null
  readonly #whole: boolean
  readonly #at: { readonly now: number; readonly steps: number }
  #lines: Array<string> = []
  #start: number
  #high = 0x811c9dc5
  #low = 0x41c6ce57

  /** `whole`: keeps every line, not the last ones alone. */
  constructor(whole: boolean, at: { readonly now: number; readonly steps: number }) {
    this.#whole = whole
    this.#at = at
    this.#start = at.now
  }

  add(line: string): void {
    const { now, steps } = this.#at
    const told = `${String(steps).padStart(6)} ${((now - this.#start) / 1000).toFixed(3).padStart(8)}s ${line}`
    // cyrb53 in steps: two sums that differ, so that runs that differ hardly ever have one digest.
    for (let i = 0; i < told.length; i++) {
      const code = told.charCodeAt(i)
      this.#high = Math.imul(this.#high ^ code, 2654435761)
      this.#low = Math.imul(this.#low ^ code, 1597334677)
    }
    this.#lines.push(told)
    if (!this.#whole && this.#lines.length > 4 * KEPT) this.#lines = this.#lines.slice(-KEPT)
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1)
  }

  /** Only the first broken rule is reported. */
  breaks(rule: string, detail: string): void {
    this.broken ??= { rule, detail, step: this.#at.steps }
    this.add(`BROKEN ${rule}: ${detail}`)
  }

  get lines(): ReadonlyArray<string> {
    return this.#whole ? this.#lines : this.#lines.slice(-KEPT)
  }

  /** Equal for equal runs. */
  get digest(): string {
    return [this.#high, this.#low].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("")
  }
}
