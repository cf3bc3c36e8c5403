/** Decides which trust a CI's token fits. Pure functions; the token's signature and times were checked before. */
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import type { CiTrust } from "../schema/CiTrust.ts"
import type { Claims } from "./Entry.ts"

/** The life of an exchanged key. */
export const CI_KEY_LIFE = Duration.minutes(10)

/** The most trusts of one grant. */
export const MAX_CI_TRUSTS = 50

/** Claims of one trust. Tokens of GitHub have 30, of GitLab 35. */
const MAX_CLAIMS = 10

/** The claims that name a repository: GitHub's, its unchanging id, and the same of GitLab. A trust has one of them. */
const REPOSITORY_CLAIMS = ["repository", "repository_id", "project_path", "project_id"] as const

const CLAIM_NAME = /^[a-z][a-z0-9_]{0,63}$/u

/** Claims and the exact values that a token must have. One names the repository, or every repository of the issuer could enter. */
export const CiClaims = Schema.Record(Schema.String, text(1, 500)).check(
  // A check of the names alone would leave out claims with other ones, and the trust would fit more tokens.
  Schema.makeFilter((claims) => Object.keys(claims).every((name) => CLAIM_NAME.test(name)), { expected: "names of claims, such as ref" }),
  Schema.makeFilter((claims) => Object.keys(claims).length <= MAX_CLAIMS, { expected: `at most ${MAX_CLAIMS} claims` }),
  Schema.makeFilter((claims) => REPOSITORY_CLAIMS.some((name) => Object.hasOwn(claims, name)), {
    expected: `a claim with the repository: ${REPOSITORY_CLAIMS.join(", ")}`
  })
)

/** The token is not exchanged. One text for all causes: strangers must not learn which trusts there are. Retrying does not help. */
export class CiTokenRefused extends Data.TaggedError("CiTokenRefused") {
  override get message() {
    return "The token is invalid or expired, or no trust fits its issuer, audience and claims."
  }
}

const isFor = (audience: unknown, expected: string): boolean =>
  audience === expected || Array.isArray(audience) && audience.length <= 100 && audience.includes(expected)

/** Whether a token with these claims fits the trust. Values are compared exactly, as texts. */
export const fits = ({ audience, claims: expected, issuer }: CiTrust, claims: Claims): boolean =>
  claims["iss"] === issuer && isFor(claims["aud"], audience) &&
  Object.entries(expected).every(([name, value]) => Object.hasOwn(claims, name) && claims[name] === value)

/** The claims that tell people of a run: repository, ref and the id of the run or job. */
const RUN_CLAIMS = [["repository", "project_path"], ["ref"], ["run_id", "pipeline_id"]] as const

/** UTF-16 units of one shown claim. */
const MAX_SHOWN = 100

/** One line of visible text: claims come from a repository, and are shown as the name of a key. */
const shown = (claim: unknown): string =>
  (typeof claim === "string" || typeof claim === "number" ? String(claim) : "").replaceAll(/[^!-~]/gu, "?").slice(0, MAX_SHOWN)

/** The name of a run's key, such as `ci: acme/web refs/heads/main 4711`. */
export const ciKeyLabel = (claims: Claims): string =>
  ["ci:", ...RUN_CLAIMS.map((names) => shown(names.map((name) => claims[name]).find((claim) => claim !== undefined)))]
    .filter((part) => part !== "").join(" ")
