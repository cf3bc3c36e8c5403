/** Keeps the most recently used values within a total weight. The least recently used value is dropped first. */
export class LruCache<K, V> {
  readonly #most: number
  readonly #weightOf: (value: V, key: K) => number
  /** In the order of their last use. */
  readonly #kept = new Map<K, { readonly value: V; readonly weight: number }>()
  #weight = 0

  /** `weightOf`: the weight of an entry, such as its bytes. Without it `most` is a number of entries. */
  constructor(most: number, weightOf: (value: V, key: K) => number = () => 1) {
    this.#most = most
    this.#weightOf = weightOf
  }

  get size(): number {
    return this.#kept.size
  }

  has(key: K): boolean {
    return this.#kept.has(key)
  }

  /** Counts as a use. */
  get(key: K): V | undefined {
    const found = this.#kept.get(key)
    if (found === undefined) return undefined
    this.#kept.delete(key)
    this.#kept.set(key, found)
    return found.value
  }

  /** Replaces the value of the key. A value heavier than the whole cache is not kept. */
  set(key: K, value: V): void {
    this.delete(key)
    const weight = this.#weightOf(value, key)
    if (weight > this.#most) return
    this.#kept.set(key, { value, weight })
    this.#weight += weight
    for (const oldest of this.#kept.keys()) {
      if (this.#weight <= this.#most) return
      this.delete(oldest)
    }
  }

  delete(key: K): void {
    this.#weight -= this.#kept.get(key)?.weight ?? 0
    this.#kept.delete(key)
  }

  clear(): void {
    this.#kept.clear()
    this.#weight = 0
  }
}
