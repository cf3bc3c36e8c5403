/**
 * How a runner that was started before its sandbox was known gets to know it: one request of HTTP over TLS 1.3, by keys of the pool that
 * it waits in. `docs/runner.md` describes it.
 */
import type { Settings } from "./RunnerSettings.ts"

export const PATH = "/adopt"

/** Of a request's body: keys and names. Ours have some 3 KiB. */
export const BODY_BYTES = 64 * 1024

/** A connection has so long for all of it. */
export const PATIENCE_MILLIS = 10_000

/** What is asked of a runner that waits. */
export interface Adoption {
  /** Which machine is meant: an address may be another's by the time that it is dialled. */
  readonly machine: string
  /** Of the lease it is adopted under: of an older one the runner hears nothing from then on. */
  readonly fence: number
  /** Where it listens, it knows itself. */
  readonly settings: Omit<Settings, "listen" | "beatMillis" | "silenceMillis">
}
