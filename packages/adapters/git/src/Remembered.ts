/** What git said once and would say again: a process for each time that it is asked takes longer than most of what it does. */
export class Remembered<A> {
  readonly #most: number
  /** Who was asked for last comes last. */
  readonly #all = new Map<string, A>()

  constructor(most: number) {
    this.#most = most
  }

  get(name: string): A | undefined {
    const found = this.#all.get(name)
    if (found !== undefined) this.set(name, found)
    return found
  }

  set(name: string, what: A): void {
    this.#all.delete(name)
    this.#all.set(name, what)
    for (const oldest of this.#all.keys()) {
      if (this.#all.size <= this.#most) break
      this.#all.delete(oldest)
    }
  }
}
