/** Limits of one sandbox's running requests, so that no sandbox takes the service's memory from the others. */

export interface Bounds {
  /** Requests of one session, from their head until the end of their answer. */
  readonly requests: number
  /** Bytes of the bodies of these requests. */
  readonly bytes: number
  /** Bytes of all sessions' bodies together. Above it, each session still gets its share. */
  readonly totalBytes: number
}

/** One admitted request. */
export interface Entry {
  /** Whether `bytes` more of its body may be held. */
  hold(bytes: number): boolean
  /** Its request has ended. */
  leave(): void
}

export class Admission {
  readonly #bounds: Bounds
  #total = 0
  #sessions = 0

  constructor(bounds: Bounds) {
    this.#bounds = bounds
  }

  /** The admission of one session. */
  open() {
    let requests = 0
    let bytes = 0
    this.#sessions++
    return {
      /** `null`: too many requests are running. */
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
