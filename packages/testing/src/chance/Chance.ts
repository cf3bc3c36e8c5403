/** The choices of a seed. The same seed draws the same numbers for ever, so a failing run can be repeated. */

/** splitmix32: every 32-bit state is met once before the first one comes again. */
export class Chance {
  #state: number

  constructor(seed: number) {
    this.#state = seed | 0
  }

  /** In [0, 1). */
  next(): number {
    this.#state = this.#state + 0x9e3779b9 | 0
    let word = this.#state ^ this.#state >>> 16
    word = Math.imul(word, 0x21f0aaad)
    word ^= word >>> 15
    word = Math.imul(word, 0x735a2d97)
    return ((word ^ word >>> 15) >>> 0) / 2 ** 32
  }

  /** An integer from `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  is(probability: number): boolean {
    return this.next() < probability
  }

  /** One of at least one item. */
  pick<A>(items: ReadonlyArray<A>): A {
    return items[Math.floor(this.next() * items.length)]!
  }

  /** One of the items, as often as its weight says. */
  weighted<A>(items: ReadonlyArray<readonly [weight: number, item: A]>): A | undefined {
    let left = this.next() * items.reduce((sum, [weight]) => sum + weight, 0)
    for (const [weight, item] of items) if ((left -= weight) < 0) return item
    return undefined
  }

  /** Draws of its own: what is drawn there changes nothing here. */
  fork(): Chance {
    return new Chance(this.next() * 2 ** 32)
  }
}
