/**
 * Follows which keys and grants are valid, and reports answers to an invalid key and refusals of a valid one (docs/decisions/9). A
 * revocation counts from the moment in which its caller was told that it is done.
 */
import type { Timeline } from "./Timeline.ts"
import type { Trace } from "./Trace.ts"

/** How long a stream that is open may still be told something; milliseconds. A second is promised, and calls may come late. */
const LATE = 5_000

interface Revocation {
  /** Until then the revocation may or may not work already; epoch milliseconds, `null`: not done yet. */
  doneAt: number | null
}

export class RightsWitness {
  /** Since when all calls are answered at once; epoch milliseconds, `null`: they are not. */
  calmSince: number | null = null
  /** By key or grant. */
  readonly #revoked = new Map<string, Revocation>()
  readonly #timeline: Timeline
  readonly #trace: Trace

  constructor(timeline: Timeline, trace: Trace) {
    this.#timeline = timeline
    this.#trace = trace
  }

  /** Somebody asks for the end of a key or grant; the answer is a call of what is returned. */
  revokes(id: string): () => void {
    const revocation = this.#revoked.get(id) ?? { doneAt: null }
    this.#revoked.set(id, revocation)
    return () => {
      revocation.doneAt ??= this.#timeline.now
    }
  }

  /** Whether it works no longer; `null`: it is known of neither. */
  isRevoked(...ids: ReadonlyArray<string>): boolean | null {
    const known = ids.flatMap((id) => this.#revoked.get(id) ?? [])
    return known.some(({ doneAt }) => doneAt !== null) ? true : known.length > 0 ? null : false
  }

  /** Since when a grant is known to be revoked; epoch milliseconds, `null`: it is good, as far as is known. */
  revokedAt(id: string): number | null {
    return this.#revoked.get(id)?.doneAt ?? null
  }

  /** A request goes out. What is returned is told what came of it. */
  asks(key: string, grantId: string): { readonly answered: (what: string) => void; readonly refused: () => void } {
    const wasRevoked = this.isRevoked(key, grantId) === true
    return {
      answered: (what) => this.#rule("a request with a revoked key is not answered", !wasRevoked, `${what} with ${key} of ${grantId}`),
      refused: () => {
        this.#trace.count(wasRevoked ? "requests refused after a revocation" : "requests refused during a revocation")
        this.#rule("a request with a valid key is not refused", this.isRevoked(key, grantId) !== false, `${key} of ${grantId}`)
      }
    }
  }

  /** A stream that was opened with this key tells something. */
  streams(key: string, grantId: string, what: string): void {
    if (this.calmSince === null) return
    const revokedAt = Math.min(this.#revoked.get(key)?.doneAt ?? Infinity, this.#revoked.get(grantId)?.doneAt ?? Infinity)
    const since = Math.max(revokedAt, this.calmSince)
    this.#rule("a stream ends with the right to it", this.#timeline.now - since <= LATE, `${what} with ${key} of ${grantId}`)
  }

  /** A sandbox ends since its grant was revoked. */
  ended(id: string, grantId: string): void {
    this.#rule("no sandbox ends for a grant that is good", this.isRevoked(grantId) !== false, `${id} of ${grantId}`)
  }

  /** A sandbox is as it is since then. */
  keepsUp(id: string, grantId: string, status: string, since: number): void {
    const from = Math.max(this.revokedAt(grantId) ?? Infinity, since)
    this.#rule(
      "the sandboxes of a revoked grant are ended",
      from > this.#timeline.now - LATE || !["queued", "creating", "running"].includes(status),
      `${id} ${status} of ${grantId}`
    )
  }

  #rule(rule: string, holds: boolean, detail: string): void {
    if (!holds) this.#trace.breaks(rule, detail)
  }
}
