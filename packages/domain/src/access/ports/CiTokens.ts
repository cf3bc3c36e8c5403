/** Port: the OIDC tokens of CIs. Checked by the tests of its adapter against issuers that sign for real. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import { CiTokenRefused } from "../rules/CiTrust.ts"
import type { Claims } from "../rules/Entry.ts"

/** The issuer's keys could not be read, so the token was not checked. Retrying may help. */
export class CiIssuerUnavailable extends Data.TaggedError("CiIssuerUnavailable") {
  override get message() {
    return "The keys of the token's issuer cannot be read at the moment."
  }
}

/** Tokens come from strangers: any text may be one. */
export interface CiTokensService {
  /** The issuer that the unchecked token names; `null`: the text is not a token. Sends no request. */
  issuerOf(token: Redacted.Redacted): string | null
  /** The claims of a token that this issuer signed and that is valid now. Asks only this issuer, which a trust has to name. */
  verify(token: Redacted.Redacted, issuer: string): Effect.Effect<Claims, CiTokenRefused | CiIssuerUnavailable>
}

/** Without an adapter every token is refused. */
export const CiTokens = Context.Reference<CiTokensService>("@slipway/domain/CiTokens", {
  defaultValue: () => ({ issuerOf: () => null, verify: () => Effect.fail(new CiTokenRefused()) })
})
