/**
 * The recovery loop of the partner feed: read the cursor; ask for what comes after it; process each event in order, once
 * each; save the next cursor with that, in one transaction; repeat until nothing comes. It may be killed anywhere.
 */
import type { ReadPage } from "./Feed.ts"
import type { Ledger } from "./Ledger.ts"
import type { Bell } from "./WakeUp.ts"

/** Processes everything there is. Ends early, between two pages, when `signal` is aborted. */
export const recover = async (readPage: ReadPage, ledger: Pick<Ledger, "cursor" | "process">, signal: AbortSignal): Promise<void> => {
  while (!signal.aborted) {
    const page = await readPage(await ledger.cursor(), signal)
    if (page.data.length === 0) return
    await ledger.process(page)
  }
}

/** Recovers again and again: every `pollMillis`, or as soon as the bell rings. Ends when `signal` is aborted. */
export const follow = async (
  readPage: ReadPage,
  ledger: Pick<Ledger, "cursor" | "process">,
  bell: Bell,
  pollMillis: number,
  signal: AbortSignal
): Promise<void> => {
  while (!signal.aborted) {
    await recover(readPage, ledger, signal)
    await bell.heard(pollMillis, signal)
  }
}
