/** What one sandbox may have under way at the gateway at once, so that none takes the service's memory from the others. */

export interface Bounds {
  /** Requests of one session, from their head until the end of their answer. */
  readonly requests: number
  /** Bytes of the bodies of these requests. */
  readonly bytes: number
  /** Bytes of the bodies of all sessions together. Beyond them each may still have its share. */
  readonly totalBytes: number
}

/** One request that was let in. */
export interface Entry {
  /** Whether `bytes` more of its body may be held. */
  hold(bytes: number): boolean
  /** Its request is over. */
  leave(): void
}

export class Admission {
  readonly #bounds: Bounds
  #total = 0
  #sessions = 0

  constructor(bounds: Bounds) {
    this.#bounds = bounds
  }

  /** A session's own door. */
  open() {
    let requests = 0
    let bytes = 0
    this.#sessions++
    return {
      /** `null`: too many are under way. */
      enter: (): Entry | null => {
        if (requests >= this.#bounds.requests) return null
        requests++
        let held = 0
        return {
          hold: (more) => {
            const share = this.#total + more <= this.#bounds.totalBytes ? this.#bounds.bytes : this.#bounds.totalBytes / this.#sessions
            if (bytes + more > Math.min(share, this.#bounds.bytes)) return false
            held += more
            bytes += more
            this.#total += more
            return true
          },
          leave: () => {
            requests--
            bytes -= held
            this.#total -= held
            held = 0
          }
        }
      },
      close: () => {
        this.#sessions--
      }
    }
  }
}

export type Door = ReturnType<Admission["open"]>
