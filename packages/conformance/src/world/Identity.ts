/** Derived ids, computed here and not taken from the server (docs/decisions/2.2 and 3). */
import { createHash } from "node:crypto"

/** The namespace N of every derived id. */
const NAMESPACE = Buffer.from("9ca5d5ad254d48f183859aae8e1bda6d", "hex")

/** UUIDv5 of a name under N (RFC 9562, section 5.5). */
export const derived = (name: string): string => {
  const bytes = createHash("sha1").update(NAMESPACE).update(name, "utf8").digest().subarray(0, 16)
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = bytes.toString("hex")
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-")
}

/** The id of a sandbox's turn `n`, from 1. */
export const turnId = (sandboxId: string, n: number): string => derived(`${sandboxId}/turn/${n}`)
