/** A trust in a CI: whose OIDC tokens are exchanged for short-lived keys of a grant. */
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import type { Scope } from "./Principal.ts"

/** Where the issuer's metadata are: `iss` of its tokens, without a query. */
export const CiIssuer = text(1, 500).check(
  Schema.makeFilter(
    (issuer) => {
      if (!URL.canParse(issuer)) return false
      const { hash, password, protocol, search, username } = new URL(issuer)
      return (protocol === "https:" || protocol === "http:") && [hash, password, search, username].every((part) => part === "")
    },
    {
      expected: "the address of an issuer, such as https://gitlab.example.com",
      arbitraryConstraint: { patterns: [{ source: "^https://[a-z]{1,8}\\.example\\.com$", flags: "" }] }
    }
  )
)

/** The `aud` of a token. */
export const CiAudience = text(1, 500)

/** A trust as every store keeps it. Ids are UUIDs except `userId`. */
export interface CiTrust {
  readonly id: string
  readonly grantId: string
  /** The creator, for whom the keys act. */
  readonly userId: string
  readonly issuer: string
  readonly audience: string
  readonly claims: Readonly<Record<string, string>>
  readonly scopes: ReadonlyArray<Scope>
  readonly createdAt: DateTime.Utc
}
