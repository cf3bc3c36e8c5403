/** The first so many values of what may be far more, in order, without ever keeping or sorting all of it. */
export class FirstInOrder<A> {
  #kept: Array<A> = []
  /** Nothing after it is kept. */
  #last: { readonly value: A } | undefined
  readonly #most: number
  readonly #compare: (a: A, b: A) => number
  /** Whether more was added than is kept. */
  isCut = false

  constructor(most: number, compare: (a: A, b: A) => number) {
    this.#most = most
    this.#compare = compare
  }

  add(value: A): void {
    if (this.#last !== undefined && this.#compare(value, this.#last.value) > 0) {
      this.isCut = true
      return
    }
    this.#kept.push(value)
    if (this.#kept.length >= 2 * this.#most) this.#cut()
  }

  take(): ReadonlyArray<A> {
    this.#cut()
    return this.#kept
  }

  #cut(): void {
    this.#kept.sort(this.#compare)
    if (this.#kept.length <= this.#most) return
    this.isCut = true
    this.#kept.length = this.#most
    const value = this.#kept.at(-1)
    if (value !== undefined) this.#last = { value }
  }
}
