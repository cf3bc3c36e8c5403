/** Prepares large requests one after the other, away from the main thread. See `Preparer`. */
import { parentPort } from "node:worker_threads"
import { type AddressRule, type Asked, prepare } from "./Preparation.ts"
import * as Transfer from "./Transfer.ts"

export interface Task {
  readonly id: number
  readonly asked: Asked
  readonly addresses: AddressRule
}

parentPort?.on("message", ({ addresses, asked, id }: Task) => {
  const prepared = prepare(asked, addresses)
  parentPort?.postMessage({ id, prepared }, prepared === null || "field" in prepared ? [] : Transfer.of(prepared.body))
})
