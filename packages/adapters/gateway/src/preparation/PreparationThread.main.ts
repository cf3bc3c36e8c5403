/** Prepares large requests one after the other, away from the main thread. See `Preparer`. */
import type { Upstream } from "@slipway/domain/models/schema/ModelCatalogue"
import { parentPort } from "node:worker_threads"
import { type AddressRule, prepare } from "./Preparation.ts"
import * as Transfer from "./Transfer.ts"

export interface Task {
  readonly id: number
  readonly bytes: Uint8Array
  readonly upstream: Upstream
  readonly free: boolean
  readonly addresses: AddressRule
}

parentPort?.on("message", ({ addresses, bytes, free, id, upstream }: Task) => {
  const prepared = prepare(bytes, upstream, free, addresses)
  parentPort?.postMessage({ id, prepared }, prepared === null || "field" in prepared ? [] : Transfer.of(prepared.body))
})
