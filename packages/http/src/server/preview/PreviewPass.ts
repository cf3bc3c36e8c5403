/**
 * Passes admit a browser to a preview: a ticket leads it from the service's page to the preview's origin, where a cookie takes its place.
 * Both are signed, and bound to a session, a grant, a sandbox and a port.
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Duration, Option, Redacted, Schema } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"
import type { Target } from "../PreviewOrigin.ts"

/** A browser follows a redirect at once. */
export const TICKET_LIFE = Duration.seconds(30)
/** The cookie also ends with its session. */
export const COOKIE_MILLIS = 12 * 3_600_000

/** The person who looks. */
export interface Viewer {
  readonly userId: string
  readonly sessionId: string
  readonly grantId: string
}

const Pass = Schema.Struct({
  kind: Schema.Literals(["ticket", "cookie"]),
  userId: Schema.String,
  sessionId: Schema.String,
  grantId: Schema.String,
  sandboxId: SandboxId,
  port: Schema.Int,
  /** Epoch milliseconds. */
  until: Schema.Int,
  /** The secret of a ticket, which the store knows until it is used. Empty in a cookie. */
  once: Schema.String
})
export type Pass = typeof Pass.Type

/** Characters of a pass: ids have at most 64. */
const MAX_CHARACTERS = 1024

const encode = Schema.encodeSync(Schema.fromJsonString(Pass))
const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Pass))

const signature = (key: Redacted.Redacted, body: string): Buffer =>
  createHmac("sha256", Redacted.value(key)).update(`preview ${body}`).digest()

export const write = (key: Redacted.Redacted, pass: Pass): Redacted.Redacted => {
  const body = Buffer.from(encode(pass)).toString("base64url")
  return Redacted.make(`${body}.${signature(key, body).toString("base64url")}`)
}

/** The pass if it is genuine, of this kind, for this target, and not expired. */
export const read = (
  key: Redacted.Redacted,
  text: string,
  { kind, now, port, sandboxId }: Target & { readonly kind: Pass["kind"]; readonly now: number }
): Pass | null => {
  const [body = "", signed = "", ...rest] = text.length > MAX_CHARACTERS ? [] : text.split(".")
  const given = Buffer.from(signed, "base64url")
  const expected = signature(key, body)
  if (rest.length > 0 || given.length !== expected.length || !timingSafeEqual(given, expected)) return null
  const pass = Option.getOrNull(decode(Buffer.from(body, "base64url").toString("utf8")))
  return pass !== null && pass.kind === kind && pass.port === port && pass.sandboxId === sandboxId && pass.until > now ? pass : null
}
