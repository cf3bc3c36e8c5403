import { Schema } from "effect"

/**
 * The bundled Postgres cannot run. A retry helps only for `InUse`.
 * - `NoBinaries`: there are none for this platform, or they do not run here.
 * - `NoAccount`: this process is root, which Postgres refuses, and there is no other account for it.
 * - `InUse`: another living process runs the server of this data folder.
 * - `Failed`: everything else; `detail` has the text of the operating system or of Postgres.
 */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  reason: Schema.Literals(["NoBinaries", "NoAccount", "InUse", "Failed"]),
  /** A sentence with the problem. */
  detail: Schema.String,
  /** A sentence with the operator's remedy. */
  hint: Schema.String
}) {
  override get message() {
    return `${this.detail} ${this.hint}`
  }
}
