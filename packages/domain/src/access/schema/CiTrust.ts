/** A trust in a CI: whose OIDC tokens are exchanged for short-lived keys of a grant. */
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import type { Scope } from "./Principal.ts"

/** Claims of one trust. Tokens of GitHub have 30, of GitLab 35. */
const MAX_CLAIMS = 10

/** The claims that name a repository: GitHub's, its unchanging id, and the same of GitLab. A trust has one of them. */
const REPOSITORY_CLAIMS = ["repository", "repository_id", "project_path", "project_id"] as const

const CLAIM_NAME = /^[a-z][a-z0-9_]{0,63}$/u

/** Where the issuer's metadata are: `iss` of its tokens, without a query. */
export const CiIssuer = text(1, 500).check(
  Schema.makeFilter(
    (issuer) => {
      if (!URL.canParse(issuer)) return false
      const { hash, password, protocol, search, username } = new URL(issuer)
      return (protocol === "https:" || protocol === "http:") && [hash, password, search, username].every((part) => part === "")
    },
    { expected: "the address of an issuer, such as https://gitlab.example.com" }
  )
)

/** Claims and the exact values that a token must have. One names the repository, or every repository of the issuer could enter. */
export const CiClaims = Schema.Record(Schema.String, text(1, 500)).check(
  // A check of the names alone would leave out claims with other ones, and the trust would fit more tokens.
  Schema.makeFilter((claims) => Object.keys(claims).every((name) => CLAIM_NAME.test(name)), { expected: "names of claims, such as ref" }),
  Schema.makeFilter((claims) => Object.keys(claims).length <= MAX_CLAIMS, { expected: `at most ${MAX_CLAIMS} claims` }),
  Schema.makeFilter((claims) => REPOSITORY_CLAIMS.some((name) => Object.hasOwn(claims, name)), {
    expected: `a claim with the repository: ${REPOSITORY_CLAIMS.join(", ")}`
  })
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
