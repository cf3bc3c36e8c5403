/**
 * The cursor of a list: its last position, signed for the grant, so that clients can neither invent one nor use another grant's.
 * 16 bytes of HMAC-SHA256, then `<createdAt in ms> <sandbox id>`, all base64url.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { ListPosition } from "@slipway/domain/sandbox/ports/SandboxStore"
import { DateTime, Option, Redacted, Schema } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"

const TAG_BYTES = 16

const isSandboxId = Schema.is(SandboxId)

const tagOf = (key: Redacted.Redacted, grantId: string, position: string) =>
  createHmac("sha256", Redacted.value(key)).update(`list ${grantId} ${position}`).digest().subarray(0, TAG_BYTES)

export const encode = (key: Redacted.Redacted, grantId: string, { createdAt, id }: ListPosition): string => {
  const position = `${DateTime.toEpochMillis(createdAt)} ${id}`
  return Buffer.concat([tagOf(key, grantId, position), Buffer.from(position)]).toString("base64url")
}

/** None: not a cursor this grant was given. */
export const decode = (key: Redacted.Redacted, grantId: string, cursor: string): Option.Option<ListPosition> => {
  const bytes = Buffer.from(cursor, "base64url")
  const position = bytes.subarray(TAG_BYTES).toString()
  // One spelling only: base64 tolerates characters that mean nothing.
  if (bytes.length <= TAG_BYTES || bytes.toString("base64url") !== cursor) return Option.none()
  if (!timingSafeEqual(bytes.subarray(0, TAG_BYTES), tagOf(key, grantId, position))) return Option.none()
  const [millis = "", id = ""] = position.split(" ")
  return isSandboxId(id) ? Option.some({ createdAt: DateTime.makeUnsafe(Number(millis)), id }) : Option.none()
}
