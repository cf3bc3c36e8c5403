/**
 * Rows of sandboxes as this process wrote them last. Another process may have changed one meanwhile: nothing is done by what is known
 * here unless the statement that does it finds the row to be that very version.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { workOf } from "@slipway/domain/sandbox/rules/LeaseRules"
import type { Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { LruCache } from "@slipway/domain/store/LruCache"

export interface CachedRow {
  readonly sandbox: Sandbox
  /** The fence of the newest lease. */
  readonly fence: number
  /** `xmin` of the row: the transaction that wrote it so. Whatever changes any column makes it another one. */
  readonly version: string
}

/** Twice the most that one worker has at work. */
const MOST = 64

export class RowCache {
  readonly #rows = new LruCache<SandboxId, CachedRow>(MOST)

  find(id: SandboxId): CachedRow | undefined {
    return this.#rows.get(id)
  }

  /** Once it is committed. Of a sandbox without work nothing more is expected, and what waits for one is up to 600,000 characters. */
  remember(row: CachedRow): void {
    const { sandbox } = row
    this.#rows.delete(sandbox.id)
    if (workOf(sandbox) === null || sandbox.waiting.length > 0) return
    this.#rows.set(sandbox.id, row)
  }
}
