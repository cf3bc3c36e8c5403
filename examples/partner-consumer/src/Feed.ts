/** Slipway's partner feed over HTTP: asks for a page until it gets one, or is told why it never will. */
import { setTimeout as sleep } from "node:timers/promises"

export interface PartnerEvent {
  /** UUID, the same in every reading and every webhook. */
  readonly id: string
  /** Ascending; the cursor after this event. */
  readonly sequence: number
  /** New types may come; those one does not know count as processed. */
  readonly type: string
  readonly data: { readonly leadId: string; readonly creditAmount?: number }
  readonly createdAt: string
}

export interface Page {
  /** In the order they are to be processed. Empty: nothing new. */
  readonly data: ReadonlyArray<PartnerEvent>
  /** To be saved once all of `data` is processed. */
  readonly nextCursor: number
}

/** Reads the page after a cursor. Rejects when asking again cannot help, or when `signal` is aborted. */
export type ReadPage = (after: number, signal: AbortSignal) => Promise<Page>

/** Asking again cannot help: the key, the address or the cursor is wrong. */
export class FeedRefused extends Error {}

const LONGEST_REQUEST_MILLIS = 30_000
const FIRST_WAIT_MILLIS = 250
const LONGEST_WAIT_MILLIS = 30_000
/** A timer takes no more than 24 days, and no server may send us to sleep for that long. */
const LONGEST_RETRY_AFTER_SECONDS = 3600

const isPage = (body: unknown): body is Page =>
  typeof body === "object" && body !== null && "data" in body && Array.isArray(body.data) && "nextCursor" in body &&
  Number.isSafeInteger(body.nextCursor)

/** Doubles with each failure, and is spread, so that consumers do not come back all at once. `retryAfter` in seconds. */
const waitMillis = (failures: number, retryAfter: string | null): number =>
  retryAfter !== null && /^\d+$/.test(retryAfter)
    ? Math.min(LONGEST_RETRY_AFTER_SECONDS, Number(retryAfter)) * 1000
    : Math.min(LONGEST_WAIT_MILLIS, FIRST_WAIT_MILLIS * 2 ** failures) * (0.5 + Math.random() / 2)

/** A page, or why there is none and what the server said about coming again. */
const attempt = async (
  url: URL,
  apiKey: string,
  signal: AbortSignal
): Promise<Page | { readonly reason: string; readonly retryAfter: string | null }> => {
  try {
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${apiKey}` },
      signal: AbortSignal.any([signal, AbortSignal.timeout(LONGEST_REQUEST_MILLIS)])
    })
    const { status } = response
    if (status === 200) {
      const body: unknown = await response.json()
      return isPage(body) ? body : { reason: "the answer is no page", retryAfter: null }
    }
    const text = await response.text()
    if (status >= 400 && status < 500 && status !== 408 && status !== 429) throw new FeedRefused(`${status} ${text}`)
    return { reason: `${status} ${text}`, retryAfter: response.headers.get("retry-after") }
  } catch (error) {
    if (error instanceof FeedRefused || signal.aborted) throw error
    // No connection, a broken connection, no answer in time, half a page.
    return { reason: String(error instanceof Error && error.cause !== undefined ? error.cause : error), retryAfter: null }
  }
}

/** The feed of the key's grant. Waits as long as it takes for a server that is busy or away. */
export const makeFeed = (baseUrl: string, apiKey: string, log: (line: string) => void): ReadPage => async (after, signal) => {
  const url = new URL(`/api/public/v1/events?after=${after}`, baseUrl)
  for (let failures = 0;; failures++) {
    const answer = await attempt(url, apiKey, signal)
    if ("data" in answer) return answer
    const millis = waitMillis(failures, answer.retryAfter)
    log(`no page after ${after}: ${answer.reason.slice(0, 200)}; asking again in ${Math.ceil(millis)} ms`)
    await sleep(millis, undefined, { signal })
  }
}
