import { Schema } from "effect"

/**
 * The bundled Postgres cannot serve. Trying again helps only for `InUse`.
 *
 * - `NoBinaries`: none for this platform, or they do not run here.
 * - `NoAccount`: we are root, which Postgres refuses, and there is no account to give it.
 * - `InUse`: another living process runs the server of this data folder.
 * - `Failed`: everything else; `detail` carries what the operating system or Postgres said.
 */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  reason: Schema.Literals(["NoBinaries", "NoAccount", "InUse", "Failed"]),
  /** A sentence: what is wrong. */
  detail: Schema.String,
  /** A sentence: what the operator can do about it. */
  hint: Schema.String
}) {
  override get message() {
    return `${this.detail} ${this.hint}`
  }
}
