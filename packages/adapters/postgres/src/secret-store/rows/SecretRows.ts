/** Rows of secrets and of trusted refs. */
import type { SecretKey } from "@slipway/domain/environment/ports/SecretStore"
import { Schema } from "effect"
import { Instant } from "../../sql/Instant.ts"

export const Record = Schema.Struct({ repo: Schema.String, name: Schema.String, createdAt: Instant, setAt: Instant })
/** Its columns, of the table as `s`. */
export const COLUMNS = `s.repo, s.name, s.created_at AS "createdAt", s.set_at AS "setAt"`

export const RefRecord = Schema.Struct({ repo: Schema.String, ref: Schema.String, listedAt: Instant })
/** Its columns, of the table as `r`. */
export const REF_COLUMNS = `r.repo, r.ref, r.listed_at AS "listedAt"`

/** An encrypted value. */
export const Sealed = Schema.RedactedFromValue(Schema.String)

/** The purpose that a value is encrypted for. Neither a name nor a UUID has a slash, so no two secrets have the same purpose. */
export const aboutOf = ({ grantId, name, repo }: SecretKey) => `repository/${grantId}/${repo.toLowerCase()}/${name}`
