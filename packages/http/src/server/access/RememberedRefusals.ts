/** Keys that are at a limit: a repeated request is refused without asking the store (docs/decisions/10). */
import type { Admission } from "@slipway/domain/access/ports/AccessStore"
import { LruCache } from "@slipway/domain/store/LruCache"

/** So long a refusal is good, unless a right was lost meanwhile. */
const GOOD_MILLIS = 1_000
/** Keys of which a refusal is remembered, in each process. */
const MAX_KEYS = 10_000

/** `digest`: of the key. Times are milliseconds since 1970. */
export const make = () => {
  const byDigest = new LruCache<string, { readonly admission: Admission; readonly at: number }>(MAX_KEYS)
  return {
    isEmpty: () => byDigest.size === 0,
    /** One with a slot, or to which a slot may open within the second, is not remembered. */
    remember: (digest: string, admission: Admission, at: number) => {
      byDigest.delete(digest)
      if (admission.rate.accepted || admission.rate.resetSeconds < 2) return
      byDigest.set(digest, { admission, at })
    },
    /** The refusal with what is left of its seconds; `null`: the store has to be asked. */
    find: (digest: string, now: number): Admission | null => {
      const known = byDigest.get(digest)
      if (known === undefined) return null
      const { admission, at } = known
      if (now < at || now >= at + GOOD_MILLIS) {
        byDigest.delete(digest)
        return null
      }
      return { ...admission, rate: { ...admission.rate, resetSeconds: Math.ceil(admission.rate.resetSeconds - (now - at) / 1_000) } }
    },
    forget: () => byDigest.clear()
  }
}
