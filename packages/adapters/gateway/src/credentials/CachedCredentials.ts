/**
 * Credentials that expire: kept, replaced before they expire, and asked for once however many requests need them. A source that hangs is
 * given up after some seconds, and is not asked again at once.
 */

/** Credentials as a source gives them. Times are in milliseconds since 1970. */
export interface Fetched<A> {
  readonly value: A
  /** They cannot be used later; `Infinity`: they do not expire. */
  readonly expiresAt: number
}

export interface Source<A> {
  /** Loads what `fetch` needs of this machine. It has no time limit. */
  readonly load?: () => Promise<unknown>
  /** May ignore the signal: it is given up all the same. */
  readonly fetch: (signal: AbortSignal) => Promise<Fetched<A>>
  readonly now?: () => number
  readonly timeoutMillis?: number
}

/** From here on new ones are asked for, while the present ones are still used. Clouds have new ones 5 to 15 minutes before the end. */
const REFRESH_MILLIS = 5 * 60_000
/** From here on requests wait for new ones: a request may wait a minute for its budget before it is sent. */
const WAIT_MILLIS = 2 * 60_000
/** Credentials without an expiry are read again after this time, because a file may have been replaced. */
const REREAD_MILLIS = 10 * 60_000
const TIMEOUT_MILLIS = 10_000
/** The pause after a failure, in which requests get that failure again. */
const PAUSE_MILLIS = 5000

/** The source did not answer. */
export class SourceTimeout extends Error {}

export class CachedCredentials<A> {
  readonly #source: Source<A>
  readonly #now: () => number
  #current: (Fetched<A> & { readonly fetchedAt: number }) | null = null
  #fetching: Promise<A> | null = null
  #failure: { readonly at: number; readonly error: unknown } | null = null

  constructor(source: Source<A>) {
    this.#source = source
    this.#now = source.now ?? Date.now
  }

  /** Rejects with the source's error or {@link SourceTimeout}. */
  async get(): Promise<A> {
    const current = this.#current
    if (current === null) return this.#fetch()
    const now = this.#now()
    const left = current.expiresAt - now
    const isFresh = left > REFRESH_MILLIS && (left !== Infinity || now - current.fetchedAt < REREAD_MILLIS)
    if (isFresh) return current.value
    const fetching = this.#fetch()
    if (left > WAIT_MILLIS) {
      // A failure shows when they are needed.
      fetching.catch(() => {})
      return current.value
    }
    try {
      return await fetching
    } catch (error) {
      if (current.expiresAt > this.#now()) return current.value
      throw error
    }
  }

  /** The provider refused these credentials: the next request gets new ones. */
  refuse(): void {
    this.#current = null
  }

  #fetch(): Promise<A> {
    if (this.#fetching !== null) return this.#fetching
    if (this.#failure !== null && this.#now() - this.#failure.at < PAUSE_MILLIS) return Promise.reject(this.#failure.error)
    const fetching = this.#limited().then((fetched) => {
      this.#current = { ...fetched, fetchedAt: this.#now() }
      this.#failure = null
      return fetched.value
    }, (error: unknown) => {
      this.#failure = { at: this.#now(), error }
      throw error
    }).finally(() => {
      this.#fetching = null
    })
    this.#fetching = fetching
    return fetching
  }

  async #limited(): Promise<Fetched<A>> {
    await this.#source.load?.()
    const controller = new AbortController()
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        controller.abort()
        reject(new SourceTimeout())
      }, this.#source.timeoutMillis ?? TIMEOUT_MILLIS)
    })
    try {
      return await Promise.race([this.#source.fetch(controller.signal), timeout])
    } finally {
      clearTimeout(timer)
    }
  }
}
