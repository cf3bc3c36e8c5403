import { Schema } from "effect"

/** Sandboxes cannot be isolated here. */
export class NotIsolated extends Schema.TaggedError<NotIsolated>()("NotIsolated", {
  /** Sentences: what is missing. */
  missing: Schema.NonEmptyArray(Schema.String),
  /** Advice for the operator, best a command. */
  help: Schema.String
}) {
  override get message() {
    return `${this.missing.join(" ")} ${this.help}`
  }
}
