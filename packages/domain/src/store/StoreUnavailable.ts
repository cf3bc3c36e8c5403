import * as Schema from "effect/Schema"

/**
 * The store cannot answer now (connection lost, lock timeout). A retry may succeed. Nothing was written, except if the connection was
 * lost during the commit: then the result is unknown.
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  cause: Schema.Defect(),
  /** The unavailable part, if it is not the store: sentences for people without a path. */
  detail: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return this.detail ?? "The store is not available."
  }
}
