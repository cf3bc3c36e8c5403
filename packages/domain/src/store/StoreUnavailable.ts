import * as Schema from "effect/Schema"

/**
 * The store cannot answer now (connection lost, lock timeout). The same call may succeed later. Nothing was written, unless
 * the connection was lost at the commit: then only the answer may be missing.
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  cause: Schema.Defect(),
  /** What is not available where that is not the store: sentences for people that name no path. */
  detail: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return this.detail ?? "The store is not available."
  }
}
